//! One request of the API and its answer.

use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HOST, ORIGIN};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;

use crate::server::peers::{Dialer, Protocol, Remote};

use super::client_options::Contact;
use super::failure::Failure;

/// Bytes at which an answer is cut off; any real one is far smaller.
const LARGEST: usize = 256 << 20;

/// Asks a sidecar, and waits for its answer for `patience`.
pub fn exchange(
    contact: &Contact,
    address: &Remote,
    method: Method,
    target: &str,
    body: Option<String>,
    patience: Duration,
) -> Result<(StatusCode, Bytes), Failure> {
    let token = contact.token()?;
    let dialer = contact.dialer(address, Protocol::Http1)?;
    let asked = send(&dialer, method, target, token.as_deref(), body);
    let answered = waiting(async { tokio::time::timeout(patience, asked).await })?;
    answered.map_err(|_| Failure::running(format!("{address} did not answer within {patience:?}")))?.map_err(|why| {
        // The gRPC port answers a request of HTTP/1.1 by its end.
        let is_other = |error: &hyper::Error| error.is_parse() || error.is_canceled() || error.is_incomplete_message();
        let message = match why.downcast_ref().is_some_and(is_other) {
            true => format!("{address} does not answer in HTTP; give the HTTP port, by default 7801, not that of gRPC"),
            false => format!("{address} cannot be reached: {why}"),
        };
        Failure { is_silence: true, ..Failure::running(message) }
    })
}

/// Waits for an answer on this thread.
pub fn waiting<T>(answer: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(answer))
}

/// The program that answers at an address.
pub enum Answering {
    Nobody,
    /// A sidecar or a hub, with its status.
    Sidecar(Value),
    /// One that refuses, such as for want of a token.
    Refusing(StatusCode),
    /// Another program.
    Stranger(StatusCode),
}

/// Asks for the status, by which a sidecar is recognised, and waits for it for `patience`.
pub fn who_answers(contact: &Contact, address: &Remote, patience: Duration) -> Result<Answering, Failure> {
    match exchange(contact, address, Method::GET, "/api/v1/status", None, patience) {
        Ok((status, body)) => {
            let said: Value = serde_json::from_slice(&body).unwrap_or_default();
            Ok(match status {
                StatusCode::OK if said["catalogue_version"].is_u64() => Answering::Sidecar(said),
                _ if said["error"]["field"].is_string() => Answering::Refusing(status),
                _ => Answering::Stranger(status),
            })
        }
        Err(failure) if failure.is_silence => Ok(Answering::Nobody),
        Err(failure) => Err(failure),
    }
}

async fn send(
    dialer: &Dialer,
    method: Method,
    target: &str,
    token: Option<&str>,
    body: Option<String>,
) -> Result<(StatusCode, Bytes), Box<dyn std::error::Error>> {
    let stream = dialer.connect().await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let remote = dialer.remote();
    let mut request = Request::builder().method(method.clone()).uri(target).header(HOST, remote.authority());
    if method != Method::GET {
        request = request.header(ORIGIN, format!("{}://{}", remote.scheme(), remote.authority()));
    }
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Body::from(body.unwrap_or_default()))?;
    let answered = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = to_bytes(Body::new(response.into_body()), LARGEST).await?;
        Ok((status, body))
    };
    let mut connection = std::pin::pin!(connection);
    let mut answered = std::pin::pin!(answered);
    tokio::select! {
        answer = &mut answered => answer,
        // The connection may close before the answer has been read.
        _ = &mut connection => answered.await,
    }
}
