//! Lists of runs: all or a page, all runs or those that a search names, counted, with their splits.

use std::fmt;
use std::str::FromStr;

use super::run::StoredRun;
use crate::search::Search;

/// A split with stored points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSplit {
    pub split: String,
    pub points: u64,
    /// The highest step of a point.
    pub last_step: u64,
}

/// The selection of runs to list; by default all.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub search: Search,
    /// The place after which to list, in a list from the newest start on.
    pub after: Option<Cursor>,
    pub most: Option<usize>,
}

/// A page of runs in the making.
#[derive(Default)]
pub(super) struct Page {
    /// The numbers of its runs.
    pub ids: Vec<i64>,
    pub total: u64,
    pub next: Option<Cursor>,
    last: Option<Cursor>,
}

impl Page {
    /// Adds a run that the search names, after all that started later.
    pub fn add(&mut self, wanted: &Wanted, started: f64, id: i64) {
        self.total += 1;
        if wanted.after.is_some_and(|cursor| (started, id) >= (cursor.started, cursor.id)) {
            return;
        }
        if wanted.most.is_some_and(|most| self.ids.len() >= most) {
            self.next = self.last;
            return;
        }
        self.ids.push(id);
        self.last = Some(Cursor { started, id });
    }
}

/// Runs from the newest start on, each with its splits that have points, by name.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    pub runs: Vec<(StoredRun, Vec<StoredSplit>)>,
    /// Runs that the search names, on all pages.
    pub total: u64,
    /// Where the next page begins; `None` after the last.
    pub next: Option<Cursor>,
}

/// A place in the list of runs, which runs that start meanwhile do not move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cursor {
    pub(super) started: f64,
    pub(super) id: i64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:x}", self.started.to_bits(), self.id)
    }
}

impl FromStr for Cursor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = text.split_once('-').and_then(|(started, id)| {
            let started = f64::from_bits(u64::from_str_radix(started, 16).ok()?);
            Some(Self { started, id: i64::from_str_radix(id, 16).ok()? })
        });
        parsed
            .filter(|cursor| cursor.started.is_finite())
            .ok_or("expected what an earlier answer named as the next page")
    }
}
