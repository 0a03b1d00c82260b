//! The permutation tests of conditional leakage: how often they reject where there is nothing, and where there is a leak.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use leakage::point::Significance;
use leakage::prepare::Prepared;
use leakage::score::test;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::*;

fn tests_of(columns: &Columns, ids: &[&str], settings: Settings) -> BTreeMap<String, Significance> {
    let (sample, run) = (columns.sample(), columns.run());
    let prepared = Prepared::new(&sample, &run, settings);
    let found = test(&prepared, |score| ids.contains(&score.id), |_, _, _| ControlFlow::Continue(()));
    found.unwrap().into_iter().map(|(score, found)| (score.id.to_owned(), found)).collect()
}

/// Whether a score is above 0 at 5 %; not where it is undefined.
fn is_rejected(columns: &Columns, id: &str) -> bool {
    tests_of(columns, &[id], TIE_AWARE)[id].p_value.is_some_and(|p| p <= 0.05)
}

/// Concepts, activations, and a task, with what a law needs.
struct Law {
    name: &'static str,
    rows: usize,
    kind: ActivationKind,
    /// c from y.
    concept: fn(usize, &mut ChaCha8Rng) -> f64,
    classes: usize,
    /// ĉ from c.
    activation: fn(f64, &mut ChaCha8Rng) -> f64,
}

fn normal(random: &mut ChaCha8Rng) -> f64 {
    gaussians(1, random)[0]
}

fn logit(c: f64, random: &mut ChaCha8Rng) -> f64 {
    3.0 * c + normal(random)
}

const LOGITS: Law = Law {
    name: "logits",
    rows: 80,
    kind: ActivationKind::Logit,
    concept: |y, random| if coin(0.9, random) == 1.0 { (y % 2) as f64 } else { ((y + 1) % 2) as f64 },
    classes: 2,
    activation: logit,
};

/// Laws under which the activation tells of the task through its concept alone.
const LAWS: [Law; 10] = [
    LOGITS,
    Law { name: "four classes", classes: 4, ..LOGITS },
    Law { name: "few rows of each class", classes: 16, ..LOGITS },
    Law {
        name: "saturated sigmoids",
        activation: |c, random| f64::from((1.0 / (1.0 + (-12.0 * (c - 0.4) - 9.0 * normal(random)).exp())) as f32),
        kind: ActivationKind::Probability,
        ..LOGITS
    },
    Law { name: "rounded values", activation: |c, random| (2.0 * logit(c, random)).round() / 2.0, ..LOGITS },
    Law {
        name: "hard activations",
        activation: |c, random| coin(0.25 + 0.5 * c, random),
        kind: ActivationKind::Hard,
        ..LOGITS
    },
    Law { name: "a rare concept", concept: |_, random| coin(0.08, random), ..LOGITS },
    Law { name: "a rare class", classes: 12, concept: |y, _| f64::from(u8::from(y > 0)), ..LOGITS },
    Law {
        name: "many strata",
        concept: |y, random| f64::from(random.random_range(0..8_u8)) + (y % 2) as f64,
        ..LOGITS
    },
    Law { name: "heavy tails", activation: |c, random| c + normal(random) / normal(random).abs(), ..LOGITS },
];

impl Law {
    fn columns(&self, k: usize, seed: u64) -> Columns {
        let mut random = random(seed);
        let task: Vec<usize> = (0..self.rows).map(|_| random.random_range(0..self.classes)).collect();
        let labels: Vec<f64> = task.iter().flat_map(|&y| vec![y; k]).map(|y| (self.concept)(y, &mut random)).collect();
        let activations: Vec<f64> = labels.iter().map(|&c| (self.activation)(c, &mut random)).collect();
        let classes = labels.iter().copied().fold(0.0, f64::max) as u32 + 1;
        // Several classes have as many activations, the first of which tells the class.
        let wide = if classes > 2 { classes as usize } else { 1 };
        let activations = activations.iter().flat_map(|&x| (0..wide).map(move |at| if at == 0 { x } else { 0.0 }));
        let columns = Columns::new(self.rows, k).kind(self.kind);
        let columns = if classes > 2 { columns.cardinalities(&vec![classes; k]) } else { columns };
        columns
            .with(TensorName::ConceptActivations, &[k * wide], activations.collect())
            .with(TensorName::ConceptLabels, &[k], labels)
            .with(TensorName::TaskLabels, &[], task.iter().map(|&y| y as f64).collect())
    }
}

/// Rejections at 5 % among this many samples, where more than the bounds happen once in 1,000 times for an exact test.
const SAMPLES: u64 = 200;
const LEAST: usize = 2;
const MOST: usize = 21;

#[test]
fn a_test_of_one_concept_rejects_as_often_as_it_says_under_ten_laws() {
    for law in LAWS {
        let rejected = (0..SAMPLES).filter(|&seed| is_rejected(&law.columns(1, seed), "ctl_conditional")).count();
        println!("{}: {rejected} of {SAMPLES}", law.name);
        // Two classes and two activations leave few different values: such a test may reject less.
        let least = if law.kind == ActivationKind::Hard { 1 } else { LEAST };
        assert!((least..=MOST).contains(&rejected), "{}: {rejected} of {SAMPLES}", law.name);
    }
}

