//! The connections of a port: their limit, their deadlines, and a graceful stop.
//!
//! A connection is a stranger until one of its requests is admitted. Strangers have a deadline, and at the limit the oldest
//! of them makes room for the next connection, so that peers which say nothing shut nobody out.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use prometheus::{IntCounter, IntGauge};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tower::Layer;

use super::dial::Stream;
use super::listener::{Listener, Peer, Socket};
use super::tls::{ClientCertificate, Protocol, Tls};
use super::write_deadline::WriteDeadline;
use crate::server::metrics::Metrics;

/// Time for answers in flight when the port stops.
const DRAIN: Duration = Duration::from_secs(2);
/// Pause after a failed accept, such as when the process is out of file descriptors.
const AFTER_FAILURE: Duration = Duration::from_millis(50);
/// Connections that may still be closing when others come in their place: each is an open file.
const CLOSING: usize = 8;
/// Time after which an idle HTTP/2 peer is pinged, and time it has to answer.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));
/// The HTTP/2 windows of a connection and of each stream, in bytes: what a peer may send that nobody has read. The first
/// connections have wide ones, which keep a local connection busy while a pass is closed. Of a thousand ranks each sends
/// little.
const WINDOWS: [u32; 2] = [1 << 20, 64 << 10];
const WITH_WIDE_WINDOWS: usize = 64;

/// How the connections of a port are served.
pub struct Connections {
    pub tls: Option<(Tls, ClientCertificate)>,
    pub protocol: Protocol,
    /// Maximum number of open connections.
    pub most: usize,
    /// Time from the accept to the first request that is admitted.
    pub first: Duration,
    /// Time for the head of a later HTTP/1 request, from the answer to the one before.
    pub head: Duration,
    /// Time within which a client must read some of its answer.
    pub write: Duration,
    /// Whether a token is required. Without one, a Unix socket serves its own user and root alone.
    pub token: bool,
    pub counts: Counts,
}

/// The metrics of a port's connections.
pub struct Counts {
    open: IntGauge,
    silent: IntCounter,
    made_room: IntCounter,
    full: IntCounter,
    handshake: IntCounter,
    other_user: IntCounter,
}

impl Counts {
    /// Returns the metrics of the port `grpc` or `http`.
    pub fn of(metrics: &Metrics, port: &str) -> Self {
        let closed = |reason: &str| metrics.connections_closed.with_label_values(&[port, reason]);
        Self {
            open: metrics.connections.with_label_values(&[port]),
            silent: closed("silent"),
            made_room: closed("made_room"),
            full: closed("full"),
            handshake: closed("handshake"),
            other_user: closed("other_user"),
        }
    }
}

/// The peer of a connection, as an extension of its requests.
pub struct Caller {
    peer: Peer,
    certificate: AtomicBool,
    admitted: AtomicBool,
}

impl Caller {
    /// Whether the peer proved itself by a certificate of a known authority.
    pub fn has_certificate(&self) -> bool {
        self.certificate.load(Ordering::Relaxed)
    }

    /// Notes that a request is admitted.
    pub fn admit(&self) {
        self.admitted.store(true, Ordering::Relaxed);
    }

    /// Counts and logs a wrong token.
    pub fn refuse_token(caller: Option<&Self>, count: &IntCounter) {
        count.inc();
        if let Some(Self { peer, .. }) = caller {
            tracing::warn!(%peer, "a request with a wrong token was refused");
        }
    }

    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    fn is_admitted(&self) -> bool {
        self.admitted.load(Ordering::Relaxed)
    }

    /// Completes when no request was admitted in time.
    async fn overdue(&self, first: Duration) {
        sleep(first).await;
        if self.is_admitted() {
            std::future::pending().await
        }
    }
}

