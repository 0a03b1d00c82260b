//! Sums of estimates with their errors: what turns many mutual informations into one score.

use std::borrow::Cow;

use information::{Estimate, Variable, elementwise, self_information};

use crate::pair_cache::{Cell, Numbers};
use crate::point::{Outcome, ScoreValue};
use crate::prepare::{KnownRows, Prepared};

use super::ids::side_by_side;
use super::left_out::Over;

/// One concept's or one pair's part of a score.
#[derive(Clone, Debug)]
pub struct Term {
    /// As published: clipped where the definition clips.
    pub value: f64,
    /// The same before clipping; equal to `value` where nothing is clipped.
    pub excess: f64,
    /// Centred contribution of each row, so that the variance of `excess` is Σ influence² / N².
    pub influence: Vec<f64>,
    /// Variance of `excess` over draws or repeats.
    pub draw_variance: f64,
}

impl Term {
    /// I / H: a normalised information.
    pub fn normalised(information: Estimate, normaliser: &Normaliser) -> Self {
        let mean = normaliser.mean;
        let mut influence = information.influence;
        elementwise::scale(&mut influence, 1.0 / mean);
        let longest = information.repeats.len().max(normaliser.repeats.len());
        Self {
            value: mean_over(longest, |r| at(&information.repeats, r) / at(&normaliser.repeats, r)),
            excess: information.unclipped / mean,
            influence,
            draw_variance: information.draw_variance / (mean * mean),
        }
    }

    /// This term less another, both unclipped.
    pub fn less(&self, other: &Self) -> Self {
        let excess = self.excess - other.excess;
        let mut influence = self.influence.clone();
        elementwise::add(&mut influence, -1.0, &other.influence);
        Self { value: excess, excess, influence, draw_variance: self.draw_variance + other.draw_variance }
    }

    /// The mean of a quantity given for each row.
    pub fn mean_of_rows(rows: &[f64]) -> Self {
        let mean = rows.iter().sum::<f64>() / rows.len() as f64;
        Self { value: mean, excess: mean, influence: rows.iter().map(|x| x - mean).collect(), draw_variance: 0.0 }
    }

    /// The mean over the rows that have a value; `None` when none has.
    pub fn mean_of_some_rows(rows: &[Option<f64>]) -> Option<Self> {
        let count = rows.iter().flatten().count();
        if count == 0 {
            return None;
        }
        let mean = rows.iter().flatten().sum::<f64>() / count as f64;
        // In terms of all rows each of these weighs N / count.
        let scale = rows.len() as f64 / count as f64;
        let influence = rows.iter().map(|row| row.map_or(0.0, |x| scale * (x - mean))).collect();
        Some(Self { value: mean, excess: mean, influence, draw_variance: 0.0 })
    }

    /// A term of some rows as one of all rows.
    pub fn spread(self, rows: &KnownRows) -> Self {
        if rows.are_all() {
            return self;
        }
        Self { influence: rows.influence(self.influence), ..self }
    }

    /// This term as a score of its own.
    pub fn outcome(&self) -> Outcome {
        let standard_error = Some(self.standard_error());
        Outcome::Value(ScoreValue { value: self.value, standard_error, ..ScoreValue::default() })
    }

    /// Returns the standard error of `excess`.
    pub fn standard_error(&self) -> f64 {
        standard_error(&self.influence, self.draw_variance)
    }

