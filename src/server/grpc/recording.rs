//! Reads recordings of jobs without a sidecar: length-prefixed messages, see `Recorded` in the protocol.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use prost::Message;

use super::proto::recorded::Message as Recorded;
use super::proto::{self, BatchChunk, EndPass, FinishRunRequest, IngestRequest, StartRunRequest, ingest_request};

/// Maximum length of a message in bytes; a larger one means a damaged file, because clients send chunks of at most 4 MiB.
const LARGEST: u64 = 64 << 20;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error("{0}: {1}")]
    Unreadable(PathBuf, std::io::Error),
    #[error("{path}: {what} at byte {at}, expected a recording made with mode=\"offline\"")]
    Damaged { path: PathBuf, at: u64, what: String },
}

/// A complete batch, an end of pass, a newer attempt, or the end of the run.
pub enum Item {
    Start(Box<StartRunRequest>),
    /// The chunks of a batch, in order.
    Batch(Vec<BatchChunk>),
    EndPass(EndPass),
    Finish(FinishRunRequest),
}

impl Item {
    /// The same item for a run with another name, which the sidecar assigns if the recorded name is taken.
    pub fn of_run(mut self, run: &str) -> Self {
        match &mut self {
            Self::Batch(chunks) => chunks.iter_mut().for_each(|chunk| run.clone_into(&mut chunk.run)),
            Self::EndPass(end) => run.clone_into(&mut end.run),
            Self::Finish(finish) => run.clone_into(&mut finish.run),
            Self::Start(_) => {}
        }
        self
    }

    /// The step it belongs to; `u64::MAX` for the start or the end of an attempt.
    pub fn step(&self) -> u64 {
        self.pass().map_or(u64::MAX, |(_, step, _)| step)
    }

    /// Split, step and ordinal of its pass; `None` where it is of none.
    pub fn pass(&self) -> Option<(&str, u64, u32)> {
        match self {
            Self::Batch(chunks) => chunks.last().map(|last| (&*last.split, last.step, last.ordinal)),
            Self::EndPass(end) => Some((&end.split, end.step, end.ordinal)),
            Self::Start(_) | Self::Finish(_) => None,
        }
    }

    /// Why the job left the pass that it ends, empty if it did not; `None` if it ends none.
    pub fn ends(&self) -> Option<&str> {
        match self {
            Self::Batch(chunks) => chunks.last()?.end_pass.as_ref().map(|_| ""),
            Self::EndPass(end) => Some(&end.abandoned),
            Self::Start(_) | Self::Finish(_) => None,
        }
    }
}

/// A recording of one run by one process.
pub struct Recording {
    path: PathBuf,
    file: BufReader<File>,
    at: u64,
    start: StartRunRequest,
    /// Bytes of an incomplete message at the end.
    cut_off: u64,
}

impl Recording {
    /// Opens a file and reads the declaration of its run.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let file = File::open(path).map_err(|error| RecordingError::Unreadable(path.to_owned(), error))?;
        let file = BufReader::new(file);
        let start = StartRunRequest::default();
        let mut recording = Self { path: path.to_owned(), file, at: 0, start, cut_off: 0 };
        match recording.message()? {
            Some(Recorded::Start(start)) if start.run.is_some() => recording.start = start,
            Some(_) => return Err(recording.damaged("no start of a run")),
            None => return Err(recording.damaged("nothing whole")),
        }
        Ok(recording)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The newest declaration that was read.
    pub fn start(&self) -> &StartRunRequest {
        &self.start
    }

    pub fn run(&self) -> &str {
        self.start.run.as_ref().map_or("", |run| &run.name)
    }

    /// Bytes of an incomplete message at the end; known once all items have been read.
    pub fn cut_off(&self) -> u64 {
        self.cut_off
    }

    /// The next item; `None` at the end. Batches with missing chunks are skipped: the job wrote them again, or was killed
    /// before it had written them completely.
    pub fn next_item(&mut self) -> Result<Option<Item>, RecordingError> {
        let mut chunks = Vec::new();
        while let Some(message) = self.message()? {
            match message {
                Recorded::Start(start) if start.attempt > self.start.attempt => {
                    self.start.clone_from(&start);
                    return Ok(Some(Item::Start(Box::new(start))));
                }
                Recorded::Start(_) => chunks.clear(),
                Recorded::Finish(finish) => return Ok(Some(Item::Finish(finish))),
                Recorded::Ingest(IngestRequest { message: Some(ingest_request::Message::EndPass(end)) }) => {
                    return Ok(Some(Item::EndPass(end)));
                }
                Recorded::Ingest(IngestRequest { message: Some(ingest_request::Message::Chunk(chunk)) }) => {
                    if chunk.chunk == 0 {
                        chunks.clear();
                    }
                    let last = chunk.last;
                    chunks.push(chunk);
                    if last {
                        return Ok(Some(Item::Batch(chunks)));
                    }
                }
                Recorded::Ingest(IngestRequest { message: None }) => {}
            }
        }
        Ok(None)
    }

    fn message(&mut self) -> Result<Option<Recorded>, RecordingError> {
        loop {
            let Some((length, head)) = self.length()? else { return Ok(None) };
            let mut bytes = Vec::new();
            let read = self.file.by_ref().take(length).read_to_end(&mut bytes);
            let read = read.map_err(|error| RecordingError::Unreadable(self.path.clone(), error))? as u64;
            if read < length {
                self.cut_off = head + read;
                return Ok(None);
            }
            let recorded = proto::Recorded::decode(bytes.as_slice())
                .map_err(|error| self.damaged(&format!("no message ({error})")))?;
            self.at += head + length;
            // A message of an unknown kind, from a newer client, is skipped.
            if let Some(message) = recorded.message {
                return Ok(Some(message));
            }
        }
    }

    /// The length of the next message, and the number of bytes that encode it; `None` at the end.
    fn length(&mut self) -> Result<Option<(u64, u64)>, RecordingError> {
        let (mut length, mut head) = (0_u64, 0_u64);
        for byte in self.file.by_ref().bytes() {
            let byte = byte.map_err(|error| RecordingError::Unreadable(self.path.clone(), error))?;
            length |= u64::from(byte & 127) << (7 * head);
            head += 1;
            if byte < 128 && length <= LARGEST {
                return Ok(Some((length, head)));
            }
            if head == 5 || byte < 128 {
                return Err(self.damaged("no length of a message"));
            }
        }
        self.cut_off = head;
        Ok(None)
    }

    fn damaged(&self, what: &str) -> RecordingError {
        RecordingError::Damaged { path: self.path.clone(), at: self.at, what: what.to_owned() }
    }
}
