//! A sidecar with `--upstream` tells a hub every change of its runs exactly once, whatever happens to either, and training
//! never waits for it. Against a hub in this process that hangs, refuses, loses answers and vanishes, and against real ones;
//! and what a hub serves.

#[path = "../common/mod.rs"]
mod common;
mod hub;
mod real;
mod served;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use conceptwatch::history::{Identity, Store};
use conceptwatch::server::hub_protocol::proto::entry::Change;
use conceptwatch::server::proto::ingest_response::Outcome as Answer;
use conceptwatch::server::proto::settled::Outcome;
use conceptwatch::server::proto::{BatchChunk, EndPass, FinishRunRequest, StartRunRequest};
use leakage::point::Point;
use serde_json::Value;

use common::certificates::{Authority, acceptor};
use common::{Client, Sidecar, Stream, conceptwatch, end_pass, open_history, point, run, text, until, write_secret};
use hub::{FakeHub, Manner, Told};

type Shared = Arc<Mutex<Told>>;

fn told() -> Shared {
    Shared::default()
}

fn set(told: &Shared, manner: Manner) {
    told.lock().unwrap().manner = manner;
}

/// A job whose run is `r`.
struct Job {
    client: Client,
    stream: Stream,
    sequence: u64,
}

impl Job {
    async fn start(sidecar: &Sidecar) -> Self {
        Self::of(sidecar, "job").await
    }

    /// Starts the run, or goes on with it.
    async fn of(sidecar: &Sidecar, job: &str) -> Self {
        let mut client = sidecar.client().await;
        let start = StartRunRequest { job: job.into(), ..run("r") };
        assert_eq!(client.start_run(start).await.unwrap().into_inner().run, "r");
        let stream = Stream::open(&mut client).await;
        Self { client, stream, sequence: 0 }
    }

    /// A pass that waited at the client, so that it is scored whatever follows it.
    async fn pass(&mut self, step: u64) {
        self.sequence += 2;
        let batch = BatchChunk { step, ..common::chunk("r", self.sequence - 1, 0..32) };
        assert_eq!(self.stream.ask(batch).await.outcome(), Answer::Accepted);
        let end = EndPass { step, rows: 32, backlog: true, ..end_pass("r", self.sequence) };
        assert_eq!(self.stream.ask(end).await.outcome(), Answer::Accepted);
    }

    /// Passes that are settled: their points are in the history. No more wait at a time than a client may send.
    async fn settled(&mut self, steps: std::ops::Range<u64>) {
        for step in steps.clone() {
            self.pass(step).await;
            if step % 16 == 0 || step + 1 == steps.end {
                assert_eq!(self.stream.settled(step).await, (Outcome::Point, String::new()));
            }
        }
    }

    async fn finish(&mut self) {
        let request = FinishRunRequest {
            run: "r".into(),
            rank: 0,
            client: common::rows::CLIENT.into(),
            timeout_seconds: 30.0,
            ..Default::default()
        };
        self.client.finish_run(request).await.unwrap();
    }
}

fn upstream(sidecar: &Sidecar) -> Value {
    let status = sidecar.json("/api/v1/status");
    status["upstream"].clone()
}

/// Waits until the hub has been told everything.
async fn drained(sidecar: &Sidecar) {
    let empty = || {
        let now = upstream(sidecar);
        now["reached"] == true && now["waiting"] == 0
    };
    until("the outbox is empty", empty).await;
}

