//! Counts a message's elements before it is decoded: the decoder has no limit, and two bytes on the wire can become a
//! `String` of 24. One pass over tags and lengths, without an allocation.

use prost::encoding::{WireType, decode_key, decode_varint};

use super::calls::{self, Field, Kind, Message};
use crate::fault::Fault;

/// Fields of one call that are counted, at most.
pub(super) const COUNTED: usize = 96;

/// How much more than its elements a growing vector takes: it doubles, and holds old and new while it copies.
const GROWTH: usize = 3;

/// [`check`] of the request of a call, such as `Ingest`; `None` if the service has no such call.
pub fn check_call(method: &str, bytes: &[u8]) -> Option<Result<usize, Fault>> {
    let call = calls::CALLS.iter().find(|call| call.path.rsplit('/').next() == Some(method))?;
    Some(check(call.request, bytes))
}

/// Bytes that decoding `bytes` as `message` takes at most, besides `bytes` themselves, to which the tensors' data refer.
/// Errors when a field has more elements than its limit, or the bytes are not a message.
pub(super) fn check(message: &'static Message, bytes: &[u8]) -> Result<usize, Fault> {
    let mut walk = Walk { counts: [(None, 0); COUNTED], decoded: 0 };
    walk.message(message, bytes, 0).map_err(|stop| Fault::new(stop.path(message), stop.message))?;
    Ok(walk.decoded)
}

/// A chunk's message without its tensors and row numbers, so that a chunk with too many of them is refused as a part of its
/// batch. `None` if the bytes are no such message.
pub(super) fn without_rows(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut kept = Vec::new();
    while !bytes.is_empty() {
        let (number, wire) = decode_key(&mut bytes).ok()?;
        let mut chunk = content(wire, &mut bytes).ok()?;
        if number != calls::CHUNK || wire != WireType::LengthDelimited {
            return None;
        }
        while !chunk.is_empty() {
            let field = chunk;
            let (number, wire) = decode_key(&mut chunk).ok()?;
            content(wire, &mut chunk).ok()?;
            if !calls::ROWS.contains(&number) {
                kept.extend_from_slice(&field[..field.len() - chunk.len()]);
            }
        }
    }
    Some(kept)
}

struct Walk {
    counts: [(Option<&'static Field>, usize); COUNTED],
    decoded: usize,
}

/// Why a walk ended, and where.
struct Stop {
    /// The fields on the way, innermost first.
    fields: Vec<&'static str>,
    message: String,
}

impl Stop {
    fn at(field: &'static Field, message: String) -> Self {
        Self { fields: vec![field.name], message }
    }

    fn malformed() -> Self {
        Self { fields: Vec::new(), message: "got bytes that are not a message of the protocol".into() }
    }

    fn path(&self, message: &Message) -> String {
        let named: Vec<&str> = self.fields.iter().rev().copied().filter(|name| !name.is_empty()).collect();
        if named.is_empty() { message.name.to_owned() } else { named.join(".") }
    }
}

impl Walk {
    fn message(&mut self, message: &'static Message, mut bytes: &[u8], depth: usize) -> Result<(), Stop> {
        debug_assert!(depth < 8, "the protocol nests no deeper");
        // Vectors allocate their first elements at once.
        self.decoded += message.fields.iter().filter_map(|field| field.kind.element_bytes()).sum::<usize>() * 4;
        while !bytes.is_empty() {
            let (number, wire) = decode_key(&mut bytes).map_err(|_| Stop::malformed())?;
            let content = content(wire, &mut bytes)?;
            // A field that is not listed is a scalar or unknown, and takes no memory.
            let Some(field) = message.fields.iter().find(|field| field.number == number) else { continue };
            self.field(field, wire, content, depth)?;
        }
        Ok(())
    }

    fn field(&mut self, field: &'static Field, wire: WireType, content: &[u8], depth: usize) -> Result<(), Stop> {
        let elements = match (field.kind, wire) {
            (Kind::Varints(_), WireType::LengthDelimited) => {
                // Each ends with the first byte whose upper bit is clear.
                content.iter().filter(|byte| **byte < 0x80).count()
            }
            (Kind::Doubles, WireType::LengthDelimited) => content.len() / 8,
            _ => 1,
        };
        let count = self.count(field, elements);
        if count > field.most {
            return Err(Stop::at(field, format!("got more than {0} elements, expected at most {0}", field.most)));
        }
        self.decoded += GROWTH * field.kind.element_bytes().unwrap_or(0) * elements;
        match field.kind {
            // A `String` has 8 bytes or more.
            Kind::Text | Kind::Texts => self.decoded += content.len() + 8,
            Kind::One(message) | Kind::Messages(message, _) if wire == WireType::LengthDelimited => {
                self.message(message, content, depth + 1).map_err(|mut stop| {
                    stop.fields.push(field.name);
                    stop
                })?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds to the elements of a field, over the whole message: fields of one name in several parts share their limit.
    fn count(&mut self, field: &'static Field, elements: usize) -> usize {
        for (known, count) in &mut self.counts {
            if known.is_none_or(|known| std::ptr::eq(known, field)) {
                *known = Some(field);
                *count += elements;
                return *count;
            }
        }
        // A call has fewer listed fields, see the test.
        usize::MAX
    }
}

/// Takes a field's content off `bytes`; the content of a number does not matter.
fn content<'a>(wire: WireType, bytes: &mut &'a [u8]) -> Result<&'a [u8], Stop> {
    let length = match wire {
        WireType::Varint => {
            decode_varint(bytes).map_err(|_| Stop::malformed())?;
            return Ok(&[]);
        }
        WireType::SixtyFourBit => 8,
        WireType::ThirtyTwoBit => 4,
        WireType::LengthDelimited => decode_varint(bytes).map_err(|_| Stop::malformed())?,
        // proto3 has no groups.
        WireType::StartGroup | WireType::EndGroup => return Err(Stop::malformed()),
    };
    let length = usize::try_from(length).map_err(|_| Stop::malformed())?;
    let (content, rest) = bytes.split_at_checked(length).ok_or_else(Stop::malformed)?;
    *bytes = rest;
    Ok(content)
}
