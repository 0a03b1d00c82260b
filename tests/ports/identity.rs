//! A name does not identify a run: the data and answers of one training are separate from those of another.

use conceptwatch::server::proto::ingest_response::Outcome;
use conceptwatch::server::proto::{
    BatchChunk, EndPass, FinishRunRequest, GetAdviceRequest, GetDiagnosisRequest, GetScoresRequest, ListRunsRequest,
    Point, RunStatus, StartRunRequest,
};
use tonic::Code;

use crate::common::{Client, Sidecar, Stream, chunk, end_pass, point, run, run_of_ranks, text};

/// The declaration by the client of one rank of a launch.
fn launched(name: &str, client: &str, job: &str) -> StartRunRequest {
    StartRunRequest { client: client.into(), job: job.into(), ..run(name) }
}

async fn start(client: &mut Client, request: StartRunRequest) -> String {
    client.start_run(request).await.unwrap().into_inner().run
}

/// The messages of one client for a pass of `val`.
struct Rank<'a> {
    run: &'a str,
    client: &'a str,
    rank: u32,
}

impl Rank<'_> {
    fn batch(&self, step: u64, rows: std::ops::Range<u64>) -> BatchChunk {
        let client = self.client.into();
        BatchChunk { step, client, rank: self.rank, ..chunk(self.run, 2 * step + 1, rows) }
    }

    fn end(&self, step: u64) -> EndPass {
        EndPass { step, client: self.client.into(), rank: self.rank, ..end_pass(self.run, 2 * step + 2) }
    }
}

