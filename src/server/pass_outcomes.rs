//! Settlement: how each pass ended, once that is durable, and which ingest streams are to be told.
//!
//! A pass is *pending* from its first end, or from its closing, until its point is in the history, or the reason why it
//! has none is. Records of passes without a point are written in batches, so that a burst of them costs one commit.
//! Nothing here waits for a client: each stream has a [`Mailbox`], which its own task empties.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::history::{Ending, HistoryError, Store, Unscored, Written};
use leakage::run::SplitKey;
use leakage::sample::{Attempt, Evaluation};
use leakage::step::{PassKey, Step};

use super::clock::unix_time;
use super::metrics::Metrics;
use leakage::lock::lock;

/// Interval at which records are written.
const FLUSH: Duration = Duration::from_millis(100);

/// Endings remembered for clients that ask again. Older ones are looked up in the history.
const REMEMBERED: usize = 4096;

/// Endings that wait for one stream. A stream whose client reads nothing takes no further messages either, so only a
/// client that breaks the protocol comes here; the oldest are lost, and it learns them when it asks again.
const MAILBOX: usize = 1 << 16;

/// Records that wait for a history that cannot be written.
const UNWRITTEN: usize = 1 << 16;

/// A pass of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pass {
    pub key: SplitKey,
    pub attempt: Attempt,
    pub at: PassKey,
}

impl Pass {
    pub fn of(evaluation: &Evaluation) -> Self {
        Self { key: evaluation.key.clone(), attempt: evaluation.attempt, at: evaluation.pass() }
    }

    /// The pass of a point or record that has reached the disk.
    fn written(written: &Written) -> Option<Self> {
        let at = PassKey { step: Step::new(written.step).ok()?, ordinal: written.ordinal };
        Some(Self { key: SplitKey::new(&*written.run, &*written.split), attempt: written.attempt?, at })
    }
}

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::AsRefStr)]
#[strum(serialize_all = "snake_case")]
pub enum Outcome {
    /// Its point is stored, or one that is as complete.
    Point,
    /// Its point is stored and marked as incomplete.
    Incomplete,
    Skipped,
    Discarded,
    Failed,
}

impl Outcome {
    /// `None` for a pass that a new process may still score.
    fn of(ending: Ending) -> Option<Self> {
        match ending {
            Ending::Skipped => Some(Self::Skipped),
            Ending::Discarded => Some(Self::Discarded),
            Ending::Failed => Some(Self::Failed),
            Ending::Unsettled | Ending::Damaged => None,
        }
    }
}

/// The end of a pass's life, for the clients that sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    pub key: SplitKey,
    pub at: PassKey,
    pub outcome: Outcome,
    /// In words; empty for a complete point.
    pub reason: String,
}

/// The settled passes that a stream has not been told of.
#[derive(Default)]
pub struct Mailbox {
    settled: Mutex<VecDeque<Settled>>,
    arrived: Notify,
}

impl Mailbox {
    /// Waits until there is something to take.
    pub async fn arrival(&self) {
        self.arrived.notified().await;
    }

    pub fn take(&self) -> Vec<Settled> {
        lock(&self.settled).drain(..).collect()
    }

    fn put(&self, settled: Settled) {
        let mut waiting = lock(&self.settled);
        if waiting.len() >= MAILBOX {
            waiting.pop_front();
        }
        waiting.push_back(settled);
    }
}

/// The streams whose mailboxes have something new. They are woken together: one that is awake answers for each pass.
#[derive(Default)]
struct Told(Vec<Arc<Mailbox>>);

impl Told {
    fn add(&mut self, stream: Arc<Mailbox>) {
        if !self.0.iter().any(|known| Arc::ptr_eq(known, &stream)) {
            self.0.push(stream);
        }
    }

    fn wake(self) {
        for stream in self.0 {
            stream.arrived.notify_one();
        }
    }
}

/// The passes of this process that have ended, and how.
pub struct Settlement {
    /// Random, of this process.
    incarnation: String,
    history: Arc<dyn Store>,
    metrics: Metrics,
    state: Mutex<State>,
    /// Notified at each settled pass.
    changed: Notify,
}

