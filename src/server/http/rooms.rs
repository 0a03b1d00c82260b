//! Places of requests: each kind of reader has its own, so that none can take those of another.
//!
//! Together they are fewer than the connections of the port. There is therefore always a connection without a request in
//! flight, which makes room for the next one: a probe is never kept waiting by page readers, event streams or slow peers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::lock::lock;
use crate::server::peers::Visit;

/// Age of an answer of metrics, and of any other, from which it makes room for the next one: real ones take
/// milliseconds.
const SLOW: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// The places of a port.
pub struct Rooms {
    probes: Room,
    metrics: Room,
    readers: Room,
    /// Event streams last as long as a page is open, so none makes room for another.
    streams: Room,
}

impl Rooms {
    /// The places of a port with this many connections.
    pub fn new(connections: usize) -> Self {
        let room =
            |share: usize, yields| Room { places: (connections / share).max(1), yields, seats: Mutex::default() };
        Self {
            probes: room(16, Some(SLOW.0)),
            metrics: room(16, Some(SLOW.0)),
            readers: room(4, Some(SLOW.1)),
            streams: room(2, None),
        }
    }

    /// A place for a request of this path, until the returned value is dropped; `None` if there is none.
    pub fn enter(self: &Arc<Self>, path: &str, visit: Option<Arc<Visit>>, now: Instant) -> Option<Seat> {
        let kind = match path {
            "/live" | "/ready" => Kind::Probe,
            "/metrics" => Kind::Metrics,
            "/api/v1/events" => Kind::Stream,
            _ => Kind::Reader,
        };
        let number = self.room(kind).enter(visit, now)?;
        Some(Seat { rooms: Arc::clone(self), kind, number })
    }

    fn room(&self, kind: Kind) -> &Room {
        match kind {
            Kind::Probe => &self.probes,
            Kind::Metrics => &self.metrics,
            Kind::Reader => &self.readers,
            Kind::Stream => &self.streams,
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Probe,
    Metrics,
    Reader,
    Stream,
}

struct Room {
    places: usize,
    /// Age from which the oldest request makes room.
    yields: Option<Duration>,
    /// By number, which is the order of arrival.
    seats: Mutex<Seats>,
}

#[derive(Default)]
struct Seats {
    next: u64,
    taken: BTreeMap<u64, (Instant, Option<Arc<Visit>>)>,
}

impl Room {
    fn enter(&self, visit: Option<Arc<Visit>>, now: Instant) -> Option<u64> {
        let mut seats = lock(&self.seats);
        if seats.taken.len() >= self.places {
            let oldest = seats.taken.first_entry()?;
            let (since, slow) = oldest.get();
            if now.duration_since(*since) < self.yields? {
                return None;
            }
            if let Some(slow) = slow {
                slow.dismiss();
            }
            oldest.remove();
        }
        let number = seats.next;
        seats.next += 1;
        seats.taken.insert(number, (now, visit));
        Some(number)
    }
}

/// A place of a request in flight.
pub struct Seat {
    rooms: Arc<Rooms>,
    kind: Kind,
    number: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.rooms.room(self.kind).seats).taken.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_kind_of_request_takes_the_places_of_another() {
        let (rooms, begin) = (Arc::new(Rooms::new(128)), Instant::now());
        let mut seats = Vec::new();
        for (path, places) in [("/api/v1/events", 64), ("/api/v1/runs", 32), ("/metrics", 8), ("/ready", 8)] {
            for _ in 0..places {
                seats.push(rooms.enter(path, None, begin).expect("a place"));
            }
            assert!(rooms.enter(path, None, begin).is_none(), "{path}");
        }
        assert!(seats.len() < 128, "a connection without a request stays");
        // Slow requests make room, except event streams.
        let later = begin + SLOW.0;
        let found = ["/live", "/metrics", "/", "/api/v1/events"].map(|path| rooms.enter(path, None, later).is_some());
        assert_eq!(found, [true, true, false, false]);
        let later = begin + SLOW.1;
        assert!(rooms.enter("/", None, later).is_some() && rooms.enter("/api/v1/events", None, later).is_none());
        // The place of a request that made room is not given back twice.
        drop(seats);
        let again = (0..65).filter_map(|_| rooms.enter("/api/v1/events", None, later)).collect::<Vec<_>>();
        assert_eq!(again.len(), 64);
    }
}