/// The point of a step, or the newest one, without waiting.
async fn known(client: &mut Client, run: &str, step: Option<u64>) -> Option<Point> {
    let request = GetScoresRequest { run: run.into(), split: "val".into(), step, ..Default::default() };
    match client.get_scores(request).await {
        Ok(answer) => answer.into_inner().point,
        Err(status) if status.code() == Code::NotFound => None,
        Err(status) => panic!("{status}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reused_name_does_not_return_points_of_an_earlier_training() {
    let sidecar = Sidecar::start(&[]);
    let mut client = sidecar.client().await;
    let mut stream = Stream::open(&mut client).await;
    let first = Rank { run: "r", client: "first", rank: 0 };
    start(&mut client, launched("r", first.client, "")).await;
    for step in 1..=3 {
        stream.ask(first.batch(step, 0..64)).await;
        stream.ask(first.end(step)).await;
        point(&mut client, "r", "val", step).await;
    }

    // A client that names no launch trains under the same name: its first pass is open.
    let second = Rank { run: "r", client: "second", rank: 0 };
    start(&mut client, launched("r", second.client, "")).await;
    stream.ask(second.batch(1, 0..48)).await;
    for step in [None, Some(1), Some(2), Some(3)] {
        let found = known(&mut client, "r", step).await;
        assert!(found.is_none(), "step {step:?}: {:?} of the earlier training", found.map(|point| point.step));
    }
    let diagnosis = GetDiagnosisRequest { run: "r".into(), split: "val".into(), ..Default::default() };
    assert_eq!(client.get_diagnosis(diagnosis.clone()).await.unwrap_err().code(), Code::NotFound);
    let asked = "/api/v1/diagnosis?run=r&split=val";
    assert!(sidecar.get(asked).contains("has no evaluation of 'val'"), "{}", sidecar.get(asked));
    stream.ask(second.end(1)).await;
    assert_eq!(point(&mut client, "r", "val", 1).await.rows, 48);
    assert_eq!(client.get_diagnosis(diagnosis).await.unwrap().into_inner().rows, 48);
    assert!(sidecar.get(asked).contains("\"rows\":48"), "{}", sidecar.get(asked));
    // A point is in the history a moment before it is the newest.
    assert_eq!(point(&mut client, "r", "val", None).await.rows, 48);
    assert!(known(&mut client, "r", Some(2)).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_job_gets_a_new_name_unless_it_resumes() {
    let directory = tempfile::tempdir().unwrap();
    let data = ["--data-dir", text(directory.path())];
    let mut sidecar = Sidecar::start(&data);
    for restarted in [false, true] {
        let mut client = sidecar.client().await;
        assert_eq!(start(&mut client, launched("r", "a", "one")).await, "r");
        assert_eq!(start(&mut client, launched("r", "b", "two")).await, "r-2");
        assert_eq!(start(&mut client, launched("r", "c", "three")).await, "r-3");
        assert_eq!(start(&mut client, launched("r", "d", "two")).await, "r-2", "another rank of that launch");
        assert_eq!(start(&mut client, launched("r", "e", "")).await, "r", "a client that names no launch resumes");
        let resumed = StartRunRequest { resume: true, ..launched("r-2", "f", "four") };
        assert_eq!(start(&mut client, resumed.clone()).await, "r-2");
        assert_eq!(start(&mut client, resumed).await, "r-2");
        let new = StartRunRequest { resume: true, ..launched("nothing-to-resume", "g", "five") };
        assert_eq!(start(&mut client, new).await, "nothing-to-resume");
        let runs = client.list_runs(ListRunsRequest::default()).await.unwrap().into_inner().runs;
        let mut names: Vec<String> = runs.into_iter().map(|run: RunStatus| run.run.unwrap().name).collect();
        names.sort();
        assert_eq!(names, ["nothing-to-resume", "r", "r-2", "r-3"], "after a restart: {restarted}");
        // Launches are remembered across a restart of the sidecar.
        drop(client);
        sidecar.kill();
        sidecar = Sidecar::start(&data);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_elastic_restart_inside_a_pass_does_not_mix_two_models() {
    // Each agent of torchrun counts for itself. The processes of the ranks tell its attempts apart.
    let starts = [
        ("", None),
        ("torchrun", None),
        ("torchrun", Some([0, 0])),
        ("torchrun", Some([0, 1])),
        ("torchrun", Some([1, 0])),
    ];
    for (job, counts) in starts {
        let sidecar = Sidecar::start(&[]);
        let mut client = sidecar.client().await;
        let mut stream = Stream::open(&mut client).await;
        let rank = |client, rank| Rank { run: "r", client, rank };
        let [old_0, old_1, new_0, new_1] = [rank("a", 0), rank("b", 1), rank("c", 0), rank("d", 1)];
        let [of_new_0, of_new_1] = counts.unwrap_or([1, 1]);
        for (attempt, of) in [(0, &old_0), (0, &old_1), (of_new_0, &new_0), (of_new_1, &new_1)] {
            let process = counts.map_or_else(String::new, |_| format!("process of {}", of.client));
            let request = StartRunRequest {
                client: of.client.into(),
                job: job.into(),
                attempt,
                rank: of.rank,
                process,
                ..run_of_ranks("r", 2)
            };
            start(&mut client, request).await;
        }
        // The old rank 0 ended the pass before all ranks restarted; of the new ranks, rank 1 ends it first.
        stream.ask(old_0.batch(5, 0..64)).await;
        stream.ask(old_0.end(5)).await;
        stream.ask(new_1.batch(5, 100..132)).await;
        stream.ask(new_1.end(5)).await;
        assert!(known(&mut client, "r", Some(5)).await.is_none(), "closed with a rank of each model");
        let late = stream.ask(old_1.batch(5, 200..232)).await;
        assert_eq!((late.outcome(), late.code, late.field.as_str()), (Outcome::Refused, 9, "attempt"), "{late:?}");
        assert_eq!(late.rows_dropped, 32);
        stream.ask(new_0.batch(5, 0..32)).await;
        stream.ask(new_0.end(5)).await;
        let point = point(&mut client, "r", "val", 5).await;
        assert_eq!((point.rows, point.incomplete), (64, false), "job '{job}', counts {counts:?}");
        assert_eq!(sidecar.metric("conceptwatch_passes_discarded_total", ""), 1.0);
        assert_eq!(sidecar.metric("conceptwatch_rows_dropped_total", "discarded"), 64.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn advice_is_kept_for_each_attempt_and_an_evaluator_that_finishes_leaves_training_its_run() {
    let sidecar = Sidecar::start(&[]);
    let mut client = sidecar.client().await;
    let mut stream = Stream::open(&mut client).await;
    let trainer = Rank { run: "r", client: "trainer", rank: 0 };
    start(&mut client, launched("r", trainer.client, "training")).await;
    stream.ask(trainer.batch(1, 0..64)).await;
    stream.ask(trainer.end(1)).await;
    point(&mut client, "r", "val", 1).await;
    // An evaluator from another launch continues the run on another split.
    let evaluator = StartRunRequest { resume: true, ..launched("r", "evaluator", "evaluation") };
    assert_eq!(start(&mut client, evaluator).await, "r");
    let of_evaluator = Rank { run: "r", client: "evaluator", rank: 0 };
    stream.ask(BatchChunk { split: "test".into(), ..of_evaluator.batch(1, 0..64) }).await;
    stream.ask(EndPass { split: "test".into(), ..of_evaluator.end(1) }).await;
    stream.ask(trainer.batch(2, 0..64)).await;
    stream.ask(trainer.end(2)).await;
    assert_eq!(point(&mut client, "r", "val", 2).await.rows, 64, "the trainer is not fenced on its own split");
    for (of, step) in [("trainer", 2), ("evaluator", 1)] {
        let mut answers = Vec::new();
        for _ in 0..2 {
            let request = GetAdviceRequest {
                run: "r".into(),
                step,
                timeout_seconds: 20.0,
                client: of.into(),
                ..Default::default()
            };
            answers.push(client.get_advice(request).await.unwrap().into_inner());
        }
        assert_eq!(answers[0], answers[1]);
    }

    let finish =
        |client: &str| FinishRunRequest { run: "r".into(), rank: 0, client: client.into(), ..Default::default() };
    client.finish_run(finish("evaluator")).await.unwrap();
    assert_eq!(stream.ask(trainer.batch(3, 0..64)).await.outcome(), Outcome::Accepted);
    client.finish_run(finish("trainer")).await.unwrap();
    let refused = stream.ask(trainer.batch(4, 0..64)).await;
    assert_eq!((refused.outcome(), refused.field.as_str()), (Outcome::Refused, "run"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_say_where_a_run_trains() {
    let sidecar = Sidecar::start(&["--linger", "0"]);
    let mut client = sidecar.client().await;
    let of = |rank: u32, attempt: u32| StartRunRequest {
        client: format!("client-{rank}-{attempt}"),
        job: "launch".into(),
        rank,
        attempt,
        host: format!("node-{rank}-{attempt}"),
        scheduler_job: "4711".into(),
        ..run_of_ranks("r", 2)
    };
    let infos = || {
        let metrics = sidecar.get("/metrics");
        let infos = metrics.lines().filter(|line| line.starts_with("conceptwatch_run_info{"));
        infos.map(str::to_owned).collect::<Vec<_>>()
    };
    let info =
        |host: &str| vec![format!(r#"conceptwatch_run_info{{host="{host}",job="4711",lambda="0.01",run="r"}} 1"#)];
    // One series for each run: with the host of the lowest rank, in whatever order ranks come.
    for (rank, host) in [(1, "node-1-0"), (0, "node-0-0"), (1, "node-0-0")] {
        start(&mut client, of(rank, 0)).await;
        assert_eq!(infos(), info(host));
    }
    start(&mut client, of(1, 1)).await;
    assert_eq!(infos(), info("node-1-1"), "of the newest attempt");
    start(&mut client, of(0, 0)).await;
    assert_eq!(infos(), info("node-1-1"));

    let quiet = StartRunRequest { client: "quiet".into(), ..run("a\"b\\c") };
    start(&mut client, quiet).await;
    let escaped = r#"conceptwatch_run_info{lambda="0.01",run="a\"b\\c"} 1"#;
    assert!(infos().contains(&escaped.to_owned()), "{:?}", infos());
    let request = FinishRunRequest { run: "a\"b\\c".into(), ..Default::default() };
    client.finish_run(request).await.unwrap();
    assert_eq!(infos().len(), 1, "a run that has finished leaves no series");
}
