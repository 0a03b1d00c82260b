//! Scores that train networks come later than the others, to the same point, and hold none of them up.
#![cfg(feature = "server")]

#[path = "common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use conceptwatch::server::proto::{BatchChunk, Concept, EndPass, StartRunRequest};

use common::rows::{floats, integers};
use common::{PATIENCE, Sidecar, Stream, chunk, end_pass, point, run};

const K: u64 = 20;
const ROWS: u64 = 800;

fn wide_run() -> StartRunRequest {
    let mut request = run("r");
    let concepts = (0..K).map(|i| Concept { name: format!("c{i}"), cardinality: 2 });
    request.run.as_mut().unwrap().concepts = concepts.collect();
    request
}

fn wide_chunk(step: u64) -> BatchChunk {
    // Every label is a bit of its row number; activations tell it with a fixed spread.
    let label = |row: u64, i: u64| (row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (20 + i) & 1) as i64;
    let spread = |row: u64, i: u64| ((row * 31 + i * 17 + step) % 97) as f32 / 97.0;
    let cells = || (0..ROWS).flat_map(|row| (0..K).map(move |i| (row, i)));
    let activations: Vec<f32> = cells().map(|(row, i)| 0.4 * label(row, i) as f32 + 0.6 * spread(row, i)).collect();
    let labels: Vec<i64> = cells().map(|(row, i)| label(row, i)).collect();
    let task: Vec<i64> = (0..ROWS).map(|row| label(row, 0) + label(row, 1)).collect();
    let tensors = vec![
        floats("concept_activations", &[ROWS, K], &activations),
        integers("concept_labels", &[ROWS, K], &labels),
        integers("task_labels", &[ROWS], &task),
    ];
    BatchChunk { step, tensors, ..chunk("r", 2 * step, []) }
}

#[tokio::test(flavor = "multi_thread")]
async fn fast_scores_do_not_wait_for_slow_ones() {
    let sidecar = Sidecar::start(&[]);
    let mut client = sidecar.client().await;
    client.start_run(wide_run()).await.unwrap();
    let has = |point: &conceptwatch::server::proto::Point, id: &str| point.scores.iter().any(|score| score.id == id);
    let mut slow_were_missing = 0;
    for step in 1..=3 {
        let mut stream = Stream::open(&mut client).await;
        stream.ask(wide_chunk(step)).await;
        stream.ask(EndPass { step, ..end_pass("r", 2 * step + 1) }).await;
        let scored = point(&mut client, "r", "val", step).await;
        assert!(has(&scored, "icl") && has(&scored, "mig"), "step {step}");
        slow_were_missing += usize::from(!has(&scored, "ois"));
    }
    // The slow scores of a sample start when its point is out; with the next one out they were still at it.
    assert_eq!(slow_were_missing, 3, "every point was out before its slow scores");
    let deadline = Instant::now() + PATIENCE.max(Duration::from_secs(120));
    let whole = loop {
        let newest = point(&mut client, "r", "val", 3).await;
        if has(&newest, "nis") {
            break newest;
        }
        assert!(Instant::now() < deadline, "the slow scores join the newest point");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert!(has(&whole, "icl") && has(&whole, "ois") && has(&whole, "aligned_ois"));
    let ids: Vec<&str> = whole.scores.iter().map(|score| score.id.as_str()).collect();
    let catalogue = conceptwatch::score::catalogue::CATALOGUE;
    assert!(ids.is_sorted_by_key(|id| catalogue.iter().position(|score| score.id == *id)), "in catalogue order");
    let ois = sidecar.metric("conceptwatch_ois", "val");
    assert!(ois > 0.0 && ois < 1.0, "{ois}");
    // A newer point without them does not take the gauge away.
    let mut stream = Stream::open(&mut client).await;
    stream.ask(wide_chunk(4)).await;
    stream.ask(EndPass { step: 4, ..end_pass("r", 9) }).await;
    point(&mut client, "r", "val", 4).await;
    assert!(sidecar.metric("conceptwatch_ois", "val") > 0.0);
}
