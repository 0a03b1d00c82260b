//! Points, curves and matrices: what is kept, replaced and read back.

use conceptwatch::history::{
    Ending, HistoryError, Identity, Recorded, RunOutcome, SeriesPoint, Store, StoredSplit, Unscored, Wanted, WholePoint,
};
use leakage::point::{Outcome, Point, ScoreValue};
use leakage::sample::Attempt;
use leakage::step::Ordinal;

use super::common::stored::{point, run, steps};

pub fn evaluations_are_the_newest_finished_points_without_matrices(history: &dyn Store) {
    history.record_run(&run("a", 3), &Identity::default(), 0.0).unwrap();
    for step in [1, 4, 2, 3] {
        history.record_point(&point("a", "val", step, 3), None).unwrap();
    }
    history.record_point(&Point { provisional: true, ..point("a", "val", 5, 3) }, None).unwrap();
    let found = history.evaluations("a", "val", 2).unwrap();
    assert_eq!(found, [3, 4].map(|step| point("a", "val", step, 3).without_matrices()));
    assert_eq!(history.evaluations("a", "val", usize::MAX).unwrap().len(), 4);
    assert!(history.evaluations("a", "test", 2).unwrap().is_empty());
    assert!(history.evaluations("b", "val", 2).is_err());
}

pub fn evaluation_times_are_those_of_the_newest_of_each_split(history: &dyn Store) {
    for name in ["a", "b", "c"] {
        history.record_run(&run(name, 4), &Identity::default(), 1.0).unwrap();
    }
    for (split, steps) in [("val", 1..=5), ("test", 3..=3)] {
        for step in steps {
            let time = 100.0 + step as f64;
            history.record_point(&Point { time, ..point("a", split, step, 4) }, None).unwrap();
        }
    }
    history.record_point(&Point { provisional: true, ..point("a", "train", 1, 4) }, None).unwrap();
    history.record_point(&Point { time: 7.0, ..point("b", "val", 1, 4) }, None).unwrap();
    let curves = [("a", "test"), ("a", "train"), ("a", "val"), ("c", "val"), ("unknown", "val")];
    let mut found = history.evaluation_times(&curves, 3).unwrap();
    found.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    assert_eq!(found, [vec![103.0], vec![], vec![103.0, 104.0, 105.0], vec![], vec![]]);
}

pub fn common_steps_are_those_that_both_splits_have_finished(history: &dyn Store) {
    for name in ["a", "b"] {
        history.record_run(&run(name, 3), &Identity::default(), 0.0).unwrap();
    }
    for (split, steps) in [("val", vec![1, 2, 3, 5, 7]), ("test", vec![2, 3, 4, 5, 7])] {
        for step in steps {
            history.record_point(&point("a", split, step, 3), None).unwrap();
        }
    }
    history.record_point(&Point { provisional: true, ..point("a", "val", 8, 3) }, None).unwrap();
    history.record_point(&point("a", "test", 8, 3), None).unwrap();
    history.record_point(&point("b", "test", 1, 3), None).unwrap();
    assert_eq!(history.common_steps("a", "val", "test", 9).unwrap(), [2, 3, 5, 7]);
    assert_eq!(history.common_steps("a", "test", "val", 2).unwrap(), [5, 7]);
    assert!(history.common_steps("a", "val", "none", 9).unwrap().is_empty());
    assert!(history.common_steps("c", "val", "test", 9).is_err());
}

