//! Builds runs and samples from columns, and models with a known leak.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use information::Kind;
pub use information::Settings;
use leakage::batch::{Batch, NonFinite};
pub use leakage::point::Outcome;
use leakage::prepare::Prepared;
pub use leakage::run::{ActivationKind, RunConstants};
use leakage::run::{Concept, LabelKind, Run, RunFields};
use leakage::sample::Sample;
use leakage::score::catalogue::{Cost, Input, Score, find};
use leakage::score::{Wanted, evaluate};
pub use leakage::tensor::TensorName;
use leakage::tensor::{Content, DataType, Dim, Tensor};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

pub const TIE_AWARE: Settings = Settings { kind: Kind::TieAware, neighbours: 3, repeats: 5, seed: 0 };
pub const PUBLISHED: Settings = Settings { kind: Kind::Published, ..TIE_AWARE };

/// Every leakage score of scalar concepts, with its unclipped twin.
pub const LEAKAGE: [(&str, &str); 3] =
    [("ctl", "ctl_excess"), ("icl", "icl_excess"), ("icl_label", "icl_label_excess")];
pub const LEAKAGE_IDS: [&str; 6] = ["ctl", "ctl_excess", "icl", "icl_excess", "icl_label", "icl_label_excess"];

/// The scores that trends are read from, in the order in which their influences are given.
pub const TRENDS: [&str; 5] = ["ctl_excess", "icl_excess", "icl_label_excess", "ctl_conditional", "icl_conditional"];

/// A run and the arrays of one sample: row-major values and the shape of a row.
#[derive(Clone)]
pub struct Columns {
    pub rows: usize,
    pub fields: RunFields,
    pub arrays: BTreeMap<TensorName, (Vec<usize>, Vec<f64>)>,
    pub texts: BTreeMap<TensorName, Vec<String>>,
}

impl Columns {
    /// `k` binary concepts c0, c1, … with logits for activations.
    pub fn new(rows: usize, k: usize) -> Self {
        let concepts =
            (0..k).map(|i| Concept { name: format!("c{i}"), cardinality: 0, ..Concept::default() }).collect();
        let activation_kind = ActivationKind::Logit;
        let fields = RunFields { name: "test".into(), concepts, activation_kind, ..RunFields::default() };
        Self { rows, fields, arrays: BTreeMap::new(), texts: BTreeMap::new() }
    }

    pub fn k(&self) -> usize {
        self.fields.concepts.len()
    }

    pub fn with(mut self, name: TensorName, dims: &[usize], values: Vec<f64>) -> Self {
        assert_eq!(values.len(), self.rows * dims.iter().product::<usize>(), "{name}");
        self.arrays.insert(name, (dims.to_vec(), values));
        self
    }

    pub fn without(mut self, name: TensorName) -> Self {
        let removed = self.arrays.remove(&name).is_some() || self.texts.remove(&name).is_some();
        assert!(removed, "{name} was there");
        self
    }

    pub fn with_texts(mut self, name: TensorName, texts: Vec<String>) -> Self {
        assert_eq!(texts.len(), self.rows, "{name}");
        self.texts.insert(name, texts);
        self
    }

    /// The array with `change` applied to each (row, position in the row, value).
    pub fn changed(mut self, name: TensorName, change: impl Fn(usize, usize, f64) -> f64) -> Self {
        let (dims, values) = self.arrays.get_mut(&name).expect("the array is there");
        let width: usize = dims.iter().product::<usize>();
        values.iter_mut().enumerate().for_each(|(at, value)| *value = change(at / width, at % width, *value));
        self
    }

    pub fn kind(mut self, kind: ActivationKind) -> Self {
        self.fields.activation_kind = kind;
        self
    }

    pub fn continuous_labels(mut self, concepts: bool, task: bool) -> Self {
        let kind = |continuous| if continuous { LabelKind::Continuous } else { LabelKind::Class };
        (self.fields.concept_label_kind, self.fields.task_label_kind) = (kind(concepts), kind(task));
        self
    }

    pub fn cardinalities(mut self, cardinalities: &[u32]) -> Self {
        for (concept, &cardinality) in self.fields.concepts.iter_mut().zip(cardinalities) {
            concept.cardinality = cardinality;
        }
        self
    }

    pub fn constants(mut self, constants: RunConstants) -> Self {
        self.fields.constants = constants;
        self
    }

