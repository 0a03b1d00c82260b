//! Lists of runs, in one reading.

use std::collections::BTreeMap;

use postgres::Row;

use super::directory::{Directory, Entry};
use super::link::Link;
use super::runs::{one_run, run_id, runs, stored};
use crate::history::error::HistoryError;
use crate::history::listing::{Cursor, Listing, StoredSplit, Wanted};
use crate::history::run::StoredRun;

/// A page; only the declarations of its runs are read. Call it first in a transaction.
pub(super) fn listing(link: &mut Link, known: &Directory, wanted: &Wanted) -> Result<Listing, HistoryError> {
    let (mut found, mut ids, mut last) = (Listing::default(), Vec::new(), None);
    for entry in known.runs(link)?.iter() {
        let Entry { id, started, .. } = **entry;
        let run = &entry.run;
        if !wanted.search.is_empty() && !wanted.search.matches(&run.name, entry.title.as_deref(), &run.labels) {
            continue;
        }
        found.total += 1;
        if wanted.after.is_some_and(|cursor| (started, id) >= (cursor.started, cursor.id)) {
            continue;
        }
        if wanted.most.is_some_and(|most| ids.len() >= most) {
            found.next = last;
            continue;
        }
        ids.push(id);
        last = Some(Cursor { started, id });
    }
    let mut splits = splits_of(link, &ids)?;
    for row in link.query(runs!("WHERE id = ANY($1) ORDER BY started DESC, id DESC"), &[&ids])? {
        found.runs.push((stored(&row)?, splits.remove(&row.get(5)).unwrap_or_default()));
    }
    Ok(found)
}

pub(super) fn listed(link: &mut Link, name: &str) -> Result<(StoredRun, Vec<StoredSplit>), HistoryError> {
    let (id, run) = one_run(link, name)?;
    Ok((run, splits_of(link, &[id])?.remove(&id).unwrap_or_default()))
}

pub(super) fn listed_of(link: &mut Link, names: &[&str]) -> Result<Vec<(StoredRun, Vec<StoredSplit>)>, HistoryError> {
    let rows = link.query(runs!("WHERE name = ANY($1) ORDER BY array_position($1, name)"), &[&names])?;
    let ids: Vec<i64> = rows.iter().map(|row| row.get(5)).collect();
    let mut splits = splits_of(link, &ids)?;
    let listed = |row: &Row| Ok((stored(row)?, splits.remove(&row.get(5)).unwrap_or_default()));
    rows.iter().map(listed).collect()
}

pub(super) fn splits(link: &mut Link, run: &str) -> Result<Vec<StoredSplit>, HistoryError> {
    let id = run_id(link, run)?;
    Ok(splits_of(link, &[id])?.remove(&id).unwrap_or_default())
}

/// The splits of runs that have points, by name.
fn splits_of(link: &mut Link, runs: &[i64]) -> Result<BTreeMap<i64, Vec<StoredSplit>>, HistoryError> {
    let rows = link.query(
        "SELECT run, split, count(*), max(step) FROM point WHERE run = ANY($1) AND superseded = 0 \
         GROUP BY run, split ORDER BY run, split",
        &[&runs],
    )?;
    let mut splits: BTreeMap<i64, Vec<StoredSplit>> = BTreeMap::new();
    for row in rows {
        splits.entry(row.get(0)).or_default().push(StoredSplit {
            split: row.get(1),
            points: row.get::<_, i64>(2).cast_unsigned(),
            last_step: row.get::<_, i64>(3).cast_unsigned(),
        });
    }
    Ok(splits)
}