    /// max(0, I/H − I₀/H₀): the difference of a learnt and a true normalised information, clipped in each repeat.
    pub fn leakage(learnt: (Estimate, &Normaliser), truth: (&Estimate, &Normaliser)) -> Self {
        let repeats = [&learnt.0.repeats, &learnt.1.repeats, &truth.0.repeats, &truth.1.repeats];
        let longest = repeats.iter().map(|r| r.len()).max().unwrap_or(1);
        let difference = |r| at(repeats[0], r) / at(repeats[1], r) - at(repeats[2], r) / at(repeats[3], r);
        let (learnt_mean, truth_mean) = (learnt.1.mean, truth.1.mean);
        let mut influence = learnt.0.influence;
        elementwise::scale(&mut influence, 1.0 / learnt_mean);
        elementwise::add(&mut influence, -1.0 / truth_mean, &truth.0.influence);
        Self {
            value: mean_over(longest, |r| difference(r).max(0.0)),
            excess: learnt.0.unclipped / learnt_mean - truth.0.unclipped / truth_mean,
            influence,
            draw_variance: learnt.0.draw_variance / (learnt_mean * learnt_mean)
                + truth.0.draw_variance / (truth_mean * truth_mean),
        }
    }
}

/// The divisor of an information: an entropy or a self-information, with its repeats. Always positive.
#[derive(Clone, Debug)]
pub struct Normaliser {
    repeats: Vec<f64>,
    mean: f64,
}

impl Normaliser {
    pub fn of(entropy: &Estimate) -> Result<Self, String> {
        let mean = mean_over(entropy.repeats.len(), |r| entropy.repeats[r]);
        if entropy.repeats.iter().all(|&h| h > 0.0) {
            Ok(Self { repeats: entropy.repeats.clone(), mean })
        } else {
            Err(format!("its entropy is {mean}, so nothing can be divided by it"))
        }
    }

    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// √(H_i H_j).
    pub fn geometric(a: &Self, b: &Self) -> Self {
        let longest = a.repeats.len().max(b.repeats.len());
        let repeats: Vec<f64> = (0..longest).map(|r| (at(&a.repeats, r) * at(&b.repeats, r)).sqrt()).collect();
        Self { mean: (a.mean * b.mean).sqrt(), repeats }
    }
}

/// H of a variable as a divisor: its entropy, or its self-information when it is continuous.
pub fn normaliser(x: &Variable, p: &Prepared) -> Result<Normaliser, String> {
    let entropy = self_information(x, p.settings()).map_err(|e| e.to_string())?;
    if has_one_class(x) { Err("there is one class only".into()) } else { Normaliser::of(&entropy) }
}

/// y on these rows and its [`normaliser`], given both on all rows.
pub fn task_in<'p>(
    p: &'p Prepared,
    rows: &KnownRows,
    of_all: (&'p Variable, &Normaliser),
) -> Result<(Cow<'p, Variable>, Normaliser), String> {
    if rows.are_all() {
        return Ok((Cow::Borrowed(of_all.0), of_all.1.clone()));
    }
    let task = p.task_label_in(rows).ok_or("there are no task labels")?;
    let entropy = normaliser(&task, p);
    let entropy =
        entropy.map_err(|why| format!("task_labels of the {} rows with a known label: {why}", rows.count()))?;
    Ok((task, entropy))
}

/// ĉ_i and c_i on rows in which the label is known.
pub fn concept_in<'p>(
    p: &'p Prepared,
    i: usize,
    rows: &KnownRows,
) -> Result<(Cow<'p, Variable>, Cow<'p, Variable>), String> {
    let activation = p.activation_in(i, rows).ok_or("there are no concept activations")?;
    Ok((activation, p.concept_label_in(i, rows).ok_or("there are no concept labels")?))
}

/// The rows in which the labels of both concepts are known.
pub fn known_pair(p: &Prepared, i: usize, j: usize) -> Result<KnownRows, String> {
    let name = |at: usize| &p.run().concepts[at].name;
    p.known(&[i, j]).map_err(|why| format!("labels of concepts '{}' and '{}': {why}", name(i), name(j)))
}

/// A constant column of class numbers. Counting gives it an information of 0, which says nothing about the model: a
/// constant column of floats has no estimate either.
pub fn has_one_class(x: &Variable) -> bool {
    matches!(x, Variable::Discrete(classes) if classes.sizes().len() < 2)
}

/// Value of repeat `r`; estimates without repeats have one value for all.
fn at(repeats: &[f64], r: usize) -> f64 {
    repeats[r.min(repeats.len() - 1)]
}

