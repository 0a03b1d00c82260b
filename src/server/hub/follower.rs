//! Learns from the database what has changed, whichever hub or worker changed it, and passes it on: to the board, the alert
//! rules and the watchers.
//!
//! Every hub reads the same changes in the same order, so all of them judge alike. A hub that starts later reads what is
//! stored of the runs that it shows, and then follows. It shows runs that jobs may send to, and for a day those that have
//! ended or fallen silent; any other is read when it goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::board::{News, SharedBoard};
use crate::alert::Judged;
use crate::analysis_query::baseline_of;
use crate::history::{ChangeCursor, Changed, Heard, HistoryError, Looked, Postgres, Store, StoredRun, StoredSplit};
use crate::point::Point;
use crate::sample::Attempt;
use crate::server::advice::{Advice, RESTORED};
use crate::server::events::Events;
use crate::server::live::Event;
use crate::server::metrics::{HubMetrics, Metrics};

/// Interval of looking for changes that others made.
const LOOK: Duration = Duration::from_secs(1);
/// How long a run keeps its alerts after its end, or without a word of any job.
const KEPT: Duration = Duration::from_secs(86_400);
/// Interval of looking for runs that have fallen silent.
const SWEEP: Duration = Duration::from_secs(10);
/// How long after its newest evaluation the alerts of a run that has finished end. A sidecar finishes a run before the
/// last evaluations of it are scored, and says so in that order.
const QUIET: Duration = Duration::from_secs(10);
/// Runs and changes that are read at once.
const PAGE: usize = 500;
const CHANGES: usize = 1000;
/// Runs that are read between two looks.
const AT_ONCE: usize = 20;
/// Changes are kept for an hour: a follower that could not read those of this long ago reads everything again. It could not
/// where the database was away, or a transaction was at work for so long.
const AWAY: Duration = Duration::from_secs(3000);

/// The time up to which a follower has read all changes.
#[derive(Clone, Debug)]
struct Reach {
    /// It has read the changes that were made before.
    read: Instant,
    /// A later time, and the transaction that was to begin next then: once all transactions before it have ended, and
    /// the follower has read, the follower has reached that time.
    next: (i64, Instant),
}

/// The position of a follower.
#[derive(Clone, Debug)]
pub struct Place {
    cursor: ChangeCursor,
    reach: Reach,
    /// Runs that are aside on the board, and are read in between, the newest last.
    later: Vec<String>,
    /// When it last looked for runs that have fallen silent.
    swept: Instant,
    /// Runs that have finished while it followed and whose evaluations may still come: when they finished, in seconds since
    /// 1970-01-01 UTC, and when they were last heard of.
    ending: BTreeMap<Arc<str>, (f64, Instant)>,
}

impl Reach {
    /// Begins with everything read at `now`, after `looked` was seen.
    fn of_all(looked: Looked, now: Instant) -> Self {
        Self { read: now, next: (looked.next, now) }
    }

    /// Notes that, at `now`, the changes were read that could be read when `looked` was seen.
    fn look(&mut self, looked: Looked, now: Instant) {
        if looked.oldest >= self.next.0 {
            *self = Self { read: self.next.1, next: (looked.next, now) };
        }
    }
}

/// The recipients of what has changed.
#[derive(Clone)]
pub struct Follower {
    pub store: Arc<Postgres>,
    pub board: Arc<SharedBoard>,
    pub advice: Arc<Advice>,
    pub events: Events,
    pub metrics: HubMetrics,
    pub own: Metrics,
    /// Notified when this process has changed something.
    pub look: Arc<Notify>,
}

impl Follower {
    /// Reads what is stored of the runs that jobs may send to, and returns from where on to follow. Blocks.
    pub fn begin(&self) -> Result<Place, HistoryError> {
        self.begin_with(BTreeMap::new())
    }

