//! Plans what to score next. Planning is pure: the caller passes the time and receives the next job.
//!
//! - A closed pass waits in the [line](Closed) of its (run, split), oldest first. Where live passes come faster than they
//!   are scored, a later one replaces the newest that waits, so no line builds up; replaced passes are counted.
//! - A rolling split is due every `interval` if enough of its rows changed. Missed ticks are counted and not repeated.
//! - A job starts only after the share has paid for the CPU time of earlier jobs ([`Budget`]), or for its own while it
//!   waited: nobody waits until a long job of another run is paid for. The share shrinks while other work keeps every core
//!   busy.
//! - One job is in flight at a time, except that it gives way to one that is expected to take a quarter of its time at most
//!   ([`Schedule::start_shorter`]).
//! - Cheap, fast and slow scores each have a schedule and a part of the share ([`Budget::parts`]), so no score waits for
//!   one of a higher cost.
//! - A tick may take the CPU time that the share provides in one interval ([`Schedule::allowance`]). If that does not
//!   suffice for every pair of concepts, [`refresh`](leakage::pair_cache::refresh) orders the pairs.
//! - The run goes first whose wait is longest for what its job is expected to take: short jobs go before long ones, and a
//!   long one grows older. The wait restarts with each job of the run, so between two jobs of a run that waits, every other
//!   run whose jobs are not shorter starts at most one. What a job is expected to take follows from its shape and the last
//!   job of its split.

mod account;
mod line;
mod order;
#[cfg(test)]
mod tests;

pub use account::Budget;
pub use leakage::run::SplitKey;
pub use line::{Closed, Room, Skipped, Why};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use account::Account;
use line::Line;

/// Timing of rolling splits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ticks {
    /// Minimum time between the starts of two jobs of a split.
    pub interval: Duration,
    /// Fraction of the rows held that must have changed, in [0, 1]; at least one row in any case.
    pub least_changed: f64,
}

impl Default for Ticks {
    fn default() -> Self {
        Self { interval: Duration::from_secs(15), least_changed: 0.1 }
    }
}

/// The work of a job. `P` is the caller's closed pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job<P> {
    /// Score this pass.
    Pass(SplitKey, P),
    /// Take a snapshot of the split's rolling sample and score it.
    Tick(SplitKey),
}

impl<P> Job<P> {
    pub fn key(&self) -> &SplitKey {
        match self {
            Self::Pass(key, _) | Self::Tick(key) => key,
        }
    }
}

/// Work that was skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    pub passes: u64,
    /// Intervals that passed while a rolling split was due.
    pub ticks: u64,
}

/// How much shorter a job must be for the one in flight to give way to it, and how many jobs may have given way.
const GIVE_WAY: u32 = 4;
const DEEPEST: usize = 3;

/// CPU time of a job that does not rest on its way.
const BRIEF: Duration = Duration::from_millis(100);

/// The plan of one worker.
#[derive(Clone, Debug)]
pub struct Schedule<P> {
    ticks: Ticks,
    account: Account,
    /// A job that gave way stands before the one it gave way to.
    in_flight: Vec<InFlight>,
    room: Room,
    lines: BTreeMap<SplitKey, Line<P>>,
    rolling: BTreeMap<SplitKey, Rolling>,
    /// When each run's last job started.
    started: BTreeMap<Arc<str>, Duration>,
    replaced: Replaced,
    /// CPU time billed since the job in flight last rested.
    billed: Duration,
    /// CPU time of the last job for each second expected of it, for splits that had none.
    scale: f64,
    /// Only passes are scored, without regard to the CPU share.
    hurry: bool,
}

/// A job that was started and has not finished.
#[derive(Clone, Debug)]
struct InFlight {
    key: SplitKey,
    started: Duration,
    /// CPU time expected from its shape, and with what was measured; zero where unknown.
    expected: Duration,
    cost: Duration,
    /// CPU time charged so far.
    charged: Duration,
    bytes: usize,
    pass: bool,
}

