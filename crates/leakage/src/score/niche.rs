//! How well activations that seem unrelated to a concept predict it: the Niche Impurity Score.
//!
//! Source: Towards Robust Metrics for Concept Representation Evaluation, definitions 3.3-3.6,
//! doi:10.1609/aaai.v37i10.26392, with the classifier of its authors' code (scikit-learn's MLPClassifier).

use std::sync::Arc;

use ndarray::{Array1, Array2, ArrayView2, Axis, s};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::nn::adam::Epsilon;
use crate::nn::dense::Activation;
use crate::nn::mlp::Mlp;
use crate::nn::random_state::RandomState;
use crate::nn::trainer::{Recipe, Stop, Targets, fit, start_as_scikit_learn};
use crate::parallel;
use crate::point::{Outcome, ScoreValue};
use crate::prepare::Prepared;
use crate::tensor::TensorName;

use super::accuracy::auc;
use super::concept_rows::NO_CLASSES;
use super::holdout::Holdout;
use super::representation::Representation;
use super::term::{Term, mean_over_concepts};

const HIDDEN: usize = 20;
/// `random_state` of the authors' classifier, from which its weights and the order of its batches follow; a run's seed is
/// added to it.
const RANDOM_STATE: u32 = 1;
const RECIPE: Recipe = Recipe {
    epochs: 1_000,
    batch: 512,
    learning_rate: 1e-3,
    epsilon: Epsilon::Uncorrected,
    weight_decay: 1e-4,
    stop: Some(Stop { tolerance: 1e-4, patience: 10 }),
};
/// Thresholds 0, 0.05, … 0.95.
const THRESHOLDS: usize = 20;
const STEP: f64 = 0.05;

/// NIS, definition 3.6: the integral over the niche threshold β from 0 to 0.95 of the AUC with which concepts are predicted
/// from outside their niche, mean over concepts. It cannot exceed 0.95.
pub fn nis(p: &Prepared) -> Result<Outcome, String> {
    scaled(p, Representation::first(p), |nis| nis, 1.0)
}

/// NIS of the embeddings, also where there are activations.
pub fn embedding_nis(p: &Prepared) -> Result<Outcome, String> {
    scaled(p, Representation::Embeddings, |nis| nis, 1.0)
}

/// 2 (NIS − ½), as Leakage and Interpretability in Concept-Based Models plots it.
pub fn nis_scaled(p: &Prepared) -> Result<Outcome, String> {
    scaled(p, Representation::first(p), |nis| 2.0 * (nis - 0.5), 2.0)
}

fn scaled(
    p: &Prepared,
    representation: Representation,
    value: impl Fn(f64) -> f64,
    slope: f64,
) -> Result<Outcome, String> {
    let niches = niches(p, representation)?;
    let scaled = |term: &Result<Term, String>| {
        term.clone().map(|term| {
            let influence = term.influence.iter().map(|x| slope * x).collect();
            Term { value: value(term.value), excess: value(term.excess), influence, ..term }
        })
    };
    let terms: Vec<Result<Term, String>> = niches.integrals.iter().map(scaled).collect();
    let mean = mean_over_concepts(p, &p.class_weights(), &terms, |term| term.value);
    Ok(mean.map(|value| ScoreValue { curve: Some(niches.curve.clone()), ..value }))
}

struct Niches {
    /// For each concept.
    integrals: Vec<Result<Term, String>>,
    /// (β, mean AUC outside the niche).
    curve: Vec<(f64, Option<f64>)>,
}

/// One output of the classifier: a binary concept, or one class of a categorical one.
struct Output {
    concept: usize,
    /// `None` where the label is unknown.
    present: Vec<Option<bool>>,
}

fn niches(p: &Prepared, representation: Representation) -> Result<Arc<Niches>, String> {
    let name = match representation {
        Representation::Activations => "niches",
        Representation::Embeddings => "niches of embeddings",
    };
    p.try_shared(name, || {
        let holdout = Holdout::of(p, 0)?;
        let outputs = outputs(p)?;
        let (inputs, blocks) = inputs(p, representation)?;
        let of = |rows: &[usize]| inputs.select(Axis(0), rows);
        let (train, test) = (of(&holdout.train), of(&holdout.test));
        if train.iter().chain(&test).any(|x| !x.is_finite()) {
            return Err("an activation is outside the range of single precision".into());
        }
        let flags = Array2::from_shape_fn((holdout.train.len(), outputs.len()), |(row, at)| {
            outputs[at].present[holdout.train[row]].map_or(f32::NAN, |present| f32::from(u8::from(present)))
        });
        let correlations: Vec<Vec<f64>> = parallel::map(outputs.len(), &|at| {
            correlations(train.view(), &blocks, |row| outputs[at].present[holdout.train[row]])
        });
        // The authors start from one set of weights, and which one matters: see the score's help.
        let random = RandomState::new(RANDOM_STATE.wrapping_add(p.settings().seed as u32));
        let (network, _) = train_classifier(train.view(), flags, random, &|| p.pause());
        let probabilities: Vec<Vec<Array1<f32>>> = parallel::map(outputs.len(), &|at| {
            p.pause();
            outside(&network, test.view(), &blocks, &correlations[at], at)
        });
        Ok(integrate(p, &holdout, &outputs, &probabilities))
    })
}

