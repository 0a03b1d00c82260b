//! The calls of sidecars to a hub.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::{Request, Response, Status, Streaming};

use super::convert;
use super::proto::{self, hub_server::Hub};
use crate::fault::{Fault, in_short};
use crate::history::{Identity, PassKey, PassState, PutPart};
use crate::name::{check_name, check_optional_name};
use crate::server::clock::unix_time;
use crate::server::grpc::budget::Account;
use crate::server::grpc::convert::{self as fields, MOST_RESTARTS};
use crate::server::grpc::project::Project;
use crate::server::grpc::proto as v1;
use crate::server::grpc::service::advised;
use crate::server::grpc::status::{blocking, refused};
use crate::server::hub::intake::{Intake, Numbered, Pushed, Question, Sender, SentPart};
use crate::server::refusal::Refusal;
use crate::step::{Rank, Step};

/// Entries of a push, at most.
const MOST_ENTRIES: usize = 1024;
/// Interval at which a waiting call looks at what this hub has learnt.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Interval at which it asks the database.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// Bytes of a part, at most.
const MOST_PART: u64 = 256 << 20;
/// Time from the first message of a part to its last.
const PART_DEADLINE: Duration = Duration::from_secs(120);

#[derive(Clone)]
pub struct HubService {
    pub intake: Arc<Intake>,
}

#[tonic::async_trait]
impl Hub for HubService {
    async fn push(&self, request: Request<proto::PushRequest>) -> Result<Response<proto::PushResponse>, Status> {
        self.counted("Push", self.pushed(request).await)
    }

    async fn declare(
        &self,
        request: Request<proto::DeclareRequest>,
    ) -> Result<Response<proto::DeclareResponse>, Status> {
        self.counted("Declare", self.declared(request).await)
    }

    /// Never called: parts are read in front of this service, see [`take_part`](HubService::take_part).
    async fn send_part(
        &self,
        _: Request<Streaming<proto::PartChunk>>,
    ) -> Result<Response<proto::SendPartResponse>, Status> {
        Err(Status::unimplemented("parts of passes are read elsewhere"))
    }

    async fn passes(&self, request: Request<proto::PassesRequest>) -> Result<Response<proto::PassesResponse>, Status> {
        self.counted("Passes", self.passed(request).await.map(Response::new))
    }

    async fn get_advice(
        &self,
        request: Request<proto::GetAdviceRequest>,
    ) -> Result<Response<v1::GetAdviceResponse>, Status> {
        self.counted("GetAdvice", self.advised(request).await)
    }
}

impl HubService {
    /// Takes a part whose messages are read in front of tonic, with what it holds on the account of its connection.
    pub async fn take_part(
        &self,
        project: Project,
        account: Account,
        chunks: BoxStream<'_, Result<proto::PartChunk, Status>>,
    ) -> Result<proto::SendPartResponse, Status> {
        let taken = match timeout(PART_DEADLINE, self.part_taken(project, account, chunks)).await {
            Ok(taken) => taken,
            Err(_) => Err(Status::deadline_exceeded(format!(
                "got a part in pieces, expected all of it within {} s",
                PART_DEADLINE.as_secs()
            ))),
        };
        self.counted("SendPart", taken)
    }

    async fn part_taken(
        &self,
        project: Project,
        account: Account,
        mut chunks: BoxStream<'_, Result<proto::PartChunk, Status>>,
    ) -> Result<proto::SendPartResponse, Status> {
        use proto::part_chunk::Part::{Data, Head};
        let over_budget = || {
            let limit = account.limit();
            Status::from(Refusal::OverBudget { what: "ingest memory", limit })
        };
        let missing = || refused(Fault::new("head", "is missing, expected it as the first message"));
        let Some(Head(head)) = chunks.next().await.transpose()?.and_then(|chunk| chunk.part) else {
            return Err(missing());
        };
        let most = MOST_PART.min(account.limit() as u64 / 4);
        if head.bytes == 0 || head.bytes > most {
            let message = format!("got {}, expected 1 to {most} (see --ingest-mib)", head.bytes);
            return Err(refused(Fault::new("head.bytes", message)));
        }
        let source = checked_source("head.source", &head.source)?;
        let sent = sent_part(&head).map_err(refused)?;
        let run = sent.pass.run.clone();
        self.blocking(move |intake| intake.check_project(&project.0, &run)).await?;
        let bytes = head.bytes as usize;
        let mut room = account.reserve(0).ok_or_else(over_budget)?;
        let mut body: Vec<u8> = Vec::new();
        while let Some(chunk) = chunks.next().await {
            let Some(Data(data)) = chunk?.part else {
                return Err(refused(Fault::new("head", "got it twice, expected the bytes of the part")));
            };
            if body.len() + data.len() > bytes {
                let message = format!("got more than {bytes} bytes, expected as many as the head says");
                return Err(refused(Fault::new("data", message)));
            }
            if body.len() + data.len() > body.capacity() {
                let capacity = (2 * (body.len() + data.len())).min(bytes);
                if !room.resize(capacity) {
                    return Err(over_budget());
                }
                body.reserve_exact(capacity - body.len());
            }
            body.extend_from_slice(&data);
        }
        if body.len() < bytes {
            let message = format!("got {} bytes, expected {bytes} as the head says", body.len());
            return Err(refused(Fault::new("data", message)));
        }
        let (state, cutoff) = self
            .blocking(move |intake| {
                // Held until it is stored.
                let _room = room;
                intake.put_part(&source, &sent, &body)
            })
            .await?;
        let state = match state {
            PutPart::Open => proto::send_part_response::State::Open,
            PutPart::Closed => proto::send_part_response::State::Closed,
            PutPart::StaleAttempt => proto::send_part_response::State::StaleAttempt,
        };
        Ok(proto::SendPartResponse { state: state.into(), cutoff })
    }

