//! The calls of sidecars to a hub.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tonic::{Request, Response, Status, Streaming};

use super::convert;
use super::proto::{self, hub_server::Hub};
use crate::fault::{Fault, in_short};
use crate::history::Identity;
use crate::name::check_name;
use crate::server::clock::unix_time;
use crate::server::grpc::convert::{self as fields, MOST_RESTARTS};
use crate::server::grpc::project::Project;
use crate::server::grpc::proto as v1;
use crate::server::grpc::status::refused;
use crate::server::hub::intake::{Intake, Numbered, Pushed, Question, Sender};
use crate::server::refusal::Refusal;
use crate::step::{Rank, Step};

/// Entries of a push, at most.
const MOST_ENTRIES: usize = 1024;
/// Interval at which advice looks again for the evaluations that it waits for.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

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

    async fn send_part(
        &self,
        _: Request<Streaming<proto::PartChunk>>,
    ) -> Result<Response<proto::SendPartResponse>, Status> {
        self.counted("SendPart", Err(Status::unimplemented("this hub takes no parts of passes")))
    }

    async fn passes(&self, _: Request<proto::PassesRequest>) -> Result<Response<proto::PassesResponse>, Status> {
        self.counted("Passes", Err(Status::unimplemented("this hub takes no parts of passes")))
    }

    async fn get_advice(
        &self,
        request: Request<proto::GetAdviceRequest>,
    ) -> Result<Response<v1::GetAdviceResponse>, Status> {
        self.counted("GetAdvice", self.advised(request).await)
    }
}

impl HubService {
    fn counted<T>(&self, call: &str, answer: Result<Response<T>, Status>) -> Result<Response<T>, Status> {
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
                let identity = Identity { job: &start.job, restart, resume, rank, client: &start.client };
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
        let asked = Arc::clone(&question);
        let known = self
            .blocking(move |intake| {
                intake.check_project(&sender.project, &asked.run)?;
                intake.advice(&asked)
            })
            .await?;
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
        let (stop, reason, decided_by_step) = (decision.stop, decision.reason, decision.decided_by_step);
        Ok(Response::new(v1::GetAdviceResponse { stop, reason, decided_by_step }))
    }

    /// Makes a call that blocks, on a thread that may.
    async fn blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Intake) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Status> {
        let intake = Arc::clone(&self.intake);
        match tokio::task::spawn_blocking(move || call(&intake)).await {
            Ok(result) => result.map_err(Status::from),
            Err(_) => Err(Status::internal("the call failed")),
        }
    }
}

fn sender<T>(request: &Request<T>, source: &str) -> Result<Sender, Status> {
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let fits = |(at, byte): (usize, u8)| if [8, 13, 18, 23].contains(&at) { byte == b'-' } else { hex(byte) };
    if source.len() != 36 || !source.bytes().enumerate().all(fits) {
        let message = format!("got '{}', expected a UUID in lower case with hyphens", in_short(source));
        return Err(refused(Fault::new("source", message)));
    }
    let project = request.extensions().get::<Project>().cloned().unwrap_or_default();
    Ok(Sender { source: source.to_owned(), project: project.0 })
}

/// The changes of entries. Errors unless their numbers ascend.
fn numbered(entries: Vec<proto::Entry>) -> Result<Vec<Numbered>, Fault> {
    if entries.is_empty() || entries.len() > MOST_ENTRIES {
        return Err(Fault::new("entries", format!("got {}, expected 1 to {MOST_ENTRIES}", entries.len())));
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
