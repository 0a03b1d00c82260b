//! What an acknowledgement means: a pass is settled when its point, or the reason why it has none, is in the history.

use std::collections::BTreeMap;
use std::time::Instant;

use conceptwatch::history::{Ending, Store, Unscored};
use conceptwatch::server::proto::ingest_response::Outcome as Answer;
use conceptwatch::server::proto::settled::Outcome;
use conceptwatch::server::proto::{
    BatchChunk, Concept, EndPass, FinishRunRequest, FinishRunResponse, GetScoresRequest, Point, Settled,
    StartRunRequest,
};
use tonic::Code;

use crate::common::rows::{batch_of, run_of};
use crate::common::{
    Client, PATIENCE, Sidecar, Stream, chunk, end_pass, open_history, point, run, run_of_ranks, text, until,
};

/// CPU shares with which nothing is scored within the time of a test, once the saved-up time is used.
const SLOW: [&str; 4] = ["--cpu-share", "0.001", "--busy-cpu-share", "0.001"];

/// The messages of one rank of a launch.
#[derive(Clone, Copy)]
struct Rank {
    rank: u32,
    world_size: u32,
    attempt: u32,
}

impl Rank {
    fn of(rank: u32, world_size: u32) -> Self {
        Self { rank, world_size, attempt: 0 }
    }

    /// Connects, declares the run and opens a stream.
    async fn join(self, sidecar: &Sidecar) -> (Client, Stream) {
        let mut client = sidecar.client().await;
        self.start(&mut client).await;
        let stream = Stream::open(&mut client).await;
        (client, stream)
    }

    fn client(self) -> String {
        format!("rank-{}-{}", self.rank, self.attempt)
    }

    async fn start(self, client: &mut Client) -> String {
        let Self { rank, world_size, attempt } = self;
        let declared = run_of_ranks("r", world_size);
        let request = StartRunRequest { client: self.client(), job: "job".into(), rank, attempt, ..declared };
        client.start_run(request).await.unwrap().into_inner().incarnation
    }

    /// 64 rows, other ones for each rank.
    fn batch(self, step: u64) -> BatchChunk {
        let first = 1000 * u64::from(self.rank);
        let rows = chunk("r", 2 * step, first..first + 64);
        BatchChunk { step, client: self.client(), rank: self.rank, ..rows }
    }

    fn end(self, step: u64) -> EndPass {
        let rows = 64;
        EndPass { step, client: self.client(), rank: self.rank, rows, ..end_pass("r", 2 * step + 1) }
    }

    /// The end of a pass that waited at the client.
    fn backlog(self, step: u64) -> EndPass {
        EndPass { backlog: true, ..self.end(step) }
    }

    async fn pass(self, stream: &mut Stream, step: u64) {
        assert_eq!(stream.ask(self.batch(step)).await.rows, 64);
        assert_eq!(stream.ask(self.end(step)).await.outcome(), Answer::Accepted);
    }

    async fn finish(self, client: &mut Client, timeout_seconds: f64) -> FinishRunResponse {
        let request = FinishRunRequest {
            run: "r".into(),
            rank: self.rank,
            client: self.client(),
            timeout_seconds,
            outcome: None,
        };
        client.finish_run(request).await.unwrap().into_inner()
    }
}

