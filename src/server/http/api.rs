//! The JSON API under `/api/v1/`.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use serde::Serialize;
use serde_json::json;

use super::app::App;
use super::curves::{ConceptCurves, Curves};
use super::exposition::Format;
use super::query::Parameters;
use super::refusal::Refusal;
use super::shared::Shared;
use super::view::{PointView, PointsView, RunView, RunsView};
use crate::analysis_query::{Question, diagnosis_of};
use crate::server::scoring::compute::MOST_ROWS;
use leakage::field_error::in_short;
use leakage::limits;
use leakage::point::Point;
use leakage::score::catalogue::{self, CATALOGUE};
use leakage::score::{SCORE_OF_ROWS, reads_task};

/// Evaluations of one answer.
const MOST_POINTS: usize = 1000;
/// Evaluations of a concept's curve.
const CONCEPT_POINTS: usize = 60;

pub(super) type Answer = Result<Response, Refusal>;

/// Computes `answer` on a thread that may block.
pub(super) async fn blocking(shared: Shared, answer: impl FnOnce(&App) -> Answer + Send + 'static) -> Answer {
    let task = tokio::task::spawn_blocking(move || answer(&shared.app));
    task.await.unwrap_or_else(|_| Err(Refusal::unavailable("server", "the answer could not be computed")))
}

/// A computation of an answer, which may block.
type Answering = fn(&App, &Parameters) -> Answer;

/// Routes requests of a method that have no other parameters than `known` to a thread that may block.
pub(super) fn on_thread(
    method: MethodFilter,
    known: &'static [&'static str],
    answer: Answering,
) -> MethodRouter<Shared> {
    let handler = async move |State(shared): State<Shared>, uri: Uri| {
        let query = Parameters::parse(&uri, known)?;
        blocking(shared, move |app| answer(app, &query)).await
    };
    on(method, handler)
}

pub(super) fn read(known: &'static [&'static str], answer: Answering) -> MethodRouter<Shared> {
    on_thread(MethodFilter::GET, known, answer)
}

fn json(answer: impl Serialize) -> Answer {
    Ok(Json(answer).into_response())
}

pub(super) fn status(app: &App, _: &Parameters) -> Answer {
    json(app.live.status())
}

pub(super) fn alerts(app: &App, _: &Parameters) -> Answer {
    json(app.live.alerts())
}

pub(super) fn catalogue(app: &App, _: &Parameters) -> Answer {
    let limits: Vec<_> = limits::SHOWN
        .iter()
        .map(|&(score, limit, above)| json!({"score": score, "limit": limit, "bad": if above { "above" } else { "below" }}))
        .collect();
    let of_task: Vec<_> = app.scores.iter().filter(|score| reads_task(score)).map(|score| score.id).collect();
    json(json!({"scores": app.scores, "of_task": of_task, "limits": limits, "rows": limits::ROWS}))
}

/// Runs, newest first: all, or a page of those that a search names.
pub(super) fn runs(app: &App, query: &Parameters) -> Answer {
    let listing = app.history.listing(&query.page()?)?;
    let runs = RunView::all(app, listing.runs)?;
    // Written at once: as a tree of JSON values, thousands of runs take ten times their text.
    let next = listing.next.map(|next| next.to_string());
    json(RunsView { runs, total: listing.total, next })
}

pub(super) fn series(app: &App, query: &Parameters) -> Answer {
    let (run, split, score) = query.of_score()?;
    let (first, last) = (query.number("first_step")?.unwrap_or(0), query.number("last_step")?);
    check_score(app, score)?;
    let points = app.history.series(run, split, score, query.text("concept"), first, last)?;
    if points.is_empty() {
        check_split(app, run, split)?;
    }
    json(json!({"points": points}))
}

/// Verdict, newest values and a small curve of every run in a split, or of those that `run` names, one on each line, which no
/// name contains: see [`super::overview`].
pub(super) fn overview(app: &App, query: &Parameters) -> Answer {
    let (split, wanted) = (query.required("split")?, query.page()?);
    let only: Vec<&str> = query.text("run").iter().flat_map(|names| names.split('\n')).collect();
    json(app.rows.read(app, split, &only, &wanted)?)
}

/// The curves of several scores, whose ids are separated by commas, as columns.
pub(super) fn curves(app: &App, query: &Parameters) -> Answer {
    let ((run, split), scores) = (query.of_split()?, query.required("scores")?);
    let first = query.number("first_step")?.unwrap_or(0);
    let scores: Vec<String> = scores.split(',').map(str::to_owned).collect();
    for score in &scores {
        check_score(app, score)?;
    }
    json(Curves::read(app, run, split, &scores, first)?)
}

/// A score of each concept over the run, at no more evaluations than a small chart can show.
pub(super) fn concepts(app: &App, query: &Parameters) -> Answer {
    let (run, split, score) = query.of_score()?;
    check_score(app, score)?;
    check_split(app, run, split)?;
    json(ConceptCurves::read(app, run, split, score, CONCEPT_POINTS)?)
}