#[derive(Default)]
struct State {
    pending: BTreeMap<Pass, Pending>,
    /// The newest endings, and their order.
    known: BTreeMap<Pass, (Outcome, String)>,
    order: VecDeque<Pass>,
    /// Records to be written.
    records: VecDeque<(Pass, Unscored)>,
    /// Endings whose record or point is in memory or on its way to the disk.
    unwritten: BTreeMap<Pass, (Outcome, String)>,
    /// Pending passes whose point has reached the disk before its scorer said how they ended.
    early: BTreeSet<Pass>,
}

#[derive(Default)]
struct Pending {
    streams: Vec<Weak<Mailbox>>,
    /// A record of how it ended waits to be written.
    recorded: bool,
}

impl Settlement {
    pub fn new(history: Arc<dyn Store>, metrics: Metrics) -> Self {
        // The standard library's random keys come from the system, and differ for each of these.
        let random = || RandomState::new().hash_one((std::process::id(), unix_time().to_bits()));
        let incarnation = format!("{:016x}{:016x}", random(), random());
        Self { incarnation, history, metrics, state: Mutex::default(), changed: Notify::new() }
    }

    pub fn incarnation(&self) -> &str {
        &self.incarnation
    }

    /// Notes that a pass is to be settled, and that a stream waits for it.
    pub fn expect(&self, pass: Pass, stream: Option<&Arc<Mailbox>>) {
        let mut state = lock(&self.state);
        let pending = state.pending.entry(pass).or_default();
        pending.join(stream);
        self.metrics.passes_unsettled.set(state.pending.len() as i64);
    }

    /// Adds a stream to those that wait for a pass. Returns whether the pass is pending.
    pub fn join(&self, pass: &Pass, stream: &Arc<Mailbox>) -> bool {
        let mut state = lock(&self.state);
        let Some(pending) = state.pending.get_mut(pass) else { return false };
        pending.join(Some(stream));
        true
    }

    /// How a pass of the same attempt ended, in this process or an earlier one. Reads the history, so it blocks.
    pub fn look_up(&self, pass: &Pass) -> Result<Option<Settled>, HistoryError> {
        let settled = |outcome, reason| Settled { key: pass.key.clone(), at: pass.at, outcome, reason };
        let state = lock(&self.state);
        if let Some((outcome, reason)) = state.known.get(pass) {
            return Ok(Some(settled(*outcome, reason.clone())));
        }
        // The history shows what it has in memory, too, but a crash would lose that.
        if state.unwritten.contains_key(pass) {
            return Ok(None);
        }
        let pending = state.pending.contains_key(pass);
        drop(state);
        let (run, split, step) = (&*pass.key.run, &*pass.key.split, pass.at.step.get());
        if self.history.has_complete_point(run, split, step, pass.attempt, pass.at.ordinal)? {
            return Ok(Some(settled(Outcome::Point, String::new())));
        }
        if pending {
            return Ok(None);
        }
        let is_of = |record: &Unscored| record.attempt == Some(pass.attempt) && record.ordinal == pass.at.ordinal;
        let record = self.history.unscored_at(run, split, step)?.filter(is_of);
        Ok(record.and_then(|record| Some(settled(Outcome::of(record.outcome)?, record.reason))))
    }

    /// The point of a pass is durable, or one that is as complete. Does nothing for an evaluation that is no pass.
    pub fn settle(&self, pass: &Pass, outcome: Outcome, reason: impl Into<String>) {
        let mut told = Told::default();
        self.conclude(&mut lock(&self.state), pass, outcome, reason.into(), &mut told);
        told.wake();
    }

    /// The point of a pass is not durable yet: the history keeps it in memory, or it is on its way to a slow disk.
    pub fn postpone(&self, pass: &Pass, outcome: Outcome, reason: impl Into<String>) {
        let (mut state, mut told) = (lock(&self.state), Told::default());
        if state.early.contains(pass) {
            self.conclude(&mut state, pass, outcome, reason.into(), &mut told);
        } else if state.pending.contains_key(pass) {
            state.unwritten.insert(pass.clone(), (outcome, reason.into()));
        }
        drop(state);
        told.wake();
    }

