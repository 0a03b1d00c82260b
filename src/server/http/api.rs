//! The JSON API under `/api/v1/`.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use prometheus::TextEncoder;
use serde_json::json;

use super::app::App;
use super::curves::{ConceptCurves, Curves};
use super::query::Parameters;
use super::refusal::Refusal;
use super::shared::Shared;
use super::view::{PointView, RunView, RunsView};
use crate::limits;
use crate::point::Point;
use crate::question::{self, Question, diagnosis_of};

/// Evaluations of a concept's curve.
const CONCEPT_POINTS: usize = 60;

type Answer = Result<Response, Refusal>;

/// Computes `answer` on a thread that may block.
async fn blocking(shared: Shared, answer: impl FnOnce(&App) -> Answer + Send + 'static) -> Answer {
    let task = tokio::task::spawn_blocking(move || answer(&shared.app));
    task.await.unwrap_or_else(|_| Err(Refusal::unavailable("server", "the answer could not be computed")))
}

pub(super) async fn status(State(shared): State<Shared>, uri: Uri) -> Answer {
    Parameters::parse(&uri, &[])?;
    blocking(shared, |app| Ok(Json(app.live.status()).into_response())).await
}

pub(super) async fn alerts(State(shared): State<Shared>, uri: Uri) -> Answer {
    Parameters::parse(&uri, &[])?;
    blocking(shared, |app| Ok(Json(app.live.alerts()).into_response())).await
}

pub(super) async fn catalogue(State(shared): State<Shared>, uri: Uri) -> Answer {
    Parameters::parse(&uri, &[])?;
    let limits: Vec<_> = limits::SHOWN
        .iter()
        .map(|&(score, limit, above)| json!({"score": score, "limit": limit, "bad": if above { "above" } else { "below" }}))
        .collect();
    Ok(Json(json!({"scores": &*shared.app.scores, "limits": limits, "rows": limits::ROWS})).into_response())
}

pub(super) async fn runs(State(shared): State<Shared>, uri: Uri) -> Answer {
    Parameters::parse(&uri, &[])?;
    blocking(shared, |app| {
        let live = app.live.runs();
        let views = app.history.listing()?.into_iter().map(|(stored, splits)| {
            let status = live.iter().find(|status| status.name == stored.run.name);
            RunView::new(stored, splits, status.map_or(&[], |status| &status.splits))
        });
        // Written at once: as a tree of JSON values, thousands of runs take ten times their text.
        Ok(Json(RunsView { runs: views.collect() }).into_response())
    })
    .await
}

pub(super) async fn series(State(shared): State<Shared>, uri: Uri) -> Answer {
    let known = ["run", "split", "score", "concept", "first_step", "last_step"];
    let query = Parameters::parse(&uri, &known)?;
    let (run, split, score) = (query.required("run")?, query.required("split")?, query.required("score")?);
    let (first, last) = (query.number("first_step")?, query.number("last_step")?);
    let concept = query.text("concept");
    blocking(shared, move |app| {
        check_score(app, &score)?;
        let first = first.unwrap_or(0);
        let points = app.history.series(&run, &split, &score, concept.as_deref(), first, last)?;
        if points.is_empty() {
            check_split(app, &run, &split)?;
        }
        Ok(Json(json!({"points": points})).into_response())
    })
    .await
}

/// Verdict, newest values and a small curve of every run in a split: see [`super::overview`].
pub(super) async fn overview(State(shared): State<Shared>, uri: Uri) -> Answer {
    let query = Parameters::parse(&uri, &["split", "run"])?;
    let (split, run) = (query.required("split")?, query.text("run"));
    let rows = shared.rows.clone();
    blocking(shared, move |app| Ok(Json(rows.read(app, &split, run.as_deref())?).into_response())).await
}

/// The curves of several scores, whose ids are separated by commas, as columns.
pub(super) async fn curves(State(shared): State<Shared>, uri: Uri) -> Answer {
    let query = Parameters::parse(&uri, &["run", "split", "scores", "first_step"])?;
    let (run, split, scores) = (query.required("run")?, query.required("split")?, query.required("scores")?);
    let first = query.number("first_step")?.unwrap_or(0);
    let scores: Vec<String> = scores.split(',').map(str::to_owned).collect();
    blocking(shared, move |app| {
        for score in &scores {
            check_score(app, score)?;
        }
        Ok(Json(Curves::read(app, &run, &split, &scores, first)?).into_response())
    })
    .await
}

/// A score of each concept over the run, at no more evaluations than a small chart can show.
pub(super) async fn concepts(State(shared): State<Shared>, uri: Uri) -> Answer {
    let query = Parameters::parse(&uri, &["run", "split", "score"])?;
    let (run, split, score) = (query.required("run")?, query.required("split")?, query.required("score")?);
    blocking(shared, move |app| {
        check_score(app, &score)?;
        check_split(app, &run, &split)?;
        Ok(Json(ConceptCurves::read(app, &run, &split, &score, CONCEPT_POINTS)?).into_response())
    })
    .await
}

