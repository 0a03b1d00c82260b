//! Accepts gRPC connections: a limited number at a time, and only from peers that send data.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use prometheus::IntGauge;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// Time limit for a peer's first byte. A silent socket would otherwise occupy a connection, and block a graceful stop,
/// for ever.
const FIRST_BYTE: Duration = Duration::from_secs(10);
/// Pause after a failed accept, such as when the process is out of file descriptors.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Accepts connections of `listener`, at most `limit` at a time; further ones are closed immediately. `open` is the number
/// of open connections.
pub fn connections(
    listener: TcpListener,
    limit: usize,
    open: IntGauge,
) -> impl Stream<Item = Result<Connection, io::Error>> {
    let (sender, receiver) = mpsc::channel(16);
    let places = Arc::new(Semaphore::new(limit));
    tokio::spawn(async move {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = sender.closed() => return,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(AFTER_FAILURE).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                tracing::warn!(limit, "a connection was closed: the limit is reached");
                continue;
            };
            open.inc();
            let connection = Connection { stream, open: open.clone(), _place: place };
            let sender = sender.clone();
            tokio::spawn(async move {
                // Sends small messages without delay.
                let _ = connection.stream.set_nodelay(true);
                let mut first = [0];
                let spoke = tokio::select! {
                    spoke = tokio::time::timeout(FIRST_BYTE, connection.stream.peek(&mut first)) => spoke,
                    () = sender.closed() => return,
                };
                if matches!(spoke, Ok(Ok(1..))) {
                    // Fails only if the server has stopped.
                    let _ = sender.send(Ok(connection)).await;
                }
            });
        }
    });
    ReceiverStream::new(receiver)
}

/// A connection that counts towards the limit until it is dropped.
pub struct Connection {
    stream: TcpStream,
    open: IntGauge,
    _place: OwnedSemaphorePermit,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.open.dec();
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
