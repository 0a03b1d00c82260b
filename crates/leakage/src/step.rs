//! Steps, ordinals, epochs and ranks: distinct types, because calls take several of them side by side.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::field_error::FieldError;

/// Number of optimiser steps so far, at most 2⁶³ − 1 because the history's integers are signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Step(u64);

impl Step {
    /// Errors in the field `step` above 2⁶³ − 1.
    pub fn new(step: u64) -> Result<Self, FieldError> {
        match i64::try_from(step) {
            Ok(_) => Ok(Self(step)),
            Err(_) => Err(FieldError::new("step", format!("got {step}, expected at most {}", i64::MAX))),
        }
    }

    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of a pass among those that its attempt began of the same split and step, from 1. Each rank counts for itself: ranks
/// run the same evaluations in the same order, so a pass has one number on all of them. One that a rank leaves without ending
/// it has a number, too; otherwise ranks that had ended it would count differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ordinal(u32);

impl Ordinal {
    /// As a client states it. 0 stands for the first: clients that do not count have one pass of each step.
    pub fn stated(ordinal: u32) -> Self {
        Self(ordinal.max(1))
    }

    pub fn get(self) -> u32 {
        self.0
    }

    pub fn is_first(&self) -> bool {
        self.0 == 1
    }
}

impl Default for Ordinal {
    /// The first.
    fn default() -> Self {
        Self(1)
    }
}

/// A pass among those of its split and attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PassKey {
    pub step: Step,
    pub ordinal: Ordinal,
}

impl From<Step> for PassKey {
    /// The first pass of a step.
    fn from(step: Step) -> Self {
        Self { step, ordinal: Ordinal::default() }
    }
}

impl fmt::Display for PassKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ordinal.is_first() {
            true => write!(f, "{}", self.step),
            false => write!(f, "{} (evaluation {} of it)", self.step, self.ordinal.0),
        }
    }
}

/// Number of epochs so far, including the completed fraction of the current one: finite and at least 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(f64);

impl Epoch {
    /// Errors in the field `epoch` unless the number is finite and at least 0.
    pub fn new(epoch: f64) -> Result<Self, FieldError> {
        if epoch.is_finite() && epoch >= 0.0 {
            return Ok(Self(epoch));
        }
        Err(FieldError::new("epoch", format!("got {epoch}, expected a finite number of at least 0")))
    }

    pub fn get(self) -> f64 {
        self.0
    }

    /// The larger of the epochs that are stated: ranks may end in any order.
    pub fn later(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        match (a, b) {
            (Some(a), Some(b)) => Some(Self(a.0.max(b.0))),
            (a, b) => a.or(b),
        }
    }
}

/// Index, from 0, of a process among those that train one model together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rank(u32);

impl Rank {
    /// Errors in the field `rank` unless it is below the number of ranks.
    pub fn of(rank: u32, world_size: u32) -> Result<Self, FieldError> {
        if rank < world_size {
            return Ok(Self(rank));
        }
        let last = world_size.saturating_sub(1);
        Err(FieldError::new("rank", format!("got {rank}, expected 0 to {last} (world_size is {world_size})")))
    }

    /// A rank that was checked when it was declared, or that is only looked up among those that were.
    pub fn stored(rank: u32) -> Self {
        Self(rank)
    }

    pub fn get(self) -> u32 {
        self.0
    }
}
