//! The API's answers from a history that no sidecar uses.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use prometheus::Registry;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::access::Access;
use super::app::App;
use super::assets::Page;
use super::rooms::Rooms;
use super::router::router;
use super::shared::Shared;
use crate::alert::{Alerts, Rules};
use crate::history::History;
use crate::point::Point;
use crate::score::catalogue::{CATALOGUE, CATALOGUE_VERSION, Score};
use crate::server::advice::Advice;
use crate::server::events::{Bounds, Events};
use crate::server::live::{AlertsStatus, Latest, Live, RunStatus, Status};
use crate::server::metrics::Metrics;
use crate::server::notify::{Notifier, Options as NotifyOptions};
use crate::server::options::ServeError;
use crate::server::peers::{Attempts, Endpoint};

/// Newest evaluations of each run and split that the rules judge again.
const JUDGED: usize = 10_000;
/// Time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(600);
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What there is without a sidecar: the alerts that rules find in the curves.
struct Stored(AlertsStatus);

impl Live for Stored {
    fn runs(&self) -> Vec<RunStatus> {
        Vec::new()
    }

    fn latest(&self) -> Vec<Latest> {
        Vec::new()
    }

    fn admits(&self, _: &Point) -> bool {
        true
    }

    fn alerts(&self) -> AlertsStatus {
        self.0.clone()
    }

    fn status(&self) -> Status {
        Status {
            version: VERSION,
            catalogue_version: CATALOGUE_VERSION,
            uptime_seconds: 0.0,
            lag_seconds: 0.0,
            rows_dropped: 0,
            points_skipped: 0,
            memory_bytes: 0,
            memory_limit_bytes: 0,
            scoring_memory_bytes: 0,
            scoring_memory_limit_bytes: 0,
            staleness_seconds: 0.0,
            cpu_share: 0.0,
            cpu_seconds: 0.0,
            estimator: "",
        }
    }

    fn ready(&self) -> Result<(), String> {
        Err("no sidecar uses this history".to_owned())
    }
}

/// The status and body of the answer to each request, a path with its query.
pub async fn stored_answers(
    history: History,
    rules: Rules,
    requests: &[String],
) -> Result<Vec<(u16, Vec<u8>)>, ServeError> {
    let registry = Registry::new();
    let metrics = Metrics::register(&registry, VERSION, CATALOGUE_VERSION)?;
    let wants_alerts = requests.iter().any(|request| request.starts_with("/api/v1/alerts"));
    let alerts = if wants_alerts { judged(&history, rules, &metrics)? } else { AlertsStatus::default() };
    let app = App {
        history: Arc::new(history),
        registry,
        metrics: metrics.clone(),
        scores: CATALOGUE.iter().map(Score::describe).collect(),
        events: Events::new(Bounds::default()),
        live: Arc::new(Stored(alerts)),
        access: Arc::new(Access::new(&Endpoint::Unix("stored".into()), &[], None, None)),
    };
    let router = router(Shared {
        app,
        page: Arc::new(Page::new()),
        rows: Arc::default(),
        rooms: Arc::new(Rooms::new(1)),
        attempts: Arc::new(Attempts::new(Duration::ZERO, metrics.tokens_refused.with_label_values(&["http"]))),
        stop: CancellationToken::new(),
        patience: PATIENCE,
    });
    let mut answers = Vec::new();
    for request in requests {
        let request = Request::get(request.as_str()).header(header::HOST, "localhost").body(Body::empty());
        let Ok(request) = request else {
            answers.push((StatusCode::BAD_REQUEST.as_u16(), b"got what is no path and query".to_vec()));
            continue;
        };
        let answer = match router.clone().oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        let status = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), usize::MAX).await.map_err(std::io::Error::other)?;
        answers.push((status, body.to_vec()));
    }
    Ok(answers)
}

/// The changes of alert states that the rules find in all stored curves.
fn judged(history: &History, rules: Rules, metrics: &Metrics) -> Result<AlertsStatus, ServeError> {
    let notifier = Notifier::start(NotifyOptions::default(), String::new(), metrics.clone());
    let advice = Advice::new(Alerts::new(rules), Events::new(Bounds::default()), notifier);
    let splits = advice.judged_splits();
    for stored in history.runs()?.into_iter().rev() {
        let name: Arc<str> = stored.run.name.as_str().into();
        let concepts = stored.run.concepts.iter().map(|concept| concept.name.clone()).collect();
        advice.start(&name, concepts, stored.started);
        let mut points = Vec::new();
        for split in &splits {
            points.extend(history.evaluations(&name, split, JUDGED)?);
        }
        advice.restore(&name, &points);
    }
    Ok(advice.status())
}