fn mean_over(n: usize, value: impl Fn(usize) -> f64) -> f64 {
    (0..n).map(value).sum::<f64>() / n as f64
}

fn standard_error(influence: &[f64], draw_variance: f64) -> f64 {
    let n = influence.len() as f64;
    (elementwise::sum_of_squares(influence) / (n * n) + draw_variance).sqrt()
}

/// A weighted sum of terms in a fixed order, so that its last bit does not depend on threads.
#[derive(Clone, Debug, PartialEq)]
pub struct Sum {
    influence: Vec<f64>,
    draw_variance: f64,
}

impl Sum {
    pub fn new(rows: usize) -> Self {
        Self { influence: vec![0.0; rows], draw_variance: 0.0 }
    }

    pub fn add(&mut self, weight: f64, term: &Term) {
        self.add_parts(weight, &term.influence, term.draw_variance);
    }

    pub fn add_sum(&mut self, weight: f64, other: &Sum) {
        self.add_parts(weight, &other.influence, other.draw_variance);
    }

    /// Adds the influences of a term, each rounded to a multiple of 2⁻³⁰: sums of such numbers are exact up to 2²³, so
    /// the last bit depends neither on the order nor on how terms were grouped. An influence is a share of an entropy, of
    /// the order of 1, and a rounding of 10⁻⁹ nothing beside its error. The draw variance is left to
    /// [`mean_over`](Self::mean_over).
    pub fn add_in_any_order(&mut self, term: &Term) {
        /// From 2²² to 2²³ numbers are 2⁻³⁰ apart.
        const ROUND: f64 = 1.5 * (1u64 << 22) as f64;
        elementwise::add_rounded(&mut self.influence, ROUND, &term.influence);
    }

    /// The mean of this many terms, whose draw variances add up to `draw_variance`.
    pub fn mean_over(&self, terms: usize, draw_variance: f64) -> Self {
        let weight = 1.0 / terms.max(1) as f64;
        let influence = self.influence.iter().map(|row| weight * row).collect();
        Self { influence, draw_variance: weight * weight * draw_variance }
    }

    fn add_parts(&mut self, weight: f64, influence: &[f64], draw_variance: f64) {
        elementwise::add(&mut self.influence, weight, influence);
        self.draw_variance += weight * weight * draw_variance;
    }

    /// √(Σ influence² / N² + variance over draws), the normalisers taken as known.
    ///
    /// For scores that are means of rows (accuracies, F1, AUC), ±1.96 errors cover 93 to 96 % of 500 synthetic data sets.
    /// For conditional scores it is as large as the scatter (`tests/estimators/coverage.rs` of `information`). For the other scores from
    /// neighbours the error is too small, because rows that share neighbours have similar terms, which the sum treats
    /// as independent: it is 85 to 93 % of the true scatter (78 % at worst over 200 sets, for icl_excess), and the
    /// interval covers 89 to 94 % (ctl_excess 91-92, icl_excess 90-92, icl_label_excess 89-92, embedding_ct 92-94,
    /// alignment_leakage 92-94; N of 400 and 600, 2 and 3 concepts, 3 neighbours). Normalisers that vary with the rows,
    /// by the delta method, change the errors of ctl and icl by less than 1 % and lower that of alignment_leakage by 3
    /// to 5 %.
    pub fn standard_error(&self) -> f64 {
        standard_error(&self.influence, self.draw_variance)
    }

    /// Standard error of this sum minus an `earlier` one of other rows, some of them perhaps the same; `ids` and
    /// `earlier_ids` name the rows of each, ascending. A row that both have counts with the difference of its
    /// influences, every other row with its own: without a row in common the result is √(error² + error²).
    pub fn difference_error(&self, ids: &[u64], earlier: &Sum, earlier_ids: &[u64]) -> f64 {
        let (n, m) = (ids.len() as f64, earlier_ids.len() as f64);
        let mut variance = self.draw_variance + earlier.draw_variance;
        side_by_side(earlier_ids, ids, |there, here| {
            let mut change = 0.0;
            if let Some(here) = here {
                change += self.influence[here] / n;
            }
            if let Some(there) = there {
                change -= earlier.influence[there] / m;
            }
            variance += change * change;
        });
        variance.sqrt()
    }
}

