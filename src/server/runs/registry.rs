//! The runs of this process, and the life of each.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::history::Ending;
use leakage::run::{Run, SplitKey};
use leakage::sample::{
    Attempt, Counts, Declaration, Evaluation, Members, Now, SavedWindow, Split, StatedRank, Unfinished, WindowKind,
    client_hash,
};

use crate::server::board::Beginning;
use crate::server::clock::Clock;
use crate::server::live::{RunStatus, SplitStatus};
use crate::server::metrics::Metrics;
use crate::server::pass_outcomes::{Mailbox, Pass, Settlement};
use crate::server::refusal::Refusal;
use leakage::lock::lock;
use leakage::step::Rank;

use super::sampling::{SamplingOptions, window_name};

/// Maximum number of runs in this process, and of splits in a run. Clients choose the names, so their number is bounded.
const MAX_RUNS: usize = 1000;
pub(super) const MAX_SPLITS: usize = 16;

/// Time after a run's first start in this process within which its ranks come back after a restart of the sidecar. No pass
/// is closed without them before.
const ASSEMBLY: Duration = Duration::from_secs(30);

/// Names of forgotten runs that are remembered, so that a client that goes on is asked to declare its run again.
const MAX_FORGOTTEN: usize = 1 << 16;

/// Receives what the intake has frozen.
pub trait Outlet: Send + Sync {
    /// An attempt begins in a split, or returns to a step earlier than any before.
    fn begin(&self, key: &SplitKey, beginning: Beginning);

    /// A sample is ready to be scored.
    fn offer(&self, evaluation: Evaluation);
}

/// All runs of this process.
pub struct Runs {
    pub(super) options: SamplingOptions,
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
    /// Where passes are opened that the scorers settle.
    pub(super) settlement: Arc<Settlement>,
    pub(super) outlet: Arc<dyn Outlet>,
    pub(super) runs: Mutex<HashMap<String, Arc<Running>>>,
    /// Bytes of the samples that receive rows.
    pub(super) memory: AtomicUsize,
    /// Bytes of the samples that wait to be scored, as noted last.
    waiting: AtomicUsize,
    forgotten: Mutex<Forgotten>,
}

/// The runs that were removed from memory before they finished.
#[derive(Default)]
struct Forgotten {
    names: HashSet<String>,
    /// Names of runs whose other state is yet to be removed.
    fresh: Vec<String>,
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
    /// The run was replaced or removed from memory. What a stream still has of it must not be applied: nobody would free
    /// it.
    pub removed: bool,
    /// When the last message arrived, as time since the process started.
    pub heard: Duration,
    /// The streams of its clients, those that have ended too.
    streams: Vec<Weak<Mailbox>>,
    /// Until when no pass is closed before every rank has ended it; `None` once the launch is assembled.
    pub held: Option<Duration>,
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
    /// When the rolling window was last saved, and how many rows the split had received then.
    pub saved: Option<(Duration, u64)>,
}

/// The attempt that a client belongs to, as resolved by the history.
#[derive(Clone, Debug)]
pub struct Joining<'a> {
    /// Unique for each process.
    pub client: &'a str,
    /// `None` for an unnamed launch.
    pub attempt: Option<Attempt>,
    /// The rank in a named launch.
    pub rank: Option<Rank>,
    /// The attempt continues the evaluations in the history.
    pub continues: bool,
    /// Ranks of the attempt that finished before.
    pub finished: &'a [Rank],
    /// Rolling windows of the run, by split, that an earlier process saved.
    pub windows: Vec<(String, SavedWindow)>,
}

/// The effect of a rank's call to finish its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// Other ranks of this attempt or another launch are still running.
    NotYet(Attempt),
    /// The run has finished.
    Run,
}

