//! What a split does with the rows it receives: passes that open and close, or one rolling sample.
//!
//! Batches apply atomically. Chunks are offered to a [`Staged`] sampler apart from the split, so that no lock is held
//! while rows are hashed and copied; [`Split::commit`] merges it when the last chunk has come.

use std::time::Duration;

use super::BottomK;
use super::applied::{Applied, Source};
use super::pass::{ClosedPass, ClosedSteps, OpenPass, later_epoch};
use super::stage::Staged;
use super::window::{CommitError, Committed, Counts, EndedPass, Snapshot, SplitOptions, WindowKind};
use crate::batch::Schema;
use crate::fault::Fault;
use crate::run::{ContinuousLabels, Run};

/// One split of a run.
#[derive(Clone, Debug)]
pub struct Split {
    options: SplitOptions,
    world_size: u32,
    continuous: ContinuousLabels,
    image_size: Option<(u32, u32)>,
    schema: Option<Schema>,
    counts: Counts,
    next_serial: u64,
    /// Open passes, in the order they were opened. Empty in rolling windows.
    open: Vec<OpenPass>,
    closed: ClosedSteps,
    rolling: Option<Rolling>,
    /// The newest step when the run was last resumed, until the next batch shows where it resumed from.
    resumed_at: Option<u64>,
}

/// The sample of a `recent` or `all` window.
#[derive(Clone, Debug)]
struct Rolling {
    serial: u64,
    sampler: BottomK,
    applied: Applied,
    step: u64,
    epoch: Option<f64>,
    /// Rows at the last snapshot.
    rows_then: usize,
}

impl Split {
    /// Panics when [`SplitOptions::check`] finds a fault: the configuration checks before.
    pub fn new(options: SplitOptions, run: &Run) -> Self {
        if let Err(fault) = options.check() {
            panic!("{fault}");
        }
        Self {
            options,
            world_size: run.world_size,
            continuous: run.continuous_labels(),
            image_size: run.constants.image_size,
            schema: None,
            counts: Counts::default(),
            next_serial: 0,
            open: Vec::new(),
            closed: ClosedSteps::default(),
            rolling: None,
            resumed_at: None,
        }
    }

