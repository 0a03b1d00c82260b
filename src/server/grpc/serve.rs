//! Serves the gRPC port: connections, limits, authorisation and graceful stop.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::AUTHORIZATION;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use futures::FutureExt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::Connected;
use tracing::Instrument;

use crate::server::metrics::Metrics;
use crate::server::peers::{
    Attempts, ClientCertificate, Connection, Counts, Endpoint, Gate, Held, Listener, Patience, Protocol, Secret, Tls,
    Visit, same_secret, with_scheme,
};

use super::budget::Budget;
use super::hub::reads::Reads;
use super::hub::service::HubService;
use super::hub::{PUSH_BYTES, proto::hub_server::HubServer};
use super::project::{Project, Token};
use super::proto::concept_watch_server::ConceptWatchServer;
use super::request_limits::{Caller, Front, Limits, Peer, Window};
use super::service::Service;

/// Time after which an idle peer is pinged, and time it has to answer.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));
/// A client begins with the 24 bytes of the HTTP/2 preface. Some connect before they have a call to make.
const PATIENCE: Patience =
    Patience { handshake: Duration::from_secs(5), greeting: 24, request: Duration::from_secs(30) };
/// Longest delay of the answer to a wrong token.
const LONGEST_DELAY: Duration = Duration::from_secs(1);
/// Metadata of a call with which the starting process challenges its sidecar, and of the answer.
const NONCE: &str = "conceptwatch-nonce";
const PROOF: &str = "conceptwatch-proof";

/// The port's limits, and its requirements for clients.
#[derive(Clone, Debug)]
pub struct Port {
    /// Maximum number of open connections.
    pub connections: usize,
    /// Maximum bytes of a chunk.
    pub chunk_bytes: usize,
    /// Unless empty, every call must carry one of them, or come with a client certificate.
    pub tokens: Vec<Token>,
    pub tls: Option<Tls>,
    /// Proves this process to the one that started it.
    pub secret: Option<Secret>,
    /// Where the port listens.
    pub address: Endpoint,
}

/// Why the port ended before it was stopped.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct PortFailed(#[from] tonic::transport::Error);

/// The calls of a port.
pub enum Calls {
    /// The calls of a sidecar.
    Sidecar(Service),
    /// The calls of a hub.
    Hub(HubService, Reads, Budget),
}

impl Calls {
    fn budget(&self) -> Budget {
        match self {
            Self::Sidecar(service) => service.ingest.budget.clone(),
            Self::Hub(_, _, budget) => budget.clone(),
        }
    }

    /// Adds the calls behind their limits.
    fn added(self, routes: Routes, limits: Limits) -> Routes {
        let largest = limits.largest;
        match self {
            Self::Sidecar(service) => {
                let calls = ConceptWatchServer::new(service.clone()).max_decoding_message_size(largest);
                routes.add_service(Front::new(calls, limits).with_ingest(service))
            }
            Self::Hub(service, reads, _) => {
                let hub = HubServer::new(service).max_decoding_message_size(PUSH_BYTES);
                let reads = ConceptWatchServer::new(reads).max_decoding_message_size(largest);
                routes.add_service(Front::new(hub, limits.clone())).add_service(Front::new(reads, limits))
            }
        }
    }
}

/// Serves until `stop` is cancelled and the calls in flight have ended.
pub async fn serve(
    listener: Listener,
    port: Port,
    calls: Calls,
    metrics: Metrics,
    stop: CancellationToken,
) -> Result<(), PortFailed> {
    let (reporter, health) = tonic_health::server::health_reporter();
    // The hub answers calls of that name, too.
    reporter.set_serving::<ConceptWatchServer<Service>>().await;
    // Where there are tokens, a client without a certificate may still have one of them.
    let clients = if port.tokens.is_empty() { ClientCertificate::Required } else { ClientCertificate::Optional };
    let gate = Gate {
        listener,
        tls: port.tls.clone().map(|tls| (tls, clients)),
        protocol: Protocol::Http2,
        limit: port.connections,
        patience: PATIENCE,
        token: !port.tokens.is_empty(),
        refusal: b"",
        counts: Counts::of(&metrics, "grpc"),
    };
    let attempts = Attempts::new(LONGEST_DELAY, metrics.tokens_refused.with_label_values(&["grpc"]));
    let budget = calls.budget();
    let (wide, narrow, sorted) = by_window(gate.open(), budget.clone(), stop.clone());
    // Somewhat more than a chunk, so that a chunk just above the limit gets an answer that names the limit.
    let largest = port.chunk_bytes + (1 << 20);
    let limits = Limits { budget, metrics, largest };
    let health = Front::new(health, limits.clone());
    let tokens =
        port.tokens.into_iter().map(|token| (format!("Bearer {}", token.text).into(), token.project)).collect();
    let guarded = Arc::new(Guard { tokens, secret: port.secret, address: port.address, attempts });
    let routes = calls.added(Routes::new(health), limits).into_axum_router();
    let routes = Routes::from(routes.layer(from_fn_with_state(guarded, guard)));
    let stopped = async {
        stop.cancelled().await;
        reporter.set_not_serving::<ConceptWatchServer<Service>>().await;
    };
    let wide = transport(Window::Wide)
        .add_routes(routes.clone())
        .serve_with_incoming_shutdown(wide.map(Ok::<_, io::Error>), stopped);
    let narrow = transport(Window::Narrow)
        .add_routes(routes)
        .serve_with_incoming_shutdown(narrow.map(Ok::<_, io::Error>), stop.cancelled());
    tokio::try_join!(wide, narrow, sorted.map(Ok))?;
    Ok(())
}

