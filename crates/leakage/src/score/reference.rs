//! Whether the concept set is complete: heads trained on the true concepts of the sample.
//!
//! Source: Leakage and Interpretability in Concept-Based Models, Section 9, doi:10.48550/arXiv.2504.14094. Where a linear
//! head fails and an MLP does not, a linear head is misspecified; where both fail, the concept set is incomplete.

use std::collections::BTreeSet;
use std::sync::Arc;

use ndarray::{Array2, Axis};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::nn::adam::Epsilon;
use crate::nn::dense::Activation;
use crate::nn::mlp::Mlp;
use crate::nn::trainer::{Recipe, Stop, Targets, fit, start_as_keras};
use crate::point::Outcome;
use crate::prepare::{KnownRows, Prepared, first_largest};
use crate::sample::Column;
use crate::tensor::TensorName;

use super::accuracy::{mean_over_classes, task_hits};
use super::concept_rows::distinct;
use super::holdout::Holdout;
use super::labels::task_classes;
use super::term::Term;

/// `reference_accuracy_linear` and `reference_accuracy_mlp` of a complete concept set: halfway between the highest of an
/// incomplete one (0.840) and the lowest of a complete one (0.999) in Table 3 of arXiv:2504.14094.
pub const REFERENCE_ACCURACY: f64 = 0.92;
/// Difference of `reference_accuracy_mlp` and `reference_accuracy_linear` of a misspecified linear head: half of the least
/// drop in Table 3 of arXiv:2504.14094 (1.000 to 0.859).
pub const HEAD_GAP: f64 = 0.07;
const HIDDEN: usize = 64;
/// Activation columns that heads are trained on; more would take too long beside a training job.
pub const MOST_INPUTS: usize = 1024;
/// Rows of a class below which a head on the true concepts learns too little of it.
const ROWS_A_CLASS: usize = 10;
/// Accuracy that heads gain by the second half of their rows, above which what they reach says more of the number of rows
/// than of the concepts: heads on 112 complete concepts reach an accuracy of 0.4 of 50 classes on 2,048 rows, and gain 0.1.
const STILL_LEARNS: f64 = 0.05;
const RECIPE: Recipe = Recipe {
    epochs: 300,
    batch: 128,
    learning_rate: 1e-2,
    epsilon: Epsilon::Corrected,
    weight_decay: 1e-4,
    stop: Some(Stop { tolerance: 1e-4, patience: 10 }),
};

/// Test accuracy of a linear head.
pub fn linear(p: &Prepared) -> Result<Outcome, String> {
    Ok(on_true_concepts(p)?.accuracy.linear.outcome())
}

/// Test accuracy of a ReLU head with one hidden layer of 64 units.
pub fn mlp(p: &Prepared) -> Result<Outcome, String> {
    Ok(on_true_concepts(p)?.accuracy.mlp.outcome())
}

/// Balanced y_acc^(k) of eq. 5 where the job does not state the accuracy: that of the linear head for a run whose head is
/// linear, else of the better one. Errors where a linear head misses what the concepts determine: leakage that makes up for
/// it would look like no loss under intervention.
pub fn reference(p: &Prepared) -> Result<Term, String> {
    let heads = on_true_concepts(p)?;
    let reached = &heads.balanced;
    if !p.run().constants.has_linear_head() {
        return Ok(reached.better().clone());
    }
    let (linear, mlp) = (&reached.linear, &reached.mlp);
    if mlp.value - linear.value > HEAD_GAP {
        return Err(format!(
            "on the true concepts a linear head, as the run's, reaches {:.2} and an MLP {:.2}",
            linear.value, mlp.value
        ));
    }
    Ok(linear.clone())
}

/// Balanced task accuracy − that of the better head on the true concepts: what the model predicts beyond what these
/// determine. The head decides as it was trained, or as if all classes were as frequent, whichever reaches more: a model trained with
/// weights of classes knows no more than one without. A reference accuracy that the run states is taken as known, and
/// compared with the model's accuracy. Undefined with fewer than [`ROWS_A_CLASS`] rows a class, of which heads learn too
/// little.
pub fn task_excess(p: &Prepared) -> Result<Outcome, String> {
    let hits = task_hits(p)?;
    if let Some(stated) = p.run().constants.reference_task_accuracy {
        let accuracy = Term::mean_of_rows(&hits);
        let excess = accuracy.value - stated;
        return Ok(Term { value: excess, excess, ..accuracy }.outcome());
    }
    let labels = task_classes(p)?;
    let classes = labels.iter().collect::<BTreeSet<_>>().len();
    let rows = hits.len() / classes.max(1);
    if rows < ROWS_A_CLASS {
        return Err(format!(
            "task_labels: got {rows} rows for each of {classes} classes, expected at least {ROWS_A_CLASS} to train heads on \
             the true concepts"
        ));
    }
    Ok(mean_over_classes(&hits, &labels).less(on_true_concepts(p)?.best_balanced.better()).outcome())
}

