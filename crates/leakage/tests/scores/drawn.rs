//! Samples that are degenerate but valid, drawn from bytes, and everything that the catalogue makes of one: few rows, rare
//! strata, constant columns, ties, every encoding of activations and labels. A panic or a number that is not finite is a
//! finding.
//!
//! Shared by a test here and by `fuzz/targets/scores.rs`.

use std::ops::ControlFlow;
use std::sync::Mutex;

use information::{Kind, Settings};

use leakage::batch::{Batch, NonFinite};
use leakage::point::{Outcome, Significance};
use leakage::prepare::Prepared;
use leakage::run::{ActivationColumns, ActivationKind, Concept, LabelKind, Run, RunConstants, RunFields};
use leakage::sample::Sample;
use leakage::score::catalogue::{Cost, Score};
use leakage::score::{Influences, LeakingRowsOfAll, LeakingRowsOfTasks, Wanted, evaluate, test};
use leakage::tensor::{DataType, Tensor, TensorName};

/// A sample, its run, and how to score it.
pub struct Drawn {
    pub run: Run,
    pub sample: Sample,
    pub settings: Settings,
    /// Whether numbers are so large that arithmetic may overflow, which a score has to say.
    pub huge: bool,
}

/// The bytes decide one choice after the other; once they are used up, so do numbers that follow from them.
struct Choices<'a> {
    bytes: &'a [u8],
    state: u64,
}

