//! A run whose ranks are on several hosts, each with a sidecar that sends parts to a hub: every client, sidecar and hub gets
//! the point of one process, to the bit, and training goes on whatever is away. Hosts are processes of this machine.
#![cfg(feature = "server")]

#[path = "../common/mod.rs"]
mod common;
mod guarded;
mod missed;
mod restarts;
mod skewed;

use std::path::Path;

use conceptwatch::server::proto::ingest_response::Outcome as Answer;
use conceptwatch::server::proto::settled::Outcome;
use conceptwatch::server::proto::{
    BatchChunk, EndPass, FinishRunRequest, GetAdviceRequest, GetAdviceResponse, GetDiagnosisRequest, ListRunsRequest,
    Point, Score, StartRunRequest,
};
use prost::Message;
use serde_json::Value;

use common::{Client, Sidecar, Stream, chunk, end_pass, point, postgres, run_of_ranks, text, until};

/// Rows of an evaluation, more than a sample holds.
const ROWS: u64 = 1200;
const SAMPLE: &str = "256";

fn a_database() -> Option<String> {
    std::thread::scope(|scope| scope.spawn(postgres::database).join().unwrap())
}

fn hub(database: &str) -> Sidecar {
    Sidecar::start(&["--store", database, "--workers", "1"])
}

/// The sidecar of a host, which keeps its history in `data`.
fn sidecar(hub: &str, data: &Path, more: &[&str]) -> Sidecar {
    Sidecar::start(&[&["--upstream", hub, "--data-dir", text(data), "--sample-rows", SAMPLE], more].concat())
}

fn at(hub: &Sidecar) -> String {
    format!("http://{}", hub.grpc)
}

/// A rank with its connection.
struct Rank {
    client: Client,
    stream: Stream,
    name: String,
    number: u32,
    world_size: u64,
    sequence: u64,
    /// Models of other numbers have other activations.
    model: u64,
    /// Rows of an evaluation, over all ranks.
    rows: u64,
}

impl Rank {
    async fn join(sidecar: &Sidecar, number: u32, world_size: u64, attempt: u32) -> Self {
        Self::started(sidecar, number, world_size, attempt, "").await
    }

    /// A rank of the launcher's start of this name, if it has one.
    async fn started(sidecar: &Sidecar, number: u32, world_size: u64, attempt: u32, start: &str) -> Self {
        let name = format!("rank {number}, {attempt} {start}");
        let process = if start.is_empty() { String::new() } else { format!("process {number} of {start}") };
        let mut client = sidecar.client().await;
        let declared = run_of_ranks("r", world_size as u32);
        let (client_name, job) = (name.clone(), "launch".into());
        let start = StartRunRequest { client: client_name, rank: number, job, attempt, process, ..declared };
        assert_eq!(client.start_run(start).await.unwrap().into_inner().run, "r");
        let stream = Stream::open(&mut client).await;
        Self { client, stream, name, number, world_size, sequence: 0, model: 0, rows: ROWS }
    }

    /// Sends this rank's share of the rows of a step, without ending the pass.
    async fn send(&mut self, step: u64) {
        self.sequence += 1;
        let rows = (u64::from(self.number)..self.rows).step_by(self.world_size as usize);
        // A model of another step has other activations.
        let rows = rows.map(|row| row + 10_000 * step + 1_000_000 * self.model);
        let batch =
            BatchChunk { client: self.name.clone(), rank: self.number, step, ..chunk("r", self.sequence, rows) };
        let mut batch = batch;
        for tensor in batch.tensors.iter_mut().filter(|tensor| tensor.name == "sample_ids") {
            // Every evaluation has the same rows.
            let ids = (u64::from(self.number)..self.rows).step_by(self.world_size as usize);
            tensor.data = ids.flat_map(u64::to_le_bytes).collect::<Vec<u8>>().into();
        }
        assert_eq!(self.stream.ask(batch).await.outcome(), Answer::Accepted, "{}", self.name);
    }

    async fn end(&mut self, step: u64) {
        self.sequence += 1;
        let rows = (u64::from(self.number)..self.rows).step_by(self.world_size as usize).count() as u64;
        let end = EndPass {
            client: self.name.clone(),
            rank: self.number,
            step,
            rows,
            backlog: true,
            ..end_pass("r", self.sequence)
        };
        assert_eq!(self.stream.ask(end).await.outcome(), Answer::Accepted, "{}", self.name);
    }

