//! The runs this process receives: their samples, and where their curves stand.

mod intake;
mod sampling;
mod standing;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::fault::{Fault, in_short};
use crate::point::Point;
use crate::run::Run;
use crate::sample::{CommitError, Counts, Sample, Snapshot, Split, WindowKind, client_hash};

use super::metrics::Metrics;
use super::status::Refusal;

pub use sampling::{SamplingOptions, window_name};

/// Runs kept in this process at a time, and splits of a run: names come from outside, so they are capped.
const MAX_RUNS: usize = 1000;
const MAX_SPLITS: usize = 16;

/// A sample to be scored.
pub struct Ready {
    pub running: Arc<Running>,
    pub split: Arc<str>,
    pub step: u64,
    pub epoch: Option<f64>,
    pub sample: Sample,
    pub rows_seen: u64,
    pub provisional: bool,
    pub incomplete: bool,
    /// Seconds since 1970-01-01 UTC.
    pub time: f64,
}

/// Takes samples that are ready, such as the queue of the scorer.
pub trait Scorer: Send + Sync {
    fn offer(&self, ready: Ready);

    /// For how long a sample of the split that waits will not be scored, as far as is known.
    fn wait(&self, running: &Running, split: &str) -> Duration;
}

/// All runs of this process.
pub struct Runs {
    options: SamplingOptions,
    started: Instant,
    metrics: Metrics,
    scorer: Arc<dyn Scorer>,
    runs: Mutex<HashMap<String, Arc<Running>>>,
    memory: AtomicUsize,
}

/// One run.
pub struct Running {
    pub run: Arc<Run>,
    pub name: Arc<str>,
    concepts: Arc<[String]>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    finished: Option<Instant>,
    finished_ranks: BTreeSet<u32>,
    clients: HashSet<u64>,
    splits: BTreeMap<String, SplitState>,
}

struct SplitState {
    name: Arc<str>,
    /// Gone when the run is finished.
    split: Option<Split>,
    window: WindowKind,
    counts: Counts,
    /// Rows of batches that were refused before they came to the sample.
    refused: u64,
    bytes: usize,
    /// Newest point of a full or finished sample.
    latest: Option<Arc<Point>>,
    /// The slow scores of the newest evaluation that has them.
    slow: Option<Arc<Point>>,
    /// Steps of the newest evaluations that were scored or passed over.
    settled: Option<u64>,
    filling: bool,
}

impl Running {
    /// k names.
    pub fn concepts(&self) -> Arc<[String]> {
        Arc::clone(&self.concepts)
    }
}

impl Runs {
    pub fn new(options: SamplingOptions, metrics: Metrics, scorer: Arc<dyn Scorer>) -> Self {
        Self { options, started: Instant::now(), metrics, scorer, runs: Mutex::default(), memory: AtomicUsize::new(0) }
    }

    pub fn options(&self) -> &SamplingOptions {
        &self.options
    }

