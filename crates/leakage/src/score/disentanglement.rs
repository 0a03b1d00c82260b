//! Scores from disentanglement: whether each true concept is encoded in one activation and no other.
//!
//! Sources: Isolating Sources of Disentanglement in VAEs (Chen et al. 2018, arXiv 1802.04942) for the Mutual Information
//! Gap; Variational Inference of Disentangled Latent Concepts (Kumar et al. 2018, arXiv 1711.00848) for the Separated
//! Attribute Predictability; the number of bins and the linear classifier are those of Challenging Common Assumptions
//! (Locatello et al. 2019, arXiv 1811.12359).

use std::borrow::Cow;

use information::{Variable, mutual_information};

use crate::parallel;
use crate::point::Outcome;
use crate::prepare::{KnownRows, Prepared};
use crate::tensor::TensorName;

use super::concept_rows::{NO_CLASSES, distinct};
use super::holdout::Holdout;
use super::matching::{midranks, most_predictive};
use super::term::{Normaliser, Term, mean_over_concepts, normaliser};

const BINS: usize = 20;
/// C of the classifier's squared hinge loss.
const COST: f64 = 0.01;

/// For each true concept, the gap between the two largest informations that activations, cut into 20 bins, have about
/// it, over its entropy; mean over concepts.
pub fn mig(p: &Prepared) -> Result<Outcome, String> {
    let codes = codes(p)?;
    let of_all: Vec<Vec<i32>> = parallel::map(codes.columns.len(), &|at| bins(&codes.columns[at]));
    let gap = |j: usize| {
        p.pause();
        codes.has_gap(j)?;
        let rows = p.known(&[j]).map_err(|why| format!("labels: {why}"))?;
        let label = p.concept_label_in(j, &rows).ok_or("there are no concept labels")?;
        let entropy: Normaliser = normaliser(&label, p)?;
        let Variable::Discrete(classes) = &*label else { return Err(NO_CLASSES.into()) };
        // Bins span the values of the rows in use.
        let binned = match rows.are_all() {
            true => Cow::Borrowed(&of_all),
            false => Cow::Owned(codes.columns.iter().map(|code| bins(&rows.of(code.clone(), 1))).collect()),
        };
        let largest = two_largest(binned.iter().map(|bins| information_of_counts(bins, classes)));
        let informations = largest.map(|at| mutual_information(&Variable::discrete(&binned[at]), &label, p.settings()));
        let terms = informations.map(|information| Ok(Term::normalised(information?, &entropy)));
        let terms: Result<Vec<Term>, information::Undefined> = terms.into_iter().collect();
        Ok(largest_gap(terms.map_err(|e| e.to_string())?).spread(&rows))
    };
    let terms: Vec<Result<Term, String>> = parallel::map(p.concepts(), &gap);
    Ok(mean_over_concepts(p, &codes.weights(p), &terms, |term| term.value))
}

