//! How well the task is predicted after concepts were replaced by their true values, or by wrong ones.
//!
//! A head that reads concepts as concepts gains from true values and loses from wrong ones. One that reads what leaked
//! into the activations loses from true values, which erase it. Losses and the curve are of balanced accuracy, the mean of
//! the recall of each class: where one class in twenty is the rare one, a head that no longer finds it loses half of the
//! balanced accuracy and a twentieth of the accuracy. y*_acc is of accuracy, as published, and S_int where the
//! run states y_acc. Of a task that is a number, losses and the curve are of R², at least the 0 of a constant.
//!
//! Source: Koh et al. 2020, Section 4.2, arXiv:2007.04612;
//! S_int: Leakage and Interpretability in Concept-Based Models, eq. 5, doi:10.48550/arXiv.2504.14094.

use crate::point::{Outcome, ScoreValue};
use crate::prepare::Prepared;
use crate::tensor::TensorName;

use super::accuracy::{mean_over_classes, predicted_task};
use super::labels::task_classes;
use super::numbers::Numbers;
use super::reference::reference;
use super::term::Term;

/// Share of rows above which two predictions are those of different heads. Rounding and Monte-Carlo samples make some.
const OTHER_HEAD: f64 = 0.05;
/// Balanced accuracy, or R², by which a head that predicts otherwise must fall short of the model to be another one.
const LESS_ACCURATE: f64 = 0.05;
/// R² of a constant, and what rounding adds to it.
const NO_R2: f64 = 1e-9;
/// Distance above which two predictions of a number are different, in standard deviations of the task.
const OTHER_NUMBER: f64 = 0.01;

/// S_int = y_acc^(k) − y*_acc^(k). A reference accuracy that the run states is taken as known: the error is that of
/// y*_acc^(k). Without one, heads are trained on the true concepts (see [`super::reference`]), and both are balanced.
pub fn intervention_score(p: &Prepared) -> Result<Outcome, String> {
    let (labels, hits) = (task_classes(p)?, intervened(p)?);
    if let Some(stated) = p.run().constants.reference_task_accuracy {
        let known = Term { value: stated, excess: stated, influence: vec![0.0; p.rows()], draw_variance: 0.0 };
        return Ok(known.less(&mean_of_set(p, &hits, None)?).outcome());
    }
    let reference = reference(p).map_err(|why| format!("reference_task_accuracy is not stated, and {why}"))?;
    Ok(reference.less(&mean_of_set(p, &hits, Some(&labels))?).outcome())
}

/// y*_acc^(k): the share of rows whose task is right after intervening on all concepts.
pub fn intervened_task_accuracy(p: &Prepared) -> Result<Outcome, String> {
    task_classes(p)?;
    Ok(mean_of_set(p, &intervened(p)?, None)?.outcome())
}

/// y*_acc^(k), balanced.
pub fn intervened_task_balanced_accuracy(p: &Prepared) -> Result<Outcome, String> {
    let labels = task_classes(p)?;
    Ok(mean_of_set(p, &intervened(p)?, Some(&labels))?.outcome())
}

/// R² of a task that is a number, with all concepts true, at least 0.
pub fn intervened_task_r2(p: &Prepared) -> Result<Outcome, String> {
    Numbers::of_task(p)?;
    Ok(mean_of_set(p, &intervened(p)?, None)?.outcome())
}

/// R² of a task that is a number, which may be below 0.
pub fn task_r2(p: &Prepared) -> Result<Outcome, String> {
    Ok(Numbers::of_task(p)?.r2(&predicted_numbers(p)?).outcome())
}

/// The mean absolute error of a task that is a number, in its unit.
pub fn task_mae(p: &Prepared) -> Result<Outcome, String> {
    let errors = Numbers::of_task(p)?.absolute_errors(&predicted_numbers(p)?);
    Ok(Term::mean_of_rows(&errors).outcome())
}

/// Balanced task accuracy, or R², less that with all concepts true, in [−1, 1]; negative where true concepts help. The error
/// is that of the difference of each row's credit.
pub fn intervention_drop(p: &Prepared) -> Result<Outcome, String> {
    let curve = Curve::of(p, TensorName::InterventionPredictions);
    let (before, after) = (untouched(p, &curve)?, intervened(p)?);
    let is_constant = |credits: &[f64]| credits.iter().sum::<f64>() < NO_R2 * credits.len() as f64;
    if p.run().has_continuous_labels(TensorName::TaskLabels) && is_constant(&before) && is_constant(&after) {
        return Err("the model predicts the task no better than a constant, with and without intervention".into());
    }
    with_curve(p, &difference(&before, &after), curve.as_ref().ok())
}

