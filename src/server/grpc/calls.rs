//! The calls of the gRPC service: runs, scores, series, watch, advice, diagnosis, and what the sidecar is.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::convert;
use super::proto::{self, concept_watch_server::ConceptWatch};
use super::reads::alert;
use super::scores::{Sought, next_look};
use super::service::Service;
use super::status::refused;
use crate::VERSION;
use crate::analysis_query::baseline_of;
use crate::history::{Identity, RunOutcome};
use crate::server::advice::{Decision, MOST_UNANSWERED, Missed, RESTORED};
use crate::server::clock::unix_time;
use crate::server::live::{AT_END, AlertChange, Event};
use crate::server::refusal::Refusal;
use crate::server::runs::{Finished, Joining, Origin, Running};
use leakage::alert::Judged;
use leakage::field_error::{FieldError, in_short};
use leakage::name::{check_name, check_optional_name};
use leakage::score::catalogue::Cost;
use leakage::step::{Ordinal, Rank};

/// Chunk size in bytes that clients are asked to use. Larger chunks are accepted, but use more memory per connection and
/// are not faster.
const ASKED_CHUNK: usize = 1 << 20;

#[tonic::async_trait]
impl ConceptWatch for Service {
    async fn start_run(
        &self,
        request: Request<proto::StartRunRequest>,
    ) -> Result<Response<proto::StartRunResponse>, Status> {
        let request = request.into_inner();
        check_name("client", &request.client).map_err(refused)?;
        let message = request.run.clone().ok_or_else(|| refused(FieldError::new("run", "is missing")))?;
        let run = convert::run(message).map_err(refused)?;
        let rank = match request.job.as_str() {
            "" => None,
            job => {
                check_name("job", job).map_err(refused)?;
                Some(Rank::of(request.rank, run.world_size).map_err(refused)?)
            }
        };
        for (field, name) in
            [("process", &request.process), ("host", &request.host), ("scheduler_job", &request.scheduler_job)]
        {
            check_optional_name(field, name).map_err(refused)?;
        }
        if request.attempt > convert::MOST_RESTARTS {
            let message = format!("got {}, expected at most {}", request.attempt, convert::MOST_RESTARTS);
            return Err(refused(FieldError::new("attempt", message)));
        }
        let record = {
            let names = [&request.job, &request.client, &request.process, &request.scheduler_job, &request.host];
            let names = names.map(String::clone);
            let (restart, resume, rank) = (request.attempt, request.resume, rank.unwrap_or_default());
            let (runs, windows) = (Arc::clone(&self.ingest.runs), self.windows.clone());
            self.blocking(move |history| {
                let [job, client, process, scheduler_job, host] = names.each_ref().map(String::as_str);
                let identity = Identity { job, restart, resume, rank, client, process, scheduler_job, host };
                let record = history.record_run(&run, &identity, unix_time())?;
                let known = history.ranks(&record.run.name)?;
                let finished = known.iter().filter(|known| known.finished && Some(known.attempt) == record.attempt);
                let world_size = record.run.world_size;
                let finished = finished.filter_map(|known| Rank::of(known.rank, world_size).ok()).collect::<Vec<_>>();
                // Only the first rank to come finds what an earlier process saved.
                let saved = match (record.resumed, runs.registry.knows(&record.run.name)) {
                    (true, false) => windows.load(&record.run.name),
                    (true, true) => Vec::new(),
                    (false, _) => {
                        windows.remove(&record.run.name);
                        Vec::new()
                    }
                };
                let judged = Judged::of(&record.run, baseline_of(history, &record.run)?);
                Ok((finished, saved, record, judged))
            })
            .await?
        };
        let (finished, windows, record, judged) = record;
        let joining = Joining {
            client: &request.client,
            attempt: record.attempt,
            rank,
            continues: record.continues,
            finished: &finished,
            windows,
            origin: Origin {
                rank: request.rank,
                job: if request.scheduler_job.is_empty() { &request.job } else { &request.scheduler_job }.clone(),
                host: request.host.clone(),
            },
        };
        let (running, newer) = self.ingest.runs.start(record.run, joining).map_err(Status::from)?;
        if newer {
            running.advice.begin();
        }
        if running.advice.start(judged, unix_time()) && record.continues {
            self.restore_alerts(&running).await?;
        }
        tracing::info!(
            run = %running.name, resumed = record.resumed, client = %request.client, job = %request.job,
            attempt = record.attempt.map_or(request.attempt, |attempt| attempt.restart),
            client_version = %in_short(&request.client_version), "a run started"
        );
        self.announce(Event::Run(Arc::clone(&running.name)));
        let options = self.ingest.runs.options();
        let windows = options.windows.iter();
        Ok(Response::new(proto::StartRunResponse {
            resumed: record.resumed,
            server_version: VERSION.into(),
            sample_rows: options.sampling.rows as u64,
            sample_seed: options.sampling.seed,
            max_chunk_bytes: self.ingest.limits.chunk_bytes.min(ASKED_CHUNK) as u64,
            max_batch_bytes: self.ingest.limits.batch_bytes as u64,
            windows: windows.map(|(split, kind)| (split.clone(), convert::window(*kind).into())).collect(),
            default_window: proto::WindowKind::Pass.into(),
            page_url: self.page_url.clone(),
            takes_joined_ends: true,
            run: running.run.name.clone(),
            incarnation: self.settlement.incarnation().to_owned(),
            ends_unused: self.ends_unused,
            data_dir: self.data_dir.clone(),
        }))
    }

