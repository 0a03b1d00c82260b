//! Resident memory of the program: idle, after a page load, and while eight connections send 64 MiB batches.

#[path = "machine/mod.rs"]
mod machine;
#[path = "traffic/mod.rs"]
mod traffic;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use conceptwatch::server::proto::concept_watch_client::ConceptWatchClient;
use conceptwatch::server::proto::ingest_response::Outcome;
use futures::stream;
use tokio::runtime::Builder;
use tonic::Code;

use traffic::{Rank, Values};

const CONNECTIONS: usize = 8;
/// Rows per batch, just below 64 MiB.
const ROWS: usize = 117_000;
/// Batches per pass.
const PASS: u64 = 4;
const LOAD: Duration = Duration::from_secs(8);
const IDLE_LIMIT: f64 = 40.0;
/// Default limits on batches in flight, samples and curves, in MiB.
const BOUNDS: f64 = 256.0 + 512.0 + 64.0;
/// Highest acceptable resident memory above `BOUNDS` under load, in MiB.
const LOAD_LIMIT: f64 = 64.0;
const MIB: f64 = (1u64 << 20) as f64;

fn main() {
    println!("memory: {}\n", machine::facts());
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let server = Server::start(&directory.path().join("ports"));
    let within = |value: f64, limit: f64| if value < limit { "" } else { "  above the limit" };
    let line = |what: &str, value: f64, note: &str| println!("{what:58} {value:>8.1} MiB{note}");

    std::thread::sleep(Duration::from_millis(500));
    let idle = server.memory("VmRSS");
    line("resident after the start", idle, within(idle, IDLE_LIMIT));
    server.load_page();
    let page = server.memory("VmRSS");
    line("resident after a page load", page, within(page, IDLE_LIMIT));

    for passes_end in [false, true] {
        let load = server.load(passes_end);
        let peak = server.memory("VmHWM");
        let size = (ROWS * traffic::ROW_BYTES) as f64 / MIB;
        let passes = if passes_end { "passes end and are scored" } else { "passes stay open: no scoring" };
        println!("\n{CONNECTIONS} connections, batches of {size:.1} MiB, {:.0} s, {passes}:", LOAD.as_secs_f64());
        println!("  {:.0} MB/s; {} batches accepted, {} deferred", load.speed, load.taken, load.put_off);
        line("peak resident", peak, within(peak, BOUNDS + LOAD_LIMIT));
        line("most in use of the ingest budget, of 256 MiB", load.budget, "");
        line("most in use of the samples' memory, of 512 MiB", load.samples, "");
        let above = peak - load.budget - load.samples;
        line("peak above what was in use", above, "");
    }
    std::thread::sleep(Duration::from_secs(4));
    line("resident 4 s after", server.memory("VmRSS"), "");
    println!("\nlimits: {IDLE_LIMIT:.0} MiB idle; {LOAD_LIMIT:.0} MiB above the configured {BOUNDS:.0} MiB");
}

