//! Attempts whose ranks send to several sidecars: their passes stay open here until the hub says how they ended.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::history::Ending;
use crate::lock::lock;
use crate::run::SplitKey;
use crate::sample::{Attempt, Begun, Part, Split, Unfinished};
use crate::server::settlement::Pass;
use crate::step::{PassKey, Rank};

use super::registry::{Finished, Intake, Running, Runs};

/// An open pass of a shared attempt that a rank here has ended.
#[derive(Clone, Debug)]
pub struct SharedPass {
    pub key: SplitKey,
    pub pass: PassKey,
    /// Ranks that have ended it, ascending.
    pub ended: Vec<Rank>,
    /// Every rank here has ended it, or finished.
    pub is_whole: bool,
    /// Time since the first rank's end.
    pub age: Duration,
}

impl Runs {
    /// Stops closing passes of an attempt here. `ended` is notified when a rank has ended one.
    pub fn share(&self, running: &Running, attempt: Attempt, ended: Arc<Notify>) {
        let (mut state, now) = (lock(&running.state), self.now());
        state.shared.insert(attempt, ended);
        for sampler in state.splits.values_mut().filter_map(|intake| of_attempt(intake, attempt)) {
            sampler.share(true, now);
        }
    }

    /// All ranks of an attempt have declared themselves here after all: passes close here again once all have ended them.
    pub fn share_no_longer(&self, running: &Running, attempt: Attempt) {
        let (mut state, now) = (lock(&running.state), self.now());
        state.shared.remove(&attempt);
        for intake in state.splits.values_mut() {
            let closed = of_attempt(intake, attempt).map(|sampler| sampler.share(false, now)).unwrap_or_default();
            self.closed(intake, closed);
        }
    }

    /// The open passes of a shared attempt that ranks here have ended, oldest first in each split; `here` are all its ranks
    /// here. `None` once the run is over.
    pub fn shared_passes(&self, running: &Running, attempt: Attempt, here: &BTreeSet<Rank>) -> Option<Vec<SharedPass>> {
        let (mut state, now) = (lock(&running.state), self.now().elapsed);
        if state.removed || state.finished.is_some() {
            return None;
        }
        let mut passes = Vec::new();
        for intake in state.splits.values_mut() {
            let key = intake.key.clone();
            let Some(sampler) = of_attempt(intake, attempt) else { continue };
            passes.extend(sampler.begun().map(|Begun { pass, ended, since }| SharedPass {
                is_whole: here.iter().all(|rank| ended.contains(rank)),
                age: now.saturating_sub(since),
                key: key.clone(),
                pass,
                ended,
            }));
        }
        Some(passes)
    }

    /// Whether an attempt newer than this one has declared itself.
    pub fn is_replaced(&self, running: &Running, attempt: Attempt) -> bool {
        lock(&running.state).members.newest().is_some_and(|newest| newest > attempt)
    }

    /// The part of an open pass that is held here, without rows of a priority above `cutoff`.
    pub fn part(&self, running: &Running, pass: &Pass, cutoff: Option<u64>) -> Option<Part> {
        let mut state = lock(&running.state);
        let intake = state.splits.get_mut(&*pass.key.split)?;
        of_attempt(intake, pass.attempt)?.part(pass.at, cutoff)
    }

    /// Frees the rows of a pass that has ended at the hub.
    pub fn settle_shared(&self, running: &Running, pass: &Pass) -> Option<Unfinished> {
        let mut state = lock(&running.state);
        let intake = state.splits.get_mut(&*pass.key.split)?;
        let settled = of_attempt(intake, pass.attempt)?.settle(pass.at);
        self.closed(intake, Vec::new());
        settled
    }

    /// Frees the rows of an open pass and records why it has no point.
    pub fn abandon_shared(&self, running: &Running, pass: &Pass, ending: Ending, reason: &str) {
        if let Some(unfinished) = self.settle_shared(running, pass) {
            self.outlet.abandon(pass, &unfinished, ending, reason);
        }
    }

    /// Records that a pass was settled without the hub.
    pub(super) fn give_up(&self, intake: &mut Intake, unfinished: &Unfinished, reason: &str) {
        if let Some(attempt) = intake.sampler.as_ref().and_then(Split::attempt) {
            let pass = Pass { key: intake.key.clone(), attempt, at: unfinished.pass };
            self.outlet.abandon(&pass, unfinished, Ending::Failed, reason);
        }
        self.closed(intake, Vec::new());
    }

    /// All ranks of a shared attempt that are here have finished, and its passes have ended. Returns whether the run ends here.
    pub fn finish_shared(&self, running: &Running, attempt: Attempt) -> bool {
        let (mut state, now) = (lock(&running.state), self.now());
        if state.shared.remove(&attempt).is_none() || state.finished.is_some() || state.removed {
            return false;
        }
        self.end(&mut state, attempt, now) == Finished::Run
    }
}

/// The sampler of a split, if this attempt sends to it.
fn of_attempt(intake: &mut Intake, attempt: Attempt) -> Option<&mut Split> {
    intake.sampler.as_mut().filter(|sampler| sampler.attempt() == Some(attempt))
}
