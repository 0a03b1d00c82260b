//! The null distribution of conditional leakage: permutation tests of the scores in [`conditional`](super::conditional)
//! and of those of [`embedding`](super::embedding) that condition.
//!
//! Where ĉ_i and y are independent given c_i, permuting y within the strata of c_i leaves the distribution unchanged, so
//! p = (1 + b)/(1 + B) of a concept is exact for any N, classes and ties; b of the B orders give as much information as y.
//! For continuous c_i rows of nearly the same c_i are permuted, which is approximate. A concept is tested for all other
//! labels at once by a sum over them ([`values_together`]): the labels of a row stay together, so that is exact too.
//!
//! The score as a whole is tested by the largest of its concepts, each in standard deviations of its own orders (max-T of
//! Westfall & Young 1993): its p-value reaches 1/(1 + B) for any number of concepts. It is exact where concepts are
//! independent given their labels, and conservative where they share residuals, because their orders are drawn one by one;
//! the mean over concepts would not be, it rejected 25 % at a nominal 5 %. Adjusted p-values need probabilities far below
//! 1/B: they are approximate, from a normal distribution with the variance of the permutations, as are all of pairs.

use std::borrow::Cow;

use information::{Permutations, Strata, Variable, conditional_information, permuted_locally, values_together};

use crate::false_discovery::{false_discovery_rates, upper_tail};
use crate::parallel;
use crate::point::Significance;
use crate::prepare::{KnownRows, Prepared};
use crate::tensor::TensorName;

use super::pairs::with_others;
use super::term::has_one_class;

/// B, the number of orders.
const ORDERS: usize = 199;
/// The number of orders for continuous labels, where one takes longer.
const LOCAL_ORDERS: usize = 63;
/// The number of orders for the variance of pairs.
const ORDERS_OF_PAIRS: usize = 64;
/// Studentised values that differ by less than this differ by rounding.
const ROUNDING: f64 = 1e-6;
/// The standard deviation of values of at most N nats below which they count as constant.
const CONSTANT: f64 = 1e-12;

/// Tests `ctl_conditional`.
pub fn concepts_task(p: &Prepared) -> Significance {
    of_concepts(p, |i, rows| p.activation_in(i, rows))
}

/// Tests `icl_conditional`.
pub fn interconcept(p: &Prepared) -> Significance {
    of_pairs(p, |i, rows| p.activation_in(i, rows))
}

/// Tests `embedding_ct_conditional`, or the same of positive or negative embeddings.
pub fn embeddings_task(p: &Prepared, name: TensorName) -> Significance {
    of_concepts(p, |i, rows| p.embedding_in(name, i, rows).map(Cow::Owned))
}

/// Tests `embedding_ic_conditional`.
pub fn embeddings_interconcept(p: &Prepared) -> Significance {
    of_pairs(p, |i, rows| p.embedding_in(TensorName::ConceptEmbeddings, i, rows).map(Cow::Owned))
}

/// A concept's test.
struct Tested {
    /// The value found, and those of B orders, as distances from the mean of all in their standard deviations.
    found: f64,
    drawn: Vec<f64>,
    approximate: f64,
}

fn of_concepts<'p>(p: &'p Prepared, x: impl Fn(usize, &KnownRows) -> Option<Cow<'p, Variable>> + Sync) -> Significance {
    let concept = |i: usize| -> Option<Tested> {
        let rows = p.known(&[i]).ok()?;
        let (x, label, task) = (x(i, &rows)?, p.concept_label_in(i, &rows)?, p.task_label_in(&rows)?);
        let (label, task) = (&*label, &*task);
        if [&*x, label, task].into_iter().any(has_one_class) || is_long(&x, task) {
            return None;
        }
        let seed = seed_of(p, i);
        let drawn = match label {
            Variable::Discrete(_) => {
                let strata = Strata::new(&x, label, p.settings()).ok()?;
                Permutations::new(&strata, ORDERS, seed).values(task, ORDERS, || p.pause())
            }
            _ => permuted_locally([&x, task, label], p.settings(), LOCAL_ORDERS, seed, || p.pause()),
        };
        let found = conditional_information(&x, task, label, p.settings()).ok()?.estimate.unclipped;
        Some(tested(found, drawn.ok()?))
    };
    let tested: Vec<Option<Tested>> = parallel::map(p.concepts(), &concept);
    if tested.iter().all(Option::is_none) {
        return Significance::default();
    }
    let approximate: Vec<Option<f64>> = tested.iter().map(|tested| Some(tested.as_ref()?.approximate)).collect();
    Significance {
        p_value: by_largest(&tested),
        per_concept_q: Some(false_discovery_rates(&approximate)),
        ..Significance::default()
    }
}

