use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use super::*;
use crate::history::{Cursor, Dropped, Ending, Limits, MAX_NOTE, UNSCORED_PER_RUN};
use crate::point::{LeftOut, Outcome, Point, ScoreValue, Undefined};
use crate::run::{Concept, Run, RunFields};
use crate::sample::Attempt;
use crate::search::Search;
use crate::step::Rank;

const ROOMY: Limits = Limits { bytes: 1 << 30 };

fn run(name: &str, k: usize) -> Run {
    let concepts = (0..k).map(|i| Concept { name: format!("concept {i}"), cardinality: 2 }).collect();
    Run::try_from(RunFields { name: name.into(), concepts, ..RunFields::default() }).unwrap()
}

/// A point with a plain score, one per concept, one with a matrix and an undefined one.
fn point(run: &str, split: &str, step: u64, k: usize) -> Point {
    let cell = |i: usize, j: usize| (i != j).then_some((i * k + j) as f64 / 8.0);
    let matrix = (0..k).map(|i| (0..k).map(|j| cell(i, j)).collect()).collect();
    let per_concept = (0..k).map(|i| (i != 1).then_some(0.1 * i as f64 + step as f64)).collect();
    Point {
        run: run.into(),
        split: split.into(),
        step,
        epoch: Some(step as f64 / 10.0),
        time: 1e9 + step as f64,
        rows: 4096,
        concept_rows: (0..k as u64).map(|i| 4096 - i).collect(),
        rows_seen: 5000,
        provisional: false,
        incomplete: true,
        tie_fraction: 0.46,
        warnings: vec!["half precision".into()],
        estimator: "tie_aware".into(),
        neighbours: 3,
        seed: u64::MAX,
        catalogue_version: 7,
        seconds: 0.25,
        scores: vec![
            ("task_accuracy".into(), Outcome::Value(ScoreValue { value: 0.9, ..ScoreValue::default() })),
            (
                "icl".into(),
                Outcome::Value(ScoreValue {
                    value: 0.1 + step as f64,
                    standard_error: Some(0.01),
                    per_concept: Some(per_concept),
                    matrix: Some(matrix),
                    curve: Some(vec![(0.0, Some(0.5)), (0.25, None), (0.5, Some(-1.0))]),
                    age: Some(22.5),
                    ages: Some((0..k).map(|i| (0..k).map(|j| i.abs_diff(j) as f64 * 7.5).collect()).collect()),
                    left_out: Some(left_out(k)),
                    p_value: Some(0.005),
                    per_concept_q: Some((0..k).map(|i| (i != 1).then_some(0.25)).collect()),
                    matrix_q: Some(vec![vec![Some(0.5); k]; k]),
                }),
            ),
            (
                "ctl".into(),
                Outcome::Undefined(Undefined {
                    why: "one class".into(),
                    left_out: Some(LeftOut { pairs: 0, ..left_out(k) }),
                    per_concept_q: Some(vec![None; k]),
                    ..Undefined::default()
                }),
            ),
        ],
        change_errors: vec![("icl".into(), 0.25), ("ctl".into(), 0.125)],
    }
}

fn left_out(k: usize) -> LeftOut {
    LeftOut { concepts: vec![1], pairs: 2 * k as u64 - 2, of: k as u32, why: "labels: one class".into() }
}

fn without_matrices(mut point: Point) -> Point {
    for (_, outcome) in &mut point.scores {
        if let Outcome::Value(value) = outcome {
            value.matrix = None;
            value.ages = None;
            value.matrix_q = None;
        }
    }
    point
}

fn memory() -> Sqlite {
    Sqlite::open(None, ROOMY).unwrap()
}

fn steps(history: &Sqlite, run: &str, split: &str) -> Vec<u64> {
    history.series(run, split, "icl", None, 0, None).unwrap().iter().map(|point| point.step).collect()
}

#[test]
fn points_survive_reopening_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("made/on the way");
    let history = Sqlite::open(Some(&path), ROOMY).unwrap();
    assert!(!history.record_run(&run("a", 4), &Identity::default(), 5.0).unwrap().resumed);
    history.record_point(&point("a", "val", 10, 4), None).unwrap();
    history.finish_run("a", 9.0).unwrap();
    drop(history);

    let history = Sqlite::open(Some(&path), ROOMY).unwrap();
    assert_eq!(
        history.runs().unwrap(),
        [StoredRun { run: run("a", 4), started: 5.0, finished: Some(9.0), title: None, note: None }]
    );
    assert_eq!(history.point("a", "val", None, true).unwrap(), Some(point("a", "val", 10, 4)));
    assert_eq!(history.point("a", "val", Some(10), false).unwrap(), Some(without_matrices(point("a", "val", 10, 4))));
    assert_eq!(history.point("a", "val", Some(11), true).unwrap(), None);
    let again = history.record_run(&run("a", 4), &Identity::default(), 20.0).unwrap();
    assert_eq!((again.resumed, again.started, again.continues), (true, 5.0, false), "it had finished");
    assert_eq!(history.runs().unwrap()[0].finished, None);
}

#[test]
fn evaluations_are_the_newest_finished_points_without_matrices() {
    let history = memory();
    history.record_run(&run("a", 3), &Identity::default(), 0.0).unwrap();
    for step in [1, 4, 2, 3] {
        history.record_point(&point("a", "val", step, 3), None).unwrap();
    }
    history.record_point(&Point { provisional: true, ..point("a", "val", 5, 3) }, None).unwrap();
    let found = history.evaluations("a", "val", 2).unwrap();
    assert_eq!(found, [3, 4].map(|step| without_matrices(point("a", "val", step, 3))));
    assert_eq!(history.evaluations("a", "val", usize::MAX).unwrap().len(), 4);
    assert!(history.evaluations("a", "test", 2).unwrap().is_empty());
    assert!(history.evaluations("b", "val", 2).is_err());
}