pub fn a_step_passed_again_replaces_its_point(history: &dyn Store) {
    history.record_run(&run("a", 3), &Identity::default(), 0.0).unwrap();
    for step in [1, 2, 3, 2] {
        history.record_point(&point("a", "val", step, 3), None).unwrap();
    }
    let mut again = point("a", "val", 2, 3);
    again.scores.truncate(1);
    history.record_point(&again, None).unwrap();
    assert_eq!(history.point("a", "val", Some(2), true).unwrap(), Some(again));
    assert_eq!(steps(history, "a", "val"), [1, 3]);
    let split = StoredSplit { split: "val".into(), points: 3, last_step: 3 };
    assert_eq!(history.splits("a").unwrap(), std::slice::from_ref(&split));
    history.record_run(&run("b", 3), &Identity::default(), 1.0).unwrap();
    let listed = history
        .listing(&Wanted::default())
        .unwrap()
        .runs
        .into_iter()
        .map(|(stored, splits)| (stored.run.name.clone(), splits));
    assert_eq!(listed.collect::<Vec<_>>(), [("b".to_owned(), vec![]), ("a".to_owned(), vec![split])]);
}

pub fn a_series_is_ordered_and_bounded_by_steps(history: &dyn Store) {
    history.record_run(&run("a", 3), &Identity::default(), 0.0).unwrap();
    for step in [30, 10, 20, 40] {
        history.record_point(&point("a", "val", step, 3), None).unwrap();
    }
    history.record_point(&point("a", "train", 15, 3), None).unwrap();
    let series = history.series("a", "val", "icl", None, 20, Some(30)).unwrap();
    assert_eq!(series.iter().map(|p| (p.step, p.value)).collect::<Vec<_>>(), [(20, Some(20.1)), (30, Some(30.1))]);
    assert_eq!(series[0].standard_error, Some(0.01));
    assert_eq!((series[0].rows, series[0].incomplete, series[0].epoch), (4096, true, Some(2.0)));

    let concept = |name| history.series("a", "val", "icl", Some(name), 10, Some(10)).unwrap().remove(0);
    assert_eq!((concept("concept 2").value, concept("concept 2").standard_error), (Some(0.2 + 10.0), None));
    assert_eq!(concept("concept 1").value, None);
    assert!(concept("concept 1").undefined.is_some());
    let undefined = history.series("a", "val", "ctl", None, 0, None).unwrap();
    assert_eq!((undefined[0].value, undefined[0].undefined.as_deref()), (None, Some("one class")));
    assert_eq!(history.series("a", "val", "no such", None, 0, None).unwrap(), []);

    let unknown = |result: Result<Vec<SeriesPoint>, _>| match result {
        Err(HistoryError::Unknown { what, name }) => (what, name),
        other => panic!("{other:?}"),
    };
    assert_eq!(unknown(history.series("b", "val", "icl", None, 0, None)), ("run", "b".into()));
    assert_eq!(unknown(history.series("a", "val", "icl", Some("x"), 0, None)), ("concept", "x".into()));
    assert!(matches!(
        history.record_point(&point("b", "val", 1, 3), None),
        Err(HistoryError::Unknown { what: "run", .. })
    ));
    assert!(matches!(
        history.finish_run("b", 1.0, &RunOutcome::Finished),
        Err(HistoryError::Unknown { what: "run", .. })
    ));
}

pub fn numbers_that_are_not_finite_are_absent(history: &dyn Store) {
    history.record_run(&run("a", 2), &Identity::default(), 0.0).unwrap();
    let mut strange = point("a", "val", 1, 2);
    strange.epoch = Some(f64::NAN);
    strange.scores = vec![
        ("nan".into(), Outcome::Value(ScoreValue { value: f64::NAN, ..ScoreValue::default() })),
        (
            "cells".into(),
            Outcome::Value(ScoreValue {
                value: 1.0,
                standard_error: Some(f64::INFINITY),
                per_concept: Some(vec![Some(f64::NAN), Some(f64::MIN_POSITIVE)]),
                matrix: Some(vec![vec![Some(f64::NAN), Some(0.5)], vec![Some(f64::NEG_INFINITY), None]]),
                ..ScoreValue::default()
            }),
        ),
    ];
    history.record_point(&strange, None).unwrap();
    let stored = history.point("a", "val", None, true).unwrap().unwrap();
    assert_eq!(stored.epoch, None);
    assert!(matches!(stored.score("nan"), Some(Outcome::Undefined { .. })));
    let cells = stored.score("cells").and_then(Outcome::value).unwrap();
    assert_eq!(cells.standard_error, None);
    assert_eq!(cells.per_concept, Some(vec![None, Some(f64::MIN_POSITIVE)]));
    assert_eq!(cells.matrix, Some(vec![vec![None, Some(0.5)], vec![None, None]]));

    strange.time = f64::NAN;
    assert!(
        matches!(history.record_point(&strange, None), Err(HistoryError::Invalid { field, .. }) if field == "point.time")
    );
}