    async fn pass(&mut self, step: u64) {
        self.send(step).await;
        self.end(step).await;
    }

    async fn advice(&mut self, step: u64, timeout_seconds: f64) -> GetAdviceResponse {
        let request = GetAdviceRequest {
            run: "r".into(),
            step,
            timeout_seconds,
            client: self.name.clone(),
            ..Default::default()
        };
        self.client.get_advice(request).await.unwrap().into_inner()
    }

    async fn finish(&mut self) {
        let request =
            FinishRunRequest { run: "r".into(), rank: self.number, client: self.name.clone(), timeout_seconds: 30.0 };
        let answer = self.client.finish_run(request).await.unwrap().into_inner();
        assert!(answer.unsettled.is_empty(), "{answer:?}");
    }
}

/// Ranks of an attempt, `each` on every sidecar, in their order.
async fn ranks(sidecars: &[&Sidecar], each: u32, attempt: u32) -> Vec<Rank> {
    let world_size = u64::from(each) * sidecars.len() as u64;
    let mut ranks = Vec::new();
    for (host, sidecar) in sidecars.iter().enumerate() {
        for local in 0..each {
            ranks.push(Rank::join(sidecar, host as u32 * each + local, world_size, attempt).await);
        }
    }
    ranks
}

async fn passes(ranks: &mut [Rank], step: u64) {
    for rank in ranks.iter_mut() {
        rank.pass(step).await;
    }
}

async fn settled(ranks: &mut [Rank], step: u64) -> Vec<(Outcome, String)> {
    let mut outcomes = Vec::new();
    for rank in ranks {
        outcomes.push(rank.stream.settled(step).await);
    }
    outcomes
}

fn all(outcomes: &[(Outcome, String)], expected: Outcome) -> bool {
    outcomes.iter().all(|(outcome, _)| *outcome == expected)
}

/// The points of these steps that one process has; the first with its slow scores.
async fn of_one_process(steps: std::ops::Range<u64>) -> Vec<Point> {
    let sidecar = Sidecar::start(&["--sample-rows", SAMPLE]);
    let mut rank = Rank::join(&sidecar, 0, 1, 0).await;
    let mut points = Vec::new();
    for step in steps {
        rank.pass(step).await;
        assert_eq!(rank.stream.settled(step).await.0, Outcome::Point);
        let diagnosis = GetDiagnosisRequest {
            run: "r".into(),
            split: "val".into(),
            step: Some(step),
            timeout_seconds: common::PATIENCE.as_secs_f64(),
            ..Default::default()
        };
        if points.is_empty() {
            // By then slow scores and tests have joined it.
            rank.client.get_diagnosis(diagnosis).await.unwrap();
        }
        points.push(point(&mut rank.client, "r", "val", step).await);
    }
    points
}

