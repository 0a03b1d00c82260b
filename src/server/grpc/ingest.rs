//! The ingest stream: batches arrive in chunks, are checked and sampled chunk by chunk, and are applied atomically.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use leakage::batch::{Batch, NonFinite};
use leakage::field_error::{FieldError, in_short};
use leakage::run::SplitKey;
use leakage::sample::{CommitError, Committed, EndOfPass, RowNumbers, Source, Staged, WindowKind, client_hash};
use leakage::tensor::{Tensor, TensorName};

use super::budget::{Budget, Reservation};
use super::chunk::{check_continues, check_end, check_header, check_left_out};
use super::convert;
use super::messages::{Message, Unreadable};
use super::proto::ingest_response::Outcome;
use super::proto::{self, BatchChunk, EndPass, IngestRequest, IngestResponse, ingest_request};
use super::status::{code, unreadable};
use crate::server::metrics::Metrics;
use crate::server::pass_outcomes::{Mailbox, Outcome as How, Pass, Settled, Settlement};
use crate::server::refusal::Refusal;
use crate::server::runs::{Ended, Running, Runs, Sent};
use crate::server::scoring::onward::Queues;
use crate::server::streams::Streams;
use leakage::step::Epoch;

/// Limits of a message and a batch.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum size of an ingest message.
    pub chunk_bytes: usize,
    /// Maximum size of a batch, all chunks together.
    pub batch_bytes: usize,
    pub non_finite: NonFinite,
}

/// Time between two chunks of a batch after which the batch is abandoned and its memory released.
const BETWEEN_CHUNKS: Duration = Duration::from_secs(60);

/// Longest time that a client is asked to hold back a pass.
const LONGEST_KEPT: Duration = Duration::from_secs(1);

/// Maximum number of passes that a client can have held back between two that it sent.
const MOST_LEFT_OUT: u64 = 1 << 32;

/// Settled passes in one answer.
const SETTLED_AT_ONCE: usize = 1024;

/// The shared state of all ingest streams.
#[derive(Clone)]
pub struct Ingest {
    pub runs: Arc<Runs>,
    pub settlement: Arc<Settlement>,
    /// Says how long clients should hold back passes that outrun scoring.
    pub queues: Queues,
    pub budget: Budget,
    pub metrics: Metrics,
    pub limits: Limits,
    pub streams: Streams,
}

/// The messages of a stream, as they arrive.
pub type Arrived = BoxStream<'static, Result<Message, Unreadable>>;

/// A batch whose last chunk has not arrived.
struct Partial {
    /// Header of its first chunk, without row numbers.
    header: BatchChunk,
    next_chunk: u32,
    bytes: usize,
    rows: u64,
    rows_left_out: u64,
    progress: Progress,
    /// The bytes of the header and of the staged rows.
    room: Reservation,
}

enum Progress {
    Staged {
        running: Arc<Running>,
        staged: Box<Staged>,
        epoch: Option<Epoch>,
    },
    /// The rest of the batch is read and ignored, so that the stream can continue.
    Refused(Refusal),
}

