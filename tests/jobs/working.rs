//! Workers: who claims what, and what becomes of their results.

use std::collections::BTreeMap;
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use conceptwatch::estimate::Settings;
use conceptwatch::history::{FirstPoint, GivenAdvice, PassState, PutPart, Store};
use conceptwatch::point::{Outcome, Point, ScoreValue};
use conceptwatch::prepare::Prepared;
use conceptwatch::sample::{Attempt, Part};
use conceptwatch::score::Influences;
use conceptwatch::score::catalogue::Cost;

use crate::fixtures::point;
use crate::parts::Job;
use crate::{Hub, LONG, small};

fn first<'a>(point: &'a Point, following: &'a [String]) -> FirstPoint<'a> {
    FirstPoint { point, influences: None, next_cutoff: None, following }
}

fn complete(step: u64) -> Point {
    Point { incomplete: false, ..point("run", "val", step, 2) }
}

fn score(at: usize) -> (String, Outcome) {
    (format!("slow_{at}"), Outcome::Value(ScoreValue { value: at as f64, ..ScoreValue::default() }))
}

#[test]
fn many_workers_claim_each_job_once() {
    let Some(hub) = Hub::new(small()) else { return };
    for at in 0..120 {
        hub.closed(&format!("split {at}"), 7);
    }
    let claimed = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                let store = hub.another();
                while let Some(job) = store.claim_job("worker", LONG).unwrap() {
                    *claimed.lock().unwrap().entry(job.pass.split.clone()).or_insert(0) += 1;
                    assert!(store.finish_unscored(&job, "enough", 0).unwrap());
                }
            });
        }
    });
    let claimed = claimed.into_inner().unwrap();
    assert_eq!((claimed.len(), claimed.values().max()), (120, Some(&1)));
}

#[test]
fn a_worker_that_dies_loses_its_lease_and_another_computes() {
    let Some(hub) = Hub::new(small()) else { return };
    let pass = hub.closed("val", 7);
    let dead = hub.store.claim_job("dead", Duration::ZERO).unwrap().unwrap();
    // A lease holds until another worker has the job.
    assert!(hub.store.renew_job(&dead, Duration::ZERO).unwrap());
    let alive = hub.claim().unwrap();
    assert!(alive.pass == pass && alive.id == dead.id && alive.lease != dead.lease);
    assert_eq!(
        (dead.failures, alive.failures),
        (0, 1),
        "a worker that is killed by its job must not be followed for ever"
    );
    let point = complete(7);
    assert!(!hub.store.renew_job(&dead, LONG).unwrap() && hub.store.renew_job(&alive, LONG).unwrap());
    assert!(!hub.store.finish_first(&dead, &first(&point, &[])).unwrap());
    assert!(!hub.store.fail_job(&dead).unwrap() && !hub.store.reopen_pass(&dead).unwrap());
    assert_eq!(hub.store.point("run", "val", None, false).unwrap(), None);
    assert!(hub.store.finish_first(&alive, &first(&point, &[])).unwrap());
    assert!(!hub.store.finish_first(&alive, &first(&point, &[])).unwrap(), "once");
    assert_eq!(hub.store.point("run", "val", None, true).unwrap(), Some(point));
}

#[test]
fn a_job_that_fails_or_is_given_back_waits_again() {
    let Some(hub) = Hub::new(small()) else { return };
    hub.closed("val", 7);
    let job = hub.claim().unwrap();
    let queue = hub.store.job_queue().unwrap();
    assert_eq!((queue.waiting, queue.leased), (0, 1));
    assert!(hub.store.return_job(&job).unwrap());
    let job = hub.claim().unwrap();
    assert_eq!(job.failures, 0);
    assert!(hub.store.fail_job(&job).unwrap());
    let queue = hub.store.job_queue().unwrap();
    assert!(queue.waiting == 1 && queue.leased == 0 && queue.oldest_seconds >= 0.0, "{queue:?}");
    assert_eq!(hub.claim().unwrap().failures, 1);
}

#[test]
fn what_keda_asks_the_database_is_how_many_jobs_are_not_done() {
    let Some(hub) = Hub::new(small()) else { return };
    let scaler = include_str!("../../deploy/kubernetes/hub/keda.yaml");
    let query = scaler.lines().find_map(|line| line.trim().strip_prefix("query: ")).unwrap();
    let mut admin = postgres::Client::connect(&hub.url, postgres::NoTls).unwrap();
    let mut count = || admin.query_one(query, &[]).unwrap().get::<_, i64>(0);
    hub.closed("val", 7);
    hub.closed("test", 7);
    let job = hub.claim().unwrap();
    assert_eq!(count(), 2);
    assert!(hub.store.finish_unscored(&job, "enough", 0).unwrap());
    assert_eq!(count(), 1);
}

