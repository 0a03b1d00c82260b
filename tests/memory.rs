//! What peers make the program hold, by the kernel's count.
#![cfg(target_os = "linux")]

#[path = "common/mod.rs"]
mod common;

use bytes::Bytes;
use conceptwatch::server::proto::BatchChunk;
use conceptwatch::server::proto::ingest_response::Outcome;
use h2::SendStream;
use h2::client::{ResponseFuture, SendRequest};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::codegen::http::Request;

use common::{PATIENCE, Sidecar, Stream, chunk, run, until};

const INGEST: &str = "Ingest";
/// MiB.
const BUDGET: f64 = 64.0;
/// Beside the budget: what the allocator and the runtime need, in MiB.
const BESIDE: f64 = 32.0;

fn resident(sidecar: &Sidecar) -> f64 {
    memory(sidecar, "VmRSS")
}

/// A field of the kernel's status of the process, in MiB.
fn memory(sidecar: &Sidecar, field: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", sidecar.process_id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<f64>().unwrap() / 1024.0
}

/// A bare HTTP/2 connection.
struct Peer {
    requests: SendRequest<Bytes>,
    connection: tokio::task::JoinHandle<()>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

struct Call {
    send: SendStream<Bytes>,
    /// Dropped, it would end the call.
    response: ResponseFuture,
}

impl Peer {
    async fn open(sidecar: &Sidecar) -> Self {
        let stream = TcpStream::connect(sidecar.grpc).await.unwrap();
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        // Its error is seen by the calls.
        let connection = tokio::spawn(async move { drop(connection.await) });
        Self { requests, connection }
    }

