//! The accuracy of random concepts, where the law of activations and task gives it.

use super::*;

/// Activations [n, d] and a task that follows from them, with `k` concepts of prevalence one half.
fn columns(activations: &[Vec<f64>], k: usize, task: impl Fn(usize) -> f64) -> Columns {
    let (rows, width) = (activations.len(), activations[0].len());
    let labels = (0..rows * k).map(|at| ((at / k + at % k) % 2) as f64).collect();
    let mut columns = Columns::new(rows, k)
        .with(TensorName::ConceptActivations, &[width], activations.concat())
        .with(TensorName::ConceptLabels, &[k], labels)
        .with(TensorName::TaskLabels, &[], (0..rows).map(task).collect());
    columns.fields.latents = (width != k).then_some(width as u32);
    columns
}

fn normal(rows: usize, width: usize, seed: u64) -> Vec<Vec<f64>> {
    gaussians(rows * width, &mut random(seed)).chunks(width).map(<[f64]>::to_vec).collect()
}

/// The score at several seeds of the directions.
fn at_seeds(columns: &Columns, seeds: u64) -> Vec<Outcome> {
    let at = |seed| columns.scores(&["random_concept_baseline"], Settings { seed, ..TIE_AWARE });
    (0..seeds).map(|seed| at(seed).remove("random_concept_baseline").unwrap()).collect()
}

#[test]
fn a_task_that_activations_say_nothing_about_is_guessed() {
    let activations = normal(1_200, 6, 1);
    for (classes, expected) in [(2, 0.5), (3, 1.0 / 3.0)] {
        let baseline = columns(&activations, 6, |row| (row % classes) as f64).score("random_concept_baseline");
        assert!((value(&baseline) - expected).abs() < 3.0 * standard_error(&baseline), "{classes}: {baseline:?}");
    }
}

#[test]
fn one_random_concept_is_enough_for_a_task_that_every_direction_shows() {
    let noise = normal(800, 5, 2);
    let row = |(row, noise): (usize, &Vec<f64>)| noise.iter().map(|z| (row % 2) as f64 + 1e-6 * z).collect();
    let activations: Vec<Vec<f64>> = noise.iter().enumerate().map(row).collect();
    assert!(columns(&activations, 1, |row| (row % 2) as f64).value("random_concept_baseline") > 0.99);
    // The same of embeddings, which are read where there are any.
    let unrelated = normal(800, 1, 3);
    let embedded = columns(&unrelated, 1, |row| (row % 2) as f64);
    assert!((embedded.value("random_concept_baseline") - 0.5).abs() < 0.1);
    let embedded = embedded.with(TensorName::ConceptEmbeddings, &[1, 5], activations.concat());
    assert!(embedded.value("random_concept_baseline") > 0.99);
}

/// A direction at the angle θ from the axis, uniform in [0, π/2], is on the side of the task in 1 - θ/π of the rows.
#[test]
fn a_random_direction_in_the_plane_reads_an_axis_in_three_of_four_rows() {
    let activations = normal(1_000, 2, 4);
    let columns = columns(&activations, 1, |row| f64::from(u8::from(activations[row][0] > 0.0)));
    let outcomes = at_seeds(&columns, 30);
    let values: Vec<f64> = outcomes.iter().map(value).collect();
    let scatter = standard_deviation(&values);
    assert!((mean(&values) - 0.75).abs() < 3.0 * scatter / 30f64.sqrt(), "{values:?}");
    // The error knows of the directions: of four their mean scatters by 0.144 / 2.
    let errors = mean(&outcomes.iter().map(|outcome| standard_error(outcome).powi(2)).collect::<Vec<_>>()).sqrt();
    assert!((0.6..1.5).contains(&(errors / scatter)), "{errors} {scatter}");
}

#[test]
fn more_random_concepts_read_more() {
    let activations = normal(1_000, 8, 5);
    let of = |k| {
        let task = |row: usize| f64::from(u8::from(activations[row][0] > 0.0));
        columns(&activations, k, task).value("random_concept_baseline")
    };
    let [one, four, eight] = [1, 4, 8].map(of);
    assert!(one + 0.03 < four && four < eight && eight > 0.75, "{one} {four} {eight}");
}

#[test]
fn a_task_of_too_few_rows_or_of_numbers_has_no_baseline() {
    let activations = normal(60, 2, 6);
    let one = columns(&activations, 2, |row| f64::from(u8::from(row < 3)));
    assert_eq!(one.why("random_concept_baseline"), "task_labels: fewer than two classes have 4 rows");
    let numbers = columns(&activations, 2, |row| row as f64).continuous_labels(false, true);
    assert_eq!(numbers.why("random_concept_baseline"), "the task labels are not classes");
}