impl<'a> Choices<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let state = bytes.iter().fold(0x9e37_79b9_7f4a_7c15, |state: u64, &byte| {
            (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
        });
        Self { bytes, state }
    }

    /// Splitmix64.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        let number = match self.bytes.split_first() {
            Some((byte, rest)) if count <= 256 => {
                self.bytes = rest;
                usize::from(*byte)
            }
            _ => (self.random() >> 33) as usize,
        };
        number % count.max(1)
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// In [0, 1), of the noise rather than of the bytes.
    fn uniform(&mut self) -> f64 {
        (self.random() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn noise(&mut self) -> f64 {
        (0..4).map(|_| self.uniform() - 0.5).sum::<f64>() * 1.7
    }
}

/// A column of class numbers below `classes`.
fn classes(c: &mut Choices, rows: usize, classes: usize) -> Vec<f64> {
    let shape = c.below(6);
    let rare = 1 + c.below(8);
    let common = c.below(classes);
    (0..rows)
        .map(|row| match shape {
            0 => common,
            1 if row < rare => (common + 1 + row) % classes,
            1 => common,
            2 => row % classes,
            3 if c.uniform() < 0.1 => (c.uniform() * classes as f64) as usize,
            3 => common,
            _ => (c.uniform() * classes as f64) as usize,
        } as f64)
        .collect()
}

/// A column of numbers. `like` is a column that it may follow.
fn numbers(c: &mut Choices, rows: usize, like: &[f64], huge: bool) -> Vec<f64> {
    let shape = c.below(if huge { 12 } else { 10 });
    let rare = 1 + c.below(8);
    let level = c.of(&[0.0, 1.0, 0.5, -2.0, 1e-3]);
    (0..rows)
        .map(|row| {
            let noise = c.noise();
            match shape {
                0 => level,
                1 if row < rare => noise,
                1 => level,
                2 => (2.0 * noise).round(),
                3 => f64::from(u8::from(noise > 0.3)),
                4 => like[row],
                5 => like[row] + 0.3 * noise,
                6 => 1.0 / (1.0 + (-12.0 * (like[row] - 0.5) - noise).exp()),
                7 if row == 0 => 1e6,
                8 => 1e-9 * noise,
                10 => 1e200 * noise,
                11 => f64::MAX * noise.clamp(-1.0, 1.0),
                _ => noise,
            }
        })
        .collect()
}

/// A column of activations of this kind.
fn activations(c: &mut Choices, kind: ActivationKind, rows: usize, like: &[f64], huge: bool) -> Vec<f64> {
    match kind {
        ActivationKind::Hard => {
            let classes = self::classes(c, rows, 2);
            if c.one_in(3) { like.iter().map(|x| f64::from(u8::from(*x > 0.0))).collect() } else { classes }
        }
        ActivationKind::Probability => numbers(c, rows, like, false).iter().map(|x| x.clamp(0.0, 1.0)).collect(),
        ActivationKind::Logit | ActivationKind::Continuous => numbers(c, rows, like, huge),
    }
}

/// Row-major [rows, columns.len()].
fn interleaved(columns: &[Vec<f64>]) -> Vec<f64> {
    (0..columns[0].len()).flat_map(|row| columns.iter().map(move |column| column[row])).collect()
}

fn tensor(name: TensorName, dtype: DataType, dims: &[usize], values: &[f64]) -> Tensor {
    let rows = values.len() / dims.iter().product::<usize>();
    let shape: Vec<u64> = std::iter::once(rows).chain(dims.iter().copied()).map(|dim| dim as u64).collect();
    let bytes = values.iter().flat_map(|value| match dtype {
        DataType::Float32 => (*value as f32).to_le_bytes().to_vec(),
        DataType::Bool => vec![*value as u8],
        _ => value.to_le_bytes().to_vec(),
    });
    Tensor::numbers(name, dtype, &shape, bytes.collect::<Vec<u8>>().into()).expect("the shape fits")
}

/// The sample of these bytes.
pub fn drawn(bytes: &[u8]) -> Drawn {
    use TensorName::*;
    let c = &mut Choices::new(bytes);
    let rows = match c.below(4) {
        0 => 1 + c.below(7),
        1 => 5 + c.below(20),
        _ => 20 + c.below(50),
    };
    let k = 1 + c.below(4);
    let huge = c.one_in(16);
    let kind =
        c.of(&[ActivationKind::Probability, ActivationKind::Hard, ActivationKind::Logit, ActivationKind::Continuous]);
    let label_kind = |continuous| if continuous { LabelKind::Continuous } else { LabelKind::Class };
    let (measured_concepts, measured_task) = (c.one_in(4), c.one_in(3));
    let missing = c.one_in(4);
    let concepts: Vec<Concept> = (0..k)
        .map(|i| Concept {
            name: format!("c{i}"),
            cardinality: if c.one_in(3) { c.of(&[3, 4, 9]) } else { c.of(&[0, 1, 2]) },
            ..Concept::default()
        })
        .collect();
    let latents = c.one_in(6).then(|| (k + c.below(4)) as u32);
    let two_per_concept = latents.is_none() && c.one_in(5);
    let task_classes = c.of(&[2, 1, 2, 3, 7, 30]);
    let logits = if task_classes <= 2 && c.one_in(3) { 1 } else { task_classes };
    let classes_of_head = c.of(&[0, 0, 1, 2, task_classes]);
    let columns_of_head = latents.map_or(k, |latents| latents as usize);
    let some = |c: &mut Choices, count: usize| -> Vec<f64> { (0..count).map(|_| c.noise()).collect() };
    let constants = RunConstants {
        reference_task_accuracy: c.one_in(4).then_some(0.8),
        concept_weights: if c.one_in(4) {
            (0..k).map(|i| if i == 0 { 1.0 } else { c.of(&[0.0, 1.0, 1e-9]) }).collect()
        } else {
            vec![]
        },
        head_weights: some(c, classes_of_head * columns_of_head),
        head_bias: if c.one_in(2) { some(c, classes_of_head) } else { vec![] },
        active_top_k: c.one_in(5).then(|| 1 + c.below(k) as u32),
        activity_threshold: c.one_in(5).then(|| c.of(&[0.0, 0.5, 10.0])),
        clarity_weights: if c.one_in(5) {
            c.of(&[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 2.0]]).to_vec()
        } else {
            vec![]
        },
        concept_parts: if c.one_in(2) {
            (0..k).map(|_| if c.one_in(3) { vec![] } else { vec![c.below(2) as u32] }).collect()
        } else {
            vec![]
        },
        image_size: c.one_in(2).then_some((20, 30)),
        box_size: c.one_in(2).then_some((4, 4)),
        ..RunConstants::default()
    };
    let run = Run::try_from(RunFields {
        name: "drawn".into(),
        concepts,
        activation_kind: kind,
        concept_label_kind: label_kind(measured_concepts),
        task_label_kind: label_kind(measured_task),
        missing_concept_labels: missing,
        activation_columns: if two_per_concept {
            ActivationColumns::TwoPerConcept
        } else {
            ActivationColumns::OnePerConcept
        },
        latents,
        constants,
        ..RunFields::default()
    })
    .expect("a declaration that is right");

    let single = c.one_in(2) && !huge;
    let floats = if single { DataType::Float32 } else { DataType::Float64 };
    let zeros = vec![0.0; rows];
    // A fifth of the labels of some concepts is unknown, or all but a few.
    let mut labels: Vec<Vec<f64>> = Vec::new();
    for concept in &run.concepts {
        let like = labels.first().unwrap_or(&zeros).clone();
        let mut column = match measured_concepts {
            true => numbers(c, rows, &like, huge),
            false if c.one_in(4) => like.iter().map(|x| x.rem_euclid(f64::from(concept.classes()))).collect(),
            false => classes(c, rows, concept.classes() as usize),
        };
        if missing {
            let share = c.of(&[0.0, 0.2, 0.95]);
            let unknown = if measured_concepts { f64::NAN } else { -1.0 };
            column.iter_mut().for_each(|label| *label = if c.uniform() < share { unknown } else { *label });
        }
        labels.push(column);
    }
    let known = |column: &[f64]| column.iter().map(|x| if x.is_nan() { 0.0 } else { *x }).collect::<Vec<f64>>();
    let task = match measured_task {
        true => numbers(c, rows, &known(&labels[0]), huge),
        false => classes(c, rows, task_classes),
    };
    let mut columns: Vec<Vec<f64>> = Vec::new();
    match (&latents, run.activation_blocks(run.activation_width())) {
        (None, Some(blocks)) => {
            for (block, label) in blocks.iter().zip(&labels) {
                let like = if c.one_in(3) { task.clone() } else { known(label) };
                if kind == ActivationKind::Hard && block.len() == 1 && c.one_in(4) {
                    // The mean of hard predictions over Monte-Carlo samples.
                    columns
                        .push(like.iter().map(|x| (x.clamp(0.0, 1.0) + 0.25 * c.below(3) as f64).min(1.0)).collect());
                } else {
                    columns.extend(block.clone().map(|_| activations(c, kind, rows, &like, huge)));
                }
            }
        }
        _ => columns.extend((0..run.activation_width()).map(|_| activations(c, kind, rows, &task, huge))),
    }
    let mut tensors = Vec::new();
    if !c.one_in(12) {
        tensors.push(tensor(ConceptActivations, floats, &[columns.len()], &interleaved(&columns)));
    }
    if !c.one_in(12) || tensors.is_empty() {
        tensors.push(tensor(ConceptLabels, DataType::Float64, &[k], &interleaved(&labels)));
    }
    if !c.one_in(12) {
        tensors.push(tensor(TaskLabels, DataType::Float64, &[], &task));
    }
    if c.one_in(2) {
        let columns: Vec<Vec<f64>> = (0..logits).map(|_| numbers(c, rows, &task, huge)).collect();
        tensors.push(tensor(TaskLogits, floats, &[logits], &interleaved(&columns)));
    }
    let of_head = logits.max(2);
    for name in [TaskPredictions, IntervenedTaskPredictions, AblatedTaskPredictions] {
        if c.one_in(2) {
            tensors.push(tensor(name, DataType::Float64, &[], &classes(c, rows, of_head)));
        }
    }
    if c.one_in(3) {
        let steps = 2 + c.below(k);
        for name in [InterventionPredictions, WrongInterventionPredictions] {
            let none = c.one_in(4);
            let mut columns: Vec<Vec<f64>> = (0..steps).map(|_| classes(c, rows, of_head)).collect();
            if none {
                columns[0][0] = -1.0;
            }
            tensors.push(tensor(name, DataType::Float64, &[steps], &interleaved(&columns)));
        }
    }
    let width = c.of(&[1, 2, 3, 17]);
    for name in [ConceptEmbeddings, PositiveEmbeddings, NegativeEmbeddings] {
        if c.one_in(3) {
            let columns: Vec<Vec<f64>> =
                (0..k * width).map(|at| numbers(c, rows, &known(&labels[at / width]), huge)).collect();
            tensors.push(tensor(name, floats, &[k, width], &interleaved(&columns)));
        }
    }
    if c.one_in(5) {
        tensors.push(tensor(Groups, DataType::Float64, &[], &classes(c, rows, 3)));
    }
    if c.one_in(5) {
        tensors.push(tensor(ActiveConcepts, DataType::Bool, &[k], &classes(c, rows * k, 2)));
    }
    if c.one_in(4) {
        for name in [ImageEmbeddings, PredictedTextEmbeddings, ReferenceTextEmbeddings] {
            tensors.push(tensor(name, floats, &[3], &numbers(c, 3 * rows, &vec![0.0; 3 * rows], huge)));
        }
        let texts = ["", "a", "a bird", "a bird, a wing", "é 1,000"];
        for name in [PredictedText, ReferenceText] {
            let texts = (0..rows).map(|_| c.of(&texts).to_owned()).collect();
            tensors.push(Tensor::texts(name, &[rows as u64], texts).expect("a text for each row"));
        }
    }
    if c.one_in(4) {
        let any = |c: &mut Choices, width: usize| numbers(c, width * rows, &vec![0.0; width * rows], huge);
        tensors.push(tensor(LocalizationMaps, floats, &[k, 2, 3], &any(c, 6 * k)));
        let parts: Vec<f64> =
            any(c, 4).iter().map(|x| if *x < 0.0 { f64::NAN } else { (20.0 * x).min(100.0) }).collect();
        tensors.push(tensor(PartLocations, DataType::Float64, &[2, 2], &parts));
        tensors.push(tensor(DeepFeatures, floats, &[2, 2, 2], &any(c, 8)));
        tensors.push(tensor(ShallowFeatures, floats, &[3, 2, 2], &any(c, 12)));
        tensors.push(tensor(CrossImageDifference, floats, &[2, 2, 2], &any(c, 8)));
    }
    let settings = Settings {
        kind: c.of(&[Kind::TieAware, Kind::TieAware, Kind::Published]),
        neighbours: c.of(&[3, 3, 1, 7]),
        repeats: 2,
        seed: c.below(256) as u64,
    };
    let batch = Batch::new(tensors, &run, NonFinite::Reject).expect("a batch that is right");
    let sample = Sample::of_batch(&batch, &run);
    Drawn { run, sample, settings, huge }
}