    /// Rows in another order: row i of the result is row `order[i]`.
    pub fn reordered(mut self, order: &[usize]) -> Self {
        for (dims, values) in self.arrays.values_mut() {
            let width: usize = dims.iter().product::<usize>();
            *values = order.iter().flat_map(|&row| values[row * width..(row + 1) * width].to_vec()).collect();
        }
        for texts in self.texts.values_mut() {
            *texts = order.iter().map(|&row| texts[row].clone()).collect();
        }
        self.rows = order.len();
        self
    }

    /// These concepts alone, in this order.
    pub fn of_concepts(mut self, kept: &[usize]) -> Self {
        fn chosen<T: Clone>(all: &[T], kept: &[usize]) -> Vec<T> {
            if all.is_empty() { Vec::new() } else { kept.iter().map(|&i| all[i].clone()).collect() }
        }
        let is_of_concepts =
            |name: &TensorName| matches!(name.shapes()[0].get(1), Some(Dim::Concepts | Dim::Activations));
        for (_, (dims, values)) in self.arrays.iter_mut().filter(|(name, _)| is_of_concepts(name)) {
            let width: usize = dims[1..].iter().product();
            let blocks: Vec<&[f64]> = values.chunks(width).collect();
            *values = blocks.chunks(dims[0]).flat_map(|row| kept.iter().flat_map(|&i| row[i])).copied().collect();
            dims[0] = kept.len();
        }
        self.fields.concepts = chosen(&self.fields.concepts, kept);
        let constants = &mut self.fields.constants;
        constants.concept_parts = chosen(&constants.concept_parts, kept);
        constants.concept_weights = chosen(&constants.concept_weights, kept);
        self
    }

    pub fn run(&self) -> Run {
        Run::try_from(self.fields.clone()).expect("the declaration is valid")
    }

    pub fn sample(&self) -> Sample {
        let run = self.run();
        let tensor = |(&name, (dims, values)): (&TensorName, &(Vec<usize>, Vec<f64>))| {
            let shape: Vec<u64> = std::iter::once(self.rows).chain(dims.iter().copied()).map(|d| d as u64).collect();
            let flags = name.content() == Content::Flags;
            let bytes: Vec<u8> = if flags {
                values.iter().map(|value| *value as u8).collect()
            } else {
                values.iter().flat_map(|value| value.to_le_bytes()).collect()
            };
            let dtype = if flags { DataType::Bool } else { DataType::Float64 };
            Tensor::numbers(name, dtype, &shape, bytes.into()).expect("the shape fits")
        };
        let text = |(&name, texts): (&TensorName, &Vec<String>)| {
            Tensor::texts(name, &[self.rows as u64], texts.clone()).expect("a text a row")
        };
        let tensors = self.arrays.iter().map(tensor).chain(self.texts.iter().map(text)).collect();
        let batch = Batch::new(tensors, &run, NonFinite::Reject);
        Sample::of_batch(&batch.expect("the columns are a valid batch"), &run)
    }

    /// The outcome of each of `ids`.
    pub fn scores(&self, ids: &[&str], settings: Settings) -> BTreeMap<String, Outcome> {
        let named: Vec<_> = ids.iter().map(|id| find(id).expect("the catalogue has it")).collect();
        self.evaluate(Wanted::Named(&named), settings)
    }

    /// Every score whose inputs are present.
    pub fn available(&self, settings: Settings) -> BTreeMap<String, Outcome> {
        self.evaluate(Wanted::Available, settings)
    }

    fn evaluate(&self, wanted: Wanted, settings: Settings) -> BTreeMap<String, Outcome> {
        let (sample, run) = (self.sample(), self.run());
        let prepared = Prepared::new(&sample, &run, settings);
        let scores = evaluate(&prepared, wanted, |_, _, _| ControlFlow::Continue(())).expect("nothing broke it off");
        scores.into_iter().map(|(score, outcome)| (score.id.to_owned(), outcome)).collect()
    }

    /// The remarks of the scores.
    pub fn warnings(&self, wanted: Wanted) -> Vec<String> {
        let (sample, run) = (self.sample(), self.run());
        let prepared = Prepared::new(&sample, &run, TIE_AWARE);
        evaluate(&prepared, wanted, |_, _, _| ControlFlow::Continue(()));
        prepared.warnings()
    }

    pub fn score(&self, id: &str) -> Outcome {
        self.scores(&[id], TIE_AWARE).remove(id).expect("it was requested")
    }

    pub fn value(&self, id: &str) -> f64 {
        value(&self.score(id))
    }

