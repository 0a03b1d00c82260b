//! The login of browsers where a token is set: a form that posts the token, and a cookie for what follows.
//!
//! The token stands in no address and in no page. The cookie is of no use to scripts (`HttpOnly`) or to pages of other
//! sites (`SameSite=Strict`).

use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};

use super::refusal::Refusal;
use super::shared::Shared;
use crate::server::peers::Caller;

const PAGE: &str = include_str!("../../../web/login.html");
/// The element of the page that a fault replaces.
const FAULT: &str = "<p id=\"fault\" hidden></p>";
/// Bytes of a posted form at most.
const LARGEST: usize = 4096;

pub(super) async fn page(State(shared): State<Shared>) -> Response {
    if shared.app.access.wants_token() { Html(PAGE).into_response() } else { see("./", None) }
}

pub(super) async fn log_in(State(shared): State<Shared>, request: Request) -> Response {
    let caller = request.extensions().get::<Arc<Caller>>().cloned();
    let Ok(form) = to_bytes(request.into_body(), LARGEST).await else {
        return Refusal::bad("form", format!("expected at most {LARGEST} bytes")).into_response();
    };
    let given = form_urlencoded::parse(&form).find(|(name, _)| name == "token").map(|(_, token)| token);
    let given = given.as_deref().unwrap_or_default().trim();
    let Some(cookie) = shared.app.access.begin_session(given) else {
        shared.refuse_token(caller.as_deref());
        let page = PAGE.replace(FAULT, "<p id=\"fault\" role=\"alert\">This is not the sidecar's token.</p>");
        return (StatusCode::UNAUTHORIZED, Html(page)).into_response();
    };
    see("./", Some(cookie))
}

pub(super) async fn log_out(State(shared): State<Shared>) -> Response {
    see("login", Some(shared.app.access.end_session()))
}

/// Sends a browser elsewhere. Relative, so that a proxy may serve the page below a path of its own.
pub(super) fn see(place: &str, cookie: Option<String>) -> Response {
    let mut response = (StatusCode::SEE_OTHER, [(header::LOCATION, place.to_owned())]).into_response();
    if let Some(cookie) = cookie.and_then(|cookie| cookie.parse().ok()) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}