pub fn a_point_of_the_wrong_shape_leaves_the_old_one_whole(history: &dyn Store) {
    history.record_run(&run("a", 3), &Identity::default(), 0.0).unwrap();
    history.record_point(&point("a", "val", 1, 3), None).unwrap();
    let refused = history.record_point(&point("a", "val", 1, 4), None);
    assert!(matches!(refused, Err(HistoryError::Invalid { field, .. }) if field == "point.concept_rows"));
    let of_four = Point { concept_rows: Vec::new(), ..point("a", "val", 1, 4) };
    let refused = history.record_point(&of_four, None);
    assert!(matches!(refused, Err(HistoryError::Invalid { field, .. }) if field == "scores.ctl.per_concept_q"));
    let mut large = point("a", "val", 1, 3);
    large.step = u64::MAX;
    assert!(
        matches!(history.record_point(&large, None), Err(HistoryError::Invalid { field, .. }) if field == "point.step")
    );
    assert_eq!(history.point("a", "val", None, true).unwrap(), Some(point("a", "val", 1, 3)));
}

pub fn a_matrix_of_112_concepts_is_read_back_exactly(history: &dyn Store) {
    history.record_run(&run("cub", 112), &Identity::default(), 0.0).unwrap();
    history.record_point(&point("cub", "val", 5, 112), None).unwrap();
    let found = history.matrix("cub", "val", "icl", None).unwrap().unwrap();
    assert_eq!((found.step, found.concepts.len(), found.matrix.len()), (5, 112, 112));
    assert_eq!(found.matrix[0][0], None);
    assert_eq!(found.matrix[111][3], Some((111 * 112 + 3) as f64 / 8.0));
    assert_eq!(history.matrix("cub", "val", "ctl", None).unwrap(), None);
    assert_eq!(history.matrix("cub", "val", "icl", Some(4)).unwrap(), None);
}

pub fn a_complete_point_is_never_replaced_by_a_lesser_one_whatever_the_order(history: &dyn Store) {
    let as_of = |time: f64, provisional: bool, incomplete: bool, rows_seen: u64| Point {
        time,
        provisional,
        incomplete,
        rows_seen,
        ..point("r", "val", 1, 2)
    };
    // From the least to the most complete. The last two are equally complete: the later arrival is kept.
    let ranked = [
        as_of(1.0, true, true, 10),
        as_of(2.0, true, false, 10),
        as_of(3.0, true, false, 20),
        as_of(4.0, false, true, 10),
        as_of(5.0, false, true, 20),
        as_of(6.0, false, false, 30),
        as_of(7.0, false, false, 20),
    ];
    history.record_run(&run("r", 2), &Identity::default(), 0.0).unwrap();
    let kept = |order: &[usize]| {
        // A split of its own for each order.
        let split = format!("{order:?}");
        let arriving = |at: usize| Point { split: split.as_str().into(), ..ranked[at].clone() };
        for &at in order {
            let before = history.point("r", &split, Some(1), true).unwrap();
            match history.record_point(&arriving(at), None).unwrap() {
                Recorded::Stored => {
                    assert_eq!(history.point("r", &split, Some(1), true).unwrap().unwrap(), arriving(at))
                }
                Recorded::Waiting => panic!("a history in memory can always be written"),
                Recorded::Outranked { time } => {
                    assert_eq!(history.point("r", &split, Some(1), true).unwrap(), before);
                    assert_eq!(Some(time), before.map(|point| point.time));
                }
            }
        }
        history.point("r", &split, Some(1), false).unwrap().unwrap().time
    };
    // What happens depends on the point that is kept and the one that comes, so any three in every order show it.
    for first in 0..ranked.len() {
        for second in (0..ranked.len()).filter(|second| *second != first) {
            for third in (0..ranked.len()).filter(|third| ![first, second].contains(third)) {
                let order = [first, second, third];
                let complete = order.iter().rev().find(|&&point| point >= 5);
                let most = complete.or(order.iter().max()).unwrap();
                assert_eq!(kept(&order), ranked[*most].time, "{order:?}");
            }
        }
    }
}