#[test]
fn tests_of_several_concepts_and_of_pairs_do_not_reject_more_often() {
    for law in LAWS {
        let mut rejected = [0; 2];
        let mut found = 0;
        for seed in 0..SAMPLES {
            let tests = tests_of(&law.columns(3, seed), &["ctl_conditional", "icl_conditional"], TIE_AWARE);
            for (rejected, id) in rejected.iter_mut().zip(["ctl_conditional", "icl_conditional"]) {
                *rejected += usize::from(tests[id].p_value.is_some_and(|p| p <= 0.05));
            }
            let rates = tests["icl_conditional"].matrix_q.iter().flatten().flatten().flatten();
            found += usize::from(rates.into_iter().any(|q| *q <= 0.05));
        }
        println!("{}: {rejected:?}, pairs in {found} of {SAMPLES}", law.name);
        assert!(rejected.iter().all(|&rejected| rejected <= MOST), "{}: {rejected:?}", law.name);
        // Those of pairs are approximate: of 80 rows the normal tail is too light.
        assert!(found <= 3 * MOST, "{}: pairs in {found}", law.name);
    }
}

#[test]
fn residuals_that_concepts_share_do_not_reject_more_often() {
    let rejected = |seed: &u64| {
        let columns = LOGITS.columns(8, *seed);
        let shared = gaussians(LOGITS.rows, &mut random(seed + 1_000_000));
        let changed = columns.changed(TensorName::ConceptActivations, |row, _, x| 0.3 * x + shared[row]);
        is_rejected(&changed, "ctl_conditional")
    };
    let rejected = (0..SAMPLES).filter(rejected).count();
    println!("{rejected} of {SAMPLES}");
    assert!(rejected <= MOST, "{rejected} of {SAMPLES}");
}

#[test]
fn one_leak_among_many_concepts_is_found() {
    for k in [20, 112] {
        let columns = LOGITS.columns(k, 7);
        let task = columns.arrays[&TensorName::TaskLabels].1.clone();
        let leak = columns
            .changed(TensorName::ConceptActivations, |row, i, x| if i == k / 2 { x + 2.5 * task[row] } else { x });
        let found = &tests_of(&leak, &["ctl_conditional"], TIE_AWARE)["ctl_conditional"];
        assert_eq!(found.p_value, Some(0.005), "{k} concepts");
        let rates = found.per_concept_q.as_ref().unwrap();
        // Of 80 rows the normal tail is too light for the others, of which there are many.
        assert!(rates.iter().all(|rate| rate.unwrap() >= rates[k / 2].unwrap()), "{rates:?}");
    }
}

#[test]
fn a_leak_is_found_and_named() {
    let columns = model(400, 3, 0.0, 1);
    let leak = columns.arrays[&TensorName::TaskLabels].1.clone();
    let first =
        columns.changed(TensorName::ConceptActivations, |row, i, x| if i == 0 { x + 3.0 * leak[row] } else { x });
    let ids = ["ctl_conditional", "icl_conditional", "embedding_ct_conditional", "embedding_ic_conditional"];
    let tests = tests_of(&first, &ids, TIE_AWARE);
    let of_task = &tests["ctl_conditional"];
    assert_eq!(of_task.p_value, Some(0.005), "the least of 199 orders");
    let rates = of_task.per_concept_q.as_ref().unwrap();
    assert!(rates[0].unwrap() < 1e-6 && rates[1].unwrap() > 0.01 && rates[2].unwrap() > 0.01, "{rates:?}");
    assert!(of_task.matrix_q.is_none());
    for id in ["icl_conditional", "embedding_ic_conditional"] {
        let rates = tests[id].matrix_q.as_ref().unwrap();
        assert!((0..3).all(|i| rates[i].len() == 3 && rates[i][i].is_none()), "{id}");
        let defined = rates.iter().flatten().flatten();
        assert_eq!(defined.clone().count(), 6, "{id}");
        assert!(defined.into_iter().all(|q| (0.0..=1.0).contains(q)), "{id}");
        assert_eq!(tests[id].per_concept_q.as_ref().unwrap().len(), 3, "{id}");
    }
}

#[test]
fn the_number_of_threads_and_what_was_tested_before_do_not_matter() {
    let columns = model(150, 4, 0.3, 2);
    let ids = ["ctl_conditional", "icl_conditional", "embedding_ct_conditional_positive", "embedding_ic_conditional"];
    let by = |threads: usize, ids: &[&str]| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| tests_of(&columns, ids, TIE_AWARE))
    };
    let all = by(1, &ids);
    assert_eq!(all.len(), ids.len());
    assert_eq!(all, by(4, &ids));
    for id in ids {
        assert_eq!(by(2, &[id])[id], all[id], "{id}");
    }
    let other = tests_of(&columns, &ids, Settings { seed: 1, ..TIE_AWARE });
    assert_ne!(other, all, "another seed draws other orders");
}

