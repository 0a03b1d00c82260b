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

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::history::{HistoryError, Postgres};

use super::blocking::blocking;
use super::grpc::{Calls, HubService};
use super::metrics::HubMetrics;
use super::options::{Listeners, Options, ServeError};
use super::ports::Front;

use intake::Intake;
use shown::Shown;
use upkeep::Upkeep;

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
    let Some(store) = patiently(shutdown.as_mut(), move || Postgres::open(&store)).await? else { return Ok(()) };
    let store = Arc::new(store);
    // Closing its connections blocks, which no thread of the runtime may do. They end with the process.
    std::mem::forget(Arc::clone(&store));
    let front = Front::new(options, &listeners)?;
    let Front { events, metrics, stop, .. } = &front;
    let (of_store, linger) = (Arc::clone(&store), front.options.sampling.linger);
    let shown = Arc::new(Shown::new(of_store, events.clone(), metrics.clone(), linger));
    let intake = Intake { store: Arc::clone(&store), metrics: HubMetrics::register(&front.registry)? };
    let calls = Calls::Hub(HubService { intake: Arc::new(intake) }, front.budget());
    let app = front.app(store, shown.clone());
    let ports = front.open(listeners, app, calls, projects, stop)?;
    let upkeep = tokio::spawn(Upkeep { shown, age }.run(stop.clone()));

    if up() {
        shutdown.await;
    }
    tracing::info!("stopping");
    stop.cancel();
    let pushed = ports.drain().await;
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
