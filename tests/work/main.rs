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
#[path = "../common/signal.rs"]
mod signal;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use conceptwatch::estimate::Settings;
use conceptwatch::point::{Outcome, Point};
use conceptwatch::score::catalogue::{self, Cost, Score};
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
    let computing =
        Computing { settings: SETTINGS, memory: None, pause: &|| (), is_stopping: &|| false, on_failure: &|_, _| () };
    let mut earlier = None;
    let mut points = Vec::new();
    for pass in passes {
        let evaluation = pass.in_one_process(&pass.batches(pass.step));
        let mut now = None;
        let (point, _) = computing
            .point(&evaluation, Cost::AT_ONCE, None, |influences| {
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

/// A worker without work exits while another computes a point, so each restarts until everything is done.
fn work_at_once(workers: &[Worker], jobs: &Memory) {
    std::thread::scope(|scope| {
        for worker in workers {
            scope.spawn(|| {
                while !jobs.all_done() {
                    worker.work().unwrap();
                }
            });
        }
    });
}

#[test]
fn two_workers_give_the_points_of_one_process_once() {
    let passes = [pass(7), pass(8), pass(9)];
    let jobs = Arc::new(Memory::new(SETTINGS));
    passes.iter().for_each(|pass| jobs.close(pass, whole(pass)));
    // One that was killed after it had claimed the first job.
    let dead = jobs.claim(Duration::ZERO).unwrap().unwrap();
    let workers = [worker(&jobs), worker(&jobs)];
    work_at_once(&workers, &jobs);
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

/// Enough concepts that their networks are divided into two jobs.
fn many_concepts() -> Job {
    Job { run: parts::run(33, 16), ..pass(7) }
}

#[test]
fn networks_of_many_concepts_are_trained_by_several_workers_with_the_bits_of_one() {
    let jobs = Arc::new(Memory::new(SETTINGS));
    jobs.close(&many_concepts(), whole(&many_concepts()));
    work_at_once(&[worker(&jobs), worker(&jobs)], &jobs);
    let kinds: Vec<String> = jobs.kinds().into_iter().filter(|kind| kind.contains("ois")).collect();
    assert_eq!(kinds, ["rows:ois:0-31", "rows:ois:31-33", "slow:ois"]);
    assert_eq!(content(&jobs.points()[0]), content(&in_one_process(&[many_concepts()])[0]));
}

#[test]
fn networks_of_embeddings_alone_are_trained_once_for_all_scores_that_are_made_of_them() {
    let few = Job { run: parts::run(3, 16), embedded: true, ..pass(7) };
    let jobs = Arc::new(Memory::new(SETTINGS));
    jobs.close(&few, whole(&few));
    worker(&jobs).work().unwrap();
    let of_networks = |jobs: &Memory| -> Vec<String> {
        jobs.kinds().into_iter().filter(|kind| kind.contains("ois") || kind.contains("purity")).collect()
    };
    assert_eq!(of_networks(&jobs), ["slow:ois"]);
    let point = &jobs.points()[0];
    assert_eq!(content(point), content(&in_one_process(std::slice::from_ref(&few))[0]));
    assert!(point.score("ois").unwrap().value().is_some());
    assert_eq!(point.score("embedding_ois"), point.score("ois"));

    let many = Job { embedded: true, ..many_concepts() };
    let jobs = Arc::new(Memory::new(SETTINGS));
    jobs.close(&many, whole(&many));
    // The point alone.
    Worker { options: WorkOptions { jobs: Some(1), ..options() }, ..worker(&jobs) }.work().unwrap();
    assert_eq!(of_networks(&jobs), ["rows:ois:0-31", "rows:ois:31-33"]);
}

#[test]
fn rows_that_nobody_can_compute_leave_a_reason() {
    let jobs = Arc::new(Memory::new(SETTINGS));
    jobs.close(&many_concepts(), whole(&many_concepts()));
    let worker = Worker { options: WorkOptions { jobs: Some(1), ..options() }, ..worker(&jobs) };
    worker.work().unwrap();
    assert!(jobs.kinds().iter().any(|kind| kind == "rows:ois:31-33"));
    jobs.exhaust(&Kind::named("rows:ois:31-33").unwrap());
    let worker = Worker { options: options(), ..worker };
    worker.work().unwrap();
    assert!(jobs.all_done());
    for score in ["ois", "purity", "aligned_ois"] {
        let Some(Outcome::Undefined(undefined)) = jobs.points()[0].score(score).cloned() else { panic!("{score}") };
        assert!(undefined.why.contains("10 workers failed or died at it"), "{}", undefined.why);
    }
    assert!(jobs.points()[0].score("nis").unwrap().value().is_some(), "the others are as ever");
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
fn a_score_that_panics_is_undefined_with_the_reason() {
    let fails: &'static Score =
        Box::leak(Box::new(Score { compute: |_| panic!("the third row is odd"), ..*catalogue::find("ois").unwrap() }));
    let jobs = Arc::new(Memory::new(SETTINGS));
    jobs.close(&pass(7), whole(&pass(7)));
    jobs.replace(Kind::Slow(fails));
    let worker = worker(&jobs);
    worker.work().unwrap();
    assert!(jobs.all_done());
    let Some(Outcome::Undefined(undefined)) = jobs.points()[0].score("ois").cloned() else { panic!("it is undefined") };
    assert!(undefined.why.contains("the third row is odd"), "{}", undefined.why);
    assert!(jobs.points()[0].score("nis").unwrap().value().is_some(), "the others are as ever");
}

#[test]
fn a_job_at_which_ten_workers_have_died_is_given_up_with_the_reason() {
    let after_deaths = |deaths: usize| {
        let jobs = Arc::new(Memory::new(SETTINGS));
        jobs.close(&pass(7), whole(&pass(7)));
        for _ in 0..deaths {
            jobs.claim(Duration::ZERO).unwrap().unwrap();
        }
        worker(&jobs).work().unwrap();
        assert!(jobs.all_done());
        jobs
    };
    assert_eq!(after_deaths(9).points().len(), 1);
    let jobs = after_deaths(10);
    assert_eq!(jobs.points().len(), 0);
    assert!(jobs.unscored()[0].contains("10 workers failed or died at it"), "{:?}", jobs.unscored());
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
fn a_lease_that_could_not_be_renewed_is_renewed_before_others_come_back() {
    let jobs = Arc::new(Memory::new(SETTINGS));
    jobs.close(&pass(7), whole(&pass(7)));
    // Computes until the store is back.
    jobs.fail_renewals(3);
    let seen = Arc::clone(&jobs);
    let begun = std::time::Instant::now();
    jobs.at_material(move || {
        while seen.renewed().is_empty() && begun.elapsed() < Duration::from_secs(120) {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let worker = Worker { options: WorkOptions { lease: Duration::from_secs(20), ..options() }, ..worker(&jobs) };
    worker.work().unwrap();
    assert!(jobs.all_done());
    assert_eq!(jobs.renewed().first(), Some(&true), "{:?}", jobs.renewed());
    assert_eq!(worker.counts.lost.load(Ordering::Relaxed), 0);
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