impl Ingest {
    /// Serves one stream until the client ends it, the sidecar exceeds a budget or it stops. Runs in its own task, so that
    /// a cancelled call leaves no batch half applied.
    pub async fn serve(
        self,
        mut requests: Arrived,
        client: Option<String>,
        answers: mpsc::Sender<Result<IngestResponse, Status>>,
        stop: CancellationToken,
    ) {
        let _open = self.streams.open();
        let mut partial = None;
        let mailbox = Arc::new(Mailbox::default());
        if let Some(client) = client {
            self.runs.attend(client_hash(&client), &mailbox);
        }
        // Registered once, not for each message.
        let (mut stopped, mut arrival) = (pin!(stop.cancelled()), pin!(mailbox.arrival()));
        loop {
            let request = tokio::select! {
                request = requests.next() => request,
                () = &mut arrival => {
                    arrival.set(mailbox.arrival());
                    for settled in mailbox.take().chunks(SETTLED_AT_ONCE) {
                        let settled = settled.iter().map(convert::settled).collect();
                        let answer = IngestResponse { settled, ..IngestResponse::default() };
                        if answers.send(Ok(answer)).await.is_err() {
                            return;
                        }
                    }
                    continue;
                }
                () = tokio::time::sleep(BETWEEN_CHUNKS), if partial.is_some() => {
                    let lost = self.give_up(&mut partial, "no further chunk arrived for a minute");
                    if let Some(answer) = lost && answers.send(Ok(answer)).await.is_err() {
                        return;
                    }
                    continue;
                }
                () = &mut stopped => {
                    // The client resends what was not acknowledged once the sidecar is back.
                    let _ = answers.send(Err(Refusal::Stopping.into())).await;
                    return;
                }
            };
            let answer = match request {
                // Its bytes are reserved until it is answered.
                Some(message) => match message.and_then(|message| self.decode(message)) {
                    Ok((request, _room)) => self.take(request, &mut partial, &mailbox).await,
                    Err(error) => {
                        self.break_off(partial);
                        // Fails if the peer has disconnected.
                        let _ = answers.send(Err(unreadable(&error, "chunk", &self.metrics))).await;
                        return;
                    }
                },
                None => return self.break_off(partial),
            };
            let sent = match answer {
                Ok(Some(answer)) => answers.send(Ok(answer)).await,
                Ok(None) => Ok(()),
                Err(refusal) => {
                    self.break_off(partial);
                    let _ = answers.send(Err(refusal.into())).await;
                    return;
                }
            };
            if sent.is_err() {
                return;
            }
        }
    }

    /// Decodes a message. Its tensors refer to its bytes.
    fn decode(&self, Message { bytes, mut room }: Message) -> Result<(IngestRequest, Reservation), Unreadable> {
        let length = bytes.len();
        let request = IngestRequest::decode(bytes).map_err(Unreadable::Malformed)?;
        let unfolded = match &request.message {
            Some(ingest_request::Message::Chunk(chunk)) => {
                let texts: usize = chunk.tensors.iter().map(|tensor| tensor.texts.capacity()).sum();
                size_of::<u32>() * chunk.row_numbers.capacity() + size_of::<String>() * texts
            }
            _ => 0,
        };
        match room.resize(length + unfolded) {
            true => Ok((request, room)),
            false => Err(Unreadable::OverBudget { limit: self.budget.limit() }),
        }
    }

    /// Handles one message. `Err` ends the stream because the sidecar has no memory left.
    async fn take(
        &self,
        request: IngestRequest,
        partial: &mut Option<Partial>,
        mailbox: &Arc<Mailbox>,
    ) -> Result<Option<IngestResponse>, Refusal> {
        match request.message {
            Some(ingest_request::Message::Chunk(mut chunk)) => {
                let end = joined_end(&mut chunk);
                let answer = self.take_chunk(chunk, partial, mailbox)?;
                match (answer, end) {
                    (Some(answer), Some(end)) => {
                        let end = self.end_pass(end, mailbox).await?;
                        Ok(Some(IngestResponse { end_pass: Some(Box::new(end)), ..answer }))
                    }
                    (None, Some(end)) => {
                        let fault = FieldError::new(
                            "end_pass",
                            "got it with another chunk, expected it with the last of a batch",
                        );
                        Ok(Some(self.refuse(end.sequence, 0, &fault.into())))
                    }
                    (answer, None) => Ok(answer),
                }
            }
            Some(ingest_request::Message::EndPass(end)) => self.end_pass(end, mailbox).await.map(Some),
            None => {
                let fault = FieldError::new("message", "got nothing, expected a chunk or an end of pass");
                Ok(Some(self.refuse(0, 0, &fault.into())))
            }
        }
    }