    async fn passed(&self, request: Request<proto::PassesRequest>) -> Result<proto::PassesResponse, Status> {
        let sender = sender(&request, &request.get_ref().source)?;
        let request = request.into_inner();
        check_name("run", &request.run).map_err(refused)?;
        let until = Instant::now() + fields::timeout("timeout_seconds", request.timeout_seconds).map_err(refused)?;
        let count = request.passes.len();
        if count == 0 || count > MOST_ENTRIES {
            return Err(refused(Fault::new("passes", format!("got {count}, expected 1 to {MOST_ENTRIES}"))));
        }
        let key = |pass: &proto::Pass| {
            check_name("passes.split", &pass.split)?;
            Ok(PassKey {
                run: request.run.clone(),
                split: pass.split.clone(),
                attempt: convert::attempt_of("passes.attempt", pass.attempt)?,
                step: Step::new(pass.step).map_err(|fault| Fault::new("passes.step", fault.message))?.get(),
            })
        };
        let keys: Result<Vec<PassKey>, Fault> = request.passes.iter().map(key).collect();
        let keys: Arc<[PassKey]> = keys.map_err(refused)?.into();
        let (run, project) = (request.run.clone(), Arc::clone(&sender.project));
        self.blocking(move |intake| intake.check_project(&project, &run)).await?;
        let states = loop {
            let (asked, source) = (Arc::clone(&keys), sender.source.clone());
            let states = self.blocking(move |intake| intake.pass_states(&source, &asked)).await?;
            let decided = states.iter().any(|(state, ..)| *state != PassState::Open);
            if decided || Instant::now() >= until {
                break states;
            }
            // The database is asked again where this hub has learnt of an end, and else less often.
            let again = until.min(Instant::now() + ASK_AGAIN);
            while Instant::now() < again && !keys.iter().any(|pass| self.intake.is_settled(pass)) {
                sleep_until(again.min(Instant::now() + LOOK_AGAIN)).await;
            }
        };
        let passes = request.passes.into_iter().zip(states).map(|(pass, (state, point, cutoff))| {
            use proto::pass_state::Outcome;
            let is_final = matches!(state, PassState::Settled { is_final: true, .. });
            let ending = match &state {
                PassState::Unscored { ending, .. } => convert::ending(*ending).into(),
                _ => 0,
            };
            let (outcome, reason) = match state {
                PassState::Open => (Outcome::Open, String::new()),
                PassState::NeedsWhole => (Outcome::NeedsWhole, String::new()),
                PassState::Settled { incomplete: false, .. } => (Outcome::Settled, String::new()),
                PassState::Settled { incomplete: true, .. } => {
                    (Outcome::Incomplete, "ranks or rows were missing".to_owned())
                }
                PassState::Unscored { reason, .. } => (Outcome::Unscored, reason),
            };
            let point = point.map(|point| convert::point(&point, None));
            let (pass, outcome) = (Some(pass), outcome.into());
            proto::PassState { pass, outcome, point, reason, r#final: is_final, ending, cutoff }
        });
        Ok(proto::PassesResponse { passes: passes.collect() })
    }

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

    async fn declared(
        &self,
        request: Request<proto::DeclareRequest>,
    ) -> Result<Response<proto::DeclareResponse>, Status> {
        let sender = sender(&request, &request.get_ref().source)?;
        let request = request.into_inner();
        let within = |fault: Fault| refused(Fault::new(format!("start.{}", fault.field), fault.message));
        let start = request.start.ok_or_else(|| refused(Fault::new("start", "is missing")))?;
        let run = start.run.ok_or_else(|| refused(Fault::new("start.run", "is missing")))?;
        let run = fields::run(run).map_err(within)?;
        check_name("start.client", &start.client).map_err(refused)?;
        check_name("start.job", &start.job).map_err(refused)?;
        check_optional_name("start.process", &start.process).map_err(refused)?;
        let rank = Rank::of(start.rank, run.world_size).map_err(within)?;
        if start.attempt > MOST_RESTARTS {
            let message = format!("got {}, expected at most {MOST_RESTARTS}", start.attempt);
            return Err(refused(Fault::new("start.attempt", message)));
        }
        let time = match request.time {
            time if time.is_finite() && time > 0.0 => time,
            // Not given.
            0.0 => unix_time(),
            other => return Err(refused(Fault::new("time", format!("got {other}, expected seconds since 1970")))),
        };
        let (record, finished_ranks) = self
            .blocking(move |intake| {
                let (restart, resume) = (start.attempt, start.resume);
                let (job, client, process) = (start.job.as_str(), start.client.as_str(), start.process.as_str());
                let identity = Identity { job, restart, resume, rank, client, process, is_relayed: false };
                intake.declare(&sender.project, &run, &identity, time)
            })
            .await?;
        Ok(Response::new(proto::DeclareResponse {
            run: record.run.name.clone(),
            attempt: record.attempt.map(convert::attempt),
            resumed: record.resumed,
            continues: record.continues,
            started: record.started,
            finished_ranks,
        }))
    }

    async fn advised(
        &self,
        request: Request<proto::GetAdviceRequest>,
    ) -> Result<Response<v1::GetAdviceResponse>, Status> {
        let sender = sender(&request, &request.get_ref().source)?;
        let request = request.into_inner();
        check_name("run", &request.run).map_err(refused)?;
        request.splits.iter().try_for_each(|split| check_name("splits", split)).map_err(refused)?;
        let until = Instant::now() + fields::timeout("timeout_seconds", request.timeout_seconds).map_err(refused)?;
        let question = Arc::new(Question {
            attempt: convert::attempt_of("attempt", request.attempt).map_err(refused)?,
            step: Step::new(request.step).map_err(refused)?.get(),
            run: request.run,
            splits: request.splits,
        });
        let unanswered = unanswered(request.unanswered_steps).map_err(refused)?;
        let asked = Arc::clone(&question);
        let known = self
            .blocking(move |intake| {
                intake.check_project(&sender.project, &asked.run)?;
                intake.advice(&asked)
            })
            .await?;
        let again = Arc::clone(&question);
        let decision = match known {
            Some(known) => known,
            None => {
                // No thread waits.
                while !self.intake.is_judged(&question) && Instant::now() < until {
                    self.intake.look.notify_one();
                    sleep_until(until.min(Instant::now() + LOOK_AGAIN)).await;
                }
                self.blocking(move |intake| intake.decide(&question)).await?
            }
        };
        let missed = match unanswered.is_empty() {
            true => None,
            false => self.blocking(move |intake| intake.missed(&again, &unanswered)).await?,
        };
        Ok(Response::new(advised(decision, missed)))
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

/// Steps whose answers are asked for again.
fn unanswered(steps: Vec<u64>) -> Result<Vec<u64>, Fault> {
    steps.into_iter().map(|step| Step::new(step).map(Step::get)).collect()
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
        return Err(refused(Fault::new(field, message)));
    }
    Ok(source.to_owned())
}

/// What the head of a part says of it.
fn sent_part(head: &proto::PartHead) -> Result<SentPart, Fault> {
    check_name("head.run", &head.run)?;
    check_name("head.split", &head.split)?;
    let step = Step::new(head.step).map_err(|fault| Fault::new("head.step", fault.message))?.get();
    let pass = PassKey {
        run: head.run.clone(),
        split: head.split.clone(),
        attempt: convert::attempt_of("head.attempt", head.attempt)?,
        step,
    };
    Ok(SentPart { pass, world_size: head.world_size, ended: head.ended.clone(), cutoff: head.cutoff })
}

/// The changes of entries. Errors unless their numbers ascend.
fn numbered(entries: Vec<proto::Entry>) -> Result<Vec<Numbered>, Fault> {
    if entries.len() > MOST_ENTRIES {
        return Err(Fault::new("entries", format!("got {}, expected at most {MOST_ENTRIES}", entries.len())));
    }
    let mut before = 0;
    let numbered = entries.into_iter().map(|entry| {
        let number = entry.number;
        if number <= before || i64::try_from(number).is_err() {
            let message = format!("got {number} after {before}, expected ascending numbers from 1 to {}", i64::MAX);
            return Err(Fault::new("entries.number", message));
        }
        before = number;
        Ok((number, convert::change(entry)))
    });
    numbered.collect()
}