fn of_pairs<'p>(p: &'p Prepared, x: impl Fn(usize, &KnownRows) -> Option<Cow<'p, Variable>> + Sync) -> Significance {
    let k = p.concepts();
    let Some(labels) = p.concept_labels() else { return Significance::default() };
    // Pairs with continuous concepts have no test.
    let has_classes = |at: usize| matches!(labels[at], Variable::Discrete(_));
    if k < 2 || !(0..k).any(has_classes) {
        return Significance::default();
    }
    if p.has_unknown_labels() {
        return of_known_pairs(p, x);
    }
    let all = KnownRows::all(p.rows());
    let concept = |i: usize| -> (Option<Tested>, Vec<Option<f64>>) {
        let none = || (None, vec![None; k]);
        let is_tested = |x: &Cow<Variable>| has_classes(i) && !has_one_class(x) && !has_one_class(&labels[i]);
        let Some(x) = x(i, &all).filter(is_tested) else { return none() };
        let Ok(strata) = Strata::new(&x, &labels[i], p.settings()) else { return none() };
        let is_other = |j: &usize| has_classes(*j) && !has_one_class(&labels[*j]);
        let others: Vec<usize> = with_others(i, k).map(|(_, j)| j).filter(is_other).collect();
        let of_others: Vec<&Variable> = others.iter().map(|&j| &labels[j]).collect();
        let mut permutations = Permutations::new(&strata, ORDERS_OF_PAIRS, seed_of(p, i));
        let (_, mut row) = none();
        for (&j, found) in others.iter().zip(strata.information_with_each(&of_others)) {
            row[j] = (|| {
                let moments = permutations.moments(&labels[j], || p.pause()).ok()?;
                Some(normal_tail(found.ok()?.estimate.unclipped - moments.mean, moments.variance))
            })();
        }
        let together = values_together(&strata, &of_others, ORDERS, seed_of(p, i), || p.pause());
        let is_defined = row.iter().any(Option::is_some);
        (together.ok().filter(|_| is_defined).map(|(found, drawn)| tested(found, drawn)), row)
    };
    let (of_concepts, of_pairs): (Vec<Option<Tested>>, Vec<Vec<Option<f64>>>) =
        parallel::map(k, &concept).into_iter().unzip();
    let approximate: Vec<Option<f64>> = of_concepts.iter().map(|tested| Some(tested.as_ref()?.approximate)).collect();
    let rates = false_discovery_rates(&of_pairs.concat());
    Significance {
        p_value: by_largest(&of_concepts),
        per_concept_q: Some(false_discovery_rates(&approximate)),
        matrix_q: Some(rates.chunks(k).map(<[_]>::to_vec).collect()),
        ..Significance::default()
    }
}

/// With unknown labels each pair has rows of its own, and no test takes the labels of a concept's pairs together: pairs have
/// adjusted p-values, concepts and the score have none.
fn of_known_pairs<'p>(
    p: &'p Prepared,
    x: impl Fn(usize, &KnownRows) -> Option<Cow<'p, Variable>> + Sync,
) -> Significance {
    let k = p.concepts();
    let pair = |i: usize, j: usize| -> Option<f64> {
        let rows = p.known(&[i, j]).ok()?;
        let (x, own, other) = (x(i, &rows)?, p.concept_label_in(i, &rows)?, p.concept_label_in(j, &rows)?);
        let labels = [&*own, &*other];
        if [&*x, &*own, &*other].into_iter().any(has_one_class)
            || labels.into_iter().any(|label| !matches!(label, Variable::Discrete(_)))
        {
            return None;
        }
        let strata = Strata::new(&x, &own, p.settings()).ok()?;
        let mut permutations = Permutations::new(&strata, ORDERS_OF_PAIRS, seed_of(p, i));
        let found = strata.information_with_each(&[&*other]).swap_remove(0).ok()?;
        let moments = permutations.moments(&other, || p.pause()).ok()?;
        Some(normal_tail(found.estimate.unclipped - moments.mean, moments.variance))
    };
    let row = |i: usize| (0..k).map(|j| if i == j { None } else { pair(i, j) }).collect::<Vec<_>>();
    let of_pairs: Vec<Vec<Option<f64>>> = parallel::map(k, &row);
    let rates = false_discovery_rates(&of_pairs.concat());
    let matrix_q = Some(rates.chunks(k).map(<[_]>::to_vec).collect());
    Significance { matrix_q, ..Significance::default() }
}

/// Whether permutations would take minutes: of vectors and numbers every row is compared with every other, each time.
fn is_long(x: &Variable, task: &Variable) -> bool {
    matches!((x, task), (Variable::Vector(_), Variable::Scalar(_) | Variable::Vector(_)))
}

fn seed_of(p: &Prepared, concept: usize) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    p.settings().seed ^ (concept as u64 + 1).wrapping_mul(ODD)
}

fn tested(found: f64, mut drawn: Vec<f64>) -> Tested {
    let (mean, variance) = moments(&drawn);
    let approximate = normal_tail(found - mean, variance);
    // With the value found among them all are exchangeable.
    drawn.push(found);
    let (mean, variance) = moments(&drawn);
    let deviation = variance.sqrt();
    let studentised = |value: f64| if deviation > CONSTANT { (value - mean) / deviation } else { 0.0 };
    drawn.pop();
    drawn.iter_mut().for_each(|drawn| *drawn = studentised(*drawn));
    Tested { found: studentised(found), drawn, approximate }
}

/// Mean and unbiased variance.
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0))
}

/// The p-value of the largest value found, among the largest of each order. `None` without any test.
fn by_largest(tested: &[Option<Tested>]) -> Option<f64> {
    let found = tested.iter().flatten().map(|tested| tested.found).reduce(f64::max)?;
    let orders = tested.iter().flatten().map(|tested| tested.drawn.len()).min()?;
    let largest = |order: usize| tested.iter().flatten().map(|tested| tested.drawn[order]).fold(f64::MIN, f64::max);
    let as_large = (0..orders).filter(|&order| largest(order) >= found - ROUNDING).count();
    Some((1 + as_large) as f64 / (1 + orders) as f64)
}

/// P(Z √variance > excess), which is never 0; 1 where nothing varies, because then nothing can be found either.
fn normal_tail(excess: f64, variance: f64) -> f64 {
    if variance.sqrt() > CONSTANT { upper_tail(excess / variance.sqrt()).max(f64::MIN_POSITIVE) } else { 1.0 }
}
