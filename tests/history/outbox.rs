//! The outbox: which changes a hub has yet to be told of.

use std::path::Path;

use conceptwatch::history::{
    Change, Ending, Identity, Judgement, Launch, Limits, OutboxUsage, Remark, RunOutcome, Sqlite, Store, Unscored,
};
use leakage::point::{Outcome, Point, ScoreValue, Significance};
use leakage::sample::Attempt;
use tempfile::TempDir;

use crate::points::{LIMITS, change};
use crate::stored::{run, unscored};

const FIRST: Attempt = Attempt { launch: 0, restart: 0 };

fn open(directory: &Path) -> Sqlite {
    let history = Sqlite::open(Some(directory), LIMITS).unwrap();
    history.begin_outbox().unwrap();
    history
}

/// A history whose outbox has the declaration of the run `r` by the job `a`.
fn declared() -> (TempDir, Sqlite) {
    let directory = tempfile::tempdir().unwrap();
    let history = open(directory.path());
    history.record_run(&run("r", 1), &job("a"), 1.0).unwrap();
    (directory, history)
}

fn job(name: &str) -> Identity<'_> {
    Identity { job: name, client: "trainer", ..Identity::default() }
}

fn point(step: u64, value: f64) -> Point {
    let scores = vec![("icl".to_owned(), Outcome::Value(ScoreValue { value, ..ScoreValue::default() }))];
    Point { run: "r".into(), split: "val".into(), step, rows: 9, scores, ..Point::default() }
}

fn skipped(step: u64) -> Unscored {
    Unscored { attempt: Some(FIRST), ..unscored("val", step, Ending::Skipped) }
}

/// Returns the waiting entries, in short.
fn waiting(history: &Sqlite) -> Vec<String> {
    let parcel = history.parcel(usize::MAX).unwrap();
    assert!(parcel.unreadable.is_empty() && parcel.entries.is_sorted_by_key(|entry| entry.number));
    parcel.entries.iter().map(|entry| in_short(&entry.change)).collect()
}

fn in_short(change: &Change) -> String {
    let of = |launch: &Launch| format!("{}.{}", launch.job, launch.restart);
    match change {
        Change::Declare(declared) => format!("declare {} by {}", declared.run.name, of(&declared.launch)),
        Change::FinishRun { run, finished, outcome } => format!("finish {run} at {finished:?}, {outcome:?}"),
        Change::Point(point, by) => {
            let by = by.as_ref().map(of).unwrap_or_default();
            format!("point {} of {} by {by}", point.step, point.score("icl").unwrap().value().unwrap().value)
        }
        Change::Late(point, _) => {
            let late: Vec<&str> = point.scores.iter().map(|(score, _)| score.as_str()).collect();
            format!("late {} of {}", late.join(" and "), point.step)
        }
        Change::Judged(judgement) => {
            format!("judged {} {}", judgement.rule.as_deref().unwrap_or("verdict"), judgement.json)
        }
        Change::Unscored(pass, _) => format!("unscored {}", pass.step),
        Change::Remark { remark, .. } => format!("remark {:?}", remark.title.as_deref().unwrap()),
        Change::RemoveRun(run) => format!("remove {run}"),
    }
}

fn forget_all(history: &Sqlite) {
    let newest = history.outbox_source().unwrap().newest;
    history.forget_entries(newest, &[]).unwrap();
    assert_eq!(history.outbox_usage().unwrap(), OutboxUsage::default());
}

#[test]
fn every_change_is_noted_once_and_in_its_order() {
    let (_directory, history) = declared();
    history.record_run(&run("r", 1), &job("a"), 2.0).unwrap();
    history.record_point(&point(1, 0.5), Some(FIRST)).unwrap();
    history.record_unscored(&[skipped(2)]).unwrap();
    for title in ["one", "two"] {
        history.remark("r", &Remark { title: Some(title.into()), note: None }).unwrap();
    }
    history.finish_run("r", 4.0, &RunOutcome::Finished).unwrap();
    let expected = [
        "declare r by a.0",
        "point 1 of 0.5 by a.0",
        "unscored 2",
        "remark \"two\"",
        "finish r at Some(4.0), Finished",
    ];
    assert_eq!(waiting(&history), expected);
    // Part of it at a time, and never nothing.
    assert_eq!(history.parcel(1).unwrap().entries.len(), 1);
    forget_all(&history);
    // A launch that resumes opens it again.
    history.record_run(&run("r", 1), &Identity { resume: true, ..job("b") }, 5.0).unwrap();
    history.record_run(&run("other", 1), &Identity::default(), 5.0).unwrap();
    assert_eq!(waiting(&history), ["declare r by b.0", "declare other by .0"]);
}

