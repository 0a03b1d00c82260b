//! The hub: shows the runs of many sidecars from one database, and keeps nothing of its own.
//!
//! ```text
//! sidecars ─▶ intake ─▶ PostgreSQL ─▶ shown ─▶ page, API, metrics
//! ```
//!
//! Sidecars score and judge. A hub judges which of them are silent, and nothing else, so all hubs of a database show the same.

pub mod intake;
mod projects;
mod shown;
mod upkeep;
mod wiring;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::history::{HistoryError, Postgres};

use super::blocking::blocking;
use super::http::{Bounds, Exposition};
use super::options::{Listeners, Options, ServeError};
use super::ports::Ports;

use wiring::Parts;

pub use projects::projects;

/// How long a hub waits before it tries again to reach the database, at first and at most.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// The options of a hub besides those of a sidecar.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// Address of the database, `postgres://USER@HOST:PORT/DATABASE`.
    pub store: String,
    /// Projects and their tokens.
    pub projects: Vec<(String, String)>,
    /// Runs that are silent for longer are removed; `None` for none.
    pub age: Option<Duration>,
}

/// Serves as a hub until `shutdown` completes, which may be before the database can be reached. `up` is called once
/// everything is running, and says whether to go on. Errors when the database refuses access or cannot be used.
pub async fn run_hub(
    listeners: Listeners,
    options: Options,
    hub: HubOptions,
    up: impl FnOnce() -> bool,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let mut shutdown = pin!(shutdown);
    let HubOptions { store, projects, age } = hub;
    let bounds = Bounds { connections: options.http_connections, ..Bounds::default() };
    let Some(store) = patiently(shutdown.as_mut(), move || Postgres::open(&store)).await? else { return Ok(()) };
    let store = Arc::new(store);
    // Closing its connections blocks, which no thread of the runtime may do. They end with the process.
    std::mem::forget(Arc::clone(&store));
    let parts = Parts::assemble(options, (projects, age), store, &listeners)?;

    let stop = parts.stop.clone();
    let exposition = Exposition::start(parts.app()?, &stop);
    let otlp = parts.otlp(&exposition)?;
    let ports = Ports::open(listeners, (parts.port(), parts.calls()), (exposition, bounds), &stop);
    let upkeep = tokio::spawn(parts.upkeep().run(stop.clone()));
    let pushed = otlp.map(|otlp| tokio::spawn(otlp.run(stop.clone())));

    if up() {
        shutdown.await;
    }
    tracing::info!("stopping");
    stop.cancel();
    ports.drain().await;
    upkeep.abort();
    if let Some(pushed) = pushed {
        let _ = pushed.await;
    }
    Ok(())
}

/// The result of a call to the database, which is waited for while it cannot be reached; `None` when `stop` completes first.
async fn patiently<T: Send + 'static>(
    mut stop: Pin<&mut impl Future<Output = ()>>,
    call: impl Fn() -> Result<T, HistoryError> + Send + Sync + 'static,
) -> Result<Option<T>, ServeError> {
    let (call, mut wait) = (Arc::new(call), FIRST_WAIT);
    loop {
        let calling = Arc::clone(&call);
        match blocking(move || calling()).await {
            Err(ServeError::History(error @ HistoryError::Unreachable { .. })) => {
                tracing::warn!(%error, seconds = wait.as_secs_f64(), "waiting for the database");
            }
            result => return result.map(Some),
        }
        tokio::select! {
            () = stop.as_mut() => return Ok(None),
            () = sleep(wait) => wait = (2 * wait).min(LONGEST_WAIT),
        }
    }
}