/// The authors' classifier, scikit-learn's `MLPClassifier((20, 20), max_iter=1000, batch_size=min(512, n))`, of `inputs`
/// [n, d] and `flags` [n, m], and the loss of each of its epochs.
fn train_classifier(
    inputs: ArrayView2<f32>,
    flags: Array2<f32>,
    mut random: RandomState,
    after_each_epoch: &dyn Fn(),
) -> (Mlp, Vec<f64>) {
    let relu = (HIDDEN, Activation::Relu);
    let layers = [relu, relu, (flags.ncols(), Activation::Identity)];
    // Weights are drawn twice: those of `new` are replaced.
    let mut network = Mlp::new(inputs.ncols(), &layers, &mut ChaCha8Rng::seed_from_u64(0));
    start_as_scikit_learn(&mut network, &mut random);
    let losses =
        fit(&mut network, inputs, &Targets::Flags(flags), &RECIPE, &mut random, &mut |_, _| after_each_epoch());
    (network, losses)
}

fn outputs(p: &Prepared) -> Result<Vec<Output>, String> {
    if p.run().is_all_continuous() {
        return Err("the concepts are continuous and have no classes to predict".into());
    }
    p.column(TensorName::ConceptLabels).ok_or("there are no concept labels")?;
    let mut outputs = Vec::new();
    for (concept, declared) in p.run().concepts.iter().enumerate() {
        let Some(labels) = p.concept_classes(concept) else { continue };
        if declared.is_categorical() {
            let occurring = (0..declared.cardinality as i32).filter(|class| labels.contains(class));
            outputs.extend(occurring.map(|class| Output {
                concept,
                present: labels.iter().map(|&c| (c >= 0).then_some(c == class)).collect(),
            }));
        } else {
            outputs.push(Output { concept, present: labels.iter().map(|&c| (c >= 0).then_some(c > 0)).collect() });
        }
    }
    if outputs.is_empty() { Err("no concept has a known label".into()) } else { Ok(outputs) }
}

/// All activations or embeddings [n, d], and the columns of each learnt concept.
fn inputs(p: &Prepared, representation: Representation) -> Result<(Array2<f32>, Vec<std::ops::Range<usize>>), String> {
    let (column, blocks) = match representation.latents(p) {
        Some(latents) => (latents, (0..latents.width()).map(|at| at..at + 1).collect()),
        None => {
            let blocks = (0..p.concepts()).map(|i| Ok(representation.columns(p, i)?.1));
            (representation.columns(p, 0)?.0, blocks.collect::<Result<_, String>>()?)
        }
    };
    let values = column.block(0..column.width()).into_iter().map(|x| x as f32).collect();
    let inputs = Array2::from_shape_vec((p.rows(), column.width()), values).map_err(|e| e.to_string())?;
    Ok((inputs, blocks))
}

/// |Pearson correlation| of each concept with an output; of a vector the largest over its coordinates (definition 3.3). The
/// authors' code takes the absolute value of the largest signed one, so that a vector whose only correlated coordinate
/// falls with the concept leaves its niche at β near 0. A column that does not vary has none and is in no niche.
fn correlations(
    train: ArrayView2<f32>,
    blocks: &[std::ops::Range<usize>],
    present: impl Fn(usize) -> Option<bool>,
) -> Vec<f64> {
    let known: Vec<usize> = (0..train.nrows()).filter(|&row| present(row).is_some()).collect();
    let y: Vec<f64> =
        known.iter().filter_map(|&row| present(row)).map(|present| f64::from(u8::from(present))).collect();
    let column = |at: usize| {
        let x: Vec<f64> = known.iter().map(|&row| f64::from(train[[row, at]])).collect();
        pearson(&x, &y)
    };
    let of_block = |block: &std::ops::Range<usize>| {
        block.clone().filter_map(column).map(f64::abs).max_by(f64::total_cmp).unwrap_or(0.0)
    };
    blocks.iter().map(of_block).collect()
}

