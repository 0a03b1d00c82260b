//! What a split does with the rows it receives: passes that open and close, or one rolling sample.
//!
//! Batches apply atomically. Chunks are offered to a [`Staged`] sampler apart from the split, so that no lock is held
//! while rows are hashed and copied; [`Split::commit`] merges it when the last chunk has come.

use std::sync::Arc;
use std::time::Duration;

use super::applied::{Applied, Source};
use super::attempt::{Attempt, Member};
use super::bottom_k::BottomK;
use super::evaluation::{Evaluation, Now};
use super::frozen::Sample;
use super::pass::{ClosedSteps, OpenPass, Remembered};
use super::stage::Staged;
use super::window::{Began, CommitError, Committed, Counts, EndedPass, SplitOptions, WindowKind};
use crate::batch::Schema;
use crate::run::{Run, SplitKey};
use crate::step::{Epoch, Step};

/// One split of a run.
#[derive(Clone, Debug)]
pub struct Split {
    key: SplitKey,
    run: Arc<Run>,
    options: SplitOptions,
    schema: Option<Schema>,
    counts: Counts,
    next_serial: u64,
    /// The attempt whose messages are taken; `None` before the first.
    current: Option<Current>,
    /// Open passes, in the order they were opened. Empty in rolling windows.
    open: Vec<OpenPass>,
    closed: ClosedSteps,
    rolling: Option<Rolling>,
    /// The newest step when the current attempt began, until its next batch shows where it resumed from.
    resumed_at: Option<Step>,
}

/// The attempt that a split belongs to.
#[derive(Clone, Copy, Debug)]
struct Current {
    attempt: Attempt,
    world_size: u32,
    first_step: Step,
}

/// The sample of a `recent` or `all` window.
#[derive(Clone, Debug)]
struct Rolling {
    serial: u64,
    sampler: BottomK,
    applied: Applied,
    step: Step,
    epoch: Option<Epoch>,
    /// Rows at the last snapshot.
    rows_then: usize,
}

