//! Throughput of ingest on loopback, compared with a bare tonic stream of the same bytes.
//!
//! Both are servers in this process, with two worker threads, as in the program, and the same configuration of HTTP/2.
//! The bare one decodes the same messages and acknowledges them. They alternate; the ratio is the median of the ratios
//! of adjacent turns, so that other load on the machine affects both.

#[path = "machine/mod.rs"]
mod machine;
#[path = "traffic/mod.rs"]
mod traffic;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use conceptwatch::cli::ServeOptions;
use conceptwatch::server::peers::Listener;
use conceptwatch::server::proto::concept_watch_client::ConceptWatchClient;
use conceptwatch::server::proto::concept_watch_server::{ConceptWatch, ConceptWatchServer};
use conceptwatch::server::proto::ingest_response::Outcome;
use conceptwatch::server::proto::{self, IngestRequest, IngestResponse};
use conceptwatch::server::{Listeners, run};
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use machine::median;
use traffic::{Rank, Values};

/// Turns of each server, after one warm-up turn that fills samples and caches.
const TURNS: usize = 7;
/// Bytes per turn.
const TURN_BYTES: usize = 512 << 20;
/// Batches per pass, in cases where passes end.
const PASS: usize = 4;
const LOWEST: f64 = 0.6;

fn main() {
    // As in the program.
    conceptwatch::memory::keep_freed();
    println!("ingest on loopback: {}", machine::facts());
    println!(
        "float32 activations, uint8 labels, {} bytes a row, turns of {} MiB, median of {TURNS}\n",
        traffic::ROW_BYTES,
        TURN_BYTES >> 20
    );
    println!("{:>12}  {:22}  {:>11}  {:>11}  {:>6}", "batch", "samples", "bare MB/s", "this MB/s", "ratio");
    let (serving, clients) = (threads(), threads());
    let bare = serving.block_on(start_bare());
    let real = serving.block_on(start_real());
    for rows in [512, 65_536] {
        let values = Values::new(rows);
        for passes_end in [false, true] {
            let name = format!("{rows} {}", if passes_end { "passes" } else { "full" });
            let mut rank = Rank::new(&name);
            let mut lanes = clients.block_on(async { [Lane::open(bare, &name).await, Lane::open(real, &name).await] });
            let batches = TURN_BYTES.div_ceil(values.bytes()).next_multiple_of(PASS);
            let mut speeds = Vec::new();
            for _ in 0..=TURNS {
                let mut turn = Vec::new();
                for batch in 1..=batches {
                    turn.extend(rank.batch(&values));
                    if passes_end && batch % PASS == 0 {
                        turn.push(rank.end_pass());
                    }
                }
                let mut speed = |lane: usize| {
                    let took = clients.block_on(lanes[lane].send(turn.clone()));
                    (batches * values.bytes()) as f64 / 1e6 / took.as_secs_f64()
                };
                speeds.push((speed(0), speed(1)));
            }
            let measured = &speeds[1..];
            let ratio = median(measured.iter().map(|(bare, real)| real / bare));
            println!(
                "{:>12}  {:22}  {:>11.0}  {:>11.0}  {ratio:>6.2}{}",
                format!("{rows} x {}", traffic::CONCEPTS),
                if passes_end { format!("a pass is {PASS} batches") } else { "one pass, full".into() },
                median(measured.iter().map(|speed| speed.0)),
                median(measured.iter().map(|speed| speed.1)),
                if ratio < LOWEST { "  too low" } else { "" },
            );
        }
    }
    println!("\nlowest acceptable ratio: {LOWEST}");
    serving.shutdown_timeout(Duration::from_millis(100));
}

fn threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads can be started")
}

async fn bind() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    (listener, address)
}

/// The server as `conceptwatch serve` configures it.
async fn start_real() -> SocketAddr {
    let ((grpc, address), (http, _)) = (bind().await, bind().await);
    let options = ServeOptions::default().server().expect("defaults are valid");
    tokio::spawn(async move {
        let port = |listener: TcpListener| Listener::try_from(listener).expect("a bound socket has an address");
        let served = run(Listeners { grpc: port(grpc), http: port(http) }, options, std::future::pending()).await;
        served.expect("the server runs until the process ends");
    });
    address
}

