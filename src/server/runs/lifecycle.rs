//! The life of a run: it is declared, it finishes, and it is removed from memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::history::Ending;
use leakage::lock::lock;
use leakage::run::{Run, SplitKey};
use leakage::sample::{Attempt, Declaration, Evaluation, Now, SavedWindow, Split, StatedRank, Unfinished, client_hash};
use leakage::step::Rank;

use crate::server::board::Received;
use crate::server::clock::Clock;
use crate::server::live::{RunIdentity, RunStatus, SplitStatus};
use crate::server::metrics::Metrics;
use crate::server::pass_outcomes::{Pass, Settlement};
use crate::server::refusal::Refusal;

use super::registry::{Entered, Registry};
use super::run::{Frozen, Intake, Origin, Running, State};
use super::sampling::SamplingOptions;

/// Maximum number of runs in this process. Clients choose the names, so their number is bounded.
const MAX_RUNS: usize = 1000;

/// Time after a run's first start in this process within which its ranks come back after a restart of the sidecar. No pass
/// is closed without them before.
const ASSEMBLY: Duration = Duration::from_secs(30);

/// Takes samples that are ready to be scored.
pub type Outlet = Box<dyn Fn(Frozen) + Send + Sync>;

/// The intake of all runs.
pub struct Runs {
    pub(super) options: SamplingOptions,
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
    pub registry: Arc<Registry>,
    /// Where passes are opened that the scorers settle.
    pub(super) settlement: Arc<Settlement>,
    pub(super) outlet: Outlet,
    /// Bytes of the samples that receive rows.
    pub(super) memory: AtomicUsize,
    /// Bytes of the samples that wait to be scored, as noted last.
    waiting: AtomicUsize,
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
    pub origin: Origin,
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
        registry: Arc<Registry>,
        settlement: Arc<Settlement>,
        outlet: Outlet,
    ) -> Self {
        let (memory, waiting) = Default::default();
        Self { options, clock, metrics, registry, settlement, outlet, memory, waiting }
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
        let held = joining.continues.then(|| now.elapsed.saturating_add(ASSEMBLY));
        let Entered { running, replaced } = self.registry.enter(run, now, held);
        replaced.into_iter().for_each(|replaced| self.let_go(&replaced));
        self.forget_surplus(&running);
        let mut state = lock(&running.state);
        let Joining { client, attempt, rank, continues, finished, windows, origin } = joining;
        let named = attempt.is_some();
        let declaration = Declaration { client: client_hash(client), attempt, world_size, rank, continues };
        state.members.check_world_size(&declaration)?;
        state.finished = None;
        state.heard = now.elapsed;
        state.forget_closed_streams();
        let newer = state.members.declare(declaration, now.elapsed);
        let attempt = state.members.attempt_of(Some(client_hash(client)));
        let is_newest = attempt == state.members.attempt_of(None);
        if newer || is_newest && state.origin.as_ref().is_none_or(|known| origin.rank <= known.rank) {
            state.origin = Some(origin);
        }
        state.members.restore_finished(attempt, finished.iter().copied());
        self.restore(&running, &mut state, windows, named);
        if state.members.is_assembled(attempt) {
            state.release(now);
        }
        drop(state);
        Ok((running, newer))
    }

    /// The attempt of a client, or the newest attempt of the run if `client` is empty.
    pub fn attempt(&self, running: &Running, client: &str) -> Attempt {
        lock(&running.state).members.attempt_of(Some(client).filter(|name| !name.is_empty()).map(client_hash))
    }

    /// Notes that a rank has finished. When the last rank of an attempt has, its open samples are closed, scored and
    /// freed. The run continues if another launch is still sending to a split of its own. Returns also the checked rank.
    pub fn finish(&self, name: &str, client: &str, rank: u32) -> Result<(Rank, Finished), Refusal> {
        let running = self.registry.find(name)?;
        let now = self.now();
        let mut state = lock(&running.state);
        let client = Some(client).filter(|client| !client.is_empty()).map(client_hash);
        let of_client = state.members.attempt_of(client);
        let stated = StatedRank { rank, world_size: running.run.world_size };
        let (rank, last) = state.members.finish(client, stated)?;
        let Some(attempt) = last else { return Ok((rank, Finished::NotYet(of_client))) };
        Ok((rank, self.end(&running, &mut state, attempt, now)))
    }

    /// Ends an attempt whose ranks have all finished, and the run with it unless another launch has been heard on a split of its
    /// own since this one began.
    fn end(&self, running: &Arc<Running>, state: &mut State, attempt: Attempt, now: Now) -> Finished {
        let launched = state.members.launched(attempt);
        let mut all = true;
        for intake in state.splits.values_mut() {
            let of = intake.sampler.as_ref().and_then(Split::attempt);
            if of.is_some_and(|of| of.launch != attempt.launch && intake.heard > launched) {
                all = false;
            } else {
                self.close(running, intake, now);
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
    fn close(&self, running: &Arc<Running>, intake: &mut Intake, now: Now) {
        let Some(mut sampler) = intake.sampler.take() else { return };
        let closed = sampler.close_all(now);
        if let Some(last) = sampler.snapshot(now) {
            // No more rows will arrive, so the last sample of a run is final.
            let evaluation = Evaluation { provisional: false, backlog: true, ..last };
            (self.outlet)(Frozen { running: Arc::clone(running), evaluation });
        }
        intake.counts = sampler.counts();
        self.closed(running, intake, closed);
    }

    /// Closes passes whose deadline has been reached, and removes runs that finished more than `linger` ago or were silent
    /// for `forget_after`.
    pub fn close_overdue(&self) {
        let now = self.now();
        let all = self.registry.all();
        for running in &all {
            let mut state = lock(&running.state);
            if state.held.is_some_and(|until| until <= now.elapsed) {
                tracing::warn!(run = %running.name, "not every rank came back after the restart of the sidecar");
                state.release(now);
            }
            let State { splits, members, .. } = &mut *state;
            for intake in splits.values_mut() {
                let closed =
                    intake.sampler.as_mut().map(|sampler| sampler.close_overdue(now, members)).unwrap_or_default();
                self.closed(running, intake, closed);
            }
        }
        let SamplingOptions { linger, forget_after, .. } = self.options;
        for running in &all {
            let is_over = || running.finished().is_some_and(|at| at.elapsed() > linger);
            // A finished run keeps its place on the board until none of its evaluations waits to be scored.
            if running.is_silent(now, forget_after) || (is_over() && !self.settlement.is_any_pending(&running.name)) {
                self.forget(running, "no client sent anything for a long time");
            }
        }
    }

    /// Returns the runs in memory that have finished and of which nothing waits to be scored.
    pub fn settled(&self) -> Vec<Arc<str>> {
        let over =
            |running: &Arc<Running>| running.finished().is_some() && !self.settlement.is_any_pending(&running.name);
        self.registry.all().into_iter().filter(over).map(|running| Arc::clone(&running.name)).collect()
    }

    /// Removes a run that the history has removed.
    pub fn remove(&self, name: &str) {
        if let Some(running) = self.registry.get(name)
            && self.registry.remove(&running, false)
        {
            self.let_go(&running);
        }
        self.registry.note_removed(name);
    }

    /// Removes a run from memory. One that has not finished can be resumed from the history.
    fn forget(&self, running: &Arc<Running>, why: &str) {
        let is_unfinished = running.finished().is_none();
        if !self.registry.remove(running, is_unfinished) {
            return;
        }
        if is_unfinished {
            self.metrics.runs_forgotten.inc();
            tracing::warn!(run = %running.name, why, "a run was removed from memory; it can be resumed");
            self.abandon(running, Ending::Failed, &format!("the run was removed from memory: {why}"));
        }
        self.let_go(running);
    }

    /// Forgets the run that has been silent for longest, finished ones first, if there are too many with this one.
    fn forget_surplus(&self, newest: &Arc<Running>) {
        let mut all = self.registry.all();
        if all.len() > MAX_RUNS {
            all.retain(|running| !Arc::ptr_eq(running, newest));
            let silent = all.iter().min_by_key(|running| running.silence());
            silent.into_iter().for_each(|run| self.forget(run, "the sidecar holds as many runs as it may"));
        }
    }

    /// Forgets a run without an open stream, such as one whose job was killed, and frees its samples: of those that have
    /// nothing unsettled, if there are any, the one that has been silent for longest. Returns false if no run is left to
    /// free.
    pub(super) fn forget_unattended(&self) -> bool {
        let waits = |running: &Running| {
            let heard = lock(&running.state).unattended()?;
            Some((self.settlement.is_any_pending(&running.name), heard))
        };
        let all = self.registry.all();
        let longest = all.iter().filter_map(|running| Some((waits(running)?, running))).min_by_key(|(waits, _)| *waits);
        let Some((_, running)) = longest else { return false };
        self.forget(running, "no client is connected, and another run needs the memory of samples");
        true
    }

    /// Frees the samples of a run that was removed, refuses what its streams still send, and ends its alerts: nothing would
    /// end them later.
    fn let_go(&self, removed: &Running) {
        let mut state = lock(&removed.state);
        state.removed = true;
        for intake in state.splits.values_mut() {
            intake.sampler = None;
            self.memory.fetch_sub(std::mem::take(&mut intake.bytes), Ordering::Relaxed);
        }
        drop(state);
        removed.advice.end("the run was removed from memory", self.now().unix);
        self.show_memory();
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
        for running in self.registry.all() {
            self.abandon(&running, Ending::Unsettled, "the sidecar stopped while the pass was open");
        }
    }

    /// Whether a run is in memory and has not finished.
    pub fn is_running(&self, name: &str) -> bool {
        self.registry.get(name).is_some_and(|running| running.finished().is_none())
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
        let split = |run: &Arc<str>, split: Arc<str>, Received { window, counts, refused }| SplitStatus {
            split: split.to_string(),
            window: window.into(),
            rows_received: counts.received,
            rows_duplicate: counts.duplicate,
            rows_dropped: counts.dropped + counts.late + counts.refused + counts.discarded + refused,
            passes_unsettled: self.settlement.pending(&SplitKey { run: Arc::clone(run), split }),
        };
        let now = self.now();
        let status = |running: Arc<Running>| {
            let (heard, is_left) = running.attendance();
            RunStatus {
                name: running.run.name.clone(),
                splits: running.board.received().into_iter().map(|(of, rows)| split(&running.name, of, rows)).collect(),
                lost: is_left.then_some("its job has disconnected without saying how it ended"),
                heard: Some(now.unix - now.elapsed.saturating_sub(heard).as_secs_f64()),
            }
        };
        self.registry.all().into_iter().map(status).collect()
    }

    /// The identities of all runs but those that finished more than the linger time ago.
    pub fn identities(&self) -> Vec<RunIdentity> {
        let of = |running: Arc<Running>| {
            let state = lock(&running.state);
            if state.finished.is_some_and(|finished| finished.elapsed() > self.options.linger) {
                return None;
            }
            let Origin { job, host, .. } = state.origin.clone().unwrap_or_default();
            Some(RunIdentity { run: Arc::clone(&running.name), job, host, labels: running.run.labels.clone() })
        };
        self.registry.all().into_iter().filter_map(of).collect()
    }

    /// How many runs in memory have not finished.
    pub fn open(&self) -> usize {
        self.registry.all().iter().filter(|running| running.finished().is_none()).count()
    }
}
