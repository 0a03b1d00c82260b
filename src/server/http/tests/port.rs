//! A real port over a scripted sidecar, and a client that asks it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::Request;
use hyper::client::conn::http1;
use hyper::header::HeaderValue;
use hyper_util::rt::TokioIo;
use prometheus::Registry;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::super::*;
use crate::history::{Identity, Limits, RunOutcome, Sqlite, Store};
use crate::server::events::{Bounds as EventBounds, Events};
use crate::server::live::{Latest, Live, RunStatus, SplitStatus, Status};
use crate::server::metrics::Metrics;
use crate::server::peers::Listener;
use leakage::point::{LeftOut, Outcome, Point, ScoreValue};
use leakage::run::{Concept, Run, RunFields};
use leakage::score::catalogue::{ROW, Score};

/// A run name with every character that names may have.
pub const NAME: &str = "toy/0.25: a_b-c";
/// When its job was last heard of: never too long ago.
pub const HEARD: f64 = 1e10;
pub const LONG: Duration = Duration::from_secs(20);

struct Scripted {
    ready: Result<(), String>,
    busy: Arc<AtomicBool>,
    late: Arc<Mutex<Vec<Arc<Point>>>>,
}

impl Live for Scripted {
    fn runs(&self) -> Vec<RunStatus> {
        let split = |split: &str, window| SplitStatus {
            split: split.into(),
            window,
            rows_received: 10,
            rows_duplicate: 2,
            rows_dropped: 1,
            passes_unsettled: 3,
        };
        let splits = vec![split("train", "recent"), split("val", "pass")];
        vec![RunStatus { name: NAME.into(), splits, lost: None, heard: Some(HEARD) }]
    }

    fn latest(&self) -> Vec<Latest> {
        let point = Some(Arc::new(point(2)));
        let concepts = ["x".to_owned(), "y".to_owned()].into();
        vec![Latest {
            run: NAME.into(),
            split: "val".into(),
            concepts,
            tasks: [].into(),
            point,
            late: self.late.lock().unwrap().clone(),
            rolling: false,
            filling: false,
        }]
    }

    fn status(&self) -> Status {
        while self.busy.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Status {
            version: "1.2.3",
            catalogue_version: 7,
            uptime_seconds: 5.0,
            lag_seconds: 0.5,
            rows_dropped: 1,
            points_skipped: 2,
            memory_bytes: 3,
            memory_limit_bytes: 4,
            staleness_seconds: 6.0,
            cpu_share: 0.5,
            cpu_seconds: 7.0,
            estimator: "tie_aware",
            ..Status::default()
        }
    }

    fn ready(&self) -> Result<(), String> {
        self.ready.clone()
    }
}

const fn score(id: &'static str, matrix: bool) -> Score {
    Score { id, title: "Title", unit: "share", per_concept: true, matrix, help: "Help.", ..ROW }
}

pub fn point(step: u64) -> Point {
    let icl = ScoreValue {
        value: 0.125 * step as f64,
        standard_error: Some(0.01),
        per_concept: Some(vec![Some(0.5), None]),
        matrix: Some(vec![vec![None, Some(0.25)], vec![Some(0.75), None]]),
        left_out: Some(LeftOut { concepts: vec![1], pairs: 0, of: 2, why: "one class".into() }),
        p_value: Some(0.005),
        per_concept_q: Some(vec![Some(0.25), None]),
        matrix_q: Some(vec![vec![None, Some(0.5)], vec![Some(1.0), None]]),
        ..ScoreValue::default()
    };
    Point {
        run: NAME.into(),
        split: "val".into(),
        step,
        time: 100.0,
        rows: 64,
        rows_seen: 64,
        estimator: "tie_aware".into(),
        neighbours: 3,
        catalogue_version: 7,
        seconds: 0.1,
        scores: vec![("icl".into(), Outcome::Value(icl)), ("ctl".into(), Outcome::undefined("one class"))],
        ..Point::default()
    }
}

pub fn run(name: &str) -> Run {
    let concepts = ["x", "y"].map(|name| Concept { name: name.into(), cardinality: 2, ..Concept::default() }).to_vec();
    let labels = [("lambda".to_owned(), "5".to_owned())].into();
    Run::try_from(RunFields { name: name.into(), concepts, labels, ..RunFields::default() }).unwrap()
}

pub struct Port {
    pub address: SocketAddr,
    pub app: App,
    /// While true, calls for the sidecar's status block.
    pub busy: Arc<AtomicBool>,
    /// Scores that joined points later.
    pub late: Arc<Mutex<Vec<Arc<Point>>>>,
    pub stop: CancellationToken,
    pub served: JoinHandle<()>,
}

pub async fn port() -> Port {
    port_with(None, Ok(()), Bounds::default()).await
}