#[test]
fn common_steps_are_those_that_both_splits_have_finished() {
    let history = memory();
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

#[test]
fn the_newest_steps_are_in_ascending_order() {
    let history = memory();
    history.record_run(&run("a", 3), &Identity::default(), 0.0).unwrap();
    for step in [4, 1, 3, 2] {
        history.record_point(&point("a", "val", step, 3), None).unwrap();
    }
    assert_eq!(history.newest_steps("a", "val", 3).unwrap(), [2, 3, 4]);
    assert!(history.newest_steps("a", "test", 3).unwrap().is_empty());
    assert!(history.newest_steps("b", "val", 3).is_err());
}

#[test]
fn a_step_passed_again_replaces_its_point() {
    let history = memory();
    history.record_run(&run("a", 3), &Identity::default(), 0.0).unwrap();
    for step in [1, 2, 3, 2] {
        history.record_point(&point("a", "val", step, 3), None).unwrap();
    }
    let mut again = point("a", "val", 2, 3);
    again.scores.truncate(1);
    history.record_point(&again, None).unwrap();
    assert_eq!(history.point("a", "val", Some(2), true).unwrap(), Some(again));
    assert_eq!(steps(&history, "a", "val"), [1, 3]);
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

#[test]
fn a_declaration_does_not_change() {
    let history = memory();
    let mut fields = (*run("a", 3)).clone();
    fields.labels.insert("lambda".into(), "5".into());
    fields.constants.reference_task_accuracy = Some(0.1 + 0.2);
    let declared = |fields: &RunFields| Run::try_from(fields.clone()).unwrap();
    history.record_run(&declared(&fields), &Identity::default(), 0.0).unwrap();
    assert!(history.record_run(&declared(&fields), &Identity::default(), 1.0).unwrap().resumed);

    type Change = fn(&mut RunFields);
    let changes: [(&str, Change); 5] = [
        ("run.concepts", |f| drop(f.concepts.pop())),
        ("run.concepts[1].name", |f| f.concepts[1].name = "other".into()),
        ("run.labels.lambda", |f| f.labels.clear()),
        ("run.constants.reference_task_accuracy", |f| f.constants.reference_task_accuracy = Some(0.3)),
        ("run.activation_kind", |f| f.activation_kind = crate::run::ActivationKind::Logit),
    ];
    for (expected, change) in changes {
        let mut other = fields.clone();
        change(&mut other);
        match history.record_run(&declared(&other), &Identity::default(), 2.0) {
            Err(HistoryError::DeclarationDiffers { run, field, stored, came }) => {
                assert_eq!((run.as_str(), field.as_str()), ("a", expected));
                assert_ne!(stored, came);
            }
            other => panic!("{expected}: {other:?}"),
        }
    }

    let ranks = RunFields { world_size: 2, ..fields };
    assert!(
        history.record_run(&declared(&ranks), &Identity::default(), 3.0).unwrap().resumed,
        "a job may restart with more ranks"
    );
    assert_eq!(history.runs().unwrap()[0].run.world_size, 2);
}

#[test]
fn a_series_is_ordered_and_bounded_by_steps() {
    let history = memory();
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
    assert!(matches!(history.finish_run("b", 1.0), Err(HistoryError::Unknown { what: "run", .. })));
}

#[test]
fn hostile_names_are_data() {
    let history = memory();
    history.record_run(&run("a", 1), &Identity::default(), 0.0).unwrap();
    let hostile = ["'; DROP TABLE point; --", "\" OR 1=1", "%", "_", "\0", "../../etc/passwd", "ü\u{202e}", ""];
    for split in hostile {
        let mut point = point("a", split, 1, 1);
        point.scores.push((split.to_owned(), Outcome::undefined(split)));
        history.record_point(&point, None).unwrap();
        assert_eq!(history.point("a", split, None, true).unwrap(), Some(point), "{split:?}");
        assert_eq!(history.series("a", split, split, None, 0, None).unwrap().len(), 1, "{split:?}");
        assert!(history.series(split, "val", "icl", None, 0, None).is_err(), "{split:?}");
    }
    assert_eq!(history.splits("a").unwrap().len(), hostile.len());
}

#[test]
fn numbers_that_are_not_finite_are_absent() {
    let history = memory();
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

#[test]
fn a_point_of_the_wrong_shape_leaves_the_old_one_whole() {
    let history = memory();
    history.record_run(&run("a", 3), &Identity::default(), 0.0).unwrap();
    history.record_point(&point("a", "val", 1, 3), None).unwrap();
    let refused = history.record_point(&point("a", "val", 1, 4), None);
    assert!(matches!(refused, Err(HistoryError::Invalid { field, .. }) if field == "scores.icl.per_concept"));
    let mut large = point("a", "val", 1, 3);
    large.step = u64::MAX;
    assert!(
        matches!(history.record_point(&large, None), Err(HistoryError::Invalid { field, .. }) if field == "point.step")
    );
    assert_eq!(history.point("a", "val", None, true).unwrap(), Some(point("a", "val", 1, 3)));
}

#[test]
fn a_matrix_of_112_concepts_is_read_back_exactly() {
    let history = memory();
    history.record_run(&run("cub", 112), &Identity::default(), 0.0).unwrap();
    history.record_point(&point("cub", "val", 5, 112), None).unwrap();
    let found = history.matrix("cub", "val", "icl", None).unwrap().unwrap();
    assert_eq!((found.step, found.concepts.len(), found.matrix.len()), (5, 112, 112));
    assert_eq!(found.matrix[0][0], None);
    assert_eq!(found.matrix[111][3], Some((111 * 112 + 3) as f64 / 8.0));
    assert_eq!(history.matrix("cub", "val", "ctl", None).unwrap(), None);
    assert_eq!(history.matrix("cub", "val", "icl", Some(4)).unwrap(), None);
}

fn fill_past_the_limit(directory: Option<&Path>) {
    let limits = Limits { bytes: 2 << 20 };
    let history = Sqlite::open(directory, limits).unwrap();
    history.record_run(&run("old", 1), &Identity::default(), 0.0).unwrap();
    history.finish_run("old", 1.0).unwrap();
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
    history.record_run(&run("old", 1), &Identity::default(), 0.0).unwrap();
    history.finish_run("old", 1.0).unwrap();
    history.record_run(&run("a", 2), &Identity::default(), 0.0).unwrap();
    for step in 0..3 {
        history.record_point(&point("a", "val", step, 2), None).unwrap();
        assert_eq!(history.point("a", "val", None, true).unwrap(), Some(point("a", "val", step, 2)));
    }
    assert_eq!(history.usage().unwrap().dropped, Dropped { matrices: 2, points: 2, runs: 1, unscored: 0 });
}

#[test]
fn readers_and_writers_share_the_history() {
    let directory = tempfile::tempdir().unwrap();
    let history = Arc::new(Sqlite::open(Some(directory.path()), ROOMY).unwrap());
    history.record_run(&run("a", 2), &Identity::default(), 0.0).unwrap();
    std::thread::scope(|scope| {
        for split in ["train", "val"] {
            let history = history.clone();
            scope.spawn(move || {
                for step in 0..40 {
                    history.record_point(&point("a", split, step, 2), None).unwrap();
                }
            });
        }
        for _ in 0..2 {
            let history = history.clone();
            scope.spawn(move || {
                let mut longest = 0;
                while longest < 40 {
                    let found = steps(&history, "a", "val");
                    assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>(), "no gap is ever seen");
                    assert!(found.len() >= longest);
                    longest = found.len();
                }
            });
        }
    });
    assert_eq!(steps(&history, "a", "train").len(), 40);
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Sqlite::open(Some(&file.join("under")), ROOMY).err().unwrap();
    assert!(matches!(&error, HistoryError::Directory { .. }), "{error}");
    assert!(error.to_string().contains("file/under"), "{error}");
    // SQLite cannot open a directory that has the file's name.
    std::fs::create_dir(directory.path().join(FILE_NAME)).unwrap();
    let error = Sqlite::open(Some(directory.path()), ROOMY).err().unwrap();
    assert!(matches!(error, HistoryError::Unwritable { .. }), "{error}");
}

#[test]
fn foreign_files_are_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(FILE_NAME);
    let text = "not a database, but long enough to be read as the header of one: ".repeat(20);
    std::fs::write(&file, &text).unwrap();
    let error = Sqlite::open(Some(directory.path()), ROOMY).err().unwrap();
    assert!(matches!(error, HistoryError::NotHistory { .. }), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);

    std::fs::remove_file(&file).unwrap();
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let error = Sqlite::open(Some(directory.path()), ROOMY).err().unwrap();
    assert!(matches!(error, HistoryError::NotHistory { .. }), "{error}");
    Connection::open(&file).unwrap().execute_batch("SELECT x FROM theirs").unwrap();
}

#[test]
fn a_history_of_an_older_schema_is_migrated() {
    let without_ages = "ALTER TABLE value DROP COLUMN age; ALTER TABLE matrix DROP COLUMN ages;";
    let without_errors = "ALTER TABLE point DROP COLUMN change_errors; ALTER TABLE value DROP COLUMN curve;";
    let without_launches = "ALTER TABLE run DROP COLUMN declared_name; DROP TABLE launch;";
    let without_left_out = "ALTER TABLE point DROP COLUMN concept_rows; ALTER TABLE value DROP COLUMN left_out; \
                            ALTER TABLE value DROP COLUMN p_value; ALTER TABLE value DROP COLUMN per_concept_q; \
                            ALTER TABLE matrix DROP COLUMN cells_q;";
    let without_seals = "ALTER TABLE run DROP COLUMN checksum; ALTER TABLE point DROP COLUMN launch; \
                         ALTER TABLE point DROP COLUMN restart; ALTER TABLE point DROP COLUMN scores; \
                         ALTER TABLE point DROP COLUMN checksum; ALTER TABLE value DROP COLUMN checksum; \
                         ALTER TABLE matrix DROP COLUMN checksum; DROP TABLE rank; DROP TABLE unscored;";
    let without_remarks = "DROP TABLE remark; DROP INDEX run_started;";
    let (errors, ages) = (point("r", "val", 1, 2).change_errors, vec![vec![0.0, 7.5], vec![7.5, 0.0]]);
    let older = [
        (1, vec![without_errors, without_ages, without_launches], Vec::new(), (None, None)),
        (2, vec![without_ages, without_launches], errors.clone(), (None, None)),
        (3, vec![without_launches], errors.clone(), (Some(22.5), Some(ages.clone()))),
        (4, vec![], errors.clone(), (Some(22.5), Some(ages.clone()))),
        (5, vec![], errors.clone(), (Some(22.5), Some(ages.clone()))),
        (6, vec![], errors, (Some(22.5), Some(ages))),
    ];
    for (version, undone, errors_then, ages_then) in older {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(FILE_NAME);
        let old = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
        old.record_run(&run("r", 2), &Identity::default(), 1.0).unwrap();
        old.record_point(&point("r", "val", 1, 2), None).unwrap();
        drop(old);
        let without_left_out = if version < 5 { without_left_out } else { "" };
        let without_seals = if version < 6 { without_seals } else { "" };
        let back = format!(
            "{without_remarks} {without_seals} {} {without_left_out} PRAGMA user_version = {version}",
            undone.concat()
        );
        Connection::open(&file).unwrap().execute_batch(&back).unwrap();
        let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
        history.record_point(&point("r", "val", 2, 2), None).unwrap();
        let errors = |step| history.point("r", "val", Some(step), false).unwrap().unwrap().change_errors;
        assert_eq!((errors(1), errors(2)), (errors_then, point("r", "val", 2, 2).change_errors), "schema {version}");
        let ages = |step| {
            let found = history.point("r", "val", Some(step), true).unwrap().unwrap();
            let icl = found.score("icl").unwrap().clone();
            assert_eq!(history.matrix("r", "val", "icl", Some(step)).unwrap().unwrap().ages.as_deref(), icl.ages());
            (icl.age(), icl.ages().map(<[_]>::to_vec))
        };
        assert_eq!(ages(1), ages_then, "schema {version}");
        assert_eq!(ages(2), (Some(22.5), Some(vec![vec![0.0, 7.5], vec![7.5, 0.0]])));
        let old = history.point("r", "val", Some(1), true).unwrap().unwrap();
        let icl = old.score("icl").unwrap();
        if version < 5 {
            assert_eq!((old.concept_rows.len(), icl.left_out(), icl.p_value()), (0, None, None), "schema {version}");
            assert_eq!((icl.per_concept_q(), icl.matrix_q()), (None, None), "schema {version}");
        }
        assert_eq!(history.point("r", "val", Some(2), true).unwrap().unwrap(), point("r", "val", 2, 2));
    }
}

#[test]
fn a_newer_schema_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    drop(Sqlite::open(Some(directory.path()), ROOMY).unwrap());
    let file = directory.path().join(FILE_NAME);
    Connection::open(&file).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = Sqlite::open(Some(directory.path()), ROOMY).err().unwrap();
    assert!(matches!(error, HistoryError::NewerSchema { found: 99, known: 7, .. }), "{error}");
}

