//! Lists of runs, in one reading.

use std::collections::BTreeMap;

use super::link::Link;
use super::runs::{one_run, run_id, runs, stored};
use crate::history::error::HistoryError;
use crate::history::listing::{Cursor, Listing, StoredSplit, Wanted};
use crate::history::run::StoredRun;

/// What a search reads of all runs is little beside their declarations, which are read for one page.
pub(super) fn listing(link: &mut Link, wanted: &Wanted) -> Result<Listing, HistoryError> {
    let rows = link.query("SELECT id, started, name, title, labels FROM run ORDER BY started DESC, id DESC", &[])?;
    let (mut found, mut ids, mut last) = (Listing::default(), Vec::new(), None);
    for row in rows {
        if !wanted.names(row.get(2), row.get(3), || Ok(serde_json::from_str(row.get(4))?))? {
            continue;
        }
        found.total += 1;
        let (id, started): (i64, f64) = (row.get(0), row.get(1));
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

pub(super) fn splits(link: &mut Link, run: &str) -> Result<Vec<StoredSplit>, HistoryError> {
    let id = run_id(link, run)?;
    Ok(splits_of(link, &[id])?.remove(&id).unwrap_or_default())
}

/// The splits of runs that have points, by name.
fn splits_of(link: &mut Link, runs: &[i64]) -> Result<BTreeMap<i64, Vec<StoredSplit>>, HistoryError> {
    let rows = link.query(
        "SELECT run, split, count(*), max(step) FROM point WHERE run = ANY($1) GROUP BY run, split ORDER BY run, split",
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
