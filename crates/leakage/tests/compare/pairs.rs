//! Two runs: scores, concepts and values that are not comparable.

use leakage::compare::{CriterionVerdict, PUBLISHED, Side, Verdict, compare_pair};
use leakage::point::{Outcome, Point};

use super::{point, recorded, side};

fn leaking(run: &str, ctl: f64, icl: f64) -> Side {
    let at = |step: u64| {
        let wobble = 0.001 * (step % 3) as f64;
        point(run, step, &[("ctl", ctl + wobble, Some(0.005)), ("icl", icl - wobble, Some(0.004))])
    };
    side(run, vec![(1..=5).map(at).collect()])
}

fn asked(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

#[test]
fn the_leaking_run_is_named_with_its_numbers() {
    let report = compare_pair(&leaking("weak", 0.3, 0.1), &leaking("strong", 0.02, 0.1), &asked(&["ctl", "icl"]), 0.95);
    assert_eq!(report.criterion.verdict, CriterionVerdict::ALeaksMore);
    assert!(
        report.criterion.why.starts_with("concepts-task leakage (ctl) is higher in weak by 0.2800 (0.26"),
        "{}",
        report.criterion.why
    );
    assert!(report.criterion.why.contains("(icl) shows no difference"), "{}", report.criterion.why);
    assert_eq!(report.criterion_unclipped.verdict, CriterionVerdict::Undefined);
    assert!(report.criterion_unclipped.why.contains("no evaluation of weak that is compared has it"));
    let swapped = compare_pair(&leaking("strong", 0.02, 0.1), &leaking("weak", 0.3, 0.1), &asked(&["ctl"]), 0.95);
    assert_eq!(swapped.criterion.verdict, CriterionVerdict::BLeaksMore);
    assert!(
        swapped.criterion.why.starts_with("concepts-task leakage (ctl) is higher in weak by 0.2800 (0.26"),
        "{}",
        swapped.criterion.why
    );
    let opposed = compare_pair(&leaking("a", 0.3, 0.1), &leaking("b", 0.02, 0.3), &[], 0.95);
    assert_eq!(opposed.criterion.verdict, CriterionVerdict::Undecided);
}

#[test]
fn a_difference_too_small_to_matter_is_none() {
    let exact = |run: &str, ctl: f64| {
        let points = (1..=5).map(|step| point(run, step, &[("ctl", ctl + 1e-9 * step as f64, Some(1e-8))])).collect();
        side(run, vec![points])
    };
    for (other, expected) in [(0.100_5, Verdict::Compatible), (0.102, Verdict::HigherInB), (0.098, Verdict::HigherInA)]
    {
        let report = compare_pair(&exact("a", 0.1), &exact("b", other), &asked(&["ctl"]), 0.95);
        assert_eq!(report.scores[0].comparison.verdict, expected, "{other}");
    }
}

#[test]
fn folds_are_compared_by_their_scatter() {
    let folds = |run: &str, values: [f64; 5]| {
        side(run, values.map(|ctl| vec![point(run, 1, &[("ctl", ctl, Some(0.001)), ("icl", ctl, Some(0.001))])]).into())
    };
    let wide = folds("wide", [0.1, 0.3, 0.2, 0.4, 0.0]);
    let near = folds("near", [0.12, 0.28, 0.2, 0.38, 0.0]);
    let report = compare_pair(&wide, &near, &asked(&["ctl"]), 0.95);
    let ctl = &report.scores[0].comparison;
    assert_eq!((ctl.verdict, ctl.a.unwrap().count), (Verdict::Compatible, 5));
    // t(4) · √0.025 / √5.
    assert!((ctl.a.unwrap().high.unwrap() - 0.2 - 2.776_445 * 0.025_f64.sqrt() / 5_f64.sqrt()).abs() < 1e-6);
    assert_eq!(report.a.evaluations.len(), 5);
}

#[test]
fn a_fold_without_a_value_in_one_run_is_left_out_of_both() {
    // Three splits, of which the first leaks; both runs are alike where both have a value.
    let with = |run: &str, missing: &[usize]| {
        let fold = |fold: usize, ctl: f64| {
            let mut at = point(run, 1, &[("ctl", ctl, Some(0.001)), ("icl", ctl, Some(0.001))]);
            at.split = format!("f{fold}").into();
            let Outcome::Value(value) = &mut at.scores[0].1 else { unreachable!() };
            value.per_concept = Some(vec![(!missing.contains(&fold)).then_some(ctl), Some(ctl)]);
            if missing.contains(&fold) {
                at.scores[0].1 = Outcome::of(Some("no task labels".into()), value.clone());
            }
            vec![at]
        };
        side(run, [0.4, 0.1, 0.2, 0.15].iter().enumerate().map(|(at, ctl)| fold(at, *ctl)).collect())
    };
    let report = compare_pair(&with("a", &[0]), &with("b", &[1]), &asked(&["ctl", "icl"]), 0.95);
    let means = |at: usize| {
        let of = &report.scores[at].comparison;
        (of.a.map(|a| (a.mean, a.count)), of.b.map(|b| (b.mean, b.count)), of.verdict)
    };
    let alike = Some((0.175, 2));
    assert_eq!(means(0), (alike, alike, Verdict::Compatible));
    assert_eq!(means(1).0.map(|(_, count)| count), Some(4));
    let concepts = report.scores[0].per_concept.iter().map(|one| one.comparison.a.map(|a| a.count));
    assert_eq!(concepts.collect::<Vec<_>>(), [Some(2), Some(4)]);
    assert_eq!(report.criterion.verdict, CriterionVerdict::Compatible);
    let notes = [
        "split 'f0' is left out of ctl: undefined in a: no task labels",
        "split 'f1' is left out of ctl: undefined in b",
    ];
    assert!(notes.iter().all(|note| report.notes.iter().any(|found| found.starts_with(note))), "{:?}", report.notes);
    let apart = compare_pair(&with("a", &[0, 1]), &with("b", &[2, 3]), &asked(&["ctl"]), 0.95);
    let ctl = &apart.scores[0].comparison;
    assert_eq!(ctl.undefined.as_deref(), Some("undefined in a: no split has it in both runs"));
    assert_eq!((ctl.a, ctl.verdict, apart.criterion.verdict), (None, Verdict::Undefined, CriterionVerdict::Undefined));
    // A run without it in any split says so, and the other's mean is shown.
    let never = compare_pair(&with("a", &[]), &with("b", &[0, 1, 2, 3]), &asked(&["ctl"]), 0.95);
    let ctl = &never.scores[0].comparison;
    assert_eq!(ctl.undefined.as_deref(), Some("undefined in b: no task labels"));
    assert_eq!(ctl.a.map(|a| a.count), Some(4));
}

#[test]
fn values_on_different_scales_are_not_compared() {
    let a = leaking("a", 0.3, 0.1);
    let mut fewer = leaking("b", 0.02, 0.1);
    fewer.folds[0].points.iter_mut().for_each(|point| point.rows = 1000);
    let report = compare_pair(&a, &fewer, &asked(&["ctl", "icl"]), 0.95);
    assert_eq!(report.scores[0].comparison.verdict, Verdict::HigherInA);
    let icl = &report.scores[1].comparison;
    assert_eq!(icl.undefined.as_deref(), Some("comparable only at equal N, and evaluations have 1000 to 2000 rows"));
    assert_eq!((icl.verdict, report.criterion.verdict), (Verdict::Undefined, CriterionVerdict::Undefined));
    let mut published = leaking("b", 0.02, 0.1);
    published.folds[0].points.iter_mut().for_each(|point| point.estimator = "published".into());
    let ctl = &compare_pair(&a, &published, &asked(&["ctl"]), 0.95).scores[0].comparison;
    assert!(ctl.undefined.as_ref().unwrap().starts_with("the values were made by published, 3"), "{ctl:?}");
    assert!(ctl.a.is_some() && ctl.difference.is_none());
}

#[test]
fn a_score_without_any_error_has_no_verdict() {
    let plain = |run: &str, value: f64| side(run, vec![vec![point(run, 1, &[("concept_f1", value, None)])]]);
    let f1 = &compare_pair(&plain("a", 0.9), &plain("b", 0.1), &asked(&["concept_f1"]), 0.95).scores[0].comparison;
    assert_eq!((f1.verdict, f1.a.unwrap().mean, f1.a.unwrap().low), (Verdict::Undefined, 0.9, None));
    assert!(f1.undefined.as_ref().unwrap().starts_with("the error is unknown"), "{f1:?}");
}

#[test]
fn undefined_evaluations_are_left_out_and_their_reason_is_reported() {
    let mut a = leaking("a", 0.3, 0.1);
    let set = |point: &mut Point, id: &str| {
        point.scores.iter_mut().find(|(score, _)| score == id).unwrap().1 = Outcome::undefined("one class only");
    };
    set(&mut a.folds[0].points[0], "ctl");
    a.folds[0].points.iter_mut().for_each(|point| set(point, "icl"));
    let report = compare_pair(&a, &leaking("b", 0.3, 0.1), &asked(&["ctl", "icl"]), 0.95);
    assert_eq!(report.scores[0].comparison.a.unwrap().count, 4);
    assert_eq!(report.scores[1].comparison.undefined.as_deref(), Some("undefined in a: one class only"));
}

#[test]
fn concepts_are_distinguished_with_false_discoveries_controlled() {
    let k = 40;
    // One concept differs in leakage; the others differ by less than a concept's error.
    let with = |run: &str, first: f64| {
        let mut point = point(run, 1, &[("ctl", 0.1, Some(0.001))]);
        let Outcome::Value(value) = &mut point.scores[0].1 else { unreachable!() };
        value.per_concept = Some((0..k).map(|i| Some(if i == 0 { first } else { 0.1 + 0.0001 * i as f64 })).collect());
        let mut made = side(run, vec![vec![point]]);
        made.folds[0].concepts = (0..k).map(|i| format!("c{i}")).collect();
        made
    };
    let mut other = with("b", 0.1);
    // The other run names its concepts in another order and lacks one.
    other.folds[0].concepts[k - 1] = "own".into();
    let report = compare_pair(&with("a", 0.4), &other, &asked(&["ctl"]), 0.95);
    let concepts = &report.scores[0].per_concept;
    assert_eq!(concepts.len(), k - 1);
    assert_eq!((concepts[0].concept.as_str(), concepts[0].comparison.verdict), ("c0", Verdict::HigherInA));
    assert!(concepts[1..].iter().all(|one| one.comparison.verdict == Verdict::Compatible));
    // √40 · 0.001.
    assert!((concepts[0].comparison.a.unwrap().standard_error.unwrap() - 0.001 * (k as f64).sqrt()).abs() < 1e-12);
    assert_eq!(report.notes[..2], ["concepts of a alone: c39", "concepts of b alone: own"]);
}

/// Each run with λ = 0.01 against the run of the same seed with λ = 5, as stated in docs/compare.md.
#[test]
fn recorded_runs_are_distinguished() {
    let runs = recorded();
    let (mut right, mut wrong, mut all) = (0, 0, 0);
    for (key, weak) in runs.iter().filter(|(key, _)| key[2] == "0.01") {
        let strong = &runs[&[key[0], key[1], "5.0", key[3]]];
        let [a, b] = [weak, strong].map(|run| Side { name: "r".into(), folds: vec![run.clone()] });
        let report = compare_pair(&a, &b, &PUBLISHED.map(str::to_owned), 0.95);
        right += usize::from(report.criterion.verdict == CriterionVerdict::ALeaksMore);
        wrong += usize::from(report.criterion.verdict == CriterionVerdict::BLeaksMore);
        all += 1;
    }
    println!("of {all} pairs, {right} name the run with λ = 0.01 and {wrong} the other");
    assert_eq!((all, wrong), (40, 0));
    assert!(right >= 30, "{right}");
}
