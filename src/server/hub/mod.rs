//! The hub: shows and judges the runs of many sidecars from one database, and keeps nothing of its own.
//!
//! ```text
//! sidecars ─▶ intake ─▶ PostgreSQL ─▶ follower ─▶ board, alert rules, events ─▶ page, API, metrics, alert receivers
//! ```
//!
//! The intake only writes, and the follower learns what any hub or worker wrote, so all hubs of a database show the same.

mod board;
mod clock;
mod follower;
pub mod intake;
mod parts;
mod projects;
mod state;
mod threads;
mod upkeep;

use std::future::Future;
use std::sync::Arc;

use tokio::time::timeout;

use crate::history::Postgres;

use super::blocking::blocking;
use super::http::Bounds;
use super::options::{Listeners, Options, ServeError};
use super::ports::{DRAIN, Ports};

use parts::Parts;
use threads::Threads;

pub use projects::projects;

/// What a hub has besides the options of a sidecar.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// Address of the database, `postgres://USER@HOST:PORT/DATABASE`.
    pub store: String,
    /// Projects and their tokens.
    pub projects: Vec<(String, String)>,
    /// Threads that compute passes over several hosts; 0: workers do.
    pub workers: usize,
}

/// Serves as a hub until `shutdown` completes; `shutdown` is first polled once everything is running. Errors when the
/// database cannot be opened, or the gRPC port fails.
pub async fn run_hub(
    listeners: Listeners,
    options: Options,
    hub: HubOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let HubOptions { store, projects, workers } = hub;
    let (settings, niceness) = (options.worker.settings, options.worker.niceness);
    let bounds = Bounds { connections: options.http_connections, ..Bounds::default() };
    let store = Arc::new(blocking(move || Postgres::open(&store)).await?);
    // Closing its connections blocks, which no thread of the runtime may do. They end with the process.
    std::mem::forget(Arc::clone(&store));
    let parts = Parts::assemble(options, projects, Arc::clone(&store), &listeners)?;
    let stating = Arc::clone(&store);
    blocking(move || stating.state_settings(&settings)).await?;
    let (follower, reading) = (parts.follower(), parts.follower());
    let place = blocking(move || reading.begin()).await?;
    let threads = (workers > 0).then(|| Threads::start(&store, workers, niceness)).transpose()?;

    let stop = parts.stop.clone();
    let mut ports = Ports::open(listeners, (parts.port(), parts.calls()), (parts.app()?, bounds), &stop);
    let following = tokio::spawn(follower.run(place, stop.clone()));
    let upkeep = tokio::spawn(parts.upkeep().run(stop.clone()));

    ports.until(shutdown).await;
    tracing::info!("stopping");
    stop.cancel();
    if let Some(threads) = &threads {
        threads.stop();
    }
    let ended = ports.drain().await;
    following.abort();
    upkeep.abort();
    if let Some(threads) = threads {
        // A job that is not given back by then waits for the end of its lease.
        let _ = timeout(DRAIN, tokio::task::spawn_blocking(move || threads.join())).await;
    }
    ended
}