impl Split {
    /// Panics when [`SplitOptions::check`] finds a fault: the configuration checks before.
    pub fn new(key: SplitKey, options: SplitOptions, run: Arc<Run>) -> Self {
        if let Err(fault) = options.check() {
            panic!("{fault}");
        }
        Self {
            key,
            run,
            options,
            schema: None,
            counts: Counts::default(),
            next_serial: 0,
            current: None,
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

    /// The attempt whose messages are taken; `None` before the first.
    pub fn attempt(&self) -> Option<Attempt> {
        self.current.map(|current| current.attempt)
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

    /// A sampler for one batch, to be committed when all of it has arrived. Cheap.
    pub fn stage(&self, step: Step, source: Source, member: Member) -> Staged {
        let target = match self.options.window {
            // What is open or rolls along is of another model, and may be gone at the commit.
            _ if self.attempt() != Some(member.attempt) => None,
            WindowKind::Pass => self.open.iter().find(|pass| pass.step == step).map(|p| (p.serial, &p.sampler)),
            _ if self.resumed_at.is_some() => None,
            _ => self.rolling.as_ref().map(|rolling| (rolling.serial, &rolling.sampler)),
        };
        let sampler = match target {
            Some((_, sampler)) => sampler.stage(),
            None => self.empty_sampler(),
        };
        Staged::new(sampler, target.map(|(serial, _)| serial), self.run.continuous_labels(), step, source, member)
    }

    /// Applies a batch as a whole, or not at all. `rows_left_out` are rows of the logged batch that the job did not
    /// send.
    pub fn commit(
        &mut self,
        staged: Staged,
        epoch: Option<Epoch>,
        rows_left_out: u64,
        now: Now,
    ) -> Result<Committed, CommitError> {
        let all_rows = staged.rows() + staged.dropped();
        let (step, member) = (staged.step(), staged.member());
        let checked = self.check_attempt(member).and_then(|()| match (&self.schema, staged.schema()) {
            (Some(before), Some(schema)) => Ok(before.check_same(schema)?),
            _ => Ok(()),
        });
        if let Err(error) = checked {
            self.counts.refused += all_rows;
            return Err(error);
        }
        let began = self.begin(member, step);
        if self.closed.has_batch(step, staged.source()) {
            return Ok(Committed { began, ..self.all_known(&staged) });
        }
        if self.closed.contains(step) {
            self.counts.late += all_rows;
            return Err(CommitError::Late { step });
        }
        if staged.target().is_some_and(|target| !self.still_stands(target, step)) {
            return Err(CommitError::Restarted { step });
        }
        let mut closed = Vec::new();
        let new_rows = all_rows.saturating_add(rows_left_out);
        let (sampler, applied) = match self.options.window {
            WindowKind::Pass => {
                let pass = self.pass(step, now, &mut closed);
                pass.heard(epoch, now.elapsed);
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
            (known.closed, known.began) = (closed, began);
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
        Ok(Committed { rows, duplicates, dropped, closed, began })
    }

    /// Notes that a rank has sent all of the pass of `step`; the last rank closes it. In rolling windows, which have
    /// no passes, nothing happens. `rows` are those the rank says it sent, left out ones included; 0: not said.
    pub fn end_pass(
        &mut self,
        step: Step,
        epoch: Option<Epoch>,
        member: Member,
        rows: u64,
        now: Now,
    ) -> Result<EndedPass, CommitError> {
        self.check_attempt(member)?;
        let began = self.begin(member, step);
        if self.options.window != WindowKind::Pass {
            return Ok(EndedPass { duplicate: false, closed: Vec::new(), began });
        }
        if self.closed.has_end(step, member.rank) {
            return Ok(EndedPass { duplicate: true, closed: Vec::new(), began });
        }
        if self.closed.contains(step) {
            return Err(CommitError::Late { step });
        }
        let mut closed = Vec::new();
        let pass = self.pass(step, now, &mut closed);
        pass.heard(epoch, now.elapsed);
        let duplicate = !pass.ended.insert(member.rank);
        if !duplicate {
            pass.stated = pass.stated.saturating_add(rows);
        }
        pass.first_end.get_or_insert(now.elapsed);
        if pass.ended.count() == member.world_size {
            self.close_where(&mut closed, now, |pass| pass.step == step);
        }
        Ok(EndedPass { duplicate, closed, began })
    }

    /// Closes the passes whose deadline is reached.
    pub fn close_overdue(&mut self, now: Now) -> Vec<Evaluation> {
        let SplitOptions { pass_deadline, idle_deadline, .. } = self.options;
        let mut closed = Vec::new();
        self.close_where(&mut closed, now, |pass| pass.deadline(pass_deadline, idle_deadline) <= now.elapsed);
        closed
    }

    /// When [`close_overdue`](Self::close_overdue) will have something to close, if nothing comes before.
    pub fn next_deadline(&self) -> Option<Duration> {
        let SplitOptions { pass_deadline, idle_deadline, .. } = self.options;
        self.open.iter().map(|pass| pass.deadline(pass_deadline, idle_deadline)).min()
    }

    /// Closes every open pass, as when the run finishes.
    pub fn close_all(&mut self, now: Now) -> Vec<Evaluation> {
        let mut closed = Vec::new();
        self.close_where(&mut closed, now, |_| true);
        closed
    }

    /// Rows changed since the last snapshot and rows held, of the rolling sample; zeros without one.
    pub fn rolling_rows(&self) -> (usize, usize) {
        self.rolling.as_ref().map_or((0, 0), |rolling| (rolling.sampler.rows_changed(), rolling.sampler.rows()))
    }

    /// The rolling sample as it is now; `None` in pass windows and before the first row.
    pub fn snapshot(&mut self, now: Now) -> Option<Evaluation> {
        let attempt = self.attempt()?;
        let rolling = self.rolling.as_mut().filter(|rolling| rolling.sampler.rows() > 0)?;
        let rows = rolling.sampler.rows();
        let evaluation = Evaluation {
            key: self.key.clone(),
            run: Arc::clone(&self.run),
            attempt,
            step: rolling.step,
            epoch: rolling.epoch,
            time: now.unix,
            sample: rolling.sampler.freeze(),
            rows_seen: rolling.sampler.distinct_rows(),
            duplicates: rolling.sampler.duplicates(),
            provisional: !rolling.sampler.is_full() && rows > rolling.rows_then,
            ranks_missing: 0,
            rows_missing: 0,
        };
        rolling.rows_then = rows;
        rolling.sampler.mark_unchanged();
        Some(evaluation)
    }

    fn check_attempt(&self, member: Member) -> Result<(), CommitError> {
        match self.attempt() {
            Some(current) if member.attempt < current => Err(CommitError::OlderAttempt),
            _ => Ok(()),
        }
    }

    /// Makes the attempt of a message's sender the split's own, if it is a newer one. Then open passes are discarded,
    /// steps that were closed may come again, and a rolling sample starts again with the next batch of an earlier step
    /// than its newest: their rows are of a model that was abandoned. The schema stays.
    fn begin(&mut self, member: Member, step: Step) -> Option<Began> {
        let Member { attempt, world_size, .. } = member;
        let current = self.current.filter(|current| current.attempt == attempt);
        if current.is_some_and(|current| current.first_step <= step) {
            return None;
        }
        let mut began = Began { attempt, first_step: step, ..Began::default() };
        if current.is_none() {
            for pass in self.open.drain(..) {
                began.discarded.push(pass.step);
                began.rows_discarded += pass.taken;
            }
            self.counts.discarded += began.rows_discarded;
            self.closed.clear();
            self.resumed_at = self.rolling.as_ref().map(|rolling| rolling.step);
        }
        self.current = Some(Current { attempt, world_size, first_step: step });
        Some(began)
    }

    /// A batch all of whose rows are in already: a retry.
    fn all_known(&mut self, staged: &Staged) -> Committed {
        let rows = staged.rows();
        self.counts.received += rows;
        self.counts.duplicate += rows;
        self.counts.dropped += staged.dropped();
        Committed { rows, duplicates: rows, dropped: staged.dropped(), closed: Vec::new(), began: None }
    }

    /// The open pass of `step`; opens it, closing the one opened first when there are too many.
    fn pass(&mut self, step: Step, now: Now, closed: &mut Vec<Evaluation>) -> &mut OpenPass {
        let at = match self.open.iter().position(|pass| pass.step == step) {
            Some(at) => at,
            None => {
                while self.open.len() >= self.options.open_passes {
                    let oldest = self.open[0].serial;
                    self.close_where(closed, now, |pass| pass.serial == oldest);
                }
                let serial = self.serial();
                self.open.push(OpenPass::new(serial, step, self.empty_sampler(), now.elapsed));
                self.open.len() - 1
            }
        };
        &mut self.open[at]
    }

    /// Whether the sample with this serial is the one that rows of `step` go into.
    fn still_stands(&self, serial: u64, step: Step) -> bool {
        match self.options.window {
            WindowKind::Pass => self.open.iter().any(|pass| pass.serial == serial),
            _ => !self.goes_back(step) && self.rolling.as_ref().is_some_and(|rolling| rolling.serial == serial),
        }
    }

    /// Whether an attempt shows with a batch of `step` that it resumed from an earlier one.
    fn goes_back(&self, step: Step) -> bool {
        self.resumed_at.is_some_and(|newest| step < newest)
    }

    /// The rolling sample, to take rows of `step`.
    fn rolling(&mut self, step: Step, epoch: Option<Epoch>) -> &mut Rolling {
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
            rolling.epoch = Epoch::later(rolling.epoch, epoch);
        }
        rolling
    }

    fn close_where(&mut self, closed: &mut Vec<Evaluation>, now: Now, which: impl Fn(&OpenPass) -> bool) {
        let Some(Current { attempt, world_size, .. }) = self.current else { return };
        for pass in self.open.extract_if(.., |pass| which(pass)) {
            let evaluation = Evaluation {
                key: self.key.clone(),
                run: Arc::clone(&self.run),
                attempt,
                step: pass.step,
                epoch: pass.epoch,
                time: now.unix,
                rows_seen: pass.sampler.distinct_rows(),
                duplicates: pass.sampler.duplicates() + pass.repeated,
                sample: if pass.sampler.rows() > 0 { pass.sampler.into_sample() } else { Sample::default() },
                provisional: false,
                ranks_missing: world_size - pass.ended.count(),
                rows_missing: pass.stated.saturating_sub(pass.taken),
            };
            self.counts.passes += 1;
            self.counts.passes_incomplete += u64::from(evaluation.incomplete());
            self.closed.insert(pass.step, Remembered { applied: pass.applied, ended: pass.ended });
            closed.push(evaluation);
        }
    }

    fn empty_sampler(&self) -> BottomK {
        BottomK::new(self.options.sampling, self.options.decay()).at_image_size(self.run.constants.image_size)
    }

    fn serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }
}
