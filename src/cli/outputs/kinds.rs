//! Guesses the kind of activations and labels from their values, where neither the command nor the file states it.

use std::collections::BTreeSet;

use leakage::batch::ROUNDING;
use leakage::run::{ActivationKind, Concept, LabelKind, Run};
use leakage::tensor::{Tensor, TensorName};

use super::array::each_element;

/// Share of activations that may lie beyond 0 and 1 although the others are probabilities.
const FEW: f64 = 0.01;
/// Share of rows by which predictions and labels differ where a threshold separates nothing.
const OTHER_SHARE: f64 = 0.1;
/// As far as the means of pairs that sum to 1 may differ, in float16.
const PAIRED: f64 = 2e-3;
/// So many different whole numbers are classes whatever they are.
const FEW_CLASSES: usize = 20;

/// How the arrays were read.
#[derive(Debug, Default)]
pub struct Guesses {
    /// The kinds that were guessed, by their names in the JSON.
    pub guessed: Vec<&'static str>,
    /// Why a guess may be wrong.
    pub doubts: Vec<String>,
}

/// One column of activations.
#[derive(Clone, Copy)]
struct Span {
    low: f64,
    high: f64,
}

/// The kind of the activations of concepts that have none of their own, and why it is doubtful. Monte-Carlo samples are
/// averaged first, because their mean is scored.
///
/// Hard where all are class numbers of their concepts. Probabilities where all lie from 0 to 1, but for rounding and at
/// most one in a hundred. Otherwise logits. Either is continuous where its threshold separates nothing: most concepts
/// have all activations on one side of it, and their labels do not agree. Pairs whose means do not differ are the
/// probabilities of absence and presence, which are refused later.
pub fn of_activations(activations: &Tensor, labels: Option<&Tensor>, run: &Run) -> (ActivationKind, Option<String>) {
    let columns = activations.shape().get(1).copied().unwrap_or(1);
    let blocks = run.activation_blocks(columns).unwrap_or_default();
    let mut classes = vec![Some(2); columns];
    for (concept, block) in run.concepts.iter().zip(&blocks) {
        classes[block.clone()].fill(concept.activation_kind.is_none().then(|| concept.classes()));
    }
    let (mut hard, mut beyond) = (true, 0_usize);
    let mut spans = vec![Span { low: f64::INFINITY, high: f64::NEG_INFINITY }; columns];
    each_row(activations, |values| {
        for ((&value, span), &classes) in values.iter().zip(&mut spans).zip(&classes) {
            let Some(classes) = classes else { continue };
            hard &= value.fract() == 0.0 && value >= 0.0 && value < f64::from(classes);
            *span = Span { low: span.low.min(value), high: span.high.max(value) };
            beyond += usize::from(!(-ROUNDING..=1.0 + ROUNDING).contains(&value));
        }
    });
    if hard {
        return (ActivationKind::Hard, None);
    }
    let count = activations.rows() * classes.iter().flatten().count();
    let (kind, threshold) = match beyond as f64 <= FEW * count as f64 {
        true => (ActivationKind::Probability, 0.5),
        false => (ActivationKind::Logit, 0.0),
    };
    // The columns of binary concepts, with the concept.
    let binary: Vec<(usize, usize)> =
        blocks.iter().enumerate().filter(|(_, at)| at.len() == 1).map(|(i, block)| (i, block.start)).collect();
    let binary: Vec<(usize, usize)> = binary.into_iter().filter(|(_, at)| classes[*at].is_some()).collect();
    let crossed = binary.iter().filter(|(_, at)| spans[*at].low <= threshold && spans[*at].high > threshold).count();
    let labels = labels.filter(|_| run.concept_label_kind == LabelKind::Class);
    let positive = kind == ActivationKind::Logit && !binary.is_empty() && spans.iter().all(|span| span.low >= 0.0);
    let are_pairs = activations.shape().get(2) == Some(&2) && spans.iter().all(|span| span.high - span.low <= PAIRED);
    let separates_nothing = 2 * crossed < binary.len()
        && !are_pairs
        && labels.is_some_and(|labels| share_off(activations, labels, &binary, threshold) > OTHER_SHARE);
    if separates_nothing || positive {
        let low = spans.iter().map(|span| span.low).fold(f64::INFINITY, f64::min);
        let high = spans.iter().map(|span| span.high).fold(f64::NEG_INFINITY, f64::max);
        let doubt = format!(
            "concept_activations: values from {low:.4} to {high:.4}, which the threshold {threshold} of {} does not separate: \
             read as continuous, so there is no concept accuracy. If they are something else, pass --activation-kind",
            if kind == ActivationKind::Logit { "logits" } else { "probabilities" }
        );
        return (ActivationKind::Continuous, Some(doubt));
    }
    (kind, None)
}