/// Heads trained on the same rows, by what they reach on others.
pub struct Heads {
    pub accuracy: Reached,
    balanced: Reached,
    /// Balanced, by the better of its two decisions.
    best_balanced: Reached,
    /// The accuracy of a predictor that reads nothing: the class most frequent in training.
    pub constant: Term,
    pub holdout: Holdout,
}

/// The score that each head reaches.
pub struct Reached {
    linear: Term,
    mlp: Term,
}

impl Reached {
    /// Returns the score of the head that reaches more, the linear one of equals.
    pub fn better(&self) -> &Term {
        if self.linear.value >= self.mlp.value { &self.linear } else { &self.mlp }
    }
}

/// Heads that read the true concepts. Errors where they would reach more with more rows.
pub fn on_true_concepts(p: &Prepared) -> Result<Arc<Heads>, String> {
    p.try_shared("heads on true concepts", || {
        // A head reads all concepts at once.
        let all: Vec<usize> = (0..p.concepts()).collect();
        let rows = p.known(&all).map_err(|why| format!("labels of all concepts: {why}"))?;
        let on_one_of = |every| {
            train(p, &rows, every, |p| encoded(p, |i| p.concept_numbers(i).ok_or("there are no concept labels".into())))
        };
        let heads = on_one_of(1)?;
        let all = heads.accuracy.better().value;
        // Another accuracy would mean the same where this one is high already.
        if all >= REFERENCE_ACCURACY {
            return Ok(heads);
        }
        let half = on_one_of(2)?.accuracy.better().value;
        if all - half > STILL_LEARNS {
            return Err(format!(
                "heads on the true concepts learn too little from so few rows: they reach an accuracy of {half:.2} on half \
                 of them and of {all:.2} on all"
            ));
        }
        Ok(heads)
    })
}

/// Heads that read the activations, or latents, each in standard deviations from its mean.
pub fn on_activations(p: &Prepared) -> Result<Arc<Heads>, String> {
    p.try_shared("heads on activations", || train(p, &KnownRows::all(p.rows()), 1, activations))
}

/// Trains on one of `every` of four fifths of `rows`, and tests on the others. `inputs` gives [n, d].
fn train(
    p: &Prepared,
    rows: &KnownRows,
    every: usize,
    inputs: impl Fn(&Prepared) -> Result<Array2<f32>, String>,
) -> Result<Heads, String> {
    let labels = task_classes(p)?;
    let names = distinct(labels.iter().copied(), i32::cmp);
    if names.len() < 2 {
        return Err("task_labels: there is one class only".into());
    }
    let classes: Vec<usize> =
        labels.iter().map(|label| names.binary_search(label).expect("every label has a name")).collect();
    let holdout = Holdout::by_task(p, 0, rows)?;
    let inputs = inputs(p)?;
    let of_test: Vec<i32> = holdout.test.iter().map(|&row| labels[row]).collect();
    let train: Vec<usize> = holdout.train.iter().copied().step_by(every).collect();
    let hits = |hidden: &[usize]| hits(p, &inputs, (&classes, names.len()), hidden, &train, &holdout.test);
    let mut counts = vec![0.0; names.len()];
    train.iter().for_each(|&row| counts[classes[row]] += 1.0);
    let likeliest = first_largest(&counts);
    let of_constant: Vec<f64> =
        holdout.test.iter().map(|&row| f64::from(u8::from(classes[row] == likeliest))).collect();
    let (linear, mlp) = (hits(&[]), hits(&[HIDDEN]));
    let reached = |of: &dyn Fn(&Hits) -> Term| {
        let [linear, mlp] = [&linear, &mlp].map(|hits| holdout.spread(&of(hits)));
        Reached { linear, mlp }
    };
    let balanced = |hits: &[f64]| mean_over_classes(hits, &of_test);
    Ok(Heads {
        accuracy: reached(&|hits| Term::mean_of_rows(&hits.as_trained)),
        balanced: reached(&|hits| balanced(&hits.as_trained)),
        best_balanced: reached(&|hits| {
            let [plain, even] = [&hits.as_trained, &hits.if_even].map(|hits| balanced(hits));
            if even.value > plain.value { even } else { plain }
        }),
        constant: holdout.spread(&Term::mean_of_rows(&of_constant)),
        holdout,
    })
}

/// 1 for each row whose class a head predicts, 0 for the others.
pub struct Hits {
    /// By the likeliest class.
    pub as_trained: Vec<f64>,
    /// By the class that would be likeliest if all were as frequent.
    pub if_even: Vec<f64>,
}

