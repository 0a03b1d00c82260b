//! The size limit, and what is removed first when the store exceeds it.
//!
//! Declarations have a part of the limit to themselves, so that those of one run never cost another its points.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::outbox;
use super::store::Inner;
use super::tables::used;
use crate::history::db::Db;
use crate::history::error::HistoryError;
use crate::history::run::RunRecord;
use crate::history::usage::{Dropped, Limits};

/// Bytes that a run takes besides its declaration: its row, its launches and ranks, in pages that are not full.
const PER_RUN: i64 = 1024;

/// Rows removed between two checks of the size.
const AT_ONCE: i64 = 16;

/// Pause between two log lines about what was removed.
const TELL: Duration = Duration::from_secs(60);

impl Inner {
    /// Removes what exceeds the limit. Runs of `declared_here` stay: their evaluations may still come.
    pub(super) fn retain(&mut self, limits: &Limits, declared_here: &HashSet<String>) -> Result<(), HistoryError> {
        let for_points = limits.bytes.saturating_sub(limits.declarations());
        if self.is_waiting() || used(&self.connection)? <= for_points {
            return Ok(());
        }
        let declared = declared(&mut Db::Sqlite(&self.connection))?;
        let over = |connection: &Connection, most: u64| {
            Ok::<_, HistoryError>(used(connection)?.saturating_sub(declared) > most)
        };
        if !over(&self.connection, for_points)? {
            return Ok(());
        }
        let (mut dropped, mut superseded) = (self.dropped, 0);
        let transaction = self.changing()?;
        let waited = outbox::count(&mut Db::Sqlite(&transaction))?;
        let stages = [
            (
                "DELETE FROM point WHERE id IN (SELECT id FROM point \
                 WHERE superseded > 0 AND id < (SELECT max(id) FROM point) ORDER BY id LIMIT ?1)",
                &mut superseded,
            ),
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
        ];
        // A little more than must be, so that not every point at the limit costs a second commit.
        let down_to = for_points - for_points / 64;
        for (statement, removed) in stages {
            while over(&transaction, down_to)? {
                match transaction.prepare_cached(statement)?.execute([AT_ONCE])? {
                    0 => break,
                    rows => *removed += rows as u64,
                }
            }
        }
        if over(&transaction, down_to)? {
            for run in finished_without_points(&transaction)? {
                if !over(&transaction, down_to)? {
                    break;
                }
                if !declared_here.contains(&run) {
                    transaction.prepare_cached("DELETE FROM run WHERE name = ?1")?.execute([&run])?;
                    dropped.runs += 1;
                }
            }
        }
        dropped.unsent += waited.saturating_sub(outbox::count(&mut Db::Sqlite(&transaction))?);
        transaction.commit()?;
        dropped.points += superseded;
        self.dropped = dropped;
        self.tell_removed(limits);
        Ok(())
    }

    /// Logs what the limit has removed, at most once a minute.
    pub(super) fn tell_removed(&mut self, limits: &Limits) {
        let now = Instant::now();
        let Dropped { matrices, points, runs, unscored, unsent } = self.dropped;
        if self.dropped == self.told.0 || self.told.1.is_some_and(|told| now - told < TELL) {
            return;
        }
        self.told = (self.dropped, Some(now));
        tracing::warn!(
            matrices,
            points,
            runs,
            unscored,
            unsent,
            limit_bytes = limits.bytes,
            "the history has reached its size limit; removed since the start"
        );
    }
}

/// Returns the names of finished runs without points, the first to finish ahead.
fn finished_without_points(connection: &Connection) -> Result<Vec<String>, HistoryError> {
    let statement = "SELECT name FROM run WHERE finished IS NOT NULL \
                     AND NOT EXISTS (SELECT 1 FROM point WHERE point.run = run.id) ORDER BY finished";
    let names = connection.prepare_cached(statement)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(names)
}

/// Removes runs without points until declarations fit into their budget: finished runs first, then those that nobody
/// has declared since the history was opened. Returns how many. Errors when the new run still has no room.
pub(super) fn make_room(
    db: &mut Db<'_>,
    new: &RunRecord,
    declared_here: &HashSet<String>,
    budget: u64,
) -> Result<u64, HistoryError> {
    if new.resumed {
        return Ok(0);
    }
    let mut excess = declared(db)?.cast_signed() - budget.cast_signed();
    if excess <= 0 {
        return Ok(0);
    }
    let candidates: Vec<(i64, String, i64)> = db.all(
        "SELECT id, name, octet_length(declaration) FROM run \
         WHERE NOT EXISTS (SELECT 1 FROM point WHERE point.run = run.id) \
         ORDER BY finished IS NULL, coalesce(finished, started), id",
        &[],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    let mut removed = 0;
    for (id, name, bytes) in candidates {
        if excess <= 0 {
            break;
        }
        if name != new.run.name && !declared_here.contains(&name) {
            db.execute("DELETE FROM run WHERE id = $1", &[&id])?;
            excess -= bytes + PER_RUN;
            removed += 1;
        }
    }
    match excess {
        ..=0 => Ok(removed),
        _ => Err(HistoryError::DeclarationsFull { bytes: budget + excess.cast_unsigned(), limit: budget }),
    }
}

/// Bytes that declarations take.
fn declared(db: &mut Db<'_>) -> Result<u64, HistoryError> {
    let statement = "SELECT coalesce(sum(octet_length(declaration) + $1), 0) FROM run";
    Ok(db.one(statement, &[&PER_RUN], |row| row.unsigned(0))?.unwrap_or_default())
}