#[test]
fn what_is_replaced_or_removed_before_it_is_sent_is_not_sent() {
    let (_directory, history) = declared();
    history.record_unscored(&[skipped(1), skipped(2)]).unwrap();
    history.record_point(&point(1, 0.5), Some(FIRST)).unwrap();
    history.record_point(&point(1, 0.75), Some(FIRST)).unwrap();
    history.record_unscored(&[skipped(2)]).unwrap();
    assert_eq!(waiting(&history), ["declare r by a.0", "point 1 of 0.75 by a.0", "unscored 2"]);
    history.finish_run("r", 2.0, &RunOutcome::Finished).unwrap();
    history.remove_run("r").unwrap();
    assert_eq!(waiting(&history), ["remove r"], "the hub may know it already");
    // The name is free for another run.
    history.record_run(&run("r", 1), &job("b"), 3.0).unwrap();
    assert_eq!(waiting(&history), ["remove r", "declare r by b.0"]);
    assert_eq!(history.outbox_usage().unwrap().lost, 0, "a person removed it");
}

#[test]
fn of_scores_that_join_a_point_that_was_sent_these_alone_are_sent() {
    let (_directory, history) = declared();
    let with = |scores: &[&str]| {
        let of = |score: &&str| ((*score).to_owned(), Outcome::undefined("few rows"));
        let mut point = point(1, 0.5);
        point.scores.extend(scores.iter().map(of));
        point
    };
    history.record_point(&with(&[]), Some(FIRST)).unwrap();
    history.record_point(&with(&["ois"]), Some(FIRST)).unwrap();
    assert_eq!(waiting(&history), ["declare r by a.0", "point 1 of 0.5 by a.0"], "it was not sent before");
    forget_all(&history);
    history.record_point(&with(&["ois", "nis"]), Some(FIRST)).unwrap();
    assert_eq!(waiting(&history), ["late nis of 1"]);
    // A p-value joins a score, and what waits already goes with it.
    let mut tested = with(&["ois", "nis", "dci"]);
    tested.scores[0].1.add(Significance { p_value: Some(0.5), ..Default::default() });
    history.record_point(&tested, Some(FIRST)).unwrap();
    assert_eq!(waiting(&history), ["late icl and nis and dci of 1"]);
    // Another evaluation of the step is another point.
    forget_all(&history);
    history.record_point(&Point { time: 9.0, ..with(&["ois"]) }, Some(FIRST)).unwrap();
    assert_eq!(waiting(&history), ["point 1 of 0.5 by a.0"]);
}

#[test]
fn of_the_verdicts_on_a_split_the_last_is_sent_and_of_a_rule_every_state() {
    let (_directory, history) = declared();
    let judged = |rule: Option<&str>, json: &str| Judgement {
        run: "r".into(),
        split: "val".into(),
        rule: rule.map(str::to_owned),
        active: true,
        since: 1.0,
        json: json.into(),
    };
    history.note_judgements(&[judged(Some("high"), "pending"), judged(None, "early")]).unwrap();
    history.note_judgements(&[judged(Some("high"), "firing"), judged(None, "leaking")]).unwrap();
    history.note_judgements(&[Judgement { run: "unknown".into(), ..judged(None, "sound") }]).unwrap();
    let expected = ["declare r by a.0", "judged high pending", "judged high firing", "judged verdict leaking"];
    assert_eq!(waiting(&history), expected);
}

#[test]
fn a_run_is_followed_from_its_next_declaration_with_all_that_it_has() {
    let directory = tempfile::tempdir().unwrap();
    {
        let history = Sqlite::open(Some(directory.path()), LIMITS).unwrap();
        history.record_run(&run("r", 1), &job("a"), 1.0).unwrap();
        history.record_run(&run("r", 1), &Identity { resume: true, ..job("b") }, 1.0).unwrap();
        history.record_run(&run("old", 1), &job("a"), 1.0).unwrap();
        history.record_point(&point(1, 0.5), Some(FIRST)).unwrap();
        history.record_unscored(&[skipped(2)]).unwrap();
        assert!(history.outbox_source().is_err(), "there is none");
    }
    let history = open(directory.path());
    assert_eq!(waiting(&history), Vec::<String>::new());
    history.record_point(&point(3, 0.25), Some(FIRST)).unwrap();
    assert_eq!(waiting(&history), Vec::<String>::new());
    history.record_run(&run("r", 1), &job("b"), 2.0).unwrap();
    let expected =
        ["declare r by a.0", "declare r by b.0", "point 1 of 0.5 by a.0", "point 3 of 0.25 by a.0", "unscored 2"];
    assert_eq!(waiting(&history), expected);
    let source = history.outbox_source().unwrap();
    drop(history);
    // Changes note themselves where there is an outbox, whatever the options are.
    let history = Sqlite::open(Some(directory.path()), LIMITS).unwrap();
    history.record_point(&point(4, 0.125), Some(FIRST)).unwrap();
    assert_eq!(waiting(&history).last().unwrap(), "point 4 of 0.125 by a.0");
    let now = history.outbox_source().unwrap();
    assert_eq!((now.id, now.newest), (source.id, source.newest + 1));
}

