//! The runs of this process, and the life of each.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::run::{Run, SplitKey};
use crate::sample::{Attempt, Counts, Declaration, Evaluation, Members, Now, Split, WindowKind, client_hash};

use crate::server::board::Beginning;
use crate::server::clock::{Clock, lock};
use crate::server::live::{RunStatus, SplitStatus};
use crate::server::metrics::Metrics;
use crate::server::refusal::Refusal;

use super::sampling::{SamplingOptions, window_name};

/// Maximum number of runs in this process, and of splits in a run. Clients choose the names, so their number is bounded.
const MAX_RUNS: usize = 1000;
pub(super) const MAX_SPLITS: usize = 16;

/// Receives what the intake has frozen.
pub trait Outlet: Send + Sync {
    /// An attempt begins in a split, or returns to a step earlier than any before.
    fn begin(&self, key: &SplitKey, beginning: Beginning);

    /// A sample is ready to be scored.
    fn offer(&self, evaluation: Evaluation);

    /// A pass was closed without rows, so it will have no point.
    fn pass_over(&self, evaluation: &Evaluation);

    /// Expected time until the waiting evaluation of a split is scored; zero if none waits.
    fn wait(&self, key: &SplitKey) -> Duration;
}

/// All runs of this process.
pub struct Runs {
    pub(super) options: SamplingOptions,
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
    pub(super) outlet: Arc<dyn Outlet>,
    pub(super) runs: Mutex<HashMap<String, Arc<Running>>>,
    pub(super) memory: AtomicUsize,
}

/// One run.
pub struct Running {
    pub run: Arc<Run>,
    pub name: Arc<str>,
    /// k names.
    pub concepts: Arc<[String]>,
    pub(super) state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    pub finished: Option<Instant>,
    pub members: Members,
    pub splits: BTreeMap<String, Intake>,
}

/// The sampler of a split and its counts.
pub(super) struct Intake {
    pub key: SplitKey,
    /// `None` once the run has finished.
    pub sampler: Option<Split>,
    pub window: WindowKind,
    pub counts: Counts,
    /// Rows of batches that were refused before they reached the sampler.
    pub refused: u64,
    pub bytes: usize,
    /// When the last batch or end of pass arrived, as time since the process started.
    pub heard: Duration,
}

/// The attempt that a client belongs to, as resolved by the history.
#[derive(Clone, Copy, Debug)]
pub struct Joining<'a> {
    /// Unique for each process.
    pub client: &'a str,
    /// `None` for an unnamed launch.
    pub attempt: Option<Attempt>,
    /// The attempt continues the evaluations in the history.
    pub continues: bool,
}

/// The effect of a rank's call to finish its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// Other ranks or another launch are still running.
    NotYet,
    /// The run has finished.
    Run,
}

impl Runs {
    pub fn new(options: SamplingOptions, clock: Clock, metrics: Metrics, outlet: Arc<dyn Outlet>) -> Self {
        Self { options, clock, metrics, outlet, runs: Mutex::default(), memory: AtomicUsize::new(0) }
    }

    pub fn options(&self) -> &SamplingOptions {
        &self.options
    }

    pub(super) fn now(&self) -> Now {
        self.clock.now()
    }

    /// Starts, joins or resumes a run whose declaration the history has accepted. Returns the run, and whether this begins
    /// a newer attempt than any that this process knows.
    pub fn start(&self, run: Run, joining: Joining<'_>) -> Result<(Arc<Running>, bool), Refusal> {
        let (world_size, now) = (run.world_size, self.now());
        let mut runs = lock(&self.runs);
        let running = match runs.get(&run.name).filter(|running| running.run.is_continued_by(&run)) {
            Some(running) => Arc::clone(running),
            None => {
                if runs.len() >= MAX_RUNS {
                    return Err(Refusal::OverBudget { what: "the number of runs", limit: MAX_RUNS });
                }
                let running = Arc::new(Running {
                    name: run.name.as_str().into(),
                    concepts: run.concepts.iter().map(|concept| concept.name.clone()).collect(),
                    run: Arc::new(run),
                    state: Mutex::default(),
                });
                if let Some(replaced) = runs.insert(running.run.name.clone(), Arc::clone(&running)) {
                    self.give_back(&replaced);
                }
                running
            }
        };
        drop(runs);
        let mut state = lock(&running.state);
        state.finished = None;
        let Joining { client, attempt, continues } = joining;
        let declaration = Declaration { client: client_hash(client), attempt, world_size, continues };
        let newer = state.members.declare(declaration, now.elapsed);
        drop(state);
        Ok((running, newer))
    }

    pub fn find(&self, name: &str) -> Result<Arc<Running>, Refusal> {
        let runs = lock(&self.runs);
        runs.get(name).cloned().ok_or_else(|| Refusal::unknown("run", name))
    }

