//! What passes the count of a message's elements takes no more memory when it is decoded than the count says, by the
//! allocator's own count.

#[path = "common/counting.rs"]
mod counting;

use std::cell::Cell;

use bytes::Bytes;
use conceptwatch::server::proto::{
    BatchChunk, Concept, ConceptParts, DataType, EndPass, GetSeriesRequest, IngestRequest, Run, RunConstants,
    StartRunRequest, Tensor, WatchRequest, ingest_request,
};
use conceptwatch::server::wire::check_call;
use counting::Counting;
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;

thread_local! {
    /// What this thread holds, and the most it held.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn add(bytes: isize) {
    // Fails when the thread ends.
    let _ = HELD.try_with(|held| {
        let now = held.get().0 + bytes;
        held.set((now, held.get().1.max(now)));
    });
}

#[global_allocator]
static ALLOCATOR: Counting = Counting(add);

/// The most bytes that decoding held at once.
fn peak<M: Message + Default>(bytes: &Bytes) -> isize {
    let bytes = bytes.clone();
    let before = HELD.get().0;
    HELD.set((before, before));
    let decoded = M::decode(bytes);
    let peak = HELD.get().1 - before;
    drop(decoded);
    peak
}

/// How many bytes a byte of a message may unfold to: a text of 24 bytes comes in two, and vectors double.
const C: usize = 48;
/// Of the first elements of each vector of a message.
const FIRST: usize = 2 << 10;

fn check<M: Message + Default>(method: &str, bytes: Vec<u8>) {
    let bytes = Bytes::from(bytes);
    let Ok(counted) = check_call(method, &bytes).unwrap() else { return };
    let peak = peak::<M>(&bytes);
    // A handle of shared bytes.
    assert!(peak <= counted as isize + 256, "{method} of {} bytes: {peak} bytes, {counted} counted", bytes.len());
    assert!(counted <= C * bytes.len() + FIRST, "{method} of {} bytes: {counted} counted", bytes.len());
}

fn tensor() -> impl Strategy<Value = Tensor> {
    let shape = vec(any::<u64>(), 0..40);
    let texts = prop_oneof![vec(Just(String::new()), 0..5000), vec(".{0,40}", 0..50)];
    (".{0,30}", 0..20i32, shape, vec(any::<u8>(), 0..2000), texts)
        .prop_map(|(name, dtype, shape, data, texts)| Tensor { name, dtype, shape, data: data.into(), texts })
}

fn chunk() -> impl Strategy<Value = IngestRequest> {
    (vec(tensor(), 0..70), vec(0..100u32, 0..20_000), ".{0,200}", any::<u64>()).prop_map(
        |(tensors, row_numbers, run, step)| {
            let chunk = BatchChunk { run, step, tensors, row_numbers, ..BatchChunk::default() };
            IngestRequest { message: Some(ingest_request::Message::Chunk(chunk)) }
        },
    )
}

fn declaration() -> impl Strategy<Value = StartRunRequest> {
    let concepts = vec((".{0,5}", any::<u32>()), 0..2000);
    let parts = vec(vec(0..300u32, 0..30), 0..500);
    let labels = vec((".{0,9}", ".{0,9}"), 0..300);
    (concepts, parts, labels, vec(any::<f64>(), 0..5000)).prop_map(|(concepts, parts, labels, head_weights)| {
        let concept = |(name, cardinality)| Concept { name, cardinality };
        let constants = RunConstants {
            head_weights,
            concept_parts: parts.into_iter().map(|parts| ConceptParts { parts }).collect(),
            ..RunConstants::default()
        };
        let run = Run {
            concepts: concepts.into_iter().map(concept).collect(),
            constants: Some(constants),
            labels: labels.into_iter().collect(),
            ..Run::default()
        };
        StartRunRequest { run: Some(run), ..StartRunRequest::default() }
    })
}

/// Bytes as they are, or with some of them changed, repeated or cut.
fn mutated(bytes: Vec<u8>, changes: &[(usize, u8)], repeats: usize) -> Vec<u8> {
    let mut bytes = bytes.repeat(repeats);
    for (at, value) in changes {
        let len = bytes.len();
        if len > 0 {
            bytes[at % len] = *value;
        }
    }
    bytes
}

