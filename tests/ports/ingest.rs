//! Valid batches in any form and order, sent to the real program over its real port.

use std::time::Duration;

use conceptwatch::server::proto::ingest_response::Outcome;
use conceptwatch::server::proto::watch_response::Event;
use conceptwatch::server::proto::{
    BatchChunk, EndPass, FinishRunRequest, GetScoresRequest, JoinedEnd, Point, WatchRequest,
};
use prost::Message;
use tonic::Code;
use tonic_types::StatusExt;

use crate::common::rows::{floats, tensors};
use crate::common::{Client, PATIENCE, Sidecar, Stream, chunk, end_pass, point, run, run_of_ranks, split, until};

/// Rows per pass, more than the sample keeps.
const ROWS: u64 = 600;
const SMALL_SAMPLE: [&str; 2] = ["--sample-rows", "256"];

/// The parts of a point that depend on its rows, to the last bit.
fn scores(point: &Point) -> (u64, u64, Vec<u8>) {
    let bare = Point { scores: point.scores.clone(), tie_fraction: point.tie_fraction, ..Point::default() };
    assert!(point.scores.iter().any(|score| score.id == "icl" && score.value.is_some()));
    (point.rows, point.rows_seen, bare.encode_to_vec())
}

/// The pass in batches of 100 rows, without ids: a row is identified by its client, batch and position.
fn batches(run: &str) -> Vec<BatchChunk> {
    let batch = |at: u64| {
        let mut batch = chunk(run, at + 1, at * 100..(at + 1) * 100);
        batch.tensors.pop();
        batch
    };
    (0..ROWS / 100).map(batch).collect()
}

async fn send_all(client: &mut Client, run: &str, batches: Vec<BatchChunk>) -> Point {
    let mut stream = Stream::open(client).await;
    for batch in batches {
        assert_eq!(stream.ask(batch).await.outcome(), Outcome::Accepted);
    }
    stream.ask(end_pass(run, 1000)).await;
    point(client, run, "val", 1).await
}

