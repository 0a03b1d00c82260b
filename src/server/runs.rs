//! The runs this process receives: their samples, and where their curves stand.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::fault::Fault;
use crate::point::Point;
use crate::run::Run;
use crate::sample::{
    ClosedPass, CommitError, Committed, Counts, Sample, Sampling, Snapshot, Source, Split, SplitOptions, Staged,
    WindowKind, client_hash,
};

use super::live::{self, Latest, RunStatus};
use super::metrics::Metrics;
use super::status::Refusal;

/// Runs kept in this process at a time, and splits of a run: names come from outside, so they are capped.
const MAX_RUNS: usize = 1000;
const MAX_SPLITS: usize = 16;

/// How splits sample.
#[derive(Clone, Debug)]
pub struct SamplingOptions {
    pub sampling: Sampling,
    /// Windows of splits that are configured.
    pub windows: BTreeMap<String, WindowKind>,
    pub half_life_steps: f64,
    pub pass_deadline: Duration,
    pub idle_deadline: Duration,
    pub open_passes: usize,
    /// Bytes that all samples together may hold.
    pub memory: usize,
    /// Time for which a finished run's series stay in /metrics.
    pub linger: Duration,
}

impl SamplingOptions {
    /// `train` is rolling unless configured, every other split is an evaluation set.
    pub fn window(&self, split: &str) -> WindowKind {
        let default = if split == "train" { WindowKind::Recent } else { WindowKind::Pass };
        self.windows.get(split).copied().unwrap_or(default)
    }