    /// Also passes on what has changed of the runs that are known.
    fn begin_with(&self, ending: BTreeMap<Arc<str>, (f64, Instant)>) -> Result<Place, HistoryError> {
        // Changes made during this reading are read again.
        let (cursor, now) = (self.store.newest_change()?, Instant::now());
        let looked = self.store.look(cursor)?;
        self.board.clock.set(looked.time);
        let known = self.board.known();
        let (mut open, mut later) = (Vec::new(), Vec::new());
        for (run, heard) in self.store.heard(KEPT)? {
            match heard {
                _ if self.board.knows(&run) => {}
                Heard::Open => open.push(run),
                Heard::Lately => {
                    self.board.put_aside(&run);
                    later.push(run);
                }
                Heard::LongAgo => self.board.put_aside(&run),
            }
        }
        for runs in open.chunks(PAGE) {
            let runs: Vec<&str> = runs.iter().map(String::as_str).collect();
            for (stored, splits) in self.store.listed_of(&runs)? {
                self.restore(&stored, &splits)?;
            }
        }
        let reach = Reach::of_all(looked, now);
        let mut place = Place { cursor, reach, later, swept: Instant::now(), ending };
        for run in known {
            self.catch_up(&run, &mut place)?;
        }
        Ok(place)
    }

    /// Passes on what has changed of a run that is known.
    fn catch_up(&self, run: &Arc<str>, place: &mut Place) -> Result<(), HistoryError> {
        let (stored, splits) = match self.store.listed(run) {
            Ok(listed) => listed,
            Err(HistoryError::Unknown { .. }) => {
                place.ending.remove(run);
                self.forget(run);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        // One that was known to have finished has no alerts to begin again.
        if stored.finished.is_none() || self.board.open().contains(run) {
            self.note_change(&stored, place)?;
        }
        let mut points = self.newest(run, &splits)?;
        points.sort_by(|(a, _), (b, _)| a.time.total_cmp(&b.time));
        for (point, attempt) in points {
            self.take(point, attempt);
        }
        Ok(())
    }

    /// Follows until `stop` is cancelled.
    pub async fn run(self, mut place: Place, stop: CancellationToken) {
        loop {
            // Runs that nobody sends to are read in between, so that no other waits for thousands of them.
            let pause = if place.later.is_empty() { LOOK } else { Duration::from_millis(1) };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.look.notified() => {}
                () = stop.cancelled() => return,
            }
            let (follower, now) = (self.clone(), Instant::now());
            let away = now.duration_since(place.reach.read) > AWAY;
            let mut from = place.clone();
            let look = move || {
                if away {
                    return follower.begin_with(std::mem::take(&mut from.ending));
                }
                let looked = follower.store.look(from.cursor)?;
                follower.board.clock.set(looked.time);
                if looked.is_restored {
                    tracing::warn!(
                        "the database was restored, or another has taken its place: reading everything again"
                    );
                    follower.board.known().iter().for_each(|run| follower.forget(run));
                    return follower.begin();
                }
                follower.follow(&mut from)?;
                from.reach.look(looked, now);
                for _ in 0..AT_ONCE {
                    let Some(run) = from.later.pop() else { break };
                    follower.read_later(&run)?;
                }
                Ok(from)
            };
            // Fails only if it panics, and then the next look tries again.
            let Ok(followed) = tokio::task::spawn_blocking(look).await else { continue };
            match followed {
                Ok(to) => place = to,
                Err(error) => {
                    self.own.history_errors.inc();
                    tracing::warn!(%error, "the changes of the database could not be read");
                    tokio::time::sleep(LOOK).await;
                }
            }
            self.own.staleness.set(self.board.staleness());
            self.advice.look(self.board.clock.now());
        }
    }

    /// Passes on what has changed after a place, which moves on. Blocks.
    fn follow(&self, place: &mut Place) -> Result<(), HistoryError> {
        loop {
            let (changes, next) = self.store.changes_after(place.cursor, CHANGES)?;
            // Several changes of a run in a row are one.
            let mut said = BTreeSet::new();
            for change in &changes {
                let pass = change.split.as_deref().zip(change.step);
                match (change.kind, pass) {
                    (Changed::Declared | Changed::Finished | Changed::Remarked, _) => {
                        if said.insert(change.run.as_str()) {
                            self.run_changed(&change.run, place)?;
                        }
                    }
                    (Changed::Removed, _) => {
                        place.ending.remove(&*change.run);
                        self.forget(&change.run);
                        said.clear();
                    }
                    (Changed::Point, Some((split, step))) => {
                        self.point_changed(&change.run, split, step, place)?;
                        said.clear();
                    }
                    (Changed::Point, None) | (Changed::Unscored, _) => {}
                }
            }
            self.metrics.changes_followed.inc_by(changes.len() as u64);
            let all = changes.len() < CHANGES;
            place.cursor = next;
            if all {
                break;
            }
        }
        place.ending.retain(|run, (finished, heard)| {
            let quiet = heard.elapsed() > QUIET;
            if quiet {
                self.end(run, *finished);
            }
            !quiet
        });
        for run in self.board.finished_before(self.board.clock.now() - KEPT.as_secs_f64()) {
            self.board.put_aside(&run);
            self.advice.forget(&run, self.board.clock.now());
        }
        if place.swept.elapsed() >= SWEEP {
            place.swept = Instant::now();
            let open = self.board.open();
            let open: Vec<&str> = open.iter().map(|run| &**run).collect();
            for run in self.store.silent(&open, KEPT)? {
                self.forget(&run);
                self.board.put_aside(&run);
            }
        }
        Ok(())
    }

    /// Returns whether the run was not read before, and now is with all its evaluations.
    fn run_changed(&self, name: &str, place: &mut Place) -> Result<bool, HistoryError> {
        let (stored, splits) = match self.store.listed(name) {
            Ok(listed) => listed,
            // Removed since.
            Err(HistoryError::Unknown { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let since = self.board.clock.now() - KEPT.as_secs_f64();
        let is_shown = stored.finished.is_none_or(|finished| finished >= since);
        let is_read = is_shown && self.board.is_aside(name);
        if is_read {
            self.restore(&stored, &splits)?;
        }
        // One that has finished was noted as it was restored, and its alerts are over.
        if is_read && stored.finished.is_some() {
            self.events.send(Event::Run(name.into()));
        } else {
            self.note_change(&stored, place)?;
        }
        Ok(is_read)
    }

    /// Passes on that a run was declared, has finished, or is called otherwise.
    fn note_change(&self, stored: &StoredRun, place: &mut Place) -> Result<(), HistoryError> {
        let run = self.note(stored)?;
        match stored.finished {
            Some(finished) => {
                place.ending.entry(Arc::clone(&run)).or_insert_with(|| (finished, Instant::now()));
            }
            None => {
                place.ending.remove(&run);
            }
        }
        self.events.send(Event::Run(run));
        Ok(())
    }

    /// Tells the board and the rules of a run.
    fn note(&self, stored: &StoredRun) -> Result<Arc<str>, HistoryError> {
        let judged = Judged::of(&stored.run, baseline_of(&*self.store, &stored.run)?);
        let run: Arc<str> = stored.run.name.as_str().into();
        let concepts: Arc<[String]> = stored.run.concepts.iter().map(|concept| concept.name.clone()).collect();
        self.board.set(&run, Arc::clone(&concepts), stored.finished);
        // Also for a run that has finished: its evaluations may come after.
        self.advice.start(&run, judged, stored.started);
        Ok(run)
    }

    fn point_changed(&self, run: &str, split: &str, step: u64, place: &mut Place) -> Result<(), HistoryError> {
        let is_read = !self.board.knows(run) && self.run_changed(run, place)?;
        if let Some((_, heard)) = place.ending.get_mut(run) {
            *heard = Instant::now();
        }
        // A point that was removed since yields nothing, and one that was replaced the newer.
        let Some((point, attempt)) = self.point(run, split, step)? else { return Ok(()) };
        match is_read {
            // Judged with those before it.
            true => self.tell(point),
            false => self.take(point, attempt),
        }
        Ok(())
    }

    /// Judges a point, unless it is known.
    fn take(&self, point: Point, attempt: Option<Attempt>) {
        match self.board.take(&point, attempt) {
            News::None => return,
            News::Evaluation => self.advice.observe(&point),
            News::Late(late) => {
                self.advice.observe_late(&point, &late.iter().map(String::as_str).collect::<Vec<_>>());
            }
        }
        self.tell(point);
    }

    fn tell(&self, point: Point) {
        if self.events.are_watched() {
            self.events.send(Event::Point(Arc::new(point)));
        }
    }

    /// A point without matrices.
    fn point(&self, run: &str, split: &str, step: u64) -> Result<Option<(Point, Option<Attempt>)>, HistoryError> {
        let found = match self.store.whole_points(run, split, step, 1, false) {
            Err(HistoryError::Unknown { .. }) => return Ok(None),
            found => found?,
        };
        let whole = found.0.into_iter().next().filter(|whole| whole.point.step == step);
        Ok(whole.map(|whole| (whole.point, whole.attempt)))
    }

    /// Reads a run that nobody sends to, unless it was read, or is gone.
    fn read_later(&self, run: &str) -> Result<(), HistoryError> {
        if !self.board.is_aside(run) {
            return Ok(());
        }
        match self.store.listed(run) {
            Ok((stored, splits)) => self.restore(&stored, &splits),
            Err(HistoryError::Unknown { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn restore(&self, stored: &StoredRun, splits: &[StoredSplit]) -> Result<(), HistoryError> {
        let name = stored.run.name.as_str();
        // Read first, so that nothing is noted of a run that cannot be read.
        let newest = self.newest(name, splits)?;
        let run = self.note(&StoredRun { finished: None, ..stored.clone() })?;
        let mut points = Vec::new();
        for (point, attempt) in newest {
            self.board.take(&point, attempt);
            points.push(point);
        }
        points.retain(|point| self.board.admits(point));
        points.sort_by(|a, b| a.time.total_cmp(&b.time));
        self.advice.restore(&run, &points);
        if let Some(finished) = stored.finished {
            self.note(stored)?;
            self.end(&run, finished);
        }
        self.board.was_read(name);
        Ok(())
    }

    /// The newest points of each split of a run, as many as the rules need, in the order of their steps.
    fn newest(&self, run: &str, splits: &[StoredSplit]) -> Result<Vec<(Point, Option<Attempt>)>, HistoryError> {
        let judged = self.advice.judged_splits();
        let mut points = Vec::new();
        for split in splits.iter().map(|split| split.split.as_str()) {
            // The rules need what led to now, the board the newest alone.
            let most = if judged.iter().any(|one| one == split) { RESTORED } else { 1 };
            let Some(first) = self.store.newest_steps(run, split, most)?.first().copied() else { continue };
            let mut next = Some(first);
            while let Some(step) = next {
                let (found, further) = self.store.whole_points(run, split, step, RESTORED, false)?;
                points.extend(found.into_iter().map(|whole| (whole.point, whole.attempt)));
                next = further;
            }
        }
        Ok(points)
    }

    /// Ends the alerts of a run. The alerts that it has fired are kept, but the state of each rule only while the run
    /// is open: lists of thousands of runs would hold little else.
    fn end(&self, run: &Arc<str>, finished: f64) {
        self.advice.finish(run, finished);
        self.advice.forget(run, finished);
    }

    fn forget(&self, run: &str) {
        self.board.forget(run);
        self.advice.forget(run, self.board.clock.now());
        self.events.send(Event::Run(run.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks every ten minutes: the oldest transaction and the next one then. How far back is what was read?
    #[test]
    fn how_far_a_follower_has_read_is_known_however_transactions_overlap() {
        let looked = |oldest, next| Looked { is_restored: false, time: 0.0, oldest, next };
        let start = Instant::now();
        let minutes = |minutes: u64| start + Duration::from_secs(60 * minutes);
        let behind = |looks: &[(i64, i64)]| -> Vec<u64> {
            let mut reach = Reach::of_all(looked(10, 10), start);
            let look = |((oldest, next), at): (&(i64, i64), u64)| {
                reach.look(looked(*oldest, *next), minutes(at));
                minutes(at).duration_since(reach.read).as_secs() / 60
            };
            looks.iter().zip((1..).map(|step| 10 * step)).map(look).collect()
        };
        // Nothing is at work, whether or not anything changes.
        assert_eq!(behind(&[(10, 10), (10, 10), (30, 30), (40, 40)]), [10, 10, 10, 10]);
        // One transaction is at work all the time, others come and go; then it ends.
        let held = behind(&[(10, 20), (10, 40), (10, 70), (10, 90), (95, 95), (95, 95)]);
        assert_eq!(held, [10, 20, 30, 40, 40, 10]);
        // Long ones overlap, so that another is the oldest all the time.
        let overlap = behind(&[(10, 20), (10, 30), (10, 40), (20, 50), (30, 60), (40, 70), (50, 80)]);
        assert_eq!(overlap, [10, 20, 30, 30, 40, 50, 30]);
    }
}