pub fn a_complete_point_is_that_of_the_attempt_that_made_it(history: &dyn Store) {
    history.record_run(&run("r", 2), &Identity::default(), 0.0).unwrap();
    let [first, second] = [0, 1].map(|restart| Attempt { launch: 0, restart });
    let complete =
        |history: &dyn Store, attempt| history.has_complete_point("r", "val", 1, attempt, Default::default()).unwrap();
    history.record_point(&point("r", "val", 1, 2), Some(first)).unwrap();
    assert!(!complete(history, first), "the point is incomplete");
    history.record_point(&Point { incomplete: false, ..point("r", "val", 1, 2) }, Some(first)).unwrap();
    assert!(complete(history, first) && !complete(history, second));
    history.record_point(&point("r", "val", 1, 2), Some(second)).unwrap();
    assert!(complete(history, first) && !complete(history, second), "each has its own");
    history.record_point(&Point { incomplete: false, ..point("r", "val", 1, 2) }, Some(second)).unwrap();
    assert!(complete(history, first) && complete(history, second));
    let lesser = history.record_point(&point("r", "val", 1, 2), Some(second)).unwrap();
    assert!(matches!(lesser, Recorded::Outranked { .. }), "{lesser:?}");
    let lesser = history.record_point(&point("r", "val", 1, 2), Some(first)).unwrap();
    assert!(matches!(lesser, Recorded::Outranked { .. }), "also in a branch that was left: {lesser:?}");
    assert!(history.has_complete_point("none", "val", 1, first, Default::default()).is_err());
}

pub fn points_beyond_the_step_that_a_later_attempt_returned_to_are_superseded(history: &dyn Store) {
    history.record_run(&run("a", 3), &Identity::default(), 1.0).unwrap();
    let [first, second] = [0, 1].map(|launch| Some(Attempt { launch, restart: 0 }));
    for step in [10, 20, 30, 40] {
        history.record_point(&point("a", "val", step, 3), first).unwrap();
    }
    let superseded = |from| {
        let points = history.series("a", "val", "ctl", None, from, None).unwrap();
        points.into_iter().filter(|point| point.superseded).map(|point| point.step).collect::<Vec<_>>()
    };
    assert!(superseded(0).is_empty());
    // It resumes from a checkpoint of step 20.
    history.record_point(&point("a", "val", 25, 3), second).unwrap();
    assert_eq!(superseded(0), [30, 40]);
    assert_eq!(superseded(40), [40]);
    assert_eq!(history.newest_steps("a", "val", 9).unwrap(), [10, 20, 25]);
    history.record_point(&point("a", "val", 30, 3), second).unwrap();
    history.record_point(&point("a", "val", 50, 3), second).unwrap();
    assert_eq!(superseded(0), [30, 40], "they stay beside those of the new branch");
    let points = history.series("a", "val", "icl", Some("concept 0"), 25, Some(40)).unwrap();
    let seen = points.iter().map(|point| (point.step, point.superseded, point.attempt)).collect::<Vec<_>>();
    let by = |launch| (Some(launch), Some(0));
    assert_eq!(seen, [(25, false, by(1)), (30, false, by(1)), (30, true, by(0)), (40, true, by(0))]);
}

