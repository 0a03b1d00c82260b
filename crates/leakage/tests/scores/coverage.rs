//! Standard errors compared with the scatter over many data sets.

use leakage::score::catalogue::find;

use super::*;

const IDS: [&str; 15] = [
    "ctl_excess",
    "icl_excess",
    "icl_label_excess",
    "embedding_ct",
    "task_accuracy",
    "concept_accuracy",
    "concept_auc",
    "concept_f1",
    "intervened_task_accuracy",
    "alignment_leakage",
    "concept_average_precision",
    "sparsity",
    "precision",
    "clarity",
    "clarity_dense",
];

/// Fraction of data sets whose interval of ±1.96 standard errors contains the mean over all of them, for each of `IDS`.
fn coverage(sets: u64, rows: usize, k: usize, leak: f64) -> Vec<(&'static str, f64, f64)> {
    let outcomes: Vec<_> = (0..sets).map(|seed| model(rows, k, leak, 7000 + seed).scores(&IDS, TIE_AWARE)).collect();
    let of = |id: &'static str| {
        let values: Vec<f64> = outcomes.iter().map(|set| value(&set[id])).collect();
        let errors: Vec<f64> = outcomes.iter().map(|set| standard_error(&set[id])).collect();
        let truth = mean(&values);
        let inside = values.iter().zip(&errors).filter(|(value, error)| (*value - truth).abs() <= 1.96 * **error);
        (id, inside.count() as f64 / sets as f64, mean(&errors) / standard_deviation(&values))
    };
    IDS.into_iter().map(of).collect()
}

/// Intervals of plain means cover 95 %, those of estimates from neighbours a little less: `Sum::standard_error` states
/// the figures that these bounds check.
#[test]
fn intervals_of_two_standard_errors_contain_the_expected_value() {
    for (rows, k, leak) in [(400, 2, 0.0), (400, 2, 0.8), (600, 3, 0.4)] {
        for (id, covered, ratio) in coverage(200, rows, k, leak) {
            let from_neighbours = find(id).expect("the catalogue has it").family.contains("leakage");
            let (least, ratios) = if from_neighbours { (0.88, 0.75..1.05) } else { (0.91, 0.9..1.12) };
            let what = format!("{id}, {rows} rows, leak {leak}: covers {covered}, stated {ratio} of the scatter");
            assert!((least..=0.985).contains(&covered) && ratios.contains(&ratio), "{what}");
        }
    }
}