    /// A pass has no point. It is settled once that is in the history. `rows_seen` is the number of distinct rows that
    /// had arrived.
    pub fn record(&self, pass: &Pass, outcome: Ending, reason: impl Into<String>, rows_seen: u64) {
        let record = Unscored {
            run: pass.key.run.to_string(),
            split: pass.key.split.to_string(),
            step: pass.at.step.get(),
            ordinal: pass.at.ordinal,
            time: unix_time(),
            outcome,
            reason: reason.into(),
            rows_seen,
            attempt: Some(pass.attempt),
        };
        let mut state = lock(&self.state);
        if let Some(pending) = state.pending.get_mut(pass) {
            pending.recorded = true;
        }
        state.records.push_back((pass.clone(), record));
        if state.records.len() > UNWRITTEN {
            state.records.pop_front();
            self.metrics.history_errors.inc();
            tracing::error!(run = %pass.key.run, "a record of a pass without a point was lost: too many cannot be written");
        }
    }

    /// Notes that every pass that is still pending will not be scored by this process. The client keeps its rows.
    pub fn give_up(&self, reason: &str) {
        let state = lock(&self.state);
        let left: Vec<Pass> =
            state.pending.iter().filter(|(_, pending)| !pending.recorded).map(|(pass, _)| pass.clone()).collect();
        drop(state);
        for pass in left {
            self.record(&pass, Ending::Unsettled, reason, 0);
        }
    }

    /// Writes the records, and settles what is durable. Blocks.
    pub fn flush(&self) {
        let records: Vec<(Pass, Unscored)> = lock(&self.state).records.drain(..).collect();
        let (passes, unscored): (Vec<Pass>, Vec<Unscored>) = records.into_iter().unzip();
        let written = if unscored.is_empty() { Ok(true) } else { self.history.record_unscored(&unscored) };
        let mut told = Told::default();
        let mut state = lock(&self.state);
        match written {
            Ok(durable) => {
                for (pass, record) in passes.into_iter().zip(unscored) {
                    let Some(outcome) = Outcome::of(record.outcome) else { continue };
                    if durable {
                        self.conclude(&mut state, &pass, outcome, record.reason, &mut told);
                    } else {
                        state.unwritten.insert(pass, (outcome, record.reason));
                    }
                }
            }
            Err(error) => {
                self.metrics.history_errors.inc();
                tracing::error!(passes = passes.len(), %error, "passes without a point could not be recorded");
                for record in passes.into_iter().zip(unscored).rev() {
                    state.records.push_front(record);
                }
            }
        }
        drop(state);
        // Before anything else is written, which may take a while.
        told.wake();
        let mut told = Told::default();
        for written in self.history.write_waiting() {
            let (Some(pass), mut state) = (Pass::written(&written), lock(&self.state)) else { continue };
            if let Some((outcome, reason)) = state.unwritten.remove(&pass) {
                self.conclude(&mut state, &pass, outcome, reason, &mut told);
            } else if written.ending.is_none() && state.pending.contains_key(&pass) {
                state.early.insert(pass);
            }
        }
        told.wake();
    }

