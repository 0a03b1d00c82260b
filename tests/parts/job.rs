//! A job whose ranks evaluate a data set: the batches of each rank, sent to any number of processes.

use std::sync::Arc;
use std::time::Duration;

use conceptwatch::batch::{Batch, NonFinite};
use conceptwatch::run::{Concept, Run, RunFields, SplitKey};
use conceptwatch::sample::priority::priority;
use conceptwatch::sample::{
    Attempt, EndOfPass, Evaluation, Member, Now, Part, PassOf, RowNumbers, Sampling, Source, Split, SplitOptions,
    Union, Values, client_hash, union,
};
use conceptwatch::step::{Epoch, Rank, Step};
use conceptwatch::tensor::{DataType, Tensor, TensorName};

pub const NOW: Now = Now { elapsed: Duration::ZERO, unix: 1e9 };

pub fn run(concepts: usize, world_size: u32) -> Arc<Run> {
    let concept = |at| Concept { name: format!("concept {at}"), cardinality: 2 };
    let concepts = (0..concepts).map(concept).collect();
    Arc::new(Run::try_from(RunFields { name: "run".into(), concepts, world_size, ..RunFields::default() }).unwrap())
}

pub fn step(step: u64) -> Step {
    Step::new(step).unwrap()
}

/// A job of `ranks` ranks that share `rows` rows as a distributed sampler does: padded with the first rows, so that every
/// rank has as many.
#[derive(Clone, Debug)]
pub struct Job {
    pub run: Arc<Run>,
    pub ranks: u32,
    /// Number of the data set's first row.
    pub first: u64,
    pub rows: u64,
    pub sampling: Sampling,
    pub with_ids: bool,
    /// Embeddings of one value stand in place of activations.
    pub embedded: bool,
    pub step: u64,
    pub batch_rows: usize,
}

/// A batch of a rank: its place in the rank's order, and the rows of the data set.
#[derive(Clone, Debug)]
pub struct Sent {
    pub rank: u32,
    pub sequence: u64,
    pub ids: Vec<u64>,
}

impl Job {
    pub fn new(ranks: u32, rows: u64, kept: usize, seed: u64) -> Self {
        let sampling = Sampling { rows: kept, seed };
        Self {
            run: run(2, ranks),
            ranks,
            first: 0,
            rows,
            sampling,
            with_ids: true,
            embedded: false,
            step: 7,
            batch_rows: 16,
        }
    }

    pub fn split(&self) -> Split {
        let options = SplitOptions { sampling: self.sampling, ..SplitOptions::default() };
        Split::new(SplitKey::new("run", "val"), options, Arc::clone(&self.run))
    }

    fn rows_of(&self, rank: u32) -> Vec<u64> {
        let share = self.rows.div_ceil(self.ranks.into());
        (0..share).map(|at| self.first + (u64::from(rank) + at * u64::from(self.ranks)) % self.rows).collect()
    }

    /// The batches of a pass in a shuffled order, a fifth of them twice.
    pub fn batches(&self, seed: u64) -> Vec<Sent> {
        let of = |rank| {
            let rows = self.rows_of(rank);
            let batches: Vec<Vec<u64>> = rows.chunks(self.batch_rows).map(<[u64]>::to_vec).collect();
            // Sequence numbers go on from pass to pass.
            let sequence = move |at: u64| self.step * 1000 + at;
            (0..).zip(batches).map(move |(at, ids)| Sent { rank, sequence: sequence(at), ids }).collect::<Vec<_>>()
        };
        let mut batches: Vec<Sent> = (0..self.ranks).flat_map(of).collect();
        let key = |sent: &Sent, salt: u64| priority(seed + salt, u64::from(sent.rank) << 32 | sent.sequence);
        let twice: Vec<Sent> = batches.iter().filter(|sent| key(sent, 1 << 20) % 5 == 0).cloned().collect();
        batches.extend(twice);
        let mut salted: Vec<(u64, Sent)> = (0..).zip(batches).map(|(at, sent)| (key(&sent, at), sent)).collect();
        salted.sort_by_key(|(key, _)| *key);
        salted.into_iter().map(|(_, sent)| sent).collect()
    }

