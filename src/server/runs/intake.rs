//! What a run takes in: staged batches, and ends of passes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::fault::Fault;
use crate::sample::{ClosedPass, Committed, Counts, Source, Split, Staged};

use super::super::status::Refusal;
use super::{MAX_SPLITS, Ready, Running, Runs, SplitState, State, check_rank, lock, unix_time};

impl Runs {
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
        let growth = split.sampler()?.growth(&staged);
        if self.memory.load(Ordering::Relaxed) + growth > self.options.memory {
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

    /// For how long the evaluation of a split that waits will not be scored, as far as is known.
    pub fn wait(&self, running: &Running, split: &str) -> Duration {
        self.scorer.wait(running, split)
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
            slow: None,
            settled: None,
            filling: false,
        });
        split.split.get_or_insert_with(|| Split::new(options(), &running.run));
        Ok(split)
    }

    /// Hands closed passes on, and brings the count of the split's memory up to date.
    pub(super) fn closed(&self, running: &Arc<Running>, split: &mut SplitState, closed: Vec<ClosedPass>) {
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
