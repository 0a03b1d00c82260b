//! The calls of readers to a hub, answered from the database, and what a hub refuses that a sidecar answers.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use tokio::time::Instant;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::history::StoredSplit;
use crate::server::events::Watcher;
use crate::server::grpc::convert;
use crate::server::grpc::proto::{self, concept_watch_server::ConceptWatch};
use crate::server::grpc::reader::Reader;
use crate::server::grpc::scores::{Found, Lookout, Sought, get_scores, wait_for_point};
use crate::server::grpc::status::refused;
use crate::server::live::Live;
use leakage::name::check_name;

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
        let split = |split: StoredSplit| proto::SplitStatus {
            split: split.split,
            points: split.points,
            last_step: split.last_step,
            ..Default::default()
        };
        let splits = |_: &str, splits: Vec<StoredSplit>| splits.into_iter().map(split).collect();
        let live = Arc::clone(&self.live);
        self.reader.list_runs(request.into_inner(), move || live.runs(), splits).await.map(Response::new)
    }

    async fn get_scores(
        &self,
        request: Request<proto::GetScoresRequest>,
    ) -> Result<Response<proto::GetScoresResponse>, Status> {
        get_scores(self, request.into_inner()).await
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
        let proto::GetDiagnosisRequest { run, split, step, timeout_seconds, ordinal } = request.into_inner();
        check_name("run", &run).map_err(refused)?;
        check_name("split", &split).map_err(refused)?;
        let wait = convert::timeout("timeout_seconds", timeout_seconds).map_err(refused)?;
        if wait > Duration::ZERO {
            // Where there is none, the diagnosis says what is unknown.
            let (run, split) = (run.clone(), split.clone());
            drop(wait_for_point(self, &Sought { run, split, step, ordinal, matrices: false, wait }).await);
        }
        // The verdict is the sidecar's, with its advice.
        self.reader.diagnosis(run, split, |_| true, None).await.map(Response::new)
    }
}

#[tonic::async_trait]
impl Lookout for Reads {
    async fn look(&self, sought: &Sought, deadline: Instant) -> Result<Found, Status> {
        let Sought { run, split, step, matrices, .. } = sought;
        let (run, split, step, matrices) = (run.clone(), split.clone(), *step, *matrices);
        let stored = self
            .reader
            .blocking(move |history| {
                let point = history.point(&run, &split, step, matrices)?;
                let ended = match (&point, step) {
                    (None, Some(step)) => history.unscored_at(&run, &split, step)?.is_some(),
                    _ => false,
                };
                Ok((point, ended))
            })
            .await;
        match stored {
            Ok((point, ended)) => match point.filter(|point| sought.admits(point)) {
                Some(point) => Ok(Found::Point(Box::new(point))),
                None if ended => Ok(Found::Never),
                None => Ok(Found::NotYet),
            },
            // A split is unknown before its first point.
            Err(status) if status.code() == Code::NotFound && Instant::now() < deadline => Ok(Found::NotYet),
            Err(status) => Err(status),
        }
    }

    /// Points come at the pace of the whole database, so that each would be a query of each call that waits.
    fn events(&self) -> Option<Watcher> {
        None
    }
}
