//! The impurity scores of a thousand concepts: real jobs, parts, leases and results, whose computation is replaced by a sleep of the
//! time that one of them takes.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use conceptwatch::history::{Identity, PassKey, Postgres, Store};
use conceptwatch::point::{Outcome, Point};
use conceptwatch::run::RunFields;
use conceptwatch::sample::{Attempt, Evaluation, PassOf, Union, union};
use conceptwatch::score::PurityRows;
use conceptwatch::score::catalogue::find;
use conceptwatch::server::work::{Claim, Computing, Finished, Jobs, Kind, LEASE, Late, Shared};
use serde_json::{Value, json};

use super::job::{Job, run};
use super::work::SETTINGS;
use super::{Options, point};

const RUN: &str = "wide";
const POLL: Duration = Duration::from_millis(125);

/// What a worker tells of its jobs.
#[derive(Default)]
struct Told {
    jobs: usize,
    /// Seconds from asking for a job until its parts were read and joined, for each.
    before: Vec<f64>,
}

/// Puts a pass of `concepts` concepts and lets `workers` sleep for its jobs. One of them is killed after a quarter of the
/// time that they would take together, and not replaced.
pub fn simulate(options: &Options) -> Value {
    let (concepts, rows): (usize, usize) = (options.number("concepts"), options.number("rows"));
    let workers: usize = options.number("workers");
    let url = options.text("store");
    let (evaluation, pieces) = put(url, concepts, rows);
    let (cost, bytes) = cost(&evaluation);
    let all = cost.as_secs_f64() * pieces as f64;
    let killed_after = Duration::from_secs_f64(all / workers as f64 / 4.0);
    let (told, seconds) = compute(url, workers, cost, &bytes, killed_after);
    let mut before: Vec<f64> = told.iter().flat_map(|told| told.before.iter().copied()).collect();
    before.sort_by(f64::total_cmp);
    json!({
        "concepts": concepts,
        "rows": rows,
        "workers": workers,
        "jobs": pieces,
        "done": told.iter().map(|told| told.jobs).sum::<usize>(),
        "job_seconds": cost.as_secs_f64(),
        "result_bytes": bytes.len(),
        "before_p50_seconds": before[before.len() / 2],
        "killed_after": killed_after.as_secs_f64(),
        "seconds": seconds,
        "ideal_seconds": (all - killed_after.as_secs_f64()) / (workers - 1) as f64,
    })
}

fn computing() -> Computing<'static> {
    Computing { settings: SETTINGS, memory: None, pause: &|| {}, is_stopping: &|| false, on_failure: &|_, _| () }
}

/// The evaluation of the only pass, and how many jobs for rows wait. Its point is made up.
fn put(url: &str, concepts: usize, rows: usize) -> (Evaluation, usize) {
    let store = Arc::new(Postgres::open(url).unwrap());
    store.state_settings(&SETTINGS).unwrap();
    let job = Job { run: run(concepts, 8), batch_rows: 64, step: 1, ..Job::new(8, 2 * rows as u64, rows, 0) };
    let fields = RunFields { name: RUN.to_owned(), ..(**job.run).clone() };
    store.record_run(&fields.try_into().unwrap(), &Identity::default(), 1.9e9).unwrap();
    let key = PassKey { run: RUN.to_owned(), split: "val".into(), attempt: Attempt::default(), step: 1 };
    for (at, body) in job.parts(&job.in_processes(2, &job.batches(1)), None).iter().enumerate() {
        store.put_part(&key, &format!("sidecar-{at}"), body).unwrap();
    }
    let jobs = Shared { store, worker: "first".to_owned() };
    let claim = jobs.claim(LEASE).unwrap().expect("the pass is complete");
    let evaluation = joined(&jobs, &claim);
    let ois = find("ois").unwrap();
    let panel = ois.panel.unwrap();
    let prepared = conceptwatch::prepare::Prepared::new(&evaluation.sample, &evaluation.run, SETTINGS);
    let shares = PurityRows::shares(&prepared, panel).expect("more than one job");
    let following: Vec<Kind> = shares.iter().map(|range| Kind::Rows(ois, range.start, range.end)).collect();
    let (point, pieces) = (point(RUN, 0, 1, concepts, false), following.len());
    let point = Point { scores: point.scores.into_iter().filter(|(id, _)| id == "ctl").collect(), ..point };
    drop(prepared);
    let finished = Finished::Point { point: Box::new(point), influences: None, following, next_cutoff: None };
    assert!(jobs.finish(&claim, &finished).unwrap());
    (evaluation, pieces)
}