    /// Writes records until the server stops.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut flushes = tokio::time::interval(FLUSH);
        while !stop.is_cancelled() {
            tokio::select! {
                _ = flushes.tick() => {}
                () = stop.cancelled() => return,
            }
            let settlement = Arc::clone(&self);
            // Fails only if the flush panics, and then the next one tries again.
            let _ = tokio::task::spawn_blocking(move || settlement.flush()).await;
        }
    }

    /// Whether any pass of a step is pending.
    pub fn is_pending(&self, run: &str, split: &str, step: u64) -> bool {
        let state = lock(&self.state);
        let of_step = |pass: &Pass| *pass.key.run == *run && *pass.key.split == *split && pass.at.step.get() == step;
        state.pending.keys().any(of_step)
    }

    /// Whether any pass of a run is pending.
    pub fn is_any_pending(&self, run: &str) -> bool {
        lock(&self.state).pending.keys().any(|pass| *pass.key.run == *run)
    }

    /// Whether any pass is pending.
    pub fn has_pending(&self) -> bool {
        !lock(&self.state).pending.is_empty()
    }

    /// Number of pending passes of a run's split.
    pub fn pending(&self, key: &SplitKey) -> u64 {
        lock(&self.state).pending.keys().filter(|pass| pass.key == *key).count() as u64
    }

    /// The pending passes of a run: split and step.
    pub fn unsettled(&self, run: &str) -> Vec<(Arc<str>, Step)> {
        let state = lock(&self.state);
        let of_run = state.pending.keys().filter(|pass| *pass.key.run == *run);
        of_run.map(|pass| (Arc::clone(&pass.key.split), pass.at.step)).collect()
    }

    /// Waits until nothing of a run is pending. Returns what still is at the deadline.
    pub async fn settled(&self, run: &str, deadline: Instant) -> Vec<(Arc<str>, Step)> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            let left = self.unsettled(run);
            if left.is_empty() || timeout_at(deadline, changed).await.is_err() {
                return left;
            }
        }
    }

    fn conclude(&self, state: &mut State, pass: &Pass, outcome: Outcome, reason: String, told: &mut Told) {
        state.unwritten.remove(pass);
        state.early.remove(pass);
        let Some(pending) = state.pending.remove(pass) else { return };
        self.metrics.passes_settled.with_label_values(&[outcome.as_ref()]).inc();
        self.metrics.passes_unsettled.set(state.pending.len() as i64);
        for stream in pending.streams.iter().filter_map(Weak::upgrade) {
            let (key, at) = (pass.key.clone(), pass.at);
            stream.put(Settled { key, at, outcome, reason: reason.clone() });
            told.add(stream);
        }
        if state.known.insert(pass.clone(), (outcome, reason)).is_none() {
            state.order.push_back(pass.clone());
        }
        if state.order.len() > REMEMBERED
            && let Some(oldest) = state.order.pop_front()
        {
            state.known.remove(&oldest);
        }
        self.changed.notify_waiters();
    }
}

