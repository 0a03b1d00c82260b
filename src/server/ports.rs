//! Both ports of a sidecar or a hub, what they read from, and the push of the metrics.

use std::sync::Arc;

use prometheus::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::VERSION;
use crate::history::Store;
use leakage::score::catalogue::CATALOGUE_VERSION;

use super::events::{Bounds as EventBounds, Events};
use super::grpc::{self, Budget, Calls, Port, Project, Token};
use super::http::{self, Access, App, Bounds, Exposition};
use super::live::Live;
use super::metrics::Metrics;
use super::options::{Listeners, Options, ServeError};
use super::otlp::Otlp;
use super::peers::Endpoint;

/// The parts that a sidecar and a hub have in common: options, metrics, events, and how they open their ports.
pub struct Front {
    pub options: Options,
    /// The address of the page.
    pub http: Endpoint,
    pub registry: Registry,
    pub metrics: Metrics,
    pub events: Events,
    /// Cancelled once, when the process stops.
    pub stop: CancellationToken,
}

impl Front {
    pub fn new(options: Options, listeners: &Listeners) -> Result<Self, ServeError> {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry, VERSION, CATALOGUE_VERSION)?;
        let (events, stop) = (Events::new(EventBounds::default()), CancellationToken::new());
        Ok(Self { options, http: listeners.http.local().clone(), registry, metrics, events, stop })
    }

    /// The state of the HTTP port.
    pub fn app(&self, history: Arc<dyn Store>, live: Arc<dyn Live>) -> App {
        let access = Access::of(&self.options, &self.http);
        App::new(history, live, self.registry.clone(), self.metrics.clone(), self.events.clone(), access)
    }

    /// The memory of what arrives over gRPC.
    pub fn budget(&self) -> Budget {
        Budget::new(self.options.ingest_bytes, &self.metrics)
    }

    /// Serves both ports until the process stops, and pushes the metrics until `pushing` is cancelled. Calls may carry the
    /// token of the options, or one of `projects`, names and their tokens.
    pub fn open(
        &self,
        listeners: Listeners,
        app: App,
        calls: Calls,
        projects: Vec<(String, String)>,
        pushing: &CancellationToken,
    ) -> Result<Ports, ServeError> {
        let exposition = Exposition::start(app, &self.stop);
        let otlp = Otlp::new(&self.options, &self.http, &exposition)?;
        let Options { connections, http_connections, ingest, token, tls, .. } = self.options.clone();
        let general = token.map(|text| Token { text, project: Project::default() });
        let of_projects = projects.into_iter().map(|(name, text)| Token { text, project: Project(name.into()) });
        let tokens = general.into_iter().chain(of_projects).collect();
        let port = Port { connections, chunk_bytes: ingest.chunk_bytes, tokens, tls: tls.clone() };
        let bounds = Bounds { connections: http_connections, ..Bounds::default() };
        let (metrics, stop) = (self.metrics.clone(), || self.stop.clone());
        let http = tokio::spawn(http::serve(listeners.http, tls.clone(), exposition, bounds, stop()));
        let grpc = tokio::spawn(grpc::serve(listeners.grpc, port, calls, metrics, stop()));
        if let Some(tls) = tls {
            tokio::spawn(tls.keep_current(stop()));
        }
        Ok(Ports { grpc, http, pushed: otlp.map(|otlp| tokio::spawn(otlp.run(pushing.clone()))) })
    }
}

/// The ports at work.
pub struct Ports {
    grpc: JoinHandle<()>,
    http: JoinHandle<()>,
    /// The push of the metrics to a collector, if there is one.
    pushed: Option<JoinHandle<()>>,
}

impl Ports {
    /// Waits for the calls in flight, after the stop; each port gives its own a limited time. Returns the task that pushes
    /// the metrics, if there is one.
    pub async fn drain(self) -> Option<JoinHandle<()>> {
        let _ = tokio::join!(self.grpc, self.http);
        self.pushed
    }
}
