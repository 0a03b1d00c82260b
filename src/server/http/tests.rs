//! Over a real port, with a client that writes and reads the bytes of HTTP/1.1.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::history::Limits;
use crate::point::{Outcome, Point, ScoreValue};
use crate::run::{Concept, Run, RunFields};
use crate::server::live::{AlertChange, Latest, RunStatus, SplitStatus, Status};
use crate::server::metrics::ScoreCollector;

/// A run name with every character that names may have.
const NAME: &str = "toy/0.25: a_b-c";
const LONG: Duration = Duration::from_secs(20);

struct Scripted {
    ready: Result<(), String>,
}

impl Live for Scripted {
    fn runs(&self) -> Vec<RunStatus> {
        let split = |split: &str, window| SplitStatus {
            split: split.into(),
            window,
            rows_received: 10,
            rows_duplicate: 2,
            rows_dropped: 1,
        };
        vec![RunStatus { name: NAME.into(), splits: vec![split("train", "recent"), split("val", "pass")] }]
    }

    fn latest(&self) -> Vec<Latest> {
        let point = Some(Arc::new(point(2)));
        let concepts = ["x".to_owned(), "y".to_owned()].into();
        vec![Latest { run: NAME.into(), split: "val".into(), concepts, point, filling: false }]
    }

    fn status(&self) -> Status {
        Status {
            version: "1.2.3",
            catalogue_version: 7,
            uptime_seconds: 5.0,
            lag_seconds: 0.5,
            rows_dropped: 1,
            points_skipped: 2,
            memory_bytes: 3,
            estimator: "tie_aware",
        }
    }

    fn ready(&self) -> Result<(), String> {
        self.ready.clone()
    }
}

fn score(id: &'static str, matrix: bool) -> ScoreDescription {
    ScoreDescription {
        id,
        title: "Title",
        family: "leakage",
        paper: "paper",
        equation: "eq. 1",
        unit: "share",
        range: (0.0, 1.0),
        per_concept: true,
        matrix,
        help: "Help.",
    }
}

fn point(step: u64) -> Point {
    let icl = ScoreValue {
        value: 0.125 * step as f64,
        standard_error: Some(0.01),
        per_concept: Some(vec![Some(0.5), None]),
        matrix: Some(vec![vec![None, Some(0.25)], vec![Some(0.75), None]]),
    };
    Point {
        run: NAME.into(),
        split: "val".into(),
        step,
        epoch: None,
        time: 100.0,
        rows: 64,
        rows_seen: 64,
        provisional: false,
        incomplete: false,
        tie_fraction: 0.0,
        warnings: Vec::new(),
        estimator: "tie_aware".into(),
        neighbours: 3,
        seed: 0,
        catalogue_version: 7,
        seconds: 0.1,
        scores: vec![("icl".into(), Outcome::Value(icl)), ("ctl".into(), Outcome::undefined("one class"))],
    }
}

fn run(name: &str) -> Run {
    let concepts = ["x", "y"].map(|name| Concept { name: name.into(), cardinality: 2 }).to_vec();
    let labels = [("lambda".to_owned(), "5".to_owned())].into();
    Run::try_from(RunFields { name: name.into(), concepts, labels, ..RunFields::default() }).unwrap()
}

struct Port {
    address: SocketAddr,
    app: App,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

async fn port() -> Port {
    port_with(None, Ok(()), Bounds::default()).await
}

async fn port_with(token: Option<&str>, ready: Result<(), String>, bounds: Bounds) -> Port {
    let history = History::open(None, Limits { bytes: 1 << 24 }).unwrap();
    history.record_run(&run("earlier"), 10.0).unwrap();
    history.record_run(&run(NAME), 20.0).unwrap();
    history.finish_run("earlier", 15.0).unwrap();
    for step in [1, 2] {
        history.record_point(&point(step)).unwrap();
    }
    let (registry, live) = (Registry::new(), Arc::new(Scripted { ready }));
    let scores: Arc<[_]> = [score("icl", true), score("ctl", false)].into();
    ScoreCollector::register(&registry, live.clone(), &scores).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = App {
        history: Arc::new(history),
        metrics: Metrics::register(&registry, "1.2.3", 7).unwrap(),
        registry,
        scores,
        events: broadcast::Sender::new(4),
        live,
        access: Arc::new(Access::new(address, &["box.example".to_owned()], token)),
    };
    let (stop, stopped) = oneshot::channel();
    let served = tokio::spawn(serve(listener, app.clone(), bounds, async {
        let _ = stopped.await;
    }));
    Port { address, app, stop, served }
}

struct Reply {
    status: u16,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Reply {
    fn json(&self) -> Value {
        assert_eq!(self.headers["content-type"], "application/json");
        serde_json::from_slice(&self.body).unwrap()
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The field of an error, whose shape it checks.
    fn field(&self) -> String {
        let body = self.json();
        assert!(body["error"]["message"].as_str().is_some_and(|message| !message.is_empty()));
        body["error"]["field"].as_str().unwrap().to_owned()
    }
}

impl Port {
    async fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, "Host: localhost\r\n").await
    }

