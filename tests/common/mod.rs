//! The real program with its two ports, and valid messages to send to it.
#![allow(dead_code, unused_imports, reason = "shared by tests, each of which uses a part")]

pub mod certificates;
pub mod npy;
pub mod postgres;
pub mod rows;
pub mod signal;
pub mod stored;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use conceptwatch::history::{Limits, Sqlite};
use conceptwatch::server::proto::concept_watch_client::ConceptWatchClient;
use conceptwatch::server::proto::{self, IngestRequest, IngestResponse};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

pub use rows::{Sent, chunk, end_pass, run, run_of_ranks};

/// Time after which a test stops waiting. Tests never measure time, since a loaded machine may be arbitrarily slow.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub type Client = ConceptWatchClient<Channel>;

/// `conceptwatch` with an empty environment.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conceptwatch"));
    // Whatever sidecar listens at the usual port is not the test's.
    command.env_clear().env("CONCEPTWATCH_HTTP_ADDRESS", "127.0.0.1:1").stdin(Stdio::null());
    command
}

/// `conceptwatch` with these arguments in an empty environment, run to its end.
pub fn conceptwatch(arguments: &[&str]) -> Done {
    Done::of(program().args(arguments))
}

/// How a command ended, and what it printed.
#[derive(Debug)]
pub struct Done {
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Done {
    pub fn of(command: &mut Command) -> Self {
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { status: status.code(), out: text(stdout), err: text(stderr) }
    }

    /// What it printed: it succeeded.
    pub fn ok(self) -> String {
        assert_eq!(self.status, Some(0), "{self:?}");
        self.out
    }

    pub fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.ok()).unwrap()
    }

    /// Why it was refused, with this status and in one line; of wrong options, what clap says.
    pub fn refused(self, status: i32) -> String {
        assert_eq!(self.status, Some(status), "{self:?}");
        assert!(self.err.lines().count() == 1 || self.err.starts_with("error: "), "{self:?}");
        self.err
    }
}

const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// A running `conceptwatch serve`, stopped on drop.
pub struct Sidecar {
    child: Child,
    /// Those of gRPC and HTTP, as in its port file.
    pub addresses: [String; 2],
    /// The same where they are TCP.
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    directory: tempfile::TempDir,
}

