//! A rolling window whose CPU share is too small to compute all pairs in one interval.

use std::time::Duration;

use conceptwatch::server::proto::watch_response::Event;
use conceptwatch::server::proto::{BatchChunk, EndPass, FinishRunRequest, Point, WatchRequest};
use leakage::pair_cache::refresh::{least, most_ticks};

use crate::common::rows::{batch_of, run_of};
use crate::common::{Client, PATIENCE, Sidecar, Stream, end_pass, point, until};

const K: usize = 24;
const ROWS: usize = 256;

/// The same rows at every step, with activations that move from step to step.
fn batch(split: &str, step: u64, sequence: u64) -> BatchChunk {
    batch_of([ROWS, K], split, step, sequence, |_| step)
}

fn age(point: &Point, score: &str) -> Option<f64> {
    point.scores.iter().find(|found| found.id == score).unwrap_or_else(|| panic!("{score} is there")).age
}

async fn feed(client: &mut Client, first: u64, until: impl Fn() -> bool) {
    let mut stream = Stream::open(client).await;
    let mut step = first;
    while !until() {
        let answer = stream.ask(batch("train", step, 2 * step)).await;
        assert_eq!(answer.rows, ROWS as u64, "{}", answer.message);
        step += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_small_share_points_state_the_bounded_ages_of_their_pairs() {
    // A fifth of a core in an interval of 10 ms is 2 ms of CPU time: not enough for the scores without pairs.
    let share = ["--cpu-share", "0.25", "--busy-cpu-share", "0.25", "--interval", "0.01", "--least-changed", "0"];
    let sidecar = Sidecar::start(&[&share[..], &["--sample-rows", "256"]].concat());
    let mut client = sidecar.client().await;
    client.start_run(run_of(K)).await.unwrap();
    let mut watched = client.watch(WatchRequest::default()).await.unwrap().into_inner();

    let bound = most_ticks(K * (K - 1) / 2, least(K * (K - 1) / 2)).max(most_ticks(K, least(K)));
    let enough = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let feeding = {
        let (mut client, enough) = (sidecar.client().await, std::sync::Arc::clone(&enough));
        tokio::spawn(async move { feed(&mut client, 1, || enough.load(std::sync::atomic::Ordering::Relaxed)).await })
    };
    let mut points: Vec<Point> = Vec::new();
    while points.len() < bound + 8 {
        let event = tokio::time::timeout(PATIENCE, watched.message()).await.expect("a point in time");
        if let Some(Event::Point(point)) = event.unwrap().unwrap().event {
            assert!(!point.provisional, "the first batch fills the sample");
            // A point is published again once its slow scores have joined it.
            if points.last().is_none_or(|last| last.step < point.step) {
                points.push(point);
            }
        }
    }
    enough.store(true, std::sync::atomic::Ordering::Relaxed);
    feeding.await.unwrap();

    for score in ["icl", "icl_excess", "icl_label"] {
        assert_eq!(age(&points[0], score), None, "the first evaluation computes every pair");
        let mut aged = 0;
        for (at, point) in points.iter().enumerate().skip(1) {
            let Some(age) = age(point, score) else { continue };
            // The oldest pair is of the sample of an earlier point, no more than the stated number of ticks ago.
            let oldest = points[at.saturating_sub(bound - 1)].time;
            assert!(age > 0.0 && point.time - age >= oldest - 1e-6, "{score} at point {at}: {age} s");
            aged += 1;
        }
        assert!(aged >= points.len() / 2, "{score}: {aged} of {} points have old pairs", points.len());
    }
    assert_eq!(points.iter().filter_map(|point| age(point, "concept_auc")).count(), 0);

    // Every output shows the newest point.
    let labels = |score: &str| format!("run=\"r\",split=\"train\",score=\"{score}\"");
    until("the newest point has old pairs", || sidecar.metric("conceptwatch_pair_age_seconds", &labels("icl")) > 0.0)
        .await;
    assert!(sidecar.metric("conceptwatch_pairs_left_total", "") > 100.0);
    let matrix = sidecar.json("/api/v1/matrix?run=r&split=train&score=icl");
    let ages: Vec<Vec<f64>> = serde_json::from_value(matrix["ages"].clone()).unwrap();
    let oldest = ages.iter().flatten().copied().fold(0.0, f64::max);
    let shown = sidecar.json(&format!("/api/v1/point?run=r&split=train&step={}", matrix["step"]));
    assert!((shown["scores"]["icl"]["age"].as_f64().unwrap() - oldest).abs() < 1e-3, "{shown}, {oldest}");
    let fresh = (0..K).flat_map(|i| (0..i).map(move |j| (i, j))).filter(|&(i, j)| ages[i][j] == 0.0).count();
    assert!((least(K * (K - 1) / 2)..K * (K - 1) / 2).contains(&fresh), "{fresh} pairs");
    assert!(ages.iter().enumerate().all(|(i, row)| row.len() == K && (0..K).all(|j| row[j] == ages[j][i])));

    // A pass evaluates a fixed model, so all its pairs are computed, however long that takes.
    let mut stream = Stream::open(&mut client).await;
    stream.ask(batch("val", 7, 1_000_001)).await;
    stream.ask(EndPass { step: 7, ..end_pass("r", 1_000_002) }).await;
    let pass = point(&mut client, "r", "val", 7).await;
    assert!(pass.scores.iter().all(|score| score.age.is_none() && score.value.is_some()));
    // The same holds for the last sample of a run.
    let finish = FinishRunRequest { run: "r".into(), ..Default::default() };
    client.finish_run(finish).await.unwrap();
    until("all pairs of the last sample are computed", || {
        let text = sidecar.get("/metrics");
        let ages = text.lines().filter(|line| line.starts_with("conceptwatch_pair_age_seconds{"));
        let ages: Vec<_> = ages.filter(|line| line.contains("train")).collect();
        assert!(ages.len() >= 4 && !text.contains("pair_age_seconds{run=\"r\",split=\"val\""), "{ages:?}");
        ages.iter().all(|line| line.ends_with(" 0"))
    })
    .await;
}