#[test]
fn a_second_process_gets_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let first = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    let error = Sqlite::open(Some(directory.path()), ROOMY).err().unwrap();
    assert!(matches!(error, HistoryError::InUse { .. }), "{error}");
    drop(first);
    Sqlite::open(Some(directory.path()), ROOMY).unwrap();
}

#[test]
fn a_full_disk_is_an_error_and_loses_nothing_old() {
    let history = memory();
    history.record_run(&run("a", 64), &Identity::default(), 0.0).unwrap();
    history.record_point(&point("a", "val", 0, 64), None).unwrap();
    history.store().connection.pragma_update(None, "max_page_count", 60).unwrap();
    let error =
        (1..1000).find_map(|step| history.record_point(&point("a", "val", step, 64), None).err().map(|e| (step, e)));
    let (step, error) = error.unwrap();
    assert!(matches!(error, HistoryError::Full), "{error}");
    assert_eq!(steps(&history, "a", "val"), (0..step).collect::<Vec<_>>());
    assert_eq!(history.point("a", "val", Some(0), true).unwrap(), Some(point("a", "val", 0, 64)));
}

/// A power loss leaves a prefix of the log with a torn last frame; the points before it are intact.
#[test]
fn a_torn_log_keeps_the_older_points() {
    let directory = tempfile::tempdir().unwrap();
    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    history.record_run(&run("a", 3), &Identity::default(), 0.0).unwrap();
    let log = format!("{FILE_NAME}-wal");
    let mut written = Vec::new();
    for step in 0..4 {
        history.record_point(&point("a", "val", step, 3), None).unwrap();
        written.push(std::fs::metadata(directory.path().join(&log)).unwrap().len());
    }
    for (kept, length) in [(3, written[3] - 1), (3, written[2] + 100), (2, written[1] + 1), (1, written[0])] {
        let copy = tempfile::tempdir().unwrap();
        for name in [FILE_NAME, &log] {
            std::fs::copy(directory.path().join(name), copy.path().join(name)).unwrap();
        }
        let torn = std::fs::OpenOptions::new().write(true).open(copy.path().join(&log)).unwrap();
        torn.set_len(length).unwrap();
        let found = Sqlite::open(Some(copy.path()), ROOMY).unwrap();
        assert_eq!(steps(&found, "a", "val"), (0..kept).collect::<Vec<_>>());
        assert_eq!(found.point("a", "val", Some(0), true).unwrap(), Some(point("a", "val", 0, 3)));
    }
}