#[derive(Clone, Copy, Debug)]
struct Rolling {
    /// One interval after the last job, or after the split first appeared.
    next_tick: Duration,
    /// Since when enough rows have changed; `None` while too few have.
    enough_since: Option<Duration>,
    /// CPU time of the last tick; zero before the first.
    cost: Duration,
}

impl Rolling {
    fn due(&self) -> Option<Duration> {
        self.enough_since.map(|since| since.max(self.next_tick))
    }
}

impl<P> Schedule<P> {
    /// Panics when [`Budget::check`] finds a fault: the budget is checked with the configuration.
    pub fn new(ticks: Ticks, budget: Budget, room: Room, now: Duration) -> Self {
        if let Err(fault) = budget.check() {
            panic!("{fault}");
        }
        Self {
            ticks,
            account: Account::new(budget, now),
            in_flight: Vec::new(),
            room,
            lines: BTreeMap::new(),
            rolling: BTreeMap::new(),
            started: BTreeMap::new(),
            replaced: Replaced::default(),
            billed: Duration::ZERO,
            scale: 1.0,
            hurry: false,
        }
    }

    /// Adds a closed pass. Returns the pass that is skipped, if any, which is counted.
    pub fn pass_closed(&mut self, key: SplitKey, closed: Closed<P>, now: Duration) -> Option<Skipped<P>> {
        let others = self.lines.iter().filter(|(other, _)| **other != key).map(|(_, line)| line.bytes()).sum();
        let in_flight = self.running(&key, now);
        let skipped = self.lines.entry(key).or_default().push(closed, &self.room, others, in_flight, now);
        self.replaced.passes += u64::from(skipped.is_some());
        skipped
    }

    /// How long a job in flight has taken, if it is a pass of this split.
    fn running(&self, key: &SplitKey, now: Duration) -> Duration {
        let own = self.in_flight.iter().find(|job| job.pass && job.key == *key);
        own.map_or(Duration::ZERO, |job| now.saturating_sub(job.started))
    }

    /// Reports that a rolling split holds `rows` rows, of which `changed` have changed since its last snapshot.
    pub fn rows_changed(&mut self, key: &SplitKey, changed: usize, rows: usize, now: Duration) {
        let first =
            || Rolling { next_tick: now.saturating_add(self.ticks.interval), enough_since: None, cost: Duration::ZERO };
        let rolling = match self.rolling.get_mut(key) {
            Some(rolling) => rolling,
            None => self.rolling.entry(key.clone()).or_insert_with(first),
        };
        let enough = changed > 0 && changed as f64 >= self.ticks.least_changed * rows as f64;
        rolling.enough_since = if enough { rolling.enough_since.or(Some(now)) } else { None };
    }

    /// Number of rolling splits that have been reported.
    pub fn rolling(&self) -> usize {
        self.rolling.len()
    }

    /// Forgets the other rolling splits: their runs have finished or were removed.
    pub fn keep_rolling(&mut self, is_rolling: impl Fn(&SplitKey) -> bool) {
        self.rolling.retain(|key, _| is_rolling(key));
    }

    /// The job to start now, if one is due, no other is in flight and the CPU account has no debt. It is in flight
    /// until [`finished`](Self::finished).
    pub fn start(&mut self, now: Duration) -> Option<Job<P>> {
        if !self.in_flight.is_empty() {
            return None;
        }
        let key = self.next(now, |_| true)?;
        Some(self.begin(key, now))
    }

    /// A job that the one in flight gives way to: of another split, due, and expected to take a quarter of its time at most.
    /// It is in flight until [`finished`](Self::finished), and then the other one again.
    pub fn start_shorter(&mut self, now: Duration) -> Option<Job<P>> {
        let outer = self.in_flight.last().filter(|_| self.in_flight.len() <= DEEPEST)?;
        let most = outer.cost.max(outer.charged) / GIVE_WAY;
        let key = self.next(now, |waiting| {
            !waiting.cost.is_zero() && waiting.cost <= most && self.in_flight.iter().all(|job| job.key != *waiting.key)
        })?;
        Some(self.begin(key, now))
    }