    fn take_chunk(
        &self,
        mut chunk: BatchChunk,
        partial: &mut Option<Partial>,
        mailbox: &Arc<Mailbox>,
    ) -> Result<Option<IngestResponse>, Refusal> {
        let size = chunk.encoded_len();
        self.metrics.received_bytes.inc_by(size as u64);
        let sequence = chunk.sequence;
        // What has an element for each row is not kept.
        let (tensors, row_numbers) = (std::mem::take(&mut chunk.tensors), std::mem::take(&mut chunk.row_numbers));
        let header = chunk;
        let continues =
            partial.as_ref().is_some_and(|p| p.header.sequence == sequence && p.header.client == header.client);
        if partial.is_some() && !continues {
            // Counts its rows. The client did not finish the batch, so it expects no answer.
            self.give_up(partial, "another batch began before its last chunk");
        }
        let current = match partial {
            Some(current) => current,
            None => partial.insert(self.begin(&header, mailbox)?),
        };
        current.bytes += size;
        let first_tensor_rows = tensors.first().and_then(|t| t.shape.first()).copied().unwrap_or(0);
        // A declared row count is limited by the bytes received, since each row has at least one.
        let rows = first_tensor_rows.min(size as u64);
        current.rows += rows;
        current.rows_left_out = current.rows_left_out.saturating_add(header.rows_left_out);
        let expected = current.next_chunk;
        current.next_chunk += 1;
        if let Progress::Staged { staged, .. } = &mut current.progress {
            let rows = RowNumbers { first: header.first_row, listed: &row_numbers };
            let offered = check_continues(&current.header, &header, expected)
                .and_then(|()| check_left_out(current.rows_left_out))
                .and_then(|()| self.offer(&header.run, tensors, rows, current.bytes, staged));
            let (kept, bytes) = (current.header.encoded_len(), staged.bytes());
            match offered {
                Ok(()) if bytes.saturating_add(size) <= self.budget.limit() => {
                    if !current.room.resize(kept + bytes) {
                        return Err(self.over_budget());
                    }
                }
                refused => {
                    let fault = refused.err().unwrap_or_else(|| self.never_fits(bytes));
                    current.progress = Progress::Refused(fault.into());
                    current.room.resize(kept);
                }
            }
        }
        if !header.last {
            return Ok(None);
        }
        let Some(whole) = partial.take() else { return Ok(None) };
        match whole.progress {
            Progress::Refused(refusal) => {
                self.runs.refused(&whole.header.run, &whole.header.split, whole.rows);
                Ok(Some(self.refuse(sequence, whole.rows, &refusal)))
            }
            Progress::Staged { running, staged, epoch } => {
                let commit = || self.runs.commit(&running, &header.split, *staged, epoch, whole.rows_left_out);
                self.commit(sequence, whole.rows, commit).map(Some)
            }
        }
    }

    /// Starts a batch: finds its run and stages a sampler. Only lack of memory is an error; any other refusal is reported
    /// at the batch's end.
    fn begin(&self, header: &BatchChunk, mailbox: &Arc<Mailbox>) -> Result<Partial, Refusal> {
        let stage = || -> Result<(Arc<Running>, Staged, Option<Epoch>), Refusal> {
            let (pass, epoch) = check_header(header)?;
            let running = self.runs.registry.find(&header.run)?;
            let source = Source { client: client_hash(&header.client), sequence: header.sequence };
            let sent = Sent { split: &header.split, pass, epoch, source, rank: header.rank };
            let staged = self.runs.stage(&running, sent, mailbox)?;
            Ok((running, staged, epoch))
        };
        let (bytes, progress) = match stage() {
            Ok((running, staged, epoch)) => {
                (staged.bytes(), Progress::Staged { running, staged: Box::new(staged), epoch })
            }
            Err(refusal) if refusal.is_passing() => return Err(refusal),
            Err(refusal) => (0, Progress::Refused(refusal)),
        };
        let header = header.clone();
        let room = self.budget.reserve(header.encoded_len() + bytes).ok_or_else(|| self.over_budget())?;
        Ok(Partial { header, next_chunk: 0, bytes: 0, rows: 0, rows_left_out: 0, progress, room })
    }

    /// Checks a chunk and offers its rows to the staged sample.
    fn offer(
        &self,
        run: &str,
        tensors: Vec<proto::Tensor>,
        rows: RowNumbers<'_>,
        batch_bytes: usize,
        staged: &mut Staged,
    ) -> Result<(), FieldError> {
        if batch_bytes > self.limits.batch_bytes {
            return Err(FieldError::new(
                "batch",
                format!("got more bytes, expected at most {}: send several batches", self.limits.batch_bytes),
            ));
        }
        if tensors.len() > TensorName::ALL.len() {
            return Err(FieldError::new(
                "tensors",
                format!("got {}, expected at most {}, one of each name", tensors.len(), TensorName::ALL.len()),
            ));
        }
        let tensors: Vec<Tensor> = tensors.into_iter().map(convert::tensor).collect::<Result<_, _>>()?;
        let run = self.runs.registry.find(run).map_err(|refusal| FieldError::new("run", refusal.to_string()))?;
        let batch = Batch::new(tensors, &run.run, self.limits.non_finite)?;
        staged.offer(&batch, rows)
    }

