//! All that is known of one run. To forget the run is to drop this value.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use leakage::lock::lock;
use leakage::run::{Run, SplitKey};
use leakage::sample::{Counts, Evaluation, Members, Now, Split, WindowKind};

use crate::server::advice::Advice;
use crate::server::alert_log::AlertLog;
use crate::server::board::{Board, Received};
use crate::server::pass_outcomes::Mailbox;
use crate::server::refusal::Refusal;
use crate::server::scoring::carried::Carried;

/// One run. The intake, the scorers and the readers share it; each field has a lock of its own, so that none waits for
/// another.
pub struct Running {
    pub run: Arc<Run>,
    pub name: Arc<str>,
    /// k names.
    pub concepts: Arc<[String]>,
    /// t names; empty for one task without a name.
    pub tasks: Arc<[String]>,
    pub(super) state: Mutex<State>,
    pub board: Board,
    pub advice: Advice,
    pub carried: Carried,
}

/// A frozen sample, with its run.
pub struct Frozen {
    pub running: Arc<Running>,
    pub evaluation: Evaluation,
}

/// The intake of a run.
#[derive(Default)]
pub(super) struct State {
    pub finished: Option<Instant>,
    pub members: Members,
    pub splits: BTreeMap<String, Intake>,
    /// The job and host of the lowest rank of the newest attempt.
    pub origin: Option<Origin>,
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

/// The place where a client runs, as it says.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    pub rank: u32,
    /// The scheduler's id of the job, else the name of the launch; empty without either.
    pub job: String,
    /// May be empty.
    pub host: String,
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

impl Running {
    /// A run that is declared now. Until `held` no pass is closed before every rank has ended it.
    pub(super) fn new(run: Run, now: Now, held: Option<Duration>, log: Arc<AlertLog>) -> Self {
        let name: Arc<str> = run.name.as_str().into();
        Self {
            advice: Advice::new(Arc::clone(&name), log),
            name,
            concepts: run.concepts.iter().map(|concept| concept.name.clone()).collect(),
            tasks: run.tasks.iter().map(|task| task.name.clone()).collect(),
            run: Arc::new(run),
            state: Mutex::new(State { held, heard: now.elapsed, ..State::default() }),
            board: Board::default(),
            carried: Carried::default(),
        }
    }

    pub(super) fn finished(&self) -> Option<Instant> {
        lock(&self.state).finished
    }

    pub(super) fn is_silent(&self, now: Now, forget_after: Duration) -> bool {
        let state = lock(&self.state);
        state.finished.is_none() && state.heard.saturating_add(forget_after) < now.elapsed
    }

    /// When the run was last heard of, and whether the streams of its clients have all ended. A client that has declared the
    /// run and sent nothing yet has no stream, and may be there.
    pub(super) fn attendance(&self) -> (Duration, bool) {
        let state = lock(&self.state);
        (state.heard, !state.streams.is_empty() && state.is_left())
    }

    /// Orders runs by their silence: finished ones first, then those that were heard of longest ago.
    pub(super) fn silence(&self) -> (bool, Duration) {
        let state = lock(&self.state);
        (state.finished.is_none(), state.heard)
    }
}

impl Frozen {
    /// The same with another evaluation, if there is one.
    pub fn with(self, evaluation: Option<Evaluation>) -> Self {
        Self { evaluation: evaluation.unwrap_or(self.evaluation), ..self }
    }
}

impl Intake {
    /// Puts the counts of rows where readers find them.
    pub fn show(&self, board: &Board) {
        let counts = self.sampler.as_ref().map_or(self.counts, Split::counts);
        board.receive(&self.key.split, Received { window: self.window, counts, refused: self.refused });
    }

    pub fn sampler(&mut self) -> Result<&mut Split, Refusal> {
        self.sampler.as_mut().ok_or_else(|| Refusal::Finished(self.key.run.to_string()))
    }
}

impl State {
    /// Notes that a stream sends to the run.
    pub fn attend(&mut self, stream: &Arc<Mailbox>) {
        let known = |known: &Weak<Mailbox>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(stream));
        if !self.streams.iter().any(known) {
            self.forget_closed_streams();
            self.streams.push(Arc::downgrade(stream));
        }
    }

    /// When the run was last heard of, if it holds samples and none of its streams is open.
    pub fn unattended(&self) -> Option<Duration> {
        let holds = self.splits.values().any(|intake| intake.bytes > 0);
        (holds && self.is_left()).then_some(self.heard)
    }

    /// Whether none of its streams is open.
    fn is_left(&self) -> bool {
        self.streams.iter().all(|stream| stream.strong_count() == 0)
    }

    /// Forgets the streams that have ended.
    pub fn forget_closed_streams(&mut self) {
        self.streams.retain(|stream| stream.strong_count() > 0);
    }

    /// From now on deadlines close passes.
    pub fn release(&mut self, now: Now) {
        self.held = None;
        for sampler in self.splits.values_mut().filter_map(|intake| intake.sampler.as_mut()) {
            sampler.hold(false, now);
        }
    }
}