/// For each true concept, the gap between the two highest test accuracies of linear classifiers that read one
/// activation each; mean over concepts.
pub fn sap(p: &Prepared) -> Result<Outcome, String> {
    let codes = codes(p)?;
    let read: Vec<usize> = (0..p.concepts()).filter(|&i| codes.has_gap(i).is_ok()).collect();
    let of_all = Holdout::of_concepts(p, 0, &read, &KnownRows::all(p.rows()))?;
    let at = |code: &[f64], rows: &[usize]| rows.iter().map(|&row| code[row]).collect::<Vec<f64>>();
    let split_by = |holdout: &Holdout| {
        codes.columns.iter().map(|code| (at(code, &holdout.train), at(code, &holdout.test))).collect()
    };
    let split_of_all: Vec<(Vec<f64>, Vec<f64>)> = split_by(&of_all);
    // Latents may be too many for a classifier each.
    let ranks =
        |split: &[(Vec<f64>, Vec<f64>)]| -> Vec<Vec<f64>> { parallel::map(split.len(), &|at| midranks(&split[at].0)) };
    let ranks_of_all = p.latents().map(|_| ranks(&split_of_all));
    let gap = |j: usize| {
        codes.has_gap(j)?;
        let labels = p.concept_classes(j).ok_or(NO_CLASSES)?;
        let rows = p.known(&[j]).map_err(|why| format!("labels: {why}"))?;
        let of_known = if rows.are_all() { None } else { Some(Holdout::of_concepts(p, 0, &[j], &rows)?) };
        let split_of_known = of_known.as_ref().map(split_by);
        let (holdout, split) = (of_known.as_ref().unwrap_or(&of_all), split_of_known.as_ref().unwrap_or(&split_of_all));
        let of = |rows: &[usize]| rows.iter().map(|&row| labels[row]).collect::<Vec<i32>>();
        let (train, test) = (of(&holdout.train), of(&holdout.test));
        let read = match &ranks_of_all {
            Some(_) if of_known.is_some() => most_predictive(&ranks(split), &train),
            Some(ranks) => most_predictive(ranks, &train),
            None => (0..split.len()).collect(),
        };
        let hits = read.iter().map(|&at| &split[at]).map(|(code, tested)| linear_hits((code, &train), (tested, &test)));
        let terms = hits.map(|hits| Ok(Term::mean_of_rows(&hits?)));
        Ok(holdout.spread(&largest_gap(terms.collect::<Result<_, String>>()?)))
    };
    let terms: Vec<Result<Term, String>> = parallel::map(p.concepts(), &gap);
    Ok(mean_over_concepts(p, &codes.weights(p), &terms, |term| term.value))
}

/// One number a row for each activation: of a concept each, or latents.
struct Codes {
    columns: Vec<Vec<f64>>,
    /// Why a concept has no gap, for each that has none.
    without_gap: Vec<Option<String>>,
}

impl Codes {
    fn has_gap(&self, i: usize) -> Result<(), String> {
        self.without_gap[i].clone().map_or(Ok(()), Err)
    }

    fn weights(&self, p: &Prepared) -> Vec<f64> {
        p.weights_where(|i| self.without_gap[i].is_none())
    }
}

/// A concept with a column for each of its classes has no code, so that it has no gap and makes none smaller. The code of
/// a continuous concept makes gaps smaller, as any may that holds what belongs to another concept.
fn codes(p: &Prepared) -> Result<Codes, String> {
    if p.run().is_all_continuous() {
        return Err("the concepts are continuous and have no classes to predict".into());
    }
    let (k, column) = (p.concepts(), p.column(TensorName::ConceptActivations));
    let column = column.ok_or("there are no concept activations")?;
    let blocks = match p.latents() {
        Some(latents) => (0..latents.width()).map(|at| at..at + 1).collect(),
        None => p.run().activation_blocks(column.width()).ok_or("the activations fit no layout")?,
    };
    let singles: Vec<usize> = blocks.iter().filter(|block| block.len() == 1).map(|block| block.start).collect();
    match p.latents() {
        Some(_) if singles.len() < 2 => return Err("there is one latent, a gap needs at least two".into()),
        None if k < 2 => return Err("there is one concept, a gap needs at least two".into()),
        None if singles.len() < 2 => {
            return Err(format!(
                "{} of {k} concepts have one activation column, a gap needs at least two of them",
                singles.len()
            ));
        }
        _ => {}
    }
    let without_gap = |i: usize| match blocks[i].len() {
        _ if p.run().is_continuous(i) => Some(NO_CLASSES.to_owned()),
        1 => None,
        columns => Some(format!("it has {columns} activation columns, expected one")),
    };
    let without_gap = (0..k).map(without_gap).collect();
    Ok(Codes { columns: parallel::map(singles.len(), &|at| column.floats(singles[at])), without_gap })
}

/// The bin of each value, of 20 of equal width between the least and the largest.
fn bins(values: &[f64]) -> Vec<i32> {
    let (least, largest) =
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
    // In halves, which is exact: the difference of two large values overflows.
    let half_step = (largest / 2.0 - least / 2.0) / BINS as f64;
    let edges: Vec<f64> = (1..BINS).map(|at| 2.0 * (least / 2.0 + at as f64 * half_step)).collect();
    values.iter().map(|&x| edges.partition_point(|edge| *edge <= x) as i32).collect()
}