impl Runs {
    pub fn new(
        options: SamplingOptions,
        clock: Clock,
        metrics: Metrics,
        settlement: Arc<Settlement>,
        outlet: Arc<dyn Outlet>,
    ) -> Self {
        let (runs, memory, waiting, forgotten) = Default::default();
        Self { options, clock, metrics, settlement, outlet, runs, memory, waiting, forgotten }
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
        lock(&self.forgotten).names.remove(&run.name);
        let mut runs = lock(&self.runs);
        let running = match runs.get(&run.name).filter(|running| running.run.is_continued_by(&run)) {
            Some(running) => Arc::clone(running),
            None => {
                if runs.len() >= MAX_RUNS
                    && let Some(silent) = longest_silent(&runs)
                    && let Some(silent) = runs.remove(&silent)
                {
                    self.forget(&silent, "the sidecar holds as many runs as it may");
                }
                let running = Arc::new(Running {
                    name: run.name.as_str().into(),
                    concepts: run.concepts.iter().map(|concept| concept.name.clone()).collect(),
                    run: Arc::new(run),
                    state: Mutex::new(State {
                        held: joining.continues.then(|| now.elapsed.saturating_add(ASSEMBLY)),
                        ..State::default()
                    }),
                });
                if let Some(replaced) = runs.insert(running.run.name.clone(), Arc::clone(&running)) {
                    self.give_back(&replaced);
                }
                running
            }
        };
        drop(runs);
        let mut state = lock(&running.state);
        let Joining { client, attempt, rank, continues, finished, windows } = joining;
        let named = attempt.is_some();
        let declaration = Declaration { client: client_hash(client), attempt, world_size, rank, continues };
        state.members.check_world_size(&declaration)?;
        state.finished = None;
        state.heard = now.elapsed;
        let newer = state.members.declare(declaration, now.elapsed);
        let attempt = state.members.attempt_of(Some(client_hash(client)));
        state.members.restore_finished(attempt, finished.iter().copied());
        self.restore(&running, &mut state, windows, named);
        if state.members.is_assembled(attempt) {
            state.release(now);
        }
        drop(state);
        Ok((running, newer))
    }

    pub fn find(&self, name: &str) -> Result<Arc<Running>, Refusal> {
        let runs = lock(&self.runs);
        if let Some(running) = runs.get(name) {
            return Ok(Arc::clone(running));
        }
        drop(runs);
        match lock(&self.forgotten).names.contains(name) {
            true => Err(Refusal::Forgotten(name.to_owned())),
            false => Err(Refusal::unknown("run", name)),
        }
    }

    /// The attempt of a client, or the newest attempt of the run if `client` is empty.
    pub fn attempt(&self, running: &Running, client: &str) -> Attempt {
        lock(&running.state).members.attempt_of(Some(client).filter(|name| !name.is_empty()).map(client_hash))
    }

    /// Notes that a rank has finished. When the last rank of an attempt has, its open samples are closed, scored and
    /// freed. The run continues if another launch is still sending to a split of its own. Returns also the checked rank.
    pub fn finish(&self, name: &str, client: &str, rank: u32) -> Result<(Rank, Finished), Refusal> {
        let running = self.find(name)?;
        let now = self.now();
        let mut state = lock(&running.state);
        let client = Some(client).filter(|client| !client.is_empty()).map(client_hash);
        let of_client = state.members.attempt_of(client);
        let stated = StatedRank { rank, world_size: running.run.world_size };
        let (rank, last) = state.members.finish(client, stated)?;
        let Some(attempt) = last else { return Ok((rank, Finished::NotYet(of_client))) };
        Ok((rank, self.end(&mut state, attempt, now)))
    }

    /// Ends an attempt whose ranks have all finished, and the run with it unless another launch has been heard on a split of its
    /// own since this one began.
    pub(super) fn end(&self, state: &mut State, attempt: Attempt, now: Now) -> Finished {
        let launched = state.members.launched(attempt);
        let mut all = true;
        for intake in state.splits.values_mut() {
            let of = intake.sampler.as_ref().and_then(Split::attempt);
            if of.is_some_and(|of| of.launch != attempt.launch && intake.heard > launched) {
                all = false;
            } else {
                self.close(intake, now);
            }
        }
        if !all {
            return Finished::NotYet(attempt);
        }
        state.finished = Some(Instant::now());
        state.members.end();
        Finished::Run
    }

