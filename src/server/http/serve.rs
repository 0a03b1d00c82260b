//! Serves the HTTP port, with its limits.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::assets::Page;
use super::exposition::Exposition;
use super::router::router;
use super::shared::Shared;
use crate::server::peers::{ClientCertificate, Connections, Counts, Listener, Protocol, Tls};

/// Answers that are made at once, each of which may take a thread.
const ANSWERS: usize = 32;

/// Limits of the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of open connections; half of them may be event streams.
    pub connections: usize,
    /// Time limit for TLS and the head of the first request.
    pub first: Duration,
    /// Time limit for receiving the head of a later request, from the answer to the one before.
    pub head: Duration,
    /// Time limit from a request to the head of its answer.
    pub answer: Duration,
    /// Time within which a client must read some of its answer.
    pub write: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 128,
            first: Duration::from_secs(5),
            head: Duration::from_secs(10),
            answer: Duration::from_secs(30),
            write: Duration::from_secs(30),
        }
    }
}

/// Serves until `stop` is cancelled and the answers in flight are sent.
pub async fn serve(
    listener: Listener,
    tls: Option<Tls>,
    exposition: Exposition,
    bounds: Bounds,
    stop: CancellationToken,
) {
    let app = exposition.app.clone();
    let Bounds { connections, first, head, answer, write } = bounds;
    let connections = Connections {
        tls: tls.map(|tls| (tls, ClientCertificate::Optional)),
        protocol: Protocol::Http1,
        most: connections,
        first,
        head,
        write,
        token: app.access.wants_token(),
        counts: Counts::of(&app.metrics, "http"),
    };
    let router = router(Shared {
        app,
        page: Arc::new(Page::new()),
        exposition,
        answers: Arc::new(Semaphore::new(ANSWERS)),
        streams: Arc::new(Semaphore::new(bounds.connections / 2)),
        stop: stop.clone(),
        patience: answer,
    });
    connections.serve(listener, router, stop).await;
}