/// The parts of a job, read and joined as a worker does.
fn joined(jobs: &Shared, claim: &Claim) -> Evaluation {
    let material = jobs.material(claim).unwrap();
    let pass = PassOf { key: claim.key.clone(), run: material.run, attempt: claim.attempt, time: material.time };
    match union(material.parts.unwrap(), pass).unwrap() {
        Union::Exact { evaluation, .. } => *evaluation,
        Union::NeedsWhole { .. } => panic!("the parts are whole"),
    }
}

/// What a job for rows takes on one thread, the median of three, and what it stores.
fn cost(evaluation: &Evaluation) -> (Duration, Vec<u8>) {
    let panel = find("ois").unwrap().panel.unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let mut found: Vec<(Duration, Vec<u8>)> = (0..3)
        .map(|row| {
            let begun = Instant::now();
            let rows = pool.install(|| computing().rows(evaluation, panel, row..row + 1));
            (begun.elapsed(), postcard::to_stdvec(&rows).unwrap())
        })
        .collect();
    found.sort();
    found.swap_remove(1)
}

fn compute(url: &str, workers: usize, cost: Duration, bytes: &[u8], killed_after: Duration) -> (Vec<Told>, f64) {
    let over = AtomicBool::new(false);
    let begun = Instant::now();
    thread::scope(|scope| {
        let worker = |at: usize| {
            let (over, killed) = (&over, (at == 0).then_some(begun + killed_after));
            scope.spawn(move || work(url, at, cost, bytes, killed, over))
        };
        let threads: Vec<_> = (0..workers).map(worker).collect();
        let told = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        (told, begun.elapsed().as_secs_f64())
    })
}

/// Works until the score is there, or until it is killed with a job in its hands. Jobs are shorter than a lease, which is
/// therefore not renewed.
fn work(url: &str, at: usize, cost: Duration, bytes: &[u8], killed: Option<Instant>, over: &AtomicBool) -> Told {
    assert!(cost < LEASE / 2, "a job takes {cost:?}: its lease would have to be renewed");
    let jobs = Shared { store: Arc::new(Postgres::open(url).unwrap()), worker: format!("worker-{at}") };
    let mut told = Told::default();
    while !over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let Some(claim) = jobs.claim(LEASE).unwrap() else {
            thread::sleep(POLL);
            continue;
        };
        if let ControlFlow::Break(()) = one(&jobs, &claim, (asked, cost, bytes, killed), (&mut told, over)) {
            break;
        }
    }
    told
}

fn one(
    jobs: &Shared,
    claim: &Claim,
    (asked, cost, bytes, killed): (Instant, Duration, &[u8], Option<Instant>),
    (told, over): (&mut Told, &AtomicBool),
) -> ControlFlow<()> {
    let finished = match claim.kind {
        Kind::Rows(..) => {
            drop(joined(jobs, claim));
            told.before.push(asked.elapsed().as_secs_f64());
            let until = killed.map_or(cost, |at| cost.min(at.saturating_duration_since(Instant::now())));
            thread::sleep(until);
            if killed.is_some_and(|at| at <= Instant::now()) {
                return ControlFlow::Break(());
            }
            Finished::Rows { rows: bytes.to_owned() }
        }
        Kind::Slow(score) => {
            let rows = jobs.material(claim).unwrap().rows;
            assert!(rows.iter().all(|bytes| postcard::from_bytes::<PurityRows>(bytes).is_ok()));
            let outcomes =
                vec![(score.id.to_owned(), Outcome::undefined(format!("simulated, of {} jobs", rows.len())))];
            Finished::Late { late: Late { outcomes, ..Late::default() }, seconds: 0.0 }
        }
        kind => panic!("got a job {kind}, expected one for rows or for their score"),
    };
    told.jobs += 1;
    let last = matches!(claim.kind, Kind::Slow(_));
    assert!(jobs.finish(claim, &finished).unwrap(), "the lease of {claim} ended");
    if last {
        over.store(true, Ordering::Relaxed);
    }
    ControlFlow::Continue(())
}