#[test]
fn numbers_and_the_published_kind_are_tested_too() {
    let columns = model(120, 2, 0.0, 3);
    let noise = gaussians(120, &mut random(4));
    let regression = columns.clone().changed(TensorName::TaskLabels, |row, _, y| y + noise[row]);
    let regression = regression.continuous_labels(false, true);
    let numbers = columns.clone().changed(TensorName::ConceptLabels, |row, i, c| c + 0.1 * noise[(row + i) % 120]);
    let numbers = numbers.continuous_labels(true, false).kind(ActivationKind::Continuous);
    let published = Settings { repeats: 2, ..PUBLISHED };
    for (columns, settings) in [(&regression, TIE_AWARE), (&numbers, TIE_AWARE), (&columns, published)] {
        let found = tests_of(columns, &["ctl_conditional", "icl_conditional"], settings);
        assert!(found["ctl_conditional"].p_value.is_some_and(|p| p > 0.0 && p <= 1.0));
        assert_eq!(found["ctl_conditional"].per_concept_q.as_ref().unwrap().iter().flatten().count(), 2);
    }
    let found = tests_of(&numbers, &["icl_conditional"], TIE_AWARE);
    assert_eq!(found["icl_conditional"], Significance::default(), "pairs of continuous concepts have no test");
}

#[test]
fn what_has_no_value_has_no_test() {
    let columns = model(100, 3, 0.0, 5).changed(TensorName::ConceptLabels, |_, i, c| if i == 1 { 1.0 } else { c });
    let found = tests_of(&columns, &["ctl_conditional", "icl_conditional"], TIE_AWARE);
    let is_some = |rates: &[Option<f64>]| rates.iter().map(Option::is_some).collect::<Vec<_>>();
    assert_eq!(is_some(found["ctl_conditional"].per_concept_q.as_ref().unwrap()), [true, false, true]);
    let rates = found["icl_conditional"].matrix_q.as_ref().unwrap();
    let expected = [[false, false, true], [false, false, false], [true, false, false]];
    assert!(rates.iter().zip(expected).all(|(row, expected)| is_some(row) == expected), "{rates:?}");
    let alone = columns.without(TensorName::TaskLogits).changed(TensorName::TaskLabels, |row, _, _| row as f64);
    assert_eq!(tests_of(&alone, &["ctl_conditional"], TIE_AWARE)["ctl_conditional"], Significance::default());
}

/// The test of a score has what the score has: a value with p-values, or neither.
fn agrees_with_its_score(columns: &Columns, id: &str, settings: Settings) {
    let found = tests_of(columns, &[id], settings).remove(id).unwrap_or_else(|| panic!("{id} was not tested"));
    let per_concept = columns.scores(&[id], settings)[id].per_concept().unwrap_or_default().to_vec();
    for (value, q) in per_concept.iter().zip(found.per_concept_q.iter().flatten()) {
        assert!(value.is_some() || q.is_none(), "{id}: {per_concept:?}, {found:?}");
    }
}

#[test]
fn where_one_concept_varies_pairs_are_undefined_and_no_test_fails() {
    for rows in [6, 65, 500] {
        for kind in [ActivationKind::Hard, ActivationKind::Probability] {
            let mut random = random(rows as u64);
            let labels: Vec<f64> =
                (0..3 * rows).map(|at| if at % 3 == 0 { coin(0.5, &mut random) } else { 0.0 }).collect();
            let columns = Columns::new(rows, 3)
                .kind(kind)
                .with(TensorName::ConceptActivations, &[3], labels.clone())
                .with(TensorName::ConceptLabels, &[3], labels)
                .with(TensorName::TaskLabels, &[], (0..rows).map(|row| (row % 2) as f64).collect());
            for settings in [TIE_AWARE, PUBLISHED] {
                agrees_with_its_score(&columns, "icl_conditional", settings);
                agrees_with_its_score(&columns, "ctl_conditional", settings);
            }
            assert!(columns.why("icl_conditional").contains("there is one class only"));
        }
    }
}

#[test]
fn a_stratum_with_too_few_rows_for_the_estimator_has_no_null_either() {
    for kind in [ActivationKind::Logit, ActivationKind::Hard] {
        for positives in 1..8 {
            let mut random = random(positives as u64);
            let rows = 60;
            let labels: Vec<f64> = (0..rows).map(|row| f64::from(u8::from(row < positives))).collect();
            let columns = Columns::new(rows, 1)
                .kind(kind)
                .continuous_labels(false, true)
                .with(
                    TensorName::ConceptActivations,
                    &[1],
                    if kind == ActivationKind::Hard {
                        (0..rows).map(|row| (row % 2) as f64).collect()
                    } else {
                        gaussians(rows, &mut random)
                    },
                )
                .with(TensorName::ConceptLabels, &[1], labels)
                .with(TensorName::TaskLabels, &[], gaussians(rows, &mut random));
            for settings in [TIE_AWARE, PUBLISHED] {
                agrees_with_its_score(&columns, "ctl_conditional", settings);
            }
        }
    }
}