#[test]
fn numbers_are_never_given_out_twice() {
    let directory = tempfile::tempdir().unwrap();
    let mut newest = 0;
    for step in 0..4 {
        let history = open(directory.path());
        history.record_run(&run("r", 1), &job("a"), 1.0).unwrap();
        history.record_point(&point(step, 0.5), None).unwrap();
        let first = history.parcel(usize::MAX).unwrap().entries[0].number;
        assert!(first > newest, "{first} and {newest}");
        forget_all(&history);
        newest = history.outbox_source().unwrap().newest;
    }
    let history = open(directory.path());
    for step in 10..13 {
        history.record_point(&point(step, 0.5), None).unwrap();
    }
    let before = waiting(&history);
    let highest = history.renumber_entries(1000).unwrap();
    assert_eq!(waiting(&history), before);
    let numbers: Vec<u64> = history.parcel(usize::MAX).unwrap().entries.iter().map(|entry| entry.number).collect();
    assert!(numbers[0] > 1000 && numbers[2] <= highest, "{numbers:?}");
    history.record_point(&point(13, 0.5), None).unwrap();
    assert!(history.outbox_source().unwrap().newest > highest);
}

#[test]
fn what_the_disk_does_not_take_is_sent_when_it_is_written() {
    let (directory, history) = declared();
    forget_all(&history);
    let file = directory.path().join("history.sqlite3");
    let aside = directory.path().join("aside");
    std::fs::rename(&file, &aside).unwrap();
    history.record_point(&point(1, 0.5), None).unwrap();
    history.record_point(&point(2, 0.5), None).unwrap();
    assert!(history.waiting().why.is_some());
    assert_eq!(waiting(&history), Vec::<String>::new(), "it is not durable");
    assert!(history.forget_entries(0, &[]).is_err());
    assert_eq!(history.outbox_usage().unwrap().waiting, 2);
    std::fs::rename(&aside, &file).unwrap();
    while history.waiting().why.is_some() {
        history.write_waiting();
    }
    assert_eq!(waiting(&history), ["point 1 of 0.5 by ", "point 2 of 0.5 by "]);
}

#[test]
fn what_the_size_limit_removes_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let history = Sqlite::open(Some(directory.path()), Limits { bytes: 1 << 20 }).unwrap();
    history.begin_outbox().unwrap();
    history.record_run(&run("r", 1), &job("a"), 1.0).unwrap();
    let warnings = vec!["w".repeat(3000)];
    for step in 0..400 {
        history.record_point(&Point { warnings: warnings.clone(), ..point(step, 0.5) }, Some(FIRST)).unwrap();
    }
    let dropped = history.usage().unwrap().dropped.points;
    let usage = history.outbox_usage().unwrap();
    assert!(dropped > 0);
    assert_eq!((usage.lost, usage.waiting), (dropped, 401 - dropped));
}

#[test]
fn an_entry_whose_point_is_damaged_is_told_apart() {
    let (directory, history) = declared();
    for step in 1..4 {
        history.record_point(&point(step, 0.5), Some(FIRST)).unwrap();
    }
    change(directory.path(), "UPDATE point SET rows_seen = 8 WHERE step = 2");
    let parcel = history.parcel(usize::MAX).unwrap();
    assert_eq!(parcel.unreadable, [3]);
    let numbers: Vec<u64> = parcel.entries.iter().map(|entry| entry.number).collect();
    assert_eq!(numbers, [1, 2, 4]);
    history.forget_entries(0, &parcel.unreadable).unwrap();
    assert!(history.parcel(usize::MAX).unwrap().unreadable.is_empty());
}
