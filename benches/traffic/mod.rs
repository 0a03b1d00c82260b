//! The traffic of a training job: batches of 112 concepts, as messages ready for the wire.

use bytes::Bytes;
use conceptwatch::server::proto::{
    BatchChunk, DataType, EndPass, IngestRequest, StartRunRequest, Tensor, ingest_request,
};
use leakage::run::{Concept, Run, RunFields};

/// k.
pub const CONCEPTS: usize = 112;
/// Bytes of a row: float32 activations, uint8 concept labels, an int32 task label and a uint64 sample id.
pub const ROW_BYTES: usize = CONCEPTS * 4 + CONCEPTS + 4 + 8;
/// Rows per chunk, which keep chunks below the recommended 1 MiB.
const CHUNK_ROWS: usize = 1792;
pub const SPLIT: &str = "val";

/// The declaration of a run.
pub fn declaration(run: &str) -> Run {
    let concept = |i| Concept { name: format!("concept {i}"), cardinality: 2, ..Concept::default() };
    let concepts = (0..CONCEPTS).map(concept).collect();
    Run::try_from(RunFields { name: run.into(), concepts, ..RunFields::default() }).expect("a valid declaration")
}

/// The call that starts a run.
pub fn start_run(run: &str, client: &str) -> StartRunRequest {
    use conceptwatch::server::proto;
    let concept =
        |c: &Concept| proto::Concept { name: c.name.clone(), cardinality: c.cardinality, ..proto::Concept::default() };
    let concepts = declaration(run).concepts.iter().map(concept).collect();
    let run = proto::Run { name: run.into(), concepts, world_size: 1, ..proto::Run::default() };
    StartRunRequest { run: Some(run), client: client.into(), ..Default::default() }
}

/// The values of a batch; batches of one size share values and differ in their ids.
pub struct Values {
    rows: usize,
    activations: Bytes,
    concept_labels: Bytes,
    task_labels: Bytes,
}

impl Values {
    pub fn new(rows: usize) -> Self {
        let mut state = 1u64;
        let mut uniform = || {
            // Numerical Recipes' generator of full period; its upper bits are random enough for values.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 24) as f32
        };
        let activations: Vec<f32> = (0..rows * CONCEPTS).map(|_| uniform()).collect();
        let concept_labels: Vec<u8> = activations.iter().map(|&p| u8::from(uniform() < p)).collect();
        let task_labels = (0..rows).flat_map(|_| ((uniform() * 10.0) as i32).to_le_bytes()).collect::<Vec<u8>>();
        Self {
            rows,
            activations: activations.iter().flat_map(|p| p.to_le_bytes()).collect::<Vec<u8>>().into(),
            concept_labels: concept_labels.into(),
            task_labels: task_labels.into(),
        }
    }

    pub fn bytes(&self) -> usize {
        self.rows * ROW_BYTES
    }
}

/// One rank of one run, with its counters.
pub struct Rank {
    pub run: String,
    sequence: u64,
    pub step: u64,
    next_id: u64,
}

impl Rank {
    pub fn new(run: &str) -> Self {
        Self { run: run.into(), sequence: 0, step: 0, next_id: 0 }
    }

    /// The chunks of a batch of rows not sent before in this pass.
    pub fn batch(&mut self, values: &Values) -> Vec<IngestRequest> {
        self.sequence += 1;
        let first_id = self.next_id;
        self.next_id += values.rows as u64;
        let starts = (0..values.rows).step_by(CHUNK_ROWS);
        let chunk = |(chunk, start): (usize, usize)| {
            let end = (start + CHUNK_ROWS).min(values.rows);
            let slice = |bytes: &Bytes, width: usize| bytes.slice(start * width..end * width);
            let ids = (start..end).flat_map(|row| (first_id + row as u64).to_le_bytes()).collect::<Vec<u8>>();
            let n = (end - start) as u64;
            let k = CONCEPTS as u64;
            let (floats, labels) = (slice(&values.activations, 4 * CONCEPTS), slice(&values.concept_labels, CONCEPTS));
            let message = BatchChunk {
                run: self.run.clone(),
                split: SPLIT.into(),
                step: self.step,
                client: "benchmark".into(),
                sequence: self.sequence,
                chunk: chunk as u32,
                last: end == values.rows,
                first_row: start as u64,
                tensors: vec![
                    tensor("concept_activations", DataType::Float32, vec![n, k], floats),
                    tensor("concept_labels", DataType::Uint8, vec![n, k], labels),
                    tensor("task_labels", DataType::Int32, vec![n], slice(&values.task_labels, 4)),
                    tensor("sample_ids", DataType::Uint64, vec![n], ids.into()),
                ],
                ..BatchChunk::default()
            };
            IngestRequest { message: Some(ingest_request::Message::Chunk(message)) }
        };
        starts.enumerate().map(chunk).collect()
    }

    /// The end of the pass; the next batch belongs to the next step and restarts the data set.
    pub fn end_pass(&mut self) -> IngestRequest {
        self.sequence += 1;
        let message = EndPass {
            run: self.run.clone(),
            split: SPLIT.into(),
            step: self.step,
            client: "benchmark".into(),
            sequence: self.sequence,
            ..EndPass::default()
        };
        self.step += 1;
        self.next_id = 0;
        IngestRequest { message: Some(ingest_request::Message::EndPass(message)) }
    }
}

/// Whether a message is answered: the last chunk of a batch, and an end of a pass.
pub fn is_answered(request: &IngestRequest) -> Option<u64> {
    match request.message.as_ref()? {
        ingest_request::Message::Chunk(chunk) => chunk.last.then_some(chunk.sequence),
        ingest_request::Message::EndPass(end) => Some(end.sequence),
    }
}

fn tensor(name: &str, dtype: DataType, shape: Vec<u64>, data: Bytes) -> Tensor {
    Tensor { name: name.into(), dtype: dtype.into(), shape, data, texts: Vec::new() }
}
