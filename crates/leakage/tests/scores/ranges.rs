//! Values stay in the range that the catalogue states, whatever a model does.

use leakage::score::catalogue::{CATALOGUE, Score};
use proptest::prelude::*;

use super::*;

/// What is wrong with a model's tensors.
#[derive(Clone, Debug)]
struct Wreck {
    seed: u64,
    rows: usize,
    concepts: usize,
    leak: f64,
    /// Power of ten by which activations and embeddings are scaled.
    scale: i32,
    /// Activations beyond this are cut off: many are equal.
    saturation: f64,
    /// Share of task labels and predictions that are turned around.
    wrong: f64,
    /// Concept 0 is the same in nearly all rows.
    rare: bool,
}

fn wrecks() -> impl Strategy<Value = Wreck> {
    let leak = prop_oneof![Just(0.0), 0.0..1.0, Just(30.0)];
    let wrong = prop_oneof![Just(0.0), 0.0..1.0, Just(1.0)];
    (any::<u64>(), 40..240_usize, 2..5_usize, leak, -8..8_i32, 0.1..8.0, wrong, any::<bool>()).prop_map(
        |(seed, rows, concepts, leak, scale, saturation, wrong, rare)| Wreck {
            seed,
            rows,
            concepts,
            leak,
            scale,
            saturation,
            wrong,
            rare,
        },
    )
}

impl Wreck {
    fn columns(&self) -> Columns {
        let scale = 10.0_f64.powi(self.scale);
        let turned: Vec<bool> =
            (0..self.rows).scan(random(self.seed), |random, _| Some(coin(self.wrong, random) == 1.0)).collect();
        let cut = |x: f64| x.clamp(-self.saturation, self.saturation) * scale;
        let mut columns = with_head_and_features(model(self.rows, self.concepts, self.leak, self.seed))
            .changed(TensorName::ConceptActivations, |_, _, x| cut(x))
            .changed(TensorName::ConceptEmbeddings, |_, _, x| cut(x))
            .changed(TensorName::TaskLabels, |row, _, y| if turned[row] { 1.0 - y } else { y })
            .changed(TensorName::TaskLogits, |row, _, z| if turned[row] { -z } else { z });
        if self.rare {
            columns =
                columns.changed(
                    TensorName::ConceptLabels,
                    |row, at, c| {
                        if at == 0 { f64::from(u8::from(row < 3)) } else { c }
                    },
                );
        }
        columns
    }
}

/// How far noise may take an estimate beyond its range: none where a value is counted, not estimated.
fn slack(score: &Score, standard_error: Option<f64>, rows: usize) -> f64 {
    let helpers = trains_helpers(score.id);
    let estimated =
        score.range.0 == -1.0 || helpers || ["leakage", "embedding"].iter().any(|kind| score.family.contains(kind));
    if !estimated {
        return 1e-9;
    }
    let of_its_tests = if helpers { chance_auc(rows / 5) } else { 0.0 };
    0.1 + 4.0 * (standard_error.unwrap_or(0.0) + of_its_tests)
}

/// Standard deviation of the AUC of a predictor that knows nothing, on `rows` rows of which half are positive. The papers
/// take an AUC as at least a half; that of a helper on the few rows it was not trained on can be 0, and an OIS, whose
/// entries are differences of two, then reaches 2.
fn chance_auc(rows: usize) -> f64 {
    ((rows + 1) as f64 / (3 * rows * rows) as f64).sqrt()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_value_leaves_the_range_of_its_row(wreck in wrecks()) {
        let outcomes = wreck.columns().available(TIE_AWARE);
        let of_classes = || CATALOGUE.iter().filter(|score| is_of_concepts(score));
        prop_assert_eq!(outcomes.len(), of_classes().count());
        for score in of_classes() {
            let Some(value) = outcomes[score.id].value() else {
                prop_assert!(!why(&outcomes[score.id]).is_empty(), "{}", score.id);
                continue;
            };
            let slack = slack(score, value.standard_error, wreck.rows);
            prop_assert!(
                value.value >= score.range.0 - slack && value.value <= score.range.1 + slack,
                "{} is {} with a slack of {slack}", score.id, value.value,
            );
            prop_assert!(value.standard_error.is_none_or(|error| error >= 0.0 && error.is_finite()), "{}", score.id);
            for cell in value.per_concept.iter().flatten().chain(value.matrix.iter().flatten().flatten()).flatten() {
                prop_assert!(cell.is_finite(), "{}: {cell}", score.id);
            }
        }
    }
}