fn pearson(x: &[f64], y: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_x, mean_y) = (mean(x), mean(y));
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (x, y) in x.iter().zip(y) {
        let (x, y) = (x - mean_x, y - mean_y);
        xx += x * x;
        yy += y * y;
        xy += x * y;
    }
    let correlation = xy / (xx * yy).sqrt();
    correlation.is_finite().then_some(correlation)
}

/// Probability of output `at` for each test row at each threshold, with the concepts of its niche set to 0. As the
/// threshold rises concepts leave the niche, and their share of the first layer is added.
fn outside(
    network: &Mlp,
    test: ArrayView2<f32>,
    blocks: &[std::ops::Range<usize>],
    correlations: &[f64],
    at: usize,
) -> Vec<Array1<f32>> {
    let layers: Vec<_> = network.parameters().collect();
    let [first, second, last] = layers[..] else { unreachable!("the classifier has three layers") };
    let mut sums = Array2::zeros((test.nrows(), HIDDEN)) + &first.bias;
    let mut left = vec![false; blocks.len()];
    let mut probabilities = Vec::with_capacity(THRESHOLDS);
    for threshold in (0..THRESHOLDS).map(|at| at as f64 * STEP) {
        for (i, block) in blocks.iter().enumerate() {
            if !left[i] && correlations[i] <= threshold {
                left[i] = true;
                sums += &test.slice(s![.., block.clone()]).dot(&first.weights.slice(s![block.clone(), ..]));
            }
        }
        let relu = |mut values: Array2<f32>| {
            Activation::Relu.apply(&mut values);
            values
        };
        let hidden = relu(relu(sums.clone()).dot(&second.weights) + &second.bias);
        let logits = hidden.dot(&last.weights.column(at)) + last.bias[at];
        probabilities.push(logits.mapv(crate::nn::dense::sigmoid));
    }
    probabilities
}

/// AUC of every output at every threshold, through a softmax across outputs as in the authors' code, by trapezoids.
fn integrate(p: &Prepared, holdout: &Holdout, outputs: &[Output], probabilities: &[Vec<Array1<f32>>]) -> Niches {
    let of_threshold = |beta: usize| -> Vec<Result<Term, String>> {
        let rows = holdout.test.len();
        let total: Vec<f64> =
            (0..rows).map(|row| probabilities.iter().map(|column| f64::from(column[beta][row]).exp()).sum()).collect();
        let term = |(output, column): (&Output, &Vec<Array1<f32>>)| {
            let shares: Vec<f64> =
                column[beta].iter().zip(&total).map(|(&share, total)| f64::from(share).exp() / total).collect();
            let present: Vec<Option<bool>> = holdout.test.iter().map(|&row| output.present[row]).collect();
            auc(&shares, &present).map_err(|why| format!("labels: {why} among the {rows} rows to test on"))
        };
        outputs.iter().zip(probabilities).map(term).collect()
    };
    let terms: Vec<Vec<Result<Term, String>>> = parallel::map(THRESHOLDS, &of_threshold);
    // Mean over the outputs of a concept.
    let known: Vec<Result<(), String>> =
        (0..p.concepts()).map(|i| p.known(&[i]).map(|_| ()).map_err(|why| format!("labels: {why}"))).collect();
    let of_concept = |beta: usize, i: usize| -> Result<Term, String> {
        known[i].clone()?;
        if p.run().is_continuous(i) {
            return Err(NO_CLASSES.into());
        }
        let own: Vec<&Term> = outputs
            .iter()
            .zip(&terms[beta])
            .filter(|(output, _)| output.concept == i)
            .map(|(_, term)| term.as_ref().map_err(String::clone))
            .collect::<Result<_, _>>()?;
        weighted(own.iter().map(|term| (1.0 / own.len() as f64, *term)), holdout.test.len())
    };
    let by_threshold: Vec<Vec<Result<Term, String>>> =
        (0..THRESHOLDS).map(|beta| (0..p.concepts()).map(|i| of_concept(beta, i)).collect()).collect();
    let integral = |i: usize| {
        let mut weights = Vec::new();
        for (beta, terms) in by_threshold.iter().enumerate() {
            let end = beta == 0 || beta == THRESHOLDS - 1;
            weights.push((if end { STEP / 2.0 } else { STEP }, terms[i].as_ref().map_err(String::clone)?));
        }
        weighted(weights.into_iter(), holdout.test.len()).map(|term| holdout.spread(&term))
    };
    let of_classes = (0..p.concepts()).filter(|&i| !p.run().is_continuous(i)).count();
    let mean = |terms: &Vec<Result<Term, String>>| {
        // Over the concepts that the score is over.
        let values = || terms.iter().flatten().map(|term| term.value);
        (2 * values().count() >= of_classes).then(|| values().sum::<f64>() / values().count() as f64)
    };
    let curve = by_threshold.iter().enumerate().map(|(beta, terms)| (beta as f64 * STEP, mean(terms))).collect();
    Niches { integrals: (0..p.concepts()).map(integral).collect(), curve }
}