pub fn of_evaluations_of_one_step_the_newest_is_current(history: &dyn Store) {
    history.record_run(&run("a", 3), &Identity::default(), 1.0).unwrap();
    let (first, second) = (Attempt::default(), Attempt { launch: 0, restart: 1 });
    let record = |step, ordinal, incomplete, attempt| {
        let (ordinal, time) = (Ordinal::stated(ordinal), f64::from(10 + ordinal));
        let made = Point { ordinal, incomplete, time, ..point("a", "val", step, 3) };
        history.record_point(&made, Some(attempt)).unwrap()
    };
    let stored = |step| {
        let (points, _) = history.whole_points("a", "val", step, 1, false).unwrap();
        points.iter().map(|whole| (whole.point.ordinal.get(), whole.superseded)).collect::<Vec<_>>()
    };
    let complete = |ordinal| history.has_complete_point("a", "val", 5, first, Ordinal::stated(ordinal)).unwrap();
    for ordinal in [1, 2] {
        assert_eq!(record(5, ordinal, false, first), Recorded::Stored);
    }
    assert_eq!(stored(5), [(2, false), (1, true)]);
    assert_eq!(history.point("a", "val", Some(5), false).unwrap().unwrap().ordinal.get(), 2);
    // The older one is stored again, as when slow scores join it.
    assert_eq!(record(5, 1, false, first), Recorded::Stored);
    assert_eq!(stored(5), [(2, false), (1, true)]);
    assert_eq!(record(5, 3, true, first), Recorded::Outranked { time: 12.0 }, "the newest is not complete");
    assert_eq!([complete(1), complete(2), complete(3)], [true, true, false]);
    // In any order; and what is incomplete gives way to what is complete.
    for (step, order) in [(6, [(2, false), (1, false)]), (7, [(1, true), (2, false)]), (8, [(2, true), (1, false)])] {
        for (ordinal, incomplete) in order {
            assert_eq!(record(step, ordinal, incomplete, first), Recorded::Stored);
        }
    }
    assert_eq!(
        [stored(6), stored(7), stored(8)],
        [[(2, false), (1, true)], [(2, false), (1, true)], [(1, false), (2, true)]]
    );
    let series = history.series("a", "val", "icl", None, 6, Some(6)).unwrap();
    assert_eq!(series.iter().map(|point| point.ordinal.get()).collect::<Vec<_>>(), [2, 1]);
    // A later attempt counts for itself.
    assert_eq!(record(5, 1, false, second), Recorded::Stored);
    assert_eq!(stored(5)[0], (1, false));
    assert_eq!(stored(5).len(), 3);
}