#[tokio::test(flavor = "multi_thread")]
async fn scores_do_not_depend_on_chunks_retries_or_order() {
    let sidecar = Sidecar::start(&SMALL_SAMPLE);
    let mut client = sidecar.client().await;
    for name in ["whole", "chunks", "twice"] {
        client.start_run(run(name)).await.unwrap();
    }
    let whole = scores(&send_all(&mut client, "whole", batches("whole")).await);
    assert_eq!((whole.0, whole.1), (256, ROWS));

    let mut stream = Stream::open(&mut client).await;
    for at in 0..ROWS / 100 {
        for (part, rows) in [(0, 0..33), (1, 33..99), (2, 99..100)] {
            let place = at * 100;
            let mut piece = chunk("chunks", at + 1, place + rows.start..place + rows.end);
            piece.tensors.pop();
            let last = part == 2;
            stream.send(BatchChunk { chunk: part, last, first_row: rows.start, ..piece }).await;
        }
        let answer = stream.answer().await;
        assert_eq!((answer.outcome(), answer.rows, answer.sequence), (Outcome::Accepted, 100, at + 1));
    }
    stream.ask(end_pass("chunks", 1000)).await;
    assert_eq!(scores(&point(&mut client, "chunks", "val", 1).await), whole);

    let (mut first, mut second) = (Stream::open(&mut client).await, Stream::open(&mut client).await);
    let mut outcomes = Vec::new();
    for batch in batches("twice").into_iter().rev() {
        first.send(batch.clone()).await;
        second.send(batch).await;
        outcomes.extend([first.answer().await.outcome(), second.answer().await.outcome()]);
    }
    let duplicates = outcomes.iter().filter(|outcome| **outcome == Outcome::Duplicate).count();
    assert_eq!((duplicates, outcomes.len()), (6, 12), "every second one is a duplicate");
    first.ask(end_pass("twice", 1000)).await;
    let late = second.ask(end_pass("twice", 1000)).await;
    assert_eq!(late.outcome(), Outcome::Duplicate);
    assert_eq!(scores(&point(&mut client, "twice", "val", 1).await), whole);
    // A retry is still recognised after the pass has closed.
    assert_eq!(second.ask(batches("twice").remove(3)).await.outcome(), Outcome::Duplicate);
    let status = split(&mut client, "twice", "val").await.unwrap();
    assert_eq!((status.rows_received, status.rows_duplicate), (13 * 100, 7 * 100));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_broken_off_applies_nothing() {
    let sidecar = Sidecar::start(&[]);
    let mut client = sidecar.client().await;
    client.start_run(run("r")).await.unwrap();
    let broken = Stream::open(&mut client).await;
    broken.send(BatchChunk { last: false, ..chunk("r", 1, 0..50) }).await;
    until("the chunk is received", || sidecar.metric("conceptwatch_received_bytes_total", "") > 0.0).await;
    // The stream is reset, not ended.
    drop(broken);
    until("its rows are counted", || sidecar.metric("conceptwatch_rows_unfinished_total", "") == 50.0).await;
    // Its client sends them again.
    assert_eq!(sidecar.metric("conceptwatch_rows_dropped_total", "refused"), 0.0);
    let point = send_all(&mut client, "r", vec![chunk("r", 2, 100..140)]).await;
    assert_eq!((point.rows, point.rows_seen), (40, 40));
    assert_eq!(sidecar.metric("conceptwatch_ingest_budget_used_bytes", ""), 0.0);
}

/// A chunk of 2 MiB in `rows` rows, which the sample keeps unreduced.
fn heavy(run: &str, sequence: u64, first: u64) -> BatchChunk {
    let rows = first..first + 8;
    let mut tensors = tensors(rows);
    tensors.push(floats("image_embeddings", &[8, 65_536], &vec![0.25; 8 * 65_536]));
    BatchChunk { tensors, ..chunk(run, sequence, 0..0) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_over_the_byte_budget_ends_and_may_be_retried() {
    let sidecar = Sidecar::start(&["--ingest-mib", "8"]);
    let mut client = sidecar.client().await;
    client.start_run(run("r")).await.unwrap();
    let mut streams = Vec::new();
    for at in 0..8 {
        let stream = Stream::open(&mut client).await;
        stream.send(BatchChunk { last: false, ..heavy("r", at + 1, at * 8) }).await;
        streams.push(stream);
    }
    let waiting = streams.iter_mut().map(|stream| Box::pin(stream.next()));
    let (ended, _, _) = futures::future::select_all(waiting).await;
    let status = ended.expect_err("the chunks exceed the budget");
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let wait = status.get_error_details().retry_info().and_then(|retry| retry.retry_delay);
    assert!(wait.is_some_and(|wait| wait > Duration::ZERO && wait < Duration::from_secs(10)), "{wait:?}");
    let used = sidecar.metric("conceptwatch_ingest_budget_used_bytes", "");
    assert!(used <= 8.0 * 1024.0 * 1024.0, "{used} bytes");
    assert!(sidecar.metric("conceptwatch_batches_refused_total", "Unavailable") >= 1.0);
    assert!(sidecar.metric("conceptwatch_rows_unfinished_total", "") >= 8.0);

    drop(streams);
    let free = || sidecar.metric("conceptwatch_ingest_budget_used_bytes", "") == 0.0;
    until("the budget is free again", free).await;
    let mut stream = Stream::open(&mut client).await;
    assert_eq!(stream.ask(heavy("r", 20, 0)).await.outcome(), Outcome::Accepted);

    // A batch that can never fit is refused without a retry.
    for part in 0..4 {
        stream.send(BatchChunk { chunk: part, last: part == 3, ..heavy("r", 21, 8 * u64::from(part + 9)) }).await;
    }
    let answer = stream.answer().await;
    assert_eq!((answer.outcome(), answer.field.as_str()), (Outcome::Refused, "batch"), "{answer:?}");
    assert_eq!(answer.rows_dropped, 32);
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_stay_within_their_memory_limit_and_release_it() {
    let sidecar = Sidecar::start(&["--sample-mib", "8"]);
    let mut client = sidecar.client().await;
    let memory = || sidecar.metric("conceptwatch_sample_memory_bytes", "");
    client.start_run(run("full")).await.unwrap();
    let mut stream = Stream::open(&mut client).await;
    let mut taken = 0;
    let refused = loop {
        let batch = BatchChunk { split: "train".into(), ..heavy("full", taken + 1, taken * 8) };
        let answer = stream.ask(batch).await;
        if answer.outcome() == Outcome::Refused {
            break answer;
        }
        taken += 1;
        assert!(taken < 5, "batches beyond the limit were accepted");
    };
    // The stream goes on, because other splits may have room.
    assert_eq!((refused.code, refused.field.as_str()), (Code::ResourceExhausted as i32, "split"), "{refused:?}");
    let used = memory();
    assert!(taken >= 1 && used > 2e6 && used <= f64::from(8 << 20), "{used} bytes");

    // The run resumes with a different number of ranks, and finishes when all of these have.
    client.start_run(run_of_ranks("full", 2)).await.unwrap();
    for rank in 0..2 {
        assert!(memory() > 0.0);
        client
            .finish_run(FinishRunRequest { run: "full".into(), rank, client: String::new(), ..Default::default() })
            .await
            .unwrap();
    }
    until("the last evaluation is scored", || memory() == 0.0).await;
    client.start_run(run("next")).await.unwrap();
    let mut stream = Stream::open(&mut client).await;
    assert_eq!(stream.ask(heavy("next", 1, 0)).await.outcome(), Outcome::Accepted);
    assert!(memory() > 2e6);
    client.finish_run(FinishRunRequest { run: "next".into(), ..Default::default() }).await.unwrap();
    until("the last evaluation is scored", || memory() == 0.0).await;
}

/// A job that was killed leaves its window.
async fn killed(sidecar: &Sidecar, name: &str) -> f64 {
    let mut client = sidecar.client().await;
    client.start_run(run(name)).await.unwrap();
    let mut stream = Stream::open(&mut client).await;
    let batch = BatchChunk { split: "train".into(), ..heavy(name, 1, 0) };
    assert_eq!(stream.ask(batch).await.outcome(), Outcome::Accepted, "{name}");
    sidecar.metric("conceptwatch_runs_forgotten_total", "")
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_were_killed_do_not_keep_a_new_one_from_its_memory() {
    let sidecar = Sidecar::start(&["--sample-mib", "8"]);
    let mut client = sidecar.client().await;
    client.start_run(run("alive")).await.unwrap();
    let mut alive = Stream::open(&mut client).await;
    let train = |sequence| BatchChunk { split: "train".into(), ..heavy("alive", sequence, 8 * sequence) };
    assert_eq!(alive.ask(train(1)).await.outcome(), Outcome::Accepted);
    // Each takes more than 2 MB of 8: the first ones of the dead are let go.
    let mut forgotten = 0.0;
    for job in 0..8 {
        forgotten = killed(&sidecar, &format!("killed {job}")).await;
    }
    assert!((4.0..=7.0).contains(&forgotten), "{forgotten}");
    // The run with a stream, which was silent for longest, is not among them, and can be sent to.
    let answer = alive.ask(BatchChunk { step: 2, ..chunk("alive", 2, 0..32) }).await;
    assert_eq!(answer.outcome(), Outcome::Accepted, "{answer:?}");
    let log = sidecar.logged();
    let lines: Vec<&str> =
        log.lines().filter(|line| line.contains("another run needs the memory of samples")).collect();
    let alive = lines.iter().any(|line| line.contains("run=alive"));
    assert!(lines.len() >= 4 && lines[0].contains("killed 0") && !alive, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_last_batch_may_carry_the_end_of_its_pass() {
    let sidecar = Sidecar::start(&[]);
    let mut client = sidecar.client().await;
    for run_name in ["joined", "apart"] {
        assert!(client.start_run(run(run_name)).await.unwrap().into_inner().takes_joined_ends);
    }
    let mut stream = Stream::open(&mut client).await;
    let end = |rows| Some(JoinedEnd { sequence: 3, rows, ..JoinedEnd::default() });
    assert_eq!(stream.ask(chunk("joined", 1, 0..32)).await.end_pass, None);
    let last = BatchChunk { end_pass: end(64), ..chunk("joined", 2, 32..64) };
    let answer = stream.ask(last.clone()).await;
    let ended = answer.end_pass.clone().expect("an answer to the end");
    assert_eq!((answer.sequence, answer.outcome(), answer.rows), (2, Outcome::Accepted, 32));
    assert_eq!((ended.sequence, ended.outcome()), (3, Outcome::Accepted));
    let point_joined = point(&mut client, "joined", "val", 1).await;
    assert!(!point_joined.incomplete);
    let apart = send_all(&mut client, "apart", vec![chunk("apart", 1, 0..32), chunk("apart", 2, 32..64)]).await;
    assert_eq!(scores(&point_joined), scores(&apart), "as with a separate message");
    // A retry, as after a lost answer.
    let again = stream.ask(last).await;
    assert_eq!(again.outcome(), Outcome::Duplicate);
    assert_eq!(again.end_pass.expect("an answer to the end").outcome(), Outcome::Duplicate);
    // A refused batch does not keep its pass open.
    let step = 2;
    stream.ask(BatchChunk { step, ..chunk("joined", 4, 0..32) }).await;
    let mut bad = BatchChunk {
        step,
        end_pass: Some(JoinedEnd { sequence: 6, rows: 64, ..JoinedEnd::default() }),
        ..chunk("joined", 5, 32..64)
    };
    bad.tensors.truncate(1);
    let refused = stream.ask(bad).await;
    assert_eq!(refused.outcome(), Outcome::Refused);
    assert_eq!(refused.end_pass.expect("an answer to the end").outcome(), Outcome::Accepted);
    assert!(point(&mut client, "joined", "val", 2).await.incomplete);
    // Only the last chunk can carry the end of a pass.
    let early = BatchChunk { step: 3, last: false, end_pass: end(32), ..chunk("joined", 7, 0..32) };
    let refused = stream.ask(early).await;
    assert_eq!((refused.sequence, refused.outcome(), refused.field.as_str()), (3, Outcome::Refused, "end_pass"));
}

#[tokio::test(flavor = "multi_thread")]
async fn scores_can_be_waited_for_and_watched() {
    let sidecar = Sidecar::start(&[]);
    let mut client = sidecar.client().await;
    client.start_run(run("r")).await.unwrap();
    let request = GetScoresRequest { run: "r".into(), split: "val".into(), step: Some(1), ..Default::default() };
    assert!(client.get_scores(request).await.unwrap().into_inner().point.is_none(), "there is none yet");
    let mut events = client.watch(WatchRequest { runs: vec!["r".into()] }).await.unwrap().into_inner();
    let waiting = {
        let mut client = client.clone();
        tokio::spawn(async move { point(&mut client, "r", "val", 1).await })
    };
    for step in 1..=5 {
        Stream::open(&mut client).await.pass("r", step, 0..32).await;
        assert_eq!(point(&mut client, "r", "val", step).await.step, step);
    }
    assert_eq!(waiting.await.unwrap().step, 1);
    let mut steps = Vec::new();
    while steps.len() < 5 {
        let event = tokio::time::timeout(PATIENCE, events.message()).await.expect("in time").unwrap().unwrap();
        if let Some(Event::Point(point)) = event.event {
            assert!(point.scores.iter().all(|score| score.matrix.is_empty()));
            // A point may be published again with its slow scores.
            if !steps.contains(&point.step) {
                steps.push(point.step);
            }
        }
    }
    assert_eq!(steps, [1, 2, 3, 4, 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_dropped_by_policy_are_counted() {
    let sidecar = Sidecar::start(&["--non-finite", "drop_row"]);
    let mut client = sidecar.client().await;
    client.start_run(run("r")).await.unwrap();
    let mut batch = chunk("r", 1, 0..16);
    let mut data = batch.tensors[0].data.to_vec();
    data[4 * 7..4 * 8].copy_from_slice(&f32::NAN.to_le_bytes());
    data[4 * 20..4 * 21].copy_from_slice(&f32::INFINITY.to_le_bytes());
    batch.tensors[0].data = data.into();
    let mut stream = Stream::open(&mut client).await;
    let answer = stream.ask(batch).await;
    assert_eq!((answer.outcome(), answer.rows, answer.rows_dropped), (Outcome::Accepted, 14, 2));
    assert_eq!(sidecar.metric("conceptwatch_rows_dropped_total", "non_finite"), 2.0);
    assert_eq!(split(&mut client, "r", "val").await.unwrap().rows_dropped, 2);
    stream.ask(end_pass("r", 2)).await;
    assert_eq!(point(&mut client, "r", "val", 1).await.rows, 14);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_learns_how_long_a_pass_will_wait_and_reports_what_it_left_out() {
    let sidecar = Sidecar::start(&["--cpu-share", "0.001", "--busy-cpu-share", "0.001"]);
    let mut client = sidecar.client().await;
    client.start_run(run("r")).await.unwrap();
    let mut stream = Stream::open(&mut client).await;
    let mut left_out = 0;
    for step in 1.. {
        assert!(step < 1000, "a thousandth of a core is never overdrawn");
        stream.ask(BatchChunk { step, ..chunk("r", 2 * step, 0..512) }).await;
        let end = EndPass { step, left_out: step % 3, ..end_pass("r", 2 * step + 1) };
        let answer = stream.ask(end.clone()).await;
        assert_eq!(stream.ask(end).await.outcome(), Outcome::Duplicate);
        left_out += step % 3;
        if answer.keep_ms >= 100 {
            break;
        }
    }
    // Its scores are known before it is recorded.
    until("the first point", || sidecar.metric("conceptwatch_points_recorded_total", "") >= 1.0).await;
    let skipped = sidecar.metric("conceptwatch_points_skipped_total", "");
    assert!(skipped >= left_out as f64, "{skipped} skipped, {left_out} of them left out");
    // Another split has one pass, which outruns nothing.
    let step = 1;
    stream.ask(BatchChunk { split: "test".into(), step, ..chunk("r", 9998, 0..512) }).await;
    let end = EndPass { split: "test".into(), step, left_out: 50, ..end_pass("r", 9999) };
    assert_eq!(stream.ask(end).await.keep_ms, 0);
    assert_eq!(sidecar.metric("conceptwatch_points_skipped_total", ""), skipped + 50.0, "not those sent again");
}