impl Sidecar {
    /// Starts on free ports and waits until both are open. Scoring may use all of the CPU unless the arguments say
    /// otherwise.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_as(program(), arguments)
    }

    pub fn start_as(mut command: Command, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let asked = arguments.iter().position(|argument| *argument == "--port-file");
        let ports = asked.map_or_else(|| directory.path().join("ports"), |at| arguments[at + 1].into());
        let log = std::fs::File::create(directory.path().join("log")).unwrap();
        command.arg("serve");
        for port in ["--grpc-address", "--http-address"].iter().filter(|port| !arguments.contains(port)) {
            command.args([port, "127.0.0.1:0"]);
        }
        // Other tests may keep every core busy.
        if !arguments.contains(&"--cpu-share") {
            command.args(["--cpu-share", "16", "--busy-cpu-share", "16"]);
        }
        if asked.is_none() {
            command.arg("--port-file").arg(&ports);
        }
        let mut child = command.args(["--niceness", "0"]).args(arguments).stderr(log).spawn().unwrap();
        let deadline = Instant::now() + PATIENCE;
        let text = loop {
            // What stood there before may be a link.
            if std::fs::symlink_metadata(&ports).is_ok_and(|metadata| metadata.is_file()) {
                break std::fs::read_to_string(&ports).unwrap();
            }
            if let Some(status) = child.try_wait().unwrap() {
                let log = std::fs::read_to_string(directory.path().join("log")).unwrap();
                panic!("the sidecar ended with {status}: {log}");
            }
            assert!(Instant::now() < deadline, "the ports did not open");
            std::thread::sleep(Duration::from_millis(5));
        };
        let addresses: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let addresses: [String; 2] = addresses.try_into().unwrap();
        let [grpc, http] = addresses.each_ref().map(|address| address.parse().unwrap_or(NOWHERE));
        Self { child, addresses, grpc, http, directory }
    }

    pub async fn client(&self) -> Client {
        self.connect().await.unwrap()
    }

    pub async fn connect(&self) -> Result<Client, tonic::transport::Error> {
        let client = ConceptWatchClient::connect(format!("http://{}", self.grpc)).await?;
        Ok(client.max_decoding_message_size(64 << 20).max_encoding_message_size(usize::MAX))
    }

    /// The body of a page of the HTTP port.
    pub fn get(&self, path: &str) -> String {
        self.ask("GET", path, "", "").1
    }

    /// The same of a page of JSON.
    pub fn json(&self, path: &str) -> serde_json::Value {
        serde_json::from_str(&self.get(path)).unwrap()
    }

    /// The status and the body of an answer of the HTTP port, to a request with these `headers`, each a line.
    pub fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let (status, _, body) = self.answer(method, path, headers, body);
        (status, body)
    }

    /// The same with the answer's headers in between, with their names in lower case.
    pub fn answer(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, Vec<(String, String)>, String) {
        let mut stream = TcpStream::connect(self.http).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (host, length) = (self.http, body.len());
        let headers = format!("Host: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}");
        write!(stream, "{method} {path} HTTP/1.1\r\n{headers}\r\n{body}").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let status = text.split(' ').nth(1).unwrap().parse().unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let headers = head.lines().filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        (status, headers, body.to_owned())
    }

    /// The sum of a metric over all its series whose labels contain `labels`; 0 while it has none.
    pub fn metric(&self, name: &str, labels: &str) -> f64 {
        metric(&self.get("/metrics"), name, labels)
    }

    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM and returns the exit status. Panics if the process does not end.
    pub fn terminate(mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        signal::terminate(&self.child);
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("did not end after SIGTERM");
    }

    /// Sends SIGTERM and waits for a clean end, while the clients of the test go on.
    pub async fn stop(self) {
        let status = tokio::task::spawn_blocking(move || self.terminate()).await.unwrap();
        assert!(status.success(), "ended with {status}");
    }

    /// Sends SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    pub fn logged(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap()
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        // Both fail if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.log()).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("the sidecar's last words:\n{}", lines[lines.len().saturating_sub(20)..].join("\n"));
        }
    }
}

pub fn metric(text: &str, name: &str, labels: &str) -> f64 {
    let series = text.lines().filter_map(|line| line.rsplit_once(' '));
    series
        .filter(|(series, _)| match series.strip_prefix(name) {
            Some("") => labels.is_empty(),
            Some(rest) => rest.starts_with('{') && rest.contains(labels),
            None => false,
        })
        .map(|(_, value)| value.parse::<f64>().unwrap())
        .sum()
}

/// One ingest stream.
pub struct Stream {
    pub sender: mpsc::Sender<IngestRequest>,
    answers: Streaming<IngestResponse>,
    /// What the sidecar has reported as settled so far.
    pub settled: Vec<proto::Settled>,
}

