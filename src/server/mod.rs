//! The shell: what knows async, protobuf, sockets and clocks, and wires the rest together.
//!
//! [`run`] serves on sockets and until a stop signal that the caller owns. It starts the scorer's thread, the gRPC
//! port, the HTTP port and a clock that closes overdue passes; at the end it stops them within a grace period,
//! whatever clients do.

mod advice;
mod budget;
mod chunk;
pub mod client;
mod convert;
pub mod http;
mod ingest;
mod keeping;
mod listen;
pub mod live;
pub mod metrics;
mod notify;
mod pace;
mod priority;
pub mod proto;
pub mod question;
pub mod recording;
mod release;
mod runs;
mod service;
mod slow;
mod spare;
mod status;
mod worker;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus::Registry;
use tokio::net::TcpListener;
use tokio::sync::{broadcast, watch};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::{Request, Status};

use crate::alert::{Alerts, Rules};
use crate::fault::Fault;
use crate::history::{History, HistoryError, Limits as HistoryLimits};
use crate::memory;
use crate::point::ScoreDescription;
use crate::schedule::{Budget as CpuBudget, Ticks};
use crate::score::catalogue::{CATALOGUE, CATALOGUE_VERSION, Score};

pub use ingest::Limits as IngestLimits;
pub use notify::{Options as NotifyOptions, Target};
pub use runs::SamplingOptions;
pub use worker::WorkerOptions;

use advice::Advice;
use budget::Budget;
use http::{Access, App, Bounds};
use ingest::Ingest;
use keeping::Keeping;
use live::{AlertsStatus, Latest, Live, RunStatus};
use metrics::{AlertCollector, HistoryCollector, Metrics, ScoreCollector};
use notify::Notifier;
use proto::concept_watch_server::ConceptWatchServer;
use release::Release;
use runs::{Ready, Runs, unix_time};
use service::Service;
use slow::{Scored, SlowWorker};
use spare::Spare;
use worker::{Queue, Worker, estimator_name};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Events kept for watchers that read slowly; beyond them they are told how many they lost.
const EVENTS: usize = 1024;
/// How often overdue passes and rolling samples are looked at.
const LOOK: Duration = Duration::from_millis(250);
/// Answer to a peer that says nothing, and time for it to answer.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));
/// HTTP/2 windows of a stream and of a connection. What they let come before it is looked at is outside the byte
/// budget of ingest, so they are no larger than a local connection needs to be kept busy.
const WINDOWS: (u32, u32) = (1 << 20, 2 << 20);
/// Time for calls under way when the server stops.
const DRAIN: Duration = Duration::from_secs(2);

/// Everything that can be configured.
#[derive(Clone, Debug)]
pub struct Options {
    pub sampling: SamplingOptions,
    pub worker: WorkerOptions,
    pub ticks: Ticks,
    pub cpu: CpuBudget,
    pub ingest: IngestLimits,
    /// Bytes of batches on their way, over all connections.
    pub ingest_bytes: usize,
    /// gRPC connections at a time.
    pub connections: usize,
    /// Where the history is kept; in memory without.
    pub data_dir: Option<PathBuf>,
    pub history_bytes: u64,
    pub alerts: Rules,
    pub notify: NotifyOptions,
    /// Asked of every call, on both ports, when given.
    pub token: Option<String>,
    /// Names under which the page may be asked for besides its address and localhost.
    pub host_names: Vec<String>,
}

/// Sockets that are bound already, so that the caller knows their addresses.
pub struct Listeners {
    pub grpc: TcpListener,
    pub http: TcpListener,
}

/// Why the server could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Configuration(#[from] Fault),
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("the gRPC port failed: {0}")]
    Grpc(#[from] tonic::transport::Error),
}

impl Options {
    /// Errors naming the option that is out of range.
    pub fn check(&self) -> Result<(), Fault> {
        self.sampling.split("val").check()?;
        self.cpu.check()
    }
}

