//! Streams that end or break off prematurely, and messages without content.

use conceptwatch::server::proto::ingest_request::Message;
use conceptwatch::server::proto::ingest_response::Outcome;
use conceptwatch::server::proto::{BatchChunk, IngestRequest};
use tonic::Code;

use super::messages::{counts, part};
use crate::common::rows::{floats, integers};
use crate::common::{Client, Sent, Sidecar, Stream, chunk, run, split, until};

/// Sends `messages` on a separate stream, ends it, and returns the number of rows counted as dropped.
async fn dropped_by(sidecar: &Sidecar, client: &mut Client, messages: Vec<Message>) -> f64 {
    let before = counts(sidecar, Code::InvalidArgument);
    let mut stream = Stream::open(client).await;
    for message in messages {
        stream.send(message).await;
    }
    // Another message's answer shows that those before it were read.
    stream.ask(BatchChunk { rank: 9, ..chunk("r", 50, 0..0) }).await;
    stream.close().await;
    counts(sidecar, Code::InvalidArgument).dropped - before.dropped
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_without_its_last_chunk_is_dropped_and_counted() {
    let sidecar = Sidecar::start(&[]);
    let mut client = sidecar.client().await;
    client.start_run(run("r")).await.unwrap();
    let unfinished = (0..3).map(|at| part("r", 1, at, false).message()).collect();
    assert_eq!(dropped_by(&sidecar, &mut client, unfinished).await, 12.0);

    // When the stream just ends, its client may send them again.
    let before = counts(&sidecar, Code::InvalidArgument);
    let stream = Stream::open(&mut client).await;
    stream.send(part("r", 1, 0, false)).await;
    stream.close().await;
    until("its rows are counted", || sidecar.metric("conceptwatch_rows_unfinished_total", "") == 4.0).await;
    assert_eq!(counts(&sidecar, Code::InvalidArgument).dropped, before.dropped);
    assert_eq!(split(&mut client, "r", "val").await.unwrap_or_default().rows_received, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_above_the_limit_gets_an_answer_that_names_it() {
    let sidecar = Sidecar::start(&[]);
    let mut client = sidecar.client().await;
    client.start_run(run("r")).await.unwrap();
    for bytes in [4 << 20, 65 << 20] {
        let mut stream = Stream::open(&mut client).await;
        let embeddings = floats("image_embeddings", &[1, bytes / 4], &vec![0.5; bytes as usize / 4]);
        stream.send(BatchChunk { tensors: vec![embeddings], ..chunk("r", 1, 0..0) }).await;
        let status = stream.next().await.expect_err("the stream ends");
        // Clients would retry forever after a status that they treat as transient.
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains("4194304"), "{status}");
        // The connection, and another stream on it, stay open.
        let mut stream = Stream::open(&mut client).await;
        assert_eq!(stream.ask(chunk("r", 1, 0..16)).await.outcome, 1 + (bytes > 4 << 20) as i32);
    }
    assert_eq!(counts(&sidecar, Code::InvalidArgument).refused, 2.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_message_is_answered_and_the_stream_stays_open() {
    let sidecar = Sidecar::start(&[]);
    let mut client = sidecar.client().await;
    client.start_run(run("r")).await.unwrap();
    let mut stream = Stream::open(&mut client).await;
    stream.sender.send(IngestRequest { message: None }).await.unwrap();
    let answer = stream.answer().await;
    assert_eq!((answer.outcome(), answer.field.as_str()), (Outcome::Refused, "message"));
    assert_eq!(stream.ask(chunk("r", 1, 0..16)).await.outcome(), Outcome::Accepted);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_batches_use_up_no_split_and_show_in_the_status() {
    let sidecar = Sidecar::start(&[]);
    let mut client = sidecar.client().await;
    client.start_run(run("r")).await.unwrap();
    let mut stream = Stream::open(&mut client).await;
    for split in 0..20 {
        let bad = BatchChunk { split: format!("s{split}"), rank: 7, ..chunk("r", 1, 0..16) };
        assert_eq!(stream.ask(bad).await.field, "rank");
    }
    for at in 0..16 {
        let good = BatchChunk { split: format!("t{at}"), ..chunk("r", 2, 0..16) };
        assert_eq!(stream.ask(good).await.outcome(), Outcome::Accepted);
    }
    let one_more = stream.ask(BatchChunk { split: "t16".into(), ..chunk("r", 3, 0..16) }).await;
    assert_eq!((one_more.outcome(), one_more.field.as_str()), (Outcome::Refused, "split"));
    let mut bad = chunk("r", 3, 0..16);
    bad.split = "t3".into();
    bad.tensors[2] = integers("task_labels", &[16], &[-1; 16]);
    assert_eq!(stream.ask(bad).await.outcome(), Outcome::Refused);
    assert_eq!(split(&mut client, "r", "t3").await.unwrap().rows_dropped, 16);
    let status = sidecar.get("/api/v1/status");
    assert!(status.contains(&format!("\"rows_dropped\":{}", 22 * 16)), "{status}");
}
