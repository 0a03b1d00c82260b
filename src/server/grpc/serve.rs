//! Serves the gRPC port: who may call, and the limits of what a call sends.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::HeaderValue;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use futures::StreamExt;
use prometheus::IntCounter;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::codec::{BufferSettings, EncodeBody, SingleMessageCompressionOverride};
use tonic::service::Routes;
use tonic_prost::ProstEncoder;
use tracing::Instrument;

use super::budget::{Budget, Reservation};
use super::hub::service::HubService;
use super::hub::{PUSH_BYTES, proto::hub_server::HubServer};
use super::ingest::Ingest;
use super::messages::{HEAD, Limits, Message, Unreadable, messages};
use super::project::{Project, Token};
use super::proto::concept_watch_server::ConceptWatchServer;
use super::service::Service;
use super::status::unreadable;
use crate::server::metrics::Metrics;
use crate::server::peers::{
    Caller, ClientCertificate, Connections, Counts, Listener, Protocol, Tls, is_same, presented,
};

/// Time from the first byte of a message to its last.
const MESSAGE_DEADLINE: Duration = Duration::from_secs(30);
/// Time from the accept of a connection to the first call that is admitted.
const FIRST_CALL: Duration = Duration::from_secs(10);
/// Time within which a client must read some of an answer.
const WRITE: Duration = Duration::from_secs(30);
/// The calls of jobs and of those who read, and among them the one that streams batches.
const CALLS: &str = "/conceptwatch.v1.ConceptWatch/{call}";
const INGEST: &str = "/conceptwatch.v1.ConceptWatch/Ingest";

/// The port's limits, and its requirements for clients.
#[derive(Clone, Debug)]
pub struct Port {
    /// Maximum number of open connections.
    pub connections: usize,
    /// Maximum bytes of a message.
    pub chunk_bytes: usize,
    /// Unless empty, every call must carry one of them, or come with a client certificate.
    pub tokens: Vec<Token>,
    pub tls: Option<Tls>,
}

/// The calls of a port.
pub enum Calls {
    /// The calls of a sidecar.
    Sidecar(Box<Service>),
    /// The calls of a hub.
    Hub(HubService, Budget),
}

impl Calls {
    /// Adds the calls behind their limits.
    fn added(self, routes: Routes, chunk_bytes: usize, metrics: Metrics) -> Router {
        let (budget, largest) = match &self {
            Self::Sidecar(service) => (service.ingest.budget.clone(), chunk_bytes),
            Self::Hub(_, budget) => (budget.clone(), PUSH_BYTES),
        };
        let limits = Arc::new(Limits { budget, largest, deadline: MESSAGE_DEADLINE, metrics });
        let whole = from_fn_with_state(Arc::clone(&limits), whole);
        match self {
            Self::Sidecar(service) => {
                let ingest = post(ingest).with_state((service.ingest.clone(), service.stop.clone(), limits));
                let calls = ConceptWatchServer::new(*service).max_decoding_message_size(largest);
                routes.add_service(calls).into_axum_router().layer(whole).route(INGEST, ingest)
            }
            Self::Hub(service, _) => {
                let hub = HubServer::new(service).max_decoding_message_size(largest);
                routes.add_service(hub).into_axum_router().layer(whole).route(CALLS, any(elsewhere))
            }
        }
    }
}

/// Serves until `stop` is cancelled and the calls in flight have ended.
pub async fn serve(listener: Listener, port: Port, calls: Calls, metrics: Metrics, stop: CancellationToken) {
    let (reporter, health) = tonic_health::server::health_reporter();
    // A hub has the same name for those who ask for its health.
    reporter.set_serving::<ConceptWatchServer<Service>>().await;
    // Where there are tokens, a client without a certificate may still have one of them.
    let clients = if port.tokens.is_empty() { ClientCertificate::Required } else { ClientCertificate::Optional };
    let connections = Connections {
        tls: port.tls.map(|tls| (tls, clients)),
        protocol: Protocol::Http2,
        most: port.connections,
        first: FIRST_CALL,
        head: FIRST_CALL,
        write: WRITE,
        token: !port.tokens.is_empty(),
        counts: Counts::of(&metrics, "grpc"),
    };
    let refused = metrics.tokens_refused.with_label_values(&["grpc"]);
    let guarded = Arc::new(Guard { tokens: port.tokens, refused });
    let calls = calls.added(Routes::new(health), port.chunk_bytes, metrics);
    let router = calls.layer(from_fn_with_state(guarded, guard));
    let stopped = async {
        stop.cancelled().await;
        reporter.set_not_serving::<ConceptWatchServer<Service>>().await;
    };
    tokio::join!(connections.serve(listener, router, stop.clone()), stopped);
}

