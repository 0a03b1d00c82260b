//! Signs that activations, labels or task logits are not what the run declares. Each is a remark beside the scores.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ndarray::{Array2, ArrayView1, Axis};

use crate::batch::ROUNDING;
use crate::parallel;
use crate::point::{Outcome, Point};
use crate::prepare::{KnownRows, Prepared};
use crate::run::ActivationKind;
use crate::tensor::TensorName;

use super::concept_rows::concept_rows;
use super::labels::task_classes;
use super::matching::{MOST_COLUMNS, greedy, midranks, rows_by_class};

/// The remark that begins so says that the columns of labels are in another order than those of activations.
pub const OTHER_ORDER: &str = "concept_labels are in another order than concept_activations";

/// The remark that begins so says that labels of the task number its classes otherwise than predictions do.
pub const OTHER_TASK_ORDER: &str = "task_labels are in another order than predictions";

/// The remark of a point, if it has it, that its labels are in another order.
pub fn of_other_order(point: &Point) -> Option<&str> {
    let is_of_order = |warning: &&str| warning.starts_with(OTHER_ORDER) || warning.starts_with(OTHER_TASK_ORDER);
    point.warnings.iter().map(String::as_str).find(is_of_order)
}

/// Balanced accuracy by which one row of the rarest class may move it: the loss that counts as harm.
const COARSE: f64 = 0.05;

/// The remark that begins so names a class of the task that is too rare for a balanced accuracy to decide anything.
const RARE_CLASS: &str = "task_labels: class ";

/// The remark of a point, if it has it, that a class of the task is too rare.
pub fn of_rare_class(point: &Point) -> Option<&str> {
    point.warnings.iter().map(String::as_str).find(|warning| warning.starts_with(RARE_CLASS))
}

/// The remark that begins so says that the declared threshold does not fit.
const OTHER_THRESHOLD: &str = "concept_activations are declared as ";

/// The remark of a point, if it has it, that the declared threshold does not fit.
pub fn of_other_threshold(point: &Point) -> Option<&str> {
    point.warnings.iter().map(String::as_str).find(|warning| warning.starts_with(OTHER_THRESHOLD))
}

/// Share of labels by which thresholds chosen for each concept must beat the declared one.
const BETTER_THRESHOLD: f64 = 0.2;
/// Share of labels that they must predict. Of activations that say less of their concepts, no threshold is at fault.
const LEARNT: f64 = 0.9;
/// Share of rows by which predictions and labels must differ before other thresholds are tried.
const OTHER_SHARE: f64 = 0.1;

/// AUC below which an activation may belong to another label, and that it must have there.
const POOR_AUC: f64 = 0.8;
/// Least gain of AUC with the other label.
const FAR_BETTER: f64 = 0.15;
/// Rows that each class of a concept needs before they may be found exchanged.
const ENOUGH_ROWS: usize = 20;
/// Rows for each class of a task before its predictions may be found to number them otherwise.
const ENOUGH_OF_TASK: usize = 5;
/// Binary concepts that are not all exchanged by chance.
const NOT_BY_CHANCE: usize = 5;
/// AUC for its own label, among rows with one label of another concept, below which an activation stands for that concept.
const UNRELATED_AUC: f64 = 0.6;
/// Most concepts that a remark names.
const MOST_NAMED: usize = 6;

/// Whether a single column of task logits has probabilities of class 1 instead, as a sigmoid gives them.
pub fn are_probabilities(logits: &[f64]) -> bool {
    logits.iter().all(|logit| (-ROUNDING..=1.0 + ROUNDING).contains(logit))
}

/// Remarks on activations and labels that do not fit their declared kinds.
pub fn kinds(p: &Prepared) {
    let thresholds = [ActivationKind::Probability, ActivationKind::Logit].map(|kind| other_threshold(p, kind));
    let remarks = [beyond_unit(p)].into_iter().chain(thresholds).chain([signed_labels(p)]);
    remarks.flatten().for_each(|remark| p.remark(remark));
}

/// The remark that the only column of task logits has probabilities.
pub fn task_probabilities(p: &Prepared) {
    let logits = p.column(TensorName::TaskLogits).filter(|column| column.width() == 1);
    let decides = p.column(TensorName::TaskPredictions).is_none() && task_classes(p).is_ok();
    if logits.filter(|_| decides).is_some_and(|logits| are_probabilities(&logits.floats(0))) {
        p.remark("task_logits are all from 0 to 1: read as probabilities of class 1, with the threshold 0.5".into());
    }
}