#[test]
fn a_complete_point_is_never_replaced_by_a_lesser_one_whatever_the_order() {
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
    let history = memory();
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
    // Heap's algorithm: every order of arrival.
    let mut order: Vec<usize> = (0..ranked.len()).collect();
    let mut count = vec![0; order.len()];
    let mut at = 0;
    loop {
        let complete = order.iter().rev().find(|&&point| point >= 5).unwrap();
        assert_eq!(kept(&order), ranked[*complete].time, "{order:?}");
        while at < order.len() && count[at] >= at {
            count[at] = 0;
            at += 1;
        }
        if at == order.len() {
            break;
        }
        let other = if at % 2 == 0 { 0 } else { count[at] };
        order.swap(other, at);
        count[at] += 1;
        at = 0;
    }
}

fn unscored(split: &str, step: u64, outcome: Ending) -> Unscored {
    Unscored {
        run: "r".into(),
        split: split.into(),
        step,
        time: 1e9 + step as f64,
        outcome,
        reason: format!("step {step} was not scored"),
        rows_seen: 7,
        attempt: Some(Attempt { launch: 1, restart: 2 }),
    }
}

#[test]
fn what_was_not_scored_is_recorded_until_it_has_a_point() {
    let directory = tempfile::tempdir().unwrap();
    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    history.record_run(&run("r", 2), &Identity::default(), 0.0).unwrap();
    let passes: Vec<_> = (0..100).map(|step| unscored("val", step, Ending::Skipped)).collect();
    assert!(history.record_unscored(&passes).unwrap());
    let other = [
        unscored("test", 3, Ending::Failed),
        unscored("val", 7, Ending::Discarded),
        Unscored { run: "unknown".into(), ..unscored("val", 1, Ending::Skipped) },
        Unscored { attempt: None, ..unscored("val", 200, Ending::Unsettled) },
    ];
    assert!(history.record_unscored(&other).unwrap());
    drop(history);

    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    let mut expected = passes;
    expected[7] = other[1].clone();
    expected.push(other[3].clone());
    assert_eq!(history.unscored("r", "val").unwrap(), expected);
    assert_eq!(history.unscored("r", "test").unwrap(), other[..1]);
    assert_eq!(history.unscored_at("r", "val", 7).unwrap().as_ref(), Some(&other[1]));
    assert_eq!(history.unscored_at("r", "val", 101).unwrap(), None);
    assert!(history.unscored("unknown", "val").is_err());

    history.record_point(&Point { provisional: true, ..point("r", "val", 7, 2) }, None).unwrap();
    assert!(history.unscored_at("r", "val", 7).unwrap().is_some(), "a provisional point is not part of the curve");
    history.record_point(&point("r", "val", 7, 2), None).unwrap();
    assert!(history.unscored_at("r", "val", 7).unwrap().is_none());
    history.record_point(&Point { incomplete: false, ..point("r", "val", 8, 2) }, None).unwrap();
    history.record_unscored(&[unscored("val", 8, Ending::Skipped)]).unwrap();
    assert!(history.unscored_at("r", "val", 8).unwrap().is_none(), "the step has a complete point");
}