/// Serves until `shutdown` completes, which is first polled when all is up.
pub async fn run(listeners: Listeners, options: Options, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
    options.check()?;
    let alerts = Alerts::new(options.alerts.clone());
    let limits = HistoryLimits { bytes: options.history_bytes };
    let history = {
        let directory = options.data_dir.clone();
        let opening = tokio::task::spawn_blocking(move || History::open(directory.as_deref(), limits));
        Arc::new(opening.await.map_err(std::io::Error::other)??)
    };
    let registry = Registry::new();
    let metrics = Metrics::register(&registry, VERSION, CATALOGUE_VERSION)?;
    HistoryCollector::register(&registry, Arc::clone(&history))?;

    let [fast, slow] = options.cpu.parts();
    let queue = Arc::new(Queue::new(options.ticks, fast, metrics.clone()));
    let slow = Arc::new(Queue::new(options.ticks, slow, metrics.clone()));
    let scorer: Arc<dyn runs::Scorer> = Arc::clone(&queue) as _;
    let runs = Arc::new(Runs::new(options.sampling.clone(), metrics.clone(), scorer));
    let (events, _) = broadcast::channel(EVENTS);
    let page_url = format!("http://{}/", listeners.http.local_addr()?);
    let notifier = Notifier::start(options.notify.clone(), page_url.clone(), metrics.clone());
    let advice = Arc::new(Advice::new(alerts, events.clone(), notifier));
    let keeping = Arc::new(Keeping::default());
    let worker = Worker {
        options: options.worker,
        keeping: Arc::clone(&keeping),
        queue: Arc::clone(&queue),
        slow: Arc::clone(&slow),
        runs: Arc::clone(&runs),
        history: Arc::clone(&history),
        advice: Arc::clone(&advice),
        events: events.clone(),
        metrics: metrics.clone(),
    };
    let worker = worker.start()?;
    let slow_worker = SlowWorker {
        options: options.worker,
        queue: Arc::clone(&slow),
        runs: Arc::clone(&runs),
        history: Arc::clone(&history),
        advice: Arc::clone(&advice),
        events: events.clone(),
        metrics: metrics.clone(),
    };
    slow_worker.start()?;

    let live: Arc<dyn Live> = Arc::new(Sidecar {
        runs: Arc::clone(&runs),
        queue: Arc::clone(&queue),
        advice: Arc::clone(&advice),
        metrics: metrics.clone(),
        cpu_share: options.cpu.cpu_share,
        estimator: estimator_name(options.worker.settings.kind),
        started: Instant::now(),
    });
    let scores: Arc<[ScoreDescription]> = CATALOGUE.iter().map(Score::describe).collect();
    ScoreCollector::register(&registry, Arc::clone(&live), &scores)?;
    AlertCollector::register(&registry, Arc::clone(&live))?;

    let (stop, stopping) = watch::channel(false);
    let budget = Budget::new(options.ingest_bytes, metrics.ingest_budget_used.clone());
    metrics.ingest_budget_limit.set(budget.limit() as i64);
    let ingest = Ingest { runs: Arc::clone(&runs), budget, metrics: metrics.clone(), limits: options.ingest };
    let service = Service {
        ingest,
        history: Arc::clone(&history),
        events: events.clone(),
        advice: Arc::clone(&advice),
        stopping: stopping.clone(),
        page_url,
    };
    let app = App {
        history,
        registry,
        metrics: metrics.clone(),
        scores,
        events,
        live,
        access: Arc::new(Access::new(listeners.http.local_addr()?, &options.host_names, options.token.as_deref())),
    };
    let http = tokio::spawn(http::serve(listeners.http, app, Bounds::default(), stopped(stopping.clone())));
    let grpc = tokio::spawn(serve_grpc(listeners.grpc, service, options.clone(), metrics.clone(), stopping.clone()));
    let queues = (Arc::clone(&queue), Arc::clone(&slow));
    let clock = tokio::spawn(tick(Arc::clone(&runs), queues, keeping, advice, metrics, stopping));

    let mut grpc = grpc;
    let ended = tokio::select! {
        () = shutdown => None,
        ended = &mut grpc => Some(ended),
    };
    tracing::info!("stopping");
    queue.stop();
    slow.stop();
    // Fails only when nothing listens any more.
    let _ = stop.send(true);
    let drained = async {
        match ended {
            Some(ended) => ended,
            None => match tokio::time::timeout(DRAIN, &mut grpc).await {
                Ok(ended) => ended,
                Err(_) => {
                    grpc.abort();
                    Ok(Ok(()))
                }
            },
        }
    };
    // Both at once: one port's clients must not use up the other's time.
    let (ended, _) = tokio::join!(drained, tokio::time::timeout(DRAIN, http));
    clock.abort();
    // The score being computed ends with the process if it takes longer than this.
    let waited = tokio::task::spawn_blocking(move || {
        let deadline = Instant::now() + Duration::from_millis(500);
        while !worker.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let _ = waited.await;
    ended.map_err(std::io::Error::other)?
}

async fn serve_grpc(
    listener: TcpListener,
    service: Service,
    options: Options,
    metrics: Metrics,
    stopping: watch::Receiver<bool>,
) -> Result<(), ServeError> {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<ConceptWatchServer<Service>>().await;
    let open = metrics.connections.with_label_values(&["grpc"]);
    let connections = listen::connections(listener, options.connections, open);
    // A little more than a chunk, so that one just above the limit gets an answer that names it.
    let message_bytes = options.ingest.chunk_bytes + (1 << 20);
    let service = ConceptWatchServer::new(service).max_decoding_message_size(message_bytes);
    let token = options.token.map(|token| format!("Bearer {token}"));
    let service = InterceptedService::new(service, move |request| authorised(request, token.as_deref()));
    let stop = stopped(stopping);
    transport()
        .add_service(health)
        .add_service(service)
        .serve_with_incoming_shutdown(connections, async {
            stop.await;
            reporter.set_not_serving::<ConceptWatchServer<Service>>().await;
        })
        .await?;
    Ok(())
}

/// HTTP/2 as the gRPC port speaks it.
pub fn transport() -> Server {
    Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE.0))
        .http2_keepalive_timeout(Some(KEEPALIVE.1))
        .initial_stream_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        .max_concurrent_streams(64)
        .http2_max_header_list_size(16 << 10)
}

