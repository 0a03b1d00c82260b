//! Samples of the rows that a split receives: passes that open and close, or one rolling sample.
//!
//! Batches apply atomically. Chunks are offered to a [`Staged`] sampler outside the split, so that no lock is held
//! while rows are hashed and copied; [`Split::commit`] merges it after the last chunk.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::attempt::{Attempt, Member, Members};
use super::bottom_k::{BottomK, Sampling, SavedRows};
use super::evaluation::{Evaluation, Now};
use super::frozen::Sample;
use super::pass::{ClosedPasses, OpenPass, Remembered};
use super::seen_batches::{Applied, Source};
use super::stage::Staged;
use super::window::{
    Abandoned, Began, CommitError, Committed, Counts, EndOfPass, EndedPass, SplitOptions, Unfinished, WindowKind,
};
use crate::batch::Schema;
use crate::field_error::FieldError;
use crate::run::{Run, SplitKey};
use crate::step::{Epoch, Ordinal, PassKey, Step};
use crate::tensor::TensorName;

/// One split of a run.
#[derive(Clone, Debug)]
pub struct Split {
    key: SplitKey,
    run: Arc<Run>,
    options: SplitOptions,
    schema: Option<Schema>,
    counts: Counts,
    next_serial: u64,
    /// The attempt whose messages are accepted; `None` before the first.
    current: Option<Current>,
    /// Open passes in the order in which they were opened. Empty in rolling windows.
    open: Vec<OpenPass>,
    closed: ClosedPasses,
    rolling: Option<Rolling>,
    /// The newest step when the current attempt began; `None` once its first batch shows where it resumed.
    resumed_at: Option<Step>,
    /// No pass is closed before every rank has ended it.
    held: bool,
    /// When that was last so; deadlines count from then.
    released: Duration,
}

/// The attempt whose rows a split holds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
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

/// A rolling sample with all that it needs to continue exactly, to be stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedWindow {
    window: WindowKind,
    sampling: Sampling,
    decay: f64,
    schema: Option<Schema>,
    counts: Counts,
    current: Option<Current>,
    resumed_at: Option<Step>,
    rows: SavedRows,
    applied: Applied,
    step: Step,
    epoch: Option<Epoch>,
    rows_then: usize,
}

impl Split {
    /// A copy of the rolling sample; `None` in pass windows and before the first row.
    pub fn save(&self) -> Option<SavedWindow> {
        let rolling = self.rolling.as_ref().filter(|rolling| rolling.sampler.rows() > 0)?;
        Some(SavedWindow {
            window: self.options.window,
            sampling: self.options.sampling,
            decay: self.options.decay(),
            schema: self.schema.clone(),
            counts: self.counts,
            current: self.current,
            resumed_at: self.resumed_at,
            rows: rolling.sampler.save(),
            applied: rolling.applied.clone(),
            step: rolling.step,
            epoch: rolling.epoch,
            rows_then: rolling.rows_then,
        })
    }

    /// Continues a rolling sample of an earlier process in a split that has received nothing. With `same_attempts` its
    /// attempts are named as those of this process; otherwise the next one continues it unless it begins at an earlier
    /// step. Returns the first step of its attempt, if that is known. Errors, without any change, when the sample was of
    /// other options.
    pub fn restore(&mut self, saved: SavedWindow, same_attempts: bool) -> Result<Option<Step>, FieldError> {
        let options = (self.options.window, self.options.sampling, self.options.decay());
        if options != (saved.window, saved.sampling, saved.decay) || self.options.window == WindowKind::Pass {
            return Err(FieldError::new("window", "was sampled with other options"));
        }
        let mut sampler = self.empty_sampler();
        sampler.restore(saved.rows)?;
        let SavedWindow { schema, counts, applied, step, epoch, rows_then, .. } = saved;
        let serial = self.serial();
        self.rolling = Some(Rolling { serial, sampler, applied, step, epoch, rows_then });
        (self.schema, self.counts) = (schema, counts);
        if same_attempts {
            (self.current, self.resumed_at) = (saved.current, saved.resumed_at);
        }
        Ok(self.current.map(|current| current.first_step))
    }