/// The remark that one row of the rarest class moves balanced accuracy by more than [`COARSE`].
pub fn rare_class(p: &Prepared) {
    let Ok(labels) = task_classes(p) else { return };
    let mut counts: BTreeMap<i32, usize> = BTreeMap::new();
    labels.iter().for_each(|label| *counts.entry(*label).or_default() += 1);
    let Some((class, &rows)) = counts.iter().min_by_key(|(_, rows)| **rows) else { return };
    let by = 1.0 / (rows * counts.len()) as f64;
    if counts.len() > 1 && by > COARSE {
        let row = if rows == 1 { "row" } else { "rows" };
        p.remark(format!(
            "{RARE_CLASS}{class} has {rows} {row}: each of them moves balanced accuracy by {by:.2}. Evaluate more rows of it"
        ));
    }
}

/// Values that are no probabilities although the run declares them.
fn beyond_unit(p: &Prepared) -> Option<String> {
    let column = p.column(TensorName::ConceptActivations).filter(|_| p.latents().is_none())?;
    let kinds = p.run().column_kinds(column.width());
    let declared: Vec<usize> = (0..kinds.len()).filter(|&at| kinds[at] == ActivationKind::Probability).collect();
    let beyond = |value: f64| (-value).max(value - 1.0);
    let (mut outside, mut farthest) = (0_usize, 0.5);
    let rows = column.block(0..column.width());
    let values = rows.chunks(column.width()).flat_map(|row| declared.iter().map(|&at| row[at]));
    for value in values.filter(|value| beyond(*value) > ROUNDING) {
        outside += 1;
        farthest = if beyond(value) > beyond(farthest) { value } else { farthest };
    }
    (outside > 0).then(|| {
        format!(
            "concept_activations: {outside} of {} values are not from 0 to 1, such as {farthest:.4}: read as probabilities, \
             with the threshold 0.5. Logits have the activation kind logit",
            column.rows() * declared.len()
        )
    })
}

/// The declared threshold of activations of this kind separates nothing although another one would.
fn other_threshold(p: &Prepared, kind: ActivationKind) -> Option<String> {
    let threshold = kind.threshold().filter(|_| p.latents().is_none())?;
    let of_kind: Vec<usize> = (0..p.concepts()).filter(|&i| p.run().activation_kind(i) == kind).collect();
    let share_off = |i: usize| {
        let (activations, labels) = binary(p, i)?;
        let predicted = activations.iter().filter(|activation| **activation > threshold).count();
        let present = labels.iter().filter(|label| **label > 0).count();
        Some(predicted.abs_diff(present) as f64 / labels.len() as f64)
    };
    let off: Vec<f64> = parallel::map(of_kind.len(), &|at| share_off(of_kind[at])).into_iter().flatten().collect();
    let n = off.len() as f64;
    if off.is_empty() || off.iter().sum::<f64>() / n < OTHER_SHARE {
        return None;
    }
    let accuracies = parallel::map(of_kind.len(), &|at| {
        let (activations, labels) = binary(p, of_kind[at])?;
        let present = labels.iter().filter(|label| **label > 0).count() as f64 / labels.len() as f64;
        let constant = present.max(1.0 - present);
        Some([accuracy(&activations, &labels, threshold), best(&activations, &labels), constant])
    });
    let accuracies: Vec<[f64; 3]> = accuracies.into_iter().flatten().collect();
    let [declared, best, constant] = [0, 1, 2].map(|at| accuracies.iter().map(|of| of[at]).sum::<f64>() / n);
    let are_learnt = best >= LEARNT && best - constant >= 1.0 - best;
    (are_learnt && best - declared > BETTER_THRESHOLD).then(|| {
        let what = if kind == ActivationKind::Logit { "logits" } else { "probabilities" };
        format!(
            "{OTHER_THRESHOLD}{what}, but the threshold {threshold} predicts {:.0} % of the labels, and \
             thresholds chosen for each concept {:.0} %: similarities and other quantities have the activation kind continuous",
            100.0 * declared,
            100.0 * best
        )
    })
}

/// A binary concept's only activation column and its labels, where both classes are known in enough rows.
fn binary<'p>(p: &'p Prepared, i: usize) -> Option<(Cow<'p, [f64]>, Vec<i32>)> {
    let rows = p.known(&[i]).ok()?;
    let concept = concept_rows(p, i, &rows).ok()?;
    let one = concept.activations.len() == concept.labels.len() && !p.run().concepts[i].is_categorical();
    let both = [0, 1].iter().all(|class| concept.labels.contains(class));
    (one && both).then_some((concept.activations, concept.labels))
}