    pub fn split(&self, split: &str) -> SplitOptions {
        SplitOptions {
            window: self.window(split),
            sampling: self.sampling,
            half_life_steps: self.half_life_steps,
            pass_deadline: self.pass_deadline,
            idle_deadline: self.idle_deadline,
            open_passes: self.open_passes,
        }
    }
}

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
    /// Steps of the newest evaluations that were scored or passed over.
    settled: Option<u64>,
    filling: bool,
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
            state.splits.values_mut().filter_map(|split| split.split.as_mut()).for_each(Split::new_attempt);
        }
        drop(state);
        Ok(running)
    }

    pub fn find(&self, name: &str) -> Result<Arc<Running>, Refusal> {
        let runs = lock(&self.runs);
        runs.get(name).cloned().ok_or_else(|| Refusal::Unknown { what: "run", name: name.chars().take(128).collect() })
    }

    /// A sampler for one batch of a split.
    pub fn stage(
        &self,
        running: &Running,
        split: &str,
        step: u64,
        rank: u32,
        source: Source,
    ) -> Result<Staged, Refusal> {
        check_rank(running, rank)?;
        let state = lock(&running.state);
        self.check_split(running, &state, split)?;
        // A split is made with its first batch that is taken, and so not here.
        match state.splits.get(split).and_then(|split| split.split.as_ref()) {
            Some(sampler) => Ok(sampler.stage(step, source)),
            None => Ok(Split::new(self.options.split(split), &running.run).stage(step, source)),
        }
    }

    /// Counts rows of a batch that was refused before it came to its sample.
    pub fn refused(&self, run: &str, split: &str, rows: u64) {
        let Ok(running) = self.find(run) else { return };
        if let Some(split) = lock(&running.state).splits.get_mut(split) {
            split.refused += rows;
        }
    }

    pub fn commit(
        &self,
        running: &Arc<Running>,
        split: &str,
        staged: Staged,
        epoch: Option<f64>,
        rank: u32,
        rows_left_out: u64,
    ) -> Result<Committed, Refusal> {
        let mut state = lock(&running.state);
        let split = self.split(running, &mut state, split)?;
        if self.memory.load(Ordering::Relaxed) + staged.bytes() > self.options.memory {
            return Err(Refusal::OverBudget { what: "sample memory", limit: self.options.memory });
        }
        let now = self.now();
        let mut committed = split.sampler()?.commit(staged, epoch, rank, rows_left_out, now)?;
        let closed = std::mem::take(&mut committed.closed);
        self.closed(running, split, closed);
        Ok(committed)
    }

    /// Notes a rank's end of a pass; says whether it was known.
    pub fn end_pass(
        &self,
        running: &Arc<Running>,
        split: &str,
        step: u64,
        epoch: Option<f64>,
        rank: u32,
        rows: u64,
    ) -> Result<bool, Refusal> {
        check_rank(running, rank)?;
        let mut state = lock(&running.state);
        let split = self.split(running, &mut state, split)?;
        let now = self.now();
        let ended = split.sampler()?.end_pass(step, epoch, rank, rows, now)?;
        self.closed(running, split, ended.closed);
        Ok(ended.duplicate)
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

    /// Rolling samples: run, split, rows changed since the last snapshot, rows held.
    pub fn rolling(&self) -> Vec<(Arc<Running>, Arc<str>, usize, usize)> {
        let mut rolling = Vec::new();
        for running in self.all() {
            for split in lock(&running.state).splits.values() {
                let Some(sampler) = split.split.as_ref().filter(|_| split.window != WindowKind::Pass) else { continue };
                let (changed, rows) = sampler.rolling_rows();
                rolling.push((Arc::clone(&running), Arc::clone(&split.name), changed, rows));
            }
        }
        rolling
    }

    /// A rolling sample as it is now; `None` when the split has none.
    pub fn snapshot(&self, run: &str, split: &str) -> Option<Ready> {
        let running = self.find(run).ok()?;
        let mut state = lock(&running.state);
        let split = state.splits.get_mut(split)?;
        let snapshot = split.split.as_mut().and_then(Split::snapshot)?;
        Some(rolling(&running, split, snapshot))
    }

    /// The newest point of a split that is not provisional, whether or not the history could store it.
    pub fn newest_point(&self, run: &str, split: &str) -> Option<Arc<Point>> {
        let running = self.find(run).ok()?;
        lock(&running.state).splits.get(split)?.latest.clone()
    }

    /// Notes a point that was recorded.
    pub fn settle(&self, running: &Running, split: &str, step: u64, point: Option<Arc<Point>>) {
        let mut state = lock(&running.state);
        let Some(split) = state.splits.get_mut(split) else { return };
        split.settled = Some(split.settled.map_or(step, |newest| newest.max(step)));
        if let Some(point) = point {
            split.filling = point.provisional;
            if !point.provisional {
                split.latest = Some(point);
            }
        }
    }

    /// Whether the evaluation of `step` was scored, or passed over for a newer one.
    pub fn is_settled(&self, run: &str, split: &str, step: u64) -> bool {
        let Ok(running) = self.find(run) else { return false };
        let state = lock(&running.state);
        state.splits.get(split).and_then(|split| split.settled).is_some_and(|newest| newest >= step)
    }

    /// Bytes that all samples hold.
    pub fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    pub fn statuses(&self) -> Vec<RunStatus> {
        let split = |split: &SplitState| {
            let counts = split.split.as_ref().map_or(split.counts, Split::counts);
            live::SplitStatus {
                split: split.name.to_string(),
                window: window_name(split.window),
                rows_received: counts.received,
                rows_duplicate: counts.duplicate,
                rows_dropped: counts.dropped + counts.late + counts.refused + split.refused,
            }
        };
        let status = |running: Arc<Running>| RunStatus {
            name: running.run.name.clone(),
            splits: lock(&running.state).splits.values().map(split).collect(),
        };
        self.all().into_iter().map(status).collect()
    }

    /// Where the curves stand, the newest first, without runs that finished longer ago than they linger.
    pub fn latest(&self) -> Vec<Latest> {
        let mut latest = Vec::new();
        for running in self.all() {
            let state = lock(&running.state);
            if state.finished.is_some_and(|at| at.elapsed() > self.options.linger) {
                continue;
            }
            latest.extend(state.splits.values().map(|split| Latest {
                run: Arc::clone(&running.name),
                split: Arc::clone(&split.name),
                concepts: Arc::clone(&running.concepts),
                point: split.latest.clone(),
                filling: split.filling,
            }));
        }
        let time = |latest: &Latest| latest.point.as_ref().map_or(0.0, |point| point.time);
        latest.sort_by(|a, b| time(b).total_cmp(&time(a)).then_with(|| a.run.cmp(&b.run)));
        latest
    }

    /// Age of the newest point of the unfinished split that has waited longest; 0 without any.
    fn staleness(&self) -> f64 {
        let now = unix_time();
        let mut oldest: f64 = 0.0;
        for running in self.all() {
            let state = lock(&running.state);
            if state.finished.is_none() {
                let points = state.splits.values().filter_map(|split| split.latest.as_ref());
                oldest = points.map(|point| now - point.time).fold(oldest, f64::max);
            }
        }
        oldest
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

    fn check_split(&self, running: &Running, state: &State, name: &str) -> Result<(), Refusal> {
        if state.finished.is_some() {
            return Err(Refusal::Finished(running.run.name.clone()));
        }
        if !state.splits.contains_key(name) && state.splits.len() >= MAX_SPLITS {
            let known: Vec<&str> = state.splits.keys().map(String::as_str).collect();
            let message = format!("'{name}' is one more than the {MAX_SPLITS} a run may have: {}", known.join(", "));
            return Err(Fault::new("split", message).into());
        }
        Ok(())
    }

    /// The split's state, made with its first batch.
    fn split<'s>(&self, running: &Running, state: &'s mut State, name: &str) -> Result<&'s mut SplitState, Refusal> {
        self.check_split(running, state, name)?;
        let options = || self.options.split(name);
        let split = state.splits.entry(name.to_owned()).or_insert_with(|| SplitState {
            name: name.into(),
            split: None,
            window: self.options.window(name),
            counts: Counts::default(),
            refused: 0,
            bytes: 0,
            latest: None,
            settled: None,
            filling: false,
        });
        split.split.get_or_insert_with(|| Split::new(options(), &running.run));
        Ok(split)
    }

    /// Hands closed passes on, and brings the count of the split's memory up to date.
    fn closed(&self, running: &Arc<Running>, split: &mut SplitState, closed: Vec<ClosedPass>) {
        for pass in closed {
            let incomplete = pass.incomplete();
            let counter = if incomplete { &self.metrics.passes_incomplete } else { &self.metrics.passes_closed };
            counter.inc();
            if incomplete {
                tracing::warn!(
                    run = %running.name, split = %split.name, step = pass.step, ranks_missing = pass.ranks_missing,
                    rows_missing = pass.rows_missing,
                    "a pass is incomplete"
                );
            }
            let Some(sample) = pass.sample else {
                tracing::warn!(run = %running.name, split = %split.name, step = pass.step, "a pass had no rows");
                split.settled = Some(split.settled.map_or(pass.step, |newest| newest.max(pass.step)));
                continue;
            };
            self.scorer.offer(Ready {
                running: Arc::clone(running),
                split: Arc::clone(&split.name),
                step: pass.step,
                epoch: pass.epoch,
                sample,
                rows_seen: pass.rows_seen,
                provisional: false,
                incomplete,
                time: unix_time(),
            });
        }
        let bytes = split.split.as_ref().map_or(0, Split::bytes);
        self.memory.fetch_add(bytes, Ordering::Relaxed);
        self.memory.fetch_sub(split.bytes, Ordering::Relaxed);
        split.bytes = bytes;
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
    fn sampler(&mut self) -> Result<&mut Split, CommitError> {
        let step = self.settled.unwrap_or_default();
        self.split.as_mut().ok_or(CommitError::Late { step })
    }
}

pub fn window_name(window: WindowKind) -> &'static str {
    match window {
        WindowKind::Pass => "pass",
        WindowKind::Recent => "recent",
        WindowKind::All => "all",
    }
}

/// Seconds since 1970-01-01 UTC.
pub fn unix_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// State behind these locks is whole between any two statements, so a panic elsewhere does not spoil it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
