//! The size limit: what is removed first, and what never is.

use std::path::Path;

use conceptwatch::history::{Dropped, HistoryError, Identity, Limits, RunOutcome, Sqlite, Store};
use leakage::point::Point;
use leakage::run::Run;
use leakage::sample::Attempt;

use crate::points::point;
use crate::stored::{run, steps};

fn fill_past_the_limit(directory: Option<&Path>) {
    let limits = Limits { bytes: 2 << 20 };
    let history = Sqlite::open(directory, limits).unwrap();
    history.record_run(&run("old", 1), &Identity::default(), 0.0).unwrap();
    history.finish_run("old", 1.0, &RunOutcome::Finished).unwrap();
    history.forget_run("old");
    history.record_run(&run("a", 64), &Identity::default(), 0.0).unwrap();
    for step in 0..200 {
        history.record_point(&point("a", "val", step, 64), None).unwrap();
        assert!(history.usage().unwrap().bytes <= limits.bytes);
    }
    let usage = history.usage().unwrap();
    assert!(usage.dropped.matrices > 0);
    assert_eq!((usage.dropped.points, usage.dropped.runs), (0, 0), "matrices are removed first");
    assert_eq!(steps(&history, "a", "val").len(), 200);
    assert!(history.matrix("a", "val", "icl", Some(0)).unwrap().is_none());
    assert!(history.matrix("a", "val", "icl", Some(199)).unwrap().is_some());

    let mut step = 200;
    while history.usage().unwrap().dropped.points == 0 {
        history.record_point(&point("a", "val", step, 64), None).unwrap();
        step += 1;
    }
    let kept = steps(&history, "a", "val");
    assert!(kept[0] > 0 && kept.last() == Some(&(step - 1)), "the oldest points are removed");
    assert_eq!(kept.len() as u64 + history.usage().unwrap().dropped.points, step);
    assert!(history.usage().unwrap().bytes <= limits.bytes);
}

#[test]
fn the_oldest_points_are_removed_above_the_limit() {
    fill_past_the_limit(None);
    let directory = tempfile::tempdir().unwrap();
    fill_past_the_limit(Some(directory.path()));
}

#[test]
fn the_newest_point_stays_under_any_limit() {
    let history = Sqlite::open(None, Limits { bytes: 0 }).unwrap();
    for name in ["old", "waiting"] {
        history.record_run(&run(name, 1), &Identity::default(), 0.0).unwrap();
        history.finish_run(name, 1.0, &RunOutcome::Finished).unwrap();
    }
    history.forget_run("old");
    history.record_run(&run("a", 2), &Identity::default(), 0.0).unwrap();
    for step in 0..3 {
        history.record_point(&point("a", "val", step, 2), None).unwrap();
        assert_eq!(history.point("a", "val", None, true).unwrap(), Some(point("a", "val", step, 2)));
    }
    assert_eq!(history.usage().unwrap().dropped, Dropped { matrices: 2, points: 2, runs: 1, ..Dropped::default() });
    history.record_point(&point("waiting", "val", 1, 1), None).expect("a run whose evaluations wait stays");
}

#[test]
fn what_a_branch_leaves_behind_is_removed_first() {
    let directory = tempfile::tempdir().unwrap();
    let history = Sqlite::open(Some(directory.path()), Limits { bytes: 1 << 20 }).unwrap();
    history.record_run(&run("r", 2), &Identity::default(), 1.0).unwrap();
    let warnings = vec!["w".repeat(3000)];
    let record = |step, launch| {
        let attempt = Some(Attempt { launch, restart: 0 });
        history.record_point(&Point { warnings: warnings.clone(), ..point("r", "val", step, 2) }, attempt).unwrap();
    };
    (1..=60).for_each(|step| record(step, 0));
    // Each launch returns to step 21.
    for launch in 1..=10 {
        (21..=60).for_each(|step| record(step, launch));
    }
    let (all, _) = history.whole_points("r", "val", 0, 999, false).unwrap();
    let superseded = all.iter().filter(|point| point.superseded).count();
    assert!(history.usage().unwrap().dropped.points > 0 && superseded < 250, "{superseded}");
    let newest = history.newest_steps("r", "val", 999).unwrap();
    assert_eq!(newest, (1..=60).collect::<Vec<u64>>(), "the newest branch is whole");
    assert_eq!(history.usage().unwrap().dropped.matrices, 0);
}

#[test]
fn declarations_never_cost_another_run_its_points() {
    let limits = Limits { bytes: 8 << 20 };
    let history = Sqlite::open(None, limits).unwrap();
    history.record_run(&run("a", 4), &Identity::default(), 0.0).unwrap();
    for step in 0..20 {
        history.record_point(&point("a", "val", step, 4), None).unwrap();
    }
    let mut refused = 0;
    for i in 0..300 {
        let declared = run(&format!("large {i}"), 4096);
        match history.record_run(&declared, &Identity::default(), 1.0) {
            Ok(_) if i % 3 == 0 => {
                history.finish_run(&declared.name, f64::from(i), &RunOutcome::Finished).unwrap();
                history.forget_run(&declared.name);
            }
            Ok(_) => {}
            Err(HistoryError::DeclarationsFull { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        history.record_point(&point("a", "val", 20, 4), None).unwrap();
    }
    assert!(refused > 0, "unfinished runs of this process keep their declaration");
    let usage = history.usage().unwrap();
    assert!(usage.bytes <= limits.bytes && usage.dropped.runs > 0, "{usage:?}");
    assert_eq!((usage.dropped.points, usage.dropped.matrices), (0, 0));
    assert_eq!(steps(&history, "a", "val").len(), 21);
    // Runs whose job died make room once nobody sends to them.
    for stored in history.runs().unwrap() {
        history.forget_run(&stored.run.name);
    }
    history.record_run(&run("next", 4096), &Identity::default(), 2.0).unwrap();
    assert_eq!(steps(&history, "a", "val").len(), 21);
    let mut fields = (*run("too large", 4096)).clone();
    fields.concepts.iter_mut().for_each(|concept| concept.name.push_str(&"ü".repeat(150)));
    let huge = history.record_run(&Run::try_from(fields).unwrap(), &Identity::default(), 3.0);
    assert!(matches!(huge, Err(HistoryError::Invalid { field, .. }) if field == "run"));
}
