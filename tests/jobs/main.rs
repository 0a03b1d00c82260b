//! Passes over several hosts in PostgreSQL: parts that close a pass, jobs that many workers claim, and what remains of them
//! when workers or the database die.
#![cfg(feature = "server")]

#[path = "../stores/fixtures.rs"]
#[allow(dead_code, reason = "shared by tests, each of which uses a part")]
mod fixtures;
#[path = "../parts/job.rs"]
#[allow(dead_code, reason = "shared by tests, each of which uses a part")]
mod parts;
#[path = "../common/postgres.rs"]
mod postgres_server;

mod closing;
mod failures;
mod working;

use std::time::Duration;

use conceptwatch::history::{Identity, LeasedJob, PassKey, Postgres, Store};
use conceptwatch::point::Point;
use conceptwatch::sample::Attempt;
use conceptwatch::step::Rank;

use parts::Job;

/// No test waits for the end of it.
const LONG: Duration = Duration::from_secs(3600);

/// A database with the run of a job.
struct Hub {
    store: Postgres,
    url: String,
    job: Job,
}

impl Hub {
    fn at(url: String, job: Job) -> Self {
        let store = Postgres::open(&url).unwrap();
        let hub = Self { store, url, job };
        hub.declare(0);
        hub
    }

    /// `None` where PostgreSQL is not installed.
    fn new(job: Job) -> Option<Self> {
        postgres_server::database().map(|url| Self::at(url, job))
    }

    /// Another process.
    fn another(&self) -> Postgres {
        Postgres::open(&self.url).unwrap()
    }

    fn declare(&self, restart: u32) {
        let rank = Rank::of(0, self.job.ranks).unwrap();
        let identity = Identity { job: "launch", restart, rank, client: "rank-0", ..Identity::default() };
        self.store.record_run(&self.job.run, &identity, 1e9).unwrap();
    }

    fn pass(&self, split: &str, step: u64) -> PassKey {
        PassKey { run: "run".into(), split: split.into(), attempt: Attempt::default(), step }
    }

    /// The parts of a pass in so many processes, each under the name of its source.
    fn parts(&self, processes: u32, step: u64, cutoff: Option<u64>) -> Vec<(String, Vec<u8>)> {
        let job = Job { step, ..self.job.clone() };
        let parts = job.parts(&job.in_processes(processes, &job.batches(step)), cutoff);
        (0..).zip(parts).map(|(at, part)| (format!("source-{at}"), part)).collect()
    }

    fn claim(&self) -> Option<LeasedJob> {
        self.store.claim_job("worker", LONG).unwrap()
    }

    /// The point of a job, as a worker makes it: of the time at which the pass was closed.
    fn computed(&self, job: &LeasedJob) -> Point {
        let time = self.store.job_material(job).unwrap().time;
        Point { incomplete: false, time, ..fixtures::point("run", &job.pass.split, job.pass.step, 2) }
    }

    /// A closed pass of two parts.
    fn closed(&self, split: &str, step: u64) -> PassKey {
        let pass = self.pass(split, step);
        for (source, part) in self.parts(2, step, None) {
            self.store.put_part(&pass, &source, &part).unwrap();
        }
        pass
    }
}

fn small() -> Job {
    Job { batch_rows: 8, ..Job::new(2, 40, 16, 1) }
}
