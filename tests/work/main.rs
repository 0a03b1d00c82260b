//! Workers that share jobs give each result once, with the bits of one process, however often they stop, die or lose the
//! store; and a job that cannot be computed ends with a reason.
#![cfg(feature = "server")]

mod memory;
#[expect(dead_code, reason = "shared with the tests of parts")]
#[path = "../parts/job.rs"]
mod parts;
#[path = "../common/postgres.rs"]
mod postgres_server;
mod processes;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use conceptwatch::estimate::Settings;
use conceptwatch::point::{Outcome, Point};
use conceptwatch::score::catalogue::{self, Score};
use conceptwatch::server::work::{Computing, Jobs, Kind, Return, Stop, WorkOptions, Worker, joined};

use memory::{Memory, State};
use parts::Job;

const SETTINGS: Settings =
    Settings { kind: conceptwatch::estimate::Kind::TieAware, neighbours: 3, repeats: 5, seed: 4 };

/// Longer than any test: no lease ends by itself.
const LONG: Duration = Duration::from_secs(3600);

/// A pass of 16 ranks on 8 processes.
fn pass(step: u64) -> Job {
    Job { step, ..Job::new(16, 300, 96, 4) }
}

fn whole(job: &Job) -> Vec<Vec<u8>> {
    job.parts(&job.in_processes(8, &job.batches(job.step)), None)
}

/// The points that one process makes of passes, with all scores and tests.
fn in_one_process(passes: &[Job]) -> Vec<Point> {
    let computing = Computing { settings: SETTINGS, memory: None, pause: &|| (), is_stopping: &|| false };
    let mut earlier = None;
    let mut points = Vec::new();
    for pass in passes {
        let evaluation = pass.in_one_process(&pass.batches(pass.step));
        let mut now = None;
        let (point, _) = computing
            .point(&evaluation, None, |influences| {
                let errors = earlier.as_ref().map_or_else(Vec::new, |earlier| influences.change_errors(earlier));
                now = Some(influences);
                errors
            })
            .unwrap();
        earlier = now;
        points.push(joined(&point, &computing.late(&evaluation).unwrap().0, 0.0));
    }
    points
}

/// Everything but the time it took.
fn content(point: &Point) -> String {
    serde_json::to_string(&Point { seconds: 0.0, ..point.clone() }).unwrap()
}

fn options() -> WorkOptions {
    WorkOptions { threads: 2, niceness: 0, lease: LONG, jobs: None, idle_exit: Some(Duration::from_millis(300)) }
}

fn worker(jobs: &Arc<Memory>) -> Worker {
    let jobs: Arc<dyn Jobs> = Arc::<Memory>::clone(jobs);
    Worker { jobs, options: options(), counts: Arc::default(), stop: Stop::default() }
}

#[test]
fn two_workers_give_the_points_of_one_process_once() {
    let passes = [pass(7), pass(8), pass(9)];
    let jobs = Arc::new(Memory::new(SETTINGS));
    passes.iter().for_each(|pass| jobs.close(pass, whole(pass)));
    // One that was killed after it had claimed the first job.
    let dead = jobs.claim(Duration::ZERO).unwrap().unwrap();
    let workers = [worker(&jobs), worker(&jobs)];
    // A worker with nothing to do leaves while the other computes a point, so each starts again until all is done.
    std::thread::scope(|scope| {
        for worker in &workers {
            scope.spawn(|| {
                while !jobs.all_done() {
                    worker.work().unwrap();
                }
            });
        }
    });
    let points = jobs.points();
    for (point, expected) in points.iter().zip(in_one_process(&passes)) {
        assert_eq!(content(point), content(&expected));
    }
    assert_eq!(points.len(), 3);
    assert!(points[0].change_errors.is_empty() && points[2].change_errors.len() == 5);
    assert!(points[2].score("ois").unwrap().value().is_some(), "a slow score");
    assert!(points[2].score("icl_conditional").unwrap().matrix_q().is_some(), "a test");
    let done: u64 = workers.iter().map(|worker| worker.counts.done.load(Ordering::Relaxed)).sum();
    assert_eq!(done as usize, jobs.stored());
    assert!(!jobs.renew(&dead, LONG).unwrap(), "its lease is another's");
}

