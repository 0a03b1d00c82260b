//! The parts of a running sidecar, built from output to input: each part is constructed with the one it passes values to.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use prometheus::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::VERSION;
use crate::history::Store;
use leakage::score::catalogue::{CATALOGUE, CATALOGUE_VERSION};

use super::alert_log::AlertLog;
use super::clock::Clock;
use super::events::{Bounds, Events};
use super::grpc::{Budget, Ingest, Port, Project, Service, Token};
use super::http::{Access, App, Exposition};
use super::live::Live;
use super::metrics::{self, Metrics};
use super::notify::Notifier;
use super::options::{Listeners, Options, ServeError, page_url};
use super::otlp::Otlp;
use super::pass_outcomes::Settlement;
use super::peers::Endpoint;
use super::publish::Publisher;
use super::runs::{self, Runs};
use super::scoring::Scoring;
use super::sidecar::Sidecar;
use super::upkeep::Upkeep;
use super::upstream::{Reach, Upstream};
use super::windows::Windows;

/// How long after the signal to stop rolling windows may still be saved.
const SAVING: Duration = Duration::from_millis(4300);

pub struct Parts {
    options: Options,
    http: Endpoint,
    page_url: String,
    registry: Registry,
    metrics: Metrics,
    history: Arc<dyn Store>,
    events: Events,
    pub settlement: Arc<Settlement>,
    windows: Windows,
    pub scoring: Scoring,
    /// How the hub stands; `None` without one.
    reach: Option<Arc<Reach>>,
    pub runs: Arc<Runs>,
    /// Cancelled once, when the server stops.
    pub stop: CancellationToken,
}

impl Parts {
    /// `upstream` sends to the hub, if there is one.
    pub fn assemble(
        options: Options,
        history: Arc<dyn Store>,
        upstream: Option<&Upstream>,
        listeners: &Listeners,
    ) -> Result<Self, ServeError> {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry, VERSION, CATALOGUE_VERSION)?;
        metrics::history::register(&registry, Arc::clone(&history))?;
        let http = listeners.http.local().clone();
        let page_url = page_url(&http, options.tls.is_some());
        let stop = CancellationToken::new();
        let events = Events::new(Bounds::default());
        let notifier = Notifier::start(options.notify.clone(), page_url.clone(), metrics.clone());
        let log = Arc::new(AlertLog::new(options.alerts.clone(), events.clone(), notifier));
        let windows = Windows::new(options.data_dir.as_deref(), metrics.clone());
        let settlement = Arc::new(Settlement::new(Arc::clone(&history), metrics.clone()));
        let publisher = Publisher {
            settlement: Arc::clone(&settlement),
            history: Arc::clone(&history),
            events: events.clone(),
            metrics: metrics.clone(),
        };
        let scoring = Scoring::new(&options, publisher.clone(), &stop);
        let runs = Arc::new(Runs::new(
            options.sampling.clone(),
            Clock::start(),
            metrics.clone(),
            Arc::new(runs::Registry::new(options.sampling.linger, Arc::clone(&log))),
            Arc::clone(&settlement),
            scoring.inbox(),
        ));
        Ok(Self {
            options,
            http,
            page_url,
            registry,
            metrics,
            history,
            events,
            settlement,
            windows,
            scoring,
            reach: upstream.map(Upstream::reach),
            runs,
            stop,
        })
    }

    /// The state of the HTTP port. Also registers the metrics that are derived from the latest points and alerts.
    pub fn app(&self) -> Result<App, ServeError> {
        let live: Arc<dyn Live> = Arc::new(Sidecar {
            history: Arc::clone(&self.history),
            runs: Arc::clone(&self.runs),
            queue: Arc::clone(&self.scoring.queue),
            fast: Arc::clone(&self.scoring.fast),
            metrics: self.metrics.clone(),
            cpu_share: self.options.cpu.cpu_share,
            estimator: self.options.worker.settings.kind.name(),
            started: Instant::now(),
            reach: self.reach.clone(),
        });
        metrics::register_runs(&self.registry, &live)?;
        if let Some(reach) = &self.reach {
            let reach = Arc::clone(reach);
            metrics::upstream::register(&self.registry, move || reach.status())?;
        }
        let Options { host_names, token, tls, .. } = &self.options;
        Ok(App {
            history: Arc::clone(&self.history),
            registry: self.registry.clone(),
            metrics: self.metrics.clone(),
            scores: CATALOGUE,
            events: self.events.clone(),
            live,
            access: Arc::new(Access::new(&self.http, host_names, token.as_deref(), tls.as_ref())),
            rows: Arc::default(),
        })
    }

    pub fn service(&self) -> Service {
        let ingest = Ingest {
            runs: Arc::clone(&self.runs),
            settlement: Arc::clone(&self.settlement),
            queue: Arc::clone(&self.scoring.queue),
            budget: Budget::new(self.options.ingest_bytes, &self.metrics),
            metrics: self.metrics.clone(),
            limits: self.options.ingest,
            streams: self.options.streams.clone(),
        };
        Service {
            ingest,
            history: Arc::clone(&self.history),
            events: self.events.clone(),
            settlement: Arc::clone(&self.settlement),
            windows: self.windows.clone(),
            stop: self.stop.clone(),
            page_url: self.page_url.clone(),
            data_dir: self.options.data_dir.as_deref().map(|path| path.display().to_string()).unwrap_or_default(),
            ends_unused: self.options.ends_unused,
        }
    }

    /// Returns the task that pushes the metrics to a collector, if there is one.
    pub fn otlp(&self, exposition: &Exposition) -> Result<Option<Otlp>, ServeError> {
        Otlp::new(&self.options, &self.http, exposition)
    }

    pub fn port(&self) -> Port {
        let Options { connections, ingest, token, tls, .. } = self.options.clone();
        let tokens = token.into_iter().map(|text| Token { text, project: Project::default() }).collect();
        Port { connections, chunk_bytes: ingest.chunk_bytes, tokens, tls }
    }

    pub fn upkeep(&self) -> Upkeep {
        Upkeep {
            runs: Arc::clone(&self.runs),
            windows: self.windows.clone(),
            queue: Arc::clone(&self.scoring.queue),
            fast: Arc::clone(&self.scoring.fast),
            slow: Arc::clone(&self.scoring.slow),
            metrics: self.metrics.clone(),
            publisher: self.scoring.publisher.clone(),
        }
    }

    /// Scores what was received, if there is time, and else records that it was not; then saves the rolling windows. To be
    /// called when nothing more arrives, `stopped` after the signal to stop. `records` writes how passes ended.
    pub async fn settle(&self, scorer: thread::JoinHandle<()>, records: JoinHandle<()>, stopped: Instant) {
        self.scoring.settle_down(scorer, stopped).await;
        self.runs.stop();
        self.settlement.give_up("the sidecar stopped before the pass was scored");
        // Ends with the stop; what it is writing is written before the last records.
        let _ = records.await;
        let settlement = Arc::clone(&self.settlement);
        let (runs, windows) = (Arc::clone(&self.runs), self.windows.clone());
        let last = move || {
            settlement.flush();
            while let Some((key, window)) = runs.window_to_save(Duration::ZERO).filter(|_| windows.are_saved())
                && stopped.elapsed() < SAVING
            {
                windows.save(&key, &window);
            }
        };
        let _ = tokio::task::spawn_blocking(last).await;
    }
}
