//! The HTTP port: the page, the metrics, the JSON API and its event stream. Read-only.

mod access;
mod api;
mod assets;
mod events;
mod query;
mod refusal;
mod serve;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus::Registry;
use tokio::sync::{broadcast, watch};

pub use access::{Access, USER, same_secret};
pub use serve::{Bounds, serve};

use super::live::{Event, Live};
use super::metrics::Metrics;
use crate::history::History;
use crate::point::ScoreDescription;
use assets::Page;
use refusal::Refusal;

/// What the port reads from.
#[derive(Clone)]
pub struct App {
    pub history: Arc<History>,
    pub registry: Registry,
    pub metrics: Metrics,
    /// In catalogue order.
    pub scores: Arc<[ScoreDescription]>,
    pub events: broadcast::Sender<Event>,
    pub live: Arc<dyn Live>,
    pub access: Arc<Access>,
}

#[derive(Clone)]
struct Shared {
    app: App,
    page: Arc<Page>,
    /// True once the server stops.
    stopping: watch::Receiver<bool>,
    /// Longest time to the head of an answer.
    patience: Duration,
}

impl Shared {
    /// Returns once the server stops.
    async fn stopped(&self) {
        let mut stopping = self.stopping.clone();
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }
}

/// All paths; `{file}` stands for one segment.
const PATHS: [&str; 15] = [
    "/",
    "/assets/{file}",
    "/metrics",
    "/live",
    "/ready",
    "/api/v1/status",
    "/api/v1/catalogue",
    "/api/v1/runs",
    "/api/v1/series",
    "/api/v1/point",
    "/api/v1/matrix",
    "/api/v1/compare",
    "/api/v1/diagnosis",
    "/api/v1/alerts",
    "/api/v1/events",
];

fn router(shared: Shared) -> Router {
    let [
        index,
        assets,
        metrics,
        live,
        ready,
        status,
        catalogue,
        runs,
        series,
        point,
        matrix,
        compare,
        diagnosis,
        alerts,
        events,
    ] = PATHS;
    Router::new()
        .route(index, get(api::index))
        .route(assets, get(api::asset))
        .route(metrics, get(api::metrics))
        .route(live, get(api::live))
        .route(ready, get(api::ready))
        .route(status, get(api::status))
        .route(catalogue, get(api::catalogue))
        .route(runs, get(api::runs))
        .route(series, get(api::series))
        .route(point, get(api::point))
        .route(matrix, get(api::matrix))
        .route(compare, get(api::compare))
        .route(diagnosis, get(api::diagnosis))
        .route(alerts, get(api::alerts))
        .route(events, get(events::events))
        .fallback(api::no_route)
        .layer(from_fn_with_state(shared.clone(), guard))
        .with_state(shared)
}

/// Around every route: access, the time limit, the headers and the count.
async fn guard(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let path = label_of(request.uri().path());
    let mut response = match shared.app.access.check(&request) {
        Err(refusal) => refusal.into_response(),
        Ok(()) => match tokio::time::timeout(shared.patience, next.run(request)).await {
            Ok(response) => response,
            Err(_) => Refusal::unavailable("server", "took too long to answer").into_response(),
        },
    };
    let headers = response.headers_mut();
    for (name, value) in SAFE_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    shared.app.metrics.requests.with_label_values(&[path, response.status().as_str()]).inc();
    response
}

const SAFE_HEADERS: [(HeaderName, &str); 3] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
];

/// The route as a metric label; paths a client made up share one.
fn label_of(path: &str) -> &'static str {
    let exact = PATHS.into_iter().find(|known| *known == path);
    exact.unwrap_or(if path.starts_with("/assets/") { "/assets/{file}" } else { "other" })
}