impl Stream {
    pub async fn open(client: &mut Client) -> Self {
        let (sender, receiver) = mpsc::channel(8);
        let answers = client.ingest(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Self { sender, answers, settled: Vec::new() }
    }

    pub async fn send(&self, message: impl Sent) {
        let request = IngestRequest { message: Some(message.message()) };
        self.sender.send(request).await.expect("the stream is open");
    }

    /// The next answer, or the status with which the stream ended.
    pub async fn next(&mut self) -> Result<Option<IngestResponse>, Status> {
        loop {
            let answer = self.any().await?;
            let is_report = |answer: &IngestResponse| answer.sequence == 0 && !answer.settled.is_empty();
            if !answer.as_ref().is_some_and(is_report) {
                return Ok(answer);
            }
        }
    }

    /// The next answer, or report of settled passes.
    async fn any(&mut self) -> Result<Option<IngestResponse>, Status> {
        let answer = tokio::time::timeout(PATIENCE, self.answers.message()).await.expect("an answer in time")?;
        if let Some(answer) = &answer {
            let of_end = answer.end_pass.iter().flat_map(|end| &end.settled);
            self.settled.extend(answer.settled.iter().chain(of_end).cloned());
        }
        Ok(answer)
    }

    /// Waits until a pass of `val` is reported as settled. Its outcome and reason.
    pub async fn settled(&mut self, step: u64) -> (proto::settled::Outcome, String) {
        loop {
            let found = self.settled.iter().find(|settled| settled.split == "val" && settled.step == step);
            if let Some(found) = found {
                return (found.outcome(), found.reason.clone());
            }
            self.any().await.unwrap().expect("a report and not the stream's end");
        }
    }

    pub async fn answer(&mut self) -> IngestResponse {
        self.next().await.unwrap().expect("an answer and not the stream's end")
    }

    /// Sends a whole message and returns its answer.
    pub async fn ask(&mut self, message: impl Sent) -> IngestResponse {
        self.send(message).await;
        self.answer().await
    }

    /// Sends these rows of `val` and the end of their pass.
    pub async fn pass(&mut self, run: &str, step: u64, rows: std::ops::Range<u64>) {
        self.ask(proto::BatchChunk { step, ..chunk(run, 2 * step, rows) }).await;
        self.ask(proto::EndPass { step, ..end_pass(run, 2 * step + 1) }).await;
    }

    /// Closes the sending side and waits for the server's last answers.
    pub async fn close(self) -> Vec<IngestResponse> {
        let Self { sender, mut answers, .. } = self;
        drop(sender);
        let mut last = Vec::new();
        while let Ok(Some(answer)) = tokio::time::timeout(PATIENCE, answers.message()).await.expect("an end in time") {
            last.push(answer);
        }
        last
    }
}

/// Waits for the point of a step.
pub async fn point(client: &mut Client, run: &str, split: &str, step: impl Into<Option<u64>>) -> proto::Point {
    let request = proto::GetScoresRequest {
        run: run.into(),
        split: split.into(),
        step: step.into(),
        timeout_seconds: PATIENCE.as_secs_f64(),
        matrices: true,
        ..Default::default()
    };
    client.get_scores(request).await.unwrap().into_inner().point.expect("a point")
}

/// Sends a pass of 64 rows of `r` and waits for its point.
pub async fn pass(client: &mut Client, step: u64) -> proto::Point {
    Stream::open(client).await.pass("r", step, 0..64).await;
    point(client, "r", "val", step).await
}

/// The status of a run's split; `None` when the run has no such split.
pub async fn split(client: &mut Client, run: &str, split: &str) -> Option<proto::SplitStatus> {
    let runs = client.list_runs(proto::ListRunsRequest::default()).await.unwrap().into_inner().runs;
    let found = runs.into_iter().find(|status| status.run.as_ref().is_some_and(|r| r.name == run));
    found.expect("the run is listed").splits.into_iter().find(|status| status.split == split)
}

/// Waits until a condition holds.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The history in a directory, with a limit that no test reaches.
pub fn open_history(directory: &Path) -> Sqlite {
    Sqlite::open(Some(directory), Limits { bytes: 1 << 30 }).unwrap()
}

/// Writes a file that only this user can read.
pub fn write_secret(path: &Path, content: &str) {
    std::fs::write(path, content).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// The answers of the API that a report holds.
pub fn answers_in(report: &str) -> serde_json::Value {
    let (_, after) = report.split_once("id=\"answers\">").unwrap();
    serde_json::from_str(after.split_once("</script>").unwrap().0).unwrap()
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