    type IngestStream = ReceiverStream<Result<proto::IngestResponse, Status>>;

    /// Never called: the port reads streams of batches in front of this service.
    async fn ingest(
        &self,
        _: Request<Streaming<proto::IngestRequest>>,
    ) -> Result<Response<Self::IngestStream>, Status> {
        Err(Status::unimplemented("streams of batches are read elsewhere"))
    }

    async fn finish_run(
        &self,
        request: Request<proto::FinishRunRequest>,
    ) -> Result<Response<proto::FinishRunResponse>, Status> {
        let proto::FinishRunRequest { run: name, rank, client, timeout_seconds, outcome } = request.into_inner();
        check_name("run", &name).map_err(refused)?;
        let deadline = Instant::now() + convert::timeout("timeout_seconds", timeout_seconds).map_err(refused)?;
        let outcome = convert::outcome("outcome", outcome, rank).map_err(refused)?;
        match self.ingest.runs.finish(&name, &client, rank) {
            // A run of an earlier process, known only to the history, has nothing left to close.
            Ok((_, Finished::Run)) | Err(Refusal::Unknown { .. } | Refusal::Forgotten(_)) => {}
            Ok((rank, Finished::NotYet(attempt))) => {
                let (stored, changes_run) = (name.clone(), outcome != RunOutcome::Finished);
                self.blocking(move |history| history.finish_rank(&stored, attempt, rank, unix_time(), &outcome))
                    .await?;
                if changes_run {
                    self.announce(Event::Run(name.into()));
                }
                return Ok(Response::new(proto::FinishRunResponse::default()));
            }
            Err(refusal) => return Err(refusal.into()),
        }
        let (stored, windows, settlement) = (name.clone(), self.windows.clone(), Arc::clone(&self.settlement));
        let how = outcome.clone();
        self.blocking(move |history| {
            windows.remove(&stored);
            history.finish_run(&stored, unix_time(), &how)?;
            if !settlement.is_any_pending(&stored) {
                history.forget_run(&stored);
            }
            Ok(())
        })
        .await?;
        tracing::info!(run = %name, ?outcome, "a run finished");
        let name: Arc<str> = name.into();
        if let Some(running) = self.running(&name) {
            running.board.finish();
        }
        self.announce(Event::Run(Arc::clone(&name)));
        self.ended(name, deadline).await
    }

    async fn list_runs(
        &self,
        request: Request<proto::ListRunsRequest>,
    ) -> Result<Response<proto::ListRunsResponse>, Status> {
        self.listed(request.into_inner()).await.map(Response::new)
    }

    async fn get_scores(
        &self,
        request: Request<proto::GetScoresRequest>,
    ) -> Result<Response<proto::GetScoresResponse>, Status> {
        self.scores(request.into_inner()).await.map(Response::new)
    }