#[test]
fn records_of_passes_without_points_are_bounded_for_each_run() {
    let history = memory();
    history.record_run(&run("r", 2), &Identity::default(), 0.0).unwrap();
    let most = UNSCORED_PER_RUN;
    for first in (0..most + 500).step_by(500) {
        let passes: Vec<_> = (first..first + 500).map(|step| unscored("val", step, Ending::Skipped)).collect();
        history.record_unscored(&passes).unwrap();
    }
    let kept: Vec<u64> = history.unscored("r", "val").unwrap().iter().map(|pass| pass.step).collect();
    assert_eq!(kept, (500..most + 500).collect::<Vec<_>>(), "the oldest are removed");
    assert_eq!(history.usage().unwrap().dropped.unscored, 500);
}

#[test]
fn a_complete_point_is_that_of_the_attempt_that_made_it() {
    let history = memory();
    history.record_run(&run("r", 2), &Identity::default(), 0.0).unwrap();
    let [first, second] = [0, 1].map(|restart| Attempt { launch: 0, restart });
    let complete = |history: &Sqlite, attempt| history.has_complete_point("r", "val", 1, attempt).unwrap();
    history.record_point(&point("r", "val", 1, 2), Some(first)).unwrap();
    assert!(!complete(&history, first), "the point is incomplete");
    history.record_point(&Point { incomplete: false, ..point("r", "val", 1, 2) }, Some(first)).unwrap();
    assert!(complete(&history, first) && !complete(&history, second));
    history.record_point(&point("r", "val", 1, 2), Some(second)).unwrap();
    assert!(complete(&history, first) && !complete(&history, second), "it was outranked");
    history.record_point(&Point { incomplete: false, ..point("r", "val", 1, 2) }, Some(second)).unwrap();
    assert!(!complete(&history, first) && complete(&history, second));
    assert!(history.has_complete_point("none", "val", 1, first).is_err());
}

#[test]
fn ranks_that_declared_and_finished_are_known_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    let declared = run("r", 2);
    let declare = |history: &Sqlite, job: &str, restart, rank, client: &str| {
        let rank = Rank::of(rank, 4).unwrap();
        let identity = Identity { job, restart, resume: true, rank, client };
        history.record_run(&declared, &identity, 0.0).unwrap().attempt
    };
    assert_eq!(declare(&history, "", 0, 0, "unnamed"), None);
    assert_eq!(history.ranks("r").unwrap(), []);
    let attempt = declare(&history, "one", 0, 1, "a").unwrap();
    declare(&history, "one", 0, 0, "b");
    history.finish_rank("r", attempt, Rank::of(1, 4).unwrap(), 5.0).unwrap();
    history.finish_rank("r", attempt, Rank::of(3, 4).unwrap(), 5.0).unwrap();
    let two = declare(&history, "two", 0, 3, "c").unwrap();
    drop(history);

    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    let rank = |attempt, rank, client: &str, finished| StoredRank { attempt, rank, client: client.into(), finished };
    let expected = [rank(attempt, 0, "b", false), rank(attempt, 1, "a", true), rank(two, 3, "c", false)];
    assert_eq!(history.ranks("r").unwrap(), expected);
    // A restart begins with no ranks, and late ranks of the earlier attempt change nothing.
    let again = declare(&history, "one", 1, 0, "d").unwrap();
    declare(&history, "one", 0, 1, "late");
    history.finish_rank("r", attempt, Rank::of(0, 4).unwrap(), 6.0).unwrap();
    assert_eq!(history.ranks("r").unwrap(), [rank(again, 0, "d", false), rank(two, 3, "c", false)]);
}

