//! Server-sent events: curve points, run changes and alerts as they happen.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::Uri;
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use futures::{Stream, StreamExt};
use serde::Serialize;
use serde_json::json;

use super::query::Parameters;
use super::refusal::Refusal;
use super::shared::Shared;
use super::view::PointView;
use crate::server::events::{Received, Watcher};
use crate::server::live::Event;

/// Interval of comments, which keep proxies from closing an idle stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The event stream, which ends when the server stops. A reader that is too slow gets the number of events it lost. The
/// id of a message is the mark behind it; the stream has all events after that of the first message, `begin`.
pub(super) async fn events(
    State(shared): State<Shared>,
    uri: Uri,
) -> Result<Sse<impl Stream<Item = Result<Message, Infallible>>>, Refusal> {
    Parameters::parse(&uri, &[])?;
    let full = |_| Refusal::unavailable("server", "serves as many event streams as it may");
    let place = Arc::clone(&shared.streams).try_acquire_owned().map_err(full)?;
    // A hub tells changes since its newest view of the tables. It takes one now, as readers take theirs afterwards.
    let live = Arc::clone(&shared.app.live);
    drop(tokio::task::spawn_blocking(move || live.alerts()).await);
    let watcher = shared.app.events.subscribe();
    let begin = message("begin", &json!({}), &watcher);
    let stream = futures::stream::unfold((watcher, shared, place), |(mut watcher, shared, place)| async move {
        let received = tokio::select! {
            biased;
            () = shared.stop.cancelled() => return None,
            received = watcher.next() => received,
        };
        let message = match received {
            Received::Event(Event::Point(point)) => message("point", &PointView::summary(&point), &watcher),
            Received::Event(Event::Run(run)) => message("run", &json!({"run": &*run}), &watcher),
            Received::Event(Event::Alert(change)) => message("alert", &*change, &watcher),
            Received::Lost(count) => {
                shared.app.metrics.watch_events_lost.inc_by(count);
                message("lost", &json!({"count": count}), &watcher)
            }
        };
        Some((Ok(message), (watcher, shared, place)))
    });
    let stream = futures::stream::once(async { Ok(begin) }).chain(stream);
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

/// Returns the message for what the watcher received last.
fn message(kind: &str, content: &impl Serialize, watcher: &Watcher) -> Message {
    let empty = Message::default().event(kind).id(watcher.mark().to_string());
    // Serialising to JSON fails only for maps whose keys are not strings; the events have none.
    match serde_json::to_string(content) {
        Ok(text) => empty.data(text),
        Err(_) => empty,
    }
}
