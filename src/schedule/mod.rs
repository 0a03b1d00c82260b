//! Plans what to score next. Planning is pure: the caller passes the time and receives the next job.
//!
//! - A closed pass waits in the slot of its (run, split). A later pass replaces one that has not started, so no queue
//!   builds up when scoring is slow; replaced passes are counted.
//! - A rolling split is due every `interval` if enough of its rows changed. Missed ticks are counted and not repeated.
//! - One job is in flight at a time, and it starts only after the share has paid for the CPU time of earlier jobs
//!   ([`Budget`]). The share shrinks while other work keeps every core busy.
//! - Fast and slow scores each have a schedule and a part of the share ([`Budget::parts`]), so no fast score waits for
//!   a slow one.
//! - A tick may take the CPU time that the share provides in one interval ([`Schedule::allowance`]). If that does not
//!   suffice for every pair of concepts, [`refresh`] orders the pairs.
//! - The run that has waited longest goes first, and its wait restarts with each of its jobs: between two jobs of a
//!   waiting run, every other run starts at most one.

mod account;
pub mod refresh;

pub use crate::run::SplitKey;
pub use account::Budget;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use account::Account;

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

/// Work that newer work replaced before it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    pub passes: u64,
    /// Intervals that passed while a rolling split was due.
    pub ticks: u64,
}

/// The plan of one worker.
#[derive(Clone, Debug)]
pub struct Schedule<P> {
    ticks: Ticks,
    account: Account,
    in_flight: Option<InFlight>,
    passes: BTreeMap<SplitKey, WaitingPass<P>>,
    rolling: BTreeMap<SplitKey, Rolling>,
    /// When each run's last job started.
    started: BTreeMap<Arc<str>, Duration>,
    replaced: Replaced,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    started: Duration,
    /// CPU time charged to it so far.
    charged: Duration,
}

#[derive(Clone, Debug)]
struct WaitingPass<P> {
    pass: P,
    /// When the slot was first filled: a replacement keeps its place in the queue.
    since: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Rolling {
    /// One interval after the last job, or after the split first appeared.
    next_tick: Duration,
    /// Since when enough rows have changed; `None` while too few have.
    enough_since: Option<Duration>,
}

impl Rolling {
    fn due(&self) -> Option<Duration> {
        self.enough_since.map(|since| since.max(self.next_tick))
    }
}

impl<P> Schedule<P> {
    /// Panics when [`Budget::check`] finds a fault: the budget is checked with the configuration.
    pub fn new(ticks: Ticks, budget: Budget, now: Duration) -> Self {
        if let Err(fault) = budget.check() {
            panic!("{fault}");
        }
        Self {
            ticks,
            account: Account::new(budget, now),
            in_flight: None,
            passes: BTreeMap::new(),
            rolling: BTreeMap::new(),
            started: BTreeMap::new(),
            replaced: Replaced::default(),
        }
    }

    /// Adds a closed pass. Returns the pass it replaces, which is counted.
    pub fn pass_closed(&mut self, key: SplitKey, pass: P, now: Duration) -> Option<P> {
        let since = self.passes.get(&key).map_or(now, |waiting| waiting.since);
        let before = self.passes.insert(key, WaitingPass { pass, since })?;
        self.replaced.passes += 1;
        Some(before.pass)
    }

    /// Reports that a rolling split holds `rows` rows, of which `changed` have changed since its last snapshot.
    pub fn rows_changed(&mut self, key: &SplitKey, changed: usize, rows: usize, now: Duration) {
        let first = || Rolling { next_tick: now.saturating_add(self.ticks.interval), enough_since: None };
        let rolling = match self.rolling.get_mut(key) {
            Some(rolling) => rolling,
            None => self.rolling.entry(key.clone()).or_insert_with(first),
        };
        let enough = changed > 0 && changed as f64 >= self.ticks.least_changed * rows as f64;
        rolling.enough_since = if enough { rolling.enough_since.or(Some(now)) } else { None };
    }