impl Pending {
    fn join(&mut self, stream: Option<&Arc<Mailbox>>) {
        self.streams.retain(|known| known.strong_count() > 0);
        let Some(stream) = stream else { return };
        let stream = Arc::downgrade(stream);
        if !self.streams.iter().any(|known| known.ptr_eq(&stream)) {
            self.streams.push(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::history::{Identity, Limits, Sqlite};
    use leakage::run::{Concept, Run, RunFields};

    fn settlement() -> Settlement {
        let history = Sqlite::open(None, Limits { bytes: 1 << 26 }).unwrap();
        let concepts = vec![Concept { name: "c".into(), cardinality: 2, ..Concept::default() }];
        let run = Run::try_from(RunFields { name: "r".into(), concepts, ..Default::default() }).unwrap();
        history.record_run(&run, &Identity::default(), 0.0).unwrap();
        let metrics = Metrics::register(&prometheus::Registry::new(), "", 0).unwrap();
        Settlement::new(Arc::new(history), metrics)
    }

    fn pass(step: u64) -> Pass {
        Pass { key: SplitKey::new("r", "val"), attempt: Attempt::default(), at: Step::new(step).unwrap().into() }
    }

    fn steps(stream: &Mailbox) -> Vec<(u64, Outcome)> {
        stream.take().into_iter().map(|settled| (settled.at.step.get(), settled.outcome)).collect()
    }

    #[test]
    fn each_stream_that_waits_is_told_once_and_after_the_record_is_written() {
        let settlement = settlement();
        let streams = [Arc::new(Mailbox::default()), Arc::new(Mailbox::default())];
        for stream in [&streams[0], &streams[1], &streams[1]] {
            settlement.expect(pass(1), Some(stream));
        }
        settlement.expect(pass(2), Some(&streams[0]));
        settlement.record(&pass(1), Ending::Skipped, "for a newer one", 7);
        assert_eq!(steps(&streams[0]), [], "not written");
        assert_eq!(settlement.look_up(&pass(1)).unwrap(), None);
        settlement.flush();
        for stream in &streams {
            assert_eq!(steps(stream), [(1, Outcome::Skipped)]);
        }
        assert_eq!(settlement.unsettled("r").len(), 1);
        assert!(settlement.is_pending("r", "val", 2) && !settlement.is_pending("r", "val", 1));
        // Another process finds it in the history; another attempt does not.
        let later = Settlement::new(Arc::clone(&settlement.history), settlement.metrics.clone());
        assert_ne!(later.incarnation(), settlement.incarnation());
        let found = later.look_up(&pass(1)).unwrap().unwrap();
        assert_eq!((found.outcome, found.reason.as_str()), (Outcome::Skipped, "for a newer one"));
        let attempt = Attempt { launch: 0, restart: 1 };
        assert_eq!(later.look_up(&Pass { attempt, ..pass(1) }).unwrap(), None);
        assert!(!settlement.join(&pass(1), &streams[0]) && settlement.join(&pass(2), &streams[1]));
    }

    #[test]
    fn a_stream_is_woken_once_for_all_passes_that_are_recorded_together() {
        let settlement = settlement();
        let stream = Arc::new(Mailbox::default());
        for step in 1..=3 {
            settlement.expect(pass(step), Some(&stream));
            settlement.record(&pass(step), Ending::Skipped, "for a newer one", 7);
        }
        let mut arrival = std::pin::pin!(stream.arrival());
        assert_eq!(arrival.as_mut().now_or_never(), None);
        settlement.flush();
        assert_eq!(arrival.now_or_never(), Some(()));
        assert_eq!(steps(&stream).len(), 3);
        assert_eq!(stream.arrival().now_or_never(), None, "a second time, for nothing");
    }

    /// A point may reach the disk before its scorer has said how the pass ended.
    #[test]
    fn a_point_that_is_reported_before_its_pass_is_postponed_settles_it() {
        let settlement = settlement();
        let stream = Arc::new(Mailbox::default());
        settlement.expect(pass(1), Some(&stream));
        lock(&settlement.state).early.insert(pass(1));
        settlement.postpone(&pass(1), Outcome::Point, "");
        settlement.postpone(&pass(1), Outcome::Point, "");
        assert_eq!(steps(&stream), [(1, Outcome::Point)]);
        assert!(lock(&settlement.state).early.is_empty() && lock(&settlement.state).unwritten.is_empty());
    }

    #[test]
    fn what_is_given_up_is_recorded_and_stays_unsettled() {
        let settlement = settlement();
        let stream = Arc::new(Mailbox::default());
        settlement.expect(pass(1), Some(&stream));
        settlement.expect(pass(2), None);
        settlement.record(&pass(2), Ending::Failed, "it had no rows", 0);
        settlement.give_up("the sidecar stopped");
        settlement.flush();
        let records = settlement.history.unscored("r", "val").unwrap();
        let endings: Vec<_> = records.iter().map(|record| (record.step, record.outcome)).collect();
        assert_eq!(endings, [(1, Ending::Unsettled), (2, Ending::Failed)]);
        assert_eq!((steps(&stream), settlement.unsettled("r").len()), (vec![], 1));
        assert_eq!(settlement.look_up(&pass(1)).unwrap(), None, "it is to be sent again");
    }

    #[test]
    fn a_stream_that_is_not_read_holds_a_bounded_number() {
        let settlement = settlement();
        let stream = Arc::new(Mailbox::default());
        for step in 0..MAILBOX as u64 + 10 {
            settlement.expect(pass(step), Some(&stream));
            settlement.settle(&pass(step), Outcome::Point, "");
        }
        let told = steps(&stream);
        assert_eq!((told.len(), told[0].0), (MAILBOX, 10));
        let state = lock(&settlement.state);
        assert_eq!((state.pending.len(), state.known.len(), state.order.len()), (0, REMEMBERED, REMEMBERED));
        // A stream that has ended is not kept.
        drop(state);
        settlement.expect(pass(0), Some(&stream));
        drop(stream);
        settlement.expect(pass(0), None);
        assert!(lock(&settlement.state).pending[&pass(0)].streams.is_empty());
    }
}
