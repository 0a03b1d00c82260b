//! Runs as the history knows them: who declares one, what is stored of it, and what people say about it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::outcome::RunOutcome;
use leakage::field_error::FieldError;
use leakage::name::check_name;
use leakage::run::Run;
use leakage::sample::{Attempt, Seen, restart_of};
use leakage::step::Rank;

/// The project of runs whose token names none.
pub const DEFAULT_PROJECT: &str = "default";

/// The launch that declares a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The launch's name, equal on all its ranks; empty for an unnamed launch.
    pub job: &'a str,
    /// Restarts of the launch so far.
    pub restart: u32,
    /// This launch continues the run of exactly that name, even if another launch started it.
    pub resume: bool,
    /// The rank that declares itself; not stored for an unnamed launch.
    pub rank: Rank,
    /// The client that sends as this rank.
    pub client: &'a str,
    /// The process that the launcher started as this rank; empty where it is not known. Where it is, `restart` is the
    /// lowest that the rank can belong to: see [`restart_of`](leakage::sample::restart_of).
    pub process: &'a str,
    /// The scheduler's id of the job; may be empty. Like `host`, stored only where hubs show it.
    pub scheduler_job: &'a str,
    /// The machine of the rank; may be empty.
    pub host: &'a str,
}

impl Identity<'_> {
    /// Returns the restart that the rank belongs to, where this much of its launch is `seen`.
    pub(super) fn restart_of(&self, world_size: u32, seen: Seen) -> u32 {
        if self.process.is_empty() { self.restart } else { restart_of(self.restart, world_size, seen) }
    }
}

/// The result of declaring a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// As declared, except for the name if that was taken.
    pub run: Run,
    /// The run existed, with the same declaration. If it had finished, it is open again.
    pub resumed: bool,
    /// Seconds since 1970-01-01 UTC of its first start.
    pub started: f64,
    /// The index of the launch among the run's launches, and the restart that the rank belongs to; `None` for an unnamed
    /// launch.
    pub attempt: Option<Attempt>,
    /// The attempt was already known and the run had not finished: it continues the stored evaluations.
    pub continues: bool,
}

/// A run as declared.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    pub run: Run,
    /// Seconds since 1970-01-01 UTC.
    pub started: f64,
    /// Seconds since 1970-01-01 UTC; absent until the run finishes.
    pub finished: Option<f64>,
    /// How the run ended. Before it finishes: the outcome of a rank that has failed or stopped on advice.
    pub outcome: Option<RunOutcome>,
    /// Jobs may still send to it, so it cannot be removed.
    pub open: bool,
    /// Shown in place of the name, where someone gave it one.
    pub title: Option<String>,
    pub note: Option<String>,
}

/// The part of a run that a selection by label reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledRun {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub finished: bool,
}

/// A launch that names its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLaunch {
    pub job: String,
    /// The highest restart count declared.
    pub restarts: u32,
}

/// A rank that has declared itself, of a launch that names its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRank {
    pub attempt: Attempt,
    pub rank: u32,
    /// The client that declared itself last as this rank.
    pub client: String,
    pub finished: bool,
}

/// Restarts before the newest whose processes are remembered: those that are still alive must not be taken for new ones.
pub(super) const RESTARTS_KEPT: u32 = 3;

/// Most characters of a note.
pub const MAX_NOTE: usize = 10_000;

/// A change of what is said about a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// Shown in place of the run's name, which stays; empty: the name again. `None` leaves the title as it is.
    pub title: Option<String>,
    /// Empty: none. `None` leaves the note as it is.
    pub note: Option<String>,
}

impl Remark {
    /// Returns the title and the note of `run` after this change.
    pub(super) fn applied(
        &self,
        run: &str,
        title: Option<String>,
        note: Option<String>,
    ) -> (Option<String>, Option<String>) {
        let changed = |known: Option<String>, given: &Option<String>| match given {
            Some(given) => Some(given.clone()).filter(|given| !given.is_empty()),
            None => known,
        };
        (changed(title, &self.title).filter(|title| title != run), changed(note, &self.note))
    }

    pub(super) fn check(&self) -> Result<(), FieldError> {
        if let Some(title) = self.title.as_deref().filter(|title| !title.is_empty()) {
            check_name("title", title)?;
        }
        let note = self.note.as_deref().unwrap_or_default();
        let characters = note.chars().count();
        if characters > MAX_NOTE {
            return Err(FieldError::new("note", format!("got {characters} characters, expected at most {MAX_NOTE}")));
        }
        match note.chars().find(|one| one.is_control() && !"\n\t".contains(*one)) {
            Some(one) => {
                let message = format!("has the character {}, expected text in lines", one.escape_unicode());
                Err(FieldError::new("note", message))
            }
            None => Ok(()),
        }
    }
}