/// A score that is the weighted mean over concepts of one term each, of those that have one: see
/// [`left_out`](super::left_out). `weights` sum to 1.
pub fn mean_over_concepts(
    p: &Prepared,
    weights: &[f64],
    terms: &[Result<Term, String>],
    part: fn(&Term) -> f64,
) -> Outcome {
    let parts: Vec<_> = terms.iter().map(|term| term.as_ref().map(part)).collect();
    weighted_mean(p, weights, &parts, |weights| sum_of(p, weights, terms).standard_error(), None)
}

/// The weighted sum of the terms that there are.
pub fn sum_of(p: &Prepared, weights: &[f64], terms: &[Result<Term, String>]) -> Sum {
    let mut sum = Sum::new(p.rows());
    let with_weights = terms.iter().zip(weights).filter_map(|(term, weight)| Some((term.as_ref().ok()?, weight)));
    with_weights.for_each(|(term, weight)| sum.add(*weight, term));
    sum
}

/// One cell for each concept, which a family of pairs gives beside its pairs.
pub struct Concepts {
    pub cells: Vec<Cell>,
    /// The influences on the mean over the concepts of this sample.
    pub sum: Sum,
    /// Seconds since each was computed; `None` where all are of this sample.
    pub ages: Option<Vec<f64>>,
}

impl Concepts {
    /// `sum` is that of the concepts of this sample, which `fresh` names.
    pub fn new(cells: Vec<Cell>, sum: &Sum, fresh: &[bool], ages: Option<Vec<f64>>) -> Self {
        let of_sample = || cells.iter().zip(fresh).filter(|(_, fresh)| **fresh).map(|(cell, _)| cell);
        let draw_variance = of_sample().flatten().map(|numbers| numbers.draw_variance).sum();
        let sum = sum.mean_over(of_sample().flatten().count(), draw_variance);
        Self { cells, sum, ages }
    }

    /// The plain mean of `part` over the concepts.
    pub fn outcome(&self, p: &Prepared, part: fn(&Numbers) -> f64) -> Outcome {
        let parts: Vec<_> = self.cells.iter().map(|cell| cell.as_ref().map(part)).collect();
        let age = self.ages.as_ref().map(oldest);
        weighted_mean(p, &p.equal_weights(), &parts, |_| self.sum.standard_error(), age)
    }
}

/// The largest of some ages; 0 of none.
pub fn oldest<'a>(ages: impl IntoIterator<Item = &'a f64>) -> f64 {
    ages.into_iter().fold(0.0, |oldest: f64, age| oldest.max(*age))
}

fn weighted_mean(
    p: &Prepared,
    weights: &[f64],
    parts: &[Result<f64, &String>],
    standard_error: impl FnOnce(&[f64]) -> f64,
    age: Option<f64>,
) -> Outcome {
    let per_concept = Some(parts.iter().map(|part| part.ok()).collect());
    let whys = parts.iter().zip(&p.run().concepts);
    let whys = whys.map(|(part, concept)| part.err().map(|why| format!("concept '{}': {why}", concept.name)));
    let (weights, Over { left_out, undefined }) = Over::concepts(p.concepts(), weights, whys);
    let with_weights = parts.iter().zip(&weights).filter_map(|(part, weight)| Some((part.ok()?, weight)));
    let value = with_weights.fold(0.0, |sum, (part, weight)| sum + weight * part);
    let standard_error = undefined.is_none().then(|| standard_error(&weights));
    Outcome::of(undefined, ScoreValue { value, standard_error, per_concept, age, left_out, ..ScoreValue::default() })
}