/// `conceptwatch serve` with its defaults, on free ports.
struct Server {
    process: Child,
    grpc: SocketAddr,
    http: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only if the process has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Results of the load.
#[derive(Default)]
struct Load {
    /// MB/s of accepted batches.
    speed: f64,
    taken: u64,
    put_off: u64,
    /// MiB.
    budget: f64,
    samples: f64,
}

impl Server {
    // `drop` waits for the process; the early exits of this function end the benchmark.
    #[allow(clippy::zombie_processes)]
    fn start(ports: &Path) -> Self {
        let free = "127.0.0.1:0";
        let mut process = Command::new(env!("CARGO_BIN_EXE_conceptwatch"))
            .args(["serve", "--grpc-address", free, "--http-address", free, "--log", "error", "--exit-with-stdin"])
            .arg("--port-file")
            .arg(ports)
            .stdin(Stdio::piped())
            .spawn()
            .expect("the program starts");
        for _ in 0..200 {
            if let Ok(text) = std::fs::read_to_string(ports) {
                let mut addresses = text.split_whitespace().map(|text| text.parse().expect("an address"));
                let mut next = || addresses.next().expect("two addresses");
                return Self { grpc: next(), http: next(), process };
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = process.kill();
        panic!("the program opened no port");
    }

    /// A field of /proc/PID/status, in MiB.
    fn memory(&self, field: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("Linux, and alive");
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        kibibytes.expect("a size in kB") / 1024.0
    }

    /// The body of a page, in an encoding.
    fn get(&self, path: &str, encoding: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.http).expect("the port is open");
        let host = self.http;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept-Encoding: {encoding}\r\nConnection: close\r\n\r\n"
        )
        .expect("the request is sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("the answer arrives");
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{path}: {}", String::from_utf8_lossy(&answer[..60]));
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("headers end");
        answer.split_off(end + 4)
    }

    /// Loads the page, everything it links to, and the first requests of its script.
    fn load_page(&self) {
        let page = String::from_utf8(self.get("/", "identity")).expect("a page in UTF-8");
        let linked: Vec<&str> = page.split('"').filter(|text| text.starts_with("assets/")).collect();
        assert!(linked.len() >= 3, "the page links to {linked:?}");
        for path in linked {
            self.get(&format!("/{path}"), "gzip");
        }
        for path in ["/api/v1/catalogue", "/api/v1/runs", "/api/v1/status", "/metrics"] {
            self.get(path, "gzip");
        }
    }

    fn load(&self, passes_end: bool) -> Load {
        let values = Arc::new(Values::new(ROWS));
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads start");
        let until = Instant::now() + LOAD;
        let connections: Vec<_> = (0..CONNECTIONS)
            .map(|at| runtime.spawn(send(self.grpc, format!("run {at}"), passes_end, Arc::clone(&values), until)))
            .collect();
        let mut load = Load::default();
        while Instant::now() < until {
            let metrics = String::from_utf8(self.get("/metrics", "identity")).expect("metrics in UTF-8");
            load.budget = load.budget.max(gauge(&metrics, "conceptwatch_ingest_budget_used_bytes"));
            load.samples = load.samples.max(gauge(&metrics, "conceptwatch_sample_memory_bytes"));
            std::thread::sleep(Duration::from_millis(20));
        }
        for connection in connections {
            let (taken, put_off) = runtime.block_on(connection).expect("sending does not panic");
            load.taken += taken;
            load.put_off += put_off;
        }
        load.speed = load.taken as f64 * values.bytes() as f64 / 1e6 / LOAD.as_secs_f64();
        load
    }
}

/// A gauge without labels, in MiB.
fn gauge(metrics: &str, name: &str) -> f64 {
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
    value.expect("the gauge is exported") / MIB
}

/// Sends batches until the deadline, retrying deferred ones. Returns the numbers of accepted and deferred batches.
async fn send(grpc: SocketAddr, run: String, passes_end: bool, values: Arc<Values>, until: Instant) -> (u64, u64) {
    let mut calls = ConceptWatchClient::connect(format!("http://{grpc}")).await.expect("the server listens");
    calls.start_run(traffic::start_run(&run, "benchmark")).await.expect("a valid run");
    let mut rank = Rank::new(&run);
    let (mut taken, mut put_off) = (0, 0);
    while Instant::now() < until {
        let mut messages = rank.batch(&values);
        if passes_end && (taken + 1) % PASS == 0 {
            messages.push(rank.end_pass());
        }
        let answered = messages.iter().filter(|message| traffic::is_answered(message).is_some()).count();
        loop {
            let sent = calls.ingest(stream::iter(messages.clone())).await;
            let mut answers = match sent {
                Ok(answers) => answers.into_inner(),
                Err(status) => panic!("{status}"),
            };
            let mut acknowledged = 0;
            let passing = loop {
                match answers.message().await {
                    // Reports of settled passes come between the answers.
                    Ok(Some(answer)) if answer.sequence == 0 && !answer.settled.is_empty() => {}
                    Ok(Some(answer)) => {
                        assert_ne!(answer.outcome(), Outcome::Refused, "{}: {}", answer.field, answer.message);
                        acknowledged += 1;
                    }
                    Ok(None) => break false,
                    Err(status) if status.code() == Code::Unavailable => break true,
                    Err(status) => panic!("{status}"),
                }
            };
            if !passing {
                assert_eq!(acknowledged, answered, "an answer to each batch");
                taken += 1;
                break;
            }
            put_off += 1;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    (taken, put_off)
}
