//! The parts of a running sidecar, built from output to input: each part is constructed with the one it passes values to.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::history::Store;

use super::alert_log::AlertLog;
use super::clock::Clock;
use super::grpc::{Ingest, Service};
use super::http::App;
use super::notify::Notifier;
use super::options::{Listeners, Options, ServeError, page_url};
use super::pass_outcomes::Settlement;
use super::ports::Front;
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
    pub front: Front,
    page_url: String,
    history: Arc<dyn Store>,
    pub settlement: Arc<Settlement>,
    windows: Windows,
    pub scoring: Scoring,
    /// How the hub stands; `None` without one.
    reach: Option<Arc<Reach>>,
    pub runs: Arc<Runs>,
}

impl Parts {
    /// `upstream` sends to the hub, if there is one.
    pub fn assemble(
        options: Options,
        history: Arc<dyn Store>,
        upstream: Option<&Upstream>,
        listeners: &Listeners,
    ) -> Result<Self, ServeError> {
        let front = Front::new(options, listeners)?;
        let Front { options, metrics, events, .. } = &front;
        let page_url = page_url(&front.http, options.tls.is_some());
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
        let scoring = Scoring::new(options, publisher, &front.stop);
        let onward = scoring.onward.clone();
        let runs = Arc::new(Runs::new(
            options.sampling.clone(),
            Clock::start(),
            metrics.clone(),
            Arc::new(runs::Registry::new(options.sampling.linger, Arc::clone(&log))),
            Arc::clone(&settlement),
            Box::new(move |frozen| onward.offer(frozen)),
        ));
        let reach = upstream.map(Upstream::reach);
        Ok(Self { front, page_url, history, settlement, windows, scoring, reach, runs })
    }

    /// The state of the HTTP port.
    pub fn app(&self) -> App {
        let options = &self.front.options;
        let live = Sidecar {
            history: Arc::clone(&self.history),
            runs: Arc::clone(&self.runs),
            queues: self.scoring.onward.queues.clone(),
            metrics: self.front.metrics.clone(),
            cpu_share: options.cpu.cpu_share,
            estimator: options.worker.settings.kind.name(),
            started: Instant::now(),
            reach: self.reach.clone(),
        };
        self.front.app(Arc::clone(&self.history), Arc::new(live))
    }

    pub fn service(&self) -> Service {
        let Front { options, events, stop, .. } = &self.front;
        let ingest = Ingest {
            runs: Arc::clone(&self.runs),
            settlement: Arc::clone(&self.settlement),
            queues: self.scoring.onward.queues.clone(),
            budget: self.front.budget(),
            metrics: self.front.metrics.clone(),
            limits: options.ingest,
            streams: options.streams.clone(),
        };
        Service {
            ingest,
            history: Arc::clone(&self.history),
            events: events.clone(),
            settlement: Arc::clone(&self.settlement),
            windows: self.windows.clone(),
            stop: stop.clone(),
            page_url: self.page_url.clone(),
            data_dir: options.data_dir.as_deref().map(|path| path.display().to_string()).unwrap_or_default(),
            ends_unused: options.ends_unused,
        }
    }

    pub fn upkeep(&self) -> Upkeep {
        Upkeep {
            runs: Arc::clone(&self.runs),
            windows: self.windows.clone(),
            queues: self.scoring.onward.queues.clone(),
            metrics: self.front.metrics.clone(),
            publisher: self.scoring.onward.publisher.clone(),
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
