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
mod projects;
mod state;
mod threads;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus::Registry;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::alert::Alerts;
use crate::history::{HistoryError, Postgres, Store};
use crate::score::catalogue::{CATALOGUE, CATALOGUE_VERSION, Score};

use super::advice::Advice;
use super::events::{Bounds as EventBounds, Events};
use super::grpc::{self, Budget, Calls, HubService, Port, Project, Reader, Reads, Token};
use super::http::{self, Access, App, Bounds};
use super::live::Live;
use super::metrics::{AlertCollector, HistoryCollector, HubMetrics, Metrics, ScoreCollector};
use super::notify::Notifier;
use super::options::{Listeners, Options, ServeError, page_url};

use board::Board;
use follower::Follower;
use intake::Intake;
use state::State;
use threads::Threads;

pub use projects::projects;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long calls in flight may take when the hub stops.
const DRAIN: Duration = Duration::from_secs(2);
/// Interval of looking for overdue passes, and of deleting what is kept no longer.
const LOOK: Duration = Duration::from_secs(1);
const RETAIN: Duration = Duration::from_secs(60);

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
    let opening = tokio::task::spawn_blocking(move || Postgres::open(&store));
    let store = Arc::new(opening.await.map_err(std::io::Error::other)??);
    // Closing its connections blocks, which no thread of the runtime may do. They end with the process.
    std::mem::forget(Arc::clone(&store));
    let history: Arc<dyn Store> = store.clone();

    let registry = Registry::new();
    let metrics = Metrics::register(&registry, VERSION, CATALOGUE_VERSION)?;
    let hub_metrics = HubMetrics::register(&registry)?;
    HistoryCollector::register(&registry, Arc::clone(&history))?;
    let (grpc_at, http_at) = (listeners.grpc.local().clone(), listeners.http.local().clone());
    let stop = CancellationToken::new();
    let events = Events::new(EventBounds::default());
    let notifier = Notifier::start(options.notify.clone(), page_url(&http_at, options.tls.is_some()), metrics.clone());
    let advice = Arc::new(Advice::new(Alerts::new(options.alerts.clone()), events.clone(), notifier));
    let board = Arc::new(Board::new(options.sampling.linger));
    let look = Arc::new(Notify::new());
    let follower = Follower {
        store: Arc::clone(&store),
        board: Arc::clone(&board),
        advice: Arc::clone(&advice),
        events: events.clone(),
        metrics: hub_metrics.clone(),
        own: metrics.clone(),
        look: Arc::clone(&look),
    };
    let (stating, settings) = (Arc::clone(&store), options.worker.settings);
    let stated = tokio::task::spawn_blocking(move || stating.state_settings(&settings));
    stated.await.map_err(std::io::Error::other)??;
    let reading = follower.clone();
    let place = tokio::task::spawn_blocking(move || reading.begin()).await.map_err(std::io::Error::other)??;

    let live: Arc<dyn Live> = Arc::new(State {
        history: Arc::clone(&history),
        board: Arc::clone(&board),
        advice: Arc::clone(&advice),
        metrics: metrics.clone(),
        started: Instant::now(),
    });
    let scores: Arc<[_]> = CATALOGUE.iter().map(Score::describe).collect();
    ScoreCollector::register(&registry, Arc::clone(&live), &scores)?;
    AlertCollector::register(&registry, Arc::clone(&live))?;
    let pass_deadline = options.sampling.pass_deadline;
    let threads = (workers > 0).then(|| Threads::start(&store, workers, options.worker.niceness)).transpose()?;
    let Options { host_names, token, tls, secret, connections, http_connections, ingest, ingest_bytes, .. } = options;
    let app = App {
        history: Arc::clone(&history),
        registry,
        metrics: metrics.clone(),
        scores,
        events: events.clone(),
        live: Arc::clone(&live),
        access: Arc::new(Access::new(&http_at, &host_names, token.as_deref(), tls.as_ref())),
    };
    let intake = Arc::new(Intake { store: Arc::clone(&store), board, advice, metrics: hub_metrics.clone(), look });
    let reader = Reader { history, events, lost: metrics.watch_events_lost.clone(), stop: stop.clone() };
    let budget = Budget::new(ingest_bytes, &metrics);
    let calls = Calls::Hub(HubService { intake }, Reads { reader, live }, budget);
    let of_projects = projects.into_iter().map(|(name, text)| Token { text, project: Project(name.into()) });
    let general = token.into_iter().map(|text| Token { text, project: Project::default() });
    let tokens = general.chain(of_projects).collect();
    let port =
        Port { connections, chunk_bytes: ingest.chunk_bytes, tokens, tls: tls.clone(), secret, address: grpc_at };

    let bounds = Bounds { connections: http_connections, ..Bounds::default() };
    let http = tokio::spawn(http::serve(listeners.http, tls.clone(), app, bounds, stop.clone()));
    let mut grpc = tokio::spawn(grpc::serve(listeners.grpc, port, calls, metrics, stop.clone()));
    if let Some(tls) = tls {
        tokio::spawn(tls.keep_current(stop.clone()));
    }
    let following = tokio::spawn(follower.run(place, stop.clone()));
    let upkeep = Upkeep { store, metrics: hub_metrics, pass_deadline };
    let upkeep = tokio::spawn(upkeep.run(stop.clone()));

    let failed = tokio::select! {
        () = shutdown => None,
        ended = &mut grpc => Some(ended),
    };
    tracing::info!("stopping");
    stop.cancel();
    if let Some(threads) = &threads {
        threads.stop();
    }
    let drained = async {
        match failed {
            Some(ended) => Some(ended),
            None => timeout(DRAIN, &mut grpc).await.ok(),
        }
    };
    let (ended, _) = tokio::join!(drained, timeout(DRAIN, http));
    grpc.abort();
    following.abort();
    upkeep.abort();
    if let Some(threads) = threads {
        // A job that is not given back by then waits for the end of its lease.
        let _ = timeout(DRAIN, tokio::task::spawn_blocking(move || threads.join())).await;
    }
    match ended {
        Some(ended) => Ok(ended.map_err(std::io::Error::other)??),
        None => Ok(()),
    }
}

/// What happens by the clock, in any hub: passes are closed whose ranks do not come, and what is kept no longer is deleted.
struct Upkeep {
    store: Arc<Postgres>,
    metrics: HubMetrics,
    /// As of a sidecar.
    pass_deadline: Duration,
}

impl Upkeep {
    async fn run(self, stop: CancellationToken) {
        let (upkeep, mut retained) = (Arc::new(self), Instant::now());
        while stop.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_some() {
            let due = retained.elapsed() >= RETAIN;
            if due {
                retained = Instant::now();
            }
            let looking = Arc::clone(&upkeep);
            if let Ok(Err(error)) = tokio::task::spawn_blocking(move || looking.look(due)).await {
                tracing::warn!(%error, "overdue passes could not be closed");
            }
        }
    }

    fn look(&self, retain: bool) -> Result<(), HistoryError> {
        self.store.close_overdue(self.pass_deadline)?;
        let queue = self.store.job_queue()?;
        self.metrics.jobs_waiting.set(queue.waiting as i64);
        self.metrics.jobs_leased.set(queue.leased as i64);
        self.metrics.jobs_oldest.set(queue.oldest_seconds);
        if retain {
            self.store.retain()?;
        }
        Ok(())
    }
}