    async fn call(&mut self, method: &str) -> Call {
        let request = Request::post(format!("http://localhost/conceptwatch.v1.ConceptWatch/{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        let mut ready = self.requests.clone().ready().await.unwrap();
        let (response, send) = ready.send_request(request.body(()).unwrap(), false).unwrap();
        Call { send, response }
    }
}

impl Call {
    /// Sends bytes as far as the program takes them. Whether it took all.
    async fn send(&mut self, mut bytes: Bytes) -> bool {
        while !bytes.is_empty() {
            self.send.reserve_capacity(bytes.len().min(1 << 16));
            let capacity = futures::future::poll_fn(|context| self.send.poll_capacity(context));
            let Ok(Some(Ok(capacity))) = timeout(PATIENCE, capacity).await else { return false };
            if self.send.send_data(bytes.split_to(capacity.min(bytes.len())), false).is_err() {
                return false;
            }
        }
        true
    }

    /// The first part of a message of `length` bytes.
    async fn send_part(&mut self, length: u32, part: usize) -> bool {
        let head = [&[0], &length.to_be_bytes()[..]].concat();
        self.send(head.into()).await && self.send(vec![1; part].into()).await
    }
}

fn start() -> Sidecar {
    Sidecar::start(&["--ingest-mib", &BUDGET.to_string()])
}

/// A good client is served at any time.
async fn a_good_client_is_served(sidecar: &Sidecar, name: &str) {
    let mut client = sidecar.client().await;
    client.start_run(run(name)).await.unwrap();
    let mut stream = Stream::open(&mut client).await;
    assert_eq!(stream.ask(chunk(name, 1, 0..16)).await.outcome(), Outcome::Accepted);
}

async fn half_sent(method: &str, length: u32) {
    let sidecar = start();
    a_good_client_is_served(&sidecar, "before").await;
    let before = resident(&sidecar);
    let mut peers = Vec::new();
    let mut calls = Vec::new();
    for _ in 0..8 {
        let mut peer = Peer::open(&sidecar).await;
        for _ in 0..64 {
            let mut call = peer.call(method).await;
            call.send_part(length, length as usize / 2).await;
            calls.push(call);
        }
        peers.push(peer);
    }
    let during = resident(&sidecar);
    assert!(during < before + BUDGET + BESIDE, "{before} MiB before, {during} MiB with half-sent messages");
    let held = sidecar.metric("conceptwatch_ingest_budget_used_bytes", "") / f64::from(1 << 20);
    assert!(held > BUDGET / 4.0 && held <= BUDGET, "{held} MiB are shown as reserved");
    assert!(sidecar.metric("conceptwatch_batches_refused_total", "Unavailable") > 0.0);
    drop((calls, peers));
    until("what was reserved is free", || sidecar.metric("conceptwatch_ingest_budget_used_bytes", "") == 0.0).await;
    until("memory is returned", || resident(&sidecar) < before + BESIDE).await;
    a_good_client_is_served(&sidecar, "after").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_sent_batches_hold_no_more_than_the_budget() {
    half_sent(INGEST, 4 << 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_sent_declarations_hold_no_more_than_the_budget() {
    half_sent("StartRun", 4 << 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_the_token_is_refused_on_its_headers() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    common::write_secret(&token, "a-token-of-the-tests");
    let sidecar = Sidecar::start(&["--token-file", common::text(&token)]);
    let mut peer = Peer::open(&sidecar).await;
    for method in [INGEST, "StartRun", "Unknown"] {
        // Nothing of the body is sent.
        let answer = timeout(PATIENCE, peer.call(method).await.response).await.unwrap().unwrap();
        assert_eq!(answer.headers()["grpc-status"], "16", "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_of_unfinished_batches_are_counted_without_row_numbers() {
    let sidecar = start();
    a_good_client_is_served(&sidecar, "before").await;
    let before = resident(&sidecar);
    let mut client = sidecar.client().await;
    let mut streams = Vec::new();
    let used = || sidecar.metric("conceptwatch_ingest_budget_used_bytes", "") / f64::from(1 << 20);
    for at in 0..16 {
        let mut unfinished = BatchChunk { last: false, row_numbers: vec![1; 1 << 20], ..chunk("before", 1, 0..16) };
        // It is refused, once its last chunk is there.
        unfinished.client = "x".repeat(1 << 20);
        let stream = Stream::open(&mut client).await;
        stream.send(unfinished).await;
        until("its header is kept", || (f64::from(at + 1)..f64::from(at + 2)).contains(&used())).await;
        streams.push(stream);
    }
    let during = resident(&sidecar);
    assert!(during < before + used() + BESIDE, "{before} MiB before, {during} MiB with {} MiB reserved", used());
    drop(streams);
    until("all is free", || used() == 0.0).await;
}

/// Heaps of the allocator's arenas, each in 64 MiB of addresses of its own. The first arena has none.
#[cfg(all(target_env = "gnu", target_pointer_width = "64"))]
fn heaps(sidecar: &Sidecar) -> usize {
    const ROOM: usize = 64 << 20;
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", sidecar.process_id())).unwrap();
    let regions: Vec<(usize, usize, &str)> = maps
        .lines()
        .filter_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (from, to) = range.split_once('-')?;
            let address = |text| usize::from_str_radix(text, 16).ok();
            Some((address(from)?, address(to)?, &rest[..4]))
        })
        .collect();
    let is_heap = |pair: &&[(usize, usize, &str)]| {
        let (used, unused) = (pair[0], pair[1]);
        (used.2, unused.2) == ("rw-p", "---p") && used.0 % ROOM == 0 && unused.1 - used.0 == ROOM
    };
    regions.windows(2).filter(is_heap).count()
}

/// A scoring thread runs only on idle cores. If it lost its core while it held the lock of an arena that the ports use as
/// well, they would answer nobody until a core is idle again.
#[cfg(all(target_env = "gnu", target_pointer_width = "64"))]
#[tokio::test(flavor = "multi_thread")]
async fn threads_that_serve_and_threads_that_score_share_no_arena() {
    let sidecar = start();
    a_good_client_is_served(&sidecar, "before").await;
    let threads = || std::fs::read_dir(format!("/proc/{}/task", sidecar.process_id())).unwrap().count();
    // The main thread's arena is not among the heaps, and a thread that has just started has none yet.
    until("each thread has an arena", || heaps(&sidecar) + 1 >= threads()).await;
}

/// Readers that come at once need threads. If each of these stayed, and kept what its largest answer took, memory would
/// grow with the busiest moment that there ever was.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_readers_leaves_neither_threads_nor_arenas() {
    const READERS: usize = 24;
    let sidecar = Sidecar::start(&[]);
    let mut client = sidecar.client().await;
    for number in 0..200 {
        client.start_run(run(&format!("r{number}"))).await.unwrap();
    }
    let threads = || std::fs::read_dir(format!("/proc/{}/task", sidecar.process_id())).unwrap().count();
    let before = threads();
    let most = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|_| scope.spawn(|| (0..20).for_each(|_| assert!(sidecar.get("/api/v1/runs").contains("r199")))))
            .collect();
        let mut most = before;
        while !readers.iter().all(|reader| reader.is_finished()) {
            most = most.max(threads());
        }
        most
    });
    assert!(most >= before + 8, "{most} threads, {before} before: the readers came one by one");
    #[cfg(all(target_env = "gnu", target_pointer_width = "64"))]
    assert!(heaps(&sidecar) <= 15, "{} arenas", heaps(&sidecar));
    // Though there is always one who reads.
    until("the threads end", || sidecar.get("/api/v1/status").contains("version") && threads() < before + 4).await;
}