/// Positions of the largest and the second largest of at least two numbers, the earlier of equals first.
fn two_largest(numbers: impl Iterator<Item = f64>) -> [usize; 2] {
    let mut largest = [(f64::NEG_INFINITY, 0); 2];
    for (at, number) in numbers.enumerate() {
        if number > largest[0].0 {
            largest = [(number, at), largest[0]];
        } else if number > largest[1].0 {
            largest[1] = (number, at);
        }
    }
    largest.map(|(_, at)| at)
}

/// N times the plug-in information between bins and classes, to find the largest of many.
fn information_of_counts(bins: &[i32], classes: &information::Discrete) -> f64 {
    let width = classes.sizes().len();
    let mut counts = vec![0u32; BINS * width];
    bins.iter().zip(classes.classes()).for_each(|(&bin, &class)| counts[bin as usize * width + class as usize] += 1);
    let n = bins.len() as f64;
    let of_bin = |counts: &[u32]| {
        let total: u32 = counts.iter().sum();
        let cell = |(&count, &size): (&u32, &u32)| match count {
            0 => 0.0,
            _ => f64::from(count) * (n * f64::from(count) / (f64::from(total) * f64::from(size))).ln(),
        };
        counts.iter().zip(classes.sizes()).map(cell).sum::<f64>()
    };
    counts.chunks(width).map(of_bin).sum()
}

/// The largest term minus the second largest, the earlier of equals first.
fn largest_gap(mut terms: Vec<Term>) -> Term {
    terms.sort_by(|a, b| b.value.total_cmp(&a.value));
    let (first, second) = (&terms[0], &terms[1]);
    let influence = first.influence.iter().zip(&second.influence).map(|(a, b)| a - b).collect();
    let draw_variance = first.draw_variance + second.draw_variance;
    Term { value: first.value - second.value, excess: first.excess - second.excess, influence, draw_variance }
}

/// 1 for each test row whose class a linear classifier predicts: the support vector machine of scikit-learn's LinearSVC
/// with balanced classes, C = 0.01, trained on (values, classes).
fn linear_hits(train: (&[f64], &[i32]), test: (&[f64], &[i32])) -> Result<Vec<f64>, String> {
    let classes = distinct(train.1.iter().copied(), i32::cmp);
    if classes.len() < 2 {
        return Err(format!("labels: there is one class only among the {} rows to train on", train.1.len()));
    }
    let balanced = |class: i32| {
        let count = train.1.iter().filter(|&&c| c == class).count();
        train.1.len() as f64 / (classes.len() * count) as f64
    };
    let against_rest = |class: i32, rest: f64| {
        let costs = [COST * rest, COST * balanced(class)];
        separate(train.0, |row| train.1[row] == class, costs)
    };
    let decide: Box<dyn Fn(f64) -> i32> = match classes[..] {
        [absent, present] => {
            let (slope, shift) = against_rest(present, balanced(absent))?;
            Box::new(move |x| if slope * x + shift > 0.0 { present } else { absent })
        }
        _ => {
            // As LIBLINEAR does it: the others of each class weigh 1.
            let lines: Vec<(f64, f64)> =
                classes.iter().map(|&class| against_rest(class, 1.0)).collect::<Result<_, _>>()?;
            let classes = classes.clone();
            Box::new(move |x| {
                let scores: Vec<f64> = lines.iter().map(|(slope, shift)| slope * x + shift).collect();
                classes[crate::prepare::first_largest(&scores)]
            })
        }
    };
    Ok(test.0.iter().zip(test.1).map(|(&x, &class)| f64::from(decide(x) == class)).collect())
}