/// Whether the values of each of `columns` columns are class numbers, in column i below `classes(i)`. −1, `unknown` and
/// NaN are unknown labels, or refused later. Few different whole numbers, and whole ones with a single negative value,
/// are classes with a code such as −999 for unknown labels, or counted from 1: they are refused later. The columns of
/// another shape are refused later.
pub fn of_labels(labels: &Tensor, columns: usize, unknown: f64, classes: impl Fn(usize) -> u32) -> Vec<LabelKind> {
    let mut kinds = vec![LabelKind::Class; columns];
    // For each column: its different values, those that are no classes, and whether all are whole. Large sets are cut.
    let mut found = vec![(BTreeSet::new(), BTreeSet::new(), true); columns];
    let add = |set: &mut BTreeSet<i64>, value: f64| {
        if set.len() <= FEW_CLASSES {
            set.insert(value as i64);
        }
    };
    each_element(labels, |_, at, value| {
        let Some((values, others, whole)) = found.get_mut(at).filter(|_| !value.is_nan() && value != unknown) else {
            return;
        };
        *whole &= value.fract() == 0.0;
        add(values, value);
        if value < -1.0 || value >= f64::from(classes(at)) {
            add(others, value);
        }
    });
    for (kind, (values, others, whole)) in kinds.iter_mut().zip(found) {
        let has_code = others.len() == 1 && others.first().is_some_and(|code| *code < 0);
        if !whole || !(others.is_empty() || values.len() <= FEW_CLASSES || has_code) {
            *kind = LabelKind::Continuous;
        }
    }
    kinds
}

/// The remark that labels of a task read as classes may be amounts in whole numbers, since most numbers up to the largest do
/// not occur: of the first such task. `are_guessed`: whether the classes of each are a guess.
pub fn sparse_classes(labels: &Tensor, names: &[String], are_guessed: &[bool]) -> Option<String> {
    let mut found = vec![BTreeSet::new(); names.len()];
    each_element(labels, |_, task, value| {
        if value >= 0.0 && are_guessed[task] {
            found[task].insert(value as u64);
        }
    });
    found.iter().zip(names).find_map(|(found, name)| {
        let (count, last) = (found.len(), *found.last()?);
        let (of, option) = match names {
            [_] => (String::new(), "continuous".to_owned()),
            _ => (format!(" of '{name}'"), format!("{name}=continuous")),
        };
        (count > FEW_CLASSES && last > 2 * count as u64).then(|| {
            format!(
                "task_labels{of}: {count} different whole numbers up to {last}: read as classes. If they are amounts, pass \
                 --task-kind {option}"
            )
        })
    })
}

/// The remark that some concepts are read as numbers because of labels within 0 and 1, which certainties have as well.
pub fn fractions(
    labels: &Tensor,
    concepts: &[Concept],
    stated: &[Option<LabelKind>],
    kinds: &[LabelKind],
) -> Option<String> {
    // For each concept the number of fractions, the first of them, and whether no label is beyond 0 and 1.
    let mut found = vec![(0_usize, f64::NAN, true); concepts.len()];
    each_element(labels, |_, at, label| {
        let Some((count, first, within)) = found.get_mut(at) else { return };
        if label.fract() != 0.0 && !label.is_nan() {
            *first = if *count == 0 { label } else { *first };
            *count += 1;
        }
        *within &= label.is_nan() || label == -1.0 || (0.0..=1.0).contains(&label);
    });
    let doubtful = |&i: &usize| stated[i].is_none() && kinds[i] == LabelKind::Continuous && found[i].2;
    let doubtful: Vec<usize> = (0..concepts.len()).filter(doubtful).collect();
    let first = *doubtful.first()?;
    let more = if doubtful.len() > 1 { format!(" and {} more", doubtful.len() - 1) } else { String::new() };
    Some(format!(
        "concept_labels: {} of {} labels of '{}' are between 0 and 1, such as {}: it{more} is read as a number, the others \
         as classes. If they are certainties, pass --soft-labels threshold",
        found[first].0,
        labels.rows(),
        concepts[first].name,
        found[first].1
    ))
}

/// Calls `visit` with the activations of each row, samples averaged.
fn each_row(activations: &Tensor, mut visit: impl FnMut(&[f64])) {
    let samples = activations.shape().get(2).copied().unwrap_or(1);
    let (mut values, mut means) = (Vec::new(), Vec::new());
    for row in 0..activations.rows() {
        values.clear();
        activations.for_each_float(row, |value| values.push(value));
        means.clear();
        means.extend(values.chunks(samples).map(|of_one| of_one.iter().sum::<f64>() / samples as f64));
        visit(&means);
    }
}

/// Mean over binary concepts of the difference between the share of rows that are predicted present and the share that
/// is; 0 without labels of both classes.
fn share_off(activations: &Tensor, labels: &Tensor, binary: &[(usize, usize)], threshold: f64) -> f64 {
    if labels.rows() != activations.rows() || labels.name() != TensorName::ConceptLabels {
        return 0.0;
    }
    let mut counts = vec![[0_usize; 3]; binary.len()]; // predicted present, present, known
    let (mut row, mut known) = (0, Vec::new());
    each_row(activations, |values| {
        known.clear();
        labels.for_each_float(row, |label| known.push(label));
        row += 1;
        for (count, &(concept, column)) in counts.iter_mut().zip(binary) {
            let Some(label) = known.get(concept).filter(|label| **label >= 0.0) else { continue };
            count[0] += usize::from(values[column] > threshold);
            count[1] += usize::from(*label > 0.0);
            count[2] += 1;
        }
    });
    let both: Vec<&[usize; 3]> = counts.iter().filter(|count| count[1] > 0 && count[1] < count[2]).collect();
    let off = |count: &&[usize; 3]| count[0].abs_diff(count[1]) as f64 / count[2] as f64;
    if both.is_empty() { 0.0 } else { both.iter().map(off).sum::<f64>() / both.len() as f64 }
}
