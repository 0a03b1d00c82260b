//! `conceptwatch work`: computes the evaluations of a hub's store.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::VERSION;
use crate::fault::Fault;
use crate::history::{HistoryError, Postgres};
use crate::server::work::{Counts, LEASE, Shared, Stop, WorkOptions, Worker};

use super::failure::{Failure, conclude};
use super::logs;

/// Compute the evaluations of a hub's store
///
/// Claims the evaluations of runs over several hosts, one at a time, and stores their scores. Start as many as you like,
/// with any scheduler: each score is stored once, with the same bits whoever computes it. One that is killed loses its job
/// to another when its lease ends; SIGTERM returns the job at once. A score may take as much memory as it needs.
#[derive(Args)]
pub struct Options {
    /// The store: postgres://USER@HOST:PORT/DATABASE. The password comes from PGPASSWORD, the file of PGPASSFILE, or
    /// ~/.pgpass.
    #[arg(long, env = "CONCEPTWATCH_STORE", value_name = "URL")]
    store: String,
    /// Threads that compute a job [default: one for each core]
    #[arg(long, env = "CONCEPTWATCH_WORK_THREADS", value_name = "COUNT")]
    threads: Option<u16>,
    /// End after this many jobs.
    #[arg(long, value_name = "COUNT")]
    jobs: Option<u64>,
    /// End after this many seconds without a job.
    #[arg(long, value_name = "SECONDS")]
    idle_exit: Option<f64>,
    /// Seconds after which another worker takes over the job of one that has not renewed its lease.
    #[arg(long, env = "CONCEPTWATCH_LEASE", value_name = "SECONDS", default_value_t = LEASE.as_secs_f64())]
    lease: f64,
    /// Niceness added to the computing threads, 0 to 19.
    #[arg(long, value_name = "NICENESS", default_value_t = 0)]
    niceness: u8,
    /// Log level, such as info or debug.
    #[arg(long, env = "CONCEPTWATCH_LOG", value_name = "LEVEL", default_value = "info")]
    log: String,
    /// Log JSON objects, one a line.
    #[arg(long, env = "CONCEPTWATCH_LOG_JSON")]
    log_json: bool,
}

pub fn run(options: &Options) -> ExitCode {
    let result = work(options);
    logs::settle();
    conclude("work", result)
}

fn work(options: &Options) -> Result<String, Failure> {
    let checked = options.checked()?;
    logs::start(&options.log, options.log_json)?;
    let stop = Stop::default();
    stop_by_signal(stop.clone()).map_err(Failure::running)?;
    let Some(store) = open(&options.store, &stop)? else { return Ok(String::new()) };
    let counts = Arc::new(Counts::default());
    let host = sysinfo::System::host_name().unwrap_or_else(|| "unknown".to_owned());
    let jobs = Arc::new(Shared { store, worker: format!("{host}:{}", std::process::id()) });
    tracing::info!(threads = checked.threads, version = VERSION, "working");
    Worker { jobs, options: checked, counts: Arc::clone(&counts), stop }.work().map_err(Failure::running)?;
    let [done, returned, failed, lost] =
        [&counts.done, &counts.returned, &counts.failed, &counts.lost].map(|count| count.load(Ordering::Relaxed));
    tracing::info!(done, returned, failed, lost, "ended");
    Ok(String::new())
}

impl Options {
    fn checked(&self) -> Result<WorkOptions, Fault> {
        let seconds = |field: &str, value: f64, least: f64| {
            let message = || format!("got {value}, expected {least} to 31536000");
            match (least..=31_536_000.0).contains(&value) {
                true => Ok(Duration::from_secs_f64(value)),
                false => Err(Fault::new(field, message())),
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = self.threads.map_or(cores, usize::from);
        if threads == 0 || threads > 1024 {
            return Err(Fault::new("threads", format!("got {threads}, expected 1 to 1024")));
        }
        if self.niceness > 19 {
            return Err(Fault::new("niceness", format!("got {}, expected 0 to 19", self.niceness)));
        }
        Ok(WorkOptions {
            threads,
            niceness: self.niceness.into(),
            lease: seconds("lease", self.lease, 1.0)?,
            jobs: self.jobs,
            idle_exit: self.idle_exit.map(|value| seconds("idle_exit", value, 0.0)).transpose()?,
        })
    }
}

/// Stops at SIGTERM or SIGINT. Errors when they cannot be caught.
fn stop_by_signal(stop: Stop) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let entered = runtime.enter();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    drop(entered);
    let wait = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        });
        tracing::info!("stopping");
        stop.stop();
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).map(drop)
}

/// Opens the store, and waits for a database that cannot be reached; `None` when it is to stop first.
fn open(url: &str, stop: &Stop) -> Result<Option<Arc<Postgres>>, Failure> {
    let mut wait = Duration::from_secs(1);
    loop {
        match Postgres::open(url) {
            Ok(store) => return Ok(Some(Arc::new(store))),
            Err(error @ HistoryError::Unreachable { .. }) => {
                tracing::warn!(%error, seconds = wait.as_secs_f64(), "trying again");
            }
            Err(error @ HistoryError::Invalid { .. }) => return Err(Failure::bad_input(error)),
            Err(error) => return Err(Failure::running(error)),
        }
        if stop.wait(wait) {
            return Ok(None);
        }
        wait = (2 * wait).min(Duration::from_secs(15));
    }
}