/// Slope and shift of least (slope² + shift²)/2 + Σ cost · max(0, 1 − y(slope·x + shift))², by Newton's method with
/// halved steps. `costs` are those of absent and present rows.
fn separate(x: &[f64], present: impl Fn(usize) -> bool, costs: [f64; 2]) -> Result<(f64, f64), String> {
    let rows: Vec<(f64, f64, f64)> = x
        .iter()
        .enumerate()
        .map(|(row, &x)| if present(row) { (x, 1.0, costs[1]) } else { (x, -1.0, costs[0]) })
        .collect();
    let loss = |slope: f64, shift: f64| {
        let hinge = |&(x, y, cost): &(f64, f64, f64)| cost * (1.0 - y * (slope * x + shift)).max(0.0).powi(2);
        0.5 * (slope * slope + shift * shift) + rows.iter().map(hinge).sum::<f64>()
    };
    let (mut slope, mut shift) = (0.0, 0.0);
    let mut best = loss(slope, shift);
    for _ in 0..200 {
        // Gradient and Hessian over the rows within the margin.
        let (mut by_slope, mut by_shift) = (slope, shift);
        let (mut xx, mut x1, mut one) = (1.0, 0.0, 1.0);
        for &(x, y, cost) in &rows {
            let slack = 1.0 - y * (slope * x + shift);
            if slack > 0.0 {
                by_slope -= 2.0 * cost * slack * y * x;
                by_shift -= 2.0 * cost * slack * y;
                xx += 2.0 * cost * x * x;
                x1 += 2.0 * cost * x;
                one += 2.0 * cost;
            }
        }
        let determinant = xx * one - x1 * x1;
        let step = [(one * by_slope - x1 * by_shift) / determinant, (xx * by_shift - x1 * by_slope) / determinant];
        if !step.iter().all(|part| part.is_finite()) {
            return Err("an activation is too large for a linear classifier".into());
        }
        let tried = (0..60).map(|halvings| 0.5f64.powi(halvings));
        let tried = tried.map(|scale| (slope - scale * step[0], shift - scale * step[1]));
        let better = tried.map(|(slope, shift)| (slope, shift, loss(slope, shift))).find(|(_, _, loss)| *loss < best);
        match better {
            Some((next_slope, next_shift, loss)) => {
                (slope, shift) = (next_slope, next_shift);
                let gained = best - loss;
                best = loss;
                if gained <= 1e-14 * best {
                    break;
                }
            }
            None => break,
        }
    }
    Ok((slope, shift))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn numbers(value: &Value) -> Vec<f64> {
        value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    }

    fn classes(value: &Value) -> Vec<i32> {
        numbers(value).into_iter().map(|x| x as i32).collect()
    }

    /// `tests/golden/make.py` fits scikit-learn's LinearSVC to the same rows.
    #[test]
    fn the_linear_classifier_is_that_of_scikit_learn() {
        let golden: Value = serde_json::from_str(include_str!("../../tests/golden/linear.json")).unwrap();
        let cases = golden["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 4);
        for case in cases {
            let (x, labels) = (numbers(&case["x"]), classes(&case["labels"]));
            let train = case["train"].as_u64().unwrap() as usize;
            let hits = linear_hits((&x[..train], &labels[..train]), (&x[train..], &labels[train..])).unwrap();
            assert_eq!(hits, numbers(&case["hits"]), "{}", case["name"]);
            if let Some([slope, shift]) = case.get("line").map(numbers).as_deref() {
                let count = |present| labels[..train].iter().filter(|&&label| (label > 0) == present).count();
                let costs = [false, true].map(|present| COST * train as f64 / (2 * count(present)) as f64);
                let line = separate(&x[..train], |row| labels[row] > 0, costs).unwrap();
                assert!((line.0 - slope).abs() < 1e-6 && (line.1 - shift).abs() < 1e-6, "{line:?} {slope} {shift}");
            }
        }
    }

    #[test]
    fn bins_are_those_of_numpy() {
        let values: Vec<f64> = (0..=40).map(f64::from).collect();
        let expected: Vec<i32> = (0..=40).map(|x| (x / 2).min(19)).collect();
        assert_eq!(bins(&values), expected);
        assert_eq!(bins(&[3.0; 4]), [19; 4], "one bin, whichever");
        assert_eq!(bins(&[-f64::MAX, f64::MAX]), [0, 19]);
    }
}
