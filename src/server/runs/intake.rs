//! Applies staged batches and ends of passes to the samplers of a run.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::history::Ending;
use crate::server::board::Beginning;
use crate::server::pass_outcomes::{Mailbox, Pass};
use crate::server::refusal::Refusal;
use leakage::field_error::FieldError;
use leakage::lock::lock;
use leakage::run::SplitKey;
use leakage::sample::{
    Abandoned, Began, Committed, Counts, EndOfPass, Evaluation, Member, Now, Source, Split, Staged, StatedRank,
    Unfinished, WindowKind,
};
use leakage::step::{Epoch, PassKey};

use super::lifecycle::Runs;
use super::run::{Frozen, Intake, Running, State};

/// Maximum number of splits of a run. Clients choose the names, so their number is bounded.
const MAX_SPLITS: usize = 16;

/// The origin and position of a client's message: split, pass, client and rank.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    pub split: &'a str,
    pub pass: PassKey,
    pub epoch: Option<Epoch>,
    pub source: Source,
    /// As stated in the message; not checked yet.
    pub rank: u32,
}

/// The effect of an end of a pass.
#[derive(Clone, Debug)]
pub struct Ended {
    pub pass: Pass,
    pub duplicate: bool,
    /// The stream will be told when the pass is settled. If not, it was settled before, or the split's window has no
    /// passes.
    pub awaited: bool,
    pub window: WindowKind,
}

impl Runs {
    /// Notes that a stream serves all runs of a client, also those that send nothing for long.
    pub fn attend(&self, client: u64, stream: &Arc<Mailbox>) {
        for running in self.registry.all() {
            let mut state = lock(&running.state);
            if state.members.knows(client) {
                state.attend(stream);
            }
        }
    }

    /// Starts staging one batch of a split, which comes by `stream`. Errors when the run has finished, has too many splits, or
    /// the client's attempt or rank is invalid.
    pub fn stage(&self, running: &Running, sent: Sent<'_>, stream: &Arc<Mailbox>) -> Result<Staged, Refusal> {
        let mut state = lock(&running.state);
        state.attend(stream);
        let member = self.member(running, &mut state, sent)?;
        check_split(running, &state, sent.split)?;
        // The split is created when its first batch is applied, so that a refused batch leaves no split behind.
        match state.splits.get(sent.split).and_then(|intake| intake.sampler.as_ref()) {
            Some(sampler) => Ok(sampler.stage(sent.pass, sent.source, member)),
            None => Ok(self.sampler(running, sent.split).stage(sent.pass, sent.source, member)),
        }
    }

    /// Counts rows of a batch that was refused before it reached its sampler.
    pub fn refused(&self, run: &str, split: &str, rows: u64) {
        let Some(running) = self.registry.get(run) else { return };
        if let Some(intake) = lock(&running.state).splits.get_mut(split) {
            intake.refused += rows;
            intake.show(&running.board);
        }
    }

    /// Applies a batch atomically. Where there is no room for it, runs whose clients are gone give theirs. Errors when the
    /// samples' memory limit is reached all the same, or the batch is refused.
    pub fn commit(
        &self,
        running: &Arc<Running>,
        split: &str,
        staged: Staged,
        epoch: Option<Epoch>,
        rows_left_out: u64,
    ) -> Result<Committed, Refusal> {
        let (mut state, now) = loop {
            let mut state = lock(&running.state);
            let intake = self.intake(running, &mut state, split)?;
            let now = self.now();
            intake.heard = now.elapsed;
            match self.make_room(running, intake, &staged, now) {
                Ok(()) => break (state, now),
                Err(full) => {
                    drop(state);
                    if !self.forget_unattended() {
                        return Err(full);
                    }
                }
            }
        };
        let (member, step) = (staged.member(), staged.pass().step);
        let intake = self.intake(running, &mut state, split)?;
        let committed = intake.sampler()?.commit(staged, epoch, rows_left_out, now);
        let mut committed = committed.inspect_err(|_| intake.show(&running.board))?;
        state.members.reached(member, step, now.elapsed);
        state.heard = now.elapsed;
        self.began(running, &mut state, split, committed.began.take(), now);
        let closed = std::mem::take(&mut committed.closed);
        self.closed(running, self.intake(running, &mut state, split)?, closed);
        Ok(committed)
    }

