//! Points as they are stored, some at a time, for those who take all away.

use rusqlite::params;

use super::reading::Reading;
use crate::history::error::HistoryError;
use crate::history::point::WholePoint;

/// Bytes of points after which an answer ends.
const ENOUGH: usize = 16 << 20;

impl Reading<'_> {
    pub fn whole_points(
        &self,
        run: &str,
        split: &str,
        first_step: u64,
        most: usize,
        matrices: bool,
    ) -> Result<(Vec<WholePoint>, Option<u64>), HistoryError> {
        let (id, declared) = self.find_run(run)?;
        let Ok(first) = i64::try_from(first_step) else { return Ok((Vec::new(), None)) };
        let mut statement = self.connection.prepare_cached(
            "SELECT id, step, superseded > 0 FROM point WHERE run = ?1 AND split = ?2 AND step >= ?3 \
             ORDER BY step, superseded",
        )?;
        let mut rows = statement.query(params![id, split, first])?;
        let k = matrices.then(|| declared.concept_count());
        let (mut points, mut seen, mut bytes, mut last) = (Vec::new(), 0, 0, None);
        while let Some(row) = rows.next()? {
            let (id, step, superseded): (i64, i64, bool) = (row.get(0)?, row.get(1)?, row.get(2)?);
            if (seen >= most || bytes > ENOUGH) && last != Some(step) {
                return Ok((points, Some(step.cast_unsigned())));
            }
            (seen, last) = (seen + 1, Some(step));
            if let Some((point, attempt)) = self.first("point.id = ?1", [id], k)? {
                bytes += point.bytes();
                points.push(WholePoint { point, attempt, superseded });
            }
        }
        Ok((points, None))
    }
}
