//! Accepts connections, and sees to it that peers which say nothing take no place from others.
//!
//! A connection is silent until it has made a request that was let in. At the limit, the connection that has been silent
//! longest makes room, then the one that has been idle longest; only connections with a request in flight keep their place
//! whatever comes. Handshakes have a deadline that no trickle of bytes extends.

mod connection;
mod held;
mod places;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::either::Either;

use self::places::{Ages, Places, Room};
use super::dial::Stream;
use super::listener::{Listener, Peer, Socket, is_silent};
use super::tls::{ClientCertificate, Made, Protocol, Tls};

pub use connection::{Connection, Patience};
pub use held::Held;
pub use places::{Counts, Visit};

/// Pause after a failed accept, such as when the process is out of file descriptors, unless a connection is closed before.
const AFTER_FAILURE: Duration = Duration::from_millis(50);
/// Age that a connection reaches before another may take its place: its first bytes, or its next request, may already be
/// in flight.
const LEAST_AGE: Duration = Duration::from_millis(25);
/// Time within which a refused peer takes its refusal.
const REFUSAL: Duration = Duration::from_secs(1);

/// A port that lets in the connections that it can serve.
pub struct Gate {
    pub listener: Listener,
    pub tls: Option<(Tls, ClientCertificate)>,
    pub protocol: Protocol,
    /// Maximum number of open connections.
    pub limit: usize,
    pub patience: Patience,
    /// Whether a token is required. Without one, a Unix socket serves its own user and root alone.
    pub token: bool,
    /// Sent, unencrypted, to a peer for whom there is no place.
    pub refusal: &'static [u8],
    pub counts: Counts,
}

impl Gate {
    /// Accepts until the receiver is dropped. Connections arrive once their TLS handshake is complete.
    pub fn open(self) -> mpsc::Receiver<Connection> {
        let (sender, receiver) = mpsc::channel(16);
        tokio::spawn(async move {
            tokio::select! {
                () = self.accept(&sender) => {}
                () = sender.closed() => {}
            }
        });
        receiver
    }

    async fn accept(&self, sender: &mpsc::Sender<Connection>) {
        let places = Places::new(self.counts.clone());
        let mut made = Made::default();
        loop {
            let (socket, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, protocol = ?self.protocol, "a connection could not be accepted");
                    // Accepting again immediately does not help when the process is out of file descriptors.
                    places.make_room(0, Ages::default());
                    let _ = timeout(AFTER_FAILURE, places.freed.notified()).await;
                    continue;
                }
            };
            if matches!(peer, Peer::Unix(_)) && !self.token && !peer.is_own() {
                self.counts.other_user.inc();
                tracing::warn!(%peer, "a connection was closed: without a token, a socket serves its own user alone");
                continue;
            }
            // A silent peer has had its time, and takes no place: thousands of them may come at once.
            if is_silent(&socket) {
                self.counts.silent.inc();
                continue;
            }
            // Clients of HTTP/1 repeat a request that finds an idle connection closed.
            let idle = if self.protocol == Protocol::Http1 { Duration::ZERO } else { LEAST_AGE };
            let room = places.wait_for_room(self.limit, Ages { silent: LEAST_AGE, idle }).await;
            if matches!(room, Room::Full) {
                self.counts.full.inc();
                tracing::warn!(%peer, limit = self.limit, "a connection was closed: the limit is reached");
                tokio::spawn(refuse(socket, self.refusal));
                continue;
            }
            let acceptor = match &self.tls {
                // A peer of a Unix socket is on this machine, and known by its user.
                Some((tls, clients)) if matches!(peer, Peer::Tcp(_)) => {
                    match tls.acceptor(self.protocol, *clients, &mut made) {
                        Ok(acceptor) => Some(acceptor),
                        Err(error) => {
                            tracing::error!(%error, "a connection was closed: TLS cannot be set up");
                            continue;
                        }
                    }
                }
                _ => None,
            };
            let visit = places.enter(peer);
            let (sender, patience) = (sender.clone(), self.patience);
            tokio::spawn(async move {
                let shaken = async {
                    let Some(acceptor) = acceptor else { return Ok(Stream::Left(socket)) };
                    let secured = acceptor.accept(socket).await?;
                    let proved = secured.get_ref().1.peer_certificates().is_some_and(|chain| !chain.is_empty());
                    visit.certificate.store(proved, Ordering::Relaxed);
                    io::Result::Ok(Either::Right(Box::new(secured.into())))
                };
                let shaken = tokio::select! {
                    shaken = timeout(patience.handshake, shaken) => shaken,
                    () = visit.leave.cancelled() => return,
                    () = sender.closed() => return,
                };
                match shaken {
                    // Fails only if the server has stopped.
                    Ok(Ok(stream)) => drop(sender.send(Connection::new(stream, visit, patience)).await),
                    Ok(Err(error)) => {
                        visit.places.counts.handshake.inc();
                        tracing::warn!(peer = %visit.peer(), %error, "a TLS handshake failed");
                    }
                    Err(_) => visit.places.counts.silent.inc(),
                }
            });
        }
    }
}

/// Tells a peer why it is not served. It may not read that.
async fn refuse(mut socket: Socket, refusal: &'static [u8]) {
    let _ = timeout(REFUSAL, socket.write_all(refusal)).await;
}