    fn commit(
        &self,
        sequence: u64,
        rows: u64,
        commit: impl FnOnce() -> Result<Committed, Refusal>,
    ) -> Result<IngestResponse, Refusal> {
        let committed = match commit() {
            Ok(committed) => committed,
            Err(refusal) if refusal.is_passing() => return Err(refusal),
            Err(refusal) => return Ok(self.refuse(sequence, rows, &refusal)),
        };
        self.metrics.batches_accepted.inc();
        self.metrics.rows_received.inc_by(committed.rows);
        self.metrics.rows_duplicate.inc_by(committed.duplicates);
        self.metrics.rows_dropped.with_label_values(&["non_finite"]).inc_by(committed.dropped);
        let known = committed.rows > 0 && committed.duplicates == committed.rows;
        Ok(IngestResponse {
            sequence,
            outcome: if known { Outcome::Duplicate } else { Outcome::Accepted }.into(),
            rows: committed.rows,
            rows_duplicate: committed.duplicates,
            rows_dropped: committed.dropped,
            sample_bound: committed.bound,
            ..IngestResponse::default()
        })
    }

    async fn end_pass(&self, end: EndPass, mailbox: &Arc<Mailbox>) -> Result<IngestResponse, Refusal> {
        let sequence = end.sequence;
        let checked = || -> Result<_, Refusal> {
            let (pass, epoch) = check_end(&end)?;
            if end.left_out > MOST_LEFT_OUT {
                let message = format!("got {}, expected at most {MOST_LEFT_OUT}", end.left_out);
                return Err(FieldError::new("left_out", message).into());
            }
            let source = Source { client: client_hash(&end.client), sequence };
            let sent = Sent { split: &end.split, pass, epoch, source, rank: end.rank };
            Ok((self.runs.registry.find(&end.run)?, sent))
        };
        let ended = match checked() {
            Ok((running, sent)) if !end.abandoned.is_empty() => {
                match self.runs.abandon_pass(&running, sent, in_short(&end.abandoned).as_str()) {
                    Ok(duplicate) => Ok((duplicate, Duration::ZERO, None)),
                    Err(refusal) => Err((refusal, None)),
                }
            }
            Ok((running, sent)) => self.end_checked_pass(&running, sent, &end, mailbox).await,
            Err(refusal) => Err((refusal, None)),
        };
        match ended {
            Ok((duplicate, wait, settled)) => Ok(IngestResponse {
                sequence,
                outcome: if duplicate { Outcome::Duplicate } else { Outcome::Accepted }.into(),
                keep_ms: wait.min(LONGEST_KEPT).as_millis() as u32,
                settled: settled.iter().map(convert::settled).collect(),
                ..IngestResponse::default()
            }),
            Err((refusal, _)) if refusal.is_passing() => Err(refusal),
            Err((refusal, settled)) => Ok(IngestResponse {
                settled: settled.iter().map(convert::settled).collect(),
                ..self.refuse(sequence, 0, &refusal)
            }),
        }
    }

    /// Returns whether the end was known, how long the client should hold back passes, and how the pass was settled if
    /// that is known already; so does a refusal.
    async fn end_checked_pass(
        &self,
        running: &Arc<Running>,
        sent: Sent<'_>,
        end: &EndPass,
        mailbox: &Arc<Mailbox>,
    ) -> Result<(bool, Duration, Option<Settled>), (Refusal, Option<Settled>)> {
        if end.backlog {
            let pass = self.runs.pass(running, sent).map_err(|refusal| (refusal, None))?;
            // One rank may have been told before the sidecar was restarted, and another not. Their rows would never meet.
            if let Some(settled) = self.look_up(&pass).await {
                self.runs.drop_pass(running, &pass);
                self.settlement.settle(&pass, settled.outcome, settled.reason.clone());
                return Ok((true, Duration::ZERO, Some(settled)));
            }
        }
        let (rows, held_back, backlog) = (end.rows, end.left_out, end.backlog);
        let of_pass = EndOfPass { pass: sent.pass, epoch: sent.epoch, rows, held_back, backlog };
        match self.runs.end_pass(running, sent, of_pass, mailbox) {
            Ok(Ended { pass, duplicate, awaited, window }) => {
                if !duplicate {
                    self.metrics.points_skipped.inc_by(end.left_out);
                }
                let settled = match window {
                    _ if awaited => None,
                    WindowKind::Pass => self.look_up(&pass).await,
                    WindowKind::Recent | WindowKind::All => {
                        let reason = "the split has a rolling window, and no passes".to_owned();
                        Some(Settled { key: pass.key, at: pass.at, outcome: How::Point, reason })
                    }
                };
                let key = SplitKey::new(Arc::clone(&running.name), sent.split);
                Ok((duplicate, self.queues.cheap.wait(&key), settled))
            }
            Err(refusal @ Refusal::Commit(CommitError::Late { .. })) => {
                let settled = match self.runs.pass(running, sent) {
                    Ok(pass) => self.look_up(&pass).await,
                    Err(_) => None,
                };
                Err((refusal, settled))
            }
            Err(refusal) => Err((refusal, None)),
        }
    }

