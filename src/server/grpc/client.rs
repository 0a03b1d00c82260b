//! A small client of the gRPC port, for the demo, the commands and the tests.

use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tower::service_fn;

use crate::VERSION;
use crate::server::peers::{Dialer, Remote};
use crate::server::run_state::State;
use leakage::diagnosis::Verdict;
use leakage::run::Run;
use leakage::tensor::TensorName;

use super::convert;
use super::proto::concept_watch_client::ConceptWatchClient;
use super::proto::ingest_response::Outcome;
use super::proto::run_outcome::Kind;
use super::proto::watch_response::Event;
use super::proto::{
    self, BatchChunk, EndPass, FinishRunRequest, GetAdviceRequest, GetScoresRequest, IngestRequest, IngestResponse,
    RunOutcome, StartRunRequest, Tensor, ingest_request,
};

/// Why a call or a message failed, with the sidecar's message.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("{0} cannot be reached: {why}", why = innermost(.1))]
    Unreachable(Remote, tonic::transport::Error),
    #[error("{}", .0.message())]
    Call(#[from] Box<Status>),
    #[error("{field}: {message}")]
    Refused { field: String, message: String },
    /// The sidecar ended the ingest stream.
    #[error("the stream ended")]
    Ended,
}

impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        Self::Call(Box::new(status))
    }
}

/// A run of one rank, whose passes have one batch each.
pub struct Job {
    client: Client,
    run: String,
    name: String,
    sequence: u64,
}

impl Job {
    /// Connects, and starts or resumes `run`. `name` identifies this process and must be unique.
    pub async fn start(dialer: &Dialer, run: &Run, name: &str) -> Result<Self, ClientError> {
        let mut client = Client::connect(dialer, None).await?;
        let start = StartRunRequest {
            run: Some(convert::run_message(run)),
            client: name.to_owned(),
            client_version: VERSION.to_owned(),
            ..Default::default()
        };
        let run = client.start(start).await?;
        Ok(Self { client, run, name: name.to_owned(), sequence: 0 })
    }

    /// Sends a complete pass as one batch of one chunk, and ends it.
    pub async fn pass(&mut self, split: &str, step: u64, epoch: f64, tensors: Vec<Tensor>) -> Result<(), ClientError> {
        self.sequence += 2;
        let (run, client, split, epoch) = (self.run.clone(), self.name.clone(), split.to_owned(), Some(epoch));
        let rows = tensors.first().and_then(|tensor| tensor.shape.first()).copied().unwrap_or_default();
        let end = EndPass { run, split, step, epoch, client, sequence: self.sequence, rows, ..EndPass::default() };
        let (run, client, split) = (end.run.clone(), end.client.clone(), end.split.clone());
        let (sequence, last) = (self.sequence - 1, true);
        let chunk = BatchChunk { run, split, step, epoch, client, sequence, last, tensors, ..BatchChunk::default() };
        check_accepted(self.client.batch(vec![chunk]).await?)?;
        check_accepted(self.client.end_pass(end).await?)
    }

    /// Waits for the scores of a step; `None` if there are none before the timeout.
    pub async fn scores(
        &mut self,
        split: &str,
        step: u64,
        timeout: Duration,
    ) -> Result<Option<proto::Point>, ClientError> {
        self.client.scores(&self.run, split, (step, 0), timeout).await
    }

    /// Waits for the evaluation of `step` and returns why training should stop; `None` if it should continue.
    pub async fn stop_advice(&mut self, step: u64, timeout: Duration) -> Result<Option<String>, ClientError> {
        let (run, client, timeout_seconds) = (self.run.clone(), self.name.clone(), timeout.as_secs_f64());
        let request = GetAdviceRequest { run, step, timeout_seconds, client, ..Default::default() };
        let advice = self.client.calls.get_advice(request).await?.into_inner();
        Ok(advice.stop.then_some(advice.reason))
    }

    pub async fn finish(&mut self, ended: Kind) -> Result<(), ClientError> {
        let (run, client) = (self.run.clone(), self.name.clone());
        let outcome = Some(RunOutcome { kind: Some(ended) });
        self.client.finish(FinishRunRequest { run, client, outcome, ..Default::default() }).await
    }
}

