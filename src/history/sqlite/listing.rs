//! Lists of runs: all or a page, all runs or those that a search names, counted, with their splits. One reading each: between two
//! readings the size limit may remove a run, and whoever asks for its splits would get an error in place of all runs.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::read::Reading;
use crate::history::error::HistoryError;
use crate::history::listing::{Cursor, Listing, StoredSplit, Wanted, labels_of};
use crate::history::run::StoredRun;

impl Reading<'_> {
    pub fn listing(&self, wanted: &Wanted) -> Result<Listing, HistoryError> {
        let (mut found, mut ids, mut more) = (Listing::default(), Vec::new(), false);
        self.each_run(|id, row| {
            let Some(head) = row.head(self)? else { return Ok(()) };
            if !wanted.names(&head.name, head.title.as_deref(), || labels_of(row.declaration()?))? {
                return Ok(());
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
            found.runs.push((row.run(head, self)?, Vec::new()));
            Ok(())
        })?;
        let last = found.runs.last().zip(ids.last());
        found.next = last.filter(|_| more).map(|((run, _), id)| Cursor { started: run.started, id: *id });
        let mut splits = splits_of(self.connection, &ids)?;
        for ((_, of_run), id) in found.runs.iter_mut().zip(&ids) {
            *of_run = splits.remove(id).unwrap_or_default();
        }
        Ok(found)
    }

    pub fn listed(&self, name: &str) -> Result<(StoredRun, Vec<StoredSplit>), HistoryError> {
        let (id, run) = self.one_run(name)?;
        let splits = splits_of(self.connection, &[id])?.remove(&id).unwrap_or_default();
        Ok((run, splits))
    }
}

impl Reading<'_> {
    /// See [`Store::evaluation_times`](crate::history::Store::evaluation_times). No conclusion rests on them, so checksums are
    /// not read.
    pub fn evaluation_times(
        &self,
        runs: &[&str],
        most: usize,
    ) -> Result<BTreeMap<String, Vec<Vec<f64>>>, HistoryError> {
        let mut splits = self
            .connection
            .prepare_cached("SELECT DISTINCT run, split FROM point WHERE run = (SELECT id FROM run WHERE name = ?1)")?;
        let mut newest = self.connection.prepare_cached(
            "SELECT time FROM point WHERE run = ?1 AND split = ?2 AND superseded = 0 AND NOT provisional \
             ORDER BY step DESC LIMIT ?3",
        )?;
        let mut found = BTreeMap::new();
        for run in runs {
            let mut of_run = Vec::new();
            for split in splits.query_map([run], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))? {
                let (id, split) = split?;
                let times = newest.query_map(params![id, split, most as i64], |row| row.get(0))?;
                of_run.push(times.collect::<Result<Vec<f64>, _>>()?);
            }
            of_run.retain(|times| !times.is_empty());
            if !of_run.is_empty() {
                found.insert((*run).to_owned(), of_run);
            }
        }
        Ok(found)
    }
}

/// The splits of runs that have points, by name.
fn splits_of(connection: &Connection, runs: &[i64]) -> Result<BTreeMap<i64, Vec<StoredSplit>>, HistoryError> {
    let mut statement = connection.prepare_cached(
        "SELECT run, split, count(*), max(step) FROM point WHERE run IN (SELECT value FROM json_each(?1)) \
         AND superseded = 0 GROUP BY run, split ORDER BY run, split",
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
