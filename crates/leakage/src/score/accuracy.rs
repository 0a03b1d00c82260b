//! How well concepts and task are predicted. None of these shows leakage; they accompany the scores that do.

use crate::parallel;
use crate::point::Outcome;
use crate::prepare::{Prepared, first_largest};
use crate::run::ActivationKind;
use crate::tensor::TensorName;

use super::concept_rows::{ConceptRows, ascending, concept_rows, distinct};
use super::concordance;
use super::labels::task_classes;
use super::misdeclared::{self, are_probabilities};
use super::term::{Term, mean_over_concepts};

/// Share of rows whose predicted class is the true one; without predictions the class of the largest logit.
pub fn task_accuracy(p: &Prepared) -> Result<Outcome, String> {
    misdeclared::task_probabilities(p);
    Ok(Term::mean_of_rows(&task_hits(p)?).outcome())
}

/// Balanced accuracy: the share of rows whose predicted class is the true one, by class, mean over the classes that occur.
pub fn task_balanced_accuracy(p: &Prepared) -> Result<Outcome, String> {
    misdeclared::rare_class(p);
    let (predicted, labels) = (predicted_task(p)?, task_classes(p)?);
    misdeclared::order_of_task(p, &predicted, &labels);
    Ok(mean_over_classes(&hits(&predicted, &labels), &labels).outcome())
}

/// The mean of a quantity given for each row, by class, and of these means: of hits the balanced accuracy. It is the mean of
/// the rows where classes are equally frequent. The influence of a row is that on the mean of its class. Rows that all
/// agree show no scatter: so that a class of two rows is not taken for exactly known, half a row's is added to the rarest
/// class, as by Jeffreys' prior (Brown, Cai & DasGupta 2001, doi:10.1214/ss/1009213286).
pub fn mean_over_classes(rows: &[f64], labels: &[i32]) -> Term {
    let classes = labels.iter().max().map_or(0, |most| *most as usize + 1);
    let (mut sums, mut counts) = (vec![0.0; classes], vec![0.0; classes]);
    for (row, &label) in rows.iter().zip(labels) {
        sums[label as usize] += row;
        counts[label as usize] += 1.0;
    }
    let occurring = counts.iter().filter(|count| **count > 0.0).count() as f64;
    let means: Vec<f64> = sums.iter().zip(&counts).map(|(sum, count)| sum / f64::max(*count, 1.0)).collect();
    let value = means.iter().sum::<f64>() / occurring;
    let weights: Vec<f64> = counts.iter().map(|count| rows.len() as f64 / (count * occurring)).collect();
    let influence = |(row, &label): (&f64, &i32)| (row - means[label as usize]) * weights[label as usize];
    let influence = rows.iter().zip(labels).map(influence).collect();
    let rarest = counts.iter().copied().filter(|count| *count > 0.0).fold(f64::INFINITY, f64::min);
    Term { value, excess: value, influence, draw_variance: 0.5 / (rarest * occurring).powi(2) }
}

/// 1 for each row whose predicted class is the true one, 0 for the others.
pub fn task_hits(p: &Prepared) -> Result<Vec<f64>, String> {
    let labels = task_classes(p)?;
    Ok(hits(&predicted_task(p)?, &labels))
}

fn hits(predicted: &[i32], labels: &[i32]) -> Vec<f64> {
    predicted.iter().zip(labels).map(|(a, b)| f64::from(a == b)).collect()
}

/// The predicted class of each row; without predictions that of the largest logit, or of one logit above its threshold.
pub fn predicted_task(p: &Prepared) -> Result<Vec<i32>, String> {
    let predictions = match (p.column(TensorName::TaskPredictions), p.column(TensorName::TaskLogits)) {
        (Some(predictions), _) => predictions.integers(0),
        (None, Some(logits)) if logits.width() == 1 => {
            let logits = logits.floats(0);
            let threshold = if are_probabilities(&logits) { 0.5 } else { 0.0 };
            Some(logits.iter().map(|&logit| i32::from(logit > threshold)).collect())
        }
        (None, Some(logits)) => {
            let width = logits.width();
            Some(logits.block(0..width).chunks(width).map(|row| first_largest(row) as i32).collect())
        }
        (None, None) => None,
    };
    predictions.ok_or_else(|| "there are no task predictions".into())
}