/// Errors when an answer is a refusal.
fn check_accepted(answers: Vec<IngestResponse>) -> Result<(), ClientError> {
    match answers.into_iter().find(|answer| answer.outcome() == Outcome::Refused) {
        Some(IngestResponse { field, message, .. }) => Err(ClientError::Refused { field, message }),
        None => Ok(()),
    }
}

/// The token that each call carries, if any.
#[derive(Clone)]
pub(super) struct Authorization(Option<AsciiMetadataValue>);

impl Authorization {
    pub fn new(token: Option<&str>) -> Result<Self, ClientError> {
        let value = token.map(|token| format!("Bearer {token}").parse()).transpose();
        value.map(Self).map_err(|_| ClientError::Refused {
            field: "token_file".into(),
            message: "the token is not printable ASCII text".into(),
        })
    }
}

impl Interceptor for Authorization {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}

/// A connection to a sidecar: sends the messages of jobs unchanged, and reads curves, points and alerts.
pub struct Client {
    calls: ConceptWatchClient<InterceptedService<Channel, Authorization>>,
    stream: Option<(mpsc::Sender<IngestRequest>, Streaming<IngestResponse>)>,
}

impl Client {
    /// Connects. `token` is the server's token, if it requires one.
    pub async fn connect(dialer: &Dialer, token: Option<&str>) -> Result<Self, ClientError> {
        let authorization = Authorization::new(token)?;
        Ok(Self { calls: ConceptWatchClient::with_interceptor(channel(dialer).await?, authorization), stream: None })
    }

    /// Declares a run and returns its name, which differs from the declared one if that was taken.
    pub async fn start(&mut self, start: StartRunRequest) -> Result<String, ClientError> {
        Ok(self.calls.start_run(start).await?.into_inner().run)
    }

    /// Sends the chunks of a batch. Returns the answer to it, and that to the end of pass joined to it, if any.
    pub async fn batch(&mut self, chunks: Vec<BatchChunk>) -> Result<Vec<IngestResponse>, ClientError> {
        for chunk in chunks {
            self.send(ingest_request::Message::Chunk(chunk)).await?;
        }
        self.answer().await
    }

    pub async fn end_pass(&mut self, end: EndPass) -> Result<Vec<IngestResponse>, ClientError> {
        self.send(ingest_request::Message::EndPass(end)).await?;
        self.answer().await
    }

    async fn send(&mut self, message: ingest_request::Message) -> Result<(), ClientError> {
        if self.stream.is_none() {
            let (requests, receiver) = mpsc::channel(4);
            let answers = self.calls.ingest(ReceiverStream::new(receiver)).await?;
            self.stream = Some((requests, answers.into_inner()));
        }
        let (requests, _) = self.stream.as_ref().ok_or(ClientError::Ended)?;
        requests.send(IngestRequest { message: Some(message) }).await.map_err(|_| ClientError::Ended)
    }

    async fn answer(&mut self) -> Result<Vec<IngestResponse>, ClientError> {
        let (_, answers) = self.stream.as_mut().ok_or(ClientError::Ended)?;
        let mut answer = loop {
            let answer = answers.message().await?.ok_or(ClientError::Ended)?;
            // A report of passes settled meanwhile does not answer a message.
            if answer.sequence > 0 || answer.settled.is_empty() {
                break answer;
            }
        };
        let of_end = answer.end_pass.take().map(|end| *end);
        Ok(std::iter::once(answer).chain(of_end).collect())
    }

    /// Waits for the scores of a step and ordinal, 0 for any; `None` if there are none before the timeout.
    pub async fn scores(
        &mut self,
        run: &str,
        split: &str,
        (step, ordinal): (u64, u32),
        timeout: Duration,
    ) -> Result<Option<proto::Point>, ClientError> {
        let (run, split, timeout_seconds) = (run.to_owned(), split.to_owned(), timeout.as_secs_f64());
        let step = Some(step);
        let request = GetScoresRequest { run, split, step, ordinal, timeout_seconds, ..GetScoresRequest::default() };
        Ok(self.calls.get_scores(request).await?.into_inner().point)
    }

