//! The calls that a sidecar makes to a hub.

use std::time::Duration;

use bytes::Bytes;

use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::fault::Fault;
use crate::history::{Ending, Numbered};
use crate::point::Point;
use crate::sample::Attempt;
use crate::server::grpc::client::{Authorization, ClientError, channel};
use crate::server::grpc::proto::{GetAdviceResponse, StartRunRequest};
use crate::server::peers::Dialer;

use super::convert;
use super::proto::hub_client::HubClient;
use super::proto::part_chunk::Part as Piece;
use super::proto::{
    self, DeclareRequest, GetAdviceRequest, PartChunk, PartHead, PassesRequest, PushRequest, pass_state,
    send_part_response,
};

/// Bytes of a part in one message.
const PIECE: usize = 1 << 20;
/// Bytes of an answer, which holds the points of passes.
const ANSWER: usize = 256 << 20;

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

/// An entry that can never be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub number: u64,
    pub field: String,
    pub message: String,
}

/// A run over several hosts, as the hub calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub run: String,
    pub attempt: Attempt,
}

/// A pass of such a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PassName {
    pub split: String,
    pub step: u64,
}

/// Identifies a part: its pass, the number of ranks of the attempt, and the ranks in the part.
#[derive(Clone, Debug)]
pub struct PartOf {
    pub pass: PassName,
    pub world_size: u32,
    pub ended: Vec<u32>,
    pub cutoff: Option<u64>,
}

/// What became of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// A newer attempt has sent to the split.
    pub is_stale: bool,
    /// Where the split's next parts can be cut.
    pub cutoff: Option<u64>,
}

/// Where a pass stands.
#[derive(Clone, Debug)]
pub enum State {
    Open,
    NeedsWhole,
    /// No score joins a final point any more. `lacks` says what an incomplete point lacks. The next parts of the split can
    /// be cut at `cutoff`.
    Settled {
        point: Box<Point>,
        is_final: bool,
        lacks: Option<String>,
        cutoff: Option<u64>,
    },
    Unscored {
        ending: Ending,
        reason: String,
    },
}

/// A connection to a hub. Clones share it.
#[derive(Clone)]
pub struct HubCalls {
    calls: HubClient<Channel>,
    authorization: Authorization,
}

impl HubCalls {
    /// `token` is the hub's token, if it requires one.
    pub async fn connect(dialer: &Dialer, token: Option<&str>) -> Result<Self, Unanswered> {
        let unanswered = |failure, error: ClientError| Unanswered { failure, why: error.to_string() };
        let authorization = Authorization::new(token).map_err(|error| unanswered(Failure::Refused, error))?;
        let lost = |error| unanswered(Failure::Unreachable { pause: None }, error);
        Ok(Self {
            calls: HubClient::new(channel(dialer).await.map_err(lost)?).max_decoding_message_size(ANSWER),
            authorization,
        })
    }

    /// Sends changes of the history called `source`. Returns the number up to which all are applied or refused for ever, and
    /// the latter.
    pub async fn push(&mut self, source: &str, entries: &[Numbered]) -> Result<(u64, Vec<Refused>), Unanswered> {
        let entries = entries.iter().map(|entry| convert::entry(entry.number, &entry.change)).collect();
        let request = self.authorization.request(PushRequest { source: source.to_owned(), entries });
        let answer = self.calls.push(request).await?.into_inner();
        let refused = answer.refused.into_iter();
        let refused = refused.map(|one| Refused { number: one.number, field: one.field, message: one.message });
        Ok((answer.applied, refused.collect()))
    }

    /// Declares a run over several hosts; `start` is a rank's declaration here, under the name that its job asked for.
    pub async fn declare(&mut self, source: &str, start: &StartRunRequest, time: f64) -> Result<Place, Unanswered> {
        let request = DeclareRequest { source: source.to_owned(), start: Some(start.clone()), time };
        let answer = self.calls.declare(self.authorization.request(request)).await?.into_inner();
        let attempt = convert::attempt_of("attempt", answer.attempt).map_err(unfit)?;
        Ok(Place { run: answer.run, attempt })
    }

