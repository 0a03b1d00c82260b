//! The messages in a request's body: each is reserved as it arrives, and has to arrive within a deadline.
//!
//! tonic keeps the buffer of a stream's largest message for as long as the stream is open, and allocates by the length in a
//! message's head. Here a message has a buffer of its own, which grows to its size once a part has arrived.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Buf, Bytes};
use futures::Stream;
use http_body_util::BodyExt;
use tokio::time::timeout;

use super::budget::{Budget, Reservation};
use crate::server::metrics::Metrics;

/// Bytes of a message's head: whether it is compressed, and its length.
pub const HEAD: usize = 5;

/// Bytes that a message may begin with before all of it is allocated.
const BEGINNING: usize = 32 << 10;

/// The limits of messages.
pub struct Limits {
    pub budget: Budget,
    /// Maximum bytes of a message.
    pub largest: usize,
    /// Time from its first byte to its last.
    pub deadline: Duration,
    pub metrics: Metrics,
}

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
    Slow {
        limit: Duration,
    },
    Compressed,
    /// The body ended within a message.
    Ended,
    /// The peer disconnected.
    Broken,
    /// The bytes are not the message that the call takes.
    Malformed(prost::DecodeError),
}

/// Returns the messages of a body. After an error nothing is read or held.
pub fn messages(body: Body, limits: Arc<Limits>) -> impl Stream<Item = Result<Message, Unreadable>> + Send + 'static {
    let reader = Reader { body, frame: Bytes::new(), limits };
    futures::stream::try_unfold(reader, |mut reader| async move {
        let limit = reader.limits.deadline;
        // Between two messages a stream may be silent.
        if reader.frame.is_empty() && !reader.read().await? {
            return Ok(None);
        }
        let message = timeout(limit, reader.message()).await.map_err(|_| Unreadable::Slow { limit })??;
        Ok(Some((message, reader)))
    })
}

struct Reader {
    body: Body,
    /// The rest of the newest frame.
    frame: Bytes,
    limits: Arc<Limits>,
}

impl Reader {
    /// Reads the next frame that has bytes; `false` at the end of the body.
    async fn read(&mut self) -> Result<bool, Unreadable> {
        while self.frame.is_empty() {
            let Some(frame) = self.body.frame().await else { return Ok(false) };
            // Trailers of a request carry nothing.
            if let Ok(data) = frame.map_err(|_| Unreadable::Broken)?.into_data() {
                self.limits.metrics.read_bytes.inc_by(data.len() as u64);
                self.frame = data;
            }
        }
        Ok(true)
    }

    async fn message(&mut self) -> Result<Message, Unreadable> {
        let (mut head, mut filled) = ([0; HEAD], 0);
        while filled < HEAD {
            let now = self.some(HEAD - filled).await?;
            head[filled..filled + now.len()].copy_from_slice(&now);
            filled += now.len();
        }
        let [compressed, length @ ..] = head;
        let (length, limit) = (u32::from_be_bytes(length) as usize, self.limits.largest);
        if compressed != 0 {
            return Err(Unreadable::Compressed);
        }
        if length > limit {
            return Err(Unreadable::TooLarge { limit });
        }
        let (mut bytes, mut room) = (Vec::with_capacity(length.min(BEGINNING)), self.limits.budget.nothing());
        while bytes.len() < length {
            let now = self.some(length - bytes.len()).await?;
            self.limits.reserve(&mut room, bytes.len() + now.len())?;
            if bytes.len() + now.len() > bytes.capacity() {
                bytes.reserve_exact(length - bytes.len());
            }
            bytes.extend_from_slice(&now);
        }
        Ok(Message { bytes: bytes.into(), room })
    }

    /// Takes up to `most` bytes, at least one.
    async fn some(&mut self, most: usize) -> Result<Bytes, Unreadable> {
        if !self.read().await? {
            return Err(Unreadable::Ended);
        }
        Ok(self.frame.copy_to_bytes(self.frame.len().min(most)))
    }
}

