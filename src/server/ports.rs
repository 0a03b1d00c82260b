//! Both ports of a sidecar or a hub, from the first connection to the last answer.

use std::future::Future;
use std::time::Duration;

use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::grpc::{self, Calls, Port};
use super::http::{self, App, Bounds};
use super::options::{Listeners, ServeError};

/// How long calls in flight may take when the server stops.
pub const DRAIN: Duration = Duration::from_secs(2);

pub struct Ports {
    grpc: JoinHandle<Result<(), ServeError>>,
    http: JoinHandle<()>,
    /// How the gRPC port ended, where it did before it was stopped.
    failed: Option<Result<Result<(), ServeError>, JoinError>>,
}

impl Ports {
    /// Serves `calls` and the page until `stop` is cancelled.
    pub fn open(
        listeners: Listeners,
        (port, calls): (Port, Calls),
        (app, bounds): (App, Bounds),
        stop: &CancellationToken,
    ) -> Self {
        let (tls, metrics) = (port.tls.clone(), app.metrics.clone());
        let http = tokio::spawn(http::serve(listeners.http, tls.clone(), app, bounds, stop.clone()));
        let grpc = grpc::serve(listeners.grpc, port, calls, metrics, stop.clone());
        let grpc = tokio::spawn(async { Ok(grpc.await?) });
        if let Some(tls) = tls {
            tokio::spawn(tls.keep_current(stop.clone()));
        }
        Self { grpc, http, failed: None }
    }

    /// Returns when `shutdown` completes, or the gRPC port fails.
    pub async fn until(&mut self, shutdown: impl Future<Output = ()>) {
        self.failed = tokio::select! {
            () = shutdown => None,
            ended = &mut self.grpc => Some(ended),
        };
    }

    /// Waits for the calls in flight, after `stop` was cancelled. Errors when the gRPC port failed.
    pub async fn drain(mut self) -> Result<(), ServeError> {
        let drained = async {
            match self.failed {
                Some(ended) => Some(ended),
                None => timeout(DRAIN, &mut self.grpc).await.ok(),
            }
        };
        // Both ports at once, so that the clients of one cannot use up the time of the other.
        let (ended, _) = tokio::join!(drained, timeout(DRAIN, self.http));
        self.grpc.abort();
        ended.map_or(Ok(()), |ended| ended.map_err(std::io::Error::other)?)
    }
}
