//! Rows of a small model, each computed from its number, and the messages that carry them.

use conceptwatch::server::proto::ingest_request::Message;
use conceptwatch::server::proto::{self, BatchChunk, Concept, DataType, EndPass, StartRunRequest, Tensor};

/// The content of a message of an ingest stream.
pub trait Sent {
    fn message(self) -> Message;
}

impl Sent for Message {
    fn message(self) -> Message {
        self
    }
}

impl Sent for BatchChunk {
    fn message(self) -> Message {
        Message::Chunk(self)
    }
}

impl Sent for EndPass {
    fn message(self) -> Message {
        Message::EndPass(self)
    }
}

/// The concepts of these runs.
pub const K: usize = 2;
/// The client that sends, unless a test says otherwise.
pub const CLIENT: &str = "trainer-0";

/// A run of two binary concepts.
pub fn run(name: &str) -> StartRunRequest {
    let concept = |name: &str| Concept { name: name.into(), cardinality: 2, ..Concept::default() };
    let run = proto::Run {
        name: name.into(),
        concepts: vec![concept("wing"), concept("beak")],
        activation_kind: proto::ActivationKind::Probability.into(),
        world_size: 1,
        constants: Some(proto::RunConstants::default()),
        labels: [("lambda".to_owned(), "0.01".to_owned())].into(),
        ..Default::default()
    };
    StartRunRequest { run: Some(run), client: CLIENT.into(), client_version: "1.0".into(), ..Default::default() }
}

/// A batch of `val` at step 1 in one chunk, with the rows of these numbers.
pub fn chunk(run: &str, sequence: u64, rows: impl IntoIterator<Item = u64>) -> BatchChunk {
    BatchChunk {
        run: run.into(),
        split: "val".into(),
        step: 1,
        epoch: Some(0.5),
        client: CLIENT.into(),
        sequence,
        last: true,
        tensors: tensors(rows),
        ..Default::default()
    }
}

/// The end of the pass to which [`chunk`] belongs.
pub fn end_pass(run: &str, sequence: u64) -> EndPass {
    EndPass {
        run: run.into(),
        split: "val".into(),
        step: 1,
        epoch: Some(0.5),
        client: CLIENT.into(),
        sequence,
        ..Default::default()
    }
}

/// Activations, labels, task labels and ids of the rows with these numbers. Activations leak the task a little.
pub fn tensors(rows: impl IntoIterator<Item = u64>) -> Vec<Tensor> {
    let (mut activations, mut labels, mut task, mut ids) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let noise = mixed(row);
        let y = (noise % 3) as i64;
        for k in 0..K as u64 {
            let noise = mixed(row ^ (k + 1) << 32);
            let label = (noise >> 8 & 1) as i64;
            let spread = (noise >> 40) as f32 / (1u64 << 24) as f32;
            activations.push(0.5 * label as f32 + 0.1 * y as f32 + 0.2 * spread);
            labels.push(label);
        }
        task.push(y);
        ids.push(row);
    }
    let n = ids.len() as u64;
    let k = K as u64;
    vec![
        floats("concept_activations", &[n, k], &activations),
        integers("concept_labels", &[n, k], &labels),
        integers("task_labels", &[n], &task),
        Tensor {
            name: "sample_ids".into(),
            dtype: DataType::Uint64.into(),
            shape: vec![n],
            data: ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>().into(),
            texts: Vec::new(),
        },
    ]
}

pub fn floats(name: &str, shape: &[u64], values: &[f32]) -> Tensor {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor { name: name.into(), dtype: DataType::Float32.into(), shape: shape.into(), data: data.into(), texts: vec![] }
}

pub fn integers(name: &str, shape: &[u64], values: &[i64]) -> Tensor {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor { name: name.into(), dtype: DataType::Int64.into(), shape: shape.into(), data: data.into(), texts: vec![] }
}

pub fn strings(name: &str, shape: &[u64], texts: &[&str]) -> Tensor {
    let texts = texts.iter().map(|text| text.to_string()).collect();
    Tensor { name: name.into(), dtype: DataType::String.into(), shape: shape.into(), data: Default::default(), texts }
}

/// SplitMix64.
fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// The run `name`, which this many ranks train.
pub fn run_of_ranks(name: &str, world_size: u32) -> StartRunRequest {
    let mut start = run(name);
    start.run.as_mut().unwrap().world_size = world_size;
    start
}

/// The run `r` of `k` binary concepts.
pub fn run_of(k: usize) -> StartRunRequest {
    let mut start = run("r");
    let concepts = (0..k).map(|i| Concept { name: format!("c{i}"), cardinality: 2, ..Concept::default() });
    start.run.as_mut().unwrap().concepts = concepts.collect();
    start
}

/// A batch of that run with the rows 0 to `rows`. Labels of a row are fixed; activations differ for every `version`.
pub fn batch_of(
    [rows, k]: [usize; 2],
    split: &str,
    step: u64,
    sequence: u64,
    version: impl Fn(u64) -> u64,
) -> BatchChunk {
    let (mut activations, mut labels, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..rows as u64 {
        for concept in 0..k as u64 {
            let mixed = |salt: u64| {
                (row * 7919 + concept * 104_729 + salt * 15_485_863).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
            };
            let label = mixed(1) & 1;
            activations.push(0.4 * label as f32 + 0.5 * (mixed(version(row) + 2) as f32 / (1 << 24) as f32));
            labels.push(label as i64);
        }
        ids.push(row as i64);
    }
    let (n, k) = (rows as u64, k as u64);
    let tensors = vec![
        floats("concept_activations", &[n, k], &activations),
        integers("concept_labels", &[n, k], &labels),
        integers("sample_ids", &[n], &ids),
    ];
    BatchChunk { split: split.into(), step, tensors, ..chunk("r", sequence, []) }
}