    /// Notes that a rank has ended a pass, which is that of the message. `stream` is told when the pass is settled.
    pub fn end_pass(
        &self,
        running: &Arc<Running>,
        sent: Sent<'_>,
        end: EndOfPass,
        stream: &Arc<Mailbox>,
    ) -> Result<Ended, Refusal> {
        let mut state = lock(&running.state);
        state.attend(stream);
        let member = self.member(running, &mut state, sent)?;
        let intake = self.intake(running, &mut state, sent.split)?;
        let now = self.now();
        (intake.heard, state.heard) = (now.elapsed, now.elapsed);
        state.members.reached(member, sent.pass.step, now.elapsed);
        let intake = self.intake(running, &mut state, sent.split)?;
        let window = intake.window;
        let pass = Pass { key: intake.key.clone(), attempt: member.attempt, at: sent.pass };
        let ended = intake.sampler()?.end_pass(end, member, now);
        let awaited = match &ended {
            Ok(_) if window != WindowKind::Pass => false,
            // Before the pass is passed on, so that it is not settled unnoticed.
            Ok(ended) if !ended.duplicate => {
                self.settlement.expect(pass.clone(), Some(stream));
                true
            }
            // The pass is known, or was closed without this rank, which is still to learn its outcome.
            _ => self.settlement.join(&pass, stream),
        };
        let ended = ended?;
        self.began(running, &mut state, sent.split, ended.began, now);
        self.closed(running, self.intake(running, &mut state, sent.split)?, ended.closed);
        Ok(Ended { pass, duplicate: ended.duplicate, awaited, window })
    }

    /// Discards a pass that a rank has left without ending it, and records that. Returns whether it was settled or discarded
    /// before.
    pub fn abandon_pass(&self, running: &Arc<Running>, sent: Sent<'_>, why: &str) -> Result<bool, Refusal> {
        let mut state = lock(&running.state);
        let member = self.member(running, &mut state, sent)?;
        let now = self.now();
        state.heard = now.elapsed;
        state.members.reached(member, sent.pass.step, now.elapsed);
        let intake = self.intake(running, &mut state, sent.split)?;
        intake.heard = now.elapsed;
        let key = intake.key.clone();
        let Abandoned { duplicate, discarded, began } = intake.sampler()?.abandon(sent.pass, member)?;
        self.began(running, &mut state, sent.split, began, now);
        if !duplicate {
            let ranks = member.world_size;
            let unfinished = discarded.unwrap_or(Unfinished { pass: sent.pass, rows: 0, ended: 0, ranks });
            let of_rank = if ranks > 1 { format!("rank {}", member.rank.get()) } else { "the job".to_owned() };
            let reason = format!("{of_rank} left the evaluation without ending it: {why}");
            self.metrics.passes_discarded.inc();
            self.metrics.rows_dropped.with_label_values(&["discarded"]).inc_by(unfinished.rows);
            let pass = Pass { key, attempt: member.attempt, at: sent.pass };
            self.report(&pass, &unfinished, Ending::Discarded, &reason);
        }
        self.closed(running, self.intake(running, &mut state, sent.split)?, Vec::new());
        Ok(duplicate)
    }

    /// The pass that a message is about.
    pub fn pass(&self, running: &Running, sent: Sent<'_>) -> Result<Pass, Refusal> {
        let mut state = lock(&running.state);
        let member = self.member(running, &mut state, sent)?;
        let key = SplitKey::new(Arc::clone(&running.name), sent.split);
        Ok(Pass { key, attempt: member.attempt, at: sent.pass })
    }

    /// Discards what was sent again of a pass that is settled.
    pub fn drop_pass(&self, running: &Arc<Running>, pass: &Pass) {
        let mut state = lock(&running.state);
        let Some(intake) = state.splits.get_mut(&*pass.key.split) else { return };
        let own = |sampler: &&mut Split| sampler.attempt() == Some(pass.attempt);
        let Some(sampler) = intake.sampler.as_mut().filter(own) else { return };
        self.metrics.rows_duplicate.inc_by(sampler.drop_pass(pass.at));
        self.closed(running, intake, Vec::new());
    }

    fn member(&self, running: &Running, state: &mut State, sent: Sent<'_>) -> Result<Member, FieldError> {
        let stated = StatedRank { rank: sent.rank, world_size: running.run.world_size };
        state.members.sends(sent.source.client, stated, self.now().elapsed)
    }

    fn sampler(&self, running: &Running, split: &str) -> Split {
        let key = SplitKey::new(Arc::clone(&running.name), split);
        Split::new(key, self.options.split(split), Arc::clone(&running.run))
    }