/// Share of rows whose predicted concept is the true one, mean over concepts.
pub fn concept_accuracy(p: &Prepared) -> Result<Outcome, String> {
    misdeclared::kinds(p);
    over_concepts(p, predicts_class, |concept| Ok(Term::mean_of_rows(&concept.hits()?)))
}

/// Balanced accuracy of each concept, over those of its classes that occur; mean over concepts.
pub fn concept_balanced_accuracy(p: &Prepared) -> Result<Outcome, String> {
    over_concepts(p, predicts_class, |concept| Ok(mean_over_classes(&concept.hits()?, &concept.labels)))
}

/// F1 of a binary concept's presence, or the mean over those classes of a categorical concept that are present or
/// predicted in some row; mean over concepts.
pub fn concept_f1(p: &Prepared) -> Result<Outcome, String> {
    over_concepts(p, predicts_class, |concept| {
        let predictions = concept.predictions()?;
        if concept.classes <= 2 {
            return f1(&predictions, &concept.labels, 1);
        }
        let classes = distinct(concept.labels.iter().chain(&predictions).copied(), i32::cmp);
        mean(classes.len(), classes.iter().map(|&class| f1(&predictions, &concept.labels, class)))
    })
}

/// Area under the receiver operating characteristic, mean over concepts. A binary concept: probability that a row
/// with it has a higher activation than one without, ties counting one half. A categorical one: the mean over ordered
/// pairs of classes that both occur (Hand & Till 2001, doi:10.1023/A:1010920819831).
///
/// A concept that is a number: its [concordance](concordance::of_concept), which is the AUC where there are two values.
pub fn concept_auc(p: &Prepared) -> Result<Outcome, String> {
    let of_classes = |concept: &ConceptRows| {
        let width = concept.activations.len() / concept.labels.len();
        if width == 1 {
            let present: Vec<Option<bool>> = concept.labels.iter().map(|&label| Some(label > 0)).collect();
            return auc_in(&concept.ascending(), &concept.activations, &present);
        }
        auc_of_classes(&concept.of_rows(), width, &concept.labels)
    };
    let term = |i: usize| {
        if p.run().is_continuous(i) { concordance::of_concept(p, i) } else { of_concept(p, i, &of_classes) }
    };
    let terms: Vec<Result<Term, String>> = parallel::map(p.concepts(), &term);
    let auc = mean_over_concepts(p, &p.equal_weights(), &terms, |term| term.value);
    misdeclared::order(p, &auc);
    Ok(auc)
}

/// Average precision, Σ (R_t − R_{t−1}) P_t over the distinct activations t in falling order, mean over concepts. A
/// categorical concept: the mean over its classes that occur, each against the others.
pub fn concept_average_precision(p: &Prepared) -> Result<Outcome, String> {
    over_concepts(p, orders_rows, |concept| {
        let width = concept.activations.len() / concept.labels.len();
        if width == 1 {
            return average_precision(&concept.activations, |row| concept.labels[row] > 0);
        }
        let activations = concept.of_rows();
        let of_class = |class: usize| {
            let column: Vec<f64> = activations.iter().skip(class).step_by(width).copied().collect();
            average_precision(&column, |row| concept.labels[row] == class as i32)
        };
        if concept.classes <= 2 {
            return of_class(1);
        }
        let occurring: Vec<usize> = (0..width).filter(|&class| concept.labels.contains(&(class as i32))).collect();
        mean(occurring.len(), occurring.iter().map(|&class| of_class(class)))
    })
}

