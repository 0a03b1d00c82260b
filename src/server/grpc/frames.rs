//! The messages in a request's body: each is reserved before it is buffered, and has to arrive within a deadline.
//!
//! A body is a sequence of messages, each behind its length. The bytes of a message are copied from the frames of HTTP/2 into
//! one buffer of exactly its size. A length alone reserves little: the whole is reserved once a part has arrived.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::Stream;
use hyper::body::Body as _;
use prometheus::IntCounter;
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::body::Body;

use super::budget::{Account, Reservation};

/// Time from the first byte of a message to its last.
pub const MESSAGE_DEADLINE: Duration = Duration::from_secs(30);

/// Limits of a message.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// Bytes.
    pub largest: usize,
    /// Time from its first byte to its last.
    pub patience: Duration,
}

/// Bytes of a message's head: whether it is compressed, and its length.
const HEAD: usize = 5;

/// Bytes that a message may begin with before all of it is reserved.
const BEGINNING: usize = 32 << 10;

/// A whole message, and its bytes in the budget.
pub struct Message {
    pub bytes: Bytes,
    pub room: Reservation,
}

/// Why a body cannot be read on.
#[derive(Debug)]
pub enum Unreadable {
    /// A message of more bytes than the limit.
    TooLarge {
        limit: usize,
    },
    /// The budget has no room now.
    OverBudget {
        limit: usize,
    },
    /// The message did not arrive in time.
    Slow,
    Compressed,
    /// The body ended within a message.
    Ended,
    /// The peer disconnected.
    Broken,
}

/// The messages of a body.
pub struct Messages {
    body: Body,
    account: Account,
    bounds: Bounds,
    /// Counts all bytes.
    read: IntCounter,
    /// The rest of the newest frame.
    frame: Bytes,
    partial: Partial,
    /// When the message in part must be whole; `None` between two messages.
    until: Option<Instant>,
    alarm: Option<Pin<Box<Sleep>>>,
    done: bool,
}

enum Partial {
    Head([u8; HEAD], usize),
    Content { length: usize, buffer: Vec<u8>, room: Reservation },
}

const START: Partial = Partial::Head([0; HEAD], 0);

impl Messages {
    pub fn new(body: Body, account: Account, bounds: Bounds, read: IntCounter) -> Self {
        let (frame, partial) = (Bytes::new(), START);
        Self { body, account, bounds, read, frame, partial, until: None, alarm: None, done: false }
    }

    /// The same, where the first message must be whole within the deadline from now on.
    pub fn due(self) -> Self {
        Self { until: Some(Instant::now() + self.bounds.patience), ..self }
    }

    /// Takes what the newest frame has of the message; `None` if that is not all.
    fn take(&mut self) -> Option<Result<Message, Unreadable>> {
        loop {
            match &mut self.partial {
                Partial::Head(head, filled) => {
                    if !self.frame.is_empty() && self.until.is_none() {
                        self.until = Some(Instant::now() + self.bounds.patience);
                    }
                    let now = self.frame.len().min(HEAD - *filled);
                    self.frame.copy_to_slice(&mut head[*filled..*filled + now]);
                    *filled += now;
                    if *filled < HEAD {
                        return None;
                    }
                    let [flag, length @ ..] = *head;
                    match self.begin(flag, u32::from_be_bytes(length) as usize) {
                        Ok(begun) => self.partial = begun,
                        Err(error) => return Some(Err(error)),
                    }
                }
                Partial::Content { length, buffer, room } => {
                    let now = self.frame.len().min(*length - buffer.len());
                    if buffer.len() + now > buffer.capacity() {
                        if !room.resize(*length) {
                            return Some(Err(Unreadable::OverBudget { limit: self.account.limit() }));
                        }
                        buffer.reserve_exact(*length - buffer.len());
                    }
                    buffer.extend_from_slice(&self.frame[..now]);
                    self.frame.advance(now);
                    if buffer.len() < *length {
                        return None;
                    }
                    let Partial::Content { buffer, room, .. } = std::mem::replace(&mut self.partial, START) else {
                        return None;
                    };
                    self.until = None;
                    return Some(Ok(Message { bytes: buffer.into(), room }));
                }
            }
        }
    }

    fn begin(&self, flag: u8, length: usize) -> Result<Partial, Unreadable> {
        if flag != 0 {
            return Err(Unreadable::Compressed);
        }
        if length > self.bounds.largest {
            return Err(Unreadable::TooLarge { limit: self.bounds.largest });
        }
        let first = length.min(BEGINNING);
        let room = self.account.reserve(first).ok_or(Unreadable::OverBudget { limit: self.account.limit() })?;
        Ok(Partial::Content { length, buffer: Vec::with_capacity(first), room })
    }

    /// Whether the deadline of the message in part has passed.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(until) = self.until else { return Poll::Pending };
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if alarm.deadline() != until {
            alarm.as_mut().reset(until);
        }
        alarm.as_mut().poll(context)
    }

    /// Frees what is held; nothing more is read.
    fn end(&mut self) {
        self.done = true;
        self.partial = START;
        self.frame = Bytes::new();
        self.body = Body::empty();
    }
}