#[test]
fn points_of_a_split_are_computed_one_after_the_other() {
    let Some(hub) = Hub::new(small()) else { return };
    for (split, step) in [("val", 9), ("val", 7), ("test", 8), ("val", 8)] {
        hub.closed(split, step);
    }
    let claim = || hub.claim().map(|job| (job.pass.split.clone(), job.pass.step, job));
    let (split, step, first) = claim().unwrap();
    let (other, ..) = claim().unwrap();
    assert_eq!((split.as_str(), step, other.as_str()), ("val", 7, "test"));
    assert_eq!(hub.store.job_queue().unwrap().waiting, 0);
    assert!(claim().is_none(), "the other points of val wait");
    assert!(hub.store.finish_unscored(&first, "enough", 0).unwrap());
    assert_eq!(claim().map(|(split, step, _)| (split, step)), Some(("val".into(), 8)));
    assert!(claim().is_none());
}

#[test]
fn slow_scores_join_the_point_and_the_last_removes_the_parts() {
    let Some(hub) = Hub::new(small()) else { return };
    let pass = hub.closed("val", 7);
    let following: Vec<String> = (0..8).map(|at| format!("slow:slow_{at}")).collect();
    let job = hub.claim().unwrap();
    let point = hub.computed(&job);
    assert_eq!(hub.store.pass_states("source-0", std::slice::from_ref(&pass)).unwrap(), [PassState::Open]);
    let fast = FirstPoint { next_cutoff: Some(u64::MAX - 5), ..first(&point, &following) };
    assert!(hub.store.finish_first(&job, &fast).unwrap());
    assert_eq!(
        hub.store.pass_states("x", std::slice::from_ref(&pass)).unwrap(),
        [PassState::Settled { incomplete: false, is_final: false }]
    );
    assert_eq!(hub.store.next_cutoff("run", "val").unwrap(), Some(u64::MAX - 5));
    // Points come before slow scores.
    hub.closed("test", 7);
    let test = hub.claim().unwrap();
    assert_eq!((test.pass.split.as_str(), test.kind.as_str()), ("test", "fast"));
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let job = hub.claim().unwrap();
                assert_eq!(hub.store.job_material(&job).unwrap().parts.unwrap().len(), 2);
                let at = job.kind.strip_prefix("slow:slow_").unwrap().parse().unwrap();
                start.wait();
                let join = |point: &Point| {
                    let mut whole = point.clone();
                    whole.scores.push(score(at));
                    whole
                };
                assert!(hub.store.finish_late(&job, join).unwrap());
            });
        }
    });
    let stored = hub.store.point("run", "val", None, true).unwrap().unwrap();
    let mut late = stored.scores[point.scores.len()..].to_vec();
    late.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(late, (0..8).map(score).collect::<Vec<_>>());
    assert_eq!(stored.scores[..point.scores.len()], point.scores);
    assert_eq!(hub.store.put_part(&pass, "a", &hub.parts(2, 7, None)[0].1).unwrap(), PutPart::Closed);
    let count = |table: &str| {
        let mut admin = postgres::Client::connect(&hub.url, postgres::NoTls).unwrap();
        admin.query_one(&format!("SELECT count(*) FROM {table}"), &[]).unwrap().get::<_, i64>(0)
    };
    assert_eq!((count("part"), count("job")), (2, 1), "those of the other split");
}

#[test]
fn a_score_follows_once_all_of_its_rows_are_there() {
    let Some(hub) = Hub::new(small()) else { return };
    hub.closed("val", 7);
    let rows: Vec<String> = (0..6).map(|at| format!("rows:ois:{at}-{}", at + 1)).collect();
    let job = hub.claim().unwrap();
    assert!(hub.store.finish_first(&job, &first(&hub.computed(&job), &rows)).unwrap());
    let start = Barrier::new(6);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let job = hub.claim().unwrap();
                start.wait();
                let body = job.kind.clone().into_bytes();
                assert!(hub.store.finish_rows(&job, &body, "rows:ois:", "slow:ois").unwrap());
                assert!(!hub.store.finish_rows(&job, &body, "rows:ois:", "slow:ois").unwrap(), "once");
            });
        }
    });
    let job = hub.claim().unwrap();
    assert_eq!((job.kind.as_str(), hub.claim()), ("slow:ois", None));
    let mut given = hub.store.job_rows(&job, "rows:ois:").unwrap();
    given.sort();
    assert_eq!(given, rows.into_iter().map(String::into_bytes).collect::<Vec<_>>());
    assert!(hub.store.job_rows(&job, "rows:nis:").unwrap().is_empty());
    assert!(hub.store.finish_late(&job, Point::clone).unwrap());
    assert_eq!(hub.claim(), None);
}

