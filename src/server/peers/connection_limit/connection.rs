//! A connection with its deadlines.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::places::Visit;
use crate::server::peers::dial::Stream;

/// How long a peer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// From the accept until TLS and the first [`Self::greeting`] bytes are there.
    pub handshake: Duration,
    /// Bytes with which every client begins: 24 in HTTP/2, none in HTTP/1.
    pub greeting: u64,
    /// From the accept to the first request that is let in.
    pub request: Duration,
}

/// A connection that keeps its deadlines, and its place until it is dropped.
pub struct Connection {
    stream: Stream,
    visit: Arc<Visit>,
    patience: Patience,
    /// Bytes read so far.
    read: u64,
    timer: Pin<Box<Sleep>>,
    leave: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Connection {
    pub(super) fn new(stream: Stream, visit: Arc<Visit>, patience: Patience) -> Self {
        let timer = Box::pin(sleep_until(visit.entered + patience.handshake));
        let leave = Box::pin(visit.leave.clone().cancelled_owned());
        Self { stream, visit, patience, read: 0, timer, leave }
    }

    pub fn visit(&self) -> Arc<Visit> {
        Arc::clone(&self.visit)
    }

    /// When the peer must have said more; `None` once a request was let in.
    fn deadline(&self) -> Option<Instant> {
        let silent = self.visit.is_silent();
        let greeted = self.read >= self.patience.greeting;
        silent.then_some(self.visit.entered + if greeted { self.patience.request } else { self.patience.handshake })
    }

    /// Ready when the connection has to end.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::ErrorKind> {
        if self.leave.as_mut().poll(context).is_ready() {
            return Poll::Ready(io::ErrorKind::ConnectionAborted);
        }
        let Some(deadline) = self.deadline() else { return Poll::Pending };
        if self.timer.deadline() != deadline {
            self.timer.as_mut().reset(deadline);
        }
        self.timer.as_mut().poll(context).map(|()| {
            self.visit.places.counts.silent.inc();
            io::ErrorKind::TimedOut
        })
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.read += (buffer.filled().len() - before) as u64;
        // Arrived data is read first. Nobody reads for long without a pause: the runtime makes one after 128 reads.
        if read.is_pending()
            && let Poll::Ready(kind) = self.poll_end(context)
        {
            return Poll::Ready(Err(kind.into()));
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        // A peer that reads nothing must not outlast its dismissal.
        if written.is_pending() && self.leave.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        if written.is_pending() && self.leave.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
