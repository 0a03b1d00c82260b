//! The size limit, and what is removed first when the store exceeds it.

use rusqlite::Connection;

use super::error::HistoryError;
use super::store::{Dropped, History, Limits, Store};

/// The history's size and limit, in bytes, and what the limit has removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    pub bytes: u64,
    pub limit: u64,
    pub dropped: Dropped,
}

/// Rows removed between two checks of the size.
const AT_ONCE: i64 = 16;

impl History {
    pub fn usage(&self) -> Result<Usage, HistoryError> {
        let store = self.store();
        Ok(Usage { bytes: used(&store.connection)?, limit: self.limits.bytes, dropped: store.dropped })
    }
}

impl Store {
    pub(super) fn retain(&mut self, limits: &Limits) -> Result<(), HistoryError> {
        let Self { connection, dropped } = self;
        let stages = [
            ("DELETE FROM unscored WHERE id IN (SELECT id FROM unscored ORDER BY id LIMIT ?1)", &mut dropped.unscored),
            (
                "DELETE FROM matrix WHERE rowid IN (SELECT m.rowid FROM matrix m \
                 WHERE m.point < (SELECT max(id) FROM point) ORDER BY m.point LIMIT ?1)",
                &mut dropped.matrices,
            ),
            (
                "DELETE FROM point WHERE id IN (SELECT id FROM point \
                 WHERE id < (SELECT max(id) FROM point) ORDER BY id LIMIT ?1)",
                &mut dropped.points,
            ),
            (
                "DELETE FROM run WHERE id IN (SELECT id FROM run WHERE finished IS NOT NULL \
                 AND NOT EXISTS (SELECT 1 FROM point WHERE point.run = run.id) ORDER BY finished LIMIT ?1)",
                &mut dropped.runs,
            ),
        ];
        for (statement, removed) in stages {
            while used(connection)? > limits.bytes {
                match connection.prepare_cached(statement)?.execute([AT_ONCE])? {
                    0 => break,
                    rows => *removed += rows as u64,
                }
            }
        }
        Ok(())
    }
}

/// Bytes of the pages in use.
fn used(connection: &Connection) -> Result<u64, HistoryError> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let pages = pragma("page_count")? - pragma("freelist_count")?;
    Ok((pages * pragma("page_size")?).cast_unsigned())
}