    async fn get_series(
        &self,
        request: Request<proto::GetSeriesRequest>,
    ) -> Result<Response<proto::GetSeriesResponse>, Status> {
        self.series(request.into_inner()).await.map(Response::new)
    }

    type WatchStream = BoxStream<'static, Result<proto::WatchResponse, Status>>;

    async fn watch(&self, request: Request<proto::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        self.watched(request.into_inner()).map(Response::new)
    }

    async fn get_advice(
        &self,
        request: Request<proto::GetAdviceRequest>,
    ) -> Result<Response<proto::GetAdviceResponse>, Status> {
        let request = request.into_inner();
        check_name("run", &request.run).map_err(refused)?;
        let wait = convert::timeout("timeout_seconds", request.timeout_seconds).map_err(refused)?;
        let unanswered = &*request.unanswered_steps;
        if unanswered.len() > MOST_UNANSWERED {
            let message = format!("got {}, expected at most {MOST_UNANSWERED}", unanswered.len());
            return Err(refused(FieldError::new("unanswered_steps", message)));
        }
        let running = self.ingest.runs.registry.find(&request.run).map_err(Status::from)?;
        // One deadline for all splits, so that the call takes no longer than its timeout.
        let deadline = Instant::now() + wait;
        let attempt = self.ingest.runs.attempt(&running, &request.client);
        // Rules name splits for all runs, so a run may not have the split at all: only wait for splits that it has sent.
        let splits = self.log().rules.advising_splits();
        for split in splits.iter().filter(|split| running.board.has_split(split)) {
            self.wait_until_settled(&running.name, split, request.step, deadline).await;
        }
        let is_late = |split: &&str| {
            running.board.has_split(split) && !self.is_settled(&running.name, split, request.step, Ordinal::default())
        };
        let looked_at = splits.iter().any(|split| running.board.has_split(split));
        let late: Vec<&str> = splits.into_iter().filter(is_late).collect();
        let decision = running.advice.decide(attempt, request.step, &late, looked_at);
        Ok(Response::new(advised(decision, running.advice.missed(attempt, unanswered))))
    }

    async fn get_sidecar(
        &self,
        _: Request<proto::GetSidecarRequest>,
    ) -> Result<Response<proto::GetSidecarResponse>, Status> {
        Ok(Response::new(proto::GetSidecarResponse {
            server_version: VERSION.into(),
            page_url: self.page_url.clone(),
            data_dir: self.data_dir.clone(),
            ends_unused: self.ends_unused,
        }))
    }

    async fn get_diagnosis(
        &self,
        request: Request<proto::GetDiagnosisRequest>,
    ) -> Result<Response<proto::GetDiagnosisResponse>, Status> {
        let proto::GetDiagnosisRequest { run, split, step, timeout_seconds, ordinal } = request.into_inner();
        check_name("run", &run).map_err(refused)?;
        check_name("split", &split).map_err(refused)?;
        let wait = convert::timeout("timeout_seconds", timeout_seconds).map_err(refused)?;
        match step {
            Some(step) => {
                let pass = (step, Ordinal::stated(ordinal));
                self.wait_until_complete(&run, &split, pass, Instant::now() + wait).await;
            }
            // Where there is none, the diagnosis says what is unknown.
            None if wait > Duration::ZERO => {
                let (run, split) = (run.clone(), split.clone());
                drop(self.wait_for_point(&Sought { run, split, step, ordinal, matrices: false, wait }).await);
            }
            None => {}
        }
        self.diagnosis(run, split).await.map(Response::new)
    }
}

