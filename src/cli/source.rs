//! Where commands get answers about finished evaluations: a running sidecar, or the curves of a stopped one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::body::Bytes;
use clap::Args;
use hyper::{Method, StatusCode};
use serde::de::DeserializeOwned;

use crate::analysis_query::Refused;
use crate::history::{FILE_NAME, Sqlite, Store};
use crate::server::peers::Remote;
use leakage::field_error::FieldError;

use super::client_options::Contact;
use super::data_dirs::{nowhere, places};
use super::failure::{BAD_INPUT, Failure};
use super::http_request::{Answering, Unanswered, exchange, who_answers};
use super::options::usual_page;

/// Timeout for an answer; any real one is faster.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Args)]
pub struct Source {
    /// The sidecar's HTTP port: HOST:PORT, https://HOST:PORT or unix:///path [default:
    /// CONCEPTWATCH_HTTP_ADDRESS or 127.0.0.1:7801, then all curves that are kept below the user's data directory]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "data_dir")]
    address: Option<Remote>,
    #[command(flatten)]
    contact: Contact,
    /// Read the curves of a stopped sidecar from this directory instead.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl Source {
    /// The answer of the API's `path` to these parameters, or with a data directory the answer of `local` from its
    /// curves. Without either: the first answer of the sidecar at the default port, of those that keep curves in the user's
    /// data directory, and of the curves there.
    pub fn answer<T: DeserializeOwned>(
        &self,
        path: &str,
        parameters: &[(&str, String)],
        local: impl Fn(&dyn Store) -> Result<T, Refused>,
    ) -> Result<T, Failure> {
        let Some(directory) = &self.data_dir else {
            return match &self.address {
                Some(address) => self.ask(address, path, parameters).map_err(Unanswered::into),
                None => self.search(path, parameters, local),
            };
        };
        if !directory.join(FILE_NAME).is_file() {
            return Err(FieldError::new("data_dir", format!("{} has no {FILE_NAME}", directory.display())).into());
        }
        let history = Sqlite::open_to_read(directory).map_err(Refused::from)?;
        Ok(local(&history)?)
    }

    fn search<T: DeserializeOwned>(
        &self,
        path: &str,
        parameters: &[(&str, String)],
        local: impl Fn(&dyn Store) -> Result<T, Refused>,
    ) -> Result<T, Failure> {
        let usual = usual_page();
        let mut refused = Vec::new();
        let silence = match self.ask(&usual, path, parameters) {
            Ok(answer) => return Ok(answer),
            Err(Unanswered::Silence(message)) => message,
            Err(Unanswered::Failure(failure)) => {
                refused.push(failure);
                String::new()
            }
        };
        for place in places() {
            let asked = place.stated.as_ref().map(|[_, http]| self.ask(http, path, parameters));
            let found = match asked {
                None | Some(Err(Unanswered::Silence(_))) => place.open().and_then(|history| Ok(local(&*history)?)),
                Some(answered) => answered.map_err(Unanswered::into),
            };
            match found {
                Ok(answer) => return Ok(answer),
                Err(failure) => refused.push(failure),
            }
        }
        // The first that would have had an answer says best why there is none.
        refused.sort_by_key(|failure| failure.status != BAD_INPUT);
        Err(refused.into_iter().next().unwrap_or_else(|| Failure::running(format!("{silence}, and {}", nowhere()))))
    }

    fn ask<T: DeserializeOwned>(
        &self,
        address: &Remote,
        path: &str,
        parameters: &[(&str, String)],
    ) -> Result<T, Unanswered> {
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        let (status, body) = self.exchange(address, Method::GET, &format!("{path}?{query}"), None)?;
        if status.is_success() {
            let unreadable = |error| Failure::running(format!("the answer of {address} cannot be read: {error}"));
            return Ok(serde_json::from_slice(&body).map_err(unreadable)?);
        }
        let said: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let message = match (said["error"]["field"].as_str(), said["error"]["message"].as_str()) {
            (Some(field), Some(message)) => format!("{field}: {message}"),
            _ => format!("{address} answered {status}"),
        };
        let wrong = matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND);
        Err(if wrong { Failure::bad_input(message) } else { Failure::running(message) }.into())
    }

    pub(super) fn exchange(
        &self,
        address: &Remote,
        method: Method,
        target: &str,
        body: Option<String>,
    ) -> Result<(StatusCode, Bytes), Unanswered> {
        exchange(&self.contact, address, method, target, body, PATIENCE)
    }

    pub(super) fn who_answers(&self, address: &Remote) -> Result<Answering, Failure> {
        who_answers(&self.contact, address, PATIENCE)
    }

    pub(super) fn address(&self) -> Option<&Remote> {
        self.address.as_ref()
    }

    pub(super) fn data_dir(&self) -> Option<&Path> {
        self.data_dir.as_deref()
    }
}
