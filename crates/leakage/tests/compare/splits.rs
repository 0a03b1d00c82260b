//! Two splits of one run: the drop and its error, by concept, at common steps.

use leakage::compare::{Side, Verdict, compare_splits};
use leakage::point::{Outcome, Point, ScoreValue};

use super::side;

/// Concept accuracy of both concepts at each step, with the standard error of the mean.
fn evaluated(split: &str, accuracies: &[[f64; 2]], standard_error: f64) -> Side {
    let at = |(step, accuracies): (usize, &[f64; 2])| {
        let value = ScoreValue {
            value: accuracies.iter().sum::<f64>() / 2.0,
            standard_error: Some(standard_error),
            per_concept: Some(accuracies.iter().map(|one| Some(*one)).collect()),
            ..ScoreValue::default()
        };
        let scores = vec![("concept_accuracy".to_owned(), Outcome::Value(value))];
        Point { split: split.into(), scores, ..super::point("run", step as u64, &[]) }
    };
    side(split, vec![accuracies.iter().enumerate().map(at).collect()])
}

fn asked() -> Vec<String> {
    vec!["concept_accuracy".to_owned()]
}

#[test]
fn the_concept_of_the_dropped_region_falls_and_the_other_does_not() {
    let val = evaluated("val", &[[0.95, 0.91]; 3], 0.005);
    let dropped = evaluated("val_dropped", &[[0.55, 0.90]; 3], 0.005);
    let report = compare_splits("run", &val, &dropped, &asked(), 0.95);
    assert_eq!((report.run.as_str(), report.a.run.as_str(), report.b.run.as_str()), ("run", "run", "run"));
    assert_eq!(report.b.evaluations[2], ("val_dropped".to_owned(), 2));
    let whole = &report.scores[0].comparison;
    let difference = whole.difference.unwrap();
    assert!((difference.mean - 0.205).abs() < 1e-12 && whole.verdict == Verdict::HigherInA, "{whole:?}");
    // Constant evaluations: the error is that of the rows of both splits.
    assert!((difference.standard_error.unwrap() - 0.005 * 2_f64.sqrt()).abs() < 1e-12, "{difference:?}");
    let [wing, beak] = &report.scores[0].per_concept[..] else { panic!("two concepts") };
    assert_eq!((wing.concept.as_str(), wing.comparison.verdict), ("wing", Verdict::HigherInA));
    assert_eq!((beak.concept.as_str(), beak.comparison.verdict), ("beak", Verdict::Compatible));
    assert!((wing.comparison.difference.unwrap().mean - 0.40).abs() < 1e-12);
    // √2 times the error of the mean over two concepts, in each split.
    assert!((beak.comparison.difference.unwrap().standard_error.unwrap() - 0.01).abs() < 1e-12);
}

#[test]
fn changes_common_to_both_splits_cancel() {
    let learning = [0.70, 0.78, 0.84, 0.88, 0.90];
    let val = evaluated("val", &learning.map(|one| [one; 2]), 0.004);
    let dropped = evaluated("val_dropped", &learning.map(|one| [one - 0.03; 2]), 0.004);
    let comparison = &compare_splits("run", &val, &dropped, &asked(), 0.95).scores[0].comparison;
    let (a, difference) = (comparison.a.unwrap(), comparison.difference.unwrap());
    assert!((difference.standard_error.unwrap() - 0.004 * 2_f64.sqrt()).abs() < 1e-9, "{difference:?}");
    assert!(a.standard_error.unwrap() > 0.03, "the accuracy itself moves: {a:?}");
    assert_eq!(comparison.verdict, Verdict::HigherInA);
}

#[test]
fn steps_without_a_value_in_both_splits_are_left_out() {
    let val = evaluated("val", &[[0.9; 2], [0.9; 2]], 0.01);
    let mut dropped = evaluated("val_dropped", &[[0.9; 2], [0.5; 2]], 0.01);
    dropped.folds[0].points[0].scores[0].1 = Outcome::undefined("one class only");
    let one = &compare_splits("run", &val, &dropped, &asked(), 0.95).scores[0].comparison;
    let difference = one.difference.unwrap();
    assert!((difference.mean - 0.4).abs() < 1e-12 && difference.count == 1, "{difference:?}");
    let mut never = val.clone();
    never.folds[0].points[1].scores.clear();
    let none = &compare_splits("run", &never, &dropped, &asked(), 0.95).scores[0].comparison;
    assert_eq!(none.undefined.as_deref(), Some("no step has a value in both splits"));
    assert_eq!((none.verdict, none.difference, none.a.map(|a| a.mean)), (Verdict::Undefined, None, Some(0.9)));
    dropped.folds[0].points[1].scores[0].1 = Outcome::undefined("one class only");
    let undefined = &compare_splits("run", &val, &dropped, &asked(), 0.95).scores[0].comparison;
    assert_eq!(undefined.undefined.as_deref(), Some("undefined in val_dropped: one class only"));
}

#[test]
fn values_on_different_scales_are_not_compared() {
    let val = evaluated("val", &[[0.9; 2]], 0.01);
    let mut dropped = evaluated("val_dropped", &[[0.5; 2]], 0.01);
    dropped.folds[0].points[0].catalogue_version = 7;
    let score = &compare_splits("run", &val, &dropped, &asked(), 0.95).scores[0];
    let why = score.comparison.undefined.as_ref().unwrap();
    assert!(why.starts_with("the values were made by ") && score.per_concept.is_empty(), "{score:?}");
}
