//! The calls of the service, and what a message of each may hold: fields that take memory when decoded, with limits. Fields
//! that are not listed are scalars. A test compares the table with the compiled protocol.

use std::mem::size_of;

use super::{hub, proto};
use crate::server::advice::MOST_UNANSWERED;

/// Maximum bytes of a message that carries a few names: enough to name the one that is far too long.
const SMALL: usize = 2 << 20;

/// A call.
pub struct Call {
    pub path: &'static str,
    pub request: &'static Message,
    /// Maximum bytes of a message; `None`: as a chunk.
    pub largest: Option<usize>,
}

/// A message and those of its fields that take memory.
pub struct Message {
    pub name: &'static str,
    pub fields: &'static [Field],
}

pub struct Field {
    pub number: u32,
    /// Empty for a member of a oneof: faults do not name it.
    pub name: &'static str,
    /// Maximum number of elements, over the whole message.
    pub most: usize,
    pub kind: Kind,
}

#[derive(Clone, Copy)]
pub enum Kind {
    Text,
    /// Refers to the message's own bytes.
    Bytes,
    One(&'static Message),
    Texts,
    /// Bytes of a decoded element.
    Varints(usize),
    Doubles,
    /// Bytes of a decoded element, without what it holds.
    Messages(&'static Message, usize),
}

impl Kind {
    /// Bytes of an element of a vector; `None` if the field is no vector.
    pub fn element_bytes(self) -> Option<usize> {
        match self {
            Self::Text | Self::Bytes | Self::One(_) => None,
            Self::Texts => Some(size_of::<String>()),
            Self::Varints(bytes) | Self::Messages(_, bytes) => Some(bytes),
            Self::Doubles => Some(size_of::<f64>()),
        }
    }
}

const ANY: usize = usize::MAX;

const fn text(number: u32, name: &'static str) -> Field {
    Field { number, name, most: ANY, kind: Kind::Text }
}

const fn one(number: u32, name: &'static str, message: &'static Message) -> Field {
    // The parts of a field that is sent several times are merged; nobody does that.
    Field { number, name, most: 4, kind: Kind::One(message) }
}

const fn many(number: u32, name: &'static str, most: usize, kind: Kind) -> Field {
    Field { number, name, most, kind }
}

/// The call that streams batches.
pub const INGEST: &str = "/conceptwatch.v1.ConceptWatch/Ingest";

/// Field number of the chunk in a message of that call, and of what a chunk has for each row or tensor.
pub const CHUNK: u32 = 1;
pub const ROWS: [u32; 2] = [11, 12];

pub static CALLS: &[Call] = &[
    Call { path: INGEST, request: &INGEST_REQUEST, largest: None },
    Call { path: "/conceptwatch.v1.ConceptWatch/StartRun", request: &START_RUN, largest: None },
    Call { path: "/conceptwatch.v1.ConceptWatch/FinishRun", request: &FINISH_RUN, largest: Some(SMALL) },
    Call { path: "/conceptwatch.v1.ConceptWatch/ListRuns", request: &LIST_RUNS, largest: Some(SMALL) },
    Call { path: "/conceptwatch.v1.ConceptWatch/GetScores", request: &GET_SCORES, largest: Some(SMALL) },
    Call { path: "/conceptwatch.v1.ConceptWatch/GetSeries", request: &GET_SERIES, largest: Some(SMALL) },
    Call { path: "/conceptwatch.v1.ConceptWatch/Watch", request: &WATCH, largest: Some(SMALL) },
    Call { path: "/conceptwatch.v1.ConceptWatch/GetAdvice", request: &GET_ADVICE, largest: Some(SMALL) },
    Call { path: "/conceptwatch.v1.ConceptWatch/GetDiagnosis", request: &GET_DIAGNOSIS, largest: Some(SMALL) },
    Call { path: "/conceptwatch.v1.ConceptWatch/GetSidecar", request: &GET_SIDECAR, largest: Some(SMALL) },
    Call { path: "/conceptwatch.hub.v1.Hub/Push", request: &PUSH, largest: Some(hub::PUSH_BYTES) },
    Call { path: "/grpc.health.v1.Health/Check", request: &HEALTH, largest: Some(SMALL) },
    Call { path: "/grpc.health.v1.Health/Watch", request: &HEALTH, largest: Some(SMALL) },
    Call { path: "/grpc.health.v1.Health/List", request: &HEALTH, largest: Some(SMALL) },
];

pub fn find(path: &str) -> Option<&'static Call> {
    CALLS.iter().find(|call| call.path == path)
}

// Limits are above those of a declaration or a batch, which are checked later and name the element.

/// Two texts in each of 65,536 rows: what a chunk of the recommended size can hold.
const TEXTS: usize = 1 << 17;

static INGEST_REQUEST: Message =
    Message { name: "message", fields: &[one(1, "", &BATCH_CHUNK), one(2, "", &END_PASS)] };
static BATCH_CHUNK: Message = Message {
    name: "chunk",
    fields: &[
        text(1, "run"),
        text(2, "split"),
        text(6, "client"),
        many(11, "tensors", 64, Kind::Messages(&TENSOR, size_of::<proto::Tensor>())),
        many(12, "row_numbers", 1 << 20, Kind::Varints(4)),
        one(14, "end_pass", &NUMBERS),
    ],
};
static TENSOR: Message = Message {
    name: "tensors",
    fields: &[
        text(1, "name"),
        many(3, "shape", 1024, Kind::Varints(8)),
        Field { number: 4, name: "data", most: ANY, kind: Kind::Bytes },
        many(5, "texts", TEXTS, Kind::Texts),
    ],
};
/// A message of numbers alone.
static NUMBERS: Message = Message { name: "message", fields: &[] };
static END_PASS: Message =
    Message { name: "end_pass", fields: &[text(1, "run"), text(2, "split"), text(6, "client"), text(12, "abandoned")] };

static START_RUN: Message = Message {
    name: "message",
    fields: &[one(1, "run", &RUN), text(2, "client"), text(3, "client_version"), text(4, "job"), text(8, "process")],
};
static RUN: Message = Message {
    name: "run",
    fields: &[
        text(1, "name"),
        many(2, "concepts", 1 << 13, Kind::Messages(&CONCEPT, size_of::<proto::Concept>())),
        one(7, "constants", &CONSTANTS),
        // An entry of the map has two strings, and a table of entries is at most as sparse as a growing vector.
        many(8, "labels", 256, Kind::Messages(&LABEL, 4 * size_of::<String>())),
        text(13, "reference"),
    ],
};
static CONCEPT: Message = Message { name: "concepts", fields: &[text(1, "name")] };
static LABEL: Message = Message { name: "labels", fields: &[text(1, "key"), text(2, "value")] };
static CONSTANTS: Message = Message {
    name: "constants",
    fields: &[
        many(2, "concept_weights", 1 << 13, Kind::Doubles),
        many(3, "head_weights", ANY, Kind::Doubles),
        many(8, "concept_parts", 1 << 13, Kind::Messages(&PARTS, size_of::<proto::ConceptParts>())),
        many(12, "clarity_weights", 64, Kind::Doubles),
        many(13, "intervention_counts", 1 << 13, Kind::Varints(4)),
        many(17, "head_bias", 1 << 17, Kind::Doubles),
    ],
};
static PARTS: Message = Message { name: "concept_parts", fields: &[many(1, "parts", 1 << 18, Kind::Varints(4))] };

static FINISH_RUN: Message = Message { name: "message", fields: &[text(1, "run"), text(3, "client")] };
static LIST_RUNS: Message = Message { name: "message", fields: &[text(2, "page_token"), text(3, "search")] };
static GET_SCORES: Message = Message { name: "message", fields: &[text(1, "run"), text(2, "split")] };
static GET_SERIES: Message =
    Message { name: "message", fields: &[text(1, "run"), text(2, "split"), text(3, "score"), text(4, "concept")] };
static WATCH: Message = Message { name: "message", fields: &[many(1, "runs", 1 << 10, Kind::Texts)] };
static GET_ADVICE: Message = Message {
    name: "message",
    fields: &[text(1, "run"), text(4, "client"), many(5, "unanswered_steps", MOST_UNANSWERED, Kind::Varints(8))],
};
static GET_SIDECAR: Message = Message { name: "message", fields: &[] };
static GET_DIAGNOSIS: Message = Message { name: "message", fields: &[text(1, "run"), text(2, "split")] };

// Messages of the hub.

/// Entries of a push.
const ENTRIES: usize = 1 << 10;

static PUSH: Message = Message {
    name: "message",
    fields: &[text(1, "source"), many(2, "entries", ENTRIES, Kind::Messages(&ENTRY, size_of::<hub::proto::Entry>()))],
};
static ENTRY: Message = Message {
    name: "entries",
    fields: &[
        each(2, "", &DECLARE_RUN),
        each(3, "", &FINISH_RUN_AT),
        each(4, "", &HUB_POINT),
        each(5, "", &HUB_POINT),
        each(6, "", &UNSCORED),
        each(7, "", &JUDGEMENT),
        each(8, "", &REMARK),
        each(9, "", &REMOVE_RUN),
    ],
};
static JUDGEMENT: Message =
    Message { name: "judgement", fields: &[text(1, "run"), text(2, "split"), text(3, "rule"), text(6, "json")] };

/// Returns a field of an entry; its limit is for all entries of a push.
const fn each(number: u32, name: &'static str, message: &'static Message) -> Field {
    Field { number, name, most: 4 * ENTRIES, kind: Kind::One(message) }
}

static DECLARE_RUN: Message = Message {
    name: "declare_run",
    fields: &[each(1, "run", &RUNS), text(2, "declared_name"), each(3, "launch", &LAUNCH), text(5, "client")],
};
/// As [`RUN`], with limits for all declarations of a push.
static RUNS: Message = Message {
    name: "run",
    fields: &[
        text(1, "name"),
        many(2, "concepts", 1 << 20, Kind::Messages(&CONCEPT, size_of::<proto::Concept>())),
        each(7, "constants", &CONSTANTS_OF_RUNS),
        many(8, "labels", 1 << 17, Kind::Messages(&LABEL, 4 * size_of::<String>())),
        text(13, "reference"),
    ],
};
static CONSTANTS_OF_RUNS: Message = Message {
    name: "constants",
    fields: &[
        many(2, "concept_weights", ANY, Kind::Doubles),
        many(3, "head_weights", ANY, Kind::Doubles),
        many(8, "concept_parts", 1 << 20, Kind::Messages(&PARTS_OF_RUNS, size_of::<proto::ConceptParts>())),
        many(12, "clarity_weights", 1 << 17, Kind::Doubles),
        many(13, "intervention_counts", 1 << 22, Kind::Varints(4)),
        many(17, "head_bias", ANY, Kind::Doubles),
    ],
};
static PARTS_OF_RUNS: Message =
    Message { name: "concept_parts", fields: &[many(1, "parts", 1 << 22, Kind::Varints(4))] };
static LAUNCH: Message = Message { name: "launch", fields: &[text(1, "job")] };
static FINISH_RUN_AT: Message = Message { name: "finish_run", fields: &[text(1, "run")] };
static HUB_POINT: Message = Message {
    name: "point",
    fields: &[
        each(1, "point", &POINT),
        each(2, "launch", &LAUNCH),
        many(3, "change_errors", 1 << 17, Kind::Messages(&CHANGE_ERROR, size_of::<hub::proto::ChangeError>())),
        many(4, "matrices", 1 << 17, Kind::Messages(&MATRICES, size_of::<hub::proto::Matrices>())),
    ],
};
static CHANGE_ERROR: Message = Message { name: "change_errors", fields: &[text(1, "score")] };
static MATRICES: Message =
    Message { name: "matrices", fields: &[squares(2, "values"), squares(3, "ages"), squares(4, "adjusted")] };

const fn squares(number: u32, name: &'static str) -> Field {
    Field { number, name, most: 1 << 17, kind: Kind::One(&SQUARE) }
}

static SQUARE: Message =
    Message { name: "square", fields: &[Field { number: 2, name: "cells", most: ANY, kind: Kind::Bytes }] };
static POINT: Message = Message {
    name: "point",
    fields: &[
        text(1, "run"),
        text(2, "split"),
        text(11, "estimator"),
        many(16, "scores", 1 << 17, Kind::Messages(&SCORE, size_of::<proto::Score>())),
        many(17, "warnings", 1 << 14, Kind::Texts),
        many(18, "concept_rows", 1 << 22, Kind::Varints(8)),
    ],
};
static SCORE: Message = Message {
    name: "scores",
    fields: &[
        text(1, "id"),
        text(3, "undefined"),
        many(5, "per_concept", ANY, Kind::Doubles),
        many(6, "matrix", ANY, Kind::Doubles),
        many(8, "left_out", 1 << 22, Kind::Varints(4)),
        text(9, "left_out_why"),
        many(11, "per_concept_q", ANY, Kind::Doubles),
        many(12, "matrix_q", ANY, Kind::Doubles),
        many(13, "curve", 1 << 20, Kind::Messages(&NUMBERS, size_of::<proto::CurvePoint>())),
    ],
};
static UNSCORED: Message = Message {
    name: "unscored",
    fields: &[text(1, "run"), text(2, "split"), text(6, "reason"), each(8, "launch", &LAUNCH)],
};
static REMARK: Message = Message { name: "remark", fields: &[text(1, "run"), text(2, "title"), text(3, "note")] };
static REMOVE_RUN: Message = Message { name: "remove_run", fields: &[text(1, "run")] };
static HEALTH: Message = Message { name: "message", fields: &[text(1, "service")] };

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use prost_types::field_descriptor_proto::{Label, Type};
    use prost_types::{DescriptorProto, FileDescriptorSet};