fn accuracy(activations: &[f64], labels: &[i32], threshold: f64) -> f64 {
    let right = activations.iter().zip(labels).filter(|(a, c)| (**a > threshold) == (**c > 0)).count();
    right as f64 / labels.len() as f64
}

/// Accuracy at the threshold that suits these rows best.
fn best(activations: &[f64], labels: &[i32]) -> f64 {
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_unstable_by(|&a, &b| activations[b].total_cmp(&activations[a]));
    // From a threshold above all values down, each row predicted present is one right more or less.
    let mut right = labels.iter().filter(|label| **label <= 0).count();
    let mut most = right;
    for tie in order.chunk_by(|&a, &b| activations[a] == activations[b]) {
        let present = tie.iter().filter(|&&row| labels[row] > 0).count();
        right = right + present - (tie.len() - present);
        most = most.max(right);
    }
    most as f64 / labels.len() as f64
}

/// Labels of −1 that are read as unknown where they may mean absent.
fn signed_labels(p: &Prepared) -> Option<String> {
    if !p.run().missing_concept_labels {
        return None;
    }
    let only_present = |&i: &usize| {
        let binary = !p.run().concepts[i].is_categorical();
        let known = p.known(&[i]).ok().filter(|rows| binary && !rows.are_all());
        known.is_some_and(|rows| {
            let labels = p.concept_classes(i).map(|labels| rows.of(labels, 1));
            labels.is_some_and(|labels| labels.iter().all(|label| *label == 1))
        })
    };
    let found: Vec<usize> = (0..p.concepts()).filter(only_present).collect();
    (!found.is_empty()).then(|| {
        format!(
            "concept_labels of {}: every known label is 1, and -1 is read as unknown. If -1 means absent, recode it to 0, \
             or declare signed labels in place of missing ones",
            named(p, &found)
        )
    })
}

/// The remark that labels are in another order than activations: the classes of some concepts, or columns. `own` has the AUC
/// of each concept.
pub fn order(p: &Prepared, own: &Outcome) {
    let Some(own) = own.per_concept().filter(|_| p.latents().is_none()) else { return };
    let classes = with_other_classes(p, own);
    if classes.is_empty() {
        order_of_concepts(p, own);
    } else {
        p.remark(format!(
            "{OTHER_ORDER}: the classes of {}. The activation of a binary concept is high where it is present, and a \
             categorical one has a column for each class, in the order of its numbers. What looks like leakage here is not",
            named(p, &classes)
        ));
    }
}

/// The concepts whose activations predict the classes of their own labels, in another order.
fn with_other_classes(p: &Prepared, own: &[Option<f64>]) -> Vec<usize> {
    let binary: Vec<usize> = (0..own.len()).filter(|&i| is_binary(p, i)).collect();
    let falls = |i: &usize| own[*i].is_some_and(|auc| auc <= 1.0 - POOR_AUC) && has_enough_rows(p, *i);
    let inverted: Vec<usize> = binary.iter().copied().filter(falls).collect();
    let all = inverted.len() == binary.len() && inverted.len() >= NOT_BY_CHANCE;
    let task = task_classes(p).ok();
    // One that falls because it stands for the task is no sign of its concept within a class of the task.
    let falls_within_classes = |&i: &usize| {
        let of_task = || {
            let ranks = ranks_of(p, i)?;
            Some(within_classes(ArrayView1::from(&ranks), &p.concept_classes(i)?, task.as_ref()?))
        };
        all || of_task().is_some_and(|auc| auc <= 1.0 - POOR_AUC)
    };
    let mut found: Vec<usize> = inverted.into_iter().filter(falls_within_classes).collect();
    found.extend((0..own.len()).filter(|&i| p.run().concepts[i].is_categorical() && is_renumbered(p, i)));
    found
}

fn is_binary(p: &Prepared, i: usize) -> bool {
    !p.run().concepts[i].is_categorical() && !p.run().is_continuous(i)
}

fn has_enough_rows(p: &Prepared, i: usize) -> bool {
    let classes = p.concept_classes(i).map(|labels| rows_by_class(&labels)).unwrap_or_default();
    classes.iter().all(|rows| rows.len() >= ENOUGH_ROWS)
}