/// Trains a head with these numbers of hidden units on the rows `train` of `inputs` [n, d], and tests it on the rows
/// `test`. `classes` has the class of each row, and their number.
pub fn hits(
    p: &Prepared,
    inputs: &Array2<f32>,
    (classes, count): (&[usize], usize),
    hidden: &[usize],
    train: &[usize],
    test: &[usize],
) -> Hits {
    let mut layers: Vec<(usize, Activation)> = hidden.iter().map(|&units| (units, Activation::Relu)).collect();
    layers.push((count, Activation::Identity));
    let mut rng = ChaCha8Rng::seed_from_u64(p.settings().seed);
    let mut head = Mlp::new(inputs.ncols(), &layers, &mut rng);
    start_as_keras(&mut head, &mut rng);
    let targets = Targets::Classes(train.iter().map(|&row| classes[row]).collect());
    fit(&mut head, inputs.select(Axis(0), train).view(), &targets, &RECIPE, &mut rng, &mut |_, _| p.pause());
    let outputs = head.outputs(inputs.select(Axis(0), test).view());
    let mut counts = vec![0.0; count];
    train.iter().for_each(|&row| counts[classes[row]] += 1.0);
    let told = |row: ndarray::ArrayView1<f32>, less: &[f64]| {
        first_largest(&row.iter().zip(less).map(|(&z, less)| f64::from(z) - less).collect::<Vec<_>>())
    };
    let hits = |less: &[f64]| {
        let rows = outputs.rows().into_iter().zip(test);
        rows.map(|(row, &at)| f64::from(u8::from(told(row, less) == classes[at]))).collect()
    };
    let frequent: Vec<f64> = counts.iter().map(|count: &f64| count.max(1.0).ln()).collect();
    Hits { as_trained: hits(&vec![0.0; count]), if_even: hits(&frequent) }
}

/// Activations [n, d].
fn activations(p: &Prepared) -> Result<Array2<f32>, String> {
    let column = p.column(TensorName::ConceptActivations).ok_or("there are no concept activations")?;
    let width = column.width();
    if width > MOST_INPUTS {
        return Err(format!("there are {width} activation columns, heads are trained on at most {MOST_INPUTS}"));
    }
    standardised_columns(column)
}

/// A column's values [n, d], each in standard deviations from its mean.
pub fn standardised_columns(column: &Column) -> Result<Array2<f32>, String> {
    let columns = (0..column.width()).map(|at| standardised(&column.floats(at))).collect();
    side_by_side(column.rows(), columns, "an activation")
}

/// Columns as the inputs of a head [rows, d]. Errors where `what` they hold leaves the range of f32.
fn side_by_side(rows: usize, columns: Vec<Vec<f32>>, what: &str) -> Result<Array2<f32>, String> {
    match columns.iter().flatten().all(|x| x.is_finite()) {
        true => Ok(Array2::from_shape_fn((rows, columns.len()), |(row, at)| columns[at][row])),
        false => Err(format!("{what} is outside the range of single precision")),
    }
}

/// Values as distances from their mean, in standard deviations; 0 where they do not vary, and where one is unknown.
fn standardised(values: &[f64]) -> Vec<f32> {
    let known = || values.iter().filter(|x| !x.is_nan());
    let count = known().count() as f64;
    let mean = known().sum::<f64>() / count;
    let deviation = (known().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt();
    let scale = if deviation > 0.0 { deviation } else { 1.0 };
    values.iter().map(|x| if x.is_nan() { 0.0 } else { ((x - mean) / scale) as f32 }).collect()
}

/// Labels of each concept as the inputs of a head [n, d]: 0 or 1, one column for each class of a categorical concept, or
/// a continuous one's distance from its mean in standard deviations.
pub fn encoded(p: &Prepared, mut labels: impl FnMut(usize) -> Result<Vec<f64>, String>) -> Result<Array2<f32>, String> {
    let mut columns: Vec<Vec<f32>> = Vec::new();
    for (i, concept) in p.run().concepts.iter().enumerate() {
        let labels = labels(i)?;
        if p.run().is_continuous(i) {
            // Rows with an unknown label are not used.
            columns.push(standardised(&labels));
        } else if concept.is_categorical() {
            let of_class = |class| labels.iter().map(|&c| f32::from(u8::from(c == f64::from(class)))).collect();
            columns.extend((0..concept.cardinality).map(of_class));
        } else {
            columns.push(labels.iter().map(|&c| f32::from(u8::from(c > 0.0))).collect());
        }
    }
    side_by_side(p.rows(), columns, "a concept label")
}
