//! Layouts with few rows and wide columns: binary concepts of one column and of two, categorical ones, latents, embeddings,
//! tasks, of 2 to 10,000 classes or columns.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use information::Settings;

use leakage::batch::{Batch, NonFinite};
use leakage::point::Outcome;
use leakage::prepare::Prepared;
use leakage::run::{ActivationColumns, ActivationKind, Concept, Run, RunFields};
use leakage::sample::Sample;
use leakage::score::catalogue::{CATALOGUE, Score};
use leakage::score::{Wanted, evaluate, test};
use leakage::tensor::{DataType, Tensor, TensorName};

use super::{ALONE, AS_OIS, HELD, PEAK, Random, go_on, mib};

/// A sample by its dimensions.
#[derive(Clone, Debug)]
struct Layout {
    rows: usize,
    concepts: usize,
    /// Of each concept; 2: binary.
    classes: u32,
    two_columns: bool,
    latents: Option<u32>,
    /// Width of the embeddings; 0: none.
    embeddings: usize,
    task_classes: usize,
    /// Columns of task_logits; 0: none.
    logits: usize,
    kind: ActivationKind,
}

const PLAIN: Layout = Layout {
    rows: 24,
    concepts: 2,
    classes: 2,
    two_columns: false,
    latents: None,
    embeddings: 0,
    task_classes: 2,
    logits: 0,
    kind: ActivationKind::Probability,
};

impl Random {
    fn tensor(
        &mut self,
        name: TensorName,
        shape: &[usize],
        dtype: DataType,
        number: impl Fn(f64, usize) -> f64,
    ) -> Tensor {
        let count: usize = shape.iter().product();
        let shape: Vec<u64> = shape.iter().map(|&dim| dim as u64).collect();
        let data: Vec<u8> = (0..count)
            .flat_map(|at| match dtype {
                DataType::Float32 => (number(self.uniform(), at) as f32).to_le_bytes(),
                _ => (number(self.uniform(), at) as i32).to_le_bytes(),
            })
            .collect();
        Tensor::numbers(name, dtype, &shape, data.into()).unwrap()
    }
}

impl Layout {
    fn sample(&self) -> (Run, Sample) {
        let &Self { rows, concepts: k, classes, embeddings, logits, .. } = self;
        let mut random = Random(1);
        let concepts =
            (0..k).map(|i| Concept { name: format!("c{i}"), cardinality: classes, ..Concept::default() }).collect();
        let columns =
            if self.two_columns { ActivationColumns::TwoPerConcept } else { ActivationColumns::OnePerConcept };
        let run = Run::try_from(RunFields {
            name: "r".into(),
            concepts,
            activation_kind: self.kind,
            activation_columns: columns,
            latents: self.latents,
            ..RunFields::default()
        })
        .unwrap();
        let (float, class) = (DataType::Float32, DataType::Int32);
        let hard = self.kind == ActivationKind::Hard;
        let activation = |x: f64, _: usize| if hard { x.round() } else { x };
        // As many classes as rows allow, the last of them included.
        let below = |classes: usize| {
            move |x: f64, at: usize| if at == 0 { classes as f64 - 1.0 } else { (x * classes as f64).floor() }
        };
        let mut tensors = vec![
            random.tensor(TensorName::ConceptActivations, &[rows, run.activation_width()], float, activation),
            random.tensor(TensorName::ConceptLabels, &[rows, k], class, below(classes.max(2) as usize)),
            random.tensor(TensorName::TaskLabels, &[rows], class, below(self.task_classes)),
            random.tensor(TensorName::TaskPredictions, &[rows], class, below(self.task_classes)),
            random.tensor(TensorName::IntervenedTaskPredictions, &[rows], class, below(self.task_classes)),
        ];
        if logits > 0 {
            tensors.push(random.tensor(TensorName::TaskLogits, &[rows, logits], float, |x, _| x));
        }
        if embeddings > 0 {
            for name in [TensorName::ConceptEmbeddings, TensorName::PositiveEmbeddings, TensorName::NegativeEmbeddings]
            {
                tensors.push(random.tensor(name, &[rows, k, embeddings], float, |x, _| x));
            }
        }
        let batch = Batch::new(tensors, &run, NonFinite::Reject).unwrap();
        let sample = Sample::of_batch(&batch, &run);
        (run, sample)
    }
}

