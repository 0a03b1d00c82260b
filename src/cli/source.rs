//! Where commands get answers about finished evaluations: a running sidecar, or the curves of a stopped one.

use std::path::PathBuf;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use clap::Args;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;

use crate::fault::Fault;
use crate::history::{FILE_NAME, History, Limits};
use crate::question::Refused;
use crate::server::peers::{Dialer, Protocol, Remote};

use super::contact::Contact;
use super::failure::Failure;

/// Timeout for an answer; any real one is faster.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes at which an answer is cut off; any real one is far smaller.
const LARGEST: usize = 256 << 20;

#[derive(Args)]
pub struct Source {
    /// The sidecar's HTTP port: HOST:PORT, https://HOST:PORT or unix:///path
    #[arg(long, default_value = "127.0.0.1:7801", value_name = "ADDRESS", conflicts_with = "data_dir")]
    address: Remote,
    #[command(flatten)]
    contact: Contact,
    /// Read the curves of a stopped sidecar from this directory instead.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl Source {
    /// The answer of the API's `path` to these parameters, or with a data directory the answer of `local` from its
    /// curves.
    pub fn answer<T: DeserializeOwned>(
        &self,
        path: &str,
        parameters: &[(&str, String)],
        local: impl FnOnce(&History) -> Result<T, Refused>,
    ) -> Result<T, Failure> {
        let Some(directory) = &self.data_dir else { return self.ask(path, parameters) };
        if !directory.join(FILE_NAME).is_file() {
            return Err(Fault::new("data_dir", format!("{} has no {FILE_NAME}", directory.display())).into());
        }
        let history = History::open(Some(directory), Limits { bytes: u64::MAX }).map_err(Refused::from)?;
        Ok(local(&history)?)
    }

    fn ask<T: DeserializeOwned>(&self, path: &str, parameters: &[(&str, String)]) -> Result<T, Failure> {
        let token = self.contact.token()?;
        let dialer = self.contact.dialer(&self.address, Protocol::Http1)?;
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::running)?;
        let target = format!("{path}?{query}");
        let asked = get(&dialer, &target, token.as_deref());
        let answered = runtime.block_on(async { tokio::time::timeout(PATIENCE, asked).await });
        let (status, body) = answered
            .map_err(|_| Failure::running(format!("{} did not answer within {PATIENCE:?}", self.address)))?
            .map_err(|why| Failure::running(format!("{} cannot be reached: {why}", self.address)))?;
        if status.is_success() {
            let unreadable =
                |error| Failure::running(format!("the answer of {} cannot be read: {error}", self.address));
            return serde_json::from_slice(&body).map_err(unreadable);
        }
        let said: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let message = match (said["error"]["field"].as_str(), said["error"]["message"].as_str()) {
            (Some(field), Some(message)) => format!("{field}: {message}"),
            _ => format!("{} answered {status}", self.address),
        };
        let wrong = matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND);
        Err(if wrong { Failure::bad_input(message) } else { Failure::running(message) })
    }
}

async fn get(
    dialer: &Dialer,
    target: &str,
    token: Option<&str>,
) -> Result<(StatusCode, axum::body::Bytes), Box<dyn std::error::Error>> {
    let stream = dialer.connect().await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut request = Request::get(target).header(HOST, dialer.remote().authority());
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Body::empty())?;
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
