//! What all scores together say: no conclusion contradicts a score that is known.

use leakage::compare::{CriterionVerdict, PUBLISHED, Side, WeighedVerdict, compare_groups, compare_pair};

use super::{point, side};

const SE: f64 = 0.01;
const COLUMNS: [&str; 6] =
    ["intervention_drop", "concept_accuracy", "ctl", "icl", "ctl_conditional", "icl_conditional"];
/// CBMs on ten classes of digits, by λ: drop, concept accuracy, CTL, ICL, conditional CTL and ICL.
const DIGITS: [(&str, [f64; 6]); 5] = [
    ("0.01", [0.88, 0.54, 0.11, 0.0, 0.33, 0.27]),
    ("0.05", [0.81, 0.62, 0.18, 0.0, 0.32, 0.27]),
    ("0.2", [0.69, 0.72, 0.27, 0.0, 0.33, 0.30]),
    ("1", [0.00, 0.98, 0.09, 0.0, 0.11, 0.05]),
    ("5", [-0.03, 0.99, 0.06, 0.0, 0.07, 0.01]),
];
const LEAKING: [&str; 3] = ["0.01", "0.05", "0.2"];

fn of(name: &str, scores: &[(&str, f64)]) -> Side {
    let scores: Vec<_> = scores.iter().map(|&(id, value)| (id, value, Some(SE))).collect();
    side(name, vec![vec![point(name, 1, &scores)]])
}

/// A group of three runs a little apart.
fn group(name: &str, scores: &[(&str, f64)]) -> Side {
    let run = |shift: f64| {
        let scores: Vec<_> = scores.iter().map(|&(id, value)| (id, value + shift, Some(SE))).collect();
        vec![point(name, 1, &scores)]
    };
    side(name, vec![run(-0.005), run(0.0), run(0.005)])
}

fn digits(known: &[&str]) -> Vec<(&'static str, Vec<(&'static str, f64)>)> {
    let of = |(lambda, values): (&'static str, [f64; 6])| {
        let scores = COLUMNS.into_iter().zip(values).filter(|(id, _)| known.contains(id)).collect();
        (lambda, scores)
    };
    DIGITS.into_iter().map(of).collect()
}

fn weigh(a: &[(&str, f64)], b: &[(&str, f64)]) -> (WeighedVerdict, String) {
    let weighed = compare_pair(&of("a", a), &of("b", b), &[], 0.95).weighed;
    (weighed.verdict, weighed.why)
}

#[test]
fn models_of_digits_are_ranked_by_what_they_do_under_intervention() {
    for known in [&COLUMNS[..], &COLUMNS[1..], &COLUMNS[1..4]] {
        let runs = digits(known);
        for (at, (lambda, weak)) in runs.iter().enumerate().filter(|(_, (lambda, _))| LEAKING.contains(lambda)) {
            for (other, strong) in &runs[3..] {
                let (verdict, why) = weigh(weak, strong);
                // CTL of the weakest is no higher than that of the sound: alone it does not show it.
                let hidden = known.len() == 3 && at == 0;
                match hidden {
                    false => assert_eq!(verdict, WeighedVerdict::ALeaksMore, "{lambda} and {other}, {known:?}: {why}"),
                    true => assert_ne!(verdict, WeighedVerdict::BLeaksMore, "{lambda} and {other}: {why}"),
                }
            }
        }
        let sides = runs.iter().map(|(lambda, scores)| {
            let with_task = [&scores[..], &[("task_accuracy", 0.9)]].concat();
            group(lambda, &with_task)
        });
        let least = compare_groups("lambda", sides.collect(), &[], PUBLISHED, 0.95).least.unwrap();
        assert!(least.values.iter().all(|value| !LEAKING.contains(&value.as_str())), "{known:?}: {least:?}");
        assert_eq!(least.caution, None);
    }
}