fn is_renumbered(p: &Prepared, i: usize) -> bool {
    let predicted = || {
        let concept = concept_rows(p, i, &p.known(&[i]).ok()?).ok()?;
        Some((concept.predictions().ok()?, concept.labels))
    };
    predicted().is_some_and(|(predicted, labels)| renumbered(&predicted, &labels, ENOUGH_ROWS).is_some())
}

/// The remark that predictions of the task number its classes otherwise than its labels do, as from 0 and from 1.
pub fn order_of_task(p: &Prepared, predicted: &[i32], labels: &[i32]) {
    if let Some(accuracy) = renumbered(predicted, labels, ENOUGH_OF_TASK) {
        p.remark(format!(
            "{OTHER_TASK_ORDER}: balanced accuracy is {accuracy:.2} where each class is taken for the prediction that it \
             mostly has, and below chance as they are numbered. Number the classes of both alike"
        ));
    }
}

/// Balanced accuracy of predictions under other numbers, one for each class, where that of their own is below chance and
/// this far above it; `None` also with fewer than `enough` rows a class.
fn renumbered(predicted: &[i32], labels: &[i32], enough: usize) -> Option<f64> {
    let (mut rows, mut pairs) = (BTreeMap::<i32, usize>::new(), BTreeMap::<(i32, usize), usize>::new());
    labels.iter().for_each(|label| *rows.entry(*label).or_default() += 1);
    let classes: Vec<(i32, f64)> = rows.into_iter().map(|(label, rows)| (label, rows as f64)).collect();
    let place = |label: &i32| classes.partition_point(|(class, _)| class < label);
    predicted.iter().zip(labels).for_each(|(&of, label)| *pairs.entry((of, place(label))).or_default() += 1);
    let recall = |of: i32, at: usize| pairs.get(&(of, at)).map_or(0.0, |&rows| rows as f64 / classes[at].1);
    // By chance the best of two numbers is right more often than the best of many.
    let (k, chance) = (classes.len() as f64, 1.0 / classes.len() as f64);
    let own = (0..classes.len()).map(|at| recall(classes[at].0, at)).sum::<f64>() / k;
    if classes.len() < 2 || labels.len() < enough * classes.len() || own >= chance {
        return None;
    }
    let known = pairs.keys().filter(|(of, _)| *of >= 0).map(|&(of, at)| (recall(of, at), of as usize, at)).collect();
    let matched = greedy(known, classes.len());
    let found = matched.iter().enumerate().filter_map(|(at, of)| Some(recall((*of)? as i32, at))).sum::<f64>() / k;
    (found >= 0.5 + 0.6 * chance).then_some(found)
}

/// The remark that columns of labels are in another order than those of activations: each of some concepts' activations
/// predicts the label of another of them far better than its own.
fn order_of_concepts(p: &Prepared, own: &[Option<f64>]) {
    let is_poor = |&i: &usize| is_binary(p, i) && own[i].is_some_and(|auc| auc < POOR_AUC);
    let poor: Vec<usize> = (0..own.len()).filter(is_poor).take(MOST_COLUMNS).collect();
    let Some(Ordered { aucs, ranks, labels }) = (poor.len() > 1).then(|| ordered(p, &poor)).flatten() else { return };
    let pairs = aucs.iter().enumerate().flat_map(|(a, of)| of.iter().enumerate().map(move |(c, auc)| (*auc, a, c)));
    let matched = greedy(pairs.collect(), poor.len());
    // An activation that stands for another concept says no more of its own label than that concept does. One that stands
    // for the task does.
    let is_of = |a: usize, c: usize| within_classes(ranks.row(a), &labels[a], &labels[c]) < UNRELATED_AUC;
    let gain = |&c: &usize| {
        matched[c]
            .is_some_and(|a| a != c && aucs[a][c] >= POOR_AUC && aucs[a][c] >= aucs[c][c] + FAR_BETTER && is_of(a, c))
    };
    let mut moved: Vec<usize> = (0..poor.len()).filter(gain).collect();
    // In an exchange both sides are found; a concept that merely resembles another one has only one side.
    loop {
        let closed: Vec<usize> =
            moved.iter().copied().filter(|&c| matched[c].is_some_and(|a| moved.contains(&a))).collect();
        let done = closed.len() == moved.len();
        moved = closed;
        if done {
            break;
        }
    }
    if moved.len() < 2 {
        return;
    }
    let mean = |auc: &dyn Fn(usize) -> f64| moved.iter().map(|&c| auc(c)).sum::<f64>() / moved.len() as f64;
    let [there, here] = [mean(&|c| matched[c].map_or(0.0, |a| aucs[a][c])), mean(&|c| aucs[c][c])];
    let labels: Vec<usize> = moved.iter().map(|&c| poor[c]).collect();
    let activations: Vec<usize> = moved.iter().filter_map(|&c| Some(poor[matched[c]?])).collect();
    p.remark(format!(
        "{OTHER_ORDER}: the labels of {} are predicted by the activations of {} (AUC {there:.2}), not by their own (AUC \
         {here:.2}). Put both in the same order: what looks like leakage here is not",
        named(p, &labels),
        named(p, &activations),
    ));
}

