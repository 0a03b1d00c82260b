//! Standard errors compared with the scatter over many data sets, and over disjoint parts of one data set.

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

/// Holmes & Nemenman 2019, doi:10.1103/PhysRevE.100.022404: the variance of the whole is that of a part, divided by
/// their number. Random parts, each with at least 4 k rows of every class; no bootstrap, whose duplicates break
/// neighbour estimators.
#[test]
fn standard_errors_agree_with_disjoint_random_parts() {
    let (parts, size) = (25, 200);
    // The rows are independent, so consecutive ones are a random partition.
    let whole = model(parts * size, 2, 0.5, 52);
    let stated = whole.scores(&IDS, TIE_AWARE);
    let part = |part: usize| {
        let rows: Vec<usize> = (part * size..(part + 1) * size).collect();
        let part = whole.clone().reordered(&rows);
        for name in [TensorName::TaskLabels, TensorName::ConceptLabels] {
            let (dims, labels) = &part.arrays[&name];
            let width = dims.iter().product::<usize>();
            for column in 0..width {
                let present = labels.iter().skip(column).step_by(width).sum::<f64>();
                assert!(present >= 12.0 && size as f64 - present >= 12.0);
            }
        }
        part.scores(&IDS, TIE_AWARE)
    };
    let partition: Vec<_> = (0..parts).map(part).collect();
    for id in IDS {
        let values: Vec<f64> = partition.iter().map(|part| value(&part[id])).collect();
        // ICL divides by ψ(N) − ψ(3) − 1/3: 4.04 in a part, 7.26 in the whole.
        let scale = if id == "icl_excess" { 4.04 / 7.26 } else { 1.0 };
        let ratio = standard_error(&stated[id]) / scale / (standard_deviation(&values) / (parts as f64).sqrt());
        // 25 parts determine their scatter to within about 15 %.
        assert!((0.65..1.5).contains(&ratio), "{id}: {ratio}");
    }
}
