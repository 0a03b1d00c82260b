//! One run with more ranks than most clusters have: every rank has a connection of its own to one sidecar without options.

mod common;

use conceptwatch::server::proto::ingest_response::Outcome;
use conceptwatch::server::proto::{BatchChunk, EndPass, Point, Score, StartRunRequest};
use futures::future::{join_all, try_join_all};

use common::{Client, Sidecar, Stream, chunk, end_pass, point, run_of_ranks};

const RANKS: u64 = 1024;
const ROWS: u64 = 20_000;

/// A rank's connection, its stream on it, and its client id.
async fn joined(sidecar: &Sidecar, world_size: u64, rank: u64) -> Result<(Client, Stream), tonic::Status> {
    let mut client = sidecar.client().await;
    let declared = run_of_ranks("r", world_size as u32);
    let request =
        StartRunRequest { client: format!("rank-{rank}"), rank: rank as u32, job: "launch".into(), ..declared };
    client.start_run(request).await?;
    let stream = Stream::open(&mut client).await;
    Ok((client, stream))
}

/// Sends a rank's share of the rows and ends its pass.
async fn evaluated(stream: &mut Stream, world_size: u64, rank: u64) {
    let (client, number) = (format!("rank-{rank}"), rank as u32);
    let rows = (rank..ROWS).step_by(world_size as usize);
    let batch = BatchChunk { client: client.clone(), rank: number, ..chunk("r", 1, rows) };
    assert_eq!(stream.ask(batch).await.outcome(), Outcome::Accepted, "rank {rank}");
    let end = EndPass { client, rank: number, ..end_pass("r", 2) };
    assert_eq!(stream.ask(end).await.outcome(), Outcome::Accepted, "rank {rank}");
}

/// The point of a pass of `world_size` ranks, each with its own connection, all open at once.
async fn scored(world_size: u64) -> Point {
    let sidecar = Sidecar::start(&[]);
    let mut ranks = try_join_all((0..world_size).map(|rank| joined(&sidecar, world_size, rank))).await.unwrap();
    assert_eq!(sidecar.metric("conceptwatch_connections", "grpc"), world_size as f64);
    join_all(ranks.iter_mut().zip(0..).map(|((_, stream), rank)| evaluated(stream, world_size, rank))).await;
    let found = point(&mut ranks[0].0, "r", "val", 1).await;
    assert_eq!(sidecar.metric("conceptwatch_batches_refused_total", "RESOURCE_EXHAUSTED"), 0.0);
    found
}

fn bits(point: &Point) -> Vec<(String, Option<u64>)> {
    let value = |score: &Score| (score.id.clone(), score.value.map(f64::to_bits));
    point.scores.iter().map(value).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_ranks_have_the_scores_of_one() {
    conceptwatch::server::peers::raise_file_limit();
    let (one, many) = (scored(1).await, scored(RANKS).await);
    assert!(!many.incomplete);
    assert_eq!((many.rows, many.rows_seen), (4096, ROWS));
    assert_eq!(bits(&many), bits(&one));
}
