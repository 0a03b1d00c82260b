//! How well random concepts would do: the task accuracy of heads that read as many of them as there are concepts.
//!
//! Source: VLG-CBM: Training Concept Bottleneck Models with Vision-Language Guidance (Srivastava, Yan & Weng 2024,
//! arXiv 2408.01432), Section 4: a linear head on enough random directions reaches the accuracy of the backbone. There a
//! random concept is a number; here it has the values that the labels have, as a true concept.

use ndarray::Array1;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use crate::point::Outcome;
use crate::prepare::{KnownRows, Prepared};
use crate::sample::priority::priority;
use crate::tensor::TensorName;

use super::accuracy::mean_over_classes;
use super::joint::folds::{FOLDS, Folds};
use super::labels::task_classes;
use super::matching::midranks;
use super::reference::{encoded, hits, standardised_columns};

/// Makes directions independent of other random numbers.
const STREAM: u64 = 0x7261_6e64_6f6d_0000;

/// Balanced accuracy of linear heads on random concepts, each fold read from other directions.
pub fn baseline(p: &Prepared) -> Result<Outcome, String> {
    let folds = Folds::new(&task_classes(p)?, p.ids(), p.settings().seed);
    let classes = &folds.task;
    if classes.classes < 2 {
        return Err(format!("task_labels: fewer than two classes have {FOLDS} rows"));
    }
    let column = p.column(TensorName::ConceptEmbeddings).or_else(|| p.column(TensorName::ConceptActivations));
    let representation = standardised_columns(column.ok_or("there are no concept activations or embeddings")?)?;
    let (mut all, mut of_folds) = (vec![0.0; folds.rows.len()], Vec::new());
    for fold in 0..FOLDS {
        let mut rng = ChaCha8Rng::seed_from_u64(priority(p.settings().seed ^ STREAM, fold as u64));
        let random = |i: usize| {
            p.pause();
            let direction: Array1<f32> = (0..representation.ncols()).map(|_| rng.sample(StandardNormal)).collect();
            let projection: Vec<f64> = representation.dot(&direction).iter().map(|&x| f64::from(x)).collect();
            Ok(as_frequent(&projection, &known_labels(p, i)?))
        };
        let inputs = encoded(p, random)?.select(ndarray::Axis(0), &folds.rows);
        let (train, test) = (folds.without(&[fold]), folds.within(&[fold]));
        let hits = hits(p, &inputs, (&classes.labels, classes.classes), &[], &train, &test).as_trained;
        let labels: Vec<i32> = test.iter().map(|&at| classes.labels[at] as i32).collect();
        of_folds.push(mean_over_classes(&hits, &labels).value);
        test.iter().zip(hits).for_each(|(&at, hit)| all[at] = hit);
    }
    let labels: Vec<i32> = classes.labels.iter().map(|&class| class as i32).collect();
    let mut term = mean_over_classes(&all, &labels);
    // Heads of different folds differ by their rows and by their directions; the influences have the rows alone.
    let mean = of_folds.iter().sum::<f64>() / FOLDS as f64;
    let scatter = of_folds.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (FOLDS * (FOLDS - 1)) as f64;
    term.draw_variance += (scatter - term.standard_error().powi(2)).max(0.0);
    let mut read = vec![false; p.rows()];
    folds.rows.iter().for_each(|&row| read[row] = true);
    Ok(term.spread(&KnownRows::those(&read)).outcome())
}

/// The labels of a concept that are known, in ascending order.
fn known_labels(p: &Prepared, i: usize) -> Result<Vec<f64>, String> {
    let mut labels = p.concept_numbers(i).ok_or("there are no concept labels")?;
    labels.retain(|label| if p.run().is_continuous(i) { !label.is_nan() } else { *label >= 0.0 });
    labels.sort_unstable_by(f64::total_cmp);
    match labels.len() {
        0 => Err(format!("no label of concept '{}' is known", p.run().concepts[i].name)),
        _ => Ok(labels),
    }
}

/// The value for each row that has the rank of its projection among `ascending`; equal projections have equal values.
fn as_frequent(projection: &[f64], ascending: &[f64]) -> Vec<f64> {
    let share = ascending.len() as f64 / projection.len() as f64;
    midranks(projection).iter().map(|rank| ascending[((rank - 0.5) * share) as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_concepts_are_as_frequent_as_the_labels() {
        let labels = [0.0, 0.0, 0.0, 1.0];
        assert_eq!(as_frequent(&[0.3, -1.0, 9.0, 0.2], &labels), [0.0, 0.0, 1.0, 0.0]);
        // Half of the labels are unknown.
        assert_eq!(as_frequent(&[4.0, 3.0, 2.0, 1.0], &[0.0, 2.0]), [2.0, 2.0, 0.0, 0.0]);
        assert_eq!(as_frequent(&[1.0; 4], &labels), [0.0; 4], "rows that no direction distinguishes");
    }
}