    fn begin(&mut self, key: SplitKey, now: Duration) -> Job<P> {
        self.started.insert(key.run.clone(), now);
        let cost = self.cost(&key);
        let waiting = self.lines.get_mut(&key).and_then(|line| line.start(now));
        let (pass, bytes) = (waiting.is_some(), waiting.as_ref().map_or(0, |waiting| waiting.bytes));
        let expected = waiting.as_ref().map_or(Duration::ZERO, |waiting| waiting.expected);
        let (key_of_job, charged) = (key.clone(), Duration::ZERO);
        self.in_flight.push(InFlight { key: key_of_job, started: now, expected, cost, charged, bytes, pass });
        if let Some(waiting) = waiting {
            return Job::Pass(key, waiting.pass);
        }
        if let Some(rolling) = self.rolling.get_mut(&key) {
            let late = rolling.due().map_or(Duration::ZERO, |due| now.saturating_sub(due));
            if !self.ticks.interval.is_zero() {
                let missed = late.as_nanos() / self.ticks.interval.as_nanos();
                self.replaced.ticks += u64::try_from(missed).unwrap_or(u64::MAX);
            }
            *rolling = Rolling { next_tick: now.saturating_add(self.ticks.interval), enough_since: None, ..*rolling };
        }
        Job::Tick(key)
    }

    /// Ends the job that was started last, whatever its outcome. `cpu` is the CPU time of all its threads beyond what was
    /// [charged](Self::charge).
    pub fn finished(&mut self, cpu: Duration, now: Duration) {
        self.account.charge(cpu, now);
        let Some(job) = self.in_flight.pop() else { return };
        let took = job.charged + cpu;
        if !job.pass {
            self.rolling.get_mut(&job.key).into_iter().for_each(|rolling| rolling.cost = took);
            return;
        }
        let Some(line) = self.lines.get_mut(&job.key) else { return };
        line.ended(job.started, now, seconds(took.as_secs_f64() / self.account.share()));
        if !job.expected.is_zero() && !took.is_zero() {
            // Within bounds, so that one odd measurement does not put a split last for ever.
            self.scale = took.div_duration_f64(job.expected).clamp(0.01, 100.0);
            line.measured(self.scale);
        }
    }

    /// Charges CPU time of another schedule's job, used by `now`, that this one's share pays for. The job in flight rests
    /// for [what was billed](Self::take_billed), too.
    pub fn bill(&mut self, cpu: Duration, now: Duration) {
        self.account.charge(cpu, now);
        if !self.in_flight.is_empty() {
            self.billed += cpu;
        }
    }

    /// CPU time billed since the last call.
    pub fn take_billed(&mut self) -> Duration {
        std::mem::take(&mut self.billed)
    }

    /// Charges `cpu` of CPU time, used by `now`, to the job in flight; [`finished`](Self::finished) does not count it
    /// again.
    pub fn charge(&mut self, cpu: Duration, now: Duration) {
        if let Some(in_flight) = self.in_flight.last_mut() {
            in_flight.charged += cpu;
        }
        self.account.charge(cpu, now);
    }

    /// Whether the job in flight is known to take so little CPU time that it need not rest.
    pub fn is_brief(&self) -> bool {
        self.in_flight.last().is_some_and(|job| !job.cost.is_zero() && job.cost.max(job.charged) <= BRIEF)
    }

    /// CPU time charged to the job in flight; zero without one.
    pub fn spent(&self) -> Duration {
        self.in_flight.last().map_or(Duration::ZERO, |in_flight| in_flight.charged)
    }