    /// Time since this process started: the core's clock.
    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Starts or resumes a run whose declaration the history has accepted.
    pub fn start(&self, run: Run, client: &str) -> Result<Arc<Running>, Refusal> {
        let mut runs = lock(&self.runs);
        // With another number of ranks the passes that are open can never close: they are given up.
        let same = runs.get(&run.name).filter(|running| *running.run == run);
        let running = match same {
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
        let resumed = state.finished.take().is_some();
        if resumed {
            state.finished_ranks.clear();
        }
        let known = state.clients.len();
        // A process not seen before may resume from an earlier checkpoint; a known one has only reconnected.
        if state.clients.insert(client_hash(client)) && (resumed || known > 0) {
            state.splits.values_mut().for_each(SplitState::new_attempt);
        }
        drop(state);
        Ok(running)
    }

    pub fn find(&self, name: &str) -> Result<Arc<Running>, Refusal> {
        let runs = lock(&self.runs);
        runs.get(name).cloned().ok_or_else(|| Refusal::Unknown { what: "run", name: in_short(name) })
    }

    /// Notes that a rank has finished. The last one closes what is open, scores it, and gives the samples' memory back;
    /// says whether it was the last.
    pub fn finish(&self, name: &str, rank: u32) -> Result<bool, Refusal> {
        let running = self.find(name)?;
        let world_size = running.run.world_size;
        if rank >= world_size {
            let expected = format!("{rank} came, expected 0 to {} with world_size {world_size}", world_size - 1);
            return Err(Fault::new("rank", expected).into());
        }
        let mut state = lock(&running.state);
        state.finished_ranks.insert(rank);
        if state.finished_ranks.len() < world_size as usize {
            return Ok(false);
        }
        state.finished = Some(Instant::now());
        for split in state.splits.values_mut() {
            let Some(mut sampler) = split.split.take() else { continue };
            let closed = sampler.close_all();
            if let Some(snapshot) = sampler.snapshot() {
                self.scorer.offer(Ready { provisional: false, ..rolling(&running, split, snapshot) });
            }
            split.counts = sampler.counts();
            self.closed(&running, split, closed);
        }
        Ok(true)
    }

    /// Closes passes whose deadline is reached, and forgets runs that finished long enough ago; returns their names.
    pub fn close_overdue(&self) -> Vec<String> {
        let now = self.now();
        for running in self.all() {
            let mut state = lock(&running.state);
            for split in state.splits.values_mut() {
                let closed = split.split.as_mut().map(|sampler| sampler.close_overdue(now)).unwrap_or_default();
                self.closed(&running, split, closed);
            }
        }
        let linger = self.options.linger;
        let gone = |running: &Running| lock(&running.state).finished.is_some_and(|at| at.elapsed() > linger);
        let mut forgotten = Vec::new();
        lock(&self.runs).retain(|name, running| {
            let keep = !gone(running);
            if !keep {
                forgotten.push(name.clone());
            }
            keep
        });
        self.metrics.staleness.set(self.staleness());
        forgotten
    }

    fn all(&self) -> Vec<Arc<Running>> {
        lock(&self.runs).values().cloned().collect()
    }

    /// Gives back the memory of a run that another declaration took the place of.
    fn give_back(&self, replaced: &Running) {
        for split in lock(&replaced.state).splits.values_mut() {
            split.split = None;
            self.memory.fetch_sub(std::mem::take(&mut split.bytes), Ordering::Relaxed);
        }
        self.metrics.sample_memory.set(self.memory() as i64);
    }
}

fn check_rank(running: &Running, rank: u32) -> Result<(), Fault> {
    let world_size = running.run.world_size;
    if rank < world_size {
        return Ok(());
    }
    Err(Fault::new("rank", format!("{rank} came, expected 0 to {} with world_size {world_size}", world_size - 1)))
}

fn rolling(running: &Arc<Running>, split: &SplitState, snapshot: Snapshot) -> Ready {
    Ready {
        running: Arc::clone(running),
        split: Arc::clone(&split.name),
        step: snapshot.step,
        epoch: snapshot.epoch,
        rows_seen: snapshot.rows_seen,
        provisional: snapshot.filling,
        sample: snapshot.sample,
        incomplete: false,
        time: unix_time(),
    }
}

impl SplitState {
    /// See [`Split::new_attempt`]. Who asks for a step that comes again waits for it again.
    fn new_attempt(&mut self) {
        self.settled = None;
        self.split.iter_mut().for_each(Split::new_attempt);
    }

    fn sampler(&mut self) -> Result<&mut Split, CommitError> {
        let step = self.settled.unwrap_or_default();
        self.split.as_mut().ok_or(CommitError::Late { step })
    }
}

/// Seconds since 1970-01-01 UTC.
pub fn unix_time() -> f64 {
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// State behind these locks is whole between any two statements, so a panic elsewhere does not spoil it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