/// Mean of the balanced task accuracy, or of R², over the share of concepts set to their true values, by trapezoids over [0, 1].
pub fn intervention_area(p: &Prepared) -> Result<Outcome, String> {
    let curve = Curve::of(p, TensorName::InterventionPredictions)?;
    if let Some(differ) = curve.of_other_head(p) {
        p.remark(format!("{differ}: check that `head` is the model's"));
    }
    let mut points: Vec<(f64, Vec<f64>)> = Vec::new();
    if curve.shares[0] > 0.0 {
        points.push((0.0, Truth::of(p)?.credits(&predicted(p)?)));
    }
    for (at, &share) in curve.shares.iter().enumerate() {
        points.push((share, curve.credits(at)?));
    }
    if curve.last_share() < 1.0 {
        points.push((1.0, intervened(p)?));
    }
    let mut rows = vec![0.0; p.rows()];
    for pair in points.windows(2) {
        let half = (pair[1].0 - pair[0].0) / 2.0;
        rows.iter_mut().zip(pair[0].1.iter().zip(&pair[1].1)).for_each(|(sum, (a, b))| *sum += half * (a + b));
    }
    with_curve(p, &rows, Some(&curve))
}

/// Balanced task accuracy, or R², less that with all concepts wrong, in [−1, 1]: near 0 where the head ignores its concepts.
pub fn wrong_intervention_drop(p: &Prepared) -> Result<Outcome, String> {
    let curve = Curve::of(p, TensorName::WrongInterventionPredictions);
    let before = untouched(p, &curve)?;
    let curve = curve?;
    if curve.last_share() < 1.0 {
        return Err("wrong_intervention_predictions has no column with all concepts set".into());
    }
    with_curve(p, &difference(&before, &curve.credits(curve.shares.len() - 1)?), Some(&curve))
}

/// Balanced task accuracy, or R², less that with all concepts at their means, in [−1, 1]: near 0 where the head reads the task
/// elsewhere.
pub fn concept_ablation_drop(p: &Prepared) -> Result<Outcome, String> {
    let ablated = p.column(TensorName::AblatedTaskPredictions).ok_or("there are no ablated_task_predictions")?;
    let truth = Truth::of(p)?;
    let rows = difference(&truth.credits(&predicted(p)?), &truth.credits(&ablated.floats(0)));
    Ok(truth.mean(&rows).outcome())
}

/// The true task of each row.
enum Truth {
    Classes(Vec<i32>),
    Numbers(Numbers),
}

impl Truth {
    fn of(p: &Prepared) -> Result<Self, String> {
        match p.run().has_continuous_labels(TensorName::TaskLabels) {
            true => Numbers::of_task(p).map(Self::Numbers),
            false => task_classes(p).map(Self::Classes),
        }
    }

    /// The credit of each row: 1 where the class is right, else 0; for numbers, its share of R².
    fn credits(&self, predictions: &[f64]) -> Vec<f64> {
        match self {
            Self::Classes(labels) => {
                predictions.iter().zip(labels).map(|(a, b)| f64::from(*a == f64::from(*b))).collect()
            }
            Self::Numbers(task) => task.shares_of_r2(predictions),
        }
    }

    fn mean(&self, credits: &[f64]) -> Term {
        match self {
            Self::Classes(labels) => mean_over_classes(credits, labels),
            Self::Numbers(_) => Term::mean_of_rows(credits),
        }
    }

    /// As [`mean_of_set`].
    fn mean_of_set(&self, p: &Prepared, credits: &[f64]) -> Result<Term, String> {
        match self {
            Self::Classes(labels) => mean_of_set(p, credits, Some(labels)),
            Self::Numbers(_) => mean_of_set(p, credits, None),
        }
    }

    /// Whether the head gave no prediction.
    fn is_none(&self, prediction: f64) -> bool {
        match self {
            Self::Classes(_) => prediction < 0.0,
            Self::Numbers(_) => prediction.is_nan(),
        }
    }

    /// Whether two heads do not predict the same.
    fn differ(&self, a: f64, b: f64) -> bool {
        match self {
            Self::Classes(_) => a != b,
            Self::Numbers(task) => (a - b).abs() > OTHER_NUMBER * task.deviation(),
        }
    }
}

/// The predictions of an intervention tensor.
struct Curve {
    tensor: TensorName,
    /// Share of concepts set in each column, ascending in [0, 1].
    shares: Vec<f64>,
    /// [m][n].
    predictions: Vec<Vec<f64>>,
    truth: Truth,
}

impl Curve {
    /// Errors where the head is not the model's: it predicts something else, and less well. One that averages Monte-Carlo
    /// samples of activations predicts other classes than the mean of the samples' predictions, but as well.
    fn of(p: &Prepared, tensor: TensorName) -> Result<Self, String> {
        let column = p.column(tensor).ok_or_else(|| format!("there are no {tensor}"))?;
        let counts = p.run().intervention_counts(column.width()).ok_or("its columns fit no intervention_counts")?;
        let k = p.concepts() as f64;
        let curve = Self {
            tensor,
            shares: counts.iter().map(|&count| f64::from(count) / k).collect(),
            predictions: (0..column.width()).map(|at| column.floats(at)).collect(),
            truth: Truth::of(p)?,
        };
        match curve.of_other_head(p).filter(|_| curve.is_worse(p)) {
            Some(differ) => {
                Err(format!("{differ} and are less accurate, so `head` is not the model's{}", curve.hint()))
            }
            None => Ok(curve),
        }
    }