/// Calls until what waits is written.
fn written(history: &Sqlite) -> Vec<Written> {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let written = history.write_waiting();
        if history.waiting().why.is_none() {
            return written;
        }
        assert!(std::time::Instant::now() < patience, "{:?}", history.waiting());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn a_removed_directory_is_noticed_and_everything_is_in_it_again_once_it_is_back() {
    remove_and_bring_back(false);
    remove_and_bring_back(true);
}

fn remove_and_bring_back(on_network: bool) {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("data");
    let history = Sqlite::open(Some(&directory), ROOMY).unwrap();
    if on_network {
        history.store().move_to_network();
    }
    history.record_run(&run("r", 2), &Identity::default(), 0.0).unwrap();
    assert_eq!(history.record_point(&point("r", "val", 1, 2), None).unwrap(), Recorded::Stored);
    std::fs::remove_dir_all(&directory).unwrap();

    let attempt = Some(Attempt { launch: 0, restart: 3 });
    assert_eq!(history.record_point(&point("r", "val", 2, 2), attempt).unwrap(), Recorded::Waiting);
    history.record_run(&run("late", 2), &Identity { job: "j", ..Identity::default() }, 5.0).unwrap();
    assert_eq!(history.record_point(&point("late", "val", 3, 2), None).unwrap(), Recorded::Waiting);
    assert!(!history.record_unscored(&[unscored("val", 9, Ending::Failed)]).unwrap());
    history.finish_run("late", 6.0).unwrap();
    assert_eq!(history.point("late", "val", None, true).unwrap(), Some(point("late", "val", 3, 2)), "readers see it");
    let waiting = history.waiting();
    assert!(waiting.why.as_ref().is_some_and(|why| why.contains("removed while in use")), "{waiting:?}");
    assert_eq!((waiting.entries, waiting.refused), (5, 0));
    assert!(history.write_waiting().is_empty() && !directory.exists(), "it may be where a volume is mounted");

    std::fs::create_dir(&directory).unwrap();
    let reports = written(&history);
    let report =
        |run: &str, step, attempt, ending| Written { run: run.into(), split: "val".into(), step, attempt, ending };
    let record = report("r", 9, Some(Attempt { launch: 1, restart: 2 }), Some(Ending::Failed));
    assert_eq!(reports, [report("r", 2, attempt, None), report("late", 3, None, None), record]);
    assert_eq!(history.waiting(), Waiting::default());
    assert_eq!(history.record_point(&point("r", "val", 4, 2), None).unwrap(), Recorded::Stored);
    drop(history);

    let history = Sqlite::open(Some(&directory), ROOMY).unwrap();
    assert_eq!(steps(&history, "r", "val"), [1, 2, 4]);
    assert_eq!(history.point("late", "val", None, true).unwrap(), Some(point("late", "val", 3, 2)));
    assert_eq!(history.runs().unwrap()[0].finished, Some(6.0));
    assert_eq!(history.unscored("r", "val").unwrap(), [unscored("val", 9, Ending::Failed)]);
}

#[test]
fn a_removed_log_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    history.record_run(&run("r", 2), &Identity::default(), 0.0).unwrap();
    history.record_point(&point("r", "val", 1, 2), None).unwrap();
    std::fs::remove_file(directory.path().join(format!("{FILE_NAME}-wal"))).unwrap();
    assert_eq!(history.record_point(&point("r", "val", 2, 2), None).unwrap(), Recorded::Waiting);
    assert_eq!(written(&history).len(), 1);
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(directory.path()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    assert_eq!(steps(&Sqlite::open(Some(copy.path()), ROOMY).unwrap(), "r", "val"), [1, 2]);
}

#[test]
fn a_history_that_was_replaced_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    history.record_run(&run("r", 2), &Identity::default(), 0.0).unwrap();
    let file = directory.path().join(FILE_NAME);
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "of another").unwrap();
    assert_eq!(history.record_point(&point("r", "val", 1, 2), None).unwrap(), Recorded::Waiting);
    let tries = |history: &Sqlite| history.waiting().why.unwrap_or_default();
    for _ in 0..3 {
        assert!(history.write_waiting().is_empty());
        assert!(tries(&history).contains("replaced by another file"), "{}", tries(&history));
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "of another");
}

#[test]
fn what_waits_is_bounded_and_runs_still_start() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("data");
    let history = Sqlite::open(Some(&directory), ROOMY).unwrap();
    history.record_run(&run("r", 112), &Identity::default(), 0.0).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let refused = (0..).find_map(|step| history.record_point(&point("r", "val", step, 112), None).err()).unwrap();
    assert!(matches!(refused, HistoryError::Unwritten { .. }), "{refused}");
    let waiting = history.waiting();
    assert!(
        waiting.bytes as usize <= MOST_WAITING && waiting.bytes as usize > MOST_WAITING / 2 && waiting.refused == 1
    );
    assert!(history.record_run(&run("next", 2), &Identity::default(), 0.0).is_ok());
    assert_eq!(steps(&history, "r", "val").len() as u64, waiting.entries);
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
            Ok(_) if i % 3 == 0 => history.finish_run(&declared.name, f64::from(i)).unwrap(),
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