pub fn conclusions_rest_on_the_newest_branch_alone(history: &dyn Store) {
    history.record_run(&run("a", 3), &Identity::default(), 1.0).unwrap();
    let attempts = [(0, 0), (0, 1), (1, 0)].map(|(launch, restart)| Some(Attempt { launch, restart }));
    let made = |split: &str, step, attempt: usize| Point {
        rows: 100 + attempt as u64,
        provisional: false,
        ..point("a", split, step, 3)
    };
    // The branches of a run that was restarted at step 20 and resumed at step 30. Whatever the order of arrival:
    let points = [(10, 0), (20, 0), (30, 0), (40, 0), (20, 1), (30, 1), (40, 1), (50, 1), (30, 2), (40, 2)];
    for (split, skip) in [("val", 1), ("test", 3), ("other", 7), ("last", 9)] {
        for (step, attempt) in (0..points.len()).map(|at| points[at * skip % points.len()]) {
            let stored = history.record_point(&made(split, step, attempt), attempts[attempt]).unwrap();
            assert_eq!(stored, Recorded::Stored);
        }
        let of_branch = |point: &Point| (point.step, point.rows - 100);
        let newest = [(10, 0), (20, 1), (30, 2), (40, 2)];
        let evaluations = history.evaluations("a", split, 9).unwrap();
        assert_eq!(evaluations.iter().map(of_branch).collect::<Vec<_>>(), newest, "{split}");
        let many = history.evaluations_of(&["a"], split, 9).unwrap().remove("a").unwrap();
        assert_eq!(many.iter().map(of_branch).collect::<Vec<_>>(), newest, "{split}");
        assert_eq!(history.newest_steps("a", split, 2).unwrap(), [30, 40]);
        assert_eq!(history.common_steps("a", split, split, 9).unwrap(), [10, 20, 30, 40]);
        assert_eq!(of_branch(&history.point("a", split, None, false).unwrap().unwrap()), (40, 2));
        assert_eq!(of_branch(&history.point("a", split, Some(20), false).unwrap().unwrap()), (20, 1));
        assert_eq!(history.point("a", split, Some(50), false).unwrap(), None);
        assert_eq!(history.matrix("a", split, "icl", None).unwrap().unwrap().step, 40);
        let listed = history.splits("a").unwrap().into_iter().find(|listed| listed.split == split).unwrap();
        assert_eq!((listed.points, listed.last_step), (4, 40));
        // All points are still stored.
        let (whole, _) = history.whole_points("a", split, 0, 99, true).unwrap();
        let mut all: Vec<_> = whole.iter().map(|whole| (of_branch(&whole.point), whole.superseded)).collect();
        assert!(all.is_sorted_by_key(|((step, _), superseded)| (*step, *superseded)), "{all:?}");
        all.sort_by_key(|((step, attempt), _)| (*attempt, *step));
        let expected =
            points.map(|(step, attempt)| ((step, attempt as u64), !newest.contains(&(step, attempt as u64))));
        assert_eq!(all, expected, "{split}");
    }
    // A pass without a point in the newest branch is listed as such.
    let unscored = |attempt: usize| Unscored {
        run: "a".into(),
        split: "val".into(),
        step: 50,
        ordinal: Default::default(),
        time: 9.0,
        outcome: Ending::Failed,
        reason: "worker lost".into(),
        rows_seen: 0,
        attempt: attempts[attempt],
    };
    history.record_unscored(&[unscored(2)]).unwrap();
    assert_eq!(history.unscored("a", "val").unwrap(), [unscored(2)]);
    // A late point of an older branch does not change that.
    history.record_point(&made("val", 50, 0), attempts[0]).unwrap();
    assert_eq!(history.unscored("a", "val").unwrap(), [unscored(2)]);
}

pub fn a_point_whose_attempt_is_unknown_belongs_to_the_branch_of_its_time(history: &dyn Store) {
    history.record_run(&run("a", 3), &Identity::default(), 1.0).unwrap();
    let at = |step, time| Point { time, incomplete: false, ..point("a", "val", step, 3) };
    let named = Some(Attempt::default());
    let seen = || {
        let points = history.series("a", "val", "icl", None, 0, None).unwrap();
        points.iter().map(|point| (point.step, point.time, point.superseded)).collect::<Vec<_>>()
    };
    for (step, time) in [(10, 1.0), (20, 2.0), (30, 3.0)] {
        history.record_point(&at(step, time), None).unwrap();
    }
    // A named job resumes at step 20.
    history.record_point(&at(20, 4.0), named).unwrap();
    assert_eq!(seen(), [(10, 1.0, false), (20, 4.0, false), (20, 2.0, true), (30, 3.0, true)]);
    // Points of no known attempt continue it.
    history.record_point(&at(30, 5.0), None).unwrap();
    history.record_point(&at(20, 6.0), None).unwrap();
    let now = [(10, 1.0, false), (20, 6.0, false), (20, 2.0, true), (30, 5.0, false), (30, 3.0, true)];
    assert_eq!(seen(), now);
}

