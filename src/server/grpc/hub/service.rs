//! The calls of sidecars to a hub.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::convert;
use super::proto::{self, hub_server::Hub};
use crate::server::grpc::project::Project;
use crate::server::grpc::status::{blocking, refused};
use crate::server::hub::intake::{Intake, Numbered, Pushed, Sender};
use crate::server::refusal::Refusal;
use leakage::field_error::{FieldError, in_short};

/// Entries of a push, at most.
const MOST_ENTRIES: usize = 1024;

#[derive(Clone)]
pub struct HubService {
    pub intake: Arc<Intake>,
}

#[tonic::async_trait]
impl Hub for HubService {
    async fn push(&self, request: Request<proto::PushRequest>) -> Result<Response<proto::PushResponse>, Status> {
        self.counted("Push", self.pushed(request).await)
    }
}

impl HubService {
    fn counted<T>(&self, call: &str, answer: Result<T, Status>) -> Result<T, Status> {
        if let Err(status) = &answer {
            let code = format!("{:?}", status.code());
            self.intake.metrics.calls_refused.with_label_values(&[call, code.as_str()]).inc();
        }
        answer
    }

    async fn pushed(&self, request: Request<proto::PushRequest>) -> Result<Response<proto::PushResponse>, Status> {
        let sender = sender(&request, &request.get_ref().source)?;
        let entries = numbered(request.into_inner().entries).map_err(refused)?;
        let Pushed { applied, refused, named } = self.blocking(move |intake| intake.push(&sender, entries)).await?;
        let refused = refused.into_iter().map(|(number, fault)| proto::Refused {
            number,
            field: fault.field,
            message: fault.message,
        });
        let named = named.into_iter().map(|(local_run, run)| proto::Named { local_run, run });
        Ok(Response::new(proto::PushResponse { applied, refused: refused.collect(), named: named.collect() }))
    }

    /// Makes a call that blocks, on a thread that may.
    async fn blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Intake) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Status> {
        let intake = Arc::clone(&self.intake);
        blocking(move || call(&intake), "the call failed").await
    }
}

fn sender<T>(request: &Request<T>, source: &str) -> Result<Sender, Status> {
    let project = request.extensions().get::<Project>().cloned().unwrap_or_default();
    Ok(Sender { source: checked_source("source", source)?, project: project.0 })
}

fn checked_source(field: &str, source: &str) -> Result<String, Status> {
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let fits = |(at, byte): (usize, u8)| if [8, 13, 18, 23].contains(&at) { byte == b'-' } else { hex(byte) };
    if source.len() != 36 || !source.bytes().enumerate().all(fits) {
        let message = format!("got '{}', expected a UUID in lower case with hyphens", in_short(source));
        return Err(refused(FieldError::new(field, message)));
    }
    Ok(source.to_owned())
}

/// The changes of entries. Errors unless their numbers ascend.
fn numbered(entries: Vec<proto::Entry>) -> Result<Vec<Numbered>, FieldError> {
    if entries.len() > MOST_ENTRIES {
        return Err(FieldError::new("entries", format!("got {}, expected at most {MOST_ENTRIES}", entries.len())));
    }
    let mut before = 0;
    let numbered = entries.into_iter().map(|entry| {
        let number = entry.number;
        if number <= before || i64::try_from(number).is_err() {
            let message = format!("got {number} after {before}, expected ascending numbers from 1 to {}", i64::MAX);
            return Err(FieldError::new("entries.number", message));
        }
        before = number;
        Ok((number, convert::change(entry)))
    });
    numbered.collect()
}