#[test]
fn a_point_that_does_not_match_its_checksum_is_left_out() {
    let changes = [
        ("UPDATE point SET tie_fraction = 0.25 WHERE step = 2", true),
        ("UPDATE point SET step = 5 WHERE step = 2", true),
        ("UPDATE point SET checksum = checksum + 1 WHERE step = 2", true),
        ("UPDATE value SET value = 0.5 WHERE score = 'icl' AND point = (SELECT id FROM point WHERE step = 2)", true),
        (
            "UPDATE value SET per_concept = zeroblob(24) WHERE score = 'icl' AND point = (SELECT id FROM point WHERE step = 2)",
            true,
        ),
        ("UPDATE value SET position = 9 WHERE score = 'icl' AND point = (SELECT id FROM point WHERE step = 2)", true),
        ("DELETE FROM value WHERE score = 'icl' AND point = (SELECT id FROM point WHERE step = 2)", true),
        ("UPDATE matrix SET cells = zeroblob(36) WHERE point = (SELECT id FROM point WHERE step = 2)", false),
    ];
    for (change, whole) in changes {
        let history = memory();
        history.record_run(&run("r", 3), &Identity::default(), 0.0).unwrap();
        for step in 0..3 {
            history
                .record_point(&Point { incomplete: false, ..point("r", "val", step, 3) }, Some(Attempt::default()))
                .unwrap();
        }
        history.store().connection.execute(change, []).unwrap();
        let complete = history.has_complete_point("r", "val", 2, Attempt::default()).unwrap();
        assert_eq!(complete, !whole, "{change}");
        let newest = history.point("r", "val", None, true).unwrap().unwrap();
        assert_eq!(newest.step, if whole { 1 } else { 2 }, "{change}");
        if !whole {
            assert_eq!(newest, without_matrices(Point { incomplete: false, ..point("r", "val", 2, 3) }));
        }
        let matrix = history.matrix("r", "val", "icl", None).unwrap().unwrap();
        assert_eq!(matrix.step, if change.contains("value") { 2 } else { 1 }, "{change}: it has a checksum of its own");
        assert_eq!(steps(&history, "r", "val"), if whole { vec![0, 1] } else { vec![0, 1, 2] }, "{change}");
        assert_eq!(history.usage().unwrap().damaged, 1, "{change}");
        assert!(history.unscored("r", "val").unwrap().iter().all(|pass| pass.outcome == Ending::Damaged));
    }
    // A damaged declaration is never continued.
    let history = memory();
    history.record_run(&run("r", 3), &Identity::default(), 0.0).unwrap();
    history.store().connection.execute("UPDATE run SET declaration = replace(declaration, '1', '2')", []).unwrap();
    assert!(history.runs().unwrap().is_empty());
    assert!(matches!(history.point("r", "val", None, false), Err(HistoryError::Unknown { .. })));
    assert_eq!(history.record_run(&run("r", 3), &Identity::default(), 1.0).unwrap().run.name, "r-2");
}

#[test]
fn points_beyond_the_step_that_a_later_attempt_returned_to_are_superseded() {
    let history = memory();
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
    history.record_point(&point("a", "val", 30, 3), second).unwrap();
    history.record_point(&point("a", "val", 50, 3), second).unwrap();
    assert_eq!(superseded(0), [40]);
}

#[test]
fn three_thousand_runs_are_listed_in_pages_counted_and_searched() {
    let history = memory();
    let declare = |name: &str, number: usize| {
        let labels = [("seed".to_owned(), (number % 10).to_string()), ("fold".to_owned(), "a b".to_owned())].into();
        let fields = RunFields { labels, ..RunFields::clone(&run(name, 3)) };
        history.record_run(&Run::try_from(fields).unwrap(), &Identity::default(), (number / 7) as f64).unwrap();
    };
    (0..3000).for_each(|number| declare(&format!("run {number}"), number));
    for step in [10, 20] {
        history.record_point(&point("run 2990", "val", step, 3), None).unwrap();
    }
    history.record_point(&point("run 2990", "train", 5, 3), None).unwrap();
    let all = history.listing(&Wanted::default()).unwrap();
    assert_eq!((all.runs.len(), all.total, all.next), (3000, 3000, None));
    let names = |listing: &Listing| listing.runs.iter().map(|(stored, _)| stored.run.name.clone()).collect::<Vec<_>>();
    let newest_first: Vec<String> = (0..3000).rev().map(|number| format!("run {number}")).collect();
    assert_eq!(names(&all), newest_first);

    // Pages: each run once, also where runs start or are removed meanwhile.
    let (mut paged, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = history.listing(&Wanted { after, most: Some(64), ..Wanted::default() }).unwrap();
        paged.extend(names(&page));
        pages += 1;
        if pages == 3 {
            declare("newest", 1_000_000);
            history.forget_run("run 2990");
            history.remove_run("run 2990").unwrap();
        }
        assert_eq!(page.total, 3000);
        match page.next {
            Some(next) => after = Some(next.to_string().parse().unwrap()),
            None => break,
        }
    }
    assert_eq!((paged, pages), (newest_first, 3000_usize.div_ceil(64)));

    let search = |text: &str| Wanted { search: Search::of(text), most: Some(2), ..Wanted::default() };
    let found = history.listing(&search("run seed>8 fold=a")).unwrap();
    assert_eq!((names(&found), found.total), (vec!["run 2999".to_owned(), "run 2989".to_owned()], 300));
    let next = history.listing(&Wanted { after: found.next, ..search("run seed>8 fold=a") }).unwrap();
    assert_eq!((names(&next), next.total), (vec!["run 2979".to_owned(), "run 2969".to_owned()], 300));
    history.remark("run 7", &Remark { title: Some("the best one".into()), note: None }).unwrap();
    let titled = history.listing(&search("BEST")).unwrap();
    assert_eq!((names(&titled), titled.total, titled.next), (vec!["run 7".to_owned()], 1, None));
    assert!(matches!(history.listed("run 2990"), Err(HistoryError::Unknown { .. })));
    for wrong in ["", "x", "7ff0000000000000-1", "-", "0-"] {
        assert!(wrong.parse::<Cursor>().is_err(), "{wrong}");
    }
}

