//! The places of a port: which connections hold one, and which make room.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use prometheus::{IntCounter, IntGauge};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::lock::lock;
use crate::server::metrics::Metrics;
use crate::server::peers::listener::Peer;

/// Part of the places that peers which have only just come may take from those that are idle.
const SILENT_SHARE: usize = 4;
/// Connections that may still be closing when others come in their place: each is an open file.
const CLOSING: usize = 8;

/// The metrics of a port's connections.
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
    /// Returns the metrics of the port `grpc` or `http`.
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

/// The open connections of a port.
pub struct Places {
    book: Mutex<Book>,
    /// A connection was closed.
    pub freed: Notify,
    pub counts: Counts,
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

/// The degree to which a connection is known. The lowest makes room first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Silent,
    /// It has made a request that anyone may make.
    Stranger,
    Known,
}

/// Ages from which connections make room.
#[derive(Clone, Copy, Default)]
pub struct Ages {
    pub silent: Duration,
    pub idle: Duration,
}

pub enum Room {
    Free,
    /// At this instant a connection will be old enough to make room.
    At(Instant),
    /// There will be room once a connection that made room is closed.
    Soon,
    /// Every connection has a request in flight.
    Full,
}

impl Places {
    pub fn new(counts: Counts) -> Arc<Self> {
        Arc::new(Self { book: Mutex::default(), freed: Notify::new(), counts })
    }

    /// Waits for room for another connection: until one is closed or old enough. Idle ones need not get older than the wait.
    pub async fn wait_for_room(&self, limit: usize, mut ages: Ages) -> Room {
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
    pub fn make_room(&self, limit: usize, ages: Ages) -> Room {
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
            // A new connection does not wait for silent ones to speak, unless there are many of them.
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

    pub fn enter(self: &Arc<Self>, peer: Peer) -> Arc<Visit> {
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
        lock(&self.book)
    }
}

/// A connection as its requests see it.
pub struct Visit {
    id: u64,
    peer: Peer,
    pub(super) entered: Instant,
    /// Ends the connection.
    pub(super) leave: CancellationToken,
    /// No request has been noted yet.
    silent: AtomicBool,
    /// Whether TLS proved the peer.
    pub(super) certificate: AtomicBool,
    pub(super) places: Arc<Places>,
}

impl Visit {
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Whether the peer proved itself by a certificate of a known authority.
    pub fn has_certificate(&self) -> bool {
        self.certificate.load(Ordering::Relaxed)
    }

    pub(super) fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
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

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn places() -> Arc<Places> {
        let metrics = Metrics::register(&prometheus::Registry::new(), "1.2.3", 7).unwrap();
        Places::new(Counts::of(&metrics, "http"))
    }

    #[tokio::test]
    async fn a_peer_that_has_just_come_keeps_the_next_one_waiting_only_among_many() {
        let places = places();
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
        let places = places();
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
        let places = places();
        let visits = [(); 2].map(|()| places.enter(Peer::Unix(Some(1))));
        let never = Duration::from_secs(1 << 20);
        let ages = Ages { silent: never, idle: never };
        let waiting = Arc::clone(&places);
        let waiting = tokio::spawn(async move { waiting.wait_for_room(2, ages).await });
        tokio::task::yield_now().await;
        drop(visits);
        assert!(matches!(timeout(LONG, waiting).await.unwrap().unwrap(), Room::Free));
    }
}