    /// Panics when [`SplitOptions::check`] finds a fault: the options are checked with the configuration.
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
            closed: ClosedPasses::default(),
            rolling: None,
            resumed_at: None,
            held: false,
            released: Duration::ZERO,
        }
    }

    pub fn options(&self) -> &SplitOptions {
        &self.options
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The attempt whose messages are accepted; `None` before the first.
    pub fn attempt(&self) -> Option<Attempt> {
        self.current.map(|current| current.attempt)
    }

    /// Bytes held in memory: open passes, the rolling sample, and records of closed passes. Staged batches are not
    /// included.
    pub fn bytes(&self) -> usize {
        let rolling = self.rolling.as_ref().map_or(0, |rolling| rolling.sampler.bytes() + rolling.applied.bytes());
        self.open.iter().map(OpenPass::bytes).sum::<usize>() + self.closed.bytes() + rolling
    }

    /// Upper bound in bytes on the growth by committing a batch, as counted by [`BottomK::growth`].
    pub fn growth(&self, staged: &Staged) -> usize {
        let target = match self.options.window {
            WindowKind::Pass => self.open.iter().find(|pass| pass.key == staged.pass()).map(|pass| &pass.sampler),
            _ => self.rolling.as_ref().map(|rolling| &rolling.sampler),
        };
        target.map_or(staged.bytes(), |sampler| sampler.growth(staged.sampler()))
    }

    /// A sampler for one batch, which is committed when the whole batch has arrived. Cheap.
    pub fn stage(&self, pass: impl Into<PassKey>, source: Source, member: Member) -> Staged {
        let key = pass.into();
        let target = match self.options.window {
            // The open passes and the rolling sample belong to another model, and may be discarded before the commit.
            _ if self.attempt() != Some(member.attempt) => None,
            WindowKind::Pass => self.open.iter().find(|pass| pass.key == key).map(|p| (p.serial, &p.sampler)),
            _ if self.resumed_at.is_some() => None,
            _ => self.rolling.as_ref().map(|rolling| (rolling.serial, &rolling.sampler)),
        };
        let sampler = match target {
            Some((_, sampler)) => sampler.stage(),
            None => self.empty_sampler(),
        };
        Staged::new(sampler, target.map(|(serial, _)| serial), self.run.continuous_labels(), key, source, member)
    }

    /// Applies a batch completely or not at all. `rows_left_out` is the number of rows of the logged batch that the
    /// job did not send.
    pub fn commit(
        &mut self,
        staged: Staged,
        epoch: Option<Epoch>,
        rows_left_out: u64,
        now: Now,
    ) -> Result<Committed, CommitError> {
        let all_rows = staged.rows() + staged.dropped();
        let (key, member) = (staged.pass(), staged.member());
        let step = key.step;
        let checked = self.check_attempt(member).and_then(|()| match (&self.schema, staged.schema()) {
            (Some(before), Some(schema)) => Ok(before.check_alike(schema)?),
            _ => Ok(()),
        });
        if let Err(error) = checked {
            self.counts.refused += all_rows;
            return Err(error);
        }
        let began = self.begin(member, step);
        if self.closed.has_batch(key, staged.source()) {
            return Ok(Committed { began, ..self.all_known(&staged) });
        }
        if self.closed.is_abandoned(key) {
            self.counts.discarded += all_rows;
            return Err(CommitError::Abandoned { split: Arc::clone(&self.key.split), pass: key });
        }
        if self.closed.contains(key) {
            self.counts.late += all_rows;
            return Err(self.late(key));
        }
        if staged.target().is_some_and(|target| !self.still_stands(target, step)) {
            return Err(CommitError::Restarted { step });
        }
        let mut closed = Vec::new();
        let new_rows = all_rows.saturating_add(rows_left_out);
        let (sampler, applied) = match self.options.window {
            WindowKind::Pass => {
                let pass = self.pass(key, now, &mut closed);
                pass.heard(epoch, now.elapsed);
                (&mut pass.sampler, &mut pass.applied)
            }
            _ => {
                if self.turn_epoch(&staged, epoch, now, &mut closed) {
                    self.counts.late += all_rows;
                    let (rows, dropped) = (staged.rows(), staged.dropped());
                    return Ok(Committed { rows, duplicates: 0, dropped, bound: None, closed, began });
                }
                let rolling = self.rolling(step, epoch);
                (&mut rolling.sampler, &mut rolling.applied)
            }
        };
        if applied.contains(staged.source()) {
            let mut known = self.all_known(&staged);
            if let Some(pass) = self.open.iter_mut().find(|pass| pass.key == key) {
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
        let bound = sampler.bound();
        if let Some(pass) = self.open.iter_mut().find(|pass| pass.key == key) {
            pass.taken = pass.taken.saturating_add(new_rows);
        }
        if self.schema.is_none() {
            self.schema = schema;
        }
        self.counts.received += rows;
        self.counts.duplicate += duplicates;
        self.counts.dropped += dropped;
        self.counts.left_out = self.counts.left_out.saturating_add(rows_left_out);
        Ok(Committed { rows, duplicates, dropped, bound, closed, began })
    }

    /// Records that a rank has sent all its rows of a pass; the last rank closes it. Does nothing in rolling windows,
    /// which have no passes.
    pub fn end_pass(&mut self, end: EndOfPass, member: Member, now: Now) -> Result<EndedPass, CommitError> {
        let EndOfPass { pass: key, epoch, rows, held_back, backlog } = end;
        self.check_attempt(member)?;
        let began = self.begin(member, key.step);
        if self.options.window != WindowKind::Pass {
            return Ok(EndedPass { duplicate: false, closed: Vec::new(), began });
        }
        if self.closed.has_end(key, member.rank) || self.closed.is_abandoned(key) {
            return Ok(EndedPass { duplicate: true, closed: Vec::new(), began });
        }
        if self.closed.contains(key) {
            return Err(self.late(key));
        }
        let mut closed = Vec::new();
        let pass = self.pass(key, now, &mut closed);
        pass.heard(epoch, now.elapsed);
        let duplicate = !pass.ended.insert(member.rank);
        if !duplicate {
            pass.stated = pass.stated.saturating_add(rows);
            pass.held_back = pass.held_back.saturating_add(held_back);
            pass.backlog |= backlog;
        }
        pass.first_end.get_or_insert(now.elapsed);
        if pass.ended.count() == member.world_size {
            self.close_where(&mut closed, now, |pass| pass.key == key);
        }
        Ok(EndedPass { duplicate, closed, began })
    }

    /// Discards a pass that a rank has left without ending it, with the rows of all ranks: those of one rank cannot be told
    /// apart in the sample, and without them the pass would be incomplete. What comes of it later is refused. Does nothing
    /// to a pass that is closed, and in rolling windows.
    pub fn abandon(&mut self, key: PassKey, member: Member) -> Result<Abandoned, CommitError> {
        self.check_attempt(member)?;
        let began = self.begin(member, key.step);
        if self.options.window != WindowKind::Pass || self.closed.contains(key) {
            return Ok(Abandoned { duplicate: true, discarded: None, began });
        }
        let discarded = self.unfinished().into_iter().find(|unfinished| unfinished.pass == key);
        self.counts.discarded += discarded.map_or(0, |unfinished| unfinished.rows);
        let open = self.open.extract_if(.., |pass| pass.key == key).next();
        let (applied, ended) = open.map(|pass| (pass.applied, pass.ended)).unwrap_or_default();
        self.closed.insert(key, Remembered { applied, ended, abandoned: true });
        Ok(Abandoned { duplicate: false, discarded, began })
    }

    /// Closes the passes whose deadline has passed. A pass has time while a rank that has not ended it, as `members`
    /// knows, still sends it or what comes before.
    pub fn close_overdue(&mut self, now: Now, members: &Members) -> Vec<Evaluation> {
        let mut closed = Vec::new();
        if self.held {
            return closed;
        }
        let overdue = |pass: &OpenPass| self.deadline(pass, members) <= now.elapsed;
        let overdue: Vec<u64> = self.open.iter().filter(|pass| overdue(pass)).map(|pass| pass.serial).collect();
        if !overdue.is_empty() {
            self.close_where(&mut closed, now, |pass| overdue.contains(&pass.serial));
        }
        closed
    }

    /// The earliest time at which [`close_overdue`](Self::close_overdue) closes a pass if nothing arrives before.
    pub fn next_deadline(&self, members: &Members) -> Option<Duration> {
        self.open.iter().map(|pass| self.deadline(pass, members)).min()
    }

    fn deadline(&self, pass: &OpenPass, members: &Members) -> Duration {
        let SplitOptions { pass_deadline, idle_deadline, .. } = self.options;
        let coming = self
            .attempt()
            .and_then(|attempt| members.heard_before(attempt, pass.key.step, |rank| pass.ended.contains(rank)));
        pass.deadline(pass_deadline, idle_deadline, coming.unwrap_or_default().max(self.released))
    }

    /// Whether to keep passes open until every rank has ended them, whatever their number and deadlines. Deadlines begin
    /// when this ends.
    pub fn hold(&mut self, held: bool, now: Now) {
        if self.held && !held {
            self.released = now.elapsed;
        }
        self.held = held;
    }

    /// Closes the open pass that was opened first, other than `pass`; `None` if there is no other.
    pub fn close_oldest(&mut self, pass: impl Into<PassKey>, now: Now) -> Option<Evaluation> {
        let key = pass.into();
        let oldest = self.open.iter().find(|pass| pass.key != key)?.serial;
        let mut closed = Vec::new();
        self.close_where(&mut closed, now, |pass| pass.serial == oldest);
        closed.pop()
    }

    /// Discards an open pass that is stored already. Its rows count as duplicates.
    pub fn drop_pass(&mut self, pass: impl Into<PassKey>) -> u64 {
        let key = pass.into();
        let dropped: u64 = self.open.extract_if(.., |pass| pass.key == key).map(|pass| pass.taken).sum();
        self.counts.duplicate = self.counts.duplicate.saturating_add(dropped);
        dropped
    }

    /// The open passes, in the order in which they were opened.
    pub fn unfinished(&self) -> Vec<Unfinished> {
        let ranks = self.current.map_or(0, |current| current.world_size);
        let unfinished =
            |pass: &OpenPass| Unfinished { pass: pass.key, rows: pass.taken, ended: pass.ended.count(), ranks };
        self.open.iter().map(unfinished).collect()
    }

    /// Closes every open pass, for example when the run finishes.
    pub fn close_all(&mut self, now: Now) -> Vec<Evaluation> {
        let mut closed = Vec::new();
        self.close_where(&mut closed, now, |_| true);
        closed
    }

    /// For the rolling sample: rows changed since the last snapshot, and rows held; zeros without one.
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
            ordinal: Ordinal::default(),
            epoch: rolling.epoch,
            time: now.unix,
            sample: rolling.sampler.freeze(),
            rows_seen: rolling.sampler.distinct_rows(),
            duplicates: rolling.sampler.duplicates(),
            repeated_rows: 0,
            relabelled_rows: 0,
            repeated_ids: 0,
            provisional: !rolling.sampler.is_full() && rows > rolling.rows_then,
            ranks_missing: 0,
            rows_missing: 0,
            backlog: false,
            held_back: 0,
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

    /// Adopts the attempt of a message's sender if it is newer. Open passes are then discarded, closed steps may be
    /// sent again, and a rolling sample is reset by the next batch of a step earlier than its newest: those rows belong
    /// to an abandoned model. The schema stays.
    fn begin(&mut self, member: Member, step: Step) -> Option<Began> {
        let Member { attempt, world_size, .. } = member;
        let current = self.current.filter(|current| current.attempt == attempt);
        if current.is_some_and(|current| current.first_step <= step) {
            return None;
        }
        let mut began = Began { attempt, first_step: step, ..Began::default() };
        if current.is_none() {
            began.previous = self.attempt();
            began.discarded = self.unfinished();
            began.rows_discarded = self.open.drain(..).map(|pass| pass.taken).sum();
            self.counts.discarded += began.rows_discarded;
            self.closed.clear();
            self.resumed_at = self.rolling.as_ref().map(|rolling| rolling.step);
        }
        self.current = Some(Current { attempt, world_size, first_step: step });
        Some(began)
    }

    /// The result for a retry: a batch whose rows have all been applied already.
    fn all_known(&mut self, staged: &Staged) -> Committed {
        let rows = staged.rows();
        self.counts.received += rows;
        self.counts.duplicate += rows;
        self.counts.dropped += staged.dropped();
        Committed { rows, duplicates: rows, dropped: staged.dropped(), bound: None, closed: Vec::new(), began: None }
    }

    fn late(&self, pass: PassKey) -> CommitError {
        CommitError::Late { split: Arc::clone(&self.key.split), pass }
    }

    /// An open pass. Opens it if needed, closing the pass opened first when there are too many.
    fn pass(&mut self, key: PassKey, now: Now, closed: &mut Vec<Evaluation>) -> &mut OpenPass {
        let at = match self.open.iter().position(|pass| pass.key == key) {
            Some(at) => at,
            None => {
                while self.open.len() >= self.options.open_passes && !self.held {
                    let oldest = self.open[0].serial;
                    self.close_where(closed, now, |pass| pass.serial == oldest);
                }
                let serial = self.serial();
                self.open.push(OpenPass::new(serial, key, self.empty_sampler(), now.elapsed));
                self.open.len() - 1
            }
        };
        &mut self.open[at]
    }

    /// Whether the sample with this serial is the one that receives the rows of `step`.
    fn still_stands(&self, serial: u64, step: Step) -> bool {
        match self.options.window {
            WindowKind::Pass => self.open.iter().any(|pass| pass.serial == serial),
            _ => !self.goes_back(step) && self.rolling.as_ref().is_some_and(|rolling| rolling.serial == serial),
        }
    }

    /// Whether a batch of `step` shows that its attempt resumed from an earlier step.
    fn goes_back(&self, step: Step) -> bool {
        self.resumed_at.is_some_and(|newest| step < newest)
    }

    /// Closes the rolling sample where a batch begins another epoch. Without `sample_ids` nothing shows that the rows of two
    /// epochs are the same rows of the data set, so a sample has rows of one epoch only. Returns whether the batch belongs to
    /// an earlier epoch than the sample.
    fn turn_epoch(&mut self, staged: &Staged, epoch: Option<Epoch>, now: Now, closed: &mut Vec<Evaluation>) -> bool {
        let has_ids = staged.schema().is_none_or(|schema| schema.contains(TensorName::SampleIds));
        let Some(rolling) = self.rolling.as_ref().filter(|_| !has_ids && !self.goes_back(staged.pass().step)) else {
            return false;
        };
        let number = |epoch: Epoch| epoch.get().floor();
        let Some((of_sample, of_batch)) = rolling.epoch.map(number).zip(epoch.map(number)) else { return false };
        if of_batch > of_sample {
            let whole = (rolling.sampler.rows_changed() > 0).then(|| self.snapshot(now)).flatten();
            closed.extend(whole.map(|whole| Evaluation { provisional: false, ..whole }));
            self.rolling = None;
        }
        of_batch < of_sample
    }

    /// The rolling sample that receives rows of `step`.
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
                step: pass.key.step,
                ordinal: pass.key.ordinal,
                epoch: pass.epoch,
                time: now.unix,
                rows_seen: pass.sampler.distinct_rows(),
                duplicates: pass.sampler.repeats().saturating_add(pass.repeated),
                repeated_ids: pass.sampler.repeats(),
                sample: if pass.sampler.rows() > 0 { pass.sampler.into_sample() } else { Sample::default() },
                repeated_rows: 0,
                relabelled_rows: 0,
                provisional: false,
                ranks_missing: world_size - pass.ended.count(),
                rows_missing: pass.stated.saturating_sub(pass.taken),
                backlog: pass.backlog,
                held_back: pass.held_back,
            };
            self.counts.passes += 1;
            self.counts.passes_incomplete += u64::from(evaluation.incomplete());
            self.closed.insert(pass.key, Remembered { applied: pass.applied, ended: pass.ended, abandoned: false });
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