    /// The intake of a split, created with its first batch.
    pub(super) fn intake<'s>(
        &self,
        running: &Running,
        state: &'s mut State,
        name: &str,
    ) -> Result<&'s mut Intake, Refusal> {
        check_split(running, state, name)?;
        let (held, now) = (state.held.is_some(), self.now());
        let intake = state.splits.entry(name.to_owned()).or_insert_with(|| Intake {
            key: SplitKey::new(Arc::clone(&running.name), name),
            sampler: None,
            window: self.options.window(name),
            counts: Counts::default(),
            refused: 0,
            bytes: 0,
            heard: Duration::ZERO,
            saved: None,
        });
        intake.sampler.get_or_insert_with(|| {
            let mut sampler = self.sampler(running, name);
            sampler.hold(held, now);
            sampler
        });
        Ok(intake)
    }

    /// Makes room for a batch: closes the pass of its split that was opened first, as long as there is another one.
    /// Errors when even that does not suffice.
    fn make_room(&self, running: &Arc<Running>, intake: &mut Intake, staged: &Staged, now: Now) -> Result<(), Refusal> {
        let limit = self.options.open_memory();
        loop {
            let sampler = intake.sampler()?;
            if self.memory.load(Ordering::Relaxed).saturating_add(sampler.growth(staged)) <= limit {
                return Ok(());
            }
            let Some(oldest) = sampler.close_oldest(staged.pass(), now) else {
                return Err(Refusal::NoRoom { split: intake.key.split.to_string(), limit });
            };
            self.closed(running, intake, vec![oldest]);
        }
    }

    /// Reports that an attempt began in a split with a message of `now`, and counts what was discarded of the previous one.
    fn began(&self, running: &Running, state: &mut State, split: &str, began: Option<Began>, now: Now) {
        let Some(Began { attempt, first_step, previous, discarded, rows_discarded }) = began else { return };
        if let Some((previous, intake)) = previous.zip(state.splits.get(split)) {
            for unfinished in &discarded {
                let pass = Pass { key: intake.key.clone(), attempt: previous, at: unfinished.pass };
                self.report(&pass, unfinished, Ending::Discarded, "a newer attempt of the run began");
            }
        }
        if !discarded.is_empty() {
            self.metrics.passes_discarded.inc_by(discarded.len() as u64);
            self.metrics.rows_dropped.with_label_values(&["discarded"]).inc_by(rows_discarded);
            let steps: Vec<u64> = discarded.iter().map(|unfinished| unfinished.pass.step.get()).collect();
            tracing::warn!(
                run = %running.name, %split, ?steps, rows = rows_discarded,
                "a newer attempt of the run began: the open passes of the previous attempt were discarded"
            );
        }
        let Some(intake) = state.splits.get_mut(split) else { return };
        let beginning = Beginning {
            attempt,
            // The time of the message, which may be that of the first evaluation, too.
            since: if state.members.continues(attempt) { f64::NEG_INFINITY } else { now.unix },
            first_step,
            rolling: intake.window != WindowKind::Pass,
        };
        running.board.begin(&intake.key.split, beginning);
    }

    /// Passes closed evaluations on for scoring, and updates the counts of the split.
    pub(super) fn closed(&self, running: &Arc<Running>, intake: &mut Intake, closed: Vec<Evaluation>) {
        for evaluation in closed {
            let (key, step) = (&evaluation.key, evaluation.step);
            let incomplete = evaluation.incomplete();
            let counter = if incomplete { &self.metrics.passes_incomplete } else { &self.metrics.passes_closed };
            counter.inc();
            if incomplete {
                tracing::warn!(
                    run = %key.run, split = %key.split, %step, ranks_missing = evaluation.ranks_missing,
                    rows_missing = evaluation.rows_missing,
                    "a pass is incomplete"
                );
            }
            (self.outlet)(Frozen { running: Arc::clone(running), evaluation });
        }
        let bytes = intake.sampler.as_ref().map_or(0, Split::bytes);
        self.memory.fetch_add(bytes, Ordering::Relaxed);
        self.memory.fetch_sub(intake.bytes, Ordering::Relaxed);
        intake.bytes = bytes;
        intake.show(&running.board);
        self.show_memory();
    }
}

fn check_split(running: &Running, state: &State, name: &str) -> Result<(), Refusal> {
    if state.removed {
        return Err(Refusal::Forgotten(running.run.name.clone()));
    }
    if state.finished.is_some() {
        return Err(Refusal::Finished(running.run.name.clone()));
    }
    if !state.splits.contains_key(name) && state.splits.len() >= MAX_SPLITS {
        let known: Vec<&str> = state.splits.keys().map(String::as_str).collect();
        let message =
            format!("got '{name}' as split {}, expected at most {MAX_SPLITS}: {}", MAX_SPLITS + 1, known.join(", "));
        return Err(FieldError::new("split", message).into());
    }
    Ok(())
}