pub fn whole_points_come_in_order_and_in_parts(history: &dyn Store) {
    history.record_run(&run("a", 3), &Identity::default(), 1.0).unwrap();
    let [first, second] = [0, 1].map(|launch| Some(Attempt { launch, restart: 2 }));
    for step in [10, 20, 30] {
        history.record_point(&point("a", "val", step, 3), first).unwrap();
    }
    history.record_point(&point("a", "val", 15, 3), second).unwrap();
    let whole = |step, attempt, superseded| WholePoint { point: point("a", "val", step, 3), attempt, superseded };
    let (points, next) = history.whole_points("a", "val", 0, 3, true).unwrap();
    assert_eq!(
        (points, next),
        (vec![whole(10, first, false), whole(15, second, false), whole(20, first, true)], Some(30))
    );
    let (points, next) = history.whole_points("a", "val", 30, 3, false).unwrap();
    assert_eq!((points[0].superseded, next), (true, None));
    assert_eq!(points[0].point, point("a", "val", 30, 3).without_matrices());
    // An answer ends with a whole step, including all its branches.
    history.record_point(&point("a", "val", 20, 3), second).unwrap();
    let parts = |most| {
        let (mut parts, mut next) = (Vec::new(), Some(0));
        while let Some(first) = next {
            let (points, after) = history.whole_points("a", "val", first, most, true).unwrap();
            parts.push(points.iter().map(|whole| (whole.point.step, whole.superseded)).collect::<Vec<_>>());
            next = after;
        }
        parts
    };
    let (ten, fifteen, now, before, thirty) = ((10, false), (15, false), (20, false), (20, true), (30, true));
    assert_eq!(parts(1), [vec![ten], vec![fifteen], vec![now, before], vec![thirty]]);
    assert_eq!(parts(3), [vec![ten, fifteen, now, before], vec![thirty]]);
    assert_eq!(parts(9), [vec![ten, fifteen, now, before, thirty]]);
    assert_eq!(history.whole_points("a", "other", 0, 3, true).unwrap(), (Vec::new(), None));
}

pub fn a_point_is_read_back_to_the_bit(history: &dyn Store) {
    let awkward = [0.1 + 0.2, f64::MIN_POSITIVE / 8.0, 1.797e308, -1.5e-300, 1.0 / 3.0];
    history.record_run(&run("a", 5), &Identity::default(), 0.0).unwrap();
    let mut point = Point {
        epoch: Some(0.1 + 0.7),
        time: 1.0e9 + 1.0 / 3.0,
        tie_fraction: 1.0 / 7.0,
        seconds: f64::MIN_POSITIVE,
        warnings: vec!["λ \"quoted\"\n\\".into()],
        change_errors: vec![("icl".into(), 0.1 + 0.2)],
        ..point("a", "val", 10, 5)
    };
    let cells: Vec<Option<f64>> = awkward.iter().map(|cell| Some(*cell)).collect();
    for (at, (_, outcome)) in point.scores.iter_mut().enumerate() {
        if let Outcome::Value(value) = outcome {
            value.value = awkward[at];
            value.standard_error = Some(awkward[at + 1]);
            value.per_concept = Some(cells.clone());
            value.per_concept_q = Some(vec![None, Some(0.1), None, None, Some(1.0 / 3.0)]);
            value.curve = Some(vec![(1.0 / 3.0, None), (2.0 / 3.0, Some(0.1 + 0.2))]);
            value.p_value = Some(1.0 / 3.0);
            // Cells are stored as float32.
            value.matrix = Some(vec![vec![Some(f64::from(0.1_f32)), None, None, Some(0.0), Some(1.0)]; 5]);
            value.ages = Some(vec![vec![f64::from(1.1_f32); 5]; 5]);
        }
    }
    history.record_point(&point, None).unwrap();
    // Written out, numbers of other bits differ.
    let read = history.point("a", "val", Some(10), true).unwrap().unwrap();
    assert_eq!(format!("{read:?}"), format!("{point:?}"));
    let series = history.series("a", "val", "icl", Some("concept 0"), 0, None).unwrap();
    assert_eq!(series[0].value.map(f64::to_bits), Some(awkward[0].to_bits()));
}