impl Service {
    /// Waits until all evaluations of a run are settled and their fast scores have joined, and ends its alerts. Answers with
    /// what is not settled, and with the alerts that have fired.
    async fn ended(&self, name: Arc<str>, deadline: Instant) -> Result<Response<proto::FinishRunResponse>, Status> {
        let (settlement, log, stop) = (Arc::clone(&self.settlement), Arc::clone(self.log()), self.stop.clone());
        let (runs, running, events) = (Arc::clone(&self.ingest.runs), self.running(&name), self.events.clone());
        let finished = running.clone();
        // A task of its own, so that the alerts end even if the client has gone, and after its last evaluations were
        // judged.
        let ended = tokio::spawn(async move {
            let unsettled = tokio::select! {
                unsettled = settlement.settled(&name, deadline) => unsettled,
                () = stop.cancelled() => settlement.unsettled(&name),
            };
            // Rules on these scores judge the last evaluations, too.
            let mut looks = events.subscribe();
            let awaits = || running.as_ref().is_some_and(|running| running.board.awaits_any(Cost::Fast));
            while awaits() && Instant::now() < deadline && !stop.is_cancelled() {
                next_look(&mut looks, deadline).await;
            }
            let board = running.as_ref().map(|running| &running.board);
            let still_has = |one: &AlertChange| board.is_none_or(|board| board.has(&one.split, one.step, one.since));
            let fired: Vec<_> = log.fired(&name, still_has).iter().map(|change| alert(change)).collect();
            if let Some(running) = running.filter(|_| !runs.is_running(&name)) {
                running.advice.end(AT_END, unix_time());
            }
            (unsettled, fired)
        });
        let (unsettled, fired) = ended.await.map_err(|error| Status::internal(error.to_string()))?;
        // Without them the answer still says the rest.
        let other_splits = self.other_splits(finished).await.unwrap_or_default();
        let unsettled = unsettled
            .into_iter()
            .map(|(split, step)| proto::Unsettled { split: split.to_string(), step: step.get() })
            .collect();
        Ok(Response::new(proto::FinishRunResponse { finished: true, unsettled, fired, other_splits }))
    }

    /// The splits that alert rules look at, where the run has none of these, in this process or an earlier one.
    async fn other_splits(&self, run: Option<Arc<Running>>) -> Result<Vec<String>, Status> {
        let (Some(run), log) = (run, Arc::clone(self.log())) else { return Ok(Vec::new()) };
        self.blocking(move |history| {
            let splits = log.rules.splits();
            for split in &splits {
                if run.board.has_split(split) || !history.newest_steps(&run.name, split, 1)?.is_empty() {
                    return Ok(Vec::new());
                }
            }
            Ok(splits.into_iter().map(str::to_owned).collect())
        })
        .await
    }

    /// Restores the state that the alert rules had in an earlier process.
    async fn restore_alerts(&self, running: &Running) -> Result<(), Status> {
        let (name, log) = (Arc::clone(&running.name), Arc::clone(self.log()));
        let points = self
            .blocking(move |history| {
                let mut points = Vec::new();
                for split in log.rules.splits() {
                    for step in history.newest_steps(&name, split, RESTORED)? {
                        points.extend(history.point(&name, split, Some(step), false)?);
                    }
                }
                Ok(points)
            })
            .await?;
        running.advice.restore(&points);
        Ok(())
    }

    async fn wait_until_settled(&self, run: &str, split: &str, step: u64, deadline: Instant) {
        let mut events = self.events.subscribe();
        while !self.is_settled(run, split, step, Ordinal::default()) && Instant::now() < deadline {
            next_look(&mut events, deadline).await;
        }
    }

    /// Waits until an evaluation has all its scores, slow ones included, or was skipped.
    async fn wait_until_complete(&self, run: &str, split: &str, pass: (u64, Ordinal), deadline: Instant) {
        let mut events = self.events.subscribe();
        let has_joined = |running: Arc<Running>| running.board.has_joined(split, pass, Cost::Slow);
        while !self.running(run).is_some_and(has_joined) && Instant::now() < deadline {
            next_look(&mut events, deadline).await;
        }
    }

    fn announce(&self, event: Event) {
        self.events.send(event);
    }
}

/// An answer as a message.
fn advised(decision: Decision, missed: Option<Missed>) -> proto::GetAdviceResponse {
    let Decision { stop, reason, decided_by_step } = decision;
    let (missed_step, missed_reason) = missed.map(|missed| (missed.step, missed.reason)).unzip();
    let missed_reason = missed_reason.unwrap_or_default();
    proto::GetAdviceResponse { stop, reason, decided_by_step, missed_step, missed_reason }
}