async fn start_bare() -> SocketAddr {
    let (listener, address) = bind().await;
    let service = ConceptWatchServer::new(Bare).max_decoding_message_size(5 << 20);
    let connections = TcpListenerStream::new(listener).map(|stream| stream.inspect(|s| drop(s.set_nodelay(true))));
    let mut server = Server::builder().initial_stream_window_size(1 << 20).initial_connection_window_size(1 << 20);
    tokio::spawn(server.add_service(service).serve_with_incoming(connections));
    address
}

/// A stream to one of the servers.
struct Lane {
    requests: mpsc::Sender<IngestRequest>,
    answers: Streaming<IngestResponse>,
}

impl Lane {
    async fn open(address: SocketAddr, run: &str) -> Self {
        let connected = ConceptWatchClient::connect(format!("http://{address}")).await;
        let mut calls = connected.expect("the server listens");
        calls.start_run(traffic::start_run(run, "benchmark")).await.expect("a valid run");
        let (requests, receiver) = mpsc::channel(4);
        let answers = calls.ingest(ReceiverStream::new(receiver)).await.expect("a stream opens").into_inner();
        Self { requests, answers }
    }

    /// Sends messages back to back, and measures the time until the last one is answered.
    async fn send(&mut self, turn: Vec<IngestRequest>) -> Duration {
        let answered = turn.iter().filter(|request| traffic::is_answered(request).is_some()).count();
        let requests = self.requests.clone();
        let started = Instant::now();
        let sending = tokio::spawn(async move {
            for request in turn {
                requests.send(request).await.expect("the stream is open");
            }
        });
        let mut left = answered;
        while left > 0 {
            let answer = self.answers.message().await.expect("the stream is open").expect("an answer to each batch");
            // Reports of settled passes come between the answers.
            if answer.sequence == 0 && !answer.settled.is_empty() {
                continue;
            }
            assert_eq!(answer.outcome(), Outcome::Accepted, "{}: {}", answer.field, answer.message);
            left -= 1;
        }
        sending.await.expect("sending does not panic");
        started.elapsed()
    }
}

/// Decodes and acknowledges the same messages: the cost of a stream without any processing.
struct Bare;

type Answer<T> = Result<Response<T>, Status>;

fn none<T: Send>() -> Answer<T> {
    Err(Status::unimplemented("only streams are measured"))
}

#[tonic::async_trait]
impl ConceptWatch for Bare {
    type IngestStream = ReceiverStream<Result<IngestResponse, Status>>;
    type WatchStream = BoxStream<'static, Result<proto::WatchResponse, Status>>;

    async fn ingest(&self, request: Request<Streaming<IngestRequest>>) -> Answer<Self::IngestStream> {
        let mut requests = request.into_inner();
        let (answers, receiver) = mpsc::channel(64);
        tokio::spawn(async move {
            while let Some(Ok(request)) = requests.next().await {
                let Some(sequence) = traffic::is_answered(&request) else { continue };
                let answer = IngestResponse { sequence, outcome: Outcome::Accepted.into(), ..Default::default() };
                if answers.send(Ok(answer)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn start_run(&self, _: Request<proto::StartRunRequest>) -> Answer<proto::StartRunResponse> {
        Ok(Response::new(proto::StartRunResponse::default()))
    }

    async fn finish_run(&self, _: Request<proto::FinishRunRequest>) -> Answer<proto::FinishRunResponse> {
        none()
    }

    async fn list_runs(&self, _: Request<proto::ListRunsRequest>) -> Answer<proto::ListRunsResponse> {
        none()
    }

    async fn get_scores(&self, _: Request<proto::GetScoresRequest>) -> Answer<proto::GetScoresResponse> {
        none()
    }

    async fn get_series(&self, _: Request<proto::GetSeriesRequest>) -> Answer<proto::GetSeriesResponse> {
        none()
    }

    async fn watch(&self, _: Request<proto::WatchRequest>) -> Answer<Self::WatchStream> {
        none()
    }

    async fn get_advice(&self, _: Request<proto::GetAdviceRequest>) -> Answer<proto::GetAdviceResponse> {
        none()
    }

    async fn get_diagnosis(&self, _: Request<proto::GetDiagnosisRequest>) -> Answer<proto::GetDiagnosisResponse> {
        none()
    }

    async fn get_sidecar(&self, _: Request<proto::GetSidecarRequest>) -> Answer<proto::GetSidecarResponse> {
        none()
    }
}
