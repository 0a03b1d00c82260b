//! The parts of a running hub.

use std::sync::Arc;
use std::time::Instant;

use prometheus::Registry;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::board::SharedBoard;
use super::follower::Follower;
use super::intake::Intake;
use super::state::State;
use super::upkeep::Upkeep;
use crate::VERSION;
use crate::alert::Alerts;
use crate::history::{Postgres, Store};
use crate::score::catalogue::{CATALOGUE, CATALOGUE_VERSION, Score};
use crate::server::advice::Advice;
use crate::server::events::{Bounds, Events};
use crate::server::grpc::{Budget, Calls, HubService, Port, Project, Reader, Reads, Token};
use crate::server::http::{Access, App};
use crate::server::live::Live;
use crate::server::metrics::{AlertCollector, HistoryCollector, HubMetrics, Metrics, ScoreCollector};
use crate::server::notify::Notifier;
use crate::server::options::{Listeners, Options, ServeError, page_url};
use crate::server::peers::Endpoint;

pub struct Parts {
    options: Options,
    projects: Vec<(String, String)>,
    http: Endpoint,
    registry: Registry,
    metrics: Metrics,
    hub_metrics: HubMetrics,
    store: Arc<Postgres>,
    events: Events,
    board: Arc<SharedBoard>,
    advice: Arc<Advice>,
    live: Arc<dyn Live>,
    look: Arc<Notify>,
    /// Cancelled once, when the hub stops.
    pub stop: CancellationToken,
}

impl Parts {
    pub fn assemble(
        options: Options,
        projects: Vec<(String, String)>,
        store: Arc<Postgres>,
        listeners: &Listeners,
    ) -> Result<Self, ServeError> {
        let history: Arc<dyn Store> = store.clone();
        let registry = Registry::new();
        let metrics = Metrics::register(&registry, VERSION, CATALOGUE_VERSION)?;
        let hub_metrics = HubMetrics::register(&registry)?;
        HistoryCollector::register(&registry, Arc::clone(&history))?;
        let http = listeners.http.local().clone();
        let events = Events::new(Bounds::default());
        let notifier = Notifier::start(options.notify.clone(), page_url(&http, options.tls.is_some()), metrics.clone());
        let advice = Arc::new(Advice::new(Alerts::new(options.alerts.clone()), events.clone(), notifier));
        let board = Arc::new(SharedBoard::new(options.sampling.linger));
        let live: Arc<dyn Live> = Arc::new(State {
            history,
            board: Arc::clone(&board),
            advice: Arc::clone(&advice),
            metrics: metrics.clone(),
            started: Instant::now(),
        });
        let (look, stop) = (Arc::new(Notify::new()), CancellationToken::new());
        Ok(Self {
            options,
            projects,
            http,
            registry,
            metrics,
            hub_metrics,
            store,
            events,
            board,
            advice,
            live,
            look,
            stop,
        })
    }

    /// Feeds board, rules and watchers from the database.
    pub fn follower(&self) -> Follower {
        Follower {
            store: Arc::clone(&self.store),
            board: Arc::clone(&self.board),
            advice: Arc::clone(&self.advice),
            events: self.events.clone(),
            metrics: self.hub_metrics.clone(),
            own: self.metrics.clone(),
            look: Arc::clone(&self.look),
        }
    }

    /// The state of the HTTP port. Also registers the metrics that are derived from the latest points and alerts.
    pub fn app(&self) -> Result<App, ServeError> {
        let scores: Arc<[_]> = CATALOGUE.iter().map(Score::describe).collect();
        ScoreCollector::register(&self.registry, Arc::clone(&self.live), &scores)?;
        AlertCollector::register(&self.registry, Arc::clone(&self.live))?;
        let Options { host_names, token, tls, .. } = &self.options;
        Ok(App {
            history: self.store.clone(),
            registry: self.registry.clone(),
            metrics: self.metrics.clone(),
            scores,
            events: self.events.clone(),
            live: Arc::clone(&self.live),
            access: Arc::new(Access::new(&self.http, host_names, token.as_deref(), tls.as_ref())),
        })
    }

    pub fn calls(&self) -> Calls {
        let intake = Arc::new(Intake {
            store: Arc::clone(&self.store),
            metrics: self.hub_metrics.clone(),
            look: Arc::clone(&self.look),
        });
        let reader = Reader {
            history: self.store.clone(),
            events: self.events.clone(),
            lost: self.metrics.watch_events_lost.clone(),
            stop: self.stop.clone(),
        };
        let budget = Budget::new(self.options.ingest_bytes, &self.metrics);
        Calls::Hub(HubService { intake }, Reads { reader, live: Arc::clone(&self.live) }, budget)
    }

    pub fn port(&self) -> Port {
        let Options { connections, ingest, token, tls, .. } = self.options.clone();
        let of_projects = self.projects.iter().cloned();
        let of_projects = of_projects.map(|(name, text)| Token { text, project: Project(name.into()) });
        let general = token.into_iter().map(|text| Token { text, project: Project::default() });
        let tokens = general.chain(of_projects).collect();
        Port { connections, chunk_bytes: ingest.chunk_bytes, tokens, tls }
    }

    pub fn upkeep(&self) -> Upkeep {
        Upkeep { store: Arc::clone(&self.store) }
    }
}