/// The mean of a term over the concepts that have classes, and activations of a kind for which it has a meaning: `applies`
/// says why it has none.
pub fn over_concepts(
    p: &Prepared,
    applies: fn(ActivationKind) -> Result<(), &'static str>,
    term: impl Fn(&ConceptRows) -> Result<Term, String> + Sync,
) -> Result<Outcome, String> {
    let applies = |i: usize| if p.run().is_continuous(i) { Err(NO_CLASS) } else { applies(p.run().activation_kind(i)) };
    if (0..p.concepts()).all(|i| applies(i) == Err(NO_CLASS)) {
        return Err("the concepts are continuous, they predict no class".to_owned());
    }
    let term = |i: usize| applies(i).map_err(str::to_owned).and_then(|()| of_concept(p, i, &term));
    let terms: Vec<Result<Term, String>> = parallel::map(p.concepts(), &term);
    Ok(mean_over_concepts(p, &p.weights_where(|i| applies(i).is_ok()), &terms, |term| term.value))
}

const NO_CLASS: &str = "it is continuous and predicts no class";

/// Continuous activations order the rows, too.
fn orders_rows(_: ActivationKind) -> Result<(), &'static str> {
    Ok(())
}

pub fn predicts_class(kind: ActivationKind) -> Result<(), &'static str> {
    if kind == ActivationKind::Continuous { Err(NO_CLASS) } else { Ok(()) }
}

/// The term of a concept on the rows in which its label is known.
fn of_concept(
    p: &Prepared,
    i: usize,
    term: &(impl Fn(&ConceptRows) -> Result<Term, String> + Sync),
) -> Result<Term, String> {
    let rows = p.known(&[i]).map_err(|why| format!("labels: {why}"))?;
    Ok(term(&concept_rows(p, i, &rows)?)?.spread(&rows))
}

/// The mean of `count` terms, at least one. Each is dropped before the next is made: all together would be a number for each
/// term and row.
pub fn mean(count: usize, terms: impl Iterator<Item = Result<Term, String>>) -> Result<Term, String> {
    let n = count as f64;
    let (mut total, mut influence) = (0.0, Vec::new());
    for term in terms {
        let term = term?;
        influence.resize(term.influence.len(), 0.0);
        influence.iter_mut().zip(&term.influence).for_each(|(sum, x)| *sum += x / n);
        total += term.value;
    }
    let value = total / n;
    Ok(Term { value, excess: value, influence, draw_variance: 0.0 })
}

/// 2·TP / (2·TP + FP + FN), with the influence of each row by the delta method.
pub fn f1(predictions: &[i32], labels: &[i32], class: i32) -> Result<Term, String> {
    let n = labels.len() as f64;
    let rows = || predictions.iter().zip(labels).map(|(&p, &l)| (p == class, l == class));
    let hits = rows().filter(|(predicted, present)| *predicted && *present).count() as f64 / n;
    let errors = rows().filter(|(predicted, present)| predicted != present).count() as f64 / n;
    let denominator = 2.0 * hits + errors;
    if denominator == 0.0 {
        return Err("it is neither present nor predicted in any row".into());
    }
    let influence = |(predicted, present)| {
        let (hit, error) = (f64::from(predicted && present), f64::from(predicted != present));
        2.0 * (errors * (hit - hits) - hits * (error - errors)) / (denominator * denominator)
    };
    let value = 2.0 * hits / denominator;
    Ok(Term { value, excess: value, influence: rows().map(influence).collect(), draw_variance: 0.0 })
}

