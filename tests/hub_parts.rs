//! Parts of passes, sent to any of several hubs: the pass closes once, every sidecar learns how it ended from every hub, and
//! what contradicts itself is refused by its field.
#![cfg(feature = "server")]

#[path = "common/mod.rs"]
mod common;
#[path = "parts/job.rs"]
#[allow(dead_code, reason = "shared by tests, each of which uses a part")]
mod parts;

use std::time::Duration;

use conceptwatch::history::{Change, Declared, FirstPoint, Launch, Postgres};
use conceptwatch::point::{Outcome, Point, ScoreValue};
use conceptwatch::server::hub_protocol::convert;
use conceptwatch::server::hub_protocol::proto::hub_client::HubClient;
use conceptwatch::server::hub_protocol::proto::{
    Attempt, DeclareRequest, DeclareResponse, PartChunk, PartHead, Pass, PassState, PassesRequest, SendPartResponse,
    entry, part_chunk, pass_state, send_part_response,
};
use conceptwatch::server::proto::StartRunRequest;
use conceptwatch::step::Rank;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use common::Sidecar;
use common::postgres;
use parts::Job;

type Client = HubClient<Channel>;

/// Calls what blocks, on a thread that may.
fn elsewhere<T: Send>(call: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(call).join().unwrap())
}

fn source(at: usize) -> String {
    format!("{at:08x}-2222-4333-8444-555555555555")
}

async fn client(hub: &Sidecar) -> Client {
    HubClient::connect(format!("http://{}", hub.grpc)).await.unwrap()
}

fn job() -> Job {
    Job { batch_rows: 8, ..Job::new(2, 40, 16, 1) }
}

/// The declaration of a rank, whose restart has this number.
fn declaration(job: &Job, rank: u32, attempt: u32) -> DeclareRequest {
    let declared = Declared {
        run: (*job.run).clone(),
        declared_name: None,
        launch: Launch::default(),
        rank: Rank::default(),
        client: "client".into(),
        process: String::new(),
        resume: false,
        started: 1.0,
    };
    let Some(entry::Change::DeclareRun(message)) = convert::entry(1, &Change::Declare(Box::new(declared))).change
    else {
        panic!("a declaration")
    };
    let start = StartRunRequest {
        run: message.run,
        client: format!("client {rank}"),
        job: "launch".into(),
        rank,
        attempt,
        ..Default::default()
    };
    DeclareRequest { source: source(rank as usize), start: Some(start), time: 1_000_000.0 }
}

async fn declare(client: &mut Client, job: &Job, attempt: u32) -> DeclareResponse {
    let mut declared = Vec::new();
    for rank in 0..job.ranks {
        declared.push(client.declare(declaration(job, rank, attempt)).await.unwrap().into_inner());
    }
    assert!(
        declared.iter().all(|one| one.run == declared[0].run && one.attempt == declared[0].attempt),
        "{declared:?}"
    );
    declared.remove(0)
}

/// The parts of two processes, each with its head.
fn two_parts(job: &Job, declared: &DeclareResponse) -> Vec<(PartHead, Vec<u8>)> {
    let bodies = job.parts(&job.in_processes(2, &job.batches(job.step)), None);
    let head = |(at, body): (usize, Vec<u8>)| {
        let head = PartHead {
            source: source(at),
            run: declared.run.clone(),
            split: "val".into(),
            attempt: declared.attempt,
            step: job.step,
            world_size: job.ranks,
            ended: vec![at as u32],
            bytes: body.len() as u64,
            cutoff: None,
        };
        (head, body)
    };
    bodies.into_iter().enumerate().map(head).collect()
}

/// Sends a part in pieces.
async fn send(client: &mut Client, head: &PartHead, body: &[u8]) -> Result<SendPartResponse, Status> {
    let mut chunks = vec![PartChunk { part: Some(part_chunk::Part::Head(head.clone())) }];
    let data = |piece: &[u8]| PartChunk { part: Some(part_chunk::Part::Data(piece.to_vec().into())) };
    chunks.extend(body.chunks(100).map(data));
    client.send_part(futures::stream::iter(chunks)).await.map(|answer| answer.into_inner())
}