impl Stream for Messages {
    type Item = Result<Message, Unreadable>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.done {
            return Poll::Ready(None);
        }
        loop {
            if let Some(taken) = self.take() {
                if taken.is_err() {
                    self.end();
                }
                return Poll::Ready(Some(taken));
            }
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
                ready!(self.poll_late(context));
                self.end();
                return Poll::Ready(Some(Err(Unreadable::Slow)));
            };
            match frame {
                Some(Ok(frame)) => {
                    // Trailers of a request carry nothing.
                    let Ok(data) = frame.into_data() else { continue };
                    self.read.inc_by(data.len() as u64);
                    self.frame = data;
                }
                ended => {
                    let whole = matches!(self.partial, Partial::Head(_, 0));
                    self.end();
                    return Poll::Ready(match ended {
                        None if whole => None,
                        None => Some(Err(Unreadable::Ended)),
                        Some(_) => Some(Err(Unreadable::Broken)),
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};
    use http_body_util::{BodyExt, Full, StreamBody};
    use hyper::body::Frame;
    use tonic::Status;

    use super::*;
    use crate::server::grpc::budget::Budget;
    use crate::server::metrics::Metrics;

    const BOUNDS: Bounds = Bounds { largest: 1 << 20, patience: Duration::from_millis(20) };

    fn budget(bytes: usize) -> (Budget, Metrics) {
        let metrics = Metrics::register(&prometheus::Registry::new(), "", 0).unwrap();
        (Budget::new(bytes, &metrics), metrics)
    }

    fn framed(message: &[u8]) -> Vec<u8> {
        [&[0], &(message.len() as u32).to_be_bytes()[..], message].concat()
    }

    /// A body whose bytes arrive in pieces, and that ends only if it says so.
    fn pieces(bytes: &[u8], size: usize, ends: bool) -> Body {
        let frames: Vec<_> =
            bytes.chunks(size).map(|piece| Ok::<_, Status>(Frame::data(Bytes::copy_from_slice(piece)))).collect();
        let frames = futures::stream::iter(frames);
        if ends {
            Body::new(StreamBody::new(frames))
        } else {
            Body::new(StreamBody::new(frames.chain(futures::stream::pending())))
        }
    }

    fn messages(body: Body, budget: &Budget, metrics: &Metrics) -> Messages {
        Messages::new(body, budget.account(), BOUNDS, metrics.read_bytes.clone())
    }

    #[tokio::test]
    async fn messages_are_the_same_however_they_are_cut() {
        let (budget, metrics) = budget(64 << 20);
        let sent: Vec<Vec<u8>> =
            [0, 1, 5, BEGINNING, BEGINNING + 1, 700_000].map(|len| (0..len).map(|at| at as u8).collect()).into();
        let bytes: Vec<u8> = sent.iter().flat_map(|message| framed(message)).collect();
        for size in [1, 3, 16 << 10, BEGINNING + 2, bytes.len()] {
            let got: Vec<Bytes> = messages(pieces(&bytes, size, true), &budget, &metrics)
                .map(|message| message.unwrap_or_else(|error| panic!("{error:?}")).bytes)
                .collect()
                .await;
            assert!(got == sent, "pieces of {size} bytes");
        }
        assert_eq!(metrics.ingest_budget_used.get(), 0);
        assert_eq!(metrics.read_bytes.get(), 5 * bytes.len() as u64);
    }

    #[tokio::test]
    async fn a_length_alone_reserves_little_and_what_arrived_reserves_the_rest() {
        let (budget, metrics) = budget(64 << 20);
        for (arrived, reserved) in [(0, BEGINNING), (BEGINNING, BEGINNING), (BEGINNING + 1, 1 << 20)] {
            let bytes = &framed(&vec![7; 1 << 20])[..HEAD + arrived];
            let mut messages = messages(pieces(bytes, 16 << 10, false), &budget, &metrics);
            assert!(messages.next().now_or_never().is_none());
            assert_eq!(metrics.ingest_budget_used.get(), reserved as i64, "{arrived} bytes");
            assert!(matches!(messages.next().await, Some(Err(Unreadable::Slow))));
            assert_eq!(metrics.ingest_budget_used.get(), 0);
            assert!(messages.next().await.is_none());
        }
    }

    #[tokio::test]
    async fn what_cannot_be_read_says_why() {
        let (budget, metrics) = budget(600_000);
        let full = |bytes: Vec<u8>| Body::new(Full::new(Bytes::from(bytes)).map_err(|never| match never {}));
        let too_large = messages(full(vec![0, 0, 16, 0, 1]), &budget, &metrics).next().await;
        assert!(matches!(too_large, Some(Err(Unreadable::TooLarge { limit: 1_048_576 }))));
        let compressed = messages(full(vec![1, 0, 0, 0, 0]), &budget, &metrics).next().await;
        assert!(matches!(compressed, Some(Err(Unreadable::Compressed))));
        for part in [3, 5, 9] {
            let ended = messages(full(framed(&[1; 5])[..part].to_vec()), &budget, &metrics).next().await;
            assert!(matches!(ended, Some(Err(Unreadable::Ended))), "{part} bytes");
        }
        let over = messages(full(framed(&vec![1; 600_001])), &budget, &metrics).next().await;
        assert!(matches!(over, Some(Err(Unreadable::OverBudget { limit: 600_000 }))));
        assert_eq!(metrics.ingest_budget_used.get(), 0);
    }
}