#[test]
fn a_worker_that_is_told_to_stop_gives_its_job_back() {
    let jobs = Arc::new(Memory::new(SETTINGS));
    jobs.close(&pass(7), whole(&pass(7)));
    let stopped = worker(&jobs);
    let stop = stopped.stop.clone();
    jobs.at_material(move || stop.stop());
    stopped.work().unwrap();
    assert_eq!((jobs.returned(), jobs.points().len()), (vec![Return::Stopped], 0));
    assert_eq!(jobs.states(), [State::Waiting]);
    jobs.at_material(|| ());
    worker(&jobs).work().unwrap();
    assert!(jobs.all_done());
}

#[test]
fn jobs_whose_parts_do_not_suffice_are_given_back() {
    let (first, next) = (pass(7), Job { first: 100_000, rows: 200, ..pass(8) });
    let jobs = Arc::new(Memory::new(SETTINGS));
    let (_, cutoff) = first.exactly(&whole(&first));
    jobs.close(&next, next.parts(&next.in_processes(8, &next.batches(8)), cutoff.map(|cutoff| cutoff / 2)));
    worker(&jobs).work().unwrap();
    assert_eq!((jobs.returned(), jobs.points().len()), (vec![Return::NeedsWhole], 0));
    jobs.close(&next, Vec::new());
    worker(&jobs).work().unwrap();
    assert_eq!((jobs.returned(), jobs.points().len()), (vec![Return::NeedsWhole, Return::PartsMissing], 0));
    jobs.close(&next, whole(&next));
    worker(&jobs).work().unwrap();
    assert_eq!(content(&jobs.points()[0]), content(&in_one_process(&[next])[0]));
}

#[test]
fn parts_that_contradict_each_other_leave_a_reason() {
    let (pass, other) = (pass(7), Job { sampling: conceptwatch::sample::Sampling { rows: 64, seed: 4 }, ..pass(7) });
    let jobs = Arc::new(Memory::new(SETTINGS));
    let mut mixed = whole(&pass);
    mixed[3] = whole(&other).remove(3);
    jobs.close(&pass, mixed);
    worker(&jobs).work().unwrap();
    assert_eq!((jobs.points().len(), jobs.all_done()), (0, true));
    let reason = jobs.unscored().remove(0);
    assert!(reason.contains("part.sampling.rows"), "{reason}");
    jobs.close(&pass, vec![whole(&pass)[0][1..].to_vec()]);
    worker(&jobs).work().unwrap();
    assert_eq!((jobs.points().len(), jobs.unscored().len()), (0, 2));
}

#[test]
fn a_score_that_panics_is_undefined_with_the_reason_after_three_tries() {
    let fails: &'static Score =
        Box::leak(Box::new(Score { compute: |_| panic!("the third row is odd"), ..*catalogue::find("ois").unwrap() }));
    let jobs = Arc::new(Memory::new(SETTINGS));
    jobs.close(&pass(7), whole(&pass(7)));
    jobs.replace(Kind::Slow(fails));
    let worker = worker(&jobs);
    worker.work().unwrap();
    assert!(jobs.all_done());
    assert_eq!(worker.counts.failed.load(Ordering::Relaxed), 3);
    let Some(Outcome::Undefined(undefined)) = jobs.points()[0].score("ois").cloned() else { panic!("it is undefined") };
    assert!(undefined.why.contains("the third row is odd"), "{}", undefined.why);
    assert!(jobs.points()[0].score("nis").unwrap().value().is_some(), "the others are as ever");
}

#[test]
fn a_store_that_goes_away_stops_nothing_for_good() {
    let jobs = Arc::new(Memory::new(SETTINGS));
    jobs.close(&pass(7), whole(&pass(7)));
    jobs.fail_every(2);
    let worker = worker(&jobs);
    worker.work().unwrap();
    assert!(jobs.all_done());
    assert_eq!(content(&jobs.points()[0]), content(&in_one_process(&[pass(7)])[0]));
    assert_eq!(worker.counts.done.load(Ordering::Relaxed) as usize, jobs.stored());
}

#[test]
fn a_worker_whose_lease_is_lost_stores_nothing() {
    let jobs = Arc::new(Memory::new(SETTINGS));
    jobs.close(&pass(7), whole(&pass(7)));
    // Another has the job from the moment at which this one begins to compute, and keeps it.
    jobs.steal_at_material();
    let worker = worker(&jobs);
    worker.work().unwrap();
    assert_eq!((jobs.points().len(), jobs.states()), (0, vec![State::Leased]));
    assert_eq!(worker.counts.lost.load(Ordering::Relaxed), 1);
}
