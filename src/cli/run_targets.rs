//! All places where runs are, for commands that list runs or change one. Each answers requests of the API: a running sidecar
//! at its port, or the curves of a stopped one in this process.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use serde_json::Value;

use crate::history::{FILE_NAME, Store};
use crate::server::http::StoredApi;
use crate::server::peers::Remote;
use leakage::field_error::{FieldError, in_short};

use super::data_dirs::{Place, place_of, places};
use super::failure::Failure;
use super::http_request::Answering;
use super::options::usual_page;
use super::source::Source;

/// A place with runs.
pub enum Holder<'a> {
    Sidecar(&'a Source, Remote),
    /// A directory or a database by its name.
    Stored(String, StoredApi),
}

/// An answer of the API.
pub struct Answer {
    pub status: StatusCode,
    pub body: Value,
}

impl Source {
    /// Calls `take` with each place in turn: the one that is stated, or else the sidecar at the default port and all
    /// directories below the user's data directory, each through the sidecar that uses it. Returns why places could not be
    /// read; one that is stated is an error.
    pub fn each_holder(
        &self,
        mut take: impl FnMut(&Holder<'_>) -> Result<(), Failure>,
    ) -> Result<Vec<String>, Failure> {
        if let Some(directory) = self.data_dir() {
            if !directory.join(FILE_NAME).is_file() {
                return Err(FieldError::new("data_dir", format!("{} has no {FILE_NAME}", directory.display())).into());
            }
            take(&self.holder_of(&place_of(directory.to_owned()))?)?;
            return Ok(Vec::new());
        }
        if let Some(address) = self.address() {
            take(&Holder::Sidecar(self, address.clone()))?;
            return Ok(Vec::new());
        }
        let mut unread = Vec::new();
        let usual = usual_page();
        let places = places();
        let stated = places.iter().any(|place| place.stated.as_ref().is_some_and(|[_, http]| *http == usual));
        let usual = (!stated).then(|| self.usual_holder(usual)).into_iter().flatten();
        let holders = usual.chain(places.iter().map(|place| self.holder_of(place)));
        for holder in holders {
            match holder.and_then(|holder| take(&holder).map_err(|failure| failure.at(&holder))) {
                Err(failure) if failure.is_of_place() => unread.push(failure.message),
                taken => taken?,
            }
        }
        Ok(unread)
    }

    /// Returns the sidecar at the default port, if there is one. Nobody has stated it, so what cannot be asked there
    /// belongs to someone else, and is a failure of this place alone.
    fn usual_holder(&self, usual: Remote) -> Option<Result<Holder<'_>, Failure>> {
        match self.who_answers(&usual) {
            Ok(Answering::Sidecar(_) | Answering::Refusing(_)) => Some(Ok(Holder::Sidecar(self, usual))),
            Ok(Answering::Nobody) => None,
            Ok(Answering::Stranger(_)) => {
                Some(Err(Failure::running(format!("{usual} answers, and is no sidecar of conceptwatch"))))
            }
            Err(failure) => Some(Err(Failure::running(failure.message))),
        }
    }

    fn holder_of(&self, place: &Place) -> Result<Holder<'_>, Failure> {
        // A sidecar that was killed leaves its address, which another program may have by now.
        if let Some([_, http]) = &place.stated
            && matches!(self.who_answers(http)?, Answering::Sidecar(_) | Answering::Refusing(_))
        {
            return Ok(Holder::Sidecar(self, http.clone()));
        }
        Holder::of_store(place.directory.display().to_string(), place.open()?)
    }

    /// Returns the result of `take` for the one place that has a run. Errors when none has it, or several have one of
    /// that name.
    pub fn with_run<T>(
        &self,
        run: &str,
        mut take: impl FnMut(&Holder<'_>, &Value) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut found = Vec::new();
        let unread = self.each_holder(|holder| {
            let answer = holder.ask("/api/v1/run", &[("run", run.to_owned())])?;
            if answer.status == StatusCode::OK {
                found.push(holder.name());
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
        let (name, mut taken) = (name.clone(), None);
        self.each_holder(|holder| {
            if holder.name() == name && taken.is_none() {
                let answer = holder.ask("/api/v1/run", &[("run", run.to_owned())])?.expect_ok()?;
                taken = Some(take(holder, &answer)?);
            }
            Ok(())
        })?;
        taken.ok_or_else(|| Failure::running(format!("{name} has gone")))
    }
}

impl Holder<'_> {
    /// A store that this process has opened.
    pub fn of_store(name: String, store: Arc<dyn Store>) -> Result<Self, Failure> {
        Ok(Self::Stored(name, StoredApi::new(store).map_err(Failure::running)?))
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
        let target = format!("{path}?{query}");
        let body = body.map(Value::to_string);
        let (status, bytes) = match self {
            Self::Sidecar(source, address) => {
                let (status, bytes) = source.exchange(address, method, &target, body)?;
                (status, bytes.to_vec())
            }
            Self::Stored(_, api) => {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::running)?;
                runtime.block_on(api.answer(method, &target, body)).map_err(Failure::running)?
            }
        };
        let body = match bytes.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&bytes)
                .map_err(|error| Failure::running(format!("the answer of {} cannot be read: {error}", self.name())))?,
        };
        Ok(Answer { status, body })
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
            _ => format!("got status {}", self.status),
        };
        // A token that is missing is not the request's fault: it is right for another place.
        let refused = matches!(self.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if self.status.is_client_error() && !refused { Failure::bad_input(message) } else { Failure::running(message) }
    }
}

impl Failure {
    /// Names the sidecar that the failure is of; stored curves name themselves.
    fn at(self, holder: &Holder<'_>) -> Self {
        let named = matches!(holder, Holder::Stored(..)) || self.message.contains(&holder.name());
        if named { self } else { Self { message: format!("{}: {}", holder.name(), self.message), ..self } }
    }
}