/// λ = 0.01 and 5 by CTL and ICL and the accuracies alone: what was once called least leakage.
#[test]
fn concepts_that_are_not_learnt_do_not_count_as_less_leakage() {
    let unlearnt = [("ctl", 0.02), ("icl", 0.0), ("concept_accuracy", 0.45), ("task_accuracy", 0.9)];
    let sound = [("ctl", 0.06), ("icl", 0.0), ("concept_accuracy", 0.98), ("task_accuracy", 0.95)];
    let report = compare_pair(&of("weak", &unlearnt), &of("strong", &sound), &[], 0.95);
    assert_eq!(report.criterion.verdict, CriterionVerdict::BLeaksMore, "the published criterion stands beside it");
    assert_eq!(report.weighed.verdict, WeighedVerdict::ScoresDisagree);
    let why = &report.weighed.why;
    let expected = "but because concepts of weak are learnt less well (concept accuracy 0.45 against 0.98)";
    assert!(
        why.starts_with("concepts-task leakage (ctl) is higher in strong by 0.0400") && why.ends_with(expected),
        "{why}"
    );
    let report = compare_groups("lambda", vec![group("0.01", &unlearnt), group("5", &sound)], &[], PUBLISHED, 0.95);
    let least = report.least.unwrap();
    assert_eq!(least.values, ["5"]);
    let below = least.below.unwrap();
    assert!(
        below.starts_with("lambda=0.01: scores disagree: concepts-task leakage (ctl) is higher in lambda=5")
            && below.ends_with(expected.replace("weak", "lambda=0.01").as_str()),
        "{below}"
    );
    // With the others, it is plain.
    let more = [("ctl_conditional", 0.33), ("intervention_drop", 0.88)];
    let less = [("ctl_conditional", 0.07), ("intervention_drop", -0.03)];
    let (verdict, why) = weigh(&[&unlearnt[..], &more].concat(), &[&sound[..], &less].concat());
    assert_eq!(verdict, WeighedVerdict::ALeaksMore);
    assert!(why.contains("because concepts of a are learnt less well"), "{why}");
    // Nobody has learnt the concepts.
    let groups = vec![group("0.01", &unlearnt), group("0.02", &unlearnt)];
    let why = compare_groups("lambda", groups, &[], PUBLISHED, 0.95).undefined.unwrap();
    assert!(why.contains("are not learnt (concept accuracy 0.45), and no group has learnt them better"), "{why}");
}

#[test]
fn the_table_of_verdicts() {
    use WeighedVerdict::{ALeaksMore, BLeaksMore, NoDifference, ScoresDisagree, Undecided, Undefined};
    type Scores = &'static [(&'static str, f64)];
    const LEARNT: (&str, f64) = ("concept_accuracy", 0.97);
    let table: [(Scores, Scores, WeighedVerdict); 16] = [
        (&[("ctl_conditional", 0.3)], &[("ctl_conditional", 0.1)], ALeaksMore),
        (&[("ctl_conditional", 0.1)], &[("ctl_conditional", 0.3)], BLeaksMore),
        (&[("ctl_conditional", 0.1)], &[("ctl_conditional", 0.1)], NoDifference),
        (&[("intervention_drop", 0.3)], &[("intervention_drop", 0.0)], ALeaksMore),
        // A rise under intervention is no reason to prefer a run.
        (&[("intervention_drop", 0.0)], &[("intervention_drop", -0.2)], NoDifference),
        (
            &[("ctl_conditional", 0.3), ("intervention_drop", 0.0)],
            &[("ctl_conditional", 0.1), ("intervention_drop", 0.3)],
            ScoresDisagree,
        ),
        (
            &[("ctl_conditional", 0.3), ("icl_conditional", 0.1)],
            &[("ctl_conditional", 0.1), ("icl_conditional", 0.3)],
            ScoresDisagree,
        ),
        // The published scores alone need learnt concepts.
        (&[("ctl", 0.3), ("icl", 0.1)], &[("ctl", 0.1), ("icl", 0.1)], Undecided),
        (&[("ctl", 0.3), ("icl", 0.1), LEARNT], &[("ctl", 0.1), ("icl", 0.1), LEARNT], ALeaksMore),
        (&[("ctl", 0.3), ("icl", 0.1), LEARNT], &[("ctl", 0.1), ("icl", 0.3), LEARNT], ScoresDisagree),
        (&[("ctl", 0.1), ("icl", 0.1), LEARNT], &[("ctl", 0.1), ("icl", 0.1), LEARNT], NoDifference),
        // They against the others.
        (
            &[("ctl", 0.1), ("ctl_conditional", 0.3), LEARNT],
            &[("ctl", 0.2), ("ctl_conditional", 0.1), LEARNT],
            ScoresDisagree,
        ),
        (
            &[("ctl", 0.1), ("ctl_conditional", 0.3), ("intervention_drop", 0.4), LEARNT],
            &[("ctl", 0.2), ("ctl_conditional", 0.1), ("intervention_drop", 0.0), LEARNT],
            ALeaksMore,
        ),
        (
            &[("ctl", 0.3), ("ctl_conditional", 0.3), LEARNT],
            &[("ctl", 0.1), ("ctl_conditional", 0.3), LEARNT],
            ScoresDisagree,
        ),
        // Low leakage of concepts that are not learnt.
        (&[("ctl_conditional", 0.01), ("concept_accuracy", 0.5)], &[("ctl_conditional", 0.2), LEARNT], ScoresDisagree),
        (&[("bleu", 0.1)], &[("bleu", 0.3)], Undefined),
    ];
    let (_, why) = weigh(&[("intervention_drop", 0.0)], &[("intervention_drop", -0.2)]);
    assert_eq!(why, "in neither is a fall of the accuracy under intervention shown");
    for (a, b, expected) in table {
        let (verdict, why) = weigh(a, b);
        assert_eq!(verdict, expected, "{a:?} {b:?}: {why}");
        assert!(!why.is_empty());
        let mirrored = match expected {
            ALeaksMore => BLeaksMore,
            BLeaksMore => ALeaksMore,
            same => same,
        };
        assert_eq!(weigh(b, a).0, mirrored, "{a:?} {b:?}");
    }
}

