//! Windows: which rows a split's sample is drawn from, how that is set, and what a split answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::attempt::Attempt;
use super::bottom_k::Sampling;
use super::evaluation::Evaluation;
use crate::fault::Fault;
use crate::step::Step;

/// Which rows a split's sample is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowKind {
    /// One pass over an evaluation set with a frozen model. The sample is complete when every rank has ended it.
    Pass,
    /// Recent steps: a row's weight halves every half-life.
    Recent,
    /// All rows since the run started; of a row that comes again, the newest step.
    All,
}

/// How a split samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SplitOptions {
    pub window: WindowKind,
    pub sampling: Sampling,
    /// Steps in which the weight of a row halves, in `recent` windows; finite and above 0.
    pub half_life_steps: f64,
    /// Time from the first rank's end of a pass to its close without the others.
    pub pass_deadline: Duration,
    /// Time without a batch after which a pass that no rank has ended is closed.
    pub idle_deadline: Duration,
    /// Passes open at a time, at least 1. One more closes the one that was opened first.
    pub open_passes: usize,
}

impl Default for SplitOptions {
    fn default() -> Self {
        Self {
            window: WindowKind::Pass,
            sampling: Sampling::default(),
            half_life_steps: 500.0,
            pass_deadline: Duration::from_secs(120),
            idle_deadline: Duration::from_secs(1800),
            open_passes: 2,
        }
    }
}

impl SplitOptions {
    /// Errors naming the option that is out of range.
    pub fn check(&self) -> Result<(), Fault> {
        if !(1..=1 << 31).contains(&self.sampling.rows) {
            return Err(Fault::new("sampling.rows", format!("got {}, expected 1 to 2^31", self.sampling.rows)));
        }
        if !self.half_life_steps.is_normal() || self.half_life_steps < 1e-9 {
            return Err(Fault::new(
                "half_life_steps",
                format!("got {} steps, expected a finite number above 0", self.half_life_steps),
            ));
        }
        if self.open_passes == 0 {
            return Err(Fault::new("open_passes", "got 0, expected at least 1"));
        }
        Ok(())
    }

    /// λ, per step.
    pub(super) fn decay(&self) -> f64 {
        match self.window {
            WindowKind::Recent => std::f64::consts::LN_2 / self.half_life_steps,
            WindowKind::Pass | WindowKind::All => 0.0,
        }
    }
}

/// A batch that was applied, or was in already.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Rows of the batch that could be taken: all but those with a non-finite value.
    pub rows: u64,
    /// Of these, rows recognised as known at this step.
    pub duplicates: u64,
    /// Rows left out by policy because they hold a non-finite value.
    pub dropped: u64,
    /// Passes that had to close because this batch opened one.
    pub closed: Vec<Evaluation>,
    /// The sender's attempt began with this in the split, or came to an earlier step than before.
    pub began: Option<Began>,
}

/// A rank's end of a pass that was noted, or was known already.
#[derive(Clone, Debug)]
pub struct EndedPass {
    pub duplicate: bool,
    /// The pass, if this was its last rank, and passes that had to close because this opened one.
    pub closed: Vec<Evaluation>,
    /// As of a batch.
    pub began: Option<Began>,
}

/// An attempt and what it found when it began in a split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Began {
    pub attempt: Attempt,
    /// The earliest step that it has come to.
    pub first_step: Step,
    /// Passes of the attempt before it that were open. They are discarded.
    pub discarded: Vec<Step>,
    /// Rows of those passes.
    pub rows_discarded: u64,
}

/// Why a batch or an end of a pass was not applied. Nothing of it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The pass is closed. Sending it again will not help.
    #[error("step: the pass of step {step} is closed already, batches for it are too late")]
    Late { step: Step },
    /// The sample this batch was staged for was started again meanwhile. Stage the batch again.
    #[error("step: the sample of step {step} was started again while the batch arrived, send the batch again")]
    Restarted { step: Step },
    /// A newer attempt of the run sends to the split. Sending it again will not help.
    #[error("attempt: a newer attempt of the run has begun, nothing more of this one is taken")]
    OlderAttempt,
    /// The tensors differ from earlier batches. Sending it again will not help.
    #[error(transparent)]
    Invalid(#[from] Fault),
}

/// Rows of a split since it was created. Each is counted in one of `received`, `late`, `refused` and `dropped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows of applied batches, duplicates included.
    pub received: u64,
    /// Rows refused because their pass was closed.
    pub late: u64,
    /// Rows refused because of their schema, or because a newer attempt has begun.
    pub refused: u64,
    /// Rows of passes that a newer attempt discarded.
    pub discarded: u64,
    /// Rows left out by policy because they hold a non-finite value.
    pub dropped: u64,
    /// Of `received`, rows recognised as known at their step.
    pub duplicate: u64,
    /// Rows that jobs did not send because their priorities show that no sample can hold them.
    pub left_out: u64,
    /// Passes closed, and those of them that lacked a rank.
    pub passes: u64,
    pub passes_incomplete: u64,
}
