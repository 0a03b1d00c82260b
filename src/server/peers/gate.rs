//! Accepts connections, and sees to it that peers which say nothing take no place from others.
//!
//! A connection is silent until it has made a request that was let in. At the limit, the connection that has been silent
//! longest makes room, then the one that has been idle longest; only connections with a request in flight keep their place
//! whatever comes. Handshakes have a deadline that no trickle of bytes extends.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use prometheus::{IntCounter, IntGauge};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_util::either::Either;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::dial::Stream;
use super::listener::{Listener, Peer, Socket, is_silent};
use super::tls::{ClientCertificate, Made, Protocol, Tls};
use crate::server::metrics::Metrics;

/// Pause after a failed accept, such as when the process is out of file descriptors, unless a connection is closed before.
const AFTER_FAILURE: Duration = Duration::from_millis(50);
/// Age that a connection reaches before another may take its place: its first bytes, or its next request, may already be
/// in flight.
const LEAST_AGE: Duration = Duration::from_millis(25);
/// Part of the places that peers which have only just come may take from those that are idle.
const SILENT_SHARE: usize = 4;
/// Connections that may still be closing when others come in their place: each is an open file.
const CLOSING: usize = 8;
/// Time within which a refused peer takes its refusal.
const REFUSAL: Duration = Duration::from_secs(1);

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

/// A port that lets in whom it can serve.
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

/// What is counted of a port's connections.
#[derive(Clone)]
pub struct Counts {
    pub open: IntGauge,
    /// Connections that this side closed: those without a request in time, those that made room, those for whom there was
    /// no place, failed TLS handshakes, and other users on a Unix socket.
    pub silent: IntCounter,
    pub made_room: IntCounter,
    pub full: IntCounter,
    pub handshake: IntCounter,
    pub other_user: IntCounter,
}

impl Counts {
    /// Those of the port `grpc` or `http`.
    pub fn of(metrics: &Metrics, port: &str) -> Self {
        let closed = |reason: &str| metrics.connections_closed.with_label_values(&[port, reason]);
        Self {
            open: metrics.connections.with_label_values(&[port]),
            silent: closed("silent"),
            made_room: closed("made_room"),
            full: closed("full"),
            handshake: closed("handshake"),
            other_user: closed("other_user"),
        }
    }
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
        let places = Arc::new(Places { book: Mutex::default(), freed: Notify::new(), counts: self.counts.clone() });
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
            // It has had its time, and takes no place: thousands of them may come at once.
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
                // Who reaches a Unix socket is on this machine, and known by the user.
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
                        tracing::warn!(peer = %visit.peer, %error, "a TLS handshake failed");
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

/// The open connections of a port.
struct Places {
    book: Mutex<Book>,
    /// A connection was closed.
    freed: Notify,
    counts: Counts,
}

#[derive(Default)]
struct Book {
    next: u64,
    held: BTreeMap<u64, Place>,
}

impl Book {
    fn staying(&self) -> usize {
        self.held.values().filter(|place| !place.leaving).count()
    }
}

struct Place {
    standing: Standing,
    /// When the connection was opened, or its last request ended.
    since: Instant,
    /// Requests in flight.
    serving: u32,
    /// It has made room, and is about to be closed.
    leaving: bool,
    leave: CancellationToken,
}

/// What a connection has shown. The lowest makes room first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Silent,
    /// It has made a request that anyone may make.
    Stranger,
    Known,
}

/// Ages from which connections make room.
#[derive(Clone, Copy, Default)]
struct Ages {
    silent: Duration,
    idle: Duration,
}

enum Room {
    Free,
    /// At this instant a connection will be old enough to make room.
    At(Instant),
    /// Once one of those that made room is closed.
    Soon,
    /// Every connection has a request in flight.
    Full,
}

impl Places {
    /// Waits for room for another connection: until one is closed or old enough. Idle ones need not get older than the wait.
    async fn wait_for_room(&self, limit: usize, mut ages: Ages) -> Room {
        loop {
            match self.make_room(limit, ages) {
                Room::At(due) => tokio::select! {
                    () = sleep_until(due) => ages.idle = Duration::ZERO,
                    () = self.freed.notified() => {}
                },
                Room::Soon => self.freed.notified().await,
                room => return room,
            }
        }
    }