    /// Sends a part of a pass.
    pub async fn send_part(
        &mut self,
        source: &str,
        place: &Place,
        of: &PartOf,
        body: Bytes,
    ) -> Result<Taken, Unanswered> {
        let head = PartHead {
            source: source.to_owned(),
            run: place.run.clone(),
            split: of.pass.split.clone(),
            attempt: Some(convert::attempt(place.attempt)),
            step: of.pass.step,
            world_size: of.world_size,
            ended: of.ended.clone(),
            bytes: body.len() as u64,
            cutoff: of.cutoff,
        };
        let pieces = (0..body.len()).step_by(PIECE).map(move |at| body.slice(at..body.len().min(at + PIECE)));
        let chunks = std::iter::once(Piece::Head(head)).chain(pieces.map(Piece::Data));
        let chunks = chunks.map(|part| PartChunk { part: Some(part) });
        let chunks: Vec<PartChunk> = chunks.collect();
        let request = self.authorization.request(futures::stream::iter(chunks));
        let answer = self.calls.send_part(request).await?.into_inner();
        Ok(Taken { is_stale: answer.state() == send_part_response::State::StaleAttempt, cutoff: answer.cutoff })
    }

    /// Where passes stand. Waits up to `wait` until one is no longer open.
    pub async fn passes(
        &mut self,
        source: &str,
        place: &Place,
        passes: &[PassName],
        wait: Duration,
    ) -> Result<Vec<State>, Unanswered> {
        let attempt = Some(convert::attempt(place.attempt));
        let pass = |pass: &PassName| proto::Pass { split: pass.split.clone(), attempt, step: pass.step };
        let request = PassesRequest {
            source: source.to_owned(),
            run: place.run.clone(),
            passes: passes.iter().map(pass).collect(),
            timeout_seconds: wait.as_secs_f64(),
        };
        let answer = self.calls.passes(self.authorization.request(request)).await?.into_inner();
        if answer.passes.len() != passes.len() {
            let message = format!("got {} passes, expected {}", answer.passes.len(), passes.len());
            return Err(unfit(Fault::new("passes", message)));
        }
        answer.passes.into_iter().map(|state| state_of(state).map_err(unfit)).collect()
    }

    /// Whether training should stop: the answer kept for the attempt and the step, and what the client missed.
    pub async fn advice(
        &mut self,
        source: &str,
        place: &Place,
        step: u64,
        unanswered_steps: Vec<u64>,
        splits: Vec<String>,
        wait: Duration,
    ) -> Result<GetAdviceResponse, Unanswered> {
        let request = GetAdviceRequest {
            source: source.to_owned(),
            run: place.run.clone(),
            attempt: Some(convert::attempt(place.attempt)),
            step,
            timeout_seconds: wait.as_secs_f64(),
            splits,
            unanswered_steps,
        };
        Ok(self.calls.get_advice(self.authorization.request(request)).await?.into_inner())
    }
}

fn unfit(fault: Fault) -> Unanswered {
    Unanswered { failure: Failure::Unfit, why: format!("the hub's answer: {fault}") }
}

fn state_of(state: proto::PassState) -> Result<State, Fault> {
    use pass_state::Outcome;
    let outcome = state.outcome();
    Ok(match outcome {
        Outcome::Open => State::Open,
        Outcome::NeedsWhole => State::NeedsWhole,
        Outcome::Unscored => State::Unscored {
            // A pass that the hub's database has lost is over here, too.
            ending: match state.ending() {
                proto::unscored::Ending::Discarded => Ending::Discarded,
                _ => Ending::Failed,
            },
            reason: state.reason,
        },
        Outcome::Settled | Outcome::Incomplete => {
            let point = state.point.ok_or_else(|| Fault::new("passes.point", "is missing"))?;
            let lacks = (outcome == Outcome::Incomplete).then_some(state.reason);
            let point = Box::new(convert::point_of(point)?.0);
            State::Settled { point, is_final: state.r#final, lacks, cutoff: state.cutoff }
        }
        Outcome::Unspecified => return Err(Fault::new("passes.outcome", "got none, expected 1 to 5")),
    })
}