/// Connections by their windows, and the task that sorts them until `stop` is cancelled. Wide windows may take a quarter of
/// the budget.
fn by_window(
    mut entering: mpsc::Receiver<Connection>,
    budget: Budget,
    stop: CancellationToken,
) -> (ReceiverStream<Accepted>, ReceiverStream<Accepted>, impl Future<Output = ()>) {
    let places = Arc::new(Semaphore::new(budget.limit() / 4 / Window::Wide.bytes() as usize));
    let ((wide, as_wide), (narrow, as_narrow)) = (mpsc::channel(1), mpsc::channel(1));
    let sorted = async move {
        while let Some(Some(connection)) = stop.run_until_cancelled(entering.recv()).await {
            let place = Arc::clone(&places).try_acquire_owned().ok();
            let (window, to) = if place.is_some() { (Window::Wide, &wide) } else { (Window::Narrow, &narrow) };
            // Fails only once the server has stopped.
            let _ = to.send(Accepted { connection, peer: Peer::new(&budget, window), _place: place }).await;
        }
    };
    (ReceiverStream::new(as_wide), ReceiverStream::new(as_narrow), sorted)
}

/// A server with the HTTP/2 settings of the gRPC port.
pub fn transport(window: Window) -> Server {
    Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE.0))
        .http2_keepalive_timeout(Some(KEEPALIVE.1))
        .initial_stream_window_size(window.bytes())
        .initial_connection_window_size(window.bytes())
        .max_concurrent_streams(64)
        .http2_max_header_list_size(16 << 10)
}

/// The credentials that every call is checked against.
struct Guard {
    /// Values of `authorization`, each with the project that its calls act for.
    tokens: Vec<(Arc<str>, Project)>,
    secret: Option<Secret>,
    address: Endpoint,
    attempts: Attempts,
}

/// Lets a call in, and answers the challenge that it may carry, whether it is let in or not: so a client can find out
/// who answers before it sends its token.
async fn guard(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    let visit = request.extensions().get::<Caller>().map(|caller| Arc::clone(&caller.visit));
    let nonce = request.headers().get(NONCE);
    let proof = guard
        .secret
        .as_ref()
        .zip(nonce)
        .and_then(|(secret, nonce)| HeaderValue::from_str(&secret.prove(nonce.as_bytes(), &guard.address)?).ok());
    let anyone = request.uri().path().starts_with("/grpc.health.v1.Health/");
    let mut response = if anyone {
        if let Some(visit) = &visit {
            visit.greet();
        }
        next.run(request).await
    } else if let Some(project) = guard.admits(&request, visit.as_deref()) {
        request.extensions_mut().insert(project);
        // Lines of the log that the call leads to name its peer, by which they are limited.
        let span = visit.as_ref().map(|visit| tracing::error_span!("call", peer = %visit.peer()));
        let serving = visit.map(|visit| visit.serve());
        let answered = next.run(request).instrument(span.unwrap_or_else(tracing::Span::none)).await;
        answered.map(|body| Held::body(body, serving))
    } else {
        if request.headers().contains_key(AUTHORIZATION) {
            guard.attempts.failed(visit.as_deref()).await;
        }
        let status = Status::unauthenticated("authorization: expected the metadata 'Bearer ' and the server's token");
        status.into_http()
    };
    if let Some(proof) = proof {
        response.headers_mut().insert(PROOF, proof);
    }
    response
}

impl Guard {
    /// Returns the project that a call acts for; `None` if it is not let in.
    fn admits(&self, request: &Request, visit: Option<&Visit>) -> Option<Project> {
        let given = request.headers().get(AUTHORIZATION);
        // Every token is compared, so that the time taken does not tell which one is near.
        let of_token = |given: &HeaderValue| {
            let given = with_scheme(given.as_bytes());
            let same =
                self.tokens.iter().map(|(token, project)| same_secret(token.as_bytes(), &given).then_some(project));
            same.fold(None, Option::or).cloned()
        };
        let open = || self.tokens.is_empty() || visit.is_some_and(Visit::has_certificate);
        given.and_then(of_token).or_else(|| open().then(Project::default))
    }
}

/// A connection as tonic takes it, with what it has reserved.
struct Accepted {
    connection: Connection,
    peer: Peer,
    /// The place among connections with wide windows.
    _place: Option<OwnedSemaphorePermit>,
}

impl Connected for Accepted {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        Caller { visit: self.connection.visit(), peer: self.peer.clone() }
    }
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_read(context, buffer)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[std::io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }
}