    fn member(&self, rank: u32) -> Member {
        Member { attempt: Attempt::default(), world_size: self.ranks, rank: Rank::of(rank, self.ranks).unwrap() }
    }

    pub fn send(&self, split: &mut Split, sent: &Sent) {
        let source = Source { client: client_hash(&format!("rank-{}", sent.rank)), sequence: sent.sequence };
        let mut staged = split.stage(step(self.step), source, self.member(sent.rank));
        let batch = Batch::new(self.tensors(sent), &self.run, NonFinite::Reject).unwrap();
        staged.offer(&batch, RowNumbers::default()).unwrap();
        let epoch = Epoch::new(f64::from(sent.rank) / 8.0).unwrap();
        split.commit(staged, Some(epoch), 0, NOW).unwrap();
    }

    /// A batch of other tensors.
    pub fn send_tensors(&self, split: &mut Split, rank: u32, tensors: Vec<Tensor>) {
        let source = Source { client: client_hash("other"), sequence: 1 };
        let mut staged = split.stage(step(self.step), source, self.member(rank));
        let batch = Batch::new(tensors, &self.run, NonFinite::Reject).unwrap();
        staged.offer(&batch, RowNumbers::default()).unwrap();
        split.commit(staged, None, 0, NOW).unwrap();
    }

    pub fn end(&self, split: &mut Split, rank: u32) -> Vec<Evaluation> {
        // One row more than was sent, so that some are missing, and other counts that add up.
        let rows = self.rows_of(rank).len() as u64 + u64::from(rank == 1);
        let end =
            EndOfPass { pass: step(self.step).into(), epoch: None, rows, held_back: rank.into(), backlog: rank == 1 };
        split.end_pass(end, self.member(rank), NOW).unwrap().closed
    }

    /// Rows of a data set whose labels depend on concepts and on each other. A row that two ranks evaluate differs a little.
    fn tensors(&self, sent: &Sent) -> Vec<Tensor> {
        let (n, k) = (sent.ids.len() as u64, self.run.concepts.len() as u64);
        let labels = |id: u64| (0..k).map(move |c| (priority(99, id.wrapping_mul(k) + c) >> 40 & 1) as u8);
        let task = |id: u64| labels(id).take(2).sum::<u8>();
        let noise =
            |id: u64, c: u64| (priority(100 + self.step, id.wrapping_mul(k) + c) >> 44) as f32 / (1u64 << 20) as f32;
        let rank = f32::from(sent.rank as u16) / 65536.0;
        let activation =
            |id, (c, label)| 0.5 * f32::from(label) + 0.3 * noise(id, c) + 0.1 * f32::from(task(id)) + rank / 8.0;
        let activations = sent
            .ids
            .iter()
            .flat_map(|&id| (0..k).zip(labels(id)).map(move |cell| (id, cell)))
            .flat_map(|(id, cell)| activation(id, cell).to_le_bytes());
        let numbers = |name, dtype, shape: &[u64], bytes: Vec<u8>| Tensor::numbers(name, dtype, shape, bytes.into());
        let activations = activations.collect();
        let mut tensors = vec![
            match self.embedded {
                false => numbers(TensorName::ConceptActivations, DataType::Float32, &[n, k], activations),
                true => numbers(TensorName::ConceptEmbeddings, DataType::Float32, &[n, k, 1], activations),
            },
            numbers(
                TensorName::ConceptLabels,
                DataType::UInt8,
                &[n, k],
                sent.ids.iter().flat_map(|&id| labels(id)).collect(),
            ),
            numbers(TensorName::TaskLabels, DataType::UInt8, &[n], sent.ids.iter().map(|&id| task(id)).collect()),
        ];
        if k <= 4 {
            let text = |id: &u64| format!("a text of row {id}, which rank {} wrote", sent.rank);
            tensors.push(Tensor::texts(TensorName::PredictedText, &[n], sent.ids.iter().map(text).collect()));
        }
        if self.with_ids {
            let ids = sent.ids.iter().flat_map(|id| id.to_le_bytes()).collect();
            tensors.push(numbers(TensorName::SampleIds, DataType::UInt64, &[n], ids));
        }
        tensors.into_iter().collect::<Result<_, _>>().unwrap()
    }