fn authorised(request: Request<()>, token: Option<&str>) -> Result<Request<()>, Status> {
    let Some(token) = token else { return Ok(request) };
    let given = request.metadata().get("authorization").map(|value| value.as_encoded_bytes());
    if given.is_some_and(|given| http::same_secret(given, token.as_bytes())) {
        Ok(request)
    } else {
        Err(Status::unauthenticated("authorization: expected the metadata 'Bearer ' and the server's token"))
    }
}

/// The clock of the shell: closes overdue passes, tells the schedule which rolling samples changed, and gives memory
/// back when batches have stopped coming.
async fn tick(
    runs: Arc<Runs>,
    (queue, slow): (Arc<Queue<Ready>>, Arc<Queue<Scored>>),
    keeping: Arc<Keeping>,
    advice: Arc<Advice>,
    metrics: Metrics,
    stopping: watch::Receiver<bool>,
) {
    let mut looks = tokio::time::interval(LOOK);
    let mut release = Release::default();
    let mut spare = Spare::default();
    while !*stopping.borrow() {
        looks.tick().await;
        for gone in runs.close_overdue() {
            queue.forget(&gone);
            keeping.forget_run(&gone);
            advice.forget(&gone);
            slow.forget(&gone);
        }
        if let Some(cores) = spare.look(Instant::now()) {
            metrics.spare_cores.set(cores);
            queue.spare(cores);
            slow.spare(cores);
        }
        metrics.kept_memory.set(keeping.bytes() as i64);
        queue.look(&runs);
        advice.look(unix_time());
        if release.is_due(metrics.received_bytes.get(), Instant::now()) {
            // Not waited for: it only has to happen away from the threads that serve.
            tokio::task::spawn_blocking(memory::give_back);
        }
    }
}

async fn stopped(mut stopping: watch::Receiver<bool>) {
    // An error means that the sender is gone, which is a stop too.
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// What the exports see of this process.
struct Sidecar {
    runs: Arc<Runs>,
    queue: Arc<Queue<Ready>>,
    advice: Arc<Advice>,
    metrics: Metrics,
    cpu_share: f64,
    estimator: &'static str,
    started: Instant,
}

impl Live for Sidecar {
    fn runs(&self) -> Vec<RunStatus> {
        self.runs.statuses()
    }

    fn latest(&self) -> Vec<Latest> {
        self.runs.latest()
    }

    fn alerts(&self) -> AlertsStatus {
        self.advice.status()
    }

    fn status(&self) -> live::Status {
        live::Status {
            version: VERSION,
            catalogue_version: CATALOGUE_VERSION,
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            lag_seconds: self.queue.lag().as_secs_f64(),
            rows_dropped: self.metrics.all_rows_dropped(),
            points_skipped: self.metrics.points_skipped.get(),
            memory_bytes: self.runs.memory() as u64,
            memory_limit_bytes: self.runs.options().memory as u64,
            staleness_seconds: self.metrics.staleness.get(),
            cpu_share: self.cpu_share,
            cpu_seconds: self.metrics.worker_cpu.get(),
            estimator: self.estimator,
        }
    }

    fn ready(&self) -> Result<(), String> {
        let used = self.runs.memory();
        let limit = self.runs.options().memory;
        if used < limit { Ok(()) } else { Err(format!("samples hold {used} bytes, the limit is {limit}")) }
    }
}
