//! The parts of a running hub.

use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use tokio_util::sync::CancellationToken;

use super::intake::Intake;
use super::shown::Shown;
use super::upkeep::Upkeep;
use crate::VERSION;
use crate::history::{Postgres, Store};
use crate::server::events::{Bounds, Events};
use crate::server::grpc::{Budget, Calls, HubService, Port, Project, Reader, Reads, Token};
use crate::server::http::{Access, App, Exposition};
use crate::server::live::Live;
use crate::server::metrics::{self, HubMetrics, Metrics};
use crate::server::options::{Listeners, Options, ServeError};
use crate::server::otlp::Otlp;
use crate::server::peers::Endpoint;
use leakage::score::catalogue::{CATALOGUE, CATALOGUE_VERSION};

pub struct Parts {
    options: Options,
    projects: Vec<(String, String)>,
    age: Option<Duration>,
    http: Endpoint,
    registry: Registry,
    metrics: Metrics,
    hub_metrics: HubMetrics,
    store: Arc<Postgres>,
    events: Events,
    shown: Arc<Shown>,
    /// Cancelled once, when the hub stops.
    pub stop: CancellationToken,
}

impl Parts {
    pub fn assemble(
        options: Options,
        (projects, age): (Vec<(String, String)>, Option<Duration>),
        store: Arc<Postgres>,
        listeners: &Listeners,
    ) -> Result<Self, ServeError> {
        let history: Arc<dyn Store> = store.clone();
        let registry = Registry::new();
        let metrics = Metrics::register(&registry, VERSION, CATALOGUE_VERSION)?;
        let hub_metrics = HubMetrics::register(&registry)?;
        metrics::history::register(&registry, history)?;
        let http = listeners.http.local().clone();
        let events = Events::new(Bounds::default());
        let (of_store, linger) = (Arc::clone(&store), options.sampling.linger);
        let shown = Arc::new(Shown::new(of_store, events.clone(), metrics.clone(), linger));
        let stop = CancellationToken::new();
        Ok(Self { options, projects, age, http, registry, metrics, hub_metrics, store, events, shown, stop })
    }

    /// The state of the HTTP port. Also registers the metrics that are read from the tables.
    pub fn app(&self) -> Result<App, ServeError> {
        let live: Arc<dyn Live> = self.shown.clone();
        metrics::register_runs(&self.registry, &live)?;
        let shown = Arc::clone(&self.shown);
        metrics::register_ages(&self.registry, move || shown.heard())?;
        let Options { host_names, token, tls, .. } = &self.options;
        Ok(App {
            history: self.store.clone(),
            registry: self.registry.clone(),
            metrics: self.metrics.clone(),
            scores: CATALOGUE,
            events: self.events.clone(),
            live,
            access: Arc::new(Access::new(&self.http, host_names, token.as_deref(), tls.as_ref())),
            rows: Arc::default(),
        })
    }

    pub fn calls(&self) -> Calls {
        let intake = Arc::new(Intake { store: Arc::clone(&self.store), metrics: self.hub_metrics.clone() });
        let reader = Reader {
            history: self.store.clone(),
            events: self.events.clone(),
            lost: self.metrics.watch_events_lost.clone(),
            stop: self.stop.clone(),
        };
        let budget = Budget::new(self.options.ingest_bytes, &self.metrics);
        Calls::Hub(HubService { intake }, Reads { reader, live: self.shown.clone() }, budget)
    }

    /// Returns the task that pushes the metrics to a collector, if there is one.
    pub fn otlp(&self, exposition: &Exposition) -> Result<Option<Otlp>, ServeError> {
        Otlp::new(&self.options, &self.http, exposition)
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
        Upkeep { shown: Arc::clone(&self.shown), age: self.age }
    }
}
