//! The JSON API under `/api/v1/`.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::app::App;
use super::curves::{ConceptCurves, Curves};
use super::exposition::Format;
use super::query::{PAGE, Parameters};
use super::refusal::Refusal;
use super::shared::Shared;
use super::view::{PointView, PointsView, RunView, RunsView};
use crate::analysis_query::{self, Question, diagnosis_of};
use crate::server::scoring::compute::MOST_ROWS;
use leakage::field_error::in_short;
use leakage::limits;
use leakage::point::Point;
use leakage::score::SCORE_OF_ROWS;
use leakage::score::catalogue::{self, CATALOGUE};

/// Evaluations of one answer.
const MOST_POINTS: u64 = 1000;
/// Evaluations of a concept's curve.
const CONCEPT_POINTS: usize = 60;

pub(super) type Answer = Result<Response, Refusal>;

/// Computes `answer` on a thread that may block.
pub(super) async fn blocking(shared: Shared, answer: impl FnOnce(&App) -> Answer + Send + 'static) -> Answer {
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
    Ok(Json(json!({"scores": shared.app.scores, "limits": limits, "rows": limits::ROWS})).into_response())
}

/// Runs, newest first: all, or a page of those that a search names.
pub(super) async fn runs(State(shared): State<Shared>, uri: Uri) -> Answer {
    let wanted = Parameters::parse(&uri, &PAGE)?.page()?;
    blocking(shared, move |app| {
        let listing = app.history.listing(&wanted)?;
        let runs = RunView::all(app, listing.runs)?;
        // Written at once: as a tree of JSON values, thousands of runs take ten times their text.
        let next = listing.next.map(|next| next.to_string());
        Ok(Json(RunsView { runs, total: listing.total, next }).into_response())
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

/// Verdict, newest values and a small curve of every run in a split, or of those that `run` names, one on each line, which no
/// name contains: see [`super::overview`].
pub(super) async fn overview(State(shared): State<Shared>, uri: Uri) -> Answer {
    let query = Parameters::parse(&uri, &["split", "run", "search", "after", "limit"])?;
    let (split, only, wanted) = (query.required("split")?, query.text("run"), query.page()?);
    blocking(shared, move |app| {
        let only: Vec<&str> = only.iter().flat_map(|names| names.split('\n')).collect();
        Ok(Json(app.rows.read(app, &split, &only, &wanted)?).into_response())
    })
    .await
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
        let point = found.map_or_else(|| Err(nothing_there(app, &run, &split, step, "evaluation")), Ok)?;
        Ok(Json(PointView::full(&point)).into_response())
    })
    .await
}

/// Evaluations of a split as they are stored, with matrices, from a step on.
pub(super) async fn points(State(shared): State<Shared>, uri: Uri) -> Answer {
    let query = Parameters::parse(&uri, &["run", "split", "first_step", "limit", "matrices"])?;
    let (run, split) = (query.required("run")?, query.required("split")?);
    let first = query.number("first_step")?.unwrap_or(0);
    let most = match query.number("limit")?.unwrap_or(MOST_POINTS) {
        most @ 1..=MOST_POINTS => most as usize,
        other => return Err(Refusal::bad("limit", format!("got {other}, expected 1 to {MOST_POINTS}"))),
    };
    let matrices = match query.text("matrices").as_deref() {
        None | Some("true") => true,
        Some("false") => false,
        Some(other) => {
            return Err(Refusal::bad("matrices", format!("got '{}', expected true or false", in_short(other))));
        }
    };
    blocking(shared, move |app| {
        let (points, next_step) = app.history.whole_points(&run, &split, first, most, matrices)?;
        if points.is_empty() {
            check_split(app, &run, &split)?;
        }
        let points = points.iter().map(PointView::whole).collect();
        Ok(Json(PointsView { points, next_step }).into_response())
    })
    .await
}

/// The passes of a split without a complete point, and why; without `split` those of all splits, also of those without any
/// point.
pub(super) async fn unscored(State(shared): State<Shared>, uri: Uri) -> Answer {
    let query = Parameters::parse(&uri, &["run", "split"])?;
    let (run, split) = (query.required("run")?, query.text("split"));
    blocking(shared, move |app| {
        let Some(split) = split else {
            let splits = app.history.known_splits(&run)?;
            let passes: Vec<_> =
                splits.iter().map(|split| app.history.unscored(&run, split)).collect::<Result<_, _>>()?;
            return Ok(Json(json!({"passes": passes.concat()})).into_response());
        };
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
        check_matrix(&score)?;
        let found = app.history.matrix(&run, &split, &score, step)?;
        let what = format!("matrix of {score}");
        let matrix = found.map_or_else(|| Err(nothing_there(app, &run, &split, step, &what)), Ok)?;
        Ok(Json(matrix).into_response())
    })
    .await
}

/// The rows of the newest evaluation that contribute most to a score, and its shares by class of the task.
pub(super) async fn leaking_rows(State(shared): State<Shared>, uri: Uri) -> Answer {
    let query = Parameters::parse(&uri, &["run", "split", "score", "task", "concept", "top"])?;
    let (run, split, score) = (query.required("run")?, query.required("split")?, query.required("score")?);
    if score != SCORE_OF_ROWS {
        return Err(Refusal::bad("score", format!("got '{}', expected {SCORE_OF_ROWS}", in_short(&score))));
    }
    let (task, concept) = (query.text("task"), query.text("concept"));
    let top = match query.number("top")?.unwrap_or(MOST_ROWS as u64) {
        top @ 1.. if top <= MOST_ROWS as u64 => top as usize,
        other => return Err(Refusal::bad("top", format!("got {other}, expected 1 to {MOST_ROWS}"))),
    };
    blocking(shared, move |app| {
        let Some((concepts, kept)) = app.live.leaking_rows(&run, &split) else {
            check_split(app, &run, &split)?;
            let why = format!("'{split}' has no rows in memory: its sidecar keeps those of the newest evaluation");
            return Err(Refusal::new(StatusCode::NOT_FOUND, "split", why));
        };
        let not_found = |field: &str, why: String| Refusal::new(StatusCode::NOT_FOUND, field, why);
        let task = kept.rows.task(task.as_deref()).map_err(|why| not_found("task", why))?;
        let all = kept.rows.rows(task).map_err(|why| not_found("score", why))?;
        let rows = match &concept {
            None => &all.mean,
            Some(name) => {
                let at = concepts.iter().position(|concept| concept == name);
                let of_concept = at.map(|at| all.concepts[at].as_ref());
                let of_concept = of_concept.ok_or_else(|| Refusal::unknown("concept", name))?;
                of_concept.ok_or_else(|| not_found("concept", format!("'{}' has no {score}", in_short(name))))?
            }
        };
        let first = &rows.rows[..top.min(rows.rows.len())];
        Ok(Json(json!({
            "score": score, "task": kept.rows.name(task), "concept": concept, "step": kept.step, "time": kept.time,
            "value": rows.value, "rows": first, "by_class": rows.by_class, "by_group": rows.by_group,
        }))
        .into_response())
    })
    .await
}

/// Compares two runs, groups of runs by a label, or two splits of a run: see [`leakage::compare`].
pub(super) async fn compare(State(shared): State<Shared>, uri: Uri) -> Answer {
    let query = Parameters::parse(&uri, &analysis_query::PARAMETERS)?;
    let question = Question::of(|key| query.text(key))?;
    blocking(shared, move |app| Ok(Json(question.ask(&*app.history)?).into_response())).await
}

/// The diagnosis of a run's newest evaluation, of the attempt at work: see [`leakage::diagnosis`].
pub(super) async fn diagnosis(State(shared): State<Shared>, uri: Uri) -> Answer {
    let query = Parameters::parse(&uri, &["run", "split"])?;
    let (run, split) = (query.required("run")?, query.required("split")?);
    blocking(shared, move |app| {
        let admits = |point: &Point| app.live.admits(point);
        Ok(Json(diagnosis_of(&*app.history, &run, &split, admits)?).into_response())
    })
    .await
}

/// The verdict on a run's split, what it rests on and what to do: see [`leakage::diagnosis::Assessment`].
pub(super) async fn verdict(State(shared): State<Shared>, uri: Uri) -> Answer {
    let query = Parameters::parse(&uri, &["run", "split"])?;
    let (run, split) = (query.required("run")?, query.required("split")?);
    blocking(shared, move |app| {
        let found = app.rows.assess(app, &run, &split)?;
        let found = found.map_or_else(|| Err(nothing_there(app, &run, &split, None, "evaluation")), Ok)?;
        Ok(Json(found).into_response())
    })
    .await
}

/// The metrics, in Prometheus' text format or that of OpenMetrics.
pub(super) async fn metrics(State(shared): State<Shared>, uri: Uri, headers: HeaderMap) -> Answer {
    Parameters::parse(&uri, &[])?;
    let format = Format::accepted(&headers);
    match tokio::task::spawn_blocking(move || format.answer(&shared.exposition.families())).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(Refusal::unavailable("metrics", error.to_string())),
        Err(_) => Err(Refusal::unavailable("metrics", "could not be gathered")),
    }
}

