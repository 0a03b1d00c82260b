//! The calls of readers to a hub, answered from the database, and what a hub refuses that a sidecar answers.

use std::time::Duration;

use futures::stream::BoxStream;
use tokio::time::{Instant, sleep_until};
use tonic::{Code, Request, Response, Status, Streaming};

use crate::history::StoredSplit;
use crate::name::check_name;
use crate::point::Point;
use crate::question::diagnosis_of;
use crate::server::grpc::convert;
use crate::server::grpc::proto::{self, concept_watch_server::ConceptWatch};
use crate::server::grpc::reader::{Reader, listed};
use crate::server::grpc::status::refused;
use crate::server::live::Live;
use crate::server::refusal::Refusal;

use std::sync::Arc;

/// Interval at which a waiting call looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

#[derive(Clone)]
pub struct Reads {
    pub reader: Reader,
    pub live: Arc<dyn Live>,
}

fn elsewhere(call: &str) -> Status {
    let message = format!("{call}: this is a hub: start a sidecar with --upstream and this address, and call that");
    Status::failed_precondition(message)
}

#[tonic::async_trait]
impl ConceptWatch for Reads {
    async fn start_run(&self, _: Request<proto::StartRunRequest>) -> Result<Response<proto::StartRunResponse>, Status> {
        Err(elsewhere("StartRun"))
    }

    type IngestStream = BoxStream<'static, Result<proto::IngestResponse, Status>>;

    async fn ingest(
        &self,
        _: Request<Streaming<proto::IngestRequest>>,
    ) -> Result<Response<Self::IngestStream>, Status> {
        Err(elsewhere("Ingest"))
    }

    async fn finish_run(
        &self,
        _: Request<proto::FinishRunRequest>,
    ) -> Result<Response<proto::FinishRunResponse>, Status> {
        Err(elsewhere("FinishRun"))
    }

    async fn list_runs(
        &self,
        request: Request<proto::ListRunsRequest>,
    ) -> Result<Response<proto::ListRunsResponse>, Status> {
        let listing = self.reader.listing(request.into_inner()).await?;
        let split = |split: StoredSplit| proto::SplitStatus {
            split: split.split,
            points: split.points,
            last_step: split.last_step,
            ..Default::default()
        };
        Ok(Response::new(listed(listing, |_, splits| splits.into_iter().map(split).collect())))
    }

    async fn get_scores(
        &self,
        request: Request<proto::GetScoresRequest>,
    ) -> Result<Response<proto::GetScoresResponse>, Status> {
        let request = request.into_inner();
        check_name("run", &request.run).map_err(refused)?;
        check_name("split", &request.split).map_err(refused)?;
        let wait = convert::timeout("timeout_seconds", request.timeout_seconds).map_err(refused)?;
        let point = self.wait_for_point(&request.run, &request.split, request.step, request.matrices, wait).await?;
        let point = point.map(|point| convert::point(&point, request.matrices));
        Ok(Response::new(proto::GetScoresResponse { point }))
    }

    async fn get_series(
        &self,
        request: Request<proto::GetSeriesRequest>,
    ) -> Result<Response<proto::GetSeriesResponse>, Status> {
        self.reader.series(request.into_inner()).await.map(Response::new)
    }

    type WatchStream = BoxStream<'static, Result<proto::WatchResponse, Status>>;

    async fn watch(&self, request: Request<proto::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        self.reader.watch(request.into_inner()).map(Response::new)
    }

    async fn get_advice(
        &self,
        _: Request<proto::GetAdviceRequest>,
    ) -> Result<Response<proto::GetAdviceResponse>, Status> {
        Err(elsewhere("GetAdvice"))
    }

    async fn get_sidecar(
        &self,
        _: Request<proto::GetSidecarRequest>,
    ) -> Result<Response<proto::GetSidecarResponse>, Status> {
        Err(elsewhere("GetSidecar"))
    }

    async fn get_diagnosis(
        &self,
        request: Request<proto::GetDiagnosisRequest>,
    ) -> Result<Response<proto::GetDiagnosisResponse>, Status> {
        let proto::GetDiagnosisRequest { run, split, step, timeout_seconds } = request.into_inner();
        check_name("run", &run).map_err(refused)?;
        check_name("split", &split).map_err(refused)?;
        let wait = convert::timeout("timeout_seconds", timeout_seconds).map_err(refused)?;
        if wait > Duration::ZERO {
            // Where there is none, the diagnosis says what is unknown.
            drop(self.wait_for_point(&run, &split, step, false, wait).await);
        }
        let (history, live) = (Arc::clone(&self.reader.history), Arc::clone(&self.live));
        let diagnosis = move || diagnosis_of(&*history, &run, &split, |point| live.admits(point));
        match tokio::task::spawn_blocking(diagnosis).await {
            Ok(diagnosis) => Ok(Response::new(convert::diagnosis(diagnosis.map_err(Refusal::from)?))),
            Err(_) => Err(Status::internal("the diagnosis failed")),
        }
    }
}

impl Reads {
    /// The point of a step, or the newest, once it is stored; `None` if that takes longer than `wait`, or there will be
    /// none.
    async fn wait_for_point(
        &self,
        run: &str,
        split: &str,
        step: Option<u64>,
        matrices: bool,
        wait: Duration,
    ) -> Result<Option<Point>, Status> {
        let deadline = Instant::now() + wait;
        loop {
            let (name, of) = (run.to_owned(), split.to_owned());
            let stored = self
                .reader
                .blocking(move |history| {
                    let point = history.point(&name, &of, step, matrices)?;
                    let ended = match (&point, step) {
                        (None, Some(step)) => history.unscored_at(&name, &of, step)?.is_some(),
                        _ => false,
                    };
                    Ok((point, ended))
                })
                .await;
            match stored {
                Ok((point, ended)) => match point.filter(|point| self.live.admits(point)) {
                    Some(point) => return Ok(Some(point)),
                    None if ended => return Ok(None),
                    None => {}
                },
                // A split is unknown before its first point.
                Err(status) if status.code() == Code::NotFound && Instant::now() < deadline => {}
                Err(status) => return Err(status),
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            sleep_until(deadline.min(Instant::now() + LOOK_AGAIN)).await;
        }
    }
}
