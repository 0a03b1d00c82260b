//! The part of every run that lists, searches and comparisons read: a fraction of its declaration, the whole of which
//! is read for the runs of a page only.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use postgres::Row;

use super::cache::Cached;
use super::link::Link;
use crate::history::error::HistoryError;
use crate::history::run::LabelledRun;

/// All runs, newest start first.
pub(super) type Directory = Cached<Vec<Arc<Entry>>>;

pub(super) struct Entry {
    pub id: i64,
    pub started: f64,
    pub title: Option<String>,
    pub run: Arc<LabelledRun>,
    changed: SystemTime,
}

impl Directory {
    /// The runs of the snapshot: see [`Cached::current`].
    pub fn runs(&self, link: &mut Link) -> Result<Arc<Vec<Arc<Entry>>>, HistoryError> {
        self.current(link, |link| link.query_one("SELECT count(*), max(changed) FROM run", &[]), add)
    }
}

fn add(link: &mut Link, known: &mut Vec<Arc<Entry>>, since: SystemTime) -> Result<usize, HistoryError> {
    let rows = link.query(
        "SELECT id, started, name, title, labels, finished IS NOT NULL, changed FROM run WHERE changed >= $1",
        &[&since],
    )?;
    let same: HashSet<(i64, SystemTime)> = known.iter().map(|entry| (entry.id, entry.changed)).collect();
    let new: Vec<&Row> = rows.iter().filter(|row| !same.contains(&(row.get(0), row.get(6)))).collect();
    if !new.is_empty() {
        let ids: HashSet<i64> = new.iter().map(|row| row.get(0)).collect();
        known.retain(|entry| !ids.contains(&entry.id));
        for row in new {
            known.push(entry(row)?);
        }
        known.sort_by(|a, b| b.started.total_cmp(&a.started).then(b.id.cmp(&a.id)));
    }
    Ok(known.len())
}

fn entry(row: &Row) -> Result<Arc<Entry>, HistoryError> {
    let run = LabelledRun { name: row.get(2), labels: serde_json::from_str(row.get(4))?, finished: row.get(5) };
    let (id, started, title, changed) = (row.get(0), row.get(1), row.get(3), row.get(6));
    Ok(Arc::new(Entry { id, started, title, run: Arc::new(run), changed }))
}