impl Connections {
    /// Serves connections by `router` until `stop` is cancelled, and then for at most [`DRAIN`] longer.
    pub async fn serve(self, listener: Listener, router: Router, stop: CancellationToken) {
        let served = Arc::new(self);
        let Self { counts, most, .. } = &*served;
        let mut open = JoinSet::new();
        let mut strangers: VecDeque<(AbortHandle, Arc<Caller>)> = VecDeque::new();
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                Some(_) = open.join_next() => {
                    counts.open.set(open.len() as i64);
                    continue;
                }
                accepted = listener.accept(), if open.len() < most + CLOSING => accepted,
            };
            let (socket, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, protocol = ?served.protocol, "a connection could not be accepted");
                    sleep(AFTER_FAILURE).await;
                    continue;
                }
            };
            if matches!(peer, Peer::Unix(_)) && !served.token && !peer.is_own() {
                counts.other_user.inc();
                tracing::warn!(%peer, "a connection was closed: without a token, a socket serves its own user alone");
                continue;
            }
            // Those that have ended hold no place.
            while open.try_join_next().is_some() {}
            strangers.retain(|(task, caller)| !task.is_finished() && !caller.is_admitted());
            if open.len() >= *most {
                let Some((oldest, _)) = strangers.pop_front() else {
                    counts.full.inc();
                    tracing::warn!(%peer, limit = most, "a connection was closed: the limit is reached");
                    continue;
                };
                oldest.abort();
                counts.made_room.inc();
            }
            let window = WINDOWS[usize::from(open.len() >= WITH_WIDE_WINDOWS)];
            let caller = Caller { peer, certificate: AtomicBool::new(false), admitted: AtomicBool::new(false) };
            let caller = Arc::new(caller);
            let (served, known, router, stop) =
                (Arc::clone(&served), Arc::clone(&caller), router.clone(), stop.clone());
            let task = open.spawn(async move {
                tokio::select! {
                    () = served.connection(socket, &known, window, router, stop) => {}
                    () = known.overdue(served.first) => served.counts.silent.inc(),
                }
            });
            strangers.push_back((task, caller));
            counts.open.set(open.len() as i64);
        }
        drop(listener);
        let _ = timeout(DRAIN, async { while open.join_next().await.is_some() {} }).await;
        open.shutdown().await;
        counts.open.set(0);
    }

    /// Serves one connection. Its errors are ignored because the peer caused them.
    async fn connection(
        &self,
        socket: Socket,
        caller: &Arc<Caller>,
        window: u32,
        router: Router,
        stop: CancellationToken,
    ) {
        let stream = match &self.tls {
            // A peer of a Unix socket is on this machine, and known by its user.
            Some((tls, clients)) if matches!(caller.peer, Peer::Tcp(_)) => {
                match tls.accept(socket, self.protocol, *clients).await {
                    Ok(secured) => {
                        let proved = secured.get_ref().1.peer_certificates().is_some_and(|chain| !chain.is_empty());
                        caller.certificate.store(proved, Ordering::Relaxed);
                        Stream::Right(Box::new(secured.into()))
                    }
                    Err(error) => {
                        self.counts.handshake.inc();
                        tracing::warn!(peer = %caller.peer, %error, "a TLS handshake failed");
                        return;
                    }
                }
            }
            _ => Either::Left(socket),
        };
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(self.head).max_buf_size(64 << 10);
        let mut http2 = builder.http2();
        http2.timer(TokioTimer::new()).keep_alive_interval(KEEPALIVE.0).keep_alive_timeout(KEEPALIVE.1);
        http2.initial_stream_window_size(window).initial_connection_window_size(window);
        http2.max_concurrent_streams(64).max_header_list_size(16 << 10);
        let builder = match self.protocol {
            Protocol::Http1 => builder.http1_only(),
            Protocol::Http2 => builder.http2_only(),
        };
        // Not `Router::layer`, which would rebuild every route for each connection.
        let service = TowerToHyperService::new(Extension(Arc::clone(caller)).layer(router));
        let io = TokioIo::new(WriteDeadline::new(stream, self.write));
        let mut served = pin!(builder.serve_connection(io, service));
        tokio::select! {
            _ = served.as_mut() => return,
            () = stop.cancelled() => served.as_mut().graceful_shutdown(),
        }
        let _ = served.await;
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    /// Opens a port that admits each request for `/`, and returns its address.
    async fn port(most: usize, first: Duration) -> (std::net::SocketAddr, IntGauge) {
        let metrics = Metrics::register(&prometheus::Registry::new(), "1.2.3", 7).unwrap();
        let counts = Counts::of(&metrics, "http");
        let open = counts.open.clone();
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local().tcp().unwrap();
        let (tls, protocol, token) = (None, Protocol::Http1, false);
        let connections = Connections { tls, protocol, most, first, head: LONG, write: LONG, token, counts };
        let router = Router::new().route("/", get(async |Extension(caller): Extension<Arc<Caller>>| caller.admit()));
        tokio::spawn(connections.serve(listener, router, CancellationToken::new()));
        (address, open)
    }

    async fn admitted(address: std::net::SocketAddr) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
        let mut start = [0; 12];
        timeout(LONG, stream.read_exact(&mut start)).await.expect("an answer or an end")?;
        assert_eq!(&start, b"HTTP/1.1 200");
        Ok(stream)
    }

    async fn is_closed(mut stream: TcpStream) -> bool {
        timeout(LONG, stream.read_to_end(&mut Vec::new())).await.is_ok()
    }

    #[tokio::test]
    async fn a_trickle_of_bytes_extends_no_deadline() {
        let (address, open) = port(8, Duration::from_millis(200)).await;
        let known = admitted(address).await.unwrap();
        let mut slow = TcpStream::connect(address).await.unwrap();
        while slow.write_all(b"G").await.is_ok() {
            sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(open.get(), 1);
        drop(known);
    }

    #[tokio::test]
    async fn the_oldest_stranger_makes_room_and_those_who_were_admitted_stay() {
        let (address, _open) = port(3, LONG).await;
        let mut known = vec![admitted(address).await.unwrap()];
        let mut strangers = VecDeque::new();
        for _ in 0..2 {
            strangers.push_back(TcpStream::connect(address).await.unwrap());
        }
        for _ in 0..2 {
            known.push(admitted(address).await.unwrap());
            assert!(is_closed(strangers.pop_front().unwrap()).await);
        }
        assert!(admitted(address).await.is_err(), "no place is left");
        drop(known.pop());
        let again = async {
            while admitted(address).await.is_err() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(LONG, again).await.expect("a place that is free again");
    }
}