    /// Makes room for another connection below `limit`, if need be in the place of one that has reached its age.
    fn make_room(&self, limit: usize, ages: Ages) -> Room {
        let mut book = self.book();
        if book.held.len() >= limit + CLOSING && book.staying() < book.held.len() {
            return Room::Soon;
        }
        if book.staying() < limit {
            return Room::Free;
        }
        let resting = || book.held.iter().filter(|(_, place)| place.serving == 0 && !place.leaving);
        let silent = || resting().filter(|(_, place)| place.standing == Standing::Silent);
        let silent_first =
            silent().min_by_key(|(_, place)| place.since).map(|(id, place)| (*id, place.since + ages.silent));
        let idle_first = resting()
            .filter(|(_, place)| place.standing != Standing::Silent)
            .min_by_key(|(_, place)| (place.standing, place.since))
            .map(|(id, place)| (*id, place.since + ages.idle));
        let now = Instant::now();
        let (id, due) = match (silent_first, idle_first) {
            // Who comes does not wait for the one before to speak, unless there are many such.
            (Some(silent_first), Some(idle_first))
                if silent_first.1 > now && idle_first.1 <= now && silent().count() <= limit / SILENT_SHARE =>
            {
                idle_first
            }
            (Some(first), _) | (None, Some(first)) => first,
            (None, None) => return Room::Full,
        };
        if due > now {
            return Room::At(due);
        }
        if let Some(place) = book.held.get_mut(&id) {
            place.leaving = true;
            place.leave.cancel();
            self.counts.made_room.inc();
        }
        Room::Free
    }

    fn enter(self: &Arc<Self>, peer: Peer) -> Arc<Visit> {
        let (entered, leave) = (Instant::now(), CancellationToken::new());
        let mut book = self.book();
        let id = book.next;
        book.next += 1;
        book.held.insert(
            id,
            Place { standing: Standing::Silent, since: entered, serving: 0, leaving: false, leave: leave.clone() },
        );
        self.counts.open.set(book.held.len() as i64);
        let (silent, certificate) = (AtomicBool::new(true), AtomicBool::new(false));
        Arc::new(Visit { id, peer, entered, leave, silent, certificate, places: Arc::clone(self) })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection as its requests see it.
pub struct Visit {
    id: u64,
    peer: Peer,
    entered: Instant,
    leave: CancellationToken,
    silent: AtomicBool,
    certificate: AtomicBool,
    places: Arc<Places>,
}

impl Visit {
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Whether the peer proved itself by a certificate of a known authority.
    pub fn has_certificate(&self) -> bool {
        self.certificate.load(Ordering::Relaxed)
    }

    /// Ends the connection.
    pub fn dismiss(&self) {
        self.leave.cancel();
    }

    /// Notes a request that anyone may make. Those that may not be made leave the peer a stranger.
    pub fn greet(&self) {
        self.change(|place| place.standing = place.standing.max(Standing::Stranger));
    }

    /// Notes a request that is let in, for as long as the returned value is kept.
    pub fn serve(self: &Arc<Self>) -> Serving {
        self.change(|place| {
            place.standing = Standing::Known;
            place.serving += 1;
        });
        Serving(Arc::clone(self))
    }

    fn change(&self, change: impl FnOnce(&mut Place)) {
        self.silent.store(false, Ordering::Relaxed);
        if let Some(place) = self.places.book().held.get_mut(&self.id) {
            change(place);
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut book = self.places.book();
        book.held.remove(&self.id);
        self.places.counts.open.set(book.held.len() as i64);
        self.places.freed.notify_one();
    }
}

/// A request in flight.
pub struct Serving(Arc<Visit>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.change(|place| {
            place.serving -= 1;
            place.since = Instant::now();
        });
    }
}

/// A body that keeps something until it has been sent or given up.
pub struct Held<T> {
    body: Body,
    _kept: T,
}

impl<T: Send + Unpin + 'static> Held<T> {
    pub fn body(body: Body, kept: T) -> Body {
        Body::new(Self { body, _kept: kept })
    }
}

impl<T: Unpin> HttpBody for Held<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
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
    fn new(stream: Stream, visit: Arc<Visit>, patience: Patience) -> Self {
        let timer = Box::pin(sleep_until(visit.entered + patience.handshake));
        let leave = Box::pin(visit.leave.clone().cancelled_owned());
        Self { stream, visit, patience, read: 0, timer, leave }
    }