    async fn ask(&self, method: &str, path: &str, headers: &str) -> Reply {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        timeout(LONG, stream.read_to_end(&mut bytes)).await.expect("an answer").unwrap();
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.map(|line| line.split_once(": ").unwrap());
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        Reply { status, headers, body: bytes[end + 4..].to_vec() }
    }

    /// The event stream after its head.
    async fn events(&self) -> BufReader<TcpStream> {
        let mut stream = BufReader::new(TcpStream::connect(self.address).await.unwrap());
        stream.write_all(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(timeout(LONG, stream.read_line(&mut head)).await.unwrap().unwrap(), 0);
        }
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("text/event-stream"), "{head}");
        stream
    }

    async fn stopped(self) {
        self.stop.send(()).unwrap();
        timeout(LONG, self.served).await.expect("the port stops").unwrap();
    }
}

async fn next_event(stream: &mut BufReader<TcpStream>) -> (String, Value) {
    let mut kind = String::new();
    loop {
        let mut line = String::new();
        assert_ne!(timeout(LONG, stream.read_line(&mut line)).await.expect("an event").unwrap(), 0);
        if let Some(event) = line.strip_prefix("event: ") {
            kind = event.trim().to_owned();
        } else if let Some(data) = line.strip_prefix("data: ") {
            return (kind, serde_json::from_str(data).unwrap());
        }
    }
}

/// `NAME` as a browser's encodeURIComponent writes it.
const ENCODED: &str = "toy%2F0.25%3A%20a_b-c";