impl Limits {
    /// Grows or shrinks a reservation to `bytes`.
    pub fn reserve(&self, room: &mut Reservation, bytes: usize) -> Result<(), Unreadable> {
        let limit = self.budget.limit();
        room.resize(bytes).then_some(()).ok_or(Unreadable::OverBudget { limit })
    }
}

#[cfg(test)]
mod tests {
    use futures::stream::BoxStream;
    use futures::{FutureExt, StreamExt};
    use http_body_util::{BodyExt, Full, StreamBody};
    use hyper::body::Frame;
    use tonic::Status;

    use super::*;

    fn limits(bytes: usize) -> Arc<Limits> {
        let metrics = Metrics::register(&prometheus::Registry::new(), "", 0).unwrap();
        let (budget, deadline) = (Budget::new(bytes, &metrics), Duration::from_millis(20));
        Arc::new(Limits { budget, largest: 1 << 20, deadline, metrics })
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

    fn read(body: Body, limits: &Arc<Limits>) -> BoxStream<'static, Result<Message, Unreadable>> {
        messages(body, Arc::clone(limits)).boxed()
    }

    #[tokio::test]
    async fn messages_are_the_same_however_they_are_cut() {
        let limits = limits(64 << 20);
        let sent: Vec<Vec<u8>> =
            [0, 1, 5, BEGINNING, BEGINNING + 1, 700_000].map(|len| (0..len).map(|at| at as u8).collect()).into();
        let bytes: Vec<u8> = sent.iter().flat_map(|message| framed(message)).collect();
        for size in [1, 3, 16 << 10, BEGINNING + 2, bytes.len()] {
            let got: Vec<Bytes> = read(pieces(&bytes, size, true), &limits)
                .map(|message| message.unwrap_or_else(|error| panic!("{error:?}")).bytes)
                .collect()
                .await;
            assert!(got == sent, "pieces of {size} bytes");
        }
        assert_eq!(limits.metrics.ingest_budget_used.get(), 0);
        assert_eq!(limits.metrics.read_bytes.get(), 5 * bytes.len() as u64);
    }

    #[tokio::test]
    async fn what_has_arrived_is_reserved_until_the_deadline() {
        let limits = limits(64 << 20);
        for arrived in [0, 1, BEGINNING, BEGINNING + 1] {
            let bytes = &framed(&vec![7; 1 << 20])[..HEAD + arrived];
            let mut messages = read(pieces(bytes, 16 << 10, false), &limits);
            assert!(messages.next().now_or_never().is_none());
            assert_eq!(limits.metrics.ingest_budget_used.get(), arrived as i64);
            assert!(matches!(messages.next().await, Some(Err(Unreadable::Slow { .. }))));
            assert_eq!(limits.metrics.ingest_budget_used.get(), 0);
            assert!(messages.next().await.is_none());
        }
    }

    #[tokio::test]
    async fn what_cannot_be_read_says_why() {
        let limits = limits(600_000);
        let full = |bytes: Vec<u8>| Body::new(Full::new(Bytes::from(bytes)).map_err(|never| match never {}));
        let too_large = read(full(vec![0, 0, 16, 0, 1]), &limits).next().await;
        assert!(matches!(too_large, Some(Err(Unreadable::TooLarge { limit: 1_048_576 }))));
        let compressed = read(full(vec![1, 0, 0, 0, 0]), &limits).next().await;
        assert!(matches!(compressed, Some(Err(Unreadable::Compressed))));
        for part in [3, 5, 9] {
            let ended = read(full(framed(&[1; 5])[..part].to_vec()), &limits).next().await;
            assert!(matches!(ended, Some(Err(Unreadable::Ended))), "{part} bytes");
        }
        let over = read(full(framed(&vec![1; 600_001])), &limits).next().await;
        assert!(matches!(over, Some(Err(Unreadable::OverBudget { limit: 600_000 }))));
        assert_eq!(limits.metrics.ingest_budget_used.get(), 0);
    }
}
