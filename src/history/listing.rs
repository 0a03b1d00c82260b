//! Lists of runs: all or a page, all runs or those that a search names, counted, with their splits. One reading each: between two
//! readings the size limit may remove a run, and whoever asks for its splits would get an error in place of all runs.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use rusqlite::Connection;
use serde::Deserialize;

use super::error::HistoryError;
use super::read::StoredSplit;
use super::runs::StoredRun;
use super::store::History;
use crate::search::Search;

/// Which runs to list; by default all.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub search: Search,
    /// Those after this place, in a list from the newest start on.
    pub after: Option<Cursor>,
    pub most: Option<usize>,
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
    started: f64,
    id: i64,
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

/// The part of a declaration that a search reads.
#[derive(Deserialize)]
struct Labels {
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

impl History {
    pub fn listing(&self, wanted: &Wanted) -> Result<Listing, HistoryError> {
        let store = self.store();
        let (mut found, mut ids, mut more) = (Listing::default(), Vec::new(), false);
        self.each_run(&store.connection, |id, row| {
            let Some(head) = row.head(self)? else { return Ok(()) };
            if !wanted.search.is_empty() {
                let Labels { labels } = serde_json::from_str(row.declaration()?)?;
                if !wanted.search.matches(&head.name, head.title.as_deref(), &labels) {
                    return Ok(());
                }
            }
            found.total += 1;
            let before = |cursor: Cursor| (head.started, id) >= (cursor.started, cursor.id);
            if wanted.after.is_some_and(before) {
                return Ok(());
            }
            if wanted.most.is_some_and(|most| ids.len() >= most) {
                more = true;
                return Ok(());
            }
            ids.push(id);
            found.runs.push((row.run(head)?, Vec::new()));
            Ok(())
        })?;
        let last = found.runs.last().zip(ids.last());
        found.next = last.filter(|_| more).map(|((run, _), id)| Cursor { started: run.started, id: *id });
        let mut splits = splits_of(&store.connection, &ids)?;
        for ((_, of_run), id) in found.runs.iter_mut().zip(&ids) {
            *of_run = splits.remove(id).unwrap_or_default();
        }
        Ok(found)
    }

    /// One run with its splits. Errors when it is unknown.
    pub fn listed(&self, name: &str) -> Result<(StoredRun, Vec<StoredSplit>), HistoryError> {
        let store = self.store();
        let (id, run) = self.one_run(&store.connection, name)?;
        let splits = splits_of(&store.connection, &[id])?.remove(&id).unwrap_or_default();
        Ok((run, splits))
    }
}

/// The splits of runs that have points, by name.
fn splits_of(connection: &Connection, runs: &[i64]) -> Result<BTreeMap<i64, Vec<StoredSplit>>, HistoryError> {
    let mut statement = connection.prepare_cached(
        "SELECT run, split, count(*), max(step) FROM point WHERE run IN (SELECT value FROM json_each(?1)) \
         GROUP BY run, split ORDER BY run, split",
    )?;
    let mut rows = statement.query([serde_json::to_string(runs)?])?;
    let mut splits: BTreeMap<i64, Vec<StoredSplit>> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (points, last_step): (i64, i64) = (row.get(2)?, row.get(3)?);
        splits.entry(row.get(0)?).or_default().push(StoredSplit {
            split: row.get(1)?,
            points: points.cast_unsigned(),
            last_step: last_step.cast_unsigned(),
        });
    }
    Ok(splits)
}