async fn state(client: &mut Client, of: usize, pass: &Pass, timeout_seconds: f64) -> PassState {
    let request = PassesRequest { source: source(of), run: "run".into(), passes: vec![pass.clone()], timeout_seconds };
    client.passes(request).await.unwrap().into_inner().passes.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_over_two_hosts_and_two_hubs_closes_once_and_all_learn_its_point() {
    let Some(database) = elsewhere(postgres::database) else { return };
    let hubs = [Sidecar::start(&["--store", &database]), Sidecar::start(&["--store", &database])];
    let mut clients = [client(&hubs[0]).await, client(&hubs[1]).await];
    let job = job();
    let declared = declare(&mut clients[0], &job, 0).await;
    let parts = two_parts(&job, &declared);
    let pass = Pass { split: "val".into(), attempt: declared.attempt, step: job.step };

    use send_part_response::State;
    for _ in 0..2 {
        let answer = send(&mut clients[0], &parts[0].0, &parts[0].1).await.unwrap();
        assert_eq!(answer.state(), State::Open);
    }
    use pass_state::Outcome as Ended;
    assert_eq!(state(&mut clients[0], 0, &pass, 0.0).await.outcome(), Ended::Open);
    // The other host has yet to send.
    assert_eq!(state(&mut clients[1], 1, &pass, 0.0).await.outcome(), Ended::NeedsWhole);
    assert_eq!(send(&mut clients[1], &parts[1].0, &parts[1].1).await.unwrap().state(), State::Closed);
    assert_eq!(send(&mut clients[0], &parts[1].0, &parts[1].1).await.unwrap().state(), State::Closed);

    // Both wait, at different hubs, while a worker stores the point.
    let waiting = [0, 1].map(|at| {
        let (mut client, pass) = (clients[at].clone(), pass.clone());
        tokio::spawn(async move { state(&mut client, at, &pass, 60.0).await })
    });
    let value = ScoreValue { value: 1.0 / 3.0, standard_error: Some(0.1), ..ScoreValue::default() };
    let point = Point {
        run: "run".into(),
        split: "val".into(),
        step: job.step,
        time: 1_000_001.0,
        rows: 16,
        rows_seen: 40,
        estimator: "tie_aware".into(),
        scores: vec![("task_accuracy".into(), Outcome::Value(value))],
        ..Point::default()
    };
    elsewhere(|| {
        let store = Postgres::open(&database).unwrap();
        let leased = store.claim_job("worker", Duration::from_secs(600)).unwrap().expect("one job");
        assert_eq!(store.claim_job("another", Duration::from_secs(600)).unwrap(), None);
        let first = FirstPoint { point: &point, influences: None, next_cutoff: Some(77), following: &[] };
        assert!(store.finish_first(&leased, &first).unwrap());
    });
    for one in waiting {
        let settled = one.await.unwrap();
        assert_eq!(settled.outcome(), Ended::Settled, "{settled:?}");
        let (found, _) = convert::point_of(settled.point.unwrap()).unwrap();
        assert_eq!(found, point);
    }
    let next = send(&mut clients[1], &parts[1].0, &parts[1].1).await.unwrap();
    assert_eq!((next.state(), next.cutoff), (State::Closed, Some(77)));

    // A newer attempt: what the older one sends is not kept.
    let newer = declare(&mut clients[1], &job, 1).await;
    let again = Job { step: job.step + 1, ..job.clone() };
    let (older, newer) = (two_parts(&again, &declared), two_parts(&again, &newer));
    assert_eq!(send(&mut clients[0], &newer[0].0, &newer[0].1).await.unwrap().state(), State::Open);
    assert_eq!(send(&mut clients[1], &older[1].0, &older[1].1).await.unwrap().state(), State::StaleAttempt);
    let stale = Pass { step: again.step, ..pass };
    let ended = state(&mut clients[0], 1, &stale, 0.0).await;
    assert_eq!((ended.outcome(), ended.reason.as_str()), (Ended::Unscored, "a newer attempt of the run has begun"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_contradicts_itself_is_refused_by_its_field() {
    let Some(database) = elsewhere(postgres::database) else { return };
    let hub = Sidecar::start(&["--store", &database]);
    let mut client = client(&hub).await;
    let job = job();
    let declared = declare(&mut client, &job, 0).await;
    let (head, body) = two_parts(&job, &declared).remove(0);
    let mut damaged = body.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let with = |change: &dyn Fn(&mut PartHead)| {
        let mut changed = head.clone();
        change(&mut changed);
        changed
    };
    for (head, body, field) in [
        (with(&|head| head.bytes = 4 << 30), &body, "head.bytes"),
        (with(&|head| head.bytes = 0), &body, "head.bytes"),
        (with(&|head| head.bytes += 1), &body, "data"),
        (with(&|head| head.bytes -= 1), &body, "data"),
        (with(&|head| head.source = "x".into()), &body, "head.source"),
        (with(&|head| head.attempt = None), &body, "head.attempt"),
        (with(&|head| head.world_size = 3), &body, "part.world_size"),
        (with(&|head| head.ended = vec![0, 1]), &body, "part.ended"),
        (with(&|head| head.cutoff = Some(1)), &body, "part.cutoff"),
        (with(&|head| head.step += 1), &body, "part.step"),
        (head.clone(), &damaged, "part"),
    ] {
        let status = send(&mut client, &head, body).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{field}: {status:?}");
        let named = status.get_details_bad_request().unwrap().field_violations[0].field.clone();
        assert!(named.starts_with(field), "got {named}, expected {field}: {status:?}");
    }
    let unknown = with(&|head| head.run = "unknown".into());
    assert_eq!(send(&mut client, &unknown, &body).await.unwrap_err().code(), Code::NotFound);
    let bytes = PartChunk { part: Some(part_chunk::Part::Data(body.clone().into())) };
    let headless = client.send_part(futures::stream::iter([bytes])).await.unwrap_err();
    assert_eq!(headless.code(), Code::InvalidArgument, "{headless:?}");
    let pass = Pass { split: "val".into(), attempt: Some(Attempt::default()), step: job.step };
    let kept = state(&mut client, 0, &pass, 0.0).await;
    assert_eq!(kept.outcome(), pass_state::Outcome::NeedsWhole, "nothing was kept: {kept:?}");
    assert_eq!(hub.metric("conceptwatch_hub_calls_refused_total", "call=\"SendPart\",code=\"InvalidArgument\""), 12.0);
}
