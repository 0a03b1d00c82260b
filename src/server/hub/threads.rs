//! Threads of a hub that compute the passes of runs over several hosts, in place of workers of their own.

use std::sync::Arc;
use std::thread::JoinHandle;

use crate::history::Postgres;
use crate::server::work::{LEASE, Shared, Stop, WorkOptions, Worker};

pub struct Threads {
    stop: Stop,
    worker: JoinHandle<()>,
}

impl Threads {
    /// Errors when a thread cannot be started.
    pub fn start(store: &Arc<Postgres>, threads: usize, niceness: i32) -> std::io::Result<Self> {
        let stop = Stop::default();
        let worker = Worker {
            jobs: Arc::new(Shared { store: Arc::clone(store), worker: format!("hub {}", std::process::id()) }),
            options: WorkOptions { threads, niceness, lease: LEASE, jobs: None, idle_exit: None },
            counts: Arc::default(),
            stop: stop.clone(),
        };
        let work = move || {
            if let Err(error) = worker.work() {
                tracing::error!(%error, "the hub computes nothing");
            }
        };
        let worker = std::thread::Builder::new().name("worker".into()).spawn(work)?;
        Ok(Self { stop, worker })
    }

    /// Has their job given back.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// Waits for their end. Blocks.
    pub fn join(self) {
        // A panic has been printed.
        let _ = self.worker.join();
    }
}