/// The names of the tables of a history.
fn tables(directory: &Path) -> Vec<String> {
    let connection = rusqlite::Connection::open(directory.join("history.sqlite3")).unwrap();
    let mut select = connection.prepare("SELECT name FROM sqlite_schema ORDER BY name").unwrap();
    select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn once(steps: std::ops::Range<u64>) -> BTreeMap<u64, usize> {
    steps.map(|step| (step, 1)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_arrives_once_in_order_and_as_it_is() {
    let (told, directory) = (told(), tempfile::tempdir().unwrap());
    let hub = FakeHub::start(&told);
    let address = format!("http://{}", hub.address);
    let sidecar = Sidecar::start(&["--data-dir", text(directory.path()), "--upstream", &address]);
    let mut job = Job::start(&sidecar).await;
    job.settled(1..6).await;
    job.finish().await;
    drained(&sidecar).await;

    let stored = point(&mut job.client, "r", "val", 3).await;
    let all = || upstream(&sidecar)["sent"].as_u64() == Some(told.lock().unwrap().changes().count() as u64);
    until("every answer has arrived", all).await;
    let told = told.lock().unwrap();
    assert_eq!(told.sources().len(), 1);
    assert_eq!(told.steps(), once(1..6));
    let of_step = told.points().find(|point| point.point.as_ref().unwrap().step == 3).unwrap();
    let sent = of_step.point.clone().unwrap();
    assert_eq!(
        (sent.rows, sent.rows_seen, sent.seed, sent.time),
        (stored.rows, stored.rows_seen, stored.seed, stored.time)
    );
    assert_eq!(sent.scores.len(), stored.scores.len());
    for (sent, stored) in sent.scores.iter().zip(&stored.scores) {
        assert_eq!((&sent.id, sent.value, sent.standard_error), (&stored.id, stored.value, stored.standard_error));
        assert_eq!(sent.per_concept, stored.per_concept);
    }
    assert!(!of_step.matrices.is_empty(), "values of pairs");
    assert_eq!(of_step.launch.as_ref().map(|launch| (launch.job.as_str(), launch.restart)), Some(("job", 0)));
    let kinds: Vec<&str> = told.changes().map(kind).collect();
    assert_eq!(kinds.first(), Some(&"declare"));
    assert!(kinds.contains(&"finish") && kinds.contains(&"judged"), "{kinds:?}");
    let now = upstream(&sidecar);
    assert_eq!((now["refused"].as_u64(), now["dropped"].as_u64()), (Some(0), Some(0)));
    assert_eq!(now["sent"].as_u64(), Some(kinds.len() as u64));
    assert_eq!(sidecar.metric("conceptwatch_upstream_entries_sent_total", ""), kinds.len() as f64);
    assert_eq!(sidecar.metric("conceptwatch_upstream_reached", ""), 1.0);
}

fn kind(change: &Change) -> &'static str {
    match change {
        Change::DeclareRun(_) => "declare",
        Change::FinishRun(_) => "finish",
        Change::Point(_) => "point",
        Change::Unscored(_) => "unscored",
        Change::Remark(_) => "remark",
        Change::RemoveRun(_) => "remove",
        Change::LateScores(_) => "late",
        Change::Judgement(_) => "judged",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_never_answers_stops_neither_scoring_nor_the_end() {
    let (told, directory) = (told(), tempfile::tempdir().unwrap());
    let hub = FakeHub::start(&told);
    let address = format!("http://{}", hub.address);
    let arguments = ["--data-dir", text(directory.path()), "--upstream", &address];
    let sidecar = Sidecar::start(&arguments);
    set(&told, Manner::Hangs);
    let mut job = Job::start(&sidecar).await;
    job.settled(1..40).await;
    assert!(sidecar.get("/ready").contains("ready"), "it is about the sidecar alone");
    drop(job);
    assert!(sidecar.terminate().success());
    set(&told, Manner::Applies);
    let sidecar = Sidecar::start(&arguments);
    drained(&sidecar).await;
    assert_eq!(told.lock().unwrap().steps(), once(1..40));
    assert_eq!(told.lock().unwrap().sources().len(), 1, "the history keeps its name");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_scored_last_is_told_before_the_end() {
    let told = told();
    let hub = FakeHub::start(&told);
    // In memory: what is not told is lost.
    let sidecar = Sidecar::start(&["--upstream", &format!("http://{}", hub.address)]);
    let mut job = Job::start(&sidecar).await;
    job.settled(1..100).await;
    drop(job);
    assert!(sidecar.terminate().success());
    assert_eq!(told.lock().unwrap().steps(), once(1..100));
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_the_sidecar_lose_and_repeat_nothing() {
    let (told, directory) = (told(), tempfile::tempdir().unwrap());
    let hub = FakeHub::start(&told);
    let address = format!("http://{}", hub.address);
    let arguments = ["--data-dir", text(directory.path()), "--upstream", &address];
    let mut first = 1;
    for round in 0..8 {
        let sidecar = Sidecar::start(&arguments);
        let mut job = Job::start(&sidecar).await;
        if round % 2 == 1 {
            set(&told, Manner::LosesAnswers);
        }
        job.settled(first..first + 20).await;
        first += 20;
        let calls = told.lock().unwrap().calls;
        until("the hub is called", || told.lock().unwrap().calls > calls).await;
        sidecar.kill();
        set(&told, Manner::Applies);
    }
    let sidecar = Sidecar::start(&arguments);
    drained(&sidecar).await;
    assert_eq!(told.lock().unwrap().steps(), once(1..first));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_is_refused_is_counted_and_stops_none_behind_it() {
    let told = told();
    set(&told, Manner::RefusesStep(3));
    let hub = FakeHub::start(&told);
    let sidecar = Sidecar::start(&["--upstream", &format!("http://{}", hub.address)]);
    let mut job = Job::start(&sidecar).await;
    job.settled(1..8).await;
    drained(&sidecar).await;
    let expected: BTreeMap<u64, usize> = once(1..8).into_iter().filter(|(step, _)| *step != 3).collect();
    assert_eq!(told.lock().unwrap().steps(), expected);
    assert_eq!(upstream(&sidecar)["refused"], 1);
    assert_eq!(sidecar.metric("conceptwatch_upstream_entries_refused_total", ""), 1.0);
    let log = sidecar.logged();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("refuses a change")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(lines[0].contains("point.step") && lines[0].contains("got 3, expected another"), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_a_hub_does_not_take_become_smaller() {
    let told = told();
    set(&told, Manner::TakesEntries(2));
    let hub = FakeHub::start(&told);
    let sidecar = Sidecar::start(&["--upstream", &format!("http://{}", hub.address)]);
    let mut job = Job::start(&sidecar).await;
    job.settled(1..30).await;
    drained(&sidecar).await;
    assert_eq!(told.lock().unwrap().steps(), once(1..30));
    set(&told, Manner::TakesNoMatrices);
    job.settled(30..33).await;
    drained(&sidecar).await;
    assert_eq!(told.lock().unwrap().steps(), once(1..33));
    assert_eq!(upstream(&sidecar)["dropped"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_point_that_is_superseded_before_it_is_sent_is_sent_with_the_one_of_its_step() {
    let (told, directory) = (told(), tempfile::tempdir().unwrap());
    let hub = FakeHub::start(&told);
    let place = hub.vanish();
    let address = format!("http://{place}");
    let sidecar = Sidecar::start(&["--data-dir", text(directory.path()), "--upstream", &address]);
    let mut job = Job::start(&sidecar).await;
    job.settled(1..4).await;
    let first = point(&mut job.client, "r", "val", 2).await;
    // The launch restarts and evaluates step 2 once more.
    let start = StartRunRequest { job: "job".into(), attempt: 1, client: "again".into(), ..run("r") };
    job.client.start_run(start).await.unwrap();
    let mut stream = Stream::open(&mut job.client).await;
    let batch = BatchChunk { step: 2, client: "again".into(), ..common::chunk("r", 1, 100..132) };
    stream.ask(batch).await;
    stream.ask(EndPass { step: 2, rows: 32, client: "again".into(), ..end_pass("r", 2) }).await;
    stream.settled(2).await;
    let second = point(&mut job.client, "r", "val", 2).await;
    assert!(second.time > first.time);
    let _hub = FakeHub::at(place, &told);
    drained(&sidecar).await;
    let told = told.lock().unwrap();
    assert_eq!(told.steps(), once(1..4));
    let of_step = told.points().filter(|point| point.point.as_ref().unwrap().step == 2);
    let mut sent: Vec<_> =
        of_step.map(|one| (one.point.as_ref().unwrap().time, one.launch.as_ref().unwrap().restart)).collect();
    // Where slow scores join a point after it was sent, it is sent once more.
    sent.dedup();
    assert_eq!(sent, [(first.time, 0), (second.time, 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_is_told_and_one_that_is_replaced_is_read_again() {
    let (told, directory) = (told(), tempfile::tempdir().unwrap());
    told.lock().unwrap().token = Some("the-right-token-of-the-hub".into());
    let hub = FakeHub::start(&told);
    let (address, file) = (format!("http://{}", hub.address), directory.path().join("token"));
    write_secret(&file, "a-wrong-token-of-the-hub");
    let sidecar = Sidecar::start(&["--upstream", &address, "--upstream-token-file", text(&file)]);
    let mut job = Job::start(&sidecar).await;
    job.settled(1..3).await;
    until("the refusal is told", || upstream(&sidecar)["why"] == "got a wrong token").await;
    assert_eq!(upstream(&sidecar)["reached"], false);
    assert_eq!(told.lock().unwrap().changes().count(), 0);
    write_secret(&file, "the-right-token-of-the-hub");
    drained(&sidecar).await;
    assert_eq!(told.lock().unwrap().steps(), once(1..3));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hub_that_answers_is_found_among_several() {
    let told = told();
    let away = FakeHub::start(&told).vanish();
    let hub = FakeHub::start(&told);
    let sidecar = Sidecar::start(&["--upstream", &format!("{away},http://{}", hub.address)]);
    let mut job = Job::start(&sidecar).await;
    job.settled(1..3).await;
    drained(&sidecar).await;
    assert_eq!(upstream(&sidecar)["hub"], hub.address.to_string());
    assert_eq!(told.lock().unwrap().steps(), once(1..3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_is_reached_by_tls_with_an_authority_of_its_own() {
    let (told, directory) = (told(), tempfile::tempdir().unwrap());
    let hub = FakeHub::start(&told);
    let authority = Authority::new(directory.path(), "authority");
    let acceptor = acceptor(&authority.issue(directory.path(), "hub", 2999));
    let front = tls_front(acceptor, hub.address).await;
    let (address, ca) = (format!("https://localhost:{front}"), text(&authority.file).to_owned());
    let sidecar = Sidecar::start(&["--upstream", &address, "--upstream-ca", &ca]);
    let mut job = Job::start(&sidecar).await;
    job.settled(1..3).await;
    drained(&sidecar).await;
    assert_eq!(told.lock().unwrap().steps(), once(1..3));
    // Another authority's hub is not told anything.
    let stranger = Authority::new(directory.path(), "stranger");
    let untrusting = Sidecar::start(&["--upstream", &address, "--upstream-ca", text(&stranger.file)]);
    let refused = || upstream(&untrusting)["why"].as_str().is_some_and(|why| why.contains("certificate"));
    until("the certificate is refused", refused).await;
}

/// Ends TLS in front of a port. Returns its own.
async fn tls_front(acceptor: tokio_rustls::TlsAcceptor, behind: std::net::SocketAddr) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut outside) = acceptor.accept(socket).await else { return };
                let mut inside = tokio::net::TcpStream::connect(behind).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_restored_from_an_older_copy_takes_new_numbers() {
    let (told, directory) = (told(), tempfile::tempdir().unwrap());
    let hub = FakeHub::start(&told);
    let address = format!("http://{}", hub.address);
    let arguments = ["--data-dir", text(directory.path()), "--upstream", &address];
    let sidecar = Sidecar::start(&arguments);
    let mut job = Job::start(&sidecar).await;
    job.settled(1..5).await;
    drained(&sidecar).await;
    drop(job);
    assert!(sidecar.terminate().success());
    // The hub was told of a hundred more by what this is an older copy of.
    told.lock().unwrap().claim(100);
    let sidecar = Sidecar::start(&arguments);
    let mut job = Job::start(&sidecar).await;
    job.settled(5..9).await;
    drained(&sidecar).await;
    assert_eq!(told.lock().unwrap().steps(), once(1..9));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_hub_the_history_has_no_outbox_and_with_one_later_runs_are_told_whole() {
    let (told, directory) = (told(), tempfile::tempdir().unwrap());
    let data = text(directory.path());
    let sidecar = Sidecar::start(&["--data-dir", data]);
    let mut job = Job::start(&sidecar).await;
    job.settled(1..4).await;
    assert_eq!(upstream(&sidecar), Value::Null);
    assert!(!sidecar.get("/metrics").contains("conceptwatch_upstream"));
    drop(job);
    assert!(sidecar.terminate().success());
    let without = tables(directory.path());
    assert!(!without.iter().any(|name| name.contains("outbox") || name == "sqlite_sequence"), "{without:?}");

    let hub = FakeHub::start(&told);
    let address = format!("http://{}", hub.address);
    let sidecar = Sidecar::start(&["--data-dir", data, "--upstream", &address]);
    drained(&sidecar).await;
    assert_eq!(told.lock().unwrap().changes().count(), 0, "runs of before are not told");
    let mut job = Job::start(&sidecar).await;
    job.settled(4..6).await;
    drained(&sidecar).await;
    assert_eq!(told.lock().unwrap().steps(), once(1..6));
    drop(job);
    assert!(sidecar.terminate().success());
    // Changes note themselves without the option, too: the hub is told of them when it is back.
    let sidecar = Sidecar::start(&["--data-dir", data]);
    let mut job = Job::start(&sidecar).await;
    job.settled(6..8).await;
    drop(job);
    assert!(sidecar.terminate().success());
    let sidecar = Sidecar::start(&["--data-dir", data, "--upstream", &address]);
    drained(&sidecar).await;
    assert_eq!(told.lock().unwrap().steps(), once(1..8));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_size_limit_removes_before_it_is_sent_is_counted() {
    let (told, directory) = (told(), tempfile::tempdir().unwrap());
    let place = FakeHub::start(&told).vanish();
    let data = text(directory.path());
    let stored = 5000;
    {
        let history = open_history(directory.path());
        history.begin_outbox().unwrap();
        let history: &dyn Store = &history;
        let by = Identity { job: "earlier", client: common::rows::CLIENT, ..Identity::default() };
        history.record_run(&common::stored::run("r", 2), &by, 1.0).unwrap();
        let warnings = vec!["long".repeat(1000)];
        for step in 0..stored {
            let (run, split, warnings) = ("r".into(), "val".into(), warnings.clone());
            history.record_point(&Point { run, split, step, warnings, ..Point::default() }, None).unwrap();
        }
    }
    let address = format!("http://{place}");
    let sidecar = Sidecar::start(&["--data-dir", data, "--history-mib", "8", "--upstream", &address]);
    assert_eq!(upstream(&sidecar)["dropped"], 0);
    // The next change applies the limit.
    let mut client = sidecar.client().await;
    client.start_run(run("another")).await.unwrap();
    let dropped = upstream(&sidecar)["dropped"].as_u64().unwrap();
    assert!(0 < dropped && dropped < stored, "{dropped}");
    let _hub = FakeHub::at(place, &told);
    drained(&sidecar).await;
    assert_eq!(told.lock().unwrap().steps(), once(dropped..stored), "the oldest are missing, as many as were counted");
    assert_eq!(sidecar.metric("conceptwatch_upstream_entries_dropped_total", ""), dropped as f64);
    let log = sidecar.logged();
    assert!(log.contains(&format!("unsent={dropped}")), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_sends_what_a_stopped_sidecar_left() {
    let (told, directory) = (told(), tempfile::tempdir().unwrap());
    let place = FakeHub::start(&told).vanish();
    let (address, data) = (format!("http://{place}"), text(directory.path()));
    let push = || {
        let done = conceptwatch(&["push", "--data-dir", data, "--upstream", &address]);
        (done.status, done.out + &done.err)
    };
    let sidecar = Sidecar::start(&["--data-dir", data, "--upstream", &address]);
    let mut job = Job::start(&sidecar).await;
    job.settled(1..6).await;
    let (status, said) = push();
    assert!(
        status == Some(1) && said.contains("in use by another process: a sidecar at work sends by itself"),
        "{said}"
    );
    drop(job);
    assert!(sidecar.terminate().success());
    let (status, said) = push();
    let left =
        said.split("; ").nth(1).and_then(|rest| rest.split(' ').next()).and_then(|left| left.parse::<u64>().ok());
    assert!(status == Some(1) && said.contains("sent 0 changes") && left >= Some(7), "{said}");
    let _hub = FakeHub::at(place, &told);
    let (status, said) = push();
    let sent = format!("sent {} changes to {place}, which refused 0", left.unwrap());
    assert!(status == Some(0) && said.contains(&sent), "{said}");
    assert_eq!(told.lock().unwrap().steps(), once(1..6));
    let kinds: Vec<&str> = told.lock().unwrap().changes().map(kind).collect();
    assert!(kinds.contains(&"judged"), "{kinds:?}");
    assert_eq!(push(), (Some(0), "nothing waits for a hub\n".to_owned()));
}