    /// Waits until the pass of a point has its slow scores, too, or will have none.
    pub async fn complete(
        &mut self,
        run: &str,
        split: &str,
        (step, ordinal): (u64, u32),
        timeout: Duration,
    ) -> Result<(), ClientError> {
        let (run, split, timeout_seconds) = (run.to_owned(), split.to_owned(), timeout.as_secs_f64());
        let request = proto::GetDiagnosisRequest { run, split, step: Some(step), ordinal, timeout_seconds };
        self.calls.get_diagnosis(request).await?;
        Ok(())
    }

    pub async fn finish(&mut self, finish: FinishRunRequest) -> Result<(), ClientError> {
        self.calls.finish_run(finish).await?;
        Ok(())
    }

    /// Names of all runs, newest start first, with their states and the reasons for these.
    pub async fn runs(&mut self) -> Result<Vec<(String, State, String)>, ClientError> {
        let runs = self.calls.list_runs(proto::ListRunsRequest::default()).await?.into_inner().runs;
        let listed = |status: proto::RunStatus| {
            let state = convert::state_of(status.state());
            Some((status.run?.name, state, status.state_reason))
        };
        Ok(runs.into_iter().filter_map(listed).collect())
    }

    /// The verdict on a split; `None` before its first evaluation.
    pub async fn verdict(&mut self, run: &str, split: &str) -> Result<Option<Verdict>, ClientError> {
        let request = proto::GetDiagnosisRequest { run: run.to_owned(), split: split.to_owned(), ..Default::default() };
        let found = self.calls.get_diagnosis(request).await?.into_inner();
        Ok(found.verdict.and_then(convert::verdict_of))
    }

    /// The curve of a score from a step on, oldest point first.
    pub async fn series(
        &mut self,
        run: &str,
        split: &str,
        score: &str,
        first_step: u64,
    ) -> Result<Vec<proto::SeriesPoint>, ClientError> {
        let (run, split, score) = (run.to_owned(), split.to_owned(), score.to_owned());
        let request = proto::GetSeriesRequest { run, split, score, first_step, ..Default::default() };
        Ok(self.calls.get_series(request).await?.into_inner().points)
    }

    /// Future events of these runs, or of all runs if the list is empty, until the sidecar stops.
    pub async fn watch(&mut self, runs: Vec<String>) -> Result<impl Stream<Item = Event> + use<>, ClientError> {
        let stream = self.calls.watch(proto::WatchRequest { runs }).await?.into_inner();
        Ok(stream.filter_map(|response| response.ok()?.event))
    }
}

pub(super) async fn channel(dialer: &Dialer) -> Result<Channel, ClientError> {
    let (remote, dialer) = (dialer.remote().clone(), dialer.clone());
    let connector = service_fn(move |_| {
        let dialer = dialer.clone();
        async move { dialer.connect().await.map(TokioIo::new) }
    });
    let connected = match Endpoint::from_shared(format!("http://{}", remote.authority())) {
        Ok(endpoint) => endpoint.connect_with_connector(connector).await,
        Err(error) => Err(error),
    };
    connected.map_err(|error| ClientError::Unreachable(remote, error))
}

/// The cause at the bottom, which says what the transport's own words leave out.
fn innermost(error: &tonic::transport::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// A tensor of f32 values, row-major.
pub fn float_tensor(name: TensorName, shape: &[usize], values: impl IntoIterator<Item = f32>) -> Tensor {
    let data: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
    tensor(name, proto::DataType::Float32, shape, data)
}

/// A tensor of class numbers, row-major.
pub fn class_tensor(name: TensorName, shape: &[usize], values: impl IntoIterator<Item = i32>) -> Tensor {
    let data: Vec<u8> = values.into_iter().flat_map(i32::to_le_bytes).collect();
    tensor(name, proto::DataType::Int32, shape, data)
}

fn tensor(name: TensorName, dtype: proto::DataType, shape: &[usize], data: Vec<u8>) -> Tensor {
    Tensor {
        name: name.text().to_owned(),
        dtype: dtype.into(),
        shape: shape.iter().map(|&dim| dim as u64).collect(),
        data: data.into(),
        texts: Vec::new(),
    }
}
