//! The rolling windows of the runs: when one is due to be scored or saved, and how a new process continues it.

use std::sync::Arc;
use std::time::Duration;

use leakage::lock::lock;
use leakage::run::SplitKey;
use leakage::sample::{SavedWindow, Split, WindowKind};

use crate::server::board::Beginning;

use super::lifecycle::Runs;
use super::run::{Frozen, Running, State};

impl Runs {
    /// Continues the rolling windows of an earlier process in splits that this one has received nothing for.
    pub(super) fn restore(
        &self,
        running: &Arc<Running>,
        state: &mut State,
        windows: Vec<(String, SavedWindow)>,
        named: bool,
    ) {
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
                        let beginning = Beginning { attempt, since: f64::NEG_INFINITY, first_step, rolling: true };
                        running.board.begin(&intake.key.split, beginning);
                    }
                    self.closed(running, intake, Vec::new());
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
        for running in self.registry.all() {
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
        let Some(running) = self.registry.get(&key.run) else { return false };
        let state = lock(&running.state);
        state.splits.get(&*key.split).is_some_and(|intake| intake.sampler.is_some())
    }

    /// All rolling samples: split, rows changed since the last snapshot, and rows held.
    pub fn rolling(&self) -> Vec<(SplitKey, usize, usize)> {
        let mut rolling = Vec::new();
        for running in self.registry.all() {
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
    pub fn snapshot(&self, key: &SplitKey) -> Option<Frozen> {
        let running = self.registry.get(&key.run)?;
        let mut state = lock(&running.state);
        let evaluation = state.splits.get_mut(&*key.split)?.sampler.as_mut()?.snapshot(self.now())?;
        drop(state);
        Some(Frozen { running, evaluation })
    }
}