    /// What one process makes of all batches.
    pub fn in_one_process(&self, batches: &[Sent]) -> Evaluation {
        let mut split = self.split();
        batches.iter().for_each(|sent| self.send(&mut split, sent));
        let mut closed: Vec<Evaluation> = (0..self.ranks).flat_map(|rank| self.end(&mut split, rank)).collect();
        assert_eq!(closed.len(), 1);
        closed.remove(0)
    }

    /// The splits of `processes` processes, each of which serves the same number of consecutive ranks.
    pub fn in_processes(&self, processes: u32, batches: &[Sent]) -> Vec<Split> {
        let mut splits: Vec<Split> = (0..processes).map(|_| self.split()).collect();
        let process = |rank: u32| (rank * processes / self.ranks) as usize;
        batches.iter().for_each(|sent| self.send(&mut splits[process(sent.rank)], sent));
        let alone = |rank: u32| {
            let closed = self.end(&mut splits[process(rank)], rank);
            assert!(closed.is_empty(), "a process closed a pass of {} ranks", self.ranks);
        };
        if processes > 1 {
            (0..self.ranks).for_each(alone);
        }
        splits
    }

    pub fn pass(&self) -> PassOf {
        let (key, run) = (SplitKey::new("run", "val"), Arc::clone(&self.run));
        PassOf { key, run, attempt: Attempt::default(), time: NOW.unix }
    }

    /// The parts of a pass, sent as bytes.
    pub fn parts(&self, splits: &[Split], cutoff: Option<u64>) -> Vec<Vec<u8>> {
        splits.iter().map(|split| split.part(step(self.step), cutoff).unwrap().to_bytes()).collect()
    }

    pub fn union(&self, parts: &[Vec<u8>]) -> Union {
        let mut parts: Vec<Part> = parts.iter().map(|bytes| Part::from_bytes(bytes).unwrap()).collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.ended().len()));
        union(parts, self.pass()).unwrap()
    }

    /// The union and the next cut-off of parts that must suffice.
    pub fn exactly(&self, parts: &[Vec<u8>]) -> (Evaluation, Option<u64>) {
        match self.union(parts) {
            Union::Exact { evaluation, next_cutoff } => (*evaluation, next_cutoff),
            Union::NeedsWhole { rows, cutoff } => panic!("{rows} rows up to {cutoff}"),
        }
    }
}

/// Everything that an evaluation holds, to the bit.
pub fn content(of: &Evaluation) -> impl PartialEq + std::fmt::Debug + use<> {
    let values = |name| match of.sample.column(name).unwrap().values() {
        Values::Float32(values) => values.iter().map(|value| format!("{:08x}", value.to_bits())).collect(),
        Values::Float64(values) => values.iter().map(|value| format!("{:016x}", value.to_bits())).collect(),
        Values::Integer(values) => values.iter().map(|value| value.to_string()).collect(),
        Values::Text(values) => values.clone(),
    };
    let columns: Vec<(TensorName, Vec<usize>, bool, Vec<String>)> = of
        .sample
        .names()
        .map(|name| {
            (
                name,
                of.sample.column(name).unwrap().dims().to_vec(),
                of.sample.column(name).unwrap().is_half(),
                values(name),
            )
        })
        .collect();
    let named = (of.key.clone(), of.attempt, of.step, of.epoch.map(|epoch| epoch.get().to_bits()), of.time.to_bits());
    let counts = (of.rows_seen, of.duplicates, of.ranks_missing, of.rows_missing, of.held_back);
    (named, of.sample.ids().to_vec(), columns, counts, of.backlog, of.provisional)
}
