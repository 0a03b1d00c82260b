//! Messages of an ingest stream, from their bytes to the sample of a split.
//!
//! The input is a sequence of messages, each after its length as two little-endian bytes. Every row that is received is
//! accepted, left out by policy, or refused with its batch.

#![no_main]

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use conceptwatch::server::proto::{BatchChunk, IngestRequest, ingest_request};
use conceptwatch::server::tensor_of;
use leakage::batch::{Batch, NonFinite};
use leakage::run::{Concept, Run, RunFields, SplitKey};
use leakage::sample::{Attempt, EndOfPass, Member, Now, RowNumbers, Sampling, Source, Split, SplitOptions, WindowKind};
use leakage::step::{Epoch, Ordinal, PassKey, Rank, Step};
use libfuzzer_sys::fuzz_target;
use prost::Message;

static RUN: LazyLock<Arc<Run>> = LazyLock::new(|| {
    let concepts = ["wing", "beak"].map(|name| Concept { name: name.into(), cardinality: 2, ..Concept::default() });
    let fields = RunFields { name: "r".into(), concepts: concepts.into(), world_size: 2, ..RunFields::default() };
    Arc::new(Run::try_from(fields).expect("a declaration that is right"))
});

const KEPT: usize = 64;

fn split(window: WindowKind) -> Split {
    let options = SplitOptions {
        window,
        sampling: Sampling { rows: KEPT, ..Sampling::default() },
        open_passes: 4,
        ..SplitOptions::default()
    };
    Split::new(SplitKey::new("r", "val"), options, Arc::clone(&RUN))
}

/// One whole message: a batch in one chunk, or an end of pass.
fn take(split: &mut Split, message: IngestRequest, at: u64) {
    let now = Now { elapsed: Duration::from_millis(at), unix: at as f64 };
    let member = |rank: Rank| Member { attempt: Attempt { launch: 0, restart: 0 }, rank, world_size: 2 };
    match message.message {
        Some(ingest_request::Message::Chunk(chunk)) => {
            let Ok(step) = Step::new(chunk.step) else { return };
            let Ok(rank) = Rank::of(chunk.rank, 2) else { return };
            let BatchChunk { tensors, sequence, first_row, row_numbers, rows_left_out, .. } = chunk;
            let Ok(tensors) = tensors.into_iter().map(tensor_of).collect::<Result<Vec<_>, _>>() else { return };
            let Ok(batch) = Batch::new(tensors, &RUN, NonFinite::DropRow) else { return };
            let mut staged = split.stage(
                PassKey { step, ordinal: Ordinal::stated(chunk.ordinal) },
                Source { client: 1, sequence },
                member(rank),
            );
            if staged.offer(&batch, RowNumbers { first: first_row, listed: &row_numbers }).is_err() {
                return;
            }
            let epoch = chunk.epoch.and_then(|epoch| Epoch::new(epoch).ok());
            if let Ok(committed) = split.commit(staged, epoch, rows_left_out, now) {
                assert_eq!(committed.rows + committed.dropped, batch.rows() as u64);
                assert!(committed.duplicates <= committed.rows);
            }
        }
        Some(ingest_request::Message::EndPass(end)) => {
            let Ok(step) = Step::new(end.step) else { return };
            let Ok(rank) = Rank::of(end.rank, 2) else { return };
            let epoch = end.epoch.and_then(|epoch| Epoch::new(epoch).ok());
            let pass = PassKey { step, ordinal: Ordinal::stated(end.ordinal) };
            if !end.abandoned.is_empty() {
                let _ = split.abandon(pass, member(rank));
                return;
            }
            let end = EndOfPass { pass, epoch, rows: end.rows, held_back: end.left_out, backlog: end.backlog };
            if let Ok(ended) = split.end_pass(end, member(rank), now) {
                for evaluation in ended.closed {
                    assert!(evaluation.sample.rows() <= KEPT);
                }
            }
        }
        None => {}
    }
}

fuzz_target!(|bytes: &[u8]| {
    let (mut rest, mut at) = (bytes, 0);
    let (mut passes, mut rolling) = (split(WindowKind::Pass), split(WindowKind::Recent));
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(after.len());
        let (message, next) = after.split_at(length);
        (rest, at) = (next, at + 1);
        let message = Bytes::copy_from_slice(message);
        if let Ok(decoded) = IngestRequest::decode(message) {
            take(&mut rolling, decoded.clone(), at);
            take(&mut passes, decoded, at);
        }
    }
    let counts = passes.counts();
    assert!(counts.duplicate <= counts.received);
});