/// Some binary concepts: how activations and labels of each order the rows.
struct Ordered {
    /// AUC of the activation of each for the label of each, one half where a class is absent.
    aucs: Vec<Vec<f64>>,
    /// Ranks of the activations among all rows, [concepts, rows].
    ranks: Array2<f32>,
    labels: Vec<Vec<i32>>,
}

/// Returns `None` without activations and labels.
fn ordered(p: &Prepared, concepts: &[usize]) -> Option<Ordered> {
    let (n, k) = (p.rows(), concepts.len());
    let mut ranks: Vec<f32> = Vec::with_capacity(k * n);
    for &i in concepts {
        p.pause();
        ranks.extend(ranks_of(p, i)?);
    }
    let ranks = Array2::from_shape_vec((k, n), ranks).ok()?;
    let labels: Vec<Vec<i32>> = concepts.iter().map(|&of| p.concept_classes(of)).collect::<Option<_>>()?;
    // The number of rows whose label `is`, and the sums of their ranks by activation and label.
    let of_rows = |is: fn(i32) -> bool| {
        let members = Array2::from_shape_fn((n, k), |(row, c)| f32::from(u8::from(is(labels[c][row]))));
        (members.sum_axis(Axis(0)), ranks.dot(&members))
    };
    let (present, of_present) = of_rows(|label| label > 0);
    let (absent, of_absent) = of_rows(|label| label == 0);
    let auc = |a: usize, c: usize| {
        let difference = of_present[[a, c]] / present[c] - of_absent[[a, c]] / absent[c];
        if present[c] * absent[c] == 0.0 { 0.5 } else { 0.5 + f64::from(difference) / n as f64 }
    };
    let aucs = (0..k).map(|a| (0..k).map(|c| auc(a, c)).collect()).collect();
    Some(Ordered { aucs, ranks, labels })
}

/// Ranks of a binary concept's activation among all rows.
fn ranks_of(p: &Prepared, i: usize) -> Option<Vec<f32>> {
    let activations = concept_rows(p, i, &KnownRows::all(p.rows())).ok()?.activations;
    let width = activations.len() / p.rows();
    // With two columns (absent, present) their difference orders the rows.
    let values: Vec<f64> =
        activations.chunks(width).map(|row| if width == 2 { row[1] - row[0] } else { row[0] }).collect();
    Some(midranks(&values).into_iter().map(|rank| rank as f32).collect())
}

/// AUC of an activation, by its ranks, for its own label among rows of one of the `other` classes, the mean over these
/// weighted by rows; one half where no class has both.
fn within_classes(ranks: ArrayView1<f32>, own: &[i32], other: &[i32]) -> f64 {
    let of_class = |mut rows: Vec<usize>| {
        rows.retain(|&row| own[row] >= 0);
        let order = midranks(&rows.iter().map(|&row| f64::from(ranks[row])).collect::<Vec<f64>>());
        let present: Vec<f64> =
            order.iter().zip(&rows).filter(|(_, row)| own[**row] > 0).map(|(rank, _)| *rank).collect();
        let (with, without) = (present.len() as f64, (rows.len() - present.len()) as f64);
        let auc = (present.iter().sum::<f64>() - with * (with + 1.0) / 2.0) / (with * without);
        (with * without > 0.0).then_some((auc, rows.len() as f64))
    };
    let (sum, rows) = rows_by_class(other)
        .into_iter()
        .filter_map(of_class)
        .fold((0.0, 0.0), |(sum, all), (auc, rows)| (sum + auc * rows, all + rows));
    if rows > 0.0 { sum / rows } else { 0.5 }
}

/// The names of concepts, of many the first ones.
fn named(p: &Prepared, concepts: &[usize]) -> String {
    let names: Vec<&str> = concepts.iter().take(MOST_NAMED).map(|&i| p.run().concepts[i].name.as_str()).collect();
    match concepts.len() - names.len() {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
