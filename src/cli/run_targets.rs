//! All places where runs are. Each answers requests of the API: a running sidecar at its port, or the curves of a stopped one
//! in this process.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::history::Store;
use crate::server::http::StoredApi;
use crate::server::peers::Remote;
use leakage::field_error::in_short;

use super::data_dirs::{DataDir, check_curves, data_dirs, nowhere};
use super::failure::Failure;
use super::http_request::{Answering, exchange, waiting, who_answers};
use super::options::usual_page;
use super::source::Source;

/// Timeout for an answer; any real one is faster.
const PATIENCE: Duration = Duration::from_secs(60);

/// A place with runs.
pub enum Target<'a> {
    Sidecar(&'a Source, Remote),
    /// A directory or a database by its name.
    Stored(String, StoredApi),
}

/// An answer of the API.
pub struct Answer {
    pub status: StatusCode,
    pub body: Value,
    /// Where it is from.
    target: String,
}

impl Source {
    /// Calls `take` with each place in turn until it returns something: the one that is stated, or else the sidecar at the
    /// default port and all directories below the user's data directory, each through the sidecar that uses it. Returns
    /// that, and why places could not be read; one that is stated is an error.
    fn find<T>(
        &self,
        mut take: impl FnMut(&Target<'_>) -> Result<Option<T>, Failure>,
    ) -> Result<(Option<T>, Vec<String>), Failure> {
        if let Some(directory) = &self.data_dir {
            check_curves("data_dir", directory)?;
            return Ok((take(&self.target_of(&DataDir::at(directory.clone()))?)?, Vec::new()));
        }
        if let Some(address) = &self.address {
            return Ok((take(&Target::Sidecar(self, address.clone()))?, Vec::new()));
        }
        let mut unread = Vec::new();
        let usual = usual_page();
        let directories = data_dirs();
        let stated = directories.iter().any(|one| one.stated.as_ref().is_some_and(|[_, http]| *http == usual));
        let usual = (!stated).then(|| self.usual_target(usual)).into_iter().flatten();
        for target in usual.chain(directories.iter().map(|one| self.target_of(one))) {
            match target.and_then(|target| take(&target).map_err(|failure| failure.at(&target))) {
                Err(failure) if failure.is_of_place() => unread.push(failure.message),
                Err(failure) => return Err(failure),
                Ok(None) => {}
                Ok(found) => return Ok((found, unread)),
            }
        }
        Ok((None, unread))
    }

    /// Calls `take` with every place, as [`find`](Self::find). Returns why places could not be read.
    pub fn each_target(
        &self,
        mut take: impl FnMut(&Target<'_>) -> Result<(), Failure>,
    ) -> Result<Vec<String>, Failure> {
        let (_, unread) = self.find(|target| take(target).map(|()| None::<()>))?;
        Ok(unread)
    }

    /// The answer of the API's `path` to these parameters, of the first place that has one.
    pub fn answer<T: DeserializeOwned>(&self, path: &str, parameters: &[(&str, String)]) -> Result<T, Failure> {
        let mut refused = None;
        let (found, unread) = self.find(|target| match target.ask(path, parameters)?.expect_ok() {
            Ok(body) => Ok(Some(serde_json::from_value(body).map_err(|error| target.unreadable(&error))?)),
            Err(failure) if failure.is_of_place() => Err(failure),
            Err(failure) => {
                refused.get_or_insert(failure);
                Ok(None)
            }
        })?;
        // The first that would have had an answer says best why there is none.
        found.ok_or_else(|| match (refused, unread.into_iter().next()) {
            (Some(refused), _) => refused,
            (None, Some(why)) => Failure::running(why),
            (None, None) => Failure::running(format!("{} cannot be reached, and {}", usual_page(), nowhere())),
        })
    }

    /// Returns the sidecar at the default port, if there is one. Nobody has stated it, so what cannot be asked there
    /// belongs to someone else, and is a failure of this place alone.
    fn usual_target(&self, usual: Remote) -> Option<Result<Target<'_>, Failure>> {
        match who_answers(&self.contact, &usual, PATIENCE) {
            Ok(Answering::Sidecar(_) | Answering::Refusing(_)) => Some(Ok(Target::Sidecar(self, usual))),
            Ok(Answering::Nobody) => None,
            Ok(Answering::Stranger(_)) => {
                Some(Err(Failure::running(format!("{usual} answers, and is no sidecar of conceptwatch"))))
            }
            Err(failure) => Some(Err(Failure::running(failure.message))),
        }
    }

    fn target_of(&self, data_dir: &DataDir) -> Result<Target<'_>, Failure> {
        // A sidecar that was killed leaves its address, which another program may have by now.
        if let Some([_, http]) = &data_dir.stated
            && matches!(who_answers(&self.contact, http, PATIENCE)?, Answering::Sidecar(_) | Answering::Refusing(_))
        {
            return Ok(Target::Sidecar(self, http.clone()));
        }
        Target::of_store(data_dir.directory.display().to_string(), data_dir.open()?)
    }