    pub fn visit(&self) -> Arc<Visit> {
        Arc::clone(&self.visit)
    }

    /// When the peer must have said more; `None` once a request was let in.
    fn deadline(&self) -> Option<Instant> {
        let silent = self.visit.silent.load(Ordering::Relaxed);
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
        // What has arrived is read first. Nobody reads for long without a pause: the runtime makes one after 128 reads.
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

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::sleep;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    /// A port with room for so many, and its address.
    async fn port(limit: usize, patience: Patience) -> (mpsc::Receiver<Connection>, std::net::SocketAddr, IntGauge) {
        port_of(Protocol::Http2, limit, patience).await
    }

    async fn port_of(
        protocol: Protocol,
        limit: usize,
        patience: Patience,
    ) -> (mpsc::Receiver<Connection>, std::net::SocketAddr, IntGauge) {
        // Not `Listener::bind`, with which the system keeps silent peers to itself.
        let listener = Listener::try_from(TcpListener::bind("127.0.0.1:0").await.unwrap()).unwrap();
        let address = listener.local().tcp().unwrap();
        let metrics = Metrics::register(&prometheus::Registry::new(), "1.2.3", 7).unwrap();
        let counts = Counts::of(&metrics, "grpc");
        let open = counts.open.clone();
        let refusal = b"no".as_slice();
        let gate = Gate { listener, tls: None, protocol, limit, patience, token: false, refusal, counts };
        (gate.open(), address, open)
    }

    fn patience(handshake: Duration, request: Duration) -> Patience {
        Patience { handshake, greeting: 24, request }
    }

    async fn read(connection: &mut Connection) -> io::Result<usize> {
        timeout(LONG, connection.read(&mut [0; 64])).await.expect("an end in time")
    }

    #[tokio::test]
    async fn a_trickle_of_bytes_extends_no_deadline() {
        let short = Duration::from_millis(200);
        let (mut entering, address, open) = port(8, patience(short, LONG)).await;
        let mut client = TcpStream::connect(address).await.unwrap();
        let mut connection = entering.recv().await.unwrap();
        let mut sent = 0;
        let ended = loop {
            // The 24th byte would complete the greeting.
            if sent < 23 {
                let _ = client.write_all(b"P").await;
                sent += 1;
            }
            match read(&mut connection).await {
                Ok(count) => assert!(count > 0),
                Err(error) => break error,
            }
        };
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
        drop(connection);
        assert_eq!(open.get(), 0);

        // Who has greeted has until the first request.
        let (mut entering, address, _open) = port(8, patience(LONG, short)).await;
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(&[b'P'; 24]).await.unwrap();
        let mut connection = entering.recv().await.unwrap();
        assert_eq!(read(&mut connection).await.unwrap(), 24);
        assert_eq!(read(&mut connection).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        // And a peer whose request was let in stays.
        let mut client = TcpStream::connect(address).await.unwrap();
        let mut connection = entering.recv().await.unwrap();
        drop(connection.visit().serve());
        let waiting = tokio::spawn(async move { read(&mut connection).await });
        sleep(2 * short).await;
        client.write_all(b"late").await.unwrap();
        assert_eq!(waiting.await.unwrap().unwrap(), 4);
    }

    /// Connections of peers that ask again and again rest for a moment only, each at another time.
    #[tokio::test]
    async fn those_who_never_stop_asking_keep_nobody_waiting() {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let (mut entering, address, _open) = port_of(protocol, 8, patience(LONG, LONG)).await;
            let (mut clients, mut busy) = (Vec::new(), Vec::new());
            for _ in 0..8 {
                clients.push(TcpStream::connect(address).await.unwrap());
                busy.push(entering.recv().await.unwrap());
            }
            let visits = busy.iter().map(Connection::visit).collect::<Vec<_>>();
            let asking = tokio::spawn(async move {
                loop {
                    for visit in &visits {
                        drop(visit.serve());
                    }
                    sleep(Duration::from_millis(1)).await;
                }
            });
            clients.push(TcpStream::connect(address).await.unwrap());
            timeout(LONG, entering.recv()).await.expect("a connection").unwrap();
            asking.abort();
        }
    }

    #[tokio::test]
    async fn a_peer_that_has_just_come_keeps_the_next_one_waiting_only_among_many() {
        let metrics = Metrics::register(&prometheus::Registry::new(), "1.2.3", 7).unwrap();
        let places =
            Arc::new(Places { book: Mutex::default(), freed: Notify::new(), counts: Counts::of(&metrics, "http") });
        let ages = Ages { silent: LONG, idle: Duration::ZERO };
        let peer = || Peer::Unix(Some(1));
        let idle = (0..8).map(|_| places.enter(peer())).collect::<Vec<_>>();
        for visit in &idle {
            drop(visit.serve());
        }
        let mut young = Vec::new();
        for longest_idle in &idle[..3] {
            assert!(matches!(places.make_room(8, ages), Room::Free));
            assert!(longest_idle.leave.is_cancelled());
            young.push(places.enter(peer()));
        }
        assert!(matches!(places.make_room(8, ages), Room::At(_)));
        assert!(matches!(places.make_room(8, Ages::default()), Room::Free));
        assert!(young[0].leave.is_cancelled() && !idle[3].leave.is_cancelled());
    }

    #[tokio::test]
    async fn few_connections_that_made_room_are_open_at_once() {
        let metrics = Metrics::register(&prometheus::Registry::new(), "1.2.3", 7).unwrap();
        let places =
            Arc::new(Places { book: Mutex::default(), freed: Notify::new(), counts: Counts::of(&metrics, "http") });
        let limit = 4;
        let mut open = Vec::new();
        while !matches!(places.make_room(limit, Ages::default()), Room::Soon) {
            open.push(places.enter(Peer::Unix(Some(1))));
            assert!(open.len() <= limit + CLOSING);
        }
        assert_eq!(open.len(), limit + CLOSING);
        drop(open.remove(0));
        assert!(matches!(places.make_room(limit, Ages::default()), Room::Free));
    }

    #[tokio::test]
    async fn a_connection_that_closes_ends_the_wait_for_room() {
        let metrics = Metrics::register(&prometheus::Registry::new(), "1.2.3", 7).unwrap();
        let places =
            Arc::new(Places { book: Mutex::default(), freed: Notify::new(), counts: Counts::of(&metrics, "http") });
        let visits = [(); 2].map(|()| places.enter(Peer::Unix(Some(1))));
        let never = Duration::from_secs(1 << 20);
        let ages = Ages { silent: never, idle: never };
        let waiting = Arc::clone(&places);
        let waiting = tokio::spawn(async move { waiting.wait_for_room(2, ages).await });
        tokio::task::yield_now().await;
        drop(visits);
        assert!(matches!(timeout(LONG, waiting).await.unwrap().unwrap(), Room::Free));
    }

    #[tokio::test]
    async fn the_longest_silent_makes_room_then_the_longest_idle() {
        let (mut entering, address, open) = port(3, patience(LONG, LONG)).await;
        let mut clients = Vec::new();
        let mut enter = async || {
            clients.push(TcpStream::connect(address).await.unwrap());
            timeout(LONG, entering.recv()).await.expect("a connection").unwrap()
        };
        let (mut idle, mut silent, busy) = (enter().await, enter().await, enter().await);
        drop(idle.visit().serve());
        let serving = busy.visit().serve();
        let mut next = enter().await;
        assert_eq!(read(&mut silent).await.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
        drop(next.visit().serve());
        let second = enter().await;
        assert_eq!(read(&mut idle).await.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
        let held = (second.visit().serve(), next.visit().serve());
        // Now every place is in use.
        let mut refused = TcpStream::connect(address).await.unwrap();
        let mut said = Vec::new();
        timeout(LONG, refused.read_to_end(&mut said)).await.unwrap().unwrap();
        assert_eq!(said, b"no");
        drop((silent, idle));
        assert_eq!(open.get(), 3);
        drop((held, serving));
        assert!(!next.visit().leave.is_cancelled());
        let _ = &mut next;
    }
}