pub(super) async fn live() -> &'static str {
    "live\n"
}

pub(super) async fn ready(State(shared): State<Shared>) -> Answer {
    match shared.app.live.ready() {
        Ok(()) => {
            let slow = shared.app.live.slowness();
            Ok(slow.map_or_else(|| "ready\n".into(), |slow| format!("ready, but {slow}\n")).into_response())
        }
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

/// Errors where a score of the catalogue is not of pairs of concepts, and says which of its kind are.
fn check_matrix(id: &str) -> Result<(), Refusal> {
    let Some(score) = catalogue::find(id).filter(|score| !score.matrix) else { return Ok(()) };
    let of = |family: Option<&str>| {
        let all = CATALOGUE.iter().filter(|other| other.matrix && family.is_none_or(|one| other.family == one));
        all.map(|other| other.id).collect::<Vec<_>>()
    };
    let related = of(Some(score.family));
    let known = if related.is_empty() { of(None) } else { related };
    Err(Refusal::bad("score", format!("{id} has no matrix; these scores do: {}", known.join(", "))))
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

fn nothing_there(app: &App, run: &str, split: &str, step: Option<u64>, what: &str) -> Refusal {
    let (field, message) = match (check_split(app, run, split), step) {
        (Err(refusal), _) => return refusal,
        (Ok(()), Some(step)) => ("step", format!("{step} has no {what}")),
        (Ok(()), None) => ("split", format!("'{split}' has no {what} yet")),
    };
    Refusal::new(StatusCode::NOT_FOUND, field, message)
}