#[test]
fn splits_are_listed_with_their_run() {
    let history = memory();
    for name in ["a", "b"] {
        history.record_run(&run(name, 2), &Identity::default(), 1.0).unwrap();
    }
    for (split, step) in [("val", 10), ("val", 30), ("train", 5)] {
        history.record_point(&point("a", split, step, 2), None).unwrap();
    }
    let split = |split: &str, points, last_step| StoredSplit { split: split.into(), points, last_step };
    let listing = history.listing(&Wanted::default()).unwrap();
    assert_eq!(listing.runs[0].1, []);
    assert_eq!(listing.runs[1].1, [split("train", 1, 5), split("val", 2, 30)]);
    assert_eq!(history.listed("a").unwrap(), listing.runs[1]);
}

#[test]
fn titles_and_notes_are_kept_and_checked() {
    let directory = tempfile::tempdir().unwrap();
    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    history.record_run(&run("a", 2), &Identity::default(), 1.0).unwrap();
    let set = |history: &Sqlite, title: Option<&str>, note: Option<&str>| {
        history.remark("a", &Remark { title: title.map(str::to_owned), note: note.map(str::to_owned) })
    };
    let said = |history: &Sqlite| {
        let stored = history.runs().unwrap().remove(0);
        (stored.title, stored.note)
    };
    let both = (Some("λ = 1, <b>".to_owned()), Some("two\nlines\tand 🦆".to_owned()));
    set(&history, Some("λ = 1, <b>"), None).unwrap();
    set(&history, None, Some("two\nlines\tand 🦆")).unwrap();
    assert_eq!(said(&history), both);
    drop(history);
    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    assert_eq!(said(&history), both);
    // It resumes, and what is said about it stays.
    history.record_run(&run("a", 2), &Identity::default(), 2.0).unwrap();
    assert_eq!(said(&history), both);
    let (long, longer) = ("x".repeat(MAX_NOTE), "x".repeat(MAX_NOTE + 1));
    for (title, note) in
        [(Some(" \t"), None), (Some("a\nb"), None), (Some(&long[..201]), None), (None, Some("\u{1b}[2J"))]
    {
        assert!(matches!(set(&history, title, note), Err(HistoryError::Invalid { .. })), "{title:?} {note:?}");
    }
    assert!(set(&history, None, Some(&longer)).is_err() && set(&history, None, Some(&long)).is_ok());
    // The name itself is no title, and empty texts take away.
    set(&history, Some("a"), Some("")).unwrap();
    assert_eq!(said(&history), (None, None));
    let unknown = history.remark("b", &Remark::default());
    assert!(matches!(unknown, Err(HistoryError::Unknown { .. })));
    // What was changed behind our back is not shown.
    set(&history, Some("b"), None).unwrap();
    history.store().connection.execute("UPDATE remark SET title = 'c'", []).unwrap();
    assert_eq!(said(&history), (None, None));
    set(&history, None, Some("new")).unwrap();
    assert_eq!(said(&history), (None, Some("new".to_owned())));
    drop(history);
    let repaired = repair(directory.path()).unwrap();
    assert_eq!(repaired.lost, Contents::default());
    assert_eq!(said(&Sqlite::open(Some(directory.path()), ROOMY).unwrap()), (None, Some("new".to_owned())));
}

#[test]
fn a_run_is_removed_whole_unless_it_is_open() {
    let directory = tempfile::tempdir().unwrap();
    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    let job = Identity { job: "job", ..Identity::default() };
    for name in ["a", "b"] {
        history.record_run(&run(name, 4), &job, 1.0).unwrap();
        history.record_point(&point(name, "val", 1, 4), Some(Attempt { launch: 0, restart: 0 })).unwrap();
        history.remark(name, &Remark { note: Some("n".into()), ..Remark::default() }).unwrap();
    }
    assert!(matches!(history.remove_run("a"), Err(HistoryError::Open { run }) if run == "a"));
    history.finish_run("a", 5.0).unwrap();
    history.remove_run("a").unwrap();
    assert!(matches!(history.remove_run("a"), Err(HistoryError::Unknown { .. })));
    let rows = |table: &str| -> i64 {
        let count = format!("SELECT count(*) FROM {table}");
        history.store().connection.query_row(&count, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(["run", "launch", "rank", "point", "value", "matrix", "remark"].map(rows), [1, 1, 1, 1, 3, 1, 1]);
    assert_eq!(history.point("b", "val", None, true).unwrap(), Some(point("b", "val", 1, 4)));
    // Its name is free.
    assert!(!history.record_run(&run("a", 2), &job, 2.0).unwrap().resumed);
    history.finish_run("a", 5.0).unwrap();
    // Resumed, it is open again.
    history.record_run(&run("a", 2), &job, 2.0).unwrap();
    assert!(matches!(history.remove_run("a"), Err(HistoryError::Open { .. })));
    drop(history);
    // A run whose sidecar was killed is not open.
    Sqlite::open(Some(directory.path()), ROOMY).unwrap().remove_run("b").unwrap();
}

#[test]
fn whole_points_come_in_order_and_in_parts() {
    let history = memory();
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
    assert_eq!(points[0].point, without_matrices(point("a", "val", 30, 3)));
    assert_eq!(history.whole_points("a", "other", 0, 3, true).unwrap(), (Vec::new(), None));
}