    /// Submits what a split still holds for scoring, and drops its sampler.
    fn close(&self, intake: &mut Intake, now: Now) {
        let Some(mut sampler) = intake.sampler.take() else { return };
        let closed = sampler.close_all(now);
        if let Some(last) = sampler.snapshot(now) {
            // No more rows will arrive, so the last sample of a run is final.
            self.outlet.offer(Evaluation { provisional: false, backlog: true, ..last });
        }
        intake.counts = sampler.counts();
        self.closed(intake, closed);
    }

    /// Closes passes whose deadline has been reached, and removes runs that finished more than `linger` ago or were silent
    /// for `forget_after`. Returns the names of the removed runs.
    pub fn close_overdue(&self) -> Vec<String> {
        let now = self.now();
        for running in self.all() {
            let mut state = lock(&running.state);
            if state.held.is_some_and(|until| until <= now.elapsed) {
                tracing::warn!(run = %running.name, "not every rank came back after the restart of the sidecar");
                state.release(now);
            }
            let State { splits, members, .. } = &mut *state;
            for intake in splits.values_mut() {
                let closed =
                    intake.sampler.as_mut().map(|sampler| sampler.close_overdue(now, members)).unwrap_or_default();
                self.closed(intake, closed);
            }
        }
        let SamplingOptions { linger, forget_after, .. } = self.options;
        let mut forgotten = std::mem::take(&mut lock(&self.forgotten).fresh);
        let mut runs = lock(&self.runs);
        let silent: Vec<Arc<Running>> =
            runs.extract_if(|_, running| running.is_silent(now, forget_after)).map(|(_, silent)| silent).collect();
        // A finished run keeps its place on the board until none of its evaluations waits to be scored.
        let is_over = |name: &String, running: &mut Arc<Running>| {
            running.finished().is_some_and(|at| at.elapsed() > linger) && !self.settlement.is_any_pending(name)
        };
        forgotten.extend(runs.extract_if(is_over).map(|(name, _)| name));
        drop(runs);
        for running in silent {
            self.forget(&running, "no client sent anything for a long time");
        }
        forgotten.append(&mut lock(&self.forgotten).fresh);
        // It may have been declared again.
        let runs = lock(&self.runs);
        forgotten.retain(|name| !runs.contains_key(name));
        forgotten
    }

    /// Returns the runs in memory that have finished and of which nothing waits to be scored.
    pub fn settled(&self) -> Vec<String> {
        let over =
            |running: &Arc<Running>| running.finished().is_some() && !self.settlement.is_any_pending(&running.name);
        self.all().into_iter().filter(over).map(|running| running.run.name.clone()).collect()
    }

    /// Frees what is held of a run that the history has removed.
    pub fn remove(&self, name: &str) {
        let removed = lock(&self.runs).remove(name);
        if let Some(removed) = removed {
            self.give_back(&removed);
        }
        lock(&self.forgotten).names.remove(name);
    }

    /// Frees the samples of a run that was removed. It can be resumed from the history.
    fn forget(&self, running: &Running, why: &str) {
        let name = running.run.name.clone();
        if running.finished().is_some() {
            lock(&self.forgotten).fresh.push(name);
            return;
        }
        self.metrics.runs_forgotten.inc();
        tracing::warn!(run = %running.name, why, "a run was removed from memory; it can be resumed");
        self.abandon(running, Ending::Failed, &format!("the run was removed from memory: {why}"));
        self.give_back(running);
        let mut forgotten = lock(&self.forgotten);
        if forgotten.names.len() >= MAX_FORGOTTEN {
            forgotten.names.clear();
        }
        forgotten.names.insert(name.clone());
        forgotten.fresh.push(name);
    }

    /// Frees the samples of a run without an open stream, such as one whose job was killed: of those that have nothing
    /// unsettled, if there are any, the one that has been silent for longest. Returns false if no run is left to free.
    pub(super) fn forget_unattended(&self) -> bool {
        let mut runs = lock(&self.runs);
        let waits = |running: &Running| {
            let heard = lock(&running.state).unattended()?;
            Some((self.settlement.is_any_pending(&running.name), heard))
        };
        let longest = runs.values().filter_map(|running| Some((waits(running)?, running.run.name.clone()))).min();
        let Some(running) = longest.and_then(|(_, name)| runs.remove(&name)) else { return false };
        drop(runs);
        self.forget(&running, "no client is connected, and another run needs the memory of samples");
        true
    }

