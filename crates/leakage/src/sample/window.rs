//! Windows: the rows that a split's sample is drawn from, the options of a split, and the results of its operations.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::attempt::Attempt;
use super::bottom_k::Sampling;
use super::evaluation::Evaluation;
use crate::field_error::FieldError;
use crate::step::{Epoch, PassKey, Step};

/// The rows that a split's sample is drawn from.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum WindowKind {
    /// One pass over an evaluation set with a frozen model. The sample is complete when every rank has ended it.
    Pass,
    /// Recent steps: a row's weight halves every half-life.
    Recent,
    /// All rows since the run started; a row sent again keeps its newest step.
    All,
}

/// Sampling options of a split.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SplitOptions {
    pub window: WindowKind,
    pub sampling: Sampling,
    /// In `recent` windows, the number of steps in which the weight of a row halves; finite and above 0.
    pub half_life_steps: f64,
    /// Time from the first rank's end of a pass until it is closed without the others.
    pub pass_deadline: Duration,
    /// Time without a batch after which a pass that no rank has ended is closed.
    pub idle_deadline: Duration,
    /// Maximum number of open passes, at least 1. Opening one more closes the one opened first. Memory is the bound that
    /// matters: ranks far out of step have many passes open.
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
            open_passes: 1024,
        }
    }
}

impl SplitOptions {
    /// Errors with the name of an option that is out of range.
    pub fn check(&self) -> Result<(), FieldError> {
        if !(1..=1 << 31).contains(&self.sampling.rows) {
            return Err(FieldError::new("sampling.rows", format!("got {}, expected 1 to 2^31", self.sampling.rows)));
        }
        if !self.half_life_steps.is_normal() || self.half_life_steps < 1e-9 {
            return Err(FieldError::new(
                "half_life_steps",
                format!("got {} steps, expected a finite number above 0", self.half_life_steps),
            ));
        }
        if self.open_passes == 0 {
            return Err(FieldError::new("open_passes", "got 0, expected at least 1"));
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

/// Result of a batch that was applied, now or earlier.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Acceptable rows of the batch: all but those with a non-finite value.
    pub rows: u64,
    /// Acceptable rows already known at this step.
    pub duplicates: u64,
    /// Rows left out by policy because they hold a non-finite value.
    pub dropped: u64,
    /// The largest priority that a row may have and still be sampled in this pass; see [`BottomK::bound`].
    pub bound: Option<u64>,
    /// Passes closed because this batch opened one.
    pub closed: Vec<Evaluation>,
    /// Set when the sender's attempt began in this split, or reached an earlier step than before.
    pub began: Option<Began>,
}

/// The statement of a rank that it has sent all its rows of a pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EndOfPass {
    pub pass: PassKey,
    pub epoch: Option<Epoch>,
    /// Rows that the rank logged, those left out included; 0 if not stated.
    pub rows: u64,
    /// Earlier passes of the split that the client held back and did not send.
    pub held_back: u64,
    /// The pass waited while the sidecar could not be reached.
    pub backlog: bool,
}

/// A pass that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    pub pass: PassKey,
    /// Rows of applied batches, including those left out and dropped.
    pub rows: u64,
    /// Ranks that have ended it, of those of the attempt.
    pub ended: u32,
    pub ranks: u32,
}

/// Result of a rank's end of a pass that was recorded, now or earlier.
#[derive(Clone, Debug)]
pub struct EndedPass {
    pub duplicate: bool,
    /// The pass, if this was its last rank, and passes closed because this one was opened.
    pub closed: Vec<Evaluation>,
    /// As in [`Committed`].
    pub began: Option<Began>,
}

/// Result of a rank's leaving a pass without ending it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abandoned {
    /// The pass was settled, or discarded, before.
    pub duplicate: bool,
    /// The pass as it was when it was discarded; `None` where nothing of it had arrived.
    pub discarded: Option<Unfinished>,
    /// As in [`Committed`].
    pub began: Option<Began>,
}

/// An attempt and the state in which it found a split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Began {
    pub attempt: Attempt,
    /// The earliest step it has reached.
    pub first_step: Step,
    /// The attempt before it; `None` if this is the first, or only reached an earlier step.
    pub previous: Option<Attempt>,
    /// Open passes of the previous attempt, which are discarded.
    pub discarded: Vec<Unfinished>,
    /// Rows of those passes.
    pub rows_discarded: u64,
}

/// Why a batch or an end of a pass was not applied, not even in part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The pass is closed. Not worth a retry.
    #[error(
        "step {pass} of '{split}' has already been evaluated; this batch was dropped. Use a new step for each evaluation"
    )]
    Late { split: Arc<str>, pass: PassKey },
    /// A rank has left the pass without ending it. Not worth a retry.
    #[error(
        "step {pass} of '{split}': this evaluation was left by an exception and is discarded, and this batch with it"
    )]
    Abandoned { split: Arc<str>, pass: PassKey },
    /// The sample that this batch was staged for has been reset. Stage the batch again.
    #[error("step: the sample of step {step} was reset while the batch arrived, send the batch again")]
    Restarted { step: Step },
    /// A newer attempt of the run sends to the split. Not worth a retry.
    #[error("attempt: got an older attempt of the run, expected the newest")]
    OlderAttempt,
    /// The tensors differ from earlier batches. Not worth a retry.
    #[error(transparent)]
    Invalid(#[from] FieldError),
}

/// Row counts of a split since it was created. Each row counts in one of `received`, `late`, `refused` and `dropped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Rows of applied batches, duplicates included.
    pub received: u64,
    /// Rows refused because their pass was closed.
    pub late: u64,
    /// Rows refused because of their schema, or because a newer attempt has begun.
    pub refused: u64,
    /// Rows of passes that were discarded: a newer attempt began, or a rank left them without ending them.
    pub discarded: u64,
    /// Rows left out by policy because they hold a non-finite value.
    pub dropped: u64,
    /// Rows of `received` that were already known at their step.
    pub duplicate: u64,
    /// Rows that jobs left out because their priorities show that no sample can hold them.
    pub left_out: u64,
    /// Passes closed, and how many of them lacked a rank.
    pub passes: u64,
    pub passes_incomplete: u64,
}