    /// The job to start now, if one is due, no other is in flight and the CPU account has no debt. It is in flight
    /// until [`finished`](Self::finished).
    pub fn start(&mut self, now: Duration) -> Option<Job<P>> {
        if self.in_flight.is_some() || self.account.free_at() > now {
            return None;
        }
        let key = self.longest_waiting(now)?;
        self.in_flight = Some(InFlight { started: now, charged: Duration::ZERO });
        self.started.insert(key.run.clone(), now);
        if let Some(waiting) = self.passes.remove(&key) {
            return Some(Job::Pass(key, waiting.pass));
        }
        if let Some(rolling) = self.rolling.get_mut(&key) {
            let late = rolling.due().map_or(Duration::ZERO, |due| now.saturating_sub(due));
            if !self.ticks.interval.is_zero() {
                let missed = late.as_nanos() / self.ticks.interval.as_nanos();
                self.replaced.ticks += u64::try_from(missed).unwrap_or(u64::MAX);
            }
            *rolling = Rolling { next_tick: now.saturating_add(self.ticks.interval), enough_since: None };
        }
        Some(Job::Tick(key))
    }

    /// Ends the job in flight, whatever its outcome. `cpu` is the CPU time of all its threads beyond what was
    /// [charged](Self::charge).
    pub fn finished(&mut self, cpu: Duration, now: Duration) {
        self.in_flight = None;
        self.account.charge(cpu, now);
    }

    /// Charges `cpu` of CPU time, used by `now`, to the job in flight; [`finished`](Self::finished) does not count it
    /// again.
    pub fn charge(&mut self, cpu: Duration, now: Duration) {
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.charged += cpu;
        }
        self.account.charge(cpu, now);
    }

    /// CPU time charged to the job in flight; zero without one.
    pub fn spent(&self) -> Duration {
        self.in_flight.map_or(Duration::ZERO, |in_flight| in_flight.charged)
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
        self.account.pace()
    }

    /// When [`start`](Self::start) will return a job if nothing changes; `None` while nothing waits or a job is in
    /// flight. May be in the past.
    pub fn next_start(&self) -> Option<Duration> {
        if self.in_flight.is_some() {
            return None;
        }
        Some(self.due_times().map(|(_, due)| due).min()?.max(self.account.free_at()))
    }

    /// Sets the number of idle cores from `now` on, which scoring may use.
    pub fn spare(&mut self, cores: f64, now: Duration) {
        self.account.spare(cores, now);
    }

    /// Estimated time until the waiting pass of a split starts; zero if none waits.
    pub fn wait(&self, key: &SplitKey, now: Duration) -> Duration {
        if !self.passes.contains_key(key) {
            return Duration::ZERO;
        }
        // The job in flight is expected to run for as long as it has run so far.
        let in_flight = self.in_flight.map_or(Duration::ZERO, |job| now.saturating_sub(job.started));
        self.account.free_at().saturating_sub(now).max(in_flight)
    }

    /// How long the oldest waiting job has been due.
    pub fn lag(&self, now: Duration) -> Duration {
        self.due_times().map(|(_, due)| now.saturating_sub(due)).max().unwrap_or_default()
    }

    /// Number of jobs due at `now` that have not started.
    pub fn waiting(&self, now: Duration) -> usize {
        self.due_times().filter(|(_, due)| *due <= now).count()
    }

    pub fn replaced(&self) -> Replaced {
        self.replaced
    }

    /// Forgets a run. Returns its passes that had not started.
    pub fn remove_run(&mut self, run: &str) -> Vec<P> {
        self.rolling.retain(|key, _| *key.run != *run);
        self.started.remove(run);
        let passes = std::mem::take(&mut self.passes).into_iter();
        let (removed, kept): (BTreeMap<_, _>, _) = passes.partition(|(key, _)| *key.run == *run);
        self.passes = kept;
        removed.into_values().map(|waiting| waiting.pass).collect()
    }

    /// Every split with work, and the time at which it was or will be due.
    fn due_times(&self) -> impl Iterator<Item = (&SplitKey, Duration)> {
        let passes = self.passes.iter().map(|(key, waiting)| (key, waiting.since));
        passes.chain(self.rolling.iter().filter_map(|(key, rolling)| Some((key, rolling.due()?))))
    }

    fn longest_waiting(&self, now: Duration) -> Option<SplitKey> {
        // The oldest due job of each run.
        let mut runs: BTreeMap<&str, (Duration, &SplitKey)> = BTreeMap::new();
        for (key, due) in self.due_times().filter(|(_, due)| *due <= now) {
            let oldest = runs.entry(&key.run).or_insert((due, key));
            *oldest = (*oldest).min((due, key));
        }
        let wait_began = |due: Duration, run: &str| self.started.get(run).map_or(due, |&started| started.max(due));
        let longest = runs.into_iter().min_by_key(|(run, (due, _))| (wait_began(*due, run), *due));
        longest.map(|(_, (_, key))| key.clone())
    }
}