/// Every combination of two sides whose scores are low, high or missing.
#[test]
fn no_side_leaks_less_against_a_known_score() {
    let levels = [
        ("intervention_drop", 0.0, 0.4),
        ("ctl_conditional", 0.05, 0.3),
        ("ctl", 0.05, 0.3),
        ("concept_accuracy", 0.5, 0.97),
    ];
    let sides: Vec<Vec<(&str, f64)>> = (0..3_usize.pow(4))
        .map(|number| {
            let level = |at: usize| number / 3_usize.pow(at as u32) % 3;
            let all = levels.iter().enumerate();
            let known = all
                .filter(|(at, _)| level(*at) > 0)
                .map(|(at, &(id, low, high))| (id, if level(at) == 1 { low } else { high }));
            known.chain([("icl", 0.0), ("task_accuracy", 0.9)]).collect()
        })
        .collect();
    let value = |side: &[(&str, f64)], id: &str| side.iter().find(|(known, _)| *known == id).map(|(_, value)| *value);
    for a in &sides {
        for b in &sides {
            let (verdict, why) = weigh(a, b);
            assert!(!why.to_lowercase().contains("no leakage"), "{why}");
            let above = |id: &str| value(a, id).zip(value(b, id)).is_some_and(|(a, b)| a > b);
            let below = |id: &str| value(a, id).zip(value(b, id)).is_some_and(|(a, b)| a < b);
            if verdict == WeighedVerdict::BLeaksMore {
                assert!(!above("intervention_drop") && !above("ctl_conditional"), "{a:?} {b:?}: {why}");
                assert!(!below("concept_accuracy") && value(a, "concept_accuracy") != Some(0.5), "{a:?} {b:?}: {why}");
            }
            let groups = vec![group("1", a), group("2", b)];
            let report = compare_groups("lambda", groups, &[], PUBLISHED, 0.95);
            if let Some(least) = report.least {
                let has = |name: &str| least.values.iter().any(|value| value == name);
                assert!(!(has("1") && above("intervention_drop")), "{a:?} {b:?}: {least:?}");
                assert!(!(has("2") && below("intervention_drop")), "{a:?} {b:?}: {least:?}");
                assert!(!(has("1") && below("concept_accuracy")), "{a:?} {b:?}: {least:?}");
                for (name, side) in [("1", a), ("2", b)] {
                    assert!(!has(name) || value(side, "concept_accuracy") != Some(0.5), "{a:?} {b:?}: {least:?}");
                }
                let falls = value(if least.reference == "1" { a } else { b }, "intervention_drop") == Some(0.4);
                assert_eq!(least.caution.is_some(), falls, "{a:?} {b:?}: {least:?}");
            } else {
                assert!(report.undefined.is_some());
            }
        }
    }
}

#[test]
fn intervals_stay_in_the_range_of_the_score() {
    let wide = |name: &str, ctl: f64, accuracy: f64| {
        let scores =
            [("ctl", ctl, Some(0.2)), ("concept_accuracy", accuracy, Some(0.2)), ("ctl_excess", ctl - 0.5, Some(0.4))];
        side(name, vec![vec![point(name, 1, &scores)]])
    };
    let scores = ["ctl", "concept_accuracy", "ctl_excess"].map(str::to_owned);
    let report = compare_pair(&wide("a", 0.05, 0.95), &wide("b", 0.95, 0.05), &scores, 0.95);
    for (score, range) in report.scores.iter().zip([(0.0, 1.0), (0.0, 1.0), (-1.0, 1.0)]) {
        let comparison = &score.comparison;
        let width = range.1 - range.0;
        for (interval, (least, most)) in
            [(comparison.a, range), (comparison.b, range), (comparison.difference, (-width, width))]
        {
            let interval = interval.unwrap();
            let (low, high) = (interval.low.unwrap(), interval.high.unwrap());
            assert!(least <= low && low <= interval.mean && interval.mean <= high && high <= most, "{score:?}");
        }
    }
    let folds = |name: &str| {
        side(name, [0.0, 0.0, 0.1].map(|ctl| vec![point(name, 1, &[("ctl", ctl, None), ("icl", ctl, None)])]).into())
    };
    let report = compare_groups("lambda", vec![folds("1"), folds("2")], &scores, PUBLISHED, 0.95);
    assert_eq!(report.groups[0].scores[0].interval.unwrap().low, Some(0.0));
    // A mean below the range keeps the error on both sides.
    let noise = compare_pair(&wide("a", -0.02, 0.5), &wide("b", 0.5, 1.02), &scores, 0.95);
    for interval in [noise.scores[0].comparison.a, noise.scores[1].comparison.b].map(Option::unwrap) {
        let (low, high) = (interval.low.unwrap(), interval.high.unwrap());
        assert!((low + high - 2.0 * interval.mean).abs() < 1e-12 && high - low > 0.7, "{interval:?}");
    }
}
