//! A rolling window in which few rows are replaced between ticks: with enough CPU time, a tick has the values of a pass
//! over the same rows, even after the run resumes from a checkpoint.

use conceptwatch::server::proto::{BatchChunk, EndPass, Point, Score, StartRunRequest};

use crate::common::rows::{batch_of, run_of};
use crate::common::{Client, Sidecar, Stream, end_pass, point, until};

const K: usize = 12;
const ROWS: usize = 256;
/// Rows whose values change from one step to the next.
const REPLACED: u64 = 4;

fn start(trainer: u64) -> StartRunRequest {
    StartRunRequest { client: format!("trainer-{trainer}"), ..run_of(K) }
}

/// Every row, with its values after `replacements` by `trainer`, each of which gives the next few rows new ones.
fn batch(split: &str, step: u64, sequence: u64, (trainer, replacements): (u64, u64)) -> BatchChunk {
    // How often the row has been replaced.
    let turns = |row: u64| (replacements * REPLACED + ROWS as u64 - 1 - row) / ROWS as u64;
    batch_of([ROWS, K], split, step, sequence, |row| 100 * trainer + turns(row))
}

/// The scores over pairs, with their errors and matrices.
fn leakage(point: &Point) -> Vec<&Score> {
    point.scores.iter().filter(|score| score.id.starts_with("icl")).collect()
}

/// What a tick of the window and a pass of the same rows give.
async fn both(client: &mut Client, stream: &mut Stream, step: u64, rows: (u64, u64)) -> Point {
    let process = format!("trainer-{}", rows.0);
    let chunk = |split, sequence| BatchChunk { client: process.clone(), ..batch(split, step, sequence, rows) };
    let answer = stream.ask(chunk("train", 3 * step)).await;
    assert_eq!(answer.rows, ROWS as u64, "{}", answer.message);
    let ticked = point(client, "r", "train", step).await;
    stream.ask(chunk("val", 3 * step + 1)).await;
    stream.ask(EndPass { step, client: process.clone(), ..end_pass("r", 3 * step + 2) }).await;
    let passed = point(client, "r", "val", step).await;
    assert!(leakage(&ticked).len() >= 4);
    assert_eq!(leakage(&ticked), leakage(&passed), "step {step}");
    ticked
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tick_with_time_for_every_pair_has_the_values_of_a_pass_even_after_a_resume() {
    let share = ["--cpu-share", "2", "--busy-cpu-share", "2", "--interval", "0.1", "--least-changed", "0"];
    let window = ["--window", "train=all", "--sample-rows", "256"];
    let sidecar = Sidecar::start(&[&share[..], &window].concat());
    let mut client = sidecar.client().await;
    client.start_run(start(1)).await.unwrap();
    let mut stream = Stream::open(&mut client).await;
    let kept = || sidecar.metric("conceptwatch_kept_memory_bytes", "");
    // 80 bytes a pair of `icl`, and 24 a pair of `icl_label`.
    let least = (K * (K - 1) / 2 * 80 + K * (K - 1) * 24) as f64;
    for tick in 1..=6 {
        let ticked = both(&mut client, &mut stream, 10 * tick, (1, tick)).await;
        assert!(ticked.scores.iter().all(|score| score.age.is_none()), "there is time for every pair");
        // Values are kept after the point is published.
        until("values are kept", || kept() > least).await;
    }
    // A new process that resumes from a checkpoint.
    client.start_run(start(2)).await.unwrap();
    both(&mut client, &mut stream, 15, (2, 1)).await;
    both(&mut client, &mut stream, 20, (2, 2)).await;
    both(&mut client, &mut stream, 30, (2, 3)).await;
}
