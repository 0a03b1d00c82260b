//! Both ports of a sidecar or a hub, from the first connection to the last answer.

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::grpc::{self, Calls, Port};
use super::http::{self, Bounds, Exposition};
use super::options::Listeners;

pub struct Ports {
    grpc: JoinHandle<()>,
    http: JoinHandle<()>,
}

impl Ports {
    /// Serves `calls` and the page until `stop` is cancelled.
    pub fn open(
        listeners: Listeners,
        (port, calls): (Port, Calls),
        (exposition, bounds): (Exposition, Bounds),
        stop: &CancellationToken,
    ) -> Self {
        let (tls, metrics) = (port.tls.clone(), exposition.metrics());
        let http = tokio::spawn(http::serve(listeners.http, tls.clone(), exposition, bounds, stop.clone()));
        let grpc = tokio::spawn(grpc::serve(listeners.grpc, port, calls, metrics, stop.clone()));
        if let Some(tls) = tls {
            tokio::spawn(tls.keep_current(stop.clone()));
        }
        Self { grpc, http }
    }

    /// Waits for the calls in flight, after `stop` was cancelled. Each port gives its own a limited time.
    pub async fn drain(self) {
        let _ = tokio::join!(self.grpc, self.http);
    }
}