/// Mean over the rows with the class of the precision among the rows that rank no lower, with the influence of each
/// row by the delta method.
fn average_precision(activations: &[f64], present: impl Fn(usize) -> bool) -> Result<Term, String> {
    let n = activations.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_unstable_by(|&a, &b| activations[b].total_cmp(&activations[a]));
    let ties = || order.chunk_by(|&a, &b| activations[a] == activations[b]);
    let total = (0..n).filter(|&row| present(row)).count();
    if total == 0 {
        return Err("it is present in no row".into());
    }
    // Among the rows that rank no lower than those of a tie: the number with the class, and the number of all.
    let (mut hits, mut seen) = (0, 0);
    let counts: Vec<(f64, f64, f64)> = ties()
        .map(|tie| {
            let own = tie.iter().filter(|&&row| present(row)).count();
            hits += own;
            seen += tie.len();
            (own as f64, hits as f64, seen as f64)
        })
        .collect();
    let value = counts.iter().map(|(own, hits, seen)| own * hits / seen).sum::<f64>() / total as f64;
    // A row moves the precision of every row with the class that ranks no higher: summed from the lowest up.
    let mut influence = vec![0.0; n];
    let (mut if_present, mut if_absent) = (0.0, 0.0);
    let scale = n as f64 / total as f64;
    for (tie, (own, hits, seen)) in ties().collect::<Vec<_>>().into_iter().zip(counts).rev() {
        if_present += own * (seen - hits) / (seen * seen);
        if_absent -= own * hits / (seen * seen);
        for &row in tie {
            influence[row] = scale * if present(row) { hits / seen - value + if_present } else { if_absent };
        }
    }
    Ok(Term { value, excess: value, influence, draw_variance: 0.0 })
}

/// Mean over ordered pairs of classes that both occur of the AUC of the first one's column, among rows of the two.
/// `activations` is [n, width], a column for each class.
pub fn auc_of_classes(activations: &[f64], width: usize, labels: &[i32]) -> Result<Term, String> {
    let occurring = distinct(labels.iter().copied(), i32::cmp);
    if occurring.len() < 2 {
        return Err("there is one class only".into());
    }
    let pairs = occurring.iter().flat_map(|&a| {
        let column: Vec<f64> = activations.iter().skip(a as usize).step_by(width).copied().collect();
        let others = occurring.iter().filter(move |&&b| b != a);
        others.map(move |&b| {
            let of_pair = |&label: &i32| if label == a { Some(true) } else { (label == b).then_some(false) };
            auc(&column, &labels.iter().map(of_pair).collect::<Vec<_>>())
        })
    });
    mean(occurring.len() * (occurring.len() - 1), pairs)
}

/// Mann-Whitney over the rows that are `Some`, with each row's placement as its influence (DeLong, DeLong &
/// Clarke-Pearson 1988, doi:10.2307/2531595).
pub fn auc(activations: &[f64], present: &[Option<bool>]) -> Result<Term, String> {
    auc_in(&ascending(activations), activations, present)
}

/// [`auc`] of activations whose rows are in ascending `order`.
fn auc_in(order: &[u32], activations: &[f64], present: &[Option<bool>]) -> Result<Term, String> {
    let count = |class: bool| present.iter().filter(|present| **present == Some(class)).count();
    let (positives, negatives) = (count(true), count(false));
    if positives == 0 || negatives == 0 {
        return Err("there is one class only".into());
    }
    // The share of the other class below each row, equal ones counting one half, by the number of rows of each class
    // below it.
    let share = |below: usize, equal: usize, of: usize| (2 * below + equal) as f64 / (2 * of) as f64;
    let mut shares = vec![0.0; activations.len()];
    let (mut positives_below, mut negatives_below, mut sum) = (0, 0, 0.0);
    for ties in order.chunk_by(|&a, &b| activations[a as usize] == activations[b as usize]) {
        let among = |class: bool| ties.iter().filter(|&&row| present[row as usize] == Some(class)).count();
        let (own, other) = (among(true), among(false));
        let of_positive = share(negatives_below, other, negatives);
        let of_negative = share(positives_below, own, positives);
        for &row in ties {
            match present[row as usize] {
                Some(true) => {
                    shares[row as usize] = of_positive;
                    sum += of_positive;
                }
                Some(false) => shares[row as usize] = of_negative,
                None => {}
            }
        }
        positives_below += own;
        negatives_below += other;
    }
    let value = sum / positives as f64;
    let n = activations.len() as f64;
    let influence = |(share, present): (&f64, &Option<bool>)| match present {
        Some(true) => (share - value) * n / positives as f64,
        Some(false) => (1.0 - share - value) * n / negatives as f64,
        None => 0.0,
    };
    let influence = shares.iter().zip(present).map(influence).collect();
    Ok(Term { value, excess: value, influence, draw_variance: 0.0 })
}