    pub fn options(&self) -> &SplitOptions {
        &self.options
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes held in memory: open passes, the rolling sample, and what is remembered of closed passes. Staged batches
    /// count apart.
    pub fn bytes(&self) -> usize {
        let rolling = self.rolling.as_ref().map_or(0, |rolling| rolling.sampler.bytes() + rolling.applied.bytes());
        self.open.iter().map(OpenPass::bytes).sum::<usize>() + self.closed.bytes() + rolling
    }

    /// Bytes by which committing a batch lets this grow at most, as [`BottomK::growth`] counts them.
    pub fn growth(&self, staged: &Staged) -> usize {
        let target = match self.options.window {
            WindowKind::Pass => self.open.iter().find(|pass| pass.step == staged.step()).map(|pass| &pass.sampler),
            _ => self.rolling.as_ref().map(|rolling| &rolling.sampler),
        };
        target.map_or(staged.bytes(), |sampler| sampler.growth(staged.sampler()))
    }

    /// A sampler for one batch, to be committed when all of it has come. Cheap.
    pub fn stage(&self, step: u64, source: Source) -> Staged {
        let target = match self.options.window {
            WindowKind::Pass => self.open.iter().find(|pass| pass.step == step).map(|p| (p.serial, &p.sampler)),
            // Where the run may have gone back, the sample may be started anew at the commit.
            _ if self.resumed_at.is_some() => None,
            _ => self.rolling.as_ref().map(|rolling| (rolling.serial, &rolling.sampler)),
        };
        let sampler = match target {
            Some((_, sampler)) => sampler.stage(),
            None => self.empty_sampler(),
        };
        Staged::new(sampler, target.map(|(serial, _)| serial), self.continuous, step, source)
    }

    /// Applies a batch as a whole, or not at all. `rows_left_out` are rows of the logged batch that the job did not
    /// send.
    pub fn commit(
        &mut self,
        staged: Staged,
        epoch: Option<f64>,
        rank: u32,
        rows_left_out: u64,
        now: Duration,
    ) -> Result<Committed, CommitError> {
        let all_rows = staged.rows() + staged.dropped();
        let checked = self.check_rank(rank).and_then(|()| match (&self.schema, staged.schema()) {
            (Some(before), Some(schema)) => before.check_same(schema),
            _ => Ok(()),
        });
        if let Err(fault) = checked {
            self.counts.refused += all_rows;
            return Err(fault.into());
        }
        let step = staged.step();
        if self.closed.has_batch(step, staged.source()) {
            return Ok(self.all_known(&staged));
        }
        if self.closed.contains(step) {
            self.counts.late += all_rows;
            return Err(CommitError::Late { step });
        }
        if staged.target().is_some_and(|target| !self.still_stands(target, step)) {
            return Err(CommitError::Superseded { step });
        }
        let mut closed = Vec::new();
        let new_rows = all_rows.saturating_add(rows_left_out);
        let (sampler, applied) = match self.options.window {
            WindowKind::Pass => {
                let pass = self.pass(step, now, &mut closed);
                pass.heard(epoch, now);
                (&mut pass.sampler, &mut pass.applied)
            }
            _ => {
                let rolling = self.rolling(step, epoch);
                (&mut rolling.sampler, &mut rolling.applied)
            }
        };
        if applied.contains(staged.source()) {
            let mut known = self.all_known(&staged);
            if let Some(pass) = self.open.iter_mut().find(|pass| pass.step == step) {
                pass.repeated += known.rows;
            }
            known.closed = closed;
            return Ok(known);
        }
        applied.insert(staged.source());
        let (rows, dropped, schema) = (staged.rows(), staged.dropped(), staged.schema().cloned());
        let before = sampler.duplicates();
        sampler.merge(staged.into_sampler());
        sampler.left_out(rows_left_out);
        let duplicates = sampler.duplicates() - before;
        if let Some(pass) = self.open.iter_mut().find(|pass| pass.step == step) {
            pass.taken = pass.taken.saturating_add(new_rows);
        }
        if self.schema.is_none() {
            self.schema = schema;
        }
        self.counts.received += rows;
        self.counts.duplicate += duplicates;
        self.counts.dropped += dropped;
        self.counts.left_out = self.counts.left_out.saturating_add(rows_left_out);
        Ok(Committed { rows, duplicates, dropped, closed })
    }

    /// Notes that `rank` has sent all of the pass of `step`; the last rank closes it. In rolling windows, which have
    /// no passes, nothing happens. `rows` are those the rank says it sent, left out ones included; 0: not said.
    pub fn end_pass(
        &mut self,
        step: u64,
        epoch: Option<f64>,
        rank: u32,
        rows: u64,
        now: Duration,
    ) -> Result<EndedPass, CommitError> {
        self.check_rank(rank)?;
        if self.options.window != WindowKind::Pass {
            return Ok(EndedPass { duplicate: false, closed: Vec::new() });
        }
        if self.closed.has_end(step, rank) {
            return Ok(EndedPass { duplicate: true, closed: Vec::new() });
        }
        if self.closed.contains(step) {
            return Err(CommitError::Late { step });
        }
        let mut closed = Vec::new();
        let world_size = self.world_size;
        let pass = self.pass(step, now, &mut closed);
        pass.heard(epoch, now);
        let duplicate = !pass.ended.insert(rank);
        if !duplicate {
            pass.stated = pass.stated.saturating_add(rows);
        }
        pass.first_end.get_or_insert(now);
        if pass.ended.count() == world_size {
            self.close_where(&mut closed, |pass| pass.step == step);
        }
        Ok(EndedPass { duplicate, closed })
    }

    /// Closes the passes whose deadline is reached.
    pub fn close_overdue(&mut self, now: Duration) -> Vec<ClosedPass> {
        let SplitOptions { pass_deadline, idle_deadline, .. } = self.options;
        let mut closed = Vec::new();
        self.close_where(&mut closed, |pass| pass.deadline(pass_deadline, idle_deadline) <= now);
        closed
    }

    /// When [`close_overdue`](Self::close_overdue) will have something to close, if nothing comes before.
    pub fn next_deadline(&self) -> Option<Duration> {
        let SplitOptions { pass_deadline, idle_deadline, .. } = self.options;
        self.open.iter().map(|pass| pass.deadline(pass_deadline, idle_deadline)).min()
    }

    /// Closes every open pass, as when the run finishes.
    pub fn close_all(&mut self) -> Vec<ClosedPass> {
        let mut closed = Vec::new();
        self.close_where(&mut closed, |_| true);
        closed
    }

    /// A process not seen before resumes the run, perhaps from a checkpoint of an earlier step. Steps that were
    /// closed may come again, and so may those of passes left open, should they be closed without all ranks. A rolling sample is started anew when the next batch is of an earlier step than the
    /// newest, since its rows are of a model that was abandoned. The schema stays. Calling it once for every rank
    /// does no harm.
    pub fn new_attempt(&mut self) {
        self.closed.clear();
        self.open.iter_mut().for_each(|pass| pass.carried_over = true);
        self.resumed_at = self.rolling.as_ref().map(|rolling| rolling.step);
    }

    /// Rows changed since the last snapshot and rows held, of the rolling sample; zeros without one.
    pub fn rolling_rows(&self) -> (usize, usize) {
        self.rolling.as_ref().map_or((0, 0), |rolling| (rolling.sampler.rows_changed(), rolling.sampler.rows()))
    }

    /// The rolling sample as it is now; `None` in pass windows and before the first row.
    pub fn snapshot(&mut self) -> Option<Snapshot> {
        let rolling = self.rolling.as_mut().filter(|rolling| rolling.sampler.rows() > 0)?;
        let rows = rolling.sampler.rows();
        let snapshot = Snapshot {
            sample: rolling.sampler.freeze(),
            rows_seen: rolling.sampler.distinct_rows(),
            rows_changed: rolling.sampler.rows_changed(),
            filling: !rolling.sampler.is_full() && rows > rolling.rows_then,
            step: rolling.step,
            epoch: rolling.epoch,
        };
        rolling.rows_then = rows;
        rolling.sampler.mark_unchanged();
        Some(snapshot)
    }

    fn check_rank(&self, rank: u32) -> Result<(), Fault> {
        if rank < self.world_size {
            return Ok(());
        }
        let world_size = self.world_size;
        Err(Fault::new("rank", format!("{rank} came, expected 0 to {} with world_size {world_size}", world_size - 1)))
    }

    /// A batch all of whose rows are in already: a retry.
    fn all_known(&mut self, staged: &Staged) -> Committed {
        let rows = staged.rows();
        self.counts.received += rows;
        self.counts.duplicate += rows;
        self.counts.dropped += staged.dropped();
        Committed { rows, duplicates: rows, dropped: staged.dropped(), closed: Vec::new() }
    }

    /// The open pass of `step`; opens it, closing the one opened first when there are too many.
    fn pass(&mut self, step: u64, now: Duration, closed: &mut Vec<ClosedPass>) -> &mut OpenPass {
        let at = match self.open.iter().position(|pass| pass.step == step) {
            Some(at) => at,
            None => {
                while self.open.len() >= self.options.open_passes {
                    let oldest = self.open[0].serial;
                    self.close_where(closed, |pass| pass.serial == oldest);
                }
                let serial = self.serial();
                self.open.push(OpenPass::new(serial, step, self.empty_sampler(), now));
                self.open.len() - 1
            }
        };
        &mut self.open[at]
    }

    /// Whether the sample with this serial is the one that rows of `step` go into.
    fn still_stands(&self, serial: u64, step: u64) -> bool {
        match self.options.window {
            WindowKind::Pass => self.open.iter().any(|pass| pass.serial == serial),
            _ => !self.goes_back(step) && self.rolling.as_ref().is_some_and(|rolling| rolling.serial == serial),
        }
    }

    /// Whether a run that was resumed shows with a batch of `step` that it resumed from an earlier one.
    fn goes_back(&self, step: u64) -> bool {
        self.resumed_at.is_some_and(|newest| step < newest)
    }

    /// The rolling sample, to take rows of `step`.
    fn rolling(&mut self, step: u64, epoch: Option<f64>) -> &mut Rolling {
        if self.goes_back(step) {
            self.rolling = None;
        }
        self.resumed_at = None;
        let serial = self.serial();
        let sampler = self.empty_sampler();
        let start = || Rolling { serial, sampler, applied: Applied::default(), step, epoch: None, rows_then: 0 };
        let rolling = self.rolling.get_or_insert_with(start);
        if step > rolling.step {
            (rolling.step, rolling.epoch) = (step, epoch);
        } else if step == rolling.step {
            rolling.epoch = later_epoch(rolling.epoch, epoch);
        }
        rolling
    }

    fn close_where(&mut self, closed: &mut Vec<ClosedPass>, which: impl Fn(&OpenPass) -> bool) {
        for pass in self.open.extract_if(.., |pass| which(pass)) {
            let (step, carried_over) = (pass.step, pass.carried_over);
            let (pass, remembered) = pass.close(self.world_size);
            self.counts.passes += 1;
            self.counts.passes_incomplete += u64::from(pass.incomplete());
            // A pass that the job abandoned does not stand in the way of its step, which the resumed job comes to again.
            if !(carried_over && pass.incomplete()) {
                self.closed.insert(step, remembered);
            }
            closed.push(pass);
        }
    }

    fn empty_sampler(&self) -> BottomK {
        BottomK::new(self.options.sampling, self.options.decay()).at_image_size(self.image_size)
    }

    fn serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }
}
