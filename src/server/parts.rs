//! The parts of a running sidecar, built from output to input: each part is constructed with the one it passes values to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use prometheus::Registry;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::alert::Alerts;
use crate::history::History;
use crate::score::catalogue::{CATALOGUE, CATALOGUE_VERSION, Score};

use super::advice::Advice;
use super::board::Board;
use super::clock::Clock;
use super::grpc::{Budget, Ingest, Port, Service};
use super::http::{Access, App};
use super::live::{Event, Live};
use super::metrics::{AlertCollector, HistoryCollector, Metrics, ScoreCollector};
use super::notify::Notifier;
use super::options::{Listeners, Options, ServeError};
use super::publish::Publisher;
use super::runs::Runs;
use super::scoring::Scoring;
use super::scoring::pool::estimator_name;
use super::sidecar::{Sidecar, VERSION};
use super::upkeep::Upkeep;

/// Events buffered for slow watchers. A watcher that falls further behind gets the number of events it lost.
const EVENTS: usize = 1024;

pub struct Parts {
    options: Options,
    /// Address of the HTTP port.
    address: SocketAddr,
    page_url: String,
    registry: Registry,
    pub metrics: Metrics,
    history: Arc<History>,
    events: broadcast::Sender<Event>,
    advice: Arc<Advice>,
    board: Arc<Board>,
    pub scoring: Scoring,
    pub runs: Arc<Runs>,
    /// Cancelled once, when the server stops.
    pub stop: CancellationToken,
}

impl Parts {
    pub fn assemble(options: Options, history: Arc<History>, listeners: &Listeners) -> Result<Self, ServeError> {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry, VERSION, CATALOGUE_VERSION)?;
        HistoryCollector::register(&registry, Arc::clone(&history))?;
        let address = listeners.http.local_addr()?;
        let page_url = format!("http://{address}/");
        let stop = CancellationToken::new();
        let (events, _) = broadcast::channel(EVENTS);
        let notifier = Notifier::start(options.notify.clone(), page_url.clone(), metrics.clone());
        let advice = Arc::new(Advice::new(Alerts::new(options.alerts.clone()), events.clone(), notifier));
        let board = Arc::new(Board::new(options.sampling.linger));
        let publisher = Publisher {
            history: Arc::clone(&history),
            advice: Arc::clone(&advice),
            board: Arc::clone(&board),
            events: events.clone(),
            metrics: metrics.clone(),
        };
        let scoring = Scoring::new(&options, publisher, &stop);
        let runs = Runs::new(options.sampling.clone(), Clock::start(), metrics.clone(), scoring.inbox());
        let runs = Arc::new(runs);
        Ok(Self { options, address, page_url, registry, metrics, history, events, advice, board, scoring, runs, stop })
    }

    /// The state of the HTTP port. Also registers the metrics that are derived from the latest points and alerts.
    pub fn app(&self) -> Result<App, ServeError> {
        let live: Arc<dyn Live> = Arc::new(Sidecar {
            runs: Arc::clone(&self.runs),
            board: Arc::clone(&self.board),
            queue: Arc::clone(&self.scoring.queue),
            advice: Arc::clone(&self.advice),
            metrics: self.metrics.clone(),
            cpu_share: self.options.cpu.cpu_share,
            estimator: estimator_name(self.options.worker.settings.kind),
            started: Instant::now(),
        });
        let scores: Arc<[_]> = CATALOGUE.iter().map(Score::describe).collect();
        ScoreCollector::register(&self.registry, Arc::clone(&live), &scores)?;
        AlertCollector::register(&self.registry, Arc::clone(&live))?;
        let Options { host_names, token, .. } = &self.options;
        Ok(App {
            history: Arc::clone(&self.history),
            registry: self.registry.clone(),
            metrics: self.metrics.clone(),
            scores,
            events: self.events.clone(),
            live,
            access: Arc::new(Access::new(self.address, host_names, token.as_deref())),
        })
    }

    pub fn service(&self) -> Service {
        let ingest = Ingest {
            runs: Arc::clone(&self.runs),
            budget: Budget::new(self.options.ingest_bytes, &self.metrics),
            metrics: self.metrics.clone(),
            limits: self.options.ingest,
        };
        Service {
            ingest,
            history: Arc::clone(&self.history),
            events: self.events.clone(),
            advice: Arc::clone(&self.advice),
            board: Arc::clone(&self.board),
            stop: self.stop.clone(),
            page_url: self.page_url.clone(),
        }
    }

    pub fn port(&self) -> Port {
        let Options { connections, ingest, token, .. } = &self.options;
        Port { connections: *connections, chunk_bytes: ingest.chunk_bytes, token: token.clone() }
    }

    pub fn upkeep(&self) -> Upkeep {
        Upkeep {
            runs: Arc::clone(&self.runs),
            board: Arc::clone(&self.board),
            queue: Arc::clone(&self.scoring.queue),
            slow: Arc::clone(&self.scoring.slow),
            keeping: Arc::clone(&self.scoring.keeping),
            advice: Arc::clone(&self.advice),
            metrics: self.metrics.clone(),
        }
    }
}
