//! Points as they are stored, some at a time, for those who take all away.

use rusqlite::params;

use super::read::newest_attempt_before;
use super::store::Sqlite;
use crate::history::error::HistoryError;
use crate::history::point::WholePoint;

/// Bytes of points after which an answer ends.
const ENOUGH: usize = 16 << 20;

impl Sqlite {
    pub(super) fn whole_points(
        &self,
        run: &str,
        split: &str,
        first_step: u64,
        most: usize,
        matrices: bool,
    ) -> Result<(Vec<WholePoint>, Option<u64>), HistoryError> {
        let store = self.store();
        let (id, declared) = self.find_run(&store.connection, run)?;
        let Ok(first) = i64::try_from(first_step) else { return Ok((Vec::new(), None)) };
        let steps: Vec<i64> = store
            .connection
            .prepare_cached(
                "SELECT step FROM point WHERE run = ?1 AND split = ?2 AND step >= ?3 ORDER BY step LIMIT ?4",
            )?
            .query_map(params![id, split, first, most.saturating_add(1) as i64], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let k = matrices.then(|| declared.concept_count());
        let mut newest = newest_attempt_before(&store.connection, (id, split), first)?;
        let (mut points, mut bytes) = (Vec::new(), 0);
        for (place, &step) in steps.iter().enumerate() {
            if place == most || bytes > ENOUGH {
                return Ok((points, Some(step.cast_unsigned())));
            }
            if let Some((point, attempt)) = self.newest(&store.connection, id, split, (step, step), k)? {
                let made_by = (attempt.map(|attempt| attempt.launch), attempt.map(|attempt| attempt.restart));
                bytes += point.bytes();
                points.push(WholePoint { point, attempt, superseded: made_by < newest });
                newest = newest.max(made_by);
            }
        }
        Ok((points, None))
    }
}
