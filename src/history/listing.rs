//! All runs and their splits in one reading. Between two readings the size limit may remove a run, and whoever asks for
//! its splits would get an error in place of all runs.

use std::collections::HashMap;

use super::error::HistoryError;
use super::read::{StoredRun, StoredSplit};
use super::store::History;

impl History {
    /// All runs, newest start first, each with its splits that have points, by name.
    pub fn listing(&self) -> Result<Vec<(StoredRun, Vec<StoredSplit>)>, HistoryError> {
        let store = self.store();
        let runs = self.read_runs(&store.connection)?;
        let mut statement = store.connection.prepare_cached(
            "SELECT run.name, split, count(*), max(step) FROM point JOIN run ON run.id = point.run \
             GROUP BY point.run, split ORDER BY point.run, split",
        )?;
        let mut rows = statement.query([])?;
        let mut splits: HashMap<String, Vec<StoredSplit>> = HashMap::new();
        while let Some(row) = rows.next()? {
            let (points, last_step): (i64, i64) = (row.get(2)?, row.get(3)?);
            splits.entry(row.get(0)?).or_default().push(StoredSplit {
                split: row.get(1)?,
                points: points.cast_unsigned(),
                last_step: last_step.cast_unsigned(),
            });
        }
        let listed = |run: StoredRun| {
            let splits = splits.remove(&run.run.name).unwrap_or_default();
            (run, splits)
        };
        Ok(runs.into_iter().map(listed).collect())
    }
}
