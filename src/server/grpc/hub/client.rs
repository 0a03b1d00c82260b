//! The calls that a sidecar makes to a hub.

use std::time::Duration;

use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::history::Numbered;
use crate::server::grpc::client::{Authorization, ClientError, channel};
use crate::server::peers::Dialer;

use super::convert;
use super::proto::hub_client::HubClient;
use super::proto::{PushRequest, Refused};

/// Why a call has no answer, and why in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    pub failure: Failure,
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection, a broken one, an overloaded hub, or none that answers in time; with the pause that it asked for.
    Unreachable { pause: Option<Duration> },
    /// The hub refuses this sidecar: its token, or it is no hub.
    Refused,
    /// The hub can never take this request, for example because it is too large.
    Unfit,
}

impl Unanswered {
    pub fn late(limit: Duration) -> Self {
        let why = format!("no answer within {} s", limit.as_secs());
        Self { failure: Failure::Unreachable { pause: None }, why }
    }
}

impl From<Status> for Unanswered {
    fn from(status: Status) -> Self {
        let pause = status.get_details_retry_info().and_then(|info| info.retry_delay);
        let (failure, why) = match status.code() {
            Code::Unauthenticated | Code::PermissionDenied | Code::FailedPrecondition | Code::NotFound => {
                (Failure::Refused, status.message().to_owned())
            }
            Code::Unimplemented => {
                (Failure::Refused, "what answers there is no hub: expected `serve --store`".to_owned())
            }
            Code::InvalidArgument | Code::OutOfRange => (Failure::Unfit, status.message().to_owned()),
            _ => (Failure::Unreachable { pause }, status.message().to_owned()),
        };
        Self { failure, why }
    }
}

/// A connection to a hub.
pub struct HubCalls {
    calls: HubClient<InterceptedService<Channel, Authorization>>,
}

impl HubCalls {
    /// `token` is the hub's token, if it requires one.
    pub async fn connect(dialer: &Dialer, token: Option<&str>) -> Result<Self, Unanswered> {
        let unanswered = |failure, error: ClientError| Unanswered { failure, why: error.to_string() };
        let authorization = Authorization::new(token).map_err(|error| unanswered(Failure::Refused, error))?;
        let lost = |error| unanswered(Failure::Unreachable { pause: None }, error);
        Ok(Self { calls: HubClient::with_interceptor(channel(dialer).await.map_err(lost)?, authorization) })
    }

    /// Sends changes of the history called `source`. Returns the number up to which all are applied or refused for ever, and
    /// the latter.
    pub async fn push(&mut self, source: &str, entries: &[Numbered]) -> Result<(u64, Vec<Refused>), Unanswered> {
        let entries = entries.iter().map(|entry| convert::entry(entry.number, &entry.change)).collect();
        let request = PushRequest { source: source.to_owned(), entries };
        let answer = self.calls.push(request).await?.into_inner();
        Ok((answer.applied, answer.refused))
    }
}