pub(super) fn point(app: &App, query: &Parameters) -> Answer {
    let ((run, split), step) = (query.of_split()?, query.number("step")?);
    let found = app.history.point(run, split, step, false)?;
    json(PointView::full(&found.ok_or_else(|| nothing_there(app, run, split, step, "evaluation"))?))
}

/// Evaluations of a split as they are stored, with matrices, from a step on.
pub(super) fn points(app: &App, query: &Parameters) -> Answer {
    let (run, split) = query.of_split()?;
    let first = query.number("first_step")?.unwrap_or(0);
    let most = query.most("limit", MOST_POINTS)?;
    let matrices = match query.text("matrices") {
        None | Some("true") => true,
        Some("false") => false,
        Some(other) => {
            return Err(Refusal::bad("matrices", format!("got '{}', expected true or false", in_short(other))));
        }
    };
    let (points, next_step) = app.history.whole_points(run, split, first, most, matrices)?;
    if points.is_empty() {
        check_split(app, run, split)?;
    }
    let points = points.iter().map(PointView::whole).collect();
    json(PointsView { points, next_step })
}

/// The passes of a split without a complete point, and why; without `split` those of all splits, also of those without any
/// point.
pub(super) fn unscored(app: &App, query: &Parameters) -> Answer {
    let run = query.required("run")?;
    let passes = match query.text("split") {
        None => {
            let splits = app.history.known_splits(run)?;
            let passes: Vec<_> =
                splits.iter().map(|split| app.history.unscored(run, split)).collect::<Result<_, _>>()?;
            passes.concat()
        }
        Some(split) => {
            let passes = app.history.unscored(run, split)?;
            if passes.is_empty() {
                check_split(app, run, split)?;
            }
            passes
        }
    };
    json(json!({"passes": passes}))
}

pub(super) fn matrix(app: &App, query: &Parameters) -> Answer {
    let ((run, split, score), step) = (query.of_score()?, query.number("step")?);
    check_score(app, score)?;
    check_matrix(score)?;
    let found = app.history.matrix(run, split, score, step)?;
    json(found.ok_or_else(|| nothing_there(app, run, split, step, &format!("matrix of {score}")))?)
}

/// The rows of the newest evaluation that contribute most to a score, and its shares by class of the task.
pub(super) fn leaking_rows(app: &App, query: &Parameters) -> Answer {
    let (run, split, score) = query.of_score()?;
    if score != SCORE_OF_ROWS {
        return Err(Refusal::bad("score", format!("got '{}', expected {SCORE_OF_ROWS}", in_short(score))));
    }
    let (task, concept) = (query.text("task"), query.text("concept"));
    let top = query.most("top", MOST_ROWS)?;
    let not_found = |field: &str, why: String| Refusal::new(StatusCode::NOT_FOUND, field, why);
    let Some((concepts, kept)) = app.live.leaking_rows(run, split) else {
        check_split(app, run, split)?;
        let why = format!("'{split}' has no rows in memory: its sidecar keeps those of the newest evaluation");
        return Err(not_found("split", why));
    };
    let task = kept.rows.task(task).map_err(|why| not_found("task", why))?;
    let all = kept.rows.rows(task).map_err(|why| not_found("score", why))?;
    let rows = match concept {
        None => &all.mean,
        Some(name) => {
            let at = concepts.iter().position(|concept| concept == name);
            let of_concept = at.map(|at| all.concepts[at].as_ref());
            let of_concept = of_concept.ok_or_else(|| Refusal::unknown("concept", name))?;
            of_concept.ok_or_else(|| not_found("concept", format!("'{}' has no {score}", in_short(name))))?
        }
    };
    let first = &rows.rows[..top.min(rows.rows.len())];
    json(json!({
        "score": score, "task": kept.rows.name(task), "concept": concept, "step": kept.step, "time": kept.time,
        "value": rows.value, "rows": first, "by_class": rows.by_class, "by_group": rows.by_group,
    }))
}

/// Compares two runs, groups of runs by a label, or two splits of a run: see [`leakage::compare`].
pub(super) fn compare(app: &App, query: &Parameters) -> Answer {
    let question = Question::of(|key| query.text(key).map(str::to_owned))?;
    json(question.ask(&*app.history)?)
}

/// The diagnosis of a run's newest evaluation, of the attempt at work: see [`leakage::diagnosis`].
pub(super) fn diagnosis(app: &App, query: &Parameters) -> Answer {
    let (run, split) = query.of_split()?;
    json(diagnosis_of(&*app.history, run, split, |point: &Point| app.live.admits(point))?)
}

/// The verdict on a run's split, what it rests on and what to do: see [`leakage::diagnosis::Assessment`].
pub(super) fn verdict(app: &App, query: &Parameters) -> Answer {
    let (run, split) = query.of_split()?;
    json(app.rows.assess(app, run, split)?.ok_or_else(|| nothing_there(app, run, split, None, "evaluation"))?)
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