    /// The usual cause of a head that is not the model's.
    fn hint(&self) -> &'static str {
        match self.truth {
            Truth::Classes(_) => ". Where its one output is a probability, pass Head(head, threshold=0.5)",
            Truth::Numbers(_) => {
                " or predicts in another unit than task_predictions: undo the scaling of the target in `head`, too"
            }
        }
    }

    fn last_share(&self) -> f64 {
        *self.shares.last().expect("a tensor has at least one column")
    }

    fn credits(&self, at: usize) -> Result<Vec<f64>, String> {
        let predictions = &self.predictions[at];
        match predictions.iter().filter(|prediction| self.truth.is_none(**prediction)).count() {
            0 => Ok(self.truth.credits(predictions)),
            none => Err(format!(
                "{}: the head gave no prediction for {none} of {} rows at {:.0} % of the concepts",
                self.tensor,
                predictions.len(),
                100.0 * self.shares[at]
            )),
        }
    }

    /// A sign that the head is not the model's: it is another part of it, or its one output is compared with the wrong
    /// threshold. Its curve would be smooth and mean nothing.
    fn of_other_head(&self, p: &Prepared) -> Option<String> {
        let (head, model) = (&self.predictions[0], predicted(p).ok().filter(|_| self.shares[0] == 0.0)?);
        let differs = |(head, model): &(&f64, &f64)| !self.truth.is_none(**head) && self.truth.differ(**head, **model);
        let share = head.iter().zip(&model).filter(differs).count() as f64 / head.len() as f64;
        (share > OTHER_HEAD).then(|| {
            format!(
                "{} with no concept set differ from the model's predictions in {:.0} % of rows",
                self.tensor,
                100.0 * share
            )
        })
    }

    /// Whether the head predicts the task less well than the model, with no concept set.
    fn is_worse(&self, p: &Prepared) -> bool {
        let well = |predictions: &[f64]| self.truth.mean(&self.truth.credits(predictions)).value;
        predicted(p).is_ok_and(|own| well(&own) - well(&self.predictions[0]) > LESS_ACCURATE)
    }

    fn points(&self, p: &Prepared) -> Vec<(f64, Option<f64>)> {
        let mean = |at| Some(self.truth.mean_of_set(p, &self.credits(at).ok()?).ok()?.value);
        self.shares.iter().enumerate().map(|(at, &share)| (share, mean(at))).collect()
    }
}

/// The model's own predictions of the task: classes, or numbers.
fn predicted(p: &Prepared) -> Result<Vec<f64>, String> {
    match p.run().has_continuous_labels(TensorName::TaskLabels) {
        true => predicted_numbers(p),
        false => Ok(predicted_task(p)?.into_iter().map(f64::from).collect()),
    }
}

fn predicted_numbers(p: &Prepared) -> Result<Vec<f64>, String> {
    let logits = p.column(TensorName::TaskLogits).filter(|logits| logits.width() == 1);
    let column = p.column(TensorName::TaskPredictions).or(logits);
    column.map(|column| column.floats(0)).ok_or_else(|| "there are no task predictions".into())
}

/// Credits without an intervention: those of the curve's head where it has them, else those of the model's own predictions.
fn untouched(p: &Prepared, curve: &Result<Curve, String>) -> Result<Vec<f64>, String> {
    match curve {
        Ok(curve) if curve.shares[0] == 0.0 => curve.credits(0),
        _ => Ok(Truth::of(p)?.credits(&predicted(p)?)),
    }
}

/// Credits with all concepts true.
fn intervened(p: &Prepared) -> Result<Vec<f64>, String> {
    if let Some(predictions) = p.column(TensorName::IntervenedTaskPredictions) {
        return Ok(Truth::of(p)?.credits(&predictions.floats(0)));
    }
    let curve = Curve::of(p, TensorName::InterventionPredictions)?;
    if curve.last_share() < 1.0 {
        return Err("intervention_predictions has no column with all concepts set".into());
    }
    curve.credits(curve.shares.len() - 1)
}

/// The mean of credits, of the `classes` alike if given, over the rows [whose concepts were set](Prepared::mostly_known).
fn mean_of_set(p: &Prepared, credits: &[f64], classes: Option<&[i32]>) -> Result<Term, String> {
    let rows = p.mostly_known()?;
    let credits = rows.of(credits.to_vec(), 1);
    let term = match classes {
        Some(classes) => mean_over_classes(&credits, &rows.of(classes.to_vec(), 1)),
        None => Term::mean_of_rows(&credits),
    };
    Ok(term.spread(&rows))
}

fn difference(before: &[f64], after: &[f64]) -> Vec<f64> {
    before.iter().zip(after).map(|(a, b)| a - b).collect()
}

/// The mean of credits as a score, with the curve where there is one.
fn with_curve(p: &Prepared, rows: &[f64], curve: Option<&Curve>) -> Result<Outcome, String> {
    let mean = Truth::of(p)?.mean_of_set(p, rows)?.outcome();
    Ok(mean.map(|value| ScoreValue { curve: curve.map(|curve| curve.points(p)), ..value }))
}