/// What a history holds of the passes of `val`: points, and records of passes without one.
fn stored(directory: &std::path::Path) -> (BTreeMap<u64, bool>, Vec<Unscored>) {
    let history = open_history(directory);
    let steps = history.newest_steps("r", "val", 10_000).unwrap();
    let incomplete = |step| history.point("r", "val", Some(step), false).unwrap().unwrap().incomplete;
    (steps.into_iter().map(|step| (step, incomplete(step))).collect(), history.unscored("r", "val").unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_is_settled_once_its_point_is_stored() {
    let sidecar = Sidecar::start(&[]);
    let mut client = sidecar.client().await;
    let rank = Rank::of(0, 1);
    let incarnation = rank.start(&mut client).await;
    assert_eq!(incarnation.len(), 32, "{incarnation}");
    assert_eq!(rank.start(&mut client).await, incarnation, "of the process");
    let mut stream = Stream::open(&mut client).await;
    rank.pass(&mut stream, 1).await;
    assert_eq!(stream.settled(1).await, (Outcome::Point, String::new()));
    // A client that has lost the answer asks again, on another stream.
    let mut again = Stream::open(&mut client).await;
    let answer = again.ask(rank.end(1)).await;
    assert_eq!(answer.outcome(), Answer::Duplicate);
    let settled = Settled { run: "r".into(), split: "val".into(), step: 1, outcome: 1, ..Default::default() };
    let settled = Settled { ordinal: 1, ..settled };
    assert_eq!(answer.settled, [settled]);

    // Fewer rows than the rank logged, and a pass without rows.
    stream.ask(rank.batch(2)).await;
    stream.ask(EndPass { rows: 100, ..rank.end(2) }).await;
    assert_eq!(stream.settled(2).await, (Outcome::Incomplete, "36 rows did not arrive".into()));
    stream.ask(EndPass { rows: 0, ..rank.end(3) }).await;
    assert_eq!(
        stream.settled(3).await,
        (Outcome::Failed, "the pass has no rows: none was sent, or all were refused".into())
    );
    for (outcome, count) in [("point", 1.0), ("incomplete", 1.0), ("failed", 1.0), ("skipped", 0.0)] {
        assert_eq!(sidecar.metric("conceptwatch_passes_settled_total", outcome), count, "{outcome}");
    }
    assert_eq!(sidecar.metric("conceptwatch_passes_unsettled", ""), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_is_evaluated_again_and_an_evaluation_that_was_left_is_discarded() {
    let directory = tempfile::tempdir().unwrap();
    let sidecar = Sidecar::start(&["--data-dir", text(directory.path())]);
    let rank = Rank::of(0, 1);
    let (mut client, mut stream) = rank.join(&sidecar).await;
    // A client that counts none has the first.
    stream.ask(rank.batch(1)).await;
    let left = EndPass { ordinal: 1, abandoned: "KeyboardInterrupt".into(), ..rank.end(1) };
    assert_eq!(stream.ask(left.clone()).await.outcome(), Answer::Accepted);
    assert_eq!(stream.ask(left).await.outcome(), Answer::Duplicate);
    let late = stream.ask(BatchChunk { sequence: 100, ..rank.batch(1) }).await;
    assert_eq!((late.outcome(), late.code), (Answer::Refused, Code::FailedPrecondition as i32));
    assert!(late.message.contains("left by an exception"), "{}", late.message);
    for ordinal in [2, 3] {
        let sequence = 10 * u64::from(ordinal);
        stream.ask(BatchChunk { ordinal, sequence, ..rank.batch(1) }).await;
        stream.ask(EndPass { ordinal, sequence: sequence + 1, ..rank.end(1) }).await;
        let (run, split, timeout_seconds) = ("r".into(), "val".into(), PATIENCE.as_secs_f64());
        let request = GetScoresRequest { run, split, step: Some(1), ordinal, timeout_seconds, matrices: false };
        let point = client.get_scores(request).await.unwrap().into_inner().point.unwrap();
        assert_eq!((point.ordinal, point.rows), (ordinal, 64));
    }
    // The end of the second is known, and how it was settled.
    let again = stream.ask(EndPass { ordinal: 2, sequence: 21, backlog: true, ..rank.end(1) }).await;
    assert_eq!(
        (again.outcome(), again.settled[0].ordinal, again.settled[0].outcome()),
        (Answer::Duplicate, 2, Outcome::Point)
    );
    assert_eq!(sidecar.metric("conceptwatch_passes_discarded_total", ""), 1.0);
    drop((stream, client, sidecar));
    let history = open_history(directory.path());
    let (points, _) = history.whole_points("r", "val", 0, 9, false).unwrap();
    let kept: Vec<_> = points.iter().map(|whole| (whole.point.ordinal.get(), whole.superseded)).collect();
    assert_eq!(kept, [(3, false), (2, true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_rank_is_told_and_a_newer_attempt_settles_what_it_discards() {
    let directory = tempfile::tempdir().unwrap();
    let sidecar = Sidecar::start(&["--data-dir", text(directory.path())]);
    let mut client = sidecar.client().await;
    let ranks = [0, 1].map(|rank| Rank::of(rank, 2));
    let mut streams = Vec::new();
    for rank in ranks {
        rank.start(&mut client).await;
        streams.push(Stream::open(&mut client).await);
    }
    for step in [1, 2] {
        ranks[0].pass(&mut streams[0], step).await;
    }
    assert!(sidecar.get("/api/v1/runs").contains("\"passes_unsettled\":2"));
    ranks[1].pass(&mut streams[1], 1).await;
    for stream in &mut streams {
        assert_eq!(stream.settled(1).await.0, Outcome::Point);
    }
    let newer = Rank { attempt: 1, ..ranks[1] };
    newer.start(&mut client).await;
    streams[1].ask(newer.batch(2)).await;
    assert_eq!(streams[0].settled(2).await, (Outcome::Discarded, "a newer attempt of the run began".into()));
    assert!(sidecar.terminate().success());
    let (points, records) = stored(directory.path());
    assert_eq!(points, [(1, false)].into());
    // The attempt at work had the pass open when the sidecar stopped.
    assert_eq!(
        records.iter().map(|record| (record.step, record.outcome)).collect::<Vec<_>>(),
        [(2, Ending::Unsettled)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn finishing_waits_until_everything_is_settled_or_says_what_is_not() {
    let sidecar = Sidecar::start(&[]);
    let rank = Rank::of(0, 1);
    let (mut client, mut stream) = rank.join(&sidecar).await;
    stream.ask(BatchChunk { split: "train".into(), ..rank.batch(7) }).await;
    for step in 1..=20 {
        stream.ask(rank.batch(step)).await;
        stream.ask(rank.backlog(step)).await;
    }
    let finished = rank.finish(&mut client, PATIENCE.as_secs_f64()).await;
    assert_eq!((finished.finished, finished.unsettled), (true, vec![]));
    assert_eq!(sidecar.metric("conceptwatch_passes_unsettled", ""), 0.0);
    for step in 1..=20 {
        assert_eq!(stream.settled(step).await.0, Outcome::Point);
    }
    let last = point(&mut client, "r", "train", None).await;
    assert_eq!((last.step, last.rows, last.provisional), (7, 64, false), "the last one of the rolling window, too");

    let sidecar = Sidecar::start(&SLOW);
    let mut client = sidecar.client().await;
    let ranks = [0, 1].map(|rank| Rank::of(rank, 2));
    for rank in ranks {
        rank.start(&mut client).await;
    }
    let mut stream = Stream::open(&mut client).await;
    for step in 1..=20 {
        for rank in ranks {
            rank.pass(&mut stream, step).await;
        }
    }
    assert!(!ranks[0].finish(&mut client, 60.0).await.finished, "another rank is still sending");
    stream.settled(1).await;
    let finished = ranks[1].finish(&mut client, 0.01).await;
    assert!(finished.finished && !finished.unsettled.is_empty());
    assert!(finished.unsettled.iter().all(|unsettled| unsettled.split == "val" && unsettled.step > 1), "{finished:?}");
    let status = client.finish_run(FinishRunRequest { run: "r".into(), timeout_seconds: -1.0, ..Default::default() });
    let status = status.await.unwrap_err();
    assert_eq!((status.code(), status.message().starts_with("timeout_seconds")), (Code::InvalidArgument, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_outruns_scoring_is_skipped_with_a_record_and_clients_are_told_to_hold_back() {
    let directory = tempfile::tempdir().unwrap();
    let sidecar = Sidecar::start(&[&SLOW[..], &["--data-dir", text(directory.path())]].concat());
    let rank = Rank::of(0, 1);
    let (_client, mut stream) = rank.join(&sidecar).await;
    // At first the scorer may keep up, for as long as its burst of CPU time lasts.
    let deadline = Instant::now() + PATIENCE;
    let mut last = 0;
    loop {
        last += 1;
        stream.ask(rank.batch(last)).await;
        let told = stream.ask(rank.end(last)).await.keep_ms;
        if told > 0 && sidecar.metric("conceptwatch_passes_settled_total", "skipped") >= 25.0 {
            break;
        }
        assert!(Instant::now() < deadline, "{last} passes, and keep_ms is {told}");
    }
    sidecar.kill();
    let (_, records) = stored(directory.path());
    let skipped: Vec<_> = records.iter().filter(|record| record.outcome == Ending::Skipped).collect();
    assert!(skipped.len() >= 25 && skipped.iter().all(|record| record.step < last), "{skipped:?}");
    let reason = "come faster than they are scored";
    assert!(skipped.iter().any(|record| record.reason.contains(reason)), "{skipped:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_stop_under_load_every_acknowledged_pass_has_a_point_or_a_record() {
    for finishes in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let sidecar = Sidecar::start(&[&SLOW[..], &["--data-dir", text(directory.path())]].concat());
        let rank = Rank::of(0, 1);
        let (mut client, mut stream) = rank.join(&sidecar).await;
        for step in 1..=12 {
            stream.ask(rank.batch(step)).await;
            stream.ask(rank.backlog(step)).await;
        }
        for step in 13..=30 {
            rank.pass(&mut stream, step).await;
        }
        stream.ask(rank.batch(31)).await;
        if finishes {
            assert!(!rank.finish(&mut client, 0.0).await.unsettled.is_empty());
        }
        sidecar.stop().await;
        let (points, records) = stored(directory.path());
        for step in 1..=31 {
            let record = records.iter().find(|record| record.step == step);
            assert!(points.contains_key(&step) || record.is_some(), "step {step}: {points:?}, {records:?}");
        }
        if !finishes {
            let open = records.iter().find(|record| record.step == 31).unwrap();
            assert_eq!((open.outcome, open.rows_seen), (Ending::Unsettled, 64));
            assert!(open.reason.contains("0 of 1 ranks had ended the pass"), "{}", open.reason);
        }
        // What the client was not told of it sends again, and it is scored.
        let sidecar = Sidecar::start(&["--data-dir", text(directory.path())]);
        let (_client, mut stream) = rank.join(&sidecar).await;
        for record in records.iter().filter(|record| record.outcome == Ending::Unsettled) {
            stream.ask(rank.batch(record.step)).await;
            stream.ask(rank.backlog(record.step)).await;
            assert_eq!(stream.settled(record.step).await.0, Outcome::Point);
        }
        sidecar.kill();
        let (_, records) = stored(directory.path());
        assert!(records.iter().all(|record| record.outcome == Ending::Skipped), "{records:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_a_rank_that_was_told_and_one_that_was_not_both_find_the_complete_point() {
    let directory = tempfile::tempdir().unwrap();
    let data = ["--data-dir", text(directory.path())];
    let sidecar = Sidecar::start(&data);
    let mut client = sidecar.client().await;
    let ranks = [0, 1].map(|rank| Rank::of(rank, 2));
    let mut stream = Stream::open(&mut client).await;
    let mut before = String::new();
    for rank in ranks {
        before = rank.start(&mut client).await;
    }
    for rank in ranks {
        rank.pass(&mut stream, 1).await;
    }
    stream.settled(1).await;
    let whole: Point = point(&mut client, "r", "val", 1).await;
    // Of the second pass, one rank's rows were acknowledged.
    ranks[0].pass(&mut stream, 2).await;
    sidecar.kill();

    let sidecar = Sidecar::start(&[&data[..], &["--pass-deadline", "3", "--open-passes", "1"]].concat());
    let mut client = sidecar.client().await;
    let mut stream = Stream::open(&mut client).await;
    assert_ne!(ranks[0].start(&mut client).await, before, "another process");
    // Rank 0 was not told of the first pass.
    stream.ask(ranks[0].batch(1)).await;
    let ended = stream.ask(ranks[0].backlog(1)).await;
    assert_eq!((ended.outcome(), ended.settled.len()), (Answer::Duplicate, 1));
    assert_eq!(ended.settled[0].outcome(), Outcome::Point);
    // Neither deadlines nor the number of open passes close one before rank 1 is back.
    for step in [2, 3, 4] {
        stream.ask(ranks[0].batch(step)).await;
        stream.ask(ranks[0].backlog(step)).await;
    }
    // Longer than the deadline: what must not happen cannot be waited for.
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    assert_eq!(sidecar.metric("conceptwatch_passes_incomplete_total", ""), 0.0);
    ranks[1].start(&mut client).await;
    for step in [2, 3, 4] {
        stream.ask(ranks[1].batch(step)).await;
        stream.ask(ranks[1].backlog(step)).await;
    }
    for step in [2, 3, 4] {
        assert_eq!(stream.settled(step).await.0, Outcome::Point);
    }
    for step in 1..=4 {
        let found = point(&mut client, "r", "val", step).await;
        assert_eq!((found.rows, found.incomplete), (128, false));
    }
    assert_eq!(point(&mut client, "r", "val", 1).await.time, whole.time);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rank_that_had_finished_is_not_waited_for_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let data = ["--data-dir", text(directory.path())];
    let sidecar = Sidecar::start(&data);
    let mut client = sidecar.client().await;
    let ranks = [0, 1].map(|rank| Rank::of(rank, 2));
    for rank in ranks {
        rank.start(&mut client).await;
    }
    assert!(!ranks[1].finish(&mut client, 0.0).await.finished);
    sidecar.kill();
    let sidecar = Sidecar::start(&[&data[..], &["--pass-deadline", "0.01"]].concat());
    let mut client = sidecar.client().await;
    ranks[0].start(&mut client).await;
    let mut stream = Stream::open(&mut client).await;
    ranks[0].pass(&mut stream, 1).await;
    assert_eq!(stream.settled(1).await, (Outcome::Incomplete, "1 ranks did not end the pass".into()));
    assert_eq!(sidecar.metric("conceptwatch_passes_incomplete_total", ""), 1.0);
    assert_eq!(sidecar.metric("conceptwatch_passes_closed_total", ""), 0.0);
    let point = point(&mut client, "r", "val", 1).await;
    assert_eq!((point.rows, point.incomplete), (64, true));
    let finished = ranks[0].finish(&mut client, 20.0).await;
    assert!(finished.finished && finished.unsettled.is_empty(), "{finished:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_far_out_of_step_complete_every_pass() {
    let sidecar = Sidecar::start(&[]);
    let mut client = sidecar.client().await;
    let ranks = [0, 1].map(|rank| Rank::of(rank, 2));
    for rank in ranks {
        rank.start(&mut client).await;
    }
    let mut streams = [Stream::open(&mut client).await, Stream::open(&mut client).await];
    for step in 1..=160 {
        ranks[0].pass(&mut streams[0], step).await;
    }
    for step in 1..=160 {
        // As a client sends what has waited, so that none is skipped.
        streams[1].ask(ranks[1].batch(step)).await;
        streams[1].ask(ranks[1].backlog(step)).await;
        if step > 4 {
            streams[1].settled(step - 4).await;
        }
    }
    for step in 1..=160 {
        assert_eq!(streams[0].settled(step).await, (Outcome::Point, String::new()), "step {step}");
    }
    assert_eq!(sidecar.metric("conceptwatch_passes_incomplete_total", ""), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_complete_point_survives_whatever_comes_again() {
    // A whole pass, one that lost rows, one without the last rank, and the attempt after it, each before or after a
    // restart of the sidecar.
    for order in [["whole", "torn"], ["torn", "whole"], ["whole", "late"], ["late", "whole"]] {
        let directory = tempfile::tempdir().unwrap();
        let data = ["--data-dir", text(directory.path())];
        for (at, kind) in order.into_iter().enumerate() {
            let sidecar = Sidecar::start(&data);
            let rank = Rank::of(0, 1);
            let (_client, mut stream) = rank.join(&sidecar).await;
            let rows = chunk("r", 2, 0..if kind == "torn" { 8 } else { 64 });
            if kind != "late" {
                stream.ask(BatchChunk { step: 1, client: rank.client(), ..rows }).await;
            }
            // Sent again by a client that knows of the restart, or by one that does not.
            stream.ask(EndPass { backlog: at % 2 == 0, ..rank.end(1) }).await;
            let (outcome, _) = stream.settled(1).await;
            let whole_before = order[..at].contains(&"whole");
            let expected = match kind {
                "whole" => Outcome::Point,
                _ if whole_before && kind == "torn" => Outcome::Point,
                "torn" => Outcome::Incomplete,
                _ => Outcome::Failed,
            };
            assert_eq!(outcome, expected, "{kind} of {order:?}");
            let outranked = sidecar.metric("conceptwatch_points_outranked_total", "");
            assert_eq!(outranked, f64::from(whole_before && kind == "torn"), "{kind} of {order:?}");
            sidecar.kill();
        }
        let (points, _) = stored(directory.path());
        assert_eq!(points, [(1, false)].into(), "{order:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_run_is_forgotten_and_can_be_resumed() {
    let sidecar = Sidecar::start(&["--forget-after", "1"]);
    let mut client = sidecar.client().await;
    let ranks = [0, 1].map(|rank| Rank::of(rank, 2));
    for rank in ranks {
        rank.start(&mut client).await;
    }
    let mut stream = Stream::open(&mut client).await;
    for rank in ranks {
        rank.pass(&mut stream, 1).await;
    }
    stream.settled(1).await;
    ranks[0].pass(&mut stream, 2).await;
    let (outcome, reason) = stream.settled(2).await;
    assert_eq!(outcome, Outcome::Failed);
    assert!(reason.contains("no client sent anything for a long time; 1 of 2 ranks had ended the pass"), "{reason}");
    assert_eq!(sidecar.metric("conceptwatch_runs_forgotten_total", ""), 1.0);
    until("the samples are freed", || sidecar.metric("conceptwatch_sample_memory_bytes", "") == 0.0).await;
    // A client that goes on is told to connect again, declares its run and goes on.
    stream.send(ranks[0].batch(3)).await;
    assert_eq!(stream.next().await.unwrap_err().code(), Code::Unavailable);
    let mut stream = Stream::open(&mut client).await;
    for rank in ranks {
        rank.start(&mut client).await;
        rank.pass(&mut stream, 3).await;
    }
    assert_eq!(stream.settled(3).await.0, Outcome::Point);
    assert_eq!(point(&mut client, "r", "val", 1).await.rows, 128);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_a_forgotten_run_is_not_applied_to_what_was_forgotten() {
    let sidecar = Sidecar::start(&["--forget-after", "1"]);
    let mut client = sidecar.client().await;
    client.start_run(run("r")).await.unwrap();
    let mut stream = Stream::open(&mut client).await;
    stream.send(BatchChunk { last: false, ..chunk("r", 1, 0..64) }).await;
    until("the run is forgotten", || sidecar.metric("conceptwatch_runs_forgotten_total", "") == 1.0).await;
    // Another client declares the run again. The batch is sent again to what has its name now.
    client.start_run(StartRunRequest { client: "another".into(), ..run("r") }).await.unwrap();
    stream.send(BatchChunk { chunk: 1, first_row: 64, ..chunk("r", 1, 64..128) }).await;
    assert_eq!(stream.next().await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(sidecar.metric("conceptwatch_sample_memory_bytes", ""), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_dead_runs_make_room_for_the_next() {
    let sidecar = Sidecar::start(&[]);
    let mut client = sidecar.client().await;
    for number in 0..1001 {
        client.start_run(run(&format!("r{number}"))).await.unwrap();
    }
    assert_eq!(sidecar.metric("conceptwatch_runs_forgotten_total", ""), 1.0);
    let mut stream = Stream::open(&mut client).await;
    assert_eq!(stream.ask(chunk("r1000", 1, 0..64)).await.outcome(), Answer::Accepted);
    assert_eq!(stream.ask(chunk("r1", 1, 0..64)).await.outcome(), Answer::Accepted);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_listed_while_the_oldest_make_room_for_others() {
    // A megabyte of it is for declarations, here of 200 long names.
    let sidecar = Sidecar::start(&["--history-mib", "8"]);
    let mut client = sidecar.client().await;
    let over = std::sync::atomic::AtomicBool::new(false);
    let declare = async {
        for number in 0..200 {
            let mut declared = run(&format!("r{number}"));
            let concepts = &mut declared.run.as_mut().unwrap().concepts;
            let concept = concepts[0].clone();
            *concepts = (0..200).map(|i| Concept { name: format!("{i:0100}"), ..concept.clone() }).collect();
            client.start_run(declared).await.unwrap();
            let finish = FinishRunRequest { run: format!("r{number}"), ..FinishRunRequest::default() };
            client.finish_run(finish).await.unwrap();
        }
    };
    let read = || {
        while !over.load(std::sync::atomic::Ordering::Relaxed) {
            let runs = sidecar.get("/api/v1/runs");
            assert!(runs.starts_with("{\"runs\":"), "{}", &runs[..runs.len().min(200)]);
        }
    };
    std::thread::scope(|scope| {
        let reader = scope.spawn(read);
        let declared = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(declare));
        }));
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().expect("every list is one");
        declared.expect("every run is declared");
    });
    assert!(sidecar.metric("conceptwatch_history_dropped_total", "run") > 100.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_split_without_room_does_not_stop_the_others() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let windows: Vec<String> = names.iter().map(|name| format!("--window={name}=all")).collect();
    let mut arguments = vec!["--sample-mib", "8"];
    arguments.extend(windows.iter().map(String::as_str));
    let sidecar = Sidecar::start(&arguments);
    let mut client = sidecar.client().await;
    client.start_run(run_of(64)).await.unwrap();
    let mut stream = Stream::open(&mut client).await;
    let mut sequence = 0;
    let mut ask = async |stream: &mut Stream, split: &str, step, rows| {
        sequence += 1;
        stream.ask(BatchChunk { split: split.into(), ..batch_of([rows, 64], split, step, sequence, |row| row) }).await
    };
    // Rolling windows take what memory there is.
    let mut refused = 0;
    for split in names {
        let answer = ask(&mut stream, split, 1, 4000).await;
        if answer.outcome() == Answer::Refused {
            assert_eq!((answer.code, answer.field.as_str()), (Code::ResourceExhausted as i32, "split"), "{answer:?}");
            refused += 1;
        }
    }
    assert!(refused > 0);
    let answer = ask(&mut stream, "val", 41, 16).await;
    assert_eq!(answer.outcome(), Answer::Accepted, "{answer:?}");
    assert!(sidecar.metric("conceptwatch_rows_dropped_total", "refused") > 0.0);
    assert!(sidecar.metric("conceptwatch_sample_memory_bytes", "") <= f64::from(8 << 20));
}
