//! Lists of runs: all or a page, all runs or those that a search names, counted, with their splits.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use super::error::HistoryError;
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

impl Wanted {
    /// Whether the search names a run. `labels` are read only where there is a search.
    pub(super) fn names(
        &self,
        name: &str,
        title: Option<&str>,
        labels: impl FnOnce() -> Result<BTreeMap<String, String>, HistoryError>,
    ) -> Result<bool, HistoryError> {
        Ok(self.search.is_empty() || self.search.matches(name, title, &labels()?))
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

/// The labels of a declaration, which is JSON.
pub(super) fn labels_of(declaration: &str) -> Result<BTreeMap<String, String>, HistoryError> {
    /// The part of a declaration that a search reads.
    #[derive(Deserialize)]
    struct Labels {
        #[serde(default)]
        labels: BTreeMap<String, String>,
    }
    Ok(serde_json::from_str::<Labels>(declaration)?.labels)
}