    /// How a pass ended, if it did.
    async fn look_up(&self, pass: &Pass) -> Option<Settled> {
        let (settlement, of) = (Arc::clone(&self.settlement), pass.clone());
        match tokio::task::spawn_blocking(move || settlement.look_up(&of)).await {
            Ok(Ok(settled)) => settled,
            Ok(Err(error)) => {
                self.metrics.history_errors.inc();
                tracing::error!(run = %pass.key.run, step = %pass.at, %error, "a pass could not be looked up");
                None
            }
            Err(_) => None,
        }
    }

    fn refuse(&self, sequence: u64, rows: u64, refusal: &Refusal) -> IngestResponse {
        let code = code(refusal);
        self.metrics.batches_refused.with_label_values(&[format!("{code:?}").as_str()]).inc();
        self.metrics.rows_dropped.with_label_values(&["refused"]).inc_by(rows);
        tracing::warn!(sequence, rows, %refusal, "a batch was refused");
        IngestResponse {
            sequence,
            outcome: Outcome::Refused.into(),
            code: code.into(),
            field: refusal.field().to_owned(),
            message: refusal.to_string(),
            rows_dropped: rows,
            ..IngestResponse::default()
        }
    }

    /// Abandons an unfinished batch and counts its rows. None of it was applied.
    fn give_up(&self, partial: &mut Option<Partial>, why: &str) -> Option<IngestResponse> {
        let lost = partial.take()?;
        let fault =
            FieldError::new("chunk", format!("the batch was abandoned after {} chunks: {why}", lost.next_chunk));
        self.runs.refused(&lost.header.run, &lost.header.split, lost.rows);
        Some(self.refuse(lost.header.sequence, lost.rows, &fault.into()))
    }

    /// Releases and counts an unfinished batch whose stream has ended. No row of it was acknowledged, so its client sends it
    /// again if it still can.
    fn break_off(&self, partial: Option<Partial>) {
        let Some(lost) = partial else { return };
        self.metrics.rows_unfinished.inc_by(lost.rows);
        let (run, split, rows) = (&lost.header.run, &lost.header.split, lost.rows);
        tracing::info!(run, split, rows, chunks = lost.next_chunk, "a stream ended within a batch");
    }

    /// The fault of a batch that exceeds the budget even if it is alone.
    fn never_fits(&self, bytes: usize) -> FieldError {
        let limit = self.budget.limit();
        FieldError::new(
            "batch",
            format!("got {bytes} bytes of sampled rows, expected at most {limit} of ingest memory: send fewer rows"),
        )
    }

    fn over_budget(&self) -> Refusal {
        self.metrics.batches_refused.with_label_values(&["Unavailable"]).inc();
        Refusal::OverBudget { what: "ingest memory", limit: self.budget.limit() }
    }
}

/// Takes the end of pass joined to a chunk, as a message of its own.
fn joined_end(chunk: &mut BatchChunk) -> Option<EndPass> {
    chunk.end_pass.take().map(|end| EndPass {
        run: chunk.run.clone(),
        split: chunk.split.clone(),
        step: chunk.step,
        ordinal: chunk.ordinal,
        abandoned: String::new(),
        epoch: chunk.epoch,
        rank: chunk.rank,
        client: chunk.client.clone(),
        sequence: end.sequence,
        rows: end.rows,
        left_out: end.left_out,
        backlog: end.backlog,
    })
}