    /// The attempt of a client, or the newest attempt of the run if `client` is empty.
    pub fn attempt(&self, running: &Running, client: &str) -> Attempt {
        lock(&running.state).members.attempt_of(Some(client).filter(|name| !name.is_empty()).map(client_hash))
    }

    /// Notes that a rank has finished. When the last rank of an attempt has, its open samples are closed, scored and
    /// freed. The run continues if another launch is still sending to a split of its own.
    pub fn finish(&self, name: &str, client: &str, rank: u32) -> Result<Finished, Refusal> {
        let running = self.find(name)?;
        let now = self.now();
        let mut state = lock(&running.state);
        let client = Some(client).filter(|client| !client.is_empty()).map(client_hash);
        let Some(attempt) = state.members.finish(client, rank, running.run.world_size)? else {
            return Ok(Finished::NotYet);
        };
        let declared = state.members.declared(attempt);
        let mut all = true;
        for intake in state.splits.values_mut() {
            let of = intake.sampler.as_ref().and_then(Split::attempt);
            if of.is_some_and(|of| of.launch != attempt.launch && intake.heard > declared) {
                all = false;
            } else {
                self.close(intake, now);
            }
        }
        if !all {
            return Ok(Finished::NotYet);
        }
        state.finished = Some(Instant::now());
        state.members.end();
        Ok(Finished::Run)
    }

    /// Submits what a split still holds for scoring, and drops its sampler.
    fn close(&self, intake: &mut Intake, now: Now) {
        let Some(mut sampler) = intake.sampler.take() else { return };
        let closed = sampler.close_all(now);
        if let Some(last) = sampler.snapshot(now) {
            // No more rows will arrive, so the last sample of a run is final.
            self.outlet.offer(Evaluation { provisional: false, ..last });
        }
        intake.counts = sampler.counts();
        self.closed(intake, closed);
    }

    /// Closes passes whose deadline has been reached, and forgets runs that finished more than `linger` ago. Returns the
    /// names of the forgotten runs.
    pub fn close_overdue(&self) -> Vec<String> {
        let now = self.now();
        for running in self.all() {
            let mut state = lock(&running.state);
            for intake in state.splits.values_mut() {
                let closed = intake.sampler.as_mut().map(|sampler| sampler.close_overdue(now)).unwrap_or_default();
                self.closed(intake, closed);
            }
        }
        let linger = self.options.linger;
        let expired = |running: &Running| lock(&running.state).finished.is_some_and(|at| at.elapsed() > linger);
        let mut forgotten = Vec::new();
        lock(&self.runs).retain(|name, running| {
            let keep = !expired(running);
            if !keep {
                forgotten.push(name.clone());
            }
            keep
        });
        forgotten
    }

    /// All rolling samples: split, rows changed since the last snapshot, and rows held.
    pub fn rolling(&self) -> Vec<(SplitKey, usize, usize)> {
        let mut rolling = Vec::new();
        for running in self.all() {
            for intake in lock(&running.state).splits.values() {
                let sampler = intake.sampler.as_ref().filter(|_| intake.window != WindowKind::Pass);
                if let Some((changed, rows)) = sampler.map(Split::rolling_rows) {
                    rolling.push((intake.key.clone(), changed, rows));
                }
            }
        }
        rolling
    }

    /// A snapshot of a rolling sample; `None` if the split has none.
    pub fn snapshot(&self, key: &SplitKey) -> Option<Evaluation> {
        let running = self.find(&key.run).ok()?;
        let mut state = lock(&running.state);
        state.splits.get_mut(&*key.split)?.sampler.as_mut()?.snapshot(self.now())
    }

    /// Bytes held by all samples.
    pub fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    pub fn statuses(&self) -> Vec<RunStatus> {
        let split = |intake: &Intake| {
            let counts = intake.sampler.as_ref().map_or(intake.counts, Split::counts);
            SplitStatus {
                split: intake.key.split.to_string(),
                window: window_name(intake.window),
                rows_received: counts.received,
                rows_duplicate: counts.duplicate,
                rows_dropped: counts.dropped + counts.late + counts.refused + counts.discarded + intake.refused,
            }
        };
        let status = |running: Arc<Running>| RunStatus {
            name: running.run.name.clone(),
            splits: lock(&running.state).splits.values().map(split).collect(),
        };
        self.all().into_iter().map(status).collect()
    }

    fn all(&self) -> Vec<Arc<Running>> {
        lock(&self.runs).values().cloned().collect()
    }

    /// Frees the samples of a run that was replaced by another declaration.
    fn give_back(&self, replaced: &Running) {
        for intake in lock(&replaced.state).splits.values_mut() {
            intake.sampler = None;
            self.memory.fetch_sub(std::mem::take(&mut intake.bytes), Ordering::Relaxed);
        }
        self.metrics.sample_memory.set(self.memory() as i64);
    }
}

impl Intake {
    pub fn sampler(&mut self) -> Result<&mut Split, Refusal> {
        self.sampler.as_mut().ok_or_else(|| Refusal::Finished(self.key.run.to_string()))
    }
}
