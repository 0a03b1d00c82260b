//! The events that watchers have not taken yet, bounded in number and bytes.
//!
//! Each watcher gets every event from its subscription on. Events that all have taken are freed; beyond the bounds the
//! oldest are freed too, and a watcher that had not taken them learns how many it lost. So a watcher that reads nothing
//! holds no more than the bounds, and stops nobody.
//!
//! Events are numbered. A watcher that reads the state, and notes the [mark](Mark) before it does, can tell events that
//! the state has in it from later ones, and whether its own have stopped.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures::Stream;
use tokio::sync::Notify;

use super::live::Event;
use leakage::lock::lock;

/// The limits of what waits for the slowest watcher. The newest event always waits.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub events: usize,
    pub bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { events: 1024, bytes: 32 << 20 }
    }
}

/// Where events are sent and subscribed to; clones share them.
#[derive(Clone)]
pub struct Events(Arc<Shared>);

/// A place between two events, as a text: `ORIGIN-NUMBER`, where the number counts the events before it. Marks of one
/// origin, a random number of the process, can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    origin: u64,
    number: u64,
}

struct Shared {
    bounds: Bounds,
    origin: u64,
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Default)]
struct Waiting {
    /// Oldest first, with their bytes.
    events: VecDeque<(Event, usize)>,
    bytes: usize,
    /// Number of the first of `events`.
    first: u64,
    /// Number of the next event of each watcher.
    watchers: BTreeMap<u64, u64>,
    /// Watchers so far.
    subscribed: u64,
}

/// A subscription, which ends when it is dropped.
pub struct Watcher {
    number: u64,
    shared: Arc<Shared>,
}

/// An event for a watcher, or the number of those that it lost.
#[derive(Clone, Debug)]
pub enum Received {
    Event(Event),
    /// This many events came and went before it took them.
    Lost(u64),
}

impl Events {
    pub fn new(bounds: Bounds) -> Self {
        Self(Arc::new(Shared {
            bounds,
            origin: RandomState::new().hash_one(()),
            waiting: Mutex::default(),
            arrived: Notify::new(),
        }))
    }

    /// Sends an event to all watchers. Returns whether there are any; if not, nothing is kept.
    pub fn send(&self, event: Event) -> bool {
        let bytes = event.bytes();
        let mut waiting = lock(&self.0.waiting);
        if waiting.watchers.is_empty() {
            return false;
        }
        waiting.events.push_back((event, bytes));
        waiting.bytes += bytes;
        let Bounds { events, bytes } = self.0.bounds;
        while waiting.events.len() > 1 && (waiting.events.len() > events || waiting.bytes > bytes) {
            waiting.drop_first();
        }
        drop(waiting);
        self.0.arrived.notify_waiters();
        true
    }

    /// The mark behind the newest event.
    pub fn mark(&self) -> Mark {
        Mark { origin: self.0.origin, number: lock(&self.0.waiting).end() }
    }

    pub fn are_watched(&self) -> bool {
        !lock(&self.0.waiting).watchers.is_empty()
    }

    pub fn subscribe(&self) -> Watcher {
        let mut waiting = lock(&self.0.waiting);
        let (number, next) = (waiting.subscribed, waiting.end());
        waiting.subscribed += 1;
        waiting.watchers.insert(number, next);
        Watcher { number, shared: Arc::clone(&self.0) }
    }
}

impl Waiting {
    /// Number of the event that comes next.
    fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    fn drop_first(&mut self) {
        if let Some((_, bytes)) = self.events.pop_front() {
            self.first += 1;
            self.bytes -= bytes;
        }
    }

    /// Frees what every watcher has taken.
    fn free(&mut self) {
        let needed = self.watchers.values().min().copied().unwrap_or(self.end());
        while self.first < needed && !self.events.is_empty() {
            self.drop_first();
        }
    }

    fn take(&mut self, watcher: u64) -> Option<Received> {
        let (first, end) = (self.first, self.end());
        let next = self.watchers.get_mut(&watcher)?;
        if *next < first {
            let lost = first - *next;
            *next = first;
            return Some(Received::Lost(lost));
        }
        if *next == end {
            return None;
        }
        let (event, _) = self.events.get((*next - first) as usize)?;
        let received = Received::Event(event.clone());
        *next += 1;
        self.free();
        Some(received)
    }
}

impl Watcher {
    /// Waits for the next event. Nothing is lost where this is abandoned.
    pub async fn next(&mut self) -> Received {
        loop {
            let mut arrived = pin!(self.shared.arrived.notified());
            // From here on no event is missed.
            arrived.as_mut().enable();
            if let Some(received) = lock(&self.shared.waiting).take(self.number) {
                return received;
            }
            arrived.await;
        }
    }

    /// The mark behind what was received last.
    pub fn mark(&self) -> Mark {
        let waiting = lock(&self.shared.waiting);
        Mark { origin: self.shared.origin, number: waiting.watchers.get(&self.number).copied().unwrap_or_default() }
    }