fn weighted<'t>(terms: impl Iterator<Item = (f64, &'t Term)>, rows: usize) -> Result<Term, String> {
    let (mut value, mut influence) = (0.0, vec![0.0; rows]);
    let mut any = false;
    for (weight, term) in terms {
        any = true;
        value += weight * term.value;
        influence.iter_mut().zip(&term.influence).for_each(|(sum, x)| *sum += weight * x);
    }
    if any { Ok(Term { value, excess: value, influence, draw_variance: 0.0 }) } else { Err("it has no class".into()) }
}

#[cfg(test)]
mod tests {
    use ndarray::array;
    use serde_json::Value;

    use super::*;

    const ROWS: usize = 1_200;
    const CONCEPTS: usize = 5;

    /// The rows of `tests/golden/classifier.py`.
    fn rows(seed: usize) -> (Array2<f32>, Array2<f32>) {
        const PRIMES: [f64; 2 * CONCEPTS] = [2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0, 23.0, 29.0];
        let (mut activations, mut flags) = (Array2::zeros((ROWS, CONCEPTS)), Array2::zeros((ROWS, CONCEPTS)));
        for row in 0..ROWS {
            let parts = PRIMES.map(|prime| ((seed * ROWS + row + 1) as f64 * prime.sqrt()) % 1.0);
            let concepts: Vec<f64> = parts[..CONCEPTS].iter().map(|&part| f64::from(u8::from(part < 0.5))).collect();
            for i in 0..CONCEPTS {
                let others = (0..CONCEPTS).filter(|&j| j != i).fold(0.0, |sum, j| 2.0 * sum + concepts[j]);
                let place = parts[CONCEPTS + i];
                let place = if seed % 2 == 1 { (others + place) / 16.0 } else { place };
                activations[[row, i]] = (0.05 * place + 0.95 * concepts[i]) as f32;
                flags[[row, i]] = concepts[i] as f32;
            }
        }
        (activations, flags)
    }

    #[test]
    fn a_vector_correlates_by_its_coordinate_of_largest_absolute_correlation() {
        let train = array![[0.0, 0.2, 5.0], [-1.0, 0.1, 5.0], [0.0, 0.3, 5.0], [-1.0, 0.4, 5.0]];
        let present = |row: usize| Some(row % 2 == 1);
        // The first coordinate has correlation −1, the second a small one, the third does not vary.
        let found = correlations(train.view(), &[0..3, 1..3, 2..3], present);
        let r = pearson(&[0.2, 0.1, 0.3, 0.4], &[0.0, 1.0, 0.0, 1.0]).unwrap();
        assert!((found[0] - 1.0).abs() < 1e-6 && (found[1] - r.abs()).abs() < 1e-6, "{found:?}, {r}");
        assert_eq!(found[2], 0.0);
    }

    /// Losses by scikit-learn 1.9, in double precision, of 20 seeds.
    #[test]
    fn every_epoch_has_the_loss_of_scikit_learn() {
        let golden: Value = serde_json::from_str(include_str!("../../tests/golden/classifier.json")).unwrap();
        assert!(golden["made_with"]["scikit-learn"].as_str().unwrap().starts_with("1.9."));
        let curves = golden["losses"].as_array().unwrap();
        assert_eq!(curves.len(), 20);
        parallel::map(curves.len(), &|seed| {
            let expected = &curves[seed];
            let (activations, flags) = rows(seed);
            let (_, losses) = train_classifier(activations.view(), flags, RandomState::new(seed as u32), &|| ());
            let expected: Vec<f64> = expected.as_array().unwrap().iter().map(|loss| loss.as_f64().unwrap()).collect();
            // Near the end a loss that falls by 1e-4 an epoch may do so an epoch earlier in single precision.
            assert!(losses.len().abs_diff(expected.len()) <= 2, "{seed}: {} and {}", losses.len(), expected.len());
            for (epoch, (loss, expected)) in losses.iter().zip(&expected).enumerate() {
                assert!((loss - expected).abs() < 1e-3, "seed {seed}, epoch {epoch}: {loss}, expected {expected}");
            }
        });
    }
}
