//! The calls of sidecars to a hub.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::convert;
use super::proto::{self, hub_server::Hub};
use crate::server::grpc::project::Project;
use crate::server::grpc::status::{blocking, refused};
use crate::server::hub::intake::{Intake, Numbered, Pushed, Sender};
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
        let answer = self.pushed(request).await;
        if let Err(status) = &answer {
            let code = format!("{:?}", status.code());
            self.intake.metrics.calls_refused.with_label_values(&["Push", code.as_str()]).inc();
        }
        answer
    }
}

impl HubService {
    async fn pushed(&self, request: Request<proto::PushRequest>) -> Result<Response<proto::PushResponse>, Status> {
        let project = request.extensions().get::<Project>().cloned().unwrap_or_default();
        let proto::PushRequest { source, entries } = request.into_inner();
        check_source(&source).map_err(refused)?;
        let (sender, entries) = (Sender { source, project: project.0 }, numbered(entries).map_err(refused)?);
        let intake = Arc::clone(&self.intake);
        let push = move || intake.push(&sender, entries);
        let Pushed { applied, refused } = blocking(push, "the call failed").await?;
        let refused = refused.into_iter().map(|(number, fault)| proto::Refused {
            number,
            field: fault.field,
            message: fault.message,
        });
        Ok(Response::new(proto::PushResponse { applied, refused: refused.collect() }))
    }
}

fn check_source(source: &str) -> Result<(), FieldError> {
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let fits = |(at, byte): (usize, u8)| if [8, 13, 18, 23].contains(&at) { byte == b'-' } else { hex(byte) };
    if source.len() != 36 || !source.bytes().enumerate().all(fits) {
        let message = format!("got '{}', expected a UUID in lower case with hyphens", in_short(source));
        return Err(FieldError::new("source", message));
    }
    Ok(())
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