/// The credentials that every call is checked against.
struct Guard {
    tokens: Vec<Token>,
    /// Counts wrong tokens.
    refused: IntCounter,
}

/// Admits a call by its headers, before anything of its body is read.
async fn guard(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Arc<Caller>>().cloned();
    let given = request.headers().get(AUTHORIZATION);
    if let Some(project) = guard.project(given, caller.as_deref()) {
        caller.iter().for_each(|caller| caller.admit());
        request.extensions_mut().insert(project);
    } else if !request.uri().path().starts_with("/grpc.health.v1.Health/") {
        if given.is_some() {
            Caller::refuse_token(caller.as_deref(), &guard.refused);
        }
        let status = Status::unauthenticated("authorization: expected the metadata 'Bearer ' and the server's token");
        return status.into_http();
    }
    // Lines of the log that the call leads to name its peer, by which they are limited.
    let span = caller.map(|caller| tracing::error_span!("call", peer = %caller.peer()));
    next.run(request).instrument(span.unwrap_or_else(tracing::Span::none)).await
}

impl Guard {
    /// Returns the project that a call acts for; `None` if it is not admitted.
    fn project(&self, given: Option<&HeaderValue>, caller: Option<&Caller>) -> Option<Project> {
        let given = given.and_then(|given| presented(given.as_bytes())).unwrap_or_default();
        // Every token is compared, so that the time taken does not tell which one is near.
        let same = |token: &Token| is_same(token.text.as_bytes(), &given).then(|| token.project.clone());
        let open = || self.tokens.is_empty() || caller.is_some_and(Caller::has_certificate);
        self.tokens.iter().map(same).fold(None, Option::or).or_else(|| open().then(Project::default))
    }
}

/// Reads the message of a call that has one, for tonic, and reserves what it takes until the call is answered.
async fn whole(State(limits): State<Arc<Limits>>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let limit = limits.deadline;
    match timeout(limit, framed(body, &limits)).await.unwrap_or(Err(Unreadable::Slow { limit })) {
        Ok((body, _room)) => next.run(Request::from_parts(head, body)).await,
        Err(error) => unreadable(&error, "message", &limits.metrics).into_http(),
    }
}

/// Returns the first message of a body as a body. tonic answers a call without one.
async fn framed(body: Body, limits: &Arc<Limits>) -> Result<(Body, Option<Reservation>), Unreadable> {
    let Some(message) = pin!(messages(body, Arc::clone(limits))).next().await else { return Ok((Body::empty(), None)) };
    let Message { bytes, mut room } = message?;
    // tonic copies it, and decodes it.
    limits.reserve(&mut room, 3 * bytes.len())?;
    let mut framed = Vec::with_capacity(HEAD + bytes.len());
    framed.push(0);
    framed.extend((bytes.len() as u32).to_be_bytes());
    framed.extend_from_slice(&bytes);
    Ok((framed.into(), Some(room)))
}

/// Says where a call of a sidecar's port is answered, which a hub is not.
async fn elsewhere(Path(call): Path<String>) -> Response {
    let message = "this is a hub: its page shows the runs; for jobs, start a sidecar with --upstream and this address";
    Status::failed_precondition(format!("{call}: {message}")).into_http()
}

/// Metadata of a stream: the client whose runs it serves, as in `StartRunRequest`.
const CLIENT: &str = "conceptwatch-client";

/// Answers buffered for a slow client; when the buffer is full, its stream waits.
const ANSWERS: usize = 64;

/// Serves a stream of batches.
async fn ingest(
    State((ingest, stop, limits)): State<(Ingest, CancellationToken, Arc<Limits>)>,
    request: Request,
) -> Response {
    let client = request.headers().get(CLIENT).and_then(|client| client.to_str().ok()).map(str::to_owned);
    let arrived = messages(request.into_body(), limits).boxed();
    let (sender, answers) = mpsc::channel(ANSWERS);
    tokio::spawn(ingest.serve(arrived, client, sender, stop).in_current_span());
    let (encoder, answers) = (ProstEncoder::new(BufferSettings::default()), ReceiverStream::new(answers));
    let body = EncodeBody::new_server(encoder, answers, None, SingleMessageCompressionOverride::default(), None);
    ([(CONTENT_TYPE, "application/grpc")], Body::new(body)).into_response()
}