    /// Returns the result of `take` for the one place that has a run. Errors when none has it, or several have one of
    /// that name.
    pub fn with_run<T>(
        &self,
        run: &str,
        mut take: impl FnMut(&Target<'_>, &Value) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut found = Vec::new();
        let unread = self.each_target(|target| {
            let answer = target.ask("/api/v1/run", &[("run", run.to_owned())])?;
            if answer.status == StatusCode::OK {
                found.push(target.name());
            } else if answer.status != StatusCode::NOT_FOUND {
                return Err(answer.into_failure());
            }
            Ok(())
        })?;
        let [name] = &found[..] else {
            let short = in_short(run);
            return Err(match (found.is_empty(), unread.into_iter().next()) {
                (true, Some(why)) => Failure::running(format!("run: '{short}' was not found, and {why}")),
                (true, None) => Failure::bad_input(format!("run: '{short}' is unknown: `conceptwatch ls` lists runs")),
                (false, _) => Failure::bad_input(format!(
                    "run: '{short}' is in {}, expected --data-dir or --address to say which",
                    found.join(" and in ")
                )),
            });
        };
        // Only one place is open at a time, so that a command holds no history longer than it must.
        let (taken, _) = self.find(|target| {
            if target.name() != *name {
                return Ok(None);
            }
            let answer = target.ask("/api/v1/run", &[("run", run.to_owned())])?.expect_ok()?;
            take(target, &answer).map(Some)
        })?;
        taken.ok_or_else(|| Failure::running(format!("{name} has gone")))
    }
}

impl Target<'_> {
    /// A store that this process has opened.
    pub fn of_store(name: String, store: Arc<dyn Store>) -> Result<Self, Failure> {
        Ok(Self::Stored(name, StoredApi::new(store, None)?))
    }

    /// The directory or the address.
    pub fn name(&self) -> String {
        match self {
            Self::Sidecar(_, address) => address.to_string(),
            Self::Stored(name, _) => name.clone(),
        }
    }

    pub fn ask(&self, path: &str, parameters: &[(&str, String)]) -> Result<Answer, Failure> {
        self.request(Method::GET, path, parameters, None)
    }

    pub fn request(
        &self,
        method: Method,
        path: &str,
        parameters: &[(&str, String)],
        body: Option<&Value>,
    ) -> Result<Answer, Failure> {
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        let request = format!("{path}?{query}");
        let body = body.map(Value::to_string);
        let (status, bytes) = match self {
            Self::Sidecar(source, address) => {
                let (status, bytes) = exchange(&source.contact, address, method, &request, body, PATIENCE)?;
                (status, bytes.to_vec())
            }
            Self::Stored(_, api) => waiting(api.answer(method, &request, body))??,
        };
        let body = match serde_json::from_slice(&bytes) {
            Ok(body) => body,
            // Another program answers in a form of its own.
            Err(_) if bytes.is_empty() || !status.is_success() => Value::Null,
            Err(error) => return Err(self.unreadable(&error)),
        };
        Ok(Answer { status, body, target: self.name() })
    }

    fn unreadable(&self, error: &serde_json::Error) -> Failure {
        Failure::running(format!("the answer of {} cannot be read: {error}", self.name()))
    }
}

impl Answer {
    /// The body of an answer that is no error.
    pub fn expect_ok(self) -> Result<Value, Failure> {
        if self.status.is_success() { Ok(self.body) } else { Err(self.into_failure()) }
    }

    pub fn into_failure(self) -> Failure {
        let error = &self.body["error"];
        let message = match (error["field"].as_str(), error["message"].as_str()) {
            (Some(field), Some(message)) => format!("{field}: {message}"),
            _ => format!("{} answered {}", self.target, self.status),
        };
        // A token that is missing is not the request's fault: it is right for another place.
        let refused = matches!(self.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if self.status.is_client_error() && !refused { Failure::bad_input(message) } else { Failure::running(message) }
    }
}

impl Failure {
    /// Names the sidecar that the failure is of; stored curves name themselves.
    fn at(self, target: &Target<'_>) -> Self {
        let named = matches!(target, Target::Stored(..)) || self.message.contains(&target.name());
        if named { self } else { Self { message: format!("{}: {}", target.name(), self.message), ..self } }
    }
}