fn changes() -> impl Strategy<Value = Vec<(usize, u8)>> {
    prop_oneof![Just(Vec::new()), vec((any::<usize>(), any::<u8>()), 0..12)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn batches_take_what_is_counted(message in chunk(), changes in changes(), repeats in 1..4usize) {
        check::<IngestRequest>("Ingest", mutated(message.encode_to_vec(), &changes, repeats));
    }

    #[test]
    fn declarations_take_what_is_counted(message in declaration(), changes in changes(), repeats in 1..4usize) {
        check::<StartRunRequest>("StartRun", mutated(message.encode_to_vec(), &changes, repeats));
    }

    #[test]
    fn questions_take_what_is_counted(runs in vec(".{0,12}", 0..1500), changes in changes()) {
        check::<WatchRequest>("Watch", mutated(WatchRequest { runs }.encode_to_vec(), &changes, 1));
    }

    #[test]
    fn any_bytes_take_what_is_counted(bytes in vec(any::<u8>(), 0..400)) {
        check::<IngestRequest>("Ingest", bytes.clone());
        check::<StartRunRequest>("StartRun", bytes.clone());
        check::<GetSeriesRequest>("GetSeries", bytes);
    }
}

fn in_chunk(chunk: BatchChunk) -> Vec<u8> {
    IngestRequest { message: Some(ingest_request::Message::Chunk(chunk)) }.encode_to_vec()
}

fn texts(count: usize) -> Tensor {
    Tensor { dtype: DataType::String.into(), texts: vec![String::new(); count], ..Tensor::default() }
}

#[test]
fn the_largest_messages_that_pass_take_less_than_forty_mebibytes() {
    let tensors = vec![texts(1 << 17), Tensor { shape: vec![1; 1024], ..Tensor::default() }];
    let row_numbers = vec![1; 1 << 20];
    let bytes = in_chunk(BatchChunk { tensors, row_numbers, ..BatchChunk::default() });
    let counted = check_call("Ingest", &bytes).unwrap().unwrap();
    assert!(counted < 40 << 20, "{counted}");
    check::<IngestRequest>("Ingest", bytes);
}

#[test]
fn one_element_more_than_a_limit_is_refused_by_name() {
    let concept = || Concept { name: "c".into(), cardinality: 2 };
    let declared = |run: Run| StartRunRequest { run: Some(run), ..StartRunRequest::default() }.encode_to_vec();
    let constants = |constants| declared(Run { constants: Some(constants), ..Run::default() });
    let parts = vec![ConceptParts { parts: vec![0; 1 << 17] }; 3];
    let chunk = BatchChunk::default;
    let end = IngestRequest { message: Some(ingest_request::Message::EndPass(EndPass::default())) }.encode_to_vec();
    let cases: Vec<(&str, Vec<u8>, &str, &str)> = vec![
        ("Ingest", in_chunk(BatchChunk { tensors: vec![Tensor::default(); 65], ..chunk() }), "tensors", "64"),
        ("Ingest", in_chunk(BatchChunk { tensors: vec![texts((1 << 17) + 1)], ..chunk() }), "tensors.texts", "131072"),
        ("Ingest", in_chunk(BatchChunk { tensors: vec![texts(1 << 16); 3], ..chunk() }), "tensors.texts", "131072"),
        (
            "Ingest",
            in_chunk(BatchChunk { tensors: vec![Tensor { shape: vec![1; 1025], ..Tensor::default() }], ..chunk() }),
            "tensors.shape",
            "1024",
        ),
        ("Ingest", in_chunk(BatchChunk { row_numbers: vec![1; (1 << 20) + 1], ..chunk() }), "row_numbers", "1048576"),
        ("Ingest", end.repeat(5), "message", "4"),
        ("StartRun", declared(Run { concepts: vec![concept(); 8193], ..Run::default() }), "run.concepts", "8192"),
        (
            "StartRun",
            declared(Run { labels: (0..257).map(|i| (format!("{i}"), String::new())).collect(), ..Run::default() }),
            "run.labels",
            "256",
        ),
        (
            "StartRun",
            constants(RunConstants { clarity_weights: vec![0.0; 65], ..RunConstants::default() }),
            "run.constants.clarity_weights",
            "64",
        ),
        (
            "StartRun",
            constants(RunConstants { concept_parts: parts, ..RunConstants::default() }),
            "run.constants.concept_parts.parts",
            "262144",
        ),
        ("Watch", WatchRequest { runs: vec![String::new(); 1025] }.encode_to_vec(), "runs", "1024"),
    ];
    for (method, bytes, field, limit) in cases {
        let fault = check_call(method, &bytes).unwrap().expect_err(field);
        assert_eq!(fault.field, field, "{method}: {}", fault.message);
        assert!(fault.message.contains(limit), "{field}: {}", fault.message);
    }
}

#[test]
fn bytes_that_are_no_message_are_refused() {
    for bytes in [&[0x0a, 0x05, 0x01][..], &[0xff; 11], &[0x0b], &[0x00]] {
        assert!(check_call("Ingest", bytes).unwrap().is_err(), "{bytes:?}");
    }
}