/// Bytes that a score and its test took at most, and what was estimated; `None` where that exceeds the limit.
fn measured(run: &Run, sample: &Sample, threads: usize, limit: usize, score: &'static Score) -> Option<(isize, isize)> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let before = HELD.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let prepared = Prepared::new(sample, run, Settings::default()).with_memory(limit);
        let outcomes = evaluate(&prepared, Wanted::Named(&[score]), go_on).unwrap();
        test(&prepared, |tested| tested.id == score.id, go_on).unwrap();
        let peak = PEAK.load(Ordering::Relaxed) - before;
        drop(outcomes);
        (prepared.peak() > 0).then_some((peak, prepared.peak() as isize))
    })
}

#[test]
fn no_layout_takes_more_than_is_estimated() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (layout, threads) in layouts() {
        let (run, sample) = layout.sample();
        for score in CATALOGUE.iter().filter(|score| !AS_OIS.contains(&score.id)) {
            let Some((took, estimated)) = measured(&run, &sample, threads, 256 << 20, score) else { continue };
            let what = format!("{}: took {:.1} MiB, estimated {:.1}, {layout:?}", score.id, mib(took), mib(estimated));
            assert!(took <= estimated, "{what}");
            // Not so high that ordinary samples are refused. Of scores that are undefined at once nothing is taken.
            assert!(estimated <= 12 * took + (128 << 20), "{what}");
        }
    }
}

#[test]
fn columns_and_classes_that_exceed_the_limit_make_a_score_undefined_before_it_takes_anything() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for classes in [8_000, 20_000] {
        let (run, sample) = Layout { classes, rows: 20, ..PLAIN }.sample();
        let before = HELD.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let limit = 256 << 20;
        let prepared = Prepared::new(&sample, &run, Settings::default()).with_memory(limit);
        let scores = super::named(&["ctl", "concept_accuracy", "joint_leakage", "joint_leakage_baseline"]);
        let outcomes = evaluate(&prepared, Wanted::Named(&scores), go_on).unwrap();
        let took = PEAK.load(Ordering::Relaxed) - before;
        assert!(took <= limit as isize, "{:.1} MiB", mib(took));
        for (score, outcome) in outcomes {
            match outcome {
                Outcome::Undefined(undefined) => assert!(undefined.why.starts_with("needs "), "{}", undefined.why),
                Outcome::Value(_) => assert!(!score.id.starts_with("joint"), "{}", score.id),
            }
        }
    }
}

fn layouts() -> Vec<(Layout, usize)> {
    let mut layouts = vec![
        (Layout { concepts: 24, ..PLAIN }, 2),
        (Layout { concepts: 24, two_columns: true, ..PLAIN }, 2),
        (Layout { concepts: 8, classes: 8, ..PLAIN }, 2),
        (Layout { classes: 40, kind: ActivationKind::Hard, ..PLAIN }, 2),
        (Layout { classes: 40, rows: 200, task_classes: 60, logits: 60, ..PLAIN }, 2),
    ];
    for classes in [3, 40, 200, 2_000, 10_000] {
        layouts.push((Layout { classes, rows: if classes > 40 { 9 } else { 24 }, ..PLAIN }, 1));
    }
    for latents in [40, 10_000] {
        layouts.push((Layout { latents: Some(latents), rows: 9, ..PLAIN }, 2));
    }
    for embeddings in [64, 1_024, 10_000] {
        layouts.push((Layout { embeddings, ..PLAIN }, 2));
    }
    for task_classes in [300, 10_000] {
        layouts.push((Layout { task_classes, ..PLAIN }, 2));
        layouts.push((Layout { task_classes, logits: task_classes, ..PLAIN }, 1));
    }
    layouts
}
