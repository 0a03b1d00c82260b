//! Connections: their limit, the timeouts of idle and slow ones, and graceful stop.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::Layer;

use super::app::App;
use super::assets::Page;
use super::rooms::Rooms;
use super::router::router;
use super::shared::Shared;
use super::verdicts::Newest;
use crate::server::peers::{
    Attempts, ClientCertificate, Connection, Counts, Gate, Listener, Patience, Protocol, Tls, Visit,
};

/// Limits of the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of open connections. At the limit one without a request in flight is closed for the next; if all
    /// have one, the next is answered 503.
    pub connections: usize,
    /// Time limit for TLS and the head of the first request.
    pub first: Duration,
    /// Time limit for receiving the head of a later request, from the answer to the one before.
    pub head: Duration,
    /// Time limit from a request to the head of its answer.
    pub answer: Duration,
    /// Time within which a client must read some of its answer.
    pub write: Duration,
    /// Longest delay of the answer to a wrong token.
    pub wrong_token: Duration,
    /// Time limit for answers in flight when the port stops.
    pub drain: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 128,
            first: Duration::from_secs(5),
            head: Duration::from_secs(30),
            answer: Duration::from_secs(30),
            write: Duration::from_secs(30),
            wrong_token: Duration::from_secs(1),
            drain: Duration::from_secs(2),
        }
    }
}

const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Serves until `stop` is cancelled, then for at most `bounds.drain` longer.
pub async fn serve(listener: Listener, tls: Option<Tls>, app: App, bounds: Bounds, stop: CancellationToken) {
    let counts = Counts::of(&app.metrics, "http");
    let token = app.access.wants_token();
    let wrong_tokens = app.metrics.tokens_refused.with_label_values(&["http"]);
    let verdicts = Arc::<Newest>::default();
    tokio::spawn(Arc::clone(&verdicts).follow(app.clone(), stop.clone()));
    let router = router(Shared {
        app,
        page: Arc::new(Page::new()),
        verdicts,
        rooms: Arc::new(Rooms::new(bounds.connections)),
        attempts: Arc::new(Attempts::new(bounds.wrong_token, wrong_tokens)),
        stop: stop.clone(),
        patience: bounds.answer,
    });
    let gate = Gate {
        listener,
        tls: tls.map(|tls| (tls, ClientCertificate::Optional)),
        protocol: Protocol::Http1,
        limit: bounds.connections,
        patience: Patience { handshake: bounds.first, greeting: 0, request: bounds.first },
        token,
        refusal: FULL,
        counts,
    };
    let mut entering = gate.open();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            Some(entered) = entering.recv() => {
                connections.spawn(connection(entered, router.clone(), stop.clone(), bounds));
            }
        }
    }
    drop(entering);
    let _ = timeout(bounds.drain, async { while connections.join_next().await.is_some() {} }).await;
    connections.shutdown().await;
}

/// Serves one connection. Its errors are ignored because the client caused them; hyper answers 400 to a malformed request.
async fn connection(connection: Connection, router: Router, stop: CancellationToken, bounds: Bounds) {
    // Not `Router::layer`, which would rebuild every route for each connection.
    let service = Extension::<Arc<Visit>>(connection.visit()).layer(router);
    let stream = WriteDeadline { stream: connection, patience: bounds.write, waiting: None };
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut served = pin!(served);
    tokio::select! {
        _ = served.as_mut() => return,
        () = stop.cancelled() => served.as_mut().graceful_shutdown(),
    }
    let _ = served.await;
}

/// Fails a write that makes no progress for `patience`: a client that does not read must not hold a connection for ever.
struct WriteDeadline {
    stream: Connection,
    patience: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl WriteDeadline {
    fn judge<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(self.patience)));
        waiting.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for WriteDeadline {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for WriteDeadline {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