pub(super) async fn point(State(shared): State<Shared>, uri: Uri) -> Answer {
    let query = Parameters::parse(&uri, &["run", "split", "step"])?;
    let (run, split, step) = (query.required("run")?, query.required("split")?, query.number("step")?);
    blocking(shared, move |app| {
        let found = app.history.point(&run, &split, step, false)?;
        let point = found.map_or_else(|| Err(nothing_there(app, &run, &split, step)), Ok)?;
        Ok(Json(PointView::full(&point)).into_response())
    })
    .await
}

/// The passes of a split without a complete point, and why.
pub(super) async fn unscored(State(shared): State<Shared>, uri: Uri) -> Answer {
    let query = Parameters::parse(&uri, &["run", "split"])?;
    let (run, split) = (query.required("run")?, query.required("split")?);
    blocking(shared, move |app| {
        let passes = app.history.unscored(&run, &split)?;
        if passes.is_empty() {
            check_split(app, &run, &split)?;
        }
        Ok(Json(json!({"passes": passes})).into_response())
    })
    .await
}

pub(super) async fn matrix(State(shared): State<Shared>, uri: Uri) -> Answer {
    let query = Parameters::parse(&uri, &["run", "split", "score", "step"])?;
    let (run, split, score) = (query.required("run")?, query.required("split")?, query.required("score")?);
    let step = query.number("step")?;
    blocking(shared, move |app| {
        check_score(app, &score)?;
        let found = app.history.matrix(&run, &split, &score, step)?;
        let matrix = found.map_or_else(|| Err(nothing_there(app, &run, &split, step)), Ok)?;
        Ok(Json(matrix).into_response())
    })
    .await
}

/// Compares two runs, groups of runs by a label, or two splits of a run: see [`crate::compare`].
pub(super) async fn compare(State(shared): State<Shared>, uri: Uri) -> Answer {
    let query = Parameters::parse(&uri, &question::PARAMETERS)?;
    let question = Question::of(|key| query.text(key))?;
    blocking(shared, move |app| Ok(Json(question.ask(&app.history)?).into_response())).await
}

/// The diagnosis of a run's newest evaluation, of the attempt at work: see [`crate::diagnosis`].
pub(super) async fn diagnosis(State(shared): State<Shared>, uri: Uri) -> Answer {
    let query = Parameters::parse(&uri, &["run", "split"])?;
    let (run, split) = (query.required("run")?, query.required("split")?);
    blocking(shared, move |app| {
        let admits = |point: &Point| app.live.admits(point);
        Ok(Json(diagnosis_of(&app.history, &run, &split, admits)?).into_response())
    })
    .await
}

/// The metrics, in Prometheus' text format.
pub(super) async fn metrics(State(shared): State<Shared>, uri: Uri) -> Answer {
    Parameters::parse(&uri, &[])?;
    let registry = shared.app.registry.clone();
    let task = tokio::task::spawn_blocking(move || TextEncoder::new().encode_to_string(&registry.gather()));
    match task.await {
        Ok(Ok(text)) => {
            Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
        }
        Ok(Err(error)) => Err(Refusal::unavailable("metrics", error.to_string())),
        Err(_) => Err(Refusal::unavailable("metrics", "could not be gathered")),
    }
}

pub(super) async fn live() -> &'static str {
    "live\n"
}

pub(super) async fn ready(State(shared): State<Shared>) -> Answer {
    match shared.app.live.ready() {
        Ok(()) => Ok("ready\n".into_response()),
        Err(why) => Err(Refusal::unavailable("ready", why)),
    }
}

pub(super) async fn index(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    shared.page.index(&headers)
}

pub(super) async fn asset(State(shared): State<Shared>, uri: Uri, headers: HeaderMap) -> Response {
    shared.page.asset(uri.path().trim_start_matches("/assets/"), &headers)
}

pub(super) async fn no_route(uri: Uri) -> Refusal {
    Refusal::unknown("path", uri.path())
}

fn check_score(app: &App, id: &str) -> Result<(), Refusal> {
    match app.scores.iter().any(|score| score.id == id) {
        true => Ok(()),
        false => Err(Refusal::unknown("score", id)),
    }
}

/// Errors when a split is unknown. A split without points is known if this process has received rows for it.
fn check_split(app: &App, run: &str, split: &str) -> Result<(), Refusal> {
    let live = app.live.runs();
    let received = live.iter().any(|status| status.name == run && status.splits.iter().any(|s| s.split == split));
    match received || app.history.splits(run)?.iter().any(|stored| stored.split == split) {
        true => Ok(()),
        false => Err(Refusal::unknown("split", split)),
    }
}

fn nothing_there(app: &App, run: &str, split: &str, step: Option<u64>) -> Refusal {
    let (field, message) = match (check_split(app, run, split), step) {
        (Err(refusal), _) => return refusal,
        (Ok(()), Some(step)) => ("step", format!("{step} has none")),
        (Ok(()), None) => ("split", format!("'{split}' has none yet")),
    };
    Refusal::new(StatusCode::NOT_FOUND, field, message)
}