    /// Why the score has no value.
    pub fn why(&self, id: &str) -> String {
        why(&self.score(id))
    }
}

/// Whether the score trains auxiliary models on some rows and tests them on others, so that the order of rows matters.
pub fn trains_helpers(id: &str) -> bool {
    let score = find(id).expect("the catalogue has it");
    score.cost == Cost::Slow || id == "sap"
}

pub fn value(outcome: &Outcome) -> f64 {
    match outcome {
        Outcome::Value(value) => value.value,
        Outcome::Undefined(undefined) => panic!("undefined: {}", undefined.why),
    }
}

pub fn standard_error(outcome: &Outcome) -> f64 {
    outcome.value().and_then(|value| value.standard_error).expect("it has a standard error")
}

/// The values of the concepts, each of which has one.
pub fn parts(outcome: &Outcome) -> Vec<f64> {
    outcome.per_concept().unwrap().iter().map(|value| value.unwrap()).collect()
}

pub fn why(outcome: &Outcome) -> String {
    outcome.why().unwrap_or_else(|| panic!("it has a value: {outcome:?}")).to_owned()
}

pub fn random(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

pub fn gaussians(count: usize, random: &mut ChaCha8Rng) -> Vec<f64> {
    (0..count).map(|_| StandardNormal.sample(random)).collect()
}

/// True with probability `p`, as 0 or 1.
pub fn coin(p: f64, random: &mut ChaCha8Rng) -> f64 {
    f64::from(u8::from(random.random::<f64>() < p))
}

/// A binary model: correlated concepts, a task that is their noisy majority, logits that predict the concept, and the
/// task as far as `leak` goes; embeddings of width 3 around the logits; task logits.
pub fn model(rows: usize, k: usize, leak: f64, seed: u64) -> Columns {
    let mut random = random(seed);
    let mut arrays = [const { Vec::new() }; 8];
    let [activations, labels, task, embeddings, positive, negative, logits, intervened] = &mut arrays;
    for _ in 0..rows {
        let shared = coin(0.5, &mut random);
        let concepts: Vec<f64> =
            (0..k).map(|_| if coin(0.3, &mut random) == 1.0 { shared } else { coin(0.45, &mut random) }).collect();
        let votes = concepts.iter().sum::<f64>() - k as f64 / 2.0 + gaussians(1, &mut random)[0] * 0.5;
        let y = f64::from(u8::from(votes > 0.0));
        for &c in &concepts {
            let noise = gaussians(10, &mut random);
            let logit = 1.5 * (2.0 * c - 1.0) + leak * (2.0 * y - 1.0) + noise[0];
            activations.push(logit);
            embeddings.extend([logit + noise[1], c + noise[2], noise[3]]);
            positive.extend([c * (2.0 * y - 1.0) + noise[4], noise[5], noise[6]]);
            negative.extend([(1.0 - c) * y + noise[7], noise[8], noise[9]]);
        }
        labels.extend(concepts);
        task.push(y);
        let confidence = 2.0 * y - 1.0 + gaussians(1, &mut random)[0];
        logits.extend([-confidence, confidence]);
        intervened.push(if coin(0.8, &mut random) == 1.0 { y } else { 1.0 - y });
    }
    let [activations, labels, task, embeddings, positive, negative, logits, intervened] = arrays;
    // An encoder of width 4 that sees the first concepts, and prompts of the present ones.
    let encoded = |noise: &mut ChaCha8Rng| -> Vec<f64> {
        let seen = |row: &[f64]| (0..4).map(|at| row[at % k] + 0.5).collect::<Vec<f64>>();
        labels.chunks(k).flat_map(seen).map(|x| x + 0.4 * gaussians(1, noise)[0]).collect()
    };
    let [image, predicted, reference] = [0, 1, 2].map(|_| encoded(&mut random));
    let prompt = |present: &dyn Fn(usize) -> bool| -> Vec<String> {
        let named =
            |row: usize| (0..k).filter(|&i| present(row * k + i)).map(|i| format!(", concept {i}")).collect::<String>();
        (0..rows).map(|row| format!("bird{}", named(row))).collect()
    };
    let [predicted_text, reference_text] = [prompt(&|at| activations[at] > 0.0), prompt(&|at| labels[at] > 0.0)];
    // Concepts belong to one of two parts in turn, and maps peak roughly near these.
    let maps: Vec<f64> = (0..rows * k)
        .flat_map(|at| {
            let noise = gaussians(25, &mut random);
            let height = move |cell: usize| noise[cell] + if cell == 6 + 12 * (at % k % 2) { 2.0 } else { 0.0 };
            (0..25).map(height).collect::<Vec<f64>>()
        })
        .collect();
    // A head that more true concepts help, and more wrong ones mislead.
    let mut head = self::random(seed ^ 0xbead);
    let steps = 3.min(k + 1);
    let mut curve = |right: [f64; 2]| -> Vec<f64> {
        let of_row = |(&y, logits): (&f64, &[f64])| {
            let of_share = |share: &f64| if coin(*share, &mut head) == 1.0 { y } else { 1.0 - y };
            // With no concept set it is the model's own.
            let own = f64::from(u8::from(logits[1] > logits[0]));
            std::iter::once(own).chain(right[..steps - 1].iter().map(of_share)).collect::<Vec<f64>>()
        };
        task.iter().zip(logits.chunks(2)).flat_map(of_row).collect()
    };
    let (corrected, misled) = (curve([0.75, 0.8]), curve([0.5, 0.3]));
    let ablated = task.iter().map(|&y| if coin(0.6, &mut head) == 1.0 { y } else { 1.0 - y }).collect();
    let parts = (0..rows).flat_map(|row| [15.0, 15.0, 35.0, if row % 5 == 0 { f64::NAN } else { 35.0 }]).collect();
    let concept_parts = (0..k as u32).map(|i| vec![i % 2]).collect();
    Columns::new(rows, k)
        .with(TensorName::LocalizationMaps, &[k, 5, 5], maps)
        .with(TensorName::PartLocations, &[2, 2], parts)
        .with(TensorName::ImageEmbeddings, &[4], image)
        .with(TensorName::PredictedTextEmbeddings, &[4], predicted)
        .with(TensorName::ReferenceTextEmbeddings, &[4], reference)
        .with_texts(TensorName::PredictedText, predicted_text)
        .with_texts(TensorName::ReferenceText, reference_text)
        .with(TensorName::ConceptActivations, &[k], activations)
        .with(TensorName::ConceptLabels, &[k], labels)
        .with(TensorName::TaskLabels, &[], task)
        .with(TensorName::ConceptEmbeddings, &[k, 3], embeddings)
        .with(TensorName::PositiveEmbeddings, &[k, 3], positive)
        .with(TensorName::NegativeEmbeddings, &[k, 3], negative)
        .with(TensorName::TaskLogits, &[2], logits)
        .with(TensorName::IntervenedTaskPredictions, &[], intervened)
        .with(TensorName::AblatedTaskPredictions, &[], ablated)
        .with(TensorName::InterventionPredictions, &[steps], corrected)
        .with(TensorName::WrongInterventionPredictions, &[steps], misled)
        .constants(RunConstants {
            reference_task_accuracy: Some(0.9),
            concept_parts,
            image_size: Some((50, 50)),
            box_size: Some((16, 16)),
            ..RunConstants::default()
        })
}

/// The model with a linear head of two classes, which decides activity too, and with feature maps.
pub fn with_head_and_features(mut columns: Columns) -> Columns {
    let (n, k) = (columns.rows, columns.k());
    columns.fields.constants.head_weights = (0..2 * k).map(|at| if at < k { -0.5 } else { 0.5 }).collect();
    let noise = gaussians(36 * n, &mut random(9));
    let map = |from: usize| noise[from * n..(from + 12) * n].to_vec();
    columns
        .with(TensorName::DeepFeatures, &[3, 2, 2], map(0))
        .with(TensorName::ShallowFeatures, &[3, 2, 2], map(12))
        .with(TensorName::CrossImageDifference, &[3, 2, 2], map(24).into_iter().map(|x| 0.1 * x).collect())
}

/// Equal but for rounding.
pub fn near(a: f64, b: f64, what: &str) {
    assert!((a - b).abs() <= 1e-9 * b.abs().max(1e-3), "{what}: {a} and {b}");
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub fn standard_deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64).sqrt()
}

/// Whether a score is of labels that are numbers.
pub fn is_of_numbers(score: &Score) -> bool {
    score.inputs.iter().any(|input| matches!(input, Input::Numbers(_)))
}

/// Whether a score is only of activations that were learnt without labels.
pub fn is_of_latents(score: &Score) -> bool {
    score.inputs.contains(&Input::Latents)
}

/// Whether a score is of concepts with an activation each, and of classes.
pub fn is_of_concepts(score: &Score) -> bool {
    !is_of_numbers(score) && !is_of_latents(score)
}
