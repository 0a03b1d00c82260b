//! Stored rows that do not match their checksum: which were met since the history was opened.

use std::collections::{BTreeSet, HashSet};
use std::sync::Mutex;

/// Points named in memory; beyond it they are only counted.
const NAMED: usize = 10_000;

/// The notes of a history since it was opened.
#[derive(Default)]
pub(super) struct Session {
    pub damage: Mutex<Damage>,
    /// Names of unfinished runs that were declared.
    pub declared: Mutex<HashSet<String>>,
}

#[derive(Default)]
pub(super) struct Damage {
    points: BTreeSet<(String, String, u64)>,
    others: BTreeSet<String>,
}

impl Damage {
    /// A point, or a matrix of it, that is left out of all answers.
    pub fn point(&mut self, run: &str, split: &str, step: u64) {
        if self.points.len() < NAMED && self.points.insert((run.to_owned(), split.to_owned(), step)) {
            tracing::error!(
                run,
                split,
                step,
                "a stored point does not match its checksum and is left out; `conceptwatch doctor` examines the history"
            );
        }
    }

    /// A row of another kind.
    pub fn other(&mut self, what: String) {
        if self.others.len() < NAMED && !self.others.contains(&what) {
            tracing::error!(
                "{what} does not match its checksum and is left out; `conceptwatch doctor` examines the history"
            );
            self.others.insert(what);
        }
    }

    pub fn count(&self) -> u64 {
        (self.points.len() + self.others.len()) as u64
    }

    /// Steps of a split's damaged points, ascending.
    pub fn steps<'a>(&'a self, run: &'a str, split: &'a str) -> impl Iterator<Item = u64> + 'a {
        let of_split = move |(r, s, _): &&(String, String, u64)| r == run && s == split;
        self.points.iter().filter(of_split).map(|(_, _, step)| *step)
    }
}
