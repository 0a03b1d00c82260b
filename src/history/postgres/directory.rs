//! The part of every run that lists, searches and comparisons read: a fraction of its declaration, the whole of which
//! is read for the runs of a page only.

use std::collections::HashSet;
use std::sync::Arc;

use postgres::Row;

use super::cache::Cached;
use super::change::Changed;
use super::link::Link;
use crate::history::error::HistoryError;
use crate::history::run::LabelledRun;

/// All runs, newest start first.
pub(super) type Directory = Vec<Arc<Entry>>;

pub(super) struct Entry {
    pub id: i64,
    pub started: f64,
    pub title: Option<String>,
    pub run: Arc<LabelledRun>,
}

/// The changes that affect an entry.
const KINDS: [Changed; 4] = [Changed::Declared, Changed::Finished, Changed::Remarked, Changed::Removed];

macro_rules! entries {
    ($condition:literal) => {
        concat!("SELECT id, started, name, title, labels, finished IS NOT NULL FROM run ", $condition)
    };
}

impl Cached<Directory> {
    /// The runs of the snapshot: see [`Cached::current`].
    pub fn runs(&self, link: &mut Link) -> Result<Arc<Directory>, HistoryError> {
        self.current(link, (&KINDS, ""), all, again)
    }
}

fn all(link: &mut Link) -> Result<Directory, HistoryError> {
    let mut found: Directory = link.query(entries!(""), &[])?.iter().map(entry).collect::<Result<_, _>>()?;
    sort(&mut found);
    Ok(found)
}

fn again(link: &mut Link, known: &mut Directory, names: &[String]) -> Result<(), HistoryError> {
    let changed: HashSet<&str> = names.iter().map(String::as_str).collect();
    known.retain(|entry| !changed.contains(entry.run.name.as_str()));
    for row in link.query(entries!("WHERE name = ANY($1)"), &[&names])? {
        known.push(entry(&row)?);
    }
    sort(known);
    Ok(())
}

fn sort(runs: &mut Directory) {
    runs.sort_by(|a, b| b.started.total_cmp(&a.started).then(b.id.cmp(&a.id)));
}

fn entry(row: &Row) -> Result<Arc<Entry>, HistoryError> {
    let run = LabelledRun { name: row.get(2), labels: serde_json::from_str(row.get(4))?, finished: row.get(5) };
    Ok(Arc::new(Entry { id: row.get(0), started: row.get(1), title: row.get(3), run: Arc::new(run) }))
}