    /// Reports the open passes of a run, which will not be scored.
    fn abandon(&self, running: &Running, ending: Ending, reason: &str) {
        let state = lock(&running.state);
        for (key, sampler) in state.splits.values().filter_map(|intake| Some((&intake.key, intake.sampler.as_ref()?))) {
            let Some(attempt) = sampler.attempt() else { continue };
            for unfinished in sampler.unfinished() {
                let pass = Pass { key: key.clone(), attempt, at: unfinished.pass };
                let Unfinished { ended, ranks, .. } = unfinished;
                let reason = format!("{reason}; {ended} of {ranks} ranks had ended the pass");
                self.report(&pass, &unfinished, ending, &reason);
            }
        }
    }

    /// Records that an open pass will not be scored.
    pub(super) fn report(&self, pass: &Pass, unfinished: &Unfinished, ending: Ending, reason: &str) {
        tracing::warn!(
            run = %pass.key.run, split = %pass.key.split, step = %pass.at, rows = unfinished.rows, reason,
            "an open pass was abandoned"
        );
        self.settlement.expect(pass.clone(), None);
        self.settlement.record(pass, ending, reason, unfinished.rows);
    }

    /// Reports every open pass: the server stops.
    pub fn stop(&self) {
        for running in self.all() {
            self.abandon(&running, Ending::Unsettled, "the sidecar stopped while the pass was open");
        }
    }

    /// Whether a run is in memory.
    pub fn knows(&self, name: &str) -> bool {
        lock(&self.runs).contains_key(name)
    }

    /// Whether a run is in memory and has not finished.
    pub fn is_running(&self, name: &str) -> bool {
        lock(&self.runs).get(name).is_some_and(|running| running.finished().is_none())
    }

    /// Continues the rolling windows of an earlier process in splits that this one has received nothing for.
    fn restore(&self, running: &Arc<Running>, state: &mut State, windows: Vec<(String, SavedWindow)>, named: bool) {
        for (split, window) in windows {
            if state.splits.contains_key(&split) {
                continue;
            }
            let Ok(intake) = self.intake(running, state, &split) else { continue };
            let restored = intake.sampler().map(|sampler| (sampler.restore(window, named), sampler.attempt()));
            match restored {
                Ok((Ok(first_step), attempt)) => {
                    tracing::info!(run = %running.name, %split, "a rolling window continues");
                    if let Some((first_step, attempt)) = first_step.zip(attempt) {
                        let beginning = Beginning {
                            attempt,
                            first_step,
                            continues: true,
                            rolling: true,
                            concepts: Arc::clone(&running.concepts),
                        };
                        self.outlet.begin(&intake.key, beginning);
                    }
                    self.closed(intake, Vec::new());
                }
                Ok((Err(fault), _)) => {
                    self.metrics.windows_ignored.inc();
                    tracing::warn!(run = %running.name, %split, %fault, "a saved rolling window was ignored");
                }
                Err(_) => {}
            }
        }
    }

    /// A copy of a rolling window that has changed and was not saved for `interval`; `None` if there is none.
    pub fn window_to_save(&self, interval: Duration) -> Option<(SplitKey, SavedWindow)> {
        let now = self.now().elapsed;
        for running in self.all() {
            for intake in lock(&running.state).splits.values_mut() {
                let Some(sampler) = intake.sampler.as_ref().filter(|_| intake.window != WindowKind::Pass) else {
                    continue;
                };
                let received = sampler.counts().received;
                let due = intake.saved.is_none_or(|(at, rows)| rows != received && at.saturating_add(interval) <= now);
                if !due {
                    continue;
                }
                if let Some(window) = sampler.save() {
                    intake.saved = Some((now, received));
                    return Some((intake.key.clone(), window));
                }
            }
        }
        None
    }