pub async fn port_with(token: Option<&str>, ready: Result<(), String>, bounds: Bounds) -> Port {
    let history = Sqlite::open(None, Limits { bytes: 1 << 24 }).unwrap();
    history.record_run(&run("earlier"), &Identity::default(), 10.0).unwrap();
    history.record_run(&run(NAME), &Identity::default(), 20.0).unwrap();
    history.finish_run("earlier", 15.0, &RunOutcome::Finished).unwrap();
    for step in [1, 2] {
        history.record_point(&point(step), None).unwrap();
    }
    let (busy, late) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let live = Arc::new(Scripted { ready, busy: Arc::clone(&busy), late: Arc::clone(&late) });
    let registry = Registry::new();
    static SCORES: [Score; 2] = [score("icl", true), score("ctl", false)];
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local().tcp().unwrap();
    let app = App {
        history: Arc::new(history),
        metrics: Metrics::register(&registry, "1.2.3", 7).unwrap(),
        registry,
        scores: &SCORES,
        events: Events::new(EventBounds { events: 4, bytes: usize::MAX }),
        live,
        access: Arc::new(Access::new(listener.local(), &["box.example".to_owned()], token, None)),
        rows: Arc::default(),
    };
    let stop = CancellationToken::new();
    let exposition = Exposition::start(app.clone(), &stop);
    let served = tokio::spawn(serve(listener, None, exposition, bounds, stop.clone()));
    Port { address, app, busy, late, stop, served }
}

pub struct Reply {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn json(&self) -> Value {
        assert_eq!(self.headers["content-type"], "application/json");
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The field of an error; also checks the error's shape.
    pub fn field(&self) -> String {
        let body = self.json();
        assert!(body["error"]["message"].as_str().is_some_and(|message| !message.is_empty()));
        body["error"]["field"].as_str().unwrap().to_owned()
    }
}

impl Port {
    pub async fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, "Host: localhost\r\n").await
    }

    pub async fn ask(&self, method: &str, path: &str, headers: &str) -> Reply {
        self.ask_with(method, path, headers, "").await
    }

    pub async fn ask_with(&self, method: &str, path: &str, headers: &str, body: &str) -> Reply {
        let stream = TokioIo::new(TcpStream::connect(self.address).await.unwrap());
        let (mut client, connection) = http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers.lines().map(|line| line.split_once(": ").unwrap()) {
            request = request.header(name, value);
        }
        let answer = client.send_request(request.body(body.to_owned()).unwrap());
        let (head, body) = timeout(LONG, answer).await.expect("an answer").unwrap().into_parts();
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let body = timeout(LONG, body.collect()).await.expect("a body").unwrap().to_bytes().to_vec();
        Reply { status: head.status.as_u16(), headers, body }
    }

    /// The event stream after its head and its first message.
    pub async fn events(&self) -> BufReader<TcpStream> {
        let mut stream = BufReader::new(TcpStream::connect(self.address).await.unwrap());
        stream
            .write_all(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n")
            .await
            .unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(timeout(LONG, stream.read_line(&mut head)).await.unwrap().unwrap(), 0);
        }
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("text/event-stream"), "{head}");
        assert!(!head.contains("content-encoding"), "{head}");
        assert_eq!(next_event(&mut stream).await.0, "begin");
        stream
    }

    /// A connection that says nothing more after a byte.
    pub async fn silent(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(b"G").await.unwrap();
        stream
    }

    /// Returns once no connection is open.
    pub async fn deserted(&self) {
        let open = self.app.metrics.connections.with_label_values(&["http"]);
        let wait = async {
            while open.get() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(LONG, wait).await.expect("all connections are closed");
    }

    pub async fn stopped(self) {
        self.stop.cancel();
        timeout(LONG, self.served).await.expect("the port stops").unwrap();
    }
}

/// The next message of the event stream and its id.
pub async fn next_message(stream: &mut BufReader<TcpStream>) -> (String, Value, String) {
    let (mut kind, mut content, mut id) = Default::default();
    loop {
        let mut line = String::new();
        assert_ne!(timeout(LONG, stream.read_line(&mut line)).await.expect("an event").unwrap(), 0);
        let field = |name: &str| line.strip_prefix(name).map(|text| text.trim().to_owned());
        kind = field("event: ").unwrap_or(kind);
        id = field("id: ").unwrap_or(id);
        content = field("data: ").map_or(content, |text| serde_json::from_str(&text).unwrap());
        if line.trim().is_empty() && !kind.is_empty() {
            return (kind, content, id);
        }
    }
}

pub async fn next_event(stream: &mut BufReader<TcpStream>) -> (String, Value) {
    let (kind, content, _) = next_message(stream).await;
    (kind, content)
}