/// The point of a step once it has all scores and tests of the expected one; it may have more.
async fn whole(client: &mut Client, step: u64, expected: &Point) -> Point {
    let deadline = std::time::Instant::now() + common::PATIENCE;
    loop {
        let found = point(client, "r", "val", step).await;
        let has = |score: &Score| {
            let mut same = found.scores.iter().filter(|found| found.id == score.id);
            same.any(|found| found.p_value.is_some() || score.p_value.is_none())
        };
        if expected.scores.iter().all(has) {
            return found;
        }
        assert!(std::time::Instant::now() < deadline, "{found:?} lacks scores of {expected:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

fn id_and_test(score: &Score) -> (&str, bool) {
    (&score.id, score.p_value.is_some())
}

/// Scores that have joined one of the points alone are not compared, nor are their tests: they may join at any time.
fn assert_same(found: &Point, expected: &Point) {
    assert_eq!((found.step, found.rows, found.rows_seen), (expected.step, expected.rows, expected.rows_seen));
    assert!(!found.incomplete && !found.provisional, "{found:?}");
    let mut compared = 0;
    for expected in &expected.scores {
        let Some(found) = found.scores.iter().find(|found| found.id == expected.id) else { continue };
        let (mut found, mut expected) = (found.clone(), expected.clone());
        if id_and_test(&found) != id_and_test(&expected) {
            without_test(&mut found);
            without_test(&mut expected);
        }
        // Messages of the same bits: values, errors, concepts, matrices, curves and tests.
        assert_eq!(found.encode_to_vec(), expected.encode_to_vec(), "{found:?} is not {expected:?}");
        compared += 1;
    }
    assert!(compared > 10, "{compared} scores");
}

fn without_test(score: &mut Score) {
    (score.p_value, score.per_concept_q, score.matrix_q) = Default::default();
}

/// Asserts that a client finds the expected point.
async fn assert_found(client: &mut Client, expected: &Point) {
    assert_same(&whole(client, expected.step, expected).await, expected);
}

fn upstream(sidecar: &Sidecar) -> Value {
    let status: Value = serde_json::from_str(&sidecar.get("/api/v1/status")).unwrap();
    status["upstream"].clone()
}

/// Steps of the hub's curve, and whether the run has finished there.
async fn at_hub(hub: &Sidecar) -> (u64, bool) {
    let runs = hub.client().await.list_runs(ListRunsRequest::default()).await.unwrap().into_inner().runs;
    assert_eq!(runs.len(), 1, "{runs:?}");
    (runs[0].splits.first().map_or(0, |split| split.points), runs[0].finished)
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_on_two_hosts_have_the_points_of_one_process_to_the_bit() {
    let Some(database) = a_database() else { return };
    let hub = hub(&database);
    let data = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let hosts = [0, 1].map(|host: usize| sidecar(&at(&hub), data[host].path(), &[]));
    let mut ranks = ranks(&[&hosts[0], &hosts[1]], 2, 0).await;
    let expected = of_one_process(1..4).await;
    let mut bytes = Vec::new();
    for (step, expected) in (1..4).zip(&expected) {
        passes(&mut ranks, step).await;
        let outcomes = settled(&mut ranks, step).await;
        assert!(all(&outcomes, Outcome::Point), "{outcomes:?}");
        for rank in [0, 2] {
            assert_found(&mut ranks[rank].client, expected).await;
        }
        assert_found(&mut hub.client().await, expected).await;
        // The answer for a step is that of the hub, on all hosts.
        let mut given = Vec::new();
        for rank in &mut ranks {
            given.push(rank.advice(step, 10.0).await);
        }
        assert!(given.iter().all(|one| *one == given[0] && one.decided_by_step == step), "{given:?}");
        bytes.push(upstream(&hosts[0])["part_bytes"].as_u64().unwrap());
    }
    let (first, second, third) = (bytes[0], bytes[1] - bytes[0], bytes[2] - bytes[1]);
    assert!(second * 10 < first * 8 && third * 10 < first * 8, "rows that no sample holds are not sent: {bytes:?}");
    for rank in &mut ranks {
        rank.finish().await;
    }
    for host in &hosts {
        until("all is told", || upstream(host)["waiting"] == 0).await;
        let now = upstream(host);
        assert_eq!((&now["parts_sent"], &now["parts_refused"], &now["passes_lost"]), (&3.into(), &0.into(), &0.into()));
        assert_eq!((&now["passes_waiting"], &now["refused"]), (&0.into(), &0.into()));
        assert_eq!(host.metric("conceptwatch_upstream_parts_sent_total", ""), 3.0);
        let runs = host.client().await.list_runs(ListRunsRequest::default()).await.unwrap().into_inner().runs;
        assert!(runs[0].finished, "{runs:?}");
    }
    // The points of the sidecars were not sent again.
    assert_eq!(hub.metric("conceptwatch_hub_entries_total", "outcome=\"refused\""), 0.0);
    assert_eq!(at_hub(&hub).await, (3, true));
    assert_found(&mut hub.client().await, &expected[2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_all_ranks_on_one_host_is_scored_there() {
    let Some(database) = a_database() else { return };
    let (hub, data) = (hub(&database), tempfile::tempdir().unwrap());
    let host = sidecar(&at(&hub), data.path(), &[]);
    let mut ranks = ranks(&[&host], 2, 0).await;
    passes(&mut ranks, 1).await;
    assert!(all(&settled(&mut ranks, 1).await, Outcome::Point));
    for rank in &mut ranks {
        rank.finish().await;
    }
    until("all is told", || upstream(&host)["waiting"] == 0).await;
    assert_eq!(upstream(&host)["parts_sent"], 0);
    assert_eq!(at_hub(&hub).await, (1, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_dies_with_a_pass_open_is_replaced_by_another() {
    let Some(database) = a_database() else { return };
    let (first, second) = (hub(&database), hub(&database));
    let both = format!("{},{}", at(&first), at(&second));
    let data = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let hosts = [0, 1].map(|host: usize| sidecar(&both, data[host].path(), &[]));
    let mut ranks = ranks(&[&hosts[0], &hosts[1]], 1, 0).await;
    let expected = of_one_process(1..4).await;
    passes(&mut ranks, 1).await;
    assert!(all(&settled(&mut ranks, 1).await, Outcome::Point));
    ranks[0].pass(2).await;
    until("the part of one host is sent", || upstream(&hosts[0])["parts_sent"] == 2).await;
    first.kill();
    ranks[1].pass(2).await;
    passes(&mut ranks, 3).await;
    for step in [2, 3] {
        assert!(all(&settled(&mut ranks, step).await, Outcome::Point));
    }
    for rank in &mut ranks {
        for of_step in &expected[1..] {
            assert_same(&point(&mut rank.client, "r", "val", of_step.step).await, of_step);
        }
        rank.finish().await;
    }
    until("the hub knows that all have finished", || hosts.iter().all(|host| upstream(host)["waiting"] == 0)).await;
    assert_eq!(at_hub(&second).await, (3, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_that_dies_in_a_pass_gets_it_again() {
    let Some(database) = a_database() else { return };
    let hub = hub(&database);
    let data = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut hosts = [0, 1].map(|host: usize| sidecar(&at(&hub), data[host].path(), &[]));
    let expected = of_one_process(1..4).await;
    let mut all_ranks = ranks(&[&hosts[0], &hosts[1]], 2, 0).await;
    passes(&mut all_ranks, 1).await;
    assert!(all(&settled(&mut all_ranks, 1).await, Outcome::Point));
    // One rank of the host has ended the pass, the other is within it.
    all_ranks[2].pass(2).await;
    all_ranks[3].send(2).await;
    passes(&mut all_ranks[..2], 2).await;
    let [first, second] = hosts;
    second.kill();
    hosts = [first, sidecar(&at(&hub), data[1].path(), &[])];
    for number in [2, 3] {
        let mut again = Rank::join(&hosts[1], number, 4, 0).await;
        again.sequence = 2;
        again.pass(2).await;
        all_ranks[number as usize] = again;
    }
    passes(&mut all_ranks, 3).await;
    for step in [2, 3] {
        let outcomes = settled(&mut all_ranks, step).await;
        assert!(all(&outcomes, Outcome::Point), "{outcomes:?}");
        for rank in &mut all_ranks {
            assert_same(&point(&mut rank.client, "r", "val", step).await, &expected[step as usize - 1]);
        }
    }
    assert_eq!(at_hub(&hub).await, (3, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_with_fewer_ranks_leaves_nothing_of_the_attempt_before() {
    let Some(database) = a_database() else { return };
    let hubs = [hub(&database), hub(&database)];
    let data = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let hosts = [0, 1].map(|host: usize| sidecar(&at(&hubs[host]), data[host].path(), &[]));
    let expected = of_one_process(1..4).await;
    let mut eight = ranks(&[&hosts[0], &hosts[1]], 4, 0).await;
    passes(&mut eight, 1).await;
    assert!(all(&settled(&mut eight, 1).await, Outcome::Point));
    eight.iter_mut().for_each(|rank| rank.model = 1);
    // The last rank dies within the pass, when the hub has the part of the other host.
    passes(&mut eight[..7], 2).await;
    eight[7].send(2).await;
    until("a part is sent", || upstream(&hosts[0])["parts_sent"] == 2).await;
    let mut six = ranks(&[&hosts[0], &hosts[1]], 3, 1).await;
    for step in [2, 3] {
        passes(&mut six, step).await;
        let outcomes = settled(&mut six, step).await;
        assert!(all(&outcomes, Outcome::Point), "{outcomes:?}");
        for rank in [0, 5] {
            assert_same(&point(&mut six[rank].client, "r", "val", step).await, &expected[step as usize - 1]);
        }
    }
    let discarded = settled(&mut eight[..7], 2).await;
    assert!(all(&discarded, Outcome::Discarded), "{discarded:?}");
    for rank in &mut six {
        rank.finish().await;
    }
    until("all is told", || hosts.iter().all(|host| upstream(host)["waiting"] == 0)).await;
    for hub in &hubs {
        assert_eq!(at_hub(hub).await, (3, true));
        assert_same(&point(&mut hub.client().await, "r", "val", 2).await, &expected[1]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_hub_passes_are_given_up_and_counted_and_advice_is_not_to_stop() {
    let data = tempfile::tempdir().unwrap();
    // Nothing listens there.
    let host = sidecar("http://127.0.0.1:9", data.path(), &["--pass-deadline", "0.1"]);
    let mut ranks = [Rank::join(&host, 0, 4, 0).await, Rank::join(&host, 1, 4, 0).await];
    // Before that, such a short deadline closes passes here.
    let decided = || std::fs::read_to_string(host.log()).unwrap().contains("has ranks on other hosts");
    until("it is known that ranks are elsewhere", decided).await;
    for step in 1..4 {
        passes(&mut ranks, step).await;
        for rank in &mut ranks {
            let advice = rank.advice(step, 0.1).await;
            assert!(!advice.stop && advice.reason.starts_with("no advice yet"), "{advice:?}");
        }
    }
    for step in 1..4 {
        for (outcome, reason) in settled(&mut ranks, step).await {
            assert_eq!(outcome, Outcome::Failed, "{reason}");
            assert!(reason.contains("no hub settled the pass within 3 s"), "{reason}");
        }
    }
    assert_eq!(host.metric("conceptwatch_upstream_passes_lost_total", ""), 3.0);
    let now = upstream(&host);
    assert_eq!((&now["reached"], &now["passes_waiting"]), (&false.into(), &0.into()));
    for rank in &mut ranks {
        rank.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ends_before_the_hub_is_asked_for_it_has_finished_there() {
    let Some(database) = a_database() else { return };
    let hub = hub(&database);
    let data = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let hosts = [0, 1].map(|host: usize| sidecar(&at(&hub), data[host].path(), &[]));
    let mut ranks = ranks(&[&hosts[0], &hosts[1]], 1, 0).await;
    passes(&mut ranks, 1).await;
    // Both finish with the pass open.
    let [first, second] = &mut ranks[..] else { panic!("two ranks") };
    tokio::join!(first.finish(), second.finish());
    assert!(all(&settled(&mut ranks, 1).await, Outcome::Point));
    until("all is told", || hosts.iter().all(|host| upstream(host)["waiting"] == 0)).await;
    assert_eq!(at_hub(&hub).await, (1, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_set_that_shrinks_is_sent_whole_and_stays_exact() {
    let Some(database) = a_database() else { return };
    let hub = hub(&database);
    let data = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let hosts = [0, 1].map(|host: usize| sidecar(&at(&hub), data[host].path(), &[]));
    let alone = Sidecar::start(&["--sample-rows", SAMPLE]);
    let mut ranks = ranks(&[&hosts[0], &hosts[1]], 1, 0).await;
    let mut one = Rank::join(&alone, 0, 1, 0).await;
    for (step, rows) in [(1, ROWS), (2, 400), (3, ROWS)] {
        for rank in ranks.iter_mut().chain([&mut one]) {
            rank.rows = rows;
            rank.pass(step).await;
        }
        assert!(all(&settled(&mut ranks, step).await, Outcome::Point));
        assert_eq!(one.stream.settled(step).await.0, Outcome::Point);
        let expected = point(&mut one.client, "r", "val", step).await;
        assert_eq!(expected.rows_seen, rows);
        for rank in &mut ranks {
            assert_same(&point(&mut rank.client, "r", "val", step).await, &expected);
        }
    }
    // The part of step 2 was cut at first.
    assert!(upstream(&hosts[0])["parts_sent"].as_u64() > Some(3));
}
