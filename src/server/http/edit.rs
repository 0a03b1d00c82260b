//! One run: reading it, and the changes that people make, by the page and the command line.

use axum::Json;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::api::{Answer, blocking};
use super::app::App;
use super::query::Parameters;
use super::refusal::Refusal;
use super::shared::Shared;
use super::view::RunView;
use crate::history::{MAX_NOTE, Remark};
use crate::server::live::Event;

/// Bytes of a change at most: a note whose every character is escaped.
const LARGEST: usize = 16 * MAX_NOTE;

pub(super) fn read(app: &App, query: &Parameters) -> Answer {
    view(app, query.required("run")?)
}

/// Changes title or note, and answers the run as it is then.
pub(super) async fn change(State(shared): State<Shared>, request: Request) -> Answer {
    let run = Parameters::parse(request.uri(), &["run"])?.required("run")?.to_owned();
    let body = to_bytes(request.into_body(), LARGEST).await;
    let body = body.map_err(|_| Refusal::bad("body", format!("expected at most {LARGEST} bytes")))?;
    let remark = remark_of(&body)?;
    blocking(shared, move |app| {
        app.history.remark(&run, &remark)?;
        tell(app, &run);
        view(app, &run)
    })
    .await
}

/// Removes a run with its curves.
pub(super) fn remove(app: &App, query: &Parameters) -> Answer {
    let run = query.required("run")?;
    app.history.remove_run(run)?;
    app.live.forget(run);
    tracing::info!(%run, "a run was removed");
    tell(app, run);
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn view(app: &App, run: &str) -> Result<Response, Refusal> {
    let found = app.history.listed(run)?;
    Ok(Json(RunView::all(app, vec![found])?.pop()).into_response())
}

fn tell(app: &App, run: &str) {
    app.events.send(Event::Run(run.into()));
}

/// An object with `title`, `note` or both, each a text or null for none.
fn remark_of(body: &[u8]) -> Result<Remark, Refusal> {
    let expected = "expected a JSON object with title, note or both";
    let Ok(Value::Object(fields)) = serde_json::from_slice(body) else {
        return Err(Refusal::bad("body", expected));
    };
    let mut remark = Remark::default();
    for (field, value) in &fields {
        let text = match value {
            Value::String(text) => text.trim().to_owned(),
            Value::Null => String::new(),
            other => return Err(Refusal::bad(field, format!("got {other}, expected text or null"))),
        };
        match field.as_str() {
            "title" => remark.title = Some(text),
            "note" => remark.note = Some(text),
            _ => {
                return Err(Refusal::bad(
                    leakage::field_error::in_short(field),
                    format!("is no field of a run, {expected}"),
                ));
            }
        }
    }
    if fields.is_empty() { Err(Refusal::bad("body", expected)) } else { Ok(remark) }
}
