//! `conceptwatch replay` of recordings whose evaluations did not all end.

use std::path::Path;

use conceptwatch::server::proto::recorded::Message as Recorded;
use conceptwatch::server::proto::{self, BatchChunk, EndPass, IngestRequest, StartRunRequest, ingest_request};
use prost::Message;

use crate::common::{Done, chunk, conceptwatch, end_pass, run_of_ranks, text};

/// A recording of one rank: the step and ordinal of each pass, and why it was left, if it was.
fn record(path: &Path, rank: u32, world_size: u32, passes: &[(u64, u32, &str)]) {
    let client = format!("rank-{rank}");
    let start = StartRunRequest { client: client.clone(), rank, ..run_of_ranks("r", world_size) };
    let mut messages = vec![Recorded::Start(start)];
    let ingest = |message| Recorded::Ingest(IngestRequest { message: Some(message) });
    for (sequence, &(step, ordinal, why)) in (1..).step_by(2).zip(passes) {
        let first = 1000 * u64::from(rank);
        let rows =
            BatchChunk { step, ordinal, rank, client: client.clone(), ..chunk("r", sequence, first..first + 64) };
        let (client, abandoned) = (client.clone(), why.to_owned());
        let end = EndPass { step, ordinal, rank, client, abandoned, ..end_pass("r", sequence + 1) };
        messages.push(ingest(ingest_request::Message::Chunk(rows)));
        messages.push(ingest(ingest_request::Message::EndPass(end)));
    }
    let encoded = |message| proto::Recorded { message: Some(message) }.encode_length_delimited_to_vec();
    std::fs::write(path, messages.into_iter().flat_map(encoded).collect::<Vec<u8>>()).unwrap();
}

#[test]
fn an_evaluation_left_by_an_exception_is_said_once_and_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let files = [0, 1].map(|rank| directory.path().join(format!("{rank}.cwrec")));
    // Evaluated again at the same step, and left by one rank before the other has ended it, and after.
    record(&files[0], 0, 2, &[(1, 1, ""), (2, 1, "ValueError"), (2, 2, ""), (3, 1, ""), (4, 1, "Late"), (5, 1, "")]);
    record(&files[1], 1, 2, &[(1, 1, ""), (2, 1, "ValueError"), (2, 2, ""), (3, 1, "Alone"), (4, 1, ""), (5, 1, "")]);
    let Done { status, out, err: said } = conceptwatch(&["replay", "--json", text(&files[0]), text(&files[1])]);
    let points: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let steps: Vec<_> =
        points.iter().map(|point| (point["step"].as_u64().unwrap(), point["rows"].as_u64().unwrap())).collect();
    assert!(points.iter().all(|point| point["scores"].get("joint_leakage").is_some()), "slow scores, too: {out}");
    assert_eq!(steps, [(1, 128), (2, 128), (5, 128)], "{said}");
    let left: Vec<&str> = said.lines().filter(|line| line.starts_with("run 'r', split")).collect();
    let expected = [(2, "ValueError"), (3, "Alone"), (4, "Late")].map(|(step, why)| {
        format!("run 'r', split 'val', step {step}: discarded: the job left the evaluation without ending it: {why}")
    });
    assert_eq!(left, expected);
    assert!(status == Some(0) && said.contains("run 'r': 12 batches, 640 rows, 3 passes"), "{said}");
}