    /// Whether a split still receives rows.
    pub fn receives(&self, key: &SplitKey) -> bool {
        let Ok(running) = self.find(&key.run) else { return false };
        let state = lock(&running.state);
        state.splits.get(&*key.split).is_some_and(|intake| intake.sampler.is_some())
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

    /// Notes how many bytes the samples that wait to be scored hold.
    pub fn note_waiting(&self, bytes: usize) {
        self.waiting.store(bytes, Ordering::Relaxed);
        self.show_memory();
    }

    /// Bytes held by all samples, those that wait to be scored included.
    pub fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed) + self.waiting.load(Ordering::Relaxed)
    }

    /// Updates the metric of the samples' memory.
    pub(super) fn show_memory(&self) {
        self.metrics.sample_memory.set(self.memory() as i64);
    }

    pub fn statuses(&self) -> Vec<RunStatus> {
        let split = |intake: &Intake| {
            let counts = intake.sampler.as_ref().map_or(intake.counts, Split::counts);
            SplitStatus {
                split: intake.key.split.to_string(),
                window: window_name(intake.window),
                rows_received: counts.received,
                rows_duplicate: counts.duplicate,
                passes_unsettled: self.settlement.pending(&intake.key),
                rows_dropped: counts.dropped + counts.late + counts.refused + counts.discarded + intake.refused,
            }
        };
        let status = |running: Arc<Running>| RunStatus {
            name: running.run.name.clone(),
            splits: lock(&running.state).splits.values().map(split).collect(),
            is_lost: false,
        };
        self.all().into_iter().map(status).collect()
    }

    /// How many runs in memory have not finished.
    pub fn open(&self) -> usize {
        self.all().iter().filter(|running| running.finished().is_none()).count()
    }

    fn all(&self) -> Vec<Arc<Running>> {
        lock(&self.runs).values().cloned().collect()
    }

    /// Frees the samples of a run that was replaced by another declaration, or forgotten.
    fn give_back(&self, replaced: &Running) {
        let mut state = lock(&replaced.state);
        state.removed = true;
        for intake in state.splits.values_mut() {
            intake.sampler = None;
            self.memory.fetch_sub(std::mem::take(&mut intake.bytes), Ordering::Relaxed);
        }
        drop(state);
        self.show_memory();
    }
}

impl Intake {
    pub fn sampler(&mut self) -> Result<&mut Split, Refusal> {
        self.sampler.as_mut().ok_or_else(|| Refusal::Finished(self.key.run.to_string()))
    }
}

impl State {
    /// Notes that a stream sends to the run.
    pub fn attend(&mut self, stream: &Arc<Mailbox>) {
        let known = |known: &Weak<Mailbox>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(stream));
        if !self.streams.iter().any(known) {
            self.streams.retain(|stream| stream.strong_count() > 0);
            self.streams.push(Arc::downgrade(stream));
        }
    }

    /// When the run was last heard of, if it holds samples and none of its streams is open.
    fn unattended(&self) -> Option<Duration> {
        let holds = self.splits.values().any(|intake| intake.bytes > 0);
        (holds && self.streams.iter().all(|stream| stream.strong_count() == 0)).then_some(self.heard)
    }

    /// From now on deadlines close passes.
    pub fn release(&mut self, now: Now) {
        self.held = None;
        for sampler in self.splits.values_mut().filter_map(|intake| intake.sampler.as_mut()) {
            sampler.hold(false, now);
        }
    }
}

impl Running {
    fn finished(&self) -> Option<Instant> {
        lock(&self.state).finished
    }

    fn is_silent(&self, now: Now, forget_after: Duration) -> bool {
        let state = lock(&self.state);
        state.finished.is_none() && state.heard.saturating_add(forget_after) < now.elapsed
    }
}

/// The run that has been silent for longest; finished ones first.
fn longest_silent(runs: &HashMap<String, Arc<Running>>) -> Option<String> {
    let silence = |running: &Running| {
        let state = lock(&running.state);
        (state.finished.is_none(), state.heard)
    };
    runs.iter().min_by_key(|(_, running)| silence(running)).map(|(name, _)| name.clone())
}