#[tokio::test(flavor = "multi_thread")]
async fn every_route_answers() {
    let port = port().await;
    let status = port.get("/api/v1/status").await.json();
    assert_eq!(
        (&status["version"], &status["estimator"], &status["lag_seconds"]),
        (&json!("1.2.3"), &json!("tie_aware"), &json!(0.5))
    );
    let catalogue = port.get("/api/v1/catalogue").await.json();
    assert_eq!(catalogue["scores"][0]["id"], "icl");
    assert_eq!(catalogue["scores"][0]["range"], json!([0.0, 1.0]));
    assert_eq!(catalogue["scores"][1]["matrix"], false);

    let runs = port.get("/api/v1/runs").await.json();
    let train = json!({"split": "train", "window": "recent", "rows_received": 10, "rows_duplicate": 2,
        "rows_dropped": 1, "points": 0, "last_step": null});
    let val = json!({"split": "val", "window": "pass", "rows_received": 10, "rows_duplicate": 2,
        "rows_dropped": 1, "points": 2, "last_step": 2});
    let mut expected = json!({"name": NAME, "finished": false, "started": 20.0, "activation_kind": "probability",
        "concepts": ["x", "y"], "labels": {"lambda": "5"}, "world_size": 1, "splits": [train, val]});
    assert_eq!(runs["runs"][0], expected);
    for (key, value) in
        [("name", json!("earlier")), ("finished", json!(true)), ("started", json!(10.0)), ("splits", json!([]))]
    {
        expected[key] = value;
    }
    assert_eq!(runs["runs"][1], expected);

    let series = port.get(&format!("/api/v1/series?run={ENCODED}&split=val&score=icl&first_step=2")).await.json();
    let expected = json!({"step": 2, "epoch": null, "time": 100.0, "value": 0.25, "standard_error": 0.01,
        "undefined": null, "rows": 64, "tie_fraction": 0.0, "provisional": false, "incomplete": false});
    assert_eq!(series, json!({"points": [expected]}));
    let concept =
        port.get(&format!("/api/v1/series?run={ENCODED}&split=val&score=icl&concept=x&last_step=1")).await.json();
    assert_eq!((&concept["points"][0]["value"], &concept["points"][1]), (&json!(0.5), &Value::Null));
    let waiting = port.get(&format!("/api/v1/series?run={ENCODED}&split=train&score=icl")).await;
    assert_eq!((waiting.status, waiting.json()), (200, json!({"points": []})));

    let point = port.get(&format!("/api/v1/point?run={ENCODED}&split=val")).await.json();
    assert_eq!((&point["run"], &point["step"], &point["epoch"]), (&json!(NAME), &json!(2), &Value::Null));
    let icl = json!({"value": 0.25, "standard_error": 0.01, "per_concept": [0.5, null]});
    assert_eq!(point["scores"], json!({"icl": icl, "ctl": {"undefined": "one class"}}));
    let first = port.get(&format!("/api/v1/point?run={ENCODED}&split=val&step=1")).await.json();
    assert_eq!(first["step"], 1);
    let matrix = port.get(&format!("/api/v1/matrix?run={ENCODED}&split=val&score=icl&step=1")).await.json();
    assert_eq!(matrix, json!({"step": 1, "concepts": ["x", "y"], "matrix": [[null, 0.25], [0.75, null]]}));

    let metrics = port.get("/metrics").await;
    assert!(metrics.headers["content-type"].starts_with("text/plain; version=0.0.4"));
    assert!(metrics.text().contains(&format!("conceptwatch_icl{{run=\"{NAME}\",split=\"val\"}} 0.25\n")));
    assert!(metrics.text().contains("conceptwatch_http_requests_total{code=\"200\",path=\"/api/v1/runs\"} 1\n"));
    assert_eq!(port.get("/live").await.status, 200);
    assert_eq!(port.get("/ready").await.status, 200);
    let page = port.get("/").await;
    assert_eq!((page.status, page.headers["content-type"].as_str()), (200, "text/html; charset=utf-8"));
    port.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_field() {
    let port = port_with(None, Err("the history is full".into()), Bounds::default()).await;
    let ok = format!("run={ENCODED}&split=val");
    let cases = [
        ("/api/v1/nothing".to_owned(), 404, "path"),
        ("/assets/nothing.js".into(), 404, "path"),
        ("/assets/index.html".into(), 404, "path"),
        ("/assets/..%2fCargo.toml".into(), 404, "path"),
        ("/ready".into(), 503, "ready"),
        ("/metrics?x=1".into(), 400, "x"),
        ("/api/v1/status?verbose=1".into(), 400, "verbose"),
        ("/api/v1/events?run=a".into(), 400, "run"),
        ("/api/v1/series".into(), 400, "run"),
        (format!("/api/v1/series?run={ENCODED}"), 400, "split"),
        (format!("/api/v1/series?{ok}"), 400, "score"),
        (format!("/api/v1/series?{ok}&score=icl&from=1"), 400, "from"),
        (format!("/api/v1/series?{ok}&score=icl&score=ctl"), 400, "score"),
        (format!("/api/v1/series?{ok}&score=icl&first_step=-1"), 400, "first_step"),
        (format!("/api/v1/series?{ok}&score=icl&last_step=x"), 400, "last_step"),
        (format!("/api/v1/series?{ok}&score=nothing"), 404, "score"),
        (format!("/api/v1/series?{ok}&score=icl&concept=z"), 404, "concept"),
        (format!("/api/v1/series?run={ENCODED}&split=test&score=icl"), 404, "split"),
        ("/api/v1/point?split=val".into(), 400, "run"),
        ("/api/v1/point?run=other&split=val".into(), 404, "run"),
        ("/api/v1/point?run=%27%3B%20DROP%20TABLE%20run%3B--&split=%00".into(), 404, "run"),
        ("/api/v1/point?run=%ff%fe&split=val".into(), 404, "run"),
        (format!("/api/v1/point?run={ENCODED}&split=train"), 404, "split"),
        (format!("/api/v1/point?run={ENCODED}&split=test"), 404, "split"),
        (format!("/api/v1/point?{ok}&step=3"), 404, "step"),
        (format!("/api/v1/point?{ok}&step=18446744073709551615"), 404, "step"),
        (format!("/api/v1/point?{ok}&step=18446744073709551616"), 400, "step"),
        (format!("/api/v1/matrix?{ok}&score=icl&step=9"), 404, "step"),
        (format!("/api/v1/matrix?{ok}&score=%3Cscript%3E"), 404, "score"),
    ];
    for (path, status, field) in cases {
        let reply = port.get(&path).await;
        assert_eq!((reply.status, reply.field().as_str()), (status, field), "{path}");
        assert_eq!(reply.headers["x-content-type-options"], "nosniff", "{path}");
    }
    port.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_hosts_origins_and_methods_are_refused() {
    let port = port().await;
    let own = format!("Host: {}\r\nOrigin: http://{}\r\n", port.address, port.address);
    let cases = [
        ("GET", own.as_str(), 200, ""),
        ("HEAD", "Host: [::1]:7801\r\n", 200, ""),
        ("GET", "Host: BOX.example\r\nOrigin: https://box.example\r\n", 200, ""),
        ("GET", "", 403, "Host"),
        ("GET", "Host: evil.example\r\n", 403, "Host"),
        ("GET", "Host: localhost\r\nHost: evil.example\r\n", 403, "host"),
        ("GET", "Host: localhost\r\nOrigin: http://evil.example\r\n", 403, "Origin"),
        ("GET", "Host: localhost\r\nOrigin: http://localhost:3000\r\n", 403, "Origin"),
        ("GET", "Host: localhost\r\nOrigin: null\r\n", 403, "Origin"),
        ("POST", "Host: localhost\r\n", 405, "method"),
        ("DELETE", "Host: localhost\r\n", 405, "method"),
        ("OPTIONS", "Host: localhost\r\n", 405, "method"),
        ("POST", "Host: evil.example\r\n", 403, "Host"),
    ];
    for path in ["/", "/metrics", "/live", "/ready", "/api/v1/status", "/api/v1/runs", "/assets/plotly.min.js"] {
        for (method, headers, status, field) in cases {
            let reply = port.ask(method, path, &format!("{headers}Accept-Encoding: gzip\r\n")).await;
            assert_eq!(reply.status, status, "{method} {path} {headers}");
            if status >= 400 {
                assert_eq!(reply.field(), field, "{method} {path} {headers}");
            }
            assert!(reply.headers["content-security-policy"].starts_with("default-src 'none'; script-src 'self';"));
            assert_eq!(reply.headers["referrer-policy"], "no-referrer");
            assert!(!reply.headers.contains_key("access-control-allow-origin"));
            assert!(status != 405 || reply.headers["allow"] == "GET, HEAD");
            assert_eq!(reply.body.is_empty(), method == "HEAD");
        }
    }
    // The request line can name a host, too.
    let absolute = port.ask("GET", "http://evil.example/live", "Host: localhost\r\n").await;
    assert_eq!((absolute.status, absolute.field().as_str()), (403, "Host"));
    port.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_needed_where_one_is_set() {
    let port = port_with(Some("s3cret"), Ok(()), Bounds::default()).await;
    let ask = async |path: &str, authorization: &str| {
        let headers = format!("Host: localhost\r\n{authorization}");
        port.ask("GET", path, &headers).await
    };
    for path in ["/", "/metrics", "/api/v1/runs", "/assets/plotly.min.js", "/nothing"] {
        for wrong in ["", "s3cret", "Bearer", "Bearer s3cre", "Bearer s3cret2", "Bearer S3cret", "Basic s3cret"] {
            let header = if wrong.is_empty() { String::new() } else { format!("Authorization: {wrong}\r\n") };
            let reply = ask(path, &header).await;
            assert_eq!((reply.status, reply.field().as_str()), (401, "Authorization"), "{path} {wrong}");
            assert!(reply.headers["www-authenticate"].starts_with("Basic"));
        }
    }
    assert_eq!(ask("/metrics", "Authorization: Bearer s3cret\r\n").await.status, 200);
    // conceptwatch:s3cret
    assert_eq!(ask("/", "Authorization: Basic Y29uY2VwdHdhdGNoOnMzY3JldA==\r\n").await.status, 200);
    assert_eq!(ask("/live", "").await.status, 200);
    assert_eq!(ask("/ready", "").await.status, 200);
    port.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chart_library_is_compressed_and_cached() {
    let port = port().await;
    let ask =
        async |headers: &str| port.ask("GET", "/assets/plotly.min.js", &format!("Host: localhost\r\n{headers}")).await;
    let reply = ask("Accept-Encoding: br, gzip\r\n").await;
    assert_eq!((reply.status, reply.headers["content-encoding"].as_str()), (200, "gzip"));
    assert_eq!(reply.headers["content-type"], "text/javascript; charset=utf-8");
    assert!(reply.headers["cache-control"].contains("max-age"));
    assert!(reply.body.starts_with(&[0x1f, 0x8b]) && reply.body.len() > 100_000, "gzip of plotly.js");
    let tag = &reply.headers["etag"];
    let again = ask(&format!("Accept-Encoding: gzip\r\nIf-None-Match: \"other\", {tag}\r\n")).await;
    assert_eq!((again.status, again.body.len(), &again.headers["etag"]), (304, 0, tag));
    for refused in ["", "Accept-Encoding: br\r\n", "Accept-Encoding: gzip;q=0, *\r\n", "Accept-Encoding: identity\r\n"]
    {
        assert_eq!(ask(refused).await.status, 406, "{refused}");
    }
    port.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_arrive_in_order_and_losses_are_told() {
    let port = port().await;
    let mut stream = port.events().await;
    let send = |event| port.app.events.send(event).unwrap();
    send(Event::Point(Arc::new(point(2))));
    let (kind, content) = next_event(&mut stream).await;
    assert_eq!((kind.as_str(), &content["step"], &content["run"]), ("point", &json!(2), &json!(NAME)));
    assert_eq!(content["scores"]["icl"], json!({"value": 0.25, "standard_error": 0.01}));
    send(Event::Run("a".into()));
    assert_eq!(next_event(&mut stream).await, ("run".to_owned(), json!({"run": "a"})));
    let alert = AlertChange {
        rule: "rise".into(),
        run: "a".into(),
        split: "val".into(),
        score: "icl".into(),
        state: "firing",
        since: 1.0,
        evidence: "0.3 > 0.2".into(),
        step: 5,
    };
    send(Event::Alert(Arc::new(alert)));
    let (kind, content) = next_event(&mut stream).await;
    assert_eq!((kind.as_str(), &content["state"], &content["step"]), ("alert", &json!("firing"), &json!(5)));

    // A burst far over what sockets and the channel hold, which nobody reads meanwhile.
    let large = Event::Run("x".repeat(1 << 20).into());
    for _ in 0..64 {
        send(large.clone());
        tokio::task::yield_now().await;
    }
    let lost = timeout(LONG, async {
        loop {
            let (kind, content) = next_event(&mut stream).await;
            if kind == "lost" {
                return content["count"].as_u64().unwrap();
            }
        }
    });
    assert!(lost.await.expect("the loss is told") > 0);
    assert!(port.app.metrics.watch_events_lost.get() > 0);
    drop(stream);
    port.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_port_stops_whatever_its_clients_do() {
    let bounds = Bounds { drain: Duration::from_secs(10), ..Bounds::default() };
    let port = port_with(None, Ok(()), bounds).await;
    let mut silent = TcpStream::connect(port.address).await.unwrap();
    let mut waiting = port.events().await;
    assert_eq!(port.get("/live").await.status, 200);
    let (address, open) = (port.address, port.app.metrics.connections.with_label_values(&["http"]));
    port.stopped().await;
    assert_eq!(open.get(), 0);
    let mut rest = Vec::new();
    // Both were closed; a reset is a close, too.
    let _ = timeout(LONG, silent.read_to_end(&mut rest)).await.expect("the silent socket is closed");
    let _ = timeout(LONG, waiting.read_to_end(&mut rest)).await.expect("the event stream ends");
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_and_surplus_connections_are_let_go() {
    let bounds = Bounds { connections: 2, head: Duration::from_millis(300), ..Bounds::default() };
    let port = port_with(None, Ok(()), bounds).await;
    let mut silent = TcpStream::connect(port.address).await.unwrap();
    let mut slow = TcpStream::connect(port.address).await.unwrap();
    slow.write_all(b"GET /live HTTP/1.1\r\nHost: loc").await.unwrap();
    let mut surplus = TcpStream::connect(port.address).await.unwrap();
    let mut answer = String::new();
    timeout(LONG, surplus.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    for stream in [&mut silent, &mut slow] {
        let _ = timeout(LONG, stream.read_to_end(&mut Vec::new())).await.expect("closed at the deadline");
    }
    // Both places are free again; the count of connections follows a moment later.
    timeout(LONG, async {
        while port.app.metrics.connections.with_label_values(&["http"]).get() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the places are freed");
    assert_eq!(port.get("/live").await.status, 200);
    port.stopped().await;
}