/// Computes the whole catalogue on the sample of these bytes, with tests and the errors of changes; without the scores that
/// train networks, unless `slow`.
pub fn score(bytes: &[u8], slow: bool) {
    let drawn = drawn(bytes);
    let failures = Mutex::new(Vec::new());
    let on_failure =
        |what: &str, text: &str| failures.lock().expect("nothing panics here").push(format!("{what}: {text}"));
    let prepared = Prepared::new(&drawn.sample, &drawn.run, drawn.settings).with_failures(&on_failure);
    let go_on = |_: usize, _: usize, _: &Score| ControlFlow::Continue(());
    let wanted = if slow { Wanted::Available } else { Wanted::AvailableAt(Cost::AT_ONCE) };
    let outcomes = evaluate(&prepared, wanted, go_on).expect("nothing breaks it off");
    let tests = test(&prepared, |_| true, go_on).expect("nothing breaks it off");
    let influences = Influences::of(&prepared, drawn.sample.ids(), Cost::AT_ONCE);
    let changes = influences.change_errors(&influences);
    let rows = LeakingRowsOfTasks::of(&prepared, 5);
    for LeakingRowsOfAll { mean, .. } in (0..drawn.run.task_count()).filter_map(|task| rows.rows(task).ok()) {
        let numbers = mean.rows.iter().flat_map(|row| [row.local, row.term]);
        assert!(numbers.chain([mean.value]).all(|number| drawn.huge || number.is_finite()), "{mean:?}");
    }
    assert!((0.0..=1.0).contains(&prepared.tie_fraction()));
    prepared.concept_rows();
    prepared.warnings();
    let failures = failures.into_inner().expect("nothing panics there");
    assert!(failures.is_empty(), "{failures:?}");
    for (score, outcome) in &outcomes {
        match outcome {
            Outcome::Value(value) => {
                let cells = value.matrix.iter().flatten().flatten();
                let parts = value.per_concept.iter().flatten().chain(cells).flatten();
                let numbers = parts.chain([&value.value]).chain(&value.standard_error);
                assert!(numbers.into_iter().all(|number| number.is_finite()), "{}: {value:?}", score.id);
                let states_error = value.standard_error.is_some();
                assert_eq!(states_error, score.no_standard_error.is_none(), "{}: {value:?}", score.id);
            }
            Outcome::Undefined(undefined) => {
                let why = &undefined.why;
                assert!(!why.is_empty(), "{} has no reason", score.id);
                assert!(
                    drawn.huge || !["left the range", "NaN", "inf"].iter().any(|word| why.contains(word)),
                    "{}: {why}",
                    score.id
                );
            }
        }
    }
    for (score, significance) in &tests {
        check(score.id, significance);
    }
    assert!(changes.iter().all(|(_, error)| error.is_finite()), "{changes:?}");
}

fn check(id: &str, Significance { p_value, per_concept_q, matrix_q, .. }: &Significance) {
    let rates = per_concept_q.iter().flatten().chain(matrix_q.iter().flatten().flatten()).flatten();
    for p in p_value.iter().chain(rates) {
        assert!(*p > 0.0 && *p <= 1.0, "{id}: {p}");
    }
}
