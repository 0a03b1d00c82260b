//! What scores take, by the allocator's own count, is at most what is estimated before they are computed.

#[path = "../../../../tests/common/counting.rs"]
mod counting;
mod wide;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Mutex, PoisonError};

use counting::Counting;
use information::Settings;
use leakage::batch::{Batch, NonFinite};
use leakage::point::Outcome;
use leakage::prepare::Prepared;
use leakage::run::{Concept, Run, RunConstants, RunFields};
use leakage::sample::Sample;
use leakage::score::catalogue::{CATALOGUE, Score, find};
use leakage::score::{Wanted, evaluate, test};
use leakage::tensor::{DataType, Tensor, TensorName};

/// What the process holds, and the most it held.
static HELD: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);
/// Tests count one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn add(bytes: isize) {
    PEAK.fetch_max(HELD.fetch_add(bytes, Ordering::Relaxed) + bytes, Ordering::Relaxed);
}

#[global_allocator]
static ALLOCATOR: Counting = Counting(add);

/// Numerical Recipes' generator of full period; its upper bits are random enough.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / (1u64 << 24) as f64
    }

    fn floats(&mut self, name: TensorName, shape: &[u64]) -> Tensor {
        let count: u64 = shape.iter().product();
        let data: Vec<u8> = (0..count).flat_map(|_| (self.uniform() as f32).to_le_bytes()).collect();
        Tensor::numbers(name, DataType::Float32, shape, data.into()).unwrap()
    }

    fn classes(&mut self, name: TensorName, shape: &[u64], classes: u32) -> Tensor {
        let count: u64 = shape.iter().product();
        let data: Vec<u8> = (0..count).map(|_| (self.uniform() * f64::from(classes)) as u8).collect();
        Tensor::numbers(name, DataType::UInt8, shape, data.into()).unwrap()
    }
}

/// A sample of n rows of k concepts, with embeddings of width d unless that is 0.
fn sample(n: u64, k: u64, d: u64) -> (Run, Sample) {
    const CLASSES: u64 = 10;
    let mut random = Random(1);
    let concepts = (0..k).map(|i| Concept { name: format!("c{i}"), cardinality: 2, ..Concept::default() }).collect();
    let head_weights = (0..CLASSES * k).map(|_| random.uniform() - 0.5).collect();
    let constants = RunConstants { head_weights, reference_task_accuracy: Some(0.9), ..RunConstants::default() };
    let run = Run::try_from(RunFields { name: "r".into(), concepts, constants, ..RunFields::default() }).unwrap();
    let mut tensors = vec![
        random.floats(TensorName::ConceptActivations, &[n, k]),
        random.classes(TensorName::ConceptLabels, &[n, k], 2),
        random.classes(TensorName::TaskLabels, &[n], CLASSES as u32),
        random.floats(TensorName::TaskLogits, &[n, CLASSES]),
        random.classes(TensorName::IntervenedTaskPredictions, &[n], CLASSES as u32),
    ];
    if d > 0 {
        tensors.push(random.floats(TensorName::ConceptEmbeddings, &[n, k, d]));
    }
    let batch = Batch::new(tensors, &run, NonFinite::Reject).unwrap();
    let sample = Sample::of_batch(&batch, &run);
    (run, sample)
}

fn go_on(_: usize, _: usize, _: &Score) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Bytes that evaluating and testing these scores took at most, and what was estimated.
fn measured(run: &Run, sample: &Sample, threads: usize, scores: &[&'static Score], tests: bool) -> (isize, isize) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let before = HELD.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let prepared = Prepared::new(sample, run, Settings::default());
        let outcomes = evaluate(&prepared, Wanted::Named(scores), go_on).unwrap();
        if tests {
            test(&prepared, |tested| scores.iter().any(|score| score.id == tested.id), go_on).unwrap();
        }
        let peak = PEAK.load(Ordering::Relaxed) - before;
        drop(outcomes);
        (peak, prepared.peak() as isize)
    })
}

fn named(ids: &[&str]) -> Vec<&'static Score> {
    ids.iter().map(|id| find(id).unwrap_or_else(|| panic!("{id}"))).collect()
}

fn mib(bytes: isize) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

/// Scores of the same matrices as `ois`, which take what it takes.
const AS_OIS: [&str; 4] = ["purity", "oracle_purity", "alignment", "aligned_ois"];

