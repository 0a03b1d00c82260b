//! The API's answers from a history that no sidecar uses.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode, header};
use prometheus::Registry;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::access::Access;
use super::app::App;
use super::assets::Page;
use super::exposition::Exposition;
use super::router::router;
use super::shared::Shared;
use crate::VERSION;
use crate::analysis_query::baseline_of;
use crate::history::Store;
use crate::server::advice::Advice;
use crate::server::alert_log::AlertLog;
use crate::server::events::{Bounds, Events};
use crate::server::live::{AlertsStatus, Live, Status};
use crate::server::metrics::Metrics;
use crate::server::notify::{Notifier, Options as NotifyOptions};
use crate::server::options::ServeError;
use crate::server::peers::Endpoint;
use leakage::alert::{Judged, Rules};
use leakage::score::catalogue::CATALOGUE_VERSION;

/// Newest evaluations of each run and split that the rules judge again.
const JUDGED: usize = 10_000;
/// Time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(600);

/// The live state without a sidecar: the alerts that rules find in the curves.
struct Stored(AlertsStatus);

impl Live for Stored {
    fn alerts(&self) -> AlertsStatus {
        self.0.clone()
    }

    fn status(&self) -> Status {
        Status { version: VERSION, catalogue_version: CATALOGUE_VERSION, ..Status::default() }
    }

    fn ready(&self) -> Result<(), String> {
        Err("no sidecar uses this history".to_owned())
    }
}

/// The API over a history that no sidecar uses.
pub struct StoredApi(Router);

impl StoredApi {
    /// Creates the API with the alerts that rules find in all curves, or with none.
    pub fn new(history: Arc<dyn Store>, rules: Option<Rules>) -> Result<Self, ServeError> {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry, VERSION, CATALOGUE_VERSION)?;
        let alerts = rules.map(|rules| judged(&*history, rules, &metrics)).transpose()?.unwrap_or_default();
        let access = Access::new(&Endpoint::Unix("stored".into()), &[], None, None);
        let (live, events) = (Arc::new(Stored(alerts)), Events::new(Bounds::default()));
        let app = App::new(history, live, registry, metrics, events, access);
        Ok(Self(router(Shared {
            exposition: Exposition::of_stored(app.clone()),
            app,
            page: Arc::new(Page::new()),
            answers: Arc::new(Semaphore::new(1)),
            streams: Arc::new(Semaphore::new(1)),
            stop: CancellationToken::new(),
            patience: PATIENCE,
        })))
    }

    /// The status and body of the answer to a request for `target`, a path with its query.
    pub async fn answer(
        &self,
        method: Method,
        target: &str,
        body: Option<String>,
    ) -> Result<(StatusCode, Vec<u8>), ServeError> {
        let request = Request::builder().method(method).uri(target).header(header::HOST, "localhost");
        let request = request.header(header::ORIGIN, "http://localhost").body(Body::from(body.unwrap_or_default()));
        let Ok(request) = request else {
            return Ok((StatusCode::BAD_REQUEST, b"got what is no path and query".to_vec()));
        };
        let answer = match self.0.clone().oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        let status = answer.status();
        let body = to_bytes(answer.into_body(), usize::MAX).await.map_err(std::io::Error::other)?;
        Ok((status, body.to_vec()))
    }
}

/// The changes of alert states that the rules find in all stored curves.
fn judged(history: &dyn Store, rules: Rules, metrics: &Metrics) -> Result<AlertsStatus, ServeError> {
    let notifier = Notifier::start(NotifyOptions::default(), String::new(), metrics.clone());
    let log = Arc::new(AlertLog::new(rules, Events::new(Bounds::default()), notifier));
    let mut standings = Vec::new();
    for stored in history.runs()?.into_iter().rev() {
        let name: Arc<str> = stored.run.name.as_str().into();
        let judged = Judged::of(&stored.run, baseline_of(history, &stored.run)?);
        let advice = Advice::new(Arc::clone(&name), Arc::clone(&log));
        advice.start(judged, stored.started);
        let mut points = Vec::new();
        for split in log.rules.splits() {
            points.extend(history.evaluations(&name, split, JUDGED)?);
        }
        advice.restore(&points);
        standings.extend(advice.standings());
    }
    // By run, each with the rules in their order.
    standings.sort_by(|a, b| a.run.cmp(&b.run));
    Ok(log.status(standings))
}