#[test]
fn slow_scores_do_not_join_the_point_of_another_attempt() {
    let Some(hub) = Hub::new(small()) else { return };
    hub.closed("val", 7);
    let job = hub.claim().unwrap();
    assert!(hub.store.finish_first(&job, &first(&hub.computed(&job), &["tests".to_owned()])).unwrap());
    let newer = Point { rows_seen: 6000, ..complete(7) };
    hub.store.record_point(&newer, Some(Attempt { launch: 0, restart: 1 })).unwrap();
    let job = hub.claim().unwrap();
    let late = |point: &Point| {
        assert_eq!(point.rows_seen, complete(7).rows_seen, "the point of the job's own attempt");
        Point { seconds: 77.0, ..point.clone() }
    };
    assert!(hub.store.finish_late(&job, late).unwrap());
    assert_eq!(hub.store.point("run", "val", None, true).unwrap(), Some(newer));
    let (points, _) = hub.store.whole_points("run", "val", 7, 9, false).unwrap();
    assert_eq!(
        points.iter().map(|one| (one.superseded, one.point.seconds == 77.0)).collect::<Vec<_>>(),
        [(false, false), (true, true)]
    );
}

#[test]
fn slow_scores_do_not_join_a_point_that_was_not_computed_of_their_pass() {
    let Some(hub) = Hub::new(small()) else { return };
    let pass = hub.closed("val", 7);
    let job = hub.claim().unwrap();
    assert!(hub.store.finish_first(&job, &first(&hub.computed(&job), &["tests".to_owned()])).unwrap());
    // As a sidecar tells it that had all ranks for a moment.
    let other = Point { rows_seen: 6000, ..complete(7) };
    hub.store.record_point(&other, Some(pass.attempt)).unwrap();
    let job = hub.claim().unwrap();
    let late = |point: &Point| Point { seconds: 77.0, ..point.clone() };
    assert!(hub.store.finish_late(&job, late).unwrap());
    assert_eq!(hub.store.point("run", "val", None, true).unwrap(), Some(other));
    assert!(hub.claim().is_none());
}

#[test]
fn what_the_next_change_needs_is_read_back_to_the_bit() {
    let Some(hub) = Hub::new(Job { batch_rows: 8, ..Job::new(2, 400, 256, 1) }) else { return };
    hub.closed("val", 7);
    let job = hub.claim().unwrap();
    let material = hub.store.job_material(&job).unwrap();
    assert!(material.earlier.is_none());
    let bytes: Vec<Vec<u8>> = material.parts.unwrap().iter().map(Part::to_bytes).collect();
    let (evaluation, _) = hub.job.exactly(&bytes);
    let prepared = Prepared::new(&evaluation.sample, &evaluation.run, Settings::default());
    let influences = Influences::of(&prepared, evaluation.sample.ids(), Cost::AT_ONCE);
    let point = complete(7);
    let stored = FirstPoint { influences: Some(&influences), ..first(&point, &[]) };
    assert!(hub.store.finish_first(&job, &stored).unwrap());
    hub.closed("val", 8);
    assert!(hub.store.job_material(&hub.claim().unwrap()).unwrap().earlier == Some(influences));
}

#[test]
fn the_first_answer_of_a_step_is_the_one_that_all_hubs_give() {
    let Some(hub) = Hub::new(small()) else { return };
    for step in 0..20 {
        let start = Barrier::new(8);
        let answer = |at: u64| GivenAdvice { stop: at > 3, reason: format!("of hub {at}"), decided_by_step: at };
        let answers: Vec<GivenAdvice> = std::thread::scope(|scope| {
            let ask = |at| {
                let (hub, start, answer) = (&hub, &start, answer(at));
                scope.spawn(move || {
                    start.wait();
                    hub.store.keep_advice("run", Attempt::default(), step, &answer).unwrap()
                })
            };
            let threads: Vec<_> = (0..8).map(ask).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
        let newer = Attempt { launch: 0, restart: 1 };
        assert_eq!(hub.store.keep_advice("run", newer, step, &answer(9)).unwrap(), answer(9), "of another attempt");
    }
}

#[test]
fn all_workers_compute_alike() {
    let Some(hub) = Hub::new(small()) else { return };
    assert_eq!(hub.store.stated_settings().unwrap(), None);
    for seed in [3, u64::MAX] {
        let settings = Settings { seed, neighbours: 5, ..Settings::default() };
        hub.store.state_settings(&settings).unwrap();
        assert_eq!(hub.another().stated_settings().unwrap(), Some(settings));
    }
}

#[test]
fn the_jobs_of_a_run_go_with_it() {
    let Some(hub) = Hub::new(small()) else { return };
    hub.closed("val", 7);
    let job = hub.claim().unwrap();
    hub.store.finish_run("run", 2e9).unwrap();
    hub.store.remove_run("run").unwrap();
    assert!(!hub.store.finish_first(&job, &first(&complete(7), &[])).unwrap());
    assert_eq!(hub.store.job_queue().unwrap(), Default::default());
}