    /// CPU-seconds that a tick starting `now` may take: those that the current share provides in one interval, divided
    /// by the number of rolling splits that tick. Infinite without an interval.
    pub fn allowance(&self, now: Duration) -> f64 {
        let interval = self.ticks.interval;
        if interval.is_zero() {
            return f64::INFINITY;
        }
        // A split ticks if it waits for a job or its last one, an interval before `next_tick`, is at most two intervals
        // old.
        let lives =
            |rolling: &&Rolling| rolling.enough_since.is_some() || rolling.next_tick.saturating_add(interval) >= now;
        let splits = self.rolling.values().filter(lives).count().max(1);
        self.account.share() * interval.as_secs_f64() / splits as f64
    }

    /// Cores that the job in flight may use on average: the idle ones, or the busy share if there are none. On an idle
    /// machine this may exceed the share; the next job then starts later.
    pub fn pace(&self) -> f64 {
        if self.hurry { f64::INFINITY } else { self.account.pace() }
    }

    /// From now on only waiting passes are scored, without rests: no more will come.
    pub fn hurry(&mut self) {
        self.hurry = true;
        self.rolling.clear();
    }

    /// The earliest time at which the next job may start.
    fn free_at(&self) -> Duration {
        if self.hurry { Duration::ZERO } else { self.account.free_at() }
    }

    /// When [`start`](Self::start) will return a job if nothing changes; `None` while nothing waits or a job is in
    /// flight. May be in the past.
    pub fn next_start(&self) -> Option<Duration> {
        if !self.in_flight.is_empty() {
            return None;
        }
        let payable = self.payable();
        self.waits().map(|waiting| waiting.due.max(payable(&waiting))).min()
    }

    /// Sets the number of idle cores from `now` on, which scoring may use.
    pub fn spare(&mut self, cores: f64, now: Duration) {
        self.account.spare(cores, now);
    }

    /// How long the client should hold back live passes of a split: about the time until the next is scored, where live
    /// passes outrun scoring and one waits already; else zero.
    pub fn wait(&self, key: &SplitKey, now: Duration) -> Duration {
        let outrun = |line: &&Line<P>| line.has_live() && line.is_outrun(self.running(key, now));
        if self.lines.get(key).filter(outrun).is_none() {
            return Duration::ZERO;
        }
        // The job in flight is expected to run for as long as it has run so far.
        let in_flight = self.in_flight.first().map_or(Duration::ZERO, |job| now.saturating_sub(job.started));
        self.free_at().saturating_sub(now).max(in_flight)
    }

    /// Bytes of the passes that wait or are being scored.
    pub fn bytes(&self) -> usize {
        self.lines.values().map(Line::bytes).sum::<usize>() + self.in_flight.iter().map(|job| job.bytes).sum::<usize>()
    }

    /// Number of passes that wait, of all splits.
    pub fn passes(&self) -> usize {
        self.lines.values().map(Line::len).sum()
    }

    /// Removes all passes that have not started, oldest first in each split.
    pub fn take_all(&mut self) -> Vec<P> {
        self.lines.values_mut().flat_map(Line::take_all).collect()
    }

    /// How long the oldest waiting job has been due.
    pub fn lag(&self, now: Duration) -> Duration {
        self.due_times().map(|(_, due)| now.saturating_sub(due)).max().unwrap_or_default()
    }

    pub fn replaced(&self) -> Replaced {
        self.replaced
    }

    /// Forgets the other runs. Returns their passes that had not started.
    pub fn keep_runs(&mut self, is_kept: impl Fn(&str) -> bool) -> Vec<P> {
        let mut left = Vec::new();
        self.rolling.retain(|key, _| is_kept(&key.run));
        self.started.retain(|run, _| is_kept(run));
        self.lines.retain(|key, line| {
            let is_kept = is_kept(&key.run);
            if !is_kept {
                left.extend(line.take_all());
            }
            is_kept
        });
        left
    }

    /// Every split with work, and the time at which it was or will be due.
    fn due_times(&self) -> impl Iterator<Item = (&SplitKey, Duration)> {
        let passes = self.lines.iter().filter_map(|(key, line)| Some((key, line.oldest()?)));
        passes.chain(self.rolling.iter().filter_map(|(key, rolling)| Some((key, rolling.due()?))))
    }
}

/// The nearest duration; the longest for what is none.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
