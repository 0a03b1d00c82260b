//! Serves the gRPC port: connections, limits, authorisation and graceful stop.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Error, Server};
use tonic::{Request, Status};

use crate::server::http::same_secret;
use crate::server::metrics::Metrics;

use super::listen::connections;
use super::proto::concept_watch_server::ConceptWatchServer;
use super::service::Service;

/// Time after which an idle peer is pinged, and time it has to answer.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));
/// HTTP/2 windows of a stream and of a connection, in bytes. Data in them does not count towards the byte budget of
/// ingest, so they are no larger than needed to keep a local connection busy.
const WINDOWS: (u32, u32) = (1 << 20, 2 << 20);

/// The port's limits and token.
#[derive(Clone, Debug)]
pub struct Port {
    /// Maximum number of open connections.
    pub connections: usize,
    /// Maximum bytes of a chunk.
    pub chunk_bytes: usize,
    /// If set, every call must carry it.
    pub token: Option<String>,
}

/// Serves until `stop` is cancelled and the calls in flight have ended.
pub async fn serve(
    listener: TcpListener,
    port: Port,
    service: Service,
    metrics: Metrics,
    stop: CancellationToken,
) -> Result<(), Error> {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<ConceptWatchServer<Service>>().await;
    let connections = connections(listener, port.connections, metrics.connections.with_label_values(&["grpc"]));
    // Somewhat more than a chunk, so that a chunk just above the limit gets an answer that names the limit.
    let service = ConceptWatchServer::new(service).max_decoding_message_size(port.chunk_bytes + (1 << 20));
    let token = port.token.map(|token| format!("Bearer {token}"));
    let service = InterceptedService::new(service, move |request| authorised(request, token.as_deref()));
    let stopped = async {
        stop.cancelled().await;
        reporter.set_not_serving::<ConceptWatchServer<Service>>().await;
    };
    transport().add_service(health).add_service(service).serve_with_incoming_shutdown(connections, stopped).await
}

/// A server with the HTTP/2 settings of the gRPC port.
pub fn transport() -> Server {
    Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE.0))
        .http2_keepalive_timeout(Some(KEEPALIVE.1))
        .initial_stream_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        .max_concurrent_streams(64)
        .http2_max_header_list_size(16 << 10)
}

fn authorised(request: Request<()>, token: Option<&str>) -> Result<Request<()>, Status> {
    let Some(token) = token else { return Ok(request) };
    let given = request.metadata().get("authorization").map(|value| value.as_encoded_bytes());
    if given.is_some_and(|given| same_secret(given, token.as_bytes())) {
        Ok(request)
    } else {
        Err(Status::unauthenticated("authorization: expected the metadata 'Bearer ' and the server's token"))
    }
}