    use super::*;

    fn described() -> FileDescriptorSet {
        let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
        protox::compile(["conceptwatch/v1/conceptwatch.proto", "conceptwatch/hub/v1/hub.proto"], [proto]).unwrap()
    }

    /// The entries of a map are nested in the message that has the map.
    fn find<'a>(messages: &'a [DescriptorProto], name: &str) -> Option<&'a DescriptorProto> {
        let here = messages.iter().find(|message| message.name() == name);
        here.or_else(|| messages.iter().find_map(|message| find(&message.nested_type, name)))
    }

    /// Compares a message's fields with those of the protocol, and goes on with the messages that it holds. `name` begins
    /// with a dot and the package.
    fn compare(listed: &'static Message, name: &str, all: &FileDescriptorSet, seen: &mut HashSet<String>) -> usize {
        if !seen.insert(name.to_owned()) {
            return 0;
        }
        let file = all.file.iter().find(|file| name.starts_with(&format!(".{}.", file.package()))).unwrap();
        let of = name.rsplit('.').next().unwrap();
        let described = find(&file.message_type, of).unwrap_or_else(|| panic!("{name}"));
        let mut counted = 0;
        for field in &described.field {
            let what = format!("{name}.{}", field.name());
            let repeated = field.label() == Label::Repeated;
            let found = listed.fields.iter().find(|listed| listed.number == field.number() as u32);
            let takes = repeated || matches!(field.r#type(), Type::String | Type::Bytes | Type::Message);
            assert_eq!(found.is_some(), takes, "{what}: listed or not");
            let Some(found) = found else { continue };
            counted += 1;
            assert!(found.name == field.name() || field.oneof_index.is_some(), "{what}: {}", found.name);
            match (field.r#type(), found.kind) {
                (Type::String, Kind::Text) => assert!(!repeated, "{what}"),
                (Type::String, Kind::Texts) => assert!(repeated, "{what}"),
                (Type::Bytes, Kind::Bytes) => assert!(!repeated, "{what}"),
                (Type::Double, Kind::Doubles) => assert!(repeated, "{what}"),
                (Type::Uint32, Kind::Varints(4)) | (Type::Uint64, Kind::Varints(8)) => assert!(repeated, "{what}"),
                (Type::Message, Kind::One(of) | Kind::Messages(of, _)) => {
                    assert_eq!(repeated, matches!(found.kind, Kind::Messages(..)), "{what}");
                    counted += compare(of, field.type_name(), all, seen);
                }
                (kind, _) => panic!("{what} is of type {kind:?}"),
            }
        }
        let numbers: HashSet<u32> = described.field.iter().map(|field| field.number() as u32).collect();
        assert!(listed.fields.iter().all(|field| numbers.contains(&field.number)), "{name} lacks a listed field");
        counted
    }

    #[test]
    fn every_field_that_takes_memory_is_listed_as_the_protocol_has_it() {
        let all = described();
        let mut methods = 0;
        for file in all.file.iter().filter(|file| !file.service.is_empty()) {
            let service = &file.service[0];
            for method in &service.method {
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                let call = super::find(&path).unwrap_or_else(|| panic!("{path} is not listed"));
                let counted = compare(call.request, method.input_type(), &all, &mut HashSet::new());
                assert!(counted <= super::super::wire::COUNTED, "{path}: {counted} fields are counted");
                methods += 1;
            }
        }
        let health = CALLS.iter().filter(|call| call.path.starts_with("/grpc.health")).count();
        assert_eq!(CALLS.len(), methods + health);
    }
}