/// Measures scores one by one, and then together.
fn compare((n, k, d): (u64, u64, u64), threads: usize, ids: &[&str], tests: bool) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (run, sample) = sample(n, k, d);
    let scores = named(ids);
    let alone = scores.iter().filter(|score| !AS_OIS.contains(&score.id));
    let one_by_one = alone.map(|score| (score.id, vec![*score]));
    for (what, scores) in one_by_one.chain([("together", scores.clone())]) {
        let (took, estimated) = measured(&run, &sample, threads, &scores, tests);
        assert!(
            took <= estimated,
            "{what}, N = {n}, k = {k}, d = {d}: took {:.1} MiB, estimated {:.1}",
            mib(took),
            mib(estimated)
        );
        // Not so high that scores are refused without need. What threads of the measurement before free late lowers the
        // measured peak.
        assert!(estimated <= 12 * took + (32 << 20), "{what}: {:.1} MiB, estimated {:.1}", mib(took), mib(estimated));
    }
}

const PAIRS: [&str; 4] = ["icl", "icl_excess", "icl_label", "icl_conditional"];

#[test]
fn pairs_of_many_concepts_take_what_is_estimated() {
    compare((64, 300, 0), 2, &PAIRS, false);
    compare((64, 150, 4), 1, &["icl_conditional", "embedding_ic", "embedding_ic_conditional"], true);
    compare((64, 400, 0), 1, &["joint_leakage"], false);
}

#[test]
fn many_rows_take_what_is_estimated() {
    let scores = [
        "ctl",
        "icl",
        "ctl_conditional",
        "icl_conditional",
        "concept_gap",
        "embedding_ct",
        "embedding_ic_conditional",
        "concept_accuracy",
        "concept_auc",
        "task_auc",
        "clarity",
        "clarity_best",
        "sparsity",
        "mig",
        "sap",
        "concept_alignment_score",
    ];
    compare((4096, 8, 8), 4, &scores, false);
}

#[test]
fn every_score_of_a_small_sample_takes_what_is_estimated() {
    let (run, sample) = sample(256, 12, 4);
    // Without memory none of them is computed.
    let prepared = Prepared::new(&sample, &run, Settings::default()).with_memory(0);
    let available = evaluate(&prepared, Wanted::Available, go_on).unwrap();
    let ids: Vec<&str> = available.iter().map(|(score, _)| score.id).collect();
    assert!(ids.len() > 40, "{ids:?}");
    compare((256, 12, 4), 2, &ids, true);
}

#[test]
fn a_score_that_takes_too_much_is_undefined_and_the_others_go_on() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (run, sample) = sample(64, 4096, 0);
    let before = HELD.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let limit = 512 << 20;
    let prepared = Prepared::new(&sample, &run, Settings::default()).with_memory(limit);
    let scores = named(&["ctl", "icl", "icl_label", "icl_conditional", "joint_leakage", "concept_accuracy"]);
    let outcomes = evaluate(&prepared, Wanted::Named(&scores), go_on).unwrap();
    let took = PEAK.load(Ordering::Relaxed) - before;
    assert!(took <= limit as isize, "{:.1} MiB", mib(took));
    for (score, outcome) in &outcomes {
        match outcome {
            Outcome::Value(_) => assert!(!score.matrix && score.id != "joint_leakage", "{}", score.id),
            Outcome::Undefined(undefined) => {
                assert!(score.matrix || score.id == "joint_leakage", "{}: {}", score.id, undefined.why);
                let why = &undefined.why;
                assert!(why.starts_with("needs ") && why.contains("64 rows of 4096 concepts"), "{why}");
                assert!(why.ends_with("expected at most 512"), "{why}");
            }
        }
    }
    assert_eq!(outcomes.iter().filter(|(_, outcome)| outcome.value().is_some()).count(), 2);
}

#[test]
fn what_a_limit_lets_pass_does_not_depend_on_it() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (run, sample) = sample(100, 20, 0);
    let scores: Vec<&'static Score> = CATALOGUE.iter().filter(|score| score.family == "leakage").collect();
    let evaluated = |memory: Option<usize>| {
        let prepared = Prepared::new(&sample, &run, Settings::default());
        let prepared = if let Some(bytes) = memory { prepared.with_memory(bytes) } else { prepared };
        let outcomes = evaluate(&prepared, Wanted::Named(&scores), go_on).unwrap();
        outcomes.into_iter().map(|(_, outcome)| outcome).collect::<Vec<_>>()
    };
    assert_eq!(evaluated(None), evaluated(Some(256 << 20)));
}
