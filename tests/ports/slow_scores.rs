//! Scores that train networks, and permutation tests, join their point after the others, without delaying them.

use conceptwatch::server::proto::watch_response::Event;
use conceptwatch::server::proto::{BatchChunk, Concept, EndPass, Point, StartRunRequest, WatchRequest, WatchResponse};
use tonic::Streaming;

use crate::common::rows::{CLIENT, floats, integers};
use crate::common::{Client, PATIENCE, Sidecar, Stream, chunk, end_pass, point, run, text};

const ROWS: u64 = 800;

fn run_of(name: &str, concepts: u64) -> StartRunRequest {
    let mut request = run(name);
    let named = (0..concepts).map(|i| Concept { name: format!("c{i}"), cardinality: 2, ..Concept::default() });
    request.run.as_mut().unwrap().concepts = named.collect();
    request
}

async fn pass(client: &mut Client, name: &str, k: u64, step: u64) {
    pass_of(client, CLIENT, name, k, step).await;
}

/// Sends a pass of a run with `k` concepts, from this client.
async fn pass_of(client: &mut Client, from: &str, name: &str, k: u64, step: u64) {
    // Every label is a bit of its row number; activations carry it with a fixed spread.
    let label = |row: u64, i: u64| (row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (4 + i) & 1) as i64;
    let spread = |row: u64, i: u64| ((row * 31 + i * 17 + step) % 97) as f32 / 97.0;
    let cells = || (0..ROWS).flat_map(|row| (0..k).map(move |i| (row, i)));
    let activations: Vec<f32> = cells().map(|(row, i)| 0.4 * label(row, i) as f32 + 0.6 * spread(row, i)).collect();
    let labels: Vec<i64> = cells().map(|(row, i)| label(row, i)).collect();
    let task: Vec<i64> = (0..ROWS).map(|row| label(row, 0) + label(row, 1)).collect();
    let tensors = vec![
        floats("concept_activations", &[ROWS, k], &activations),
        integers("concept_labels", &[ROWS, k], &labels),
        integers("task_labels", &[ROWS], &task),
    ];
    let mut stream = Stream::open(client).await;
    stream.ask(BatchChunk { step, tensors, client: from.into(), ..chunk(name, 2 * step, []) }).await;
    stream.ask(EndPass { step, client: from.into(), ..end_pass(name, 2 * step + 1) }).await;
}

/// The next point that is published, in the order of publication.
async fn published(watch: &mut Streaming<WatchResponse>) -> Point {
    loop {
        let heard = tokio::time::timeout(PATIENCE, watch.message()).await.expect("a point in time");
        if let Some(Event::Point(point)) = heard.unwrap().expect("the stream stays open").event {
            return point;
        }
    }
}

fn has(point: &Point, id: &str) -> bool {
    point.scores.iter().any(|score| score.id == id)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_score_waits_for_one_of_a_higher_cost() {
    let sidecar = Sidecar::start(&[]);
    let mut client = sidecar.client().await;
    let mut watch = client.watch(WatchRequest::default()).await.unwrap().into_inner();
    client.start_run(run_of("wide", 60)).await.unwrap();
    client.start_run(run_of("narrow", 2)).await.unwrap();
    // Its 7,200 networks take hundreds of times what three narrow passes take, so the order holds at any speed.
    pass(&mut client, "wide", 60, 1).await;
    let first = published(&mut watch).await;
    // Those that most alerts rest on are there before any that goes over pairs.
    assert!(first.run == "wide" && has(&first, "ctl_conditional") && has(&first, "concept_auc"), "{first:?}");
    assert!(!has(&first, "icl") && !has(&first, "ois"), "{first:?}");
    let waited = point(&mut client, "wide", "val", 1).await;
    assert!(has(&waited, "ctl_conditional") && has(&waited, "icl"), "who waits for scores gets those over pairs");
    let joined = published(&mut watch).await;
    assert!(joined.run == "wide" && has(&joined, "icl") && !has(&joined, "ois"));
    for step in 1..=3 {
        pass(&mut client, "narrow", 2, step).await;
        let point = published(&mut watch).await;
        assert_eq!((point.run.as_str(), point.step), ("narrow", step), "published before the slow scores of the first");
        assert!(has(&point, "icl") && has(&point, "mig") && !has(&point, "ois"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_scores_join_the_point_of_their_sample() {
    let sidecar = Sidecar::start(&[]);
    let mut client = sidecar.client().await;
    let mut watch = client.watch(WatchRequest::default()).await.unwrap().into_inner();
    client.start_run(run_of("r", 4)).await.unwrap();
    pass(&mut client, "r", 4, 1).await;
    let p_value = |point: &Point, id: &str| point.scores.iter().find(|score| score.id == id).unwrap().p_value;
    let first = published(&mut watch).await;
    assert!(!has(&first, "ois") && p_value(&first, "ctl_conditional").is_none(), "the fast scores come first");
    let whole = published(&mut watch).await;
    assert!(["ctl_conditional", "icl_conditional"].iter().all(|id| p_value(&whole, id).is_some_and(|p| p > 0.0)));
    assert_eq!(whole.step, 1);
    assert!(["icl", "ois", "nis", "aligned_ois"].iter().all(|id| has(&whole, id)));
    let catalogue = leakage::score::catalogue::CATALOGUE;
    let place = |id: &str| catalogue.iter().position(|score| score.id == id);
    assert!(whole.scores.is_sorted_by_key(|score| place(&score.id)), "in catalogue order");
    let ois = sidecar.metric("conceptwatch_ois", "val");
    assert!(ois > 0.0 && ois < 1.0, "{ois}");

    pass(&mut client, "r", 4, 2).await;
    assert_eq!(published(&mut watch).await.step, 2);
    assert!(sidecar.metric("conceptwatch_ois", "val") > 0.0, "a newer point without them does not remove the gauge");
}

/// An exception that held before the run began again would excuse what it is now.
#[tokio::test(flavor = "multi_thread")]
async fn slow_scores_of_an_attempt_that_was_left_end_no_alert() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("serve.toml");
    let rule = "[[alerts]]\nname = \"any\"\nall = [{ score = \"ctl_conditional\", above = -1.0 }]\n\
                unless = { score = \"ois\", below = 10.0 }\n";
    std::fs::write(&path, rule).unwrap();
    let sidecar = Sidecar::start(&["--config", text(&path)]);
    let mut client = sidecar.client().await;
    let mut watch = client.watch(WatchRequest::default()).await.unwrap().into_inner();
    // The networks of the first attempt take hundreds of times what the fast scores of the second do.
    for (attempt, from, step) in [(0, "a", 9), (1, "b", 1)] {
        let start = StartRunRequest { job: "j".into(), attempt, client: from.into(), ..run_of("r", 8) };
        client.start_run(start).await.unwrap();
        pass_of(&mut client, from, "r", 8, step).await;
        point(&mut client, "r", "val", step).await;
    }
    let mut has_begun_again = false;
    while let point = published(&mut watch).await
        && !(point.step == 9 && has(&point, "ois"))
    {
        has_begun_again |= point.step == 1;
    }
    assert!(has_begun_again, "the second attempt has a point before the first has its slow scores");
    assert_eq!(sidecar.metric("conceptwatch_alert_state", "rule=\"any\""), 2.0);
}
