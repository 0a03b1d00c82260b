//! All routes, and what surrounds each: access, the time limit, compression, safe headers and the count.

use std::sync::Arc;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, get, post};
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};
use tower_http::compression::{CompressionLayer, CompressionLevel};

use super::api::{on_thread, read};
use super::refusal::Refusal;
use super::shared::Shared;
use super::{api, edit, events, login};
use crate::analysis_query::PARAMETERS;
use crate::server::peers::Caller;

/// The gzip level. Answers are compressed on the threads that also take batches: a first view of the page takes 11 ms of
/// them. Level 2 takes 6 ms, and makes it larger by 8 %.
const LEVEL: CompressionLevel = CompressionLevel::Precise(6);
/// Bytes below which an answer is sent as it is: it fits into one packet either way.
const SMALL: u64 = 1024;

pub(super) fn router(shared: Shared) -> Router {
    let compression =
        CompressionLayer::new().quality(LEVEL).compress_when(SizeAbove::new(SMALL).and(NotForContentType::SSE));
    Router::new()
        .route("/", get(api::index))
        .route("/login", get(login::page).post(login::log_in))
        .route("/logout", post(login::log_out))
        .route("/assets/{*file}", get(api::asset))
        .route("/metrics", get(api::metrics))
        .route("/live", get(api::live))
        .route("/ready", get(api::ready))
        .route("/api/v1/status", read(&[], api::status))
        .route("/api/v1/catalogue", read(&[], api::catalogue))
        .route("/api/v1/runs", read(&["search", "after", "limit"], api::runs))
        .route(
            "/api/v1/run",
            read(&["run"], edit::read)
                .merge(on_thread(MethodFilter::DELETE, &["run"], edit::remove))
                .patch(edit::change),
        )
        .route("/api/v1/series", read(&["run", "split", "score", "concept", "first_step", "last_step"], api::series))
        .route("/api/v1/overview", read(&["split", "run", "search", "after", "limit"], api::overview))
        .route("/api/v1/curves", read(&["run", "split", "scores", "first_step"], api::curves))
        .route("/api/v1/concepts", read(&["run", "split", "score"], api::concepts))
        .route("/api/v1/point", read(&["run", "split", "step"], api::point))
        .route("/api/v1/points", read(&["run", "split", "first_step", "limit", "matrices"], api::points))
        .route("/api/v1/unscored", read(&["run", "split"], api::unscored))
        .route("/api/v1/matrix", read(&["run", "split", "score", "step"], api::matrix))
        .route("/api/v1/rows", read(&["run", "split", "score", "task", "concept", "top"], api::leaking_rows))
        .route("/api/v1/compare", read(&PARAMETERS, api::compare))
        .route("/api/v1/diagnosis", read(&["run", "split"], api::diagnosis))
        .route("/api/v1/verdict", read(&["run", "split"], api::verdict))
        .route("/api/v1/alerts", read(&[], api::alerts))
        .route("/api/v1/events", get(events::events))
        .fallback(api::no_route)
        .layer(compression)
        .layer(from_fn_with_state(shared.clone(), guard))
        .with_state(shared)
}

/// Wraps every route: checks access, limits the time, sets headers and counts the request.
async fn guard(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    // Unknown paths match no route and share one label, so that clients cannot create series.
    let route = request.extensions().get::<MatchedPath>().cloned();
    let caller = request.extensions().get::<Arc<Caller>>().cloned();
    let session = shared.app.access.has_session(request.headers());
    // Before the answer is made, so that what changes meanwhile counts as an event after it.
    let mark = shared.app.events.mark();
    let mut response = match shared.app.access.check(&request, caller.as_deref()) {
        Err(refusal) if refusal.status == StatusCode::UNAUTHORIZED => {
            let browses =
                |accepted: &HeaderValue| accepted.to_str().is_ok_and(|accepted| accepted.contains("text/html"));
            if request.headers().contains_key(header::AUTHORIZATION) {
                shared.refuse_token(caller.as_deref());
            }
            let page = request.uri().path() == "/" && request.headers().get(header::ACCEPT).is_some_and(browses);
            let login = page && shared.app.access.wants_token();
            if login { login::see("login", None) } else { refusal.into_response() }
        }
        Err(refusal) => refusal.into_response(),
        Ok(known) => {
            caller.iter().filter(|_| known).for_each(|caller| caller.admit());
            // Probes and scrapes do not wait for readers.
            let waits = !matches!(request.uri().path(), "/live" | "/ready" | "/metrics");
            let answer = async {
                let _place = if waits { shared.answers.acquire().await.ok() } else { None };
                next.run(request).await
            };
            match tokio::time::timeout(shared.patience, answer).await {
                Ok(response) => response,
                Err(_) => Refusal::unavailable("server", "took too long to answer").into_response(),
            }
        }
    };
    let headers = response.headers_mut();
    for (name, value) in SAFE_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if session {
        headers.insert(SESSION, HeaderValue::from_static("true"));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let route = route.as_ref().map_or("other", MatchedPath::as_str);
    if route.starts_with("/api/")
        && let Ok(mark) = HeaderValue::try_from(mark.to_string())
    {
        headers.insert(MARK, mark);
    }
    shared.app.metrics.requests.with_label_values(&[route, response.status().as_str()]).inc();
    response
}

/// The mark of the events that an answer of the API has in it, as in the ids of the event stream.
const MARK: HeaderName = HeaderName::from_static("conceptwatch-mark");
/// Tells the page that there is a session to end.
const SESSION: HeaderName = HeaderName::from_static("conceptwatch-session");

const SAFE_HEADERS: [(HeaderName, &str); 3] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; \
         connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
];