    /// Returns everything that it receives, as a stream.
    pub fn stream(self) -> impl Stream<Item = Received> {
        futures::stream::unfold(self, |mut watcher| async move { Some((watcher.next().await, watcher)) })
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.origin, self.number)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut waiting = lock(&self.shared.waiting);
        waiting.watchers.remove(&self.number);
        waiting.free();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use leakage::point::{Outcome, Point, ScoreValue};

    fn run(name: &str) -> Event {
        Event::Run(name.into())
    }

    fn held(events: &Events) -> (usize, usize) {
        let waiting = lock(&events.0.waiting);
        (waiting.events.len(), waiting.bytes)
    }

    /// Returns what a watcher gets without waiting: names of runs, and numbers of lost events.
    fn taken(watcher: &mut Watcher) -> Vec<String> {
        let mut taken = Vec::new();
        while let Some(received) = watcher.next().now_or_never() {
            taken.push(match received {
                Received::Event(Event::Run(run)) => run.to_string(),
                Received::Event(event) => panic!("{event:?}"),
                Received::Lost(count) => format!("{count} lost"),
            });
        }
        taken
    }

    #[test]
    fn each_watcher_gets_every_event_from_its_subscription_on() {
        let events = Events::new(Bounds::default());
        assert!(!events.send(run("before")));
        let mut first = events.subscribe();
        assert!(events.send(run("a")));
        let mut second = events.subscribe();
        events.send(run("b"));
        assert_eq!((taken(&mut first), taken(&mut second)), (vec!["a".into(), "b".into()], vec!["b".to_owned()]));
        events.send(run("c"));
        assert_eq!((taken(&mut second), taken(&mut first)), (vec!["c".to_owned()], vec!["c".to_owned()]));
    }

    #[test]
    fn a_mark_counts_what_was_received_and_what_was_lost() {
        let events = Events::new(Bounds { events: 2, bytes: usize::MAX });
        let mut watcher = events.subscribe();
        assert_eq!(watcher.mark(), events.mark());
        for name in ["a", "b", "c"] {
            events.send(run(name));
        }
        assert_eq!((watcher.mark().number, events.mark().number), (0, 3));
        // The loss of one, and what is left.
        for behind in 1..=3 {
            assert!(watcher.next().now_or_never().is_some());
            assert_eq!(watcher.mark().number, behind);
        }
        assert_eq!(watcher.mark(), events.mark());
        assert_ne!(Events::new(Bounds::default()).mark().origin, events.mark().origin);
    }

    #[test]
    fn what_all_have_taken_is_freed() {
        let events = Events::new(Bounds::default());
        let (mut quick, slow) = (events.subscribe(), events.subscribe());
        for _ in 0..10 {
            events.send(run("a"));
        }
        assert_eq!(taken(&mut quick).len(), 10);
        assert_eq!(held(&events).0, 10);
        drop(slow);
        assert_eq!(held(&events), (0, 0));
        events.send(run("b"));
        drop(quick);
        assert_eq!(held(&events), (0, 0));
    }

    #[test]
    fn a_watcher_that_takes_nothing_holds_no_more_than_the_bounds() {
        // A point of 1,000 concepts, with matrices.
        let k = 1000;
        let value = ScoreValue {
            per_concept: Some(vec![Some(0.5); k]),
            matrix: Some(vec![vec![Some(0.5); k]; k]),
            ..ScoreValue::default()
        };
        let scores = vec![("icl".to_owned(), Outcome::Value(value))];
        let point = Event::Point(Arc::new(Point { scores, ..Point::default() }));
        let events = Events::new(Bounds::default());
        let mut watcher = events.subscribe();
        for _ in 0..50 {
            events.send(point.clone());
        }
        assert!(held(&events).1 <= 32 << 20, "{:?}", held(&events));
        events.send(run("a"));
        let Some(Received::Lost(lost)) = watcher.next().now_or_never() else { panic!("the loss is reported") };
        assert_eq!(lost as usize, 51 - held(&events).0);
        for _ in 0..10_000 {
            events.send(run("b"));
        }
        assert_eq!(held(&events).0, 1024);
    }

    #[test]
    fn the_newest_event_waits_however_large_it_is() {
        let events = Events::new(Bounds { events: 4, bytes: 10 });
        let mut watcher = events.subscribe();
        for name in ["a", "b", "a name that is longer than the bound"] {
            events.send(run(name));
        }
        assert_eq!(taken(&mut watcher), ["2 lost", "a name that is longer than the bound"]);
    }

    #[tokio::test]
    async fn a_watcher_that_waits_is_woken() {
        let events = Events::new(Bounds::default());
        let mut watcher = events.subscribe();
        let waiting = tokio::spawn(async move { watcher.next().await });
        while !waiting.is_finished() {
            events.send(run("a"));
            tokio::task::yield_now().await;
        }
        assert!(matches!(waiting.await.unwrap(), Received::Event(Event::Run(_))));
    }
}
