//! Passes that were settled without a complete point: which, how they ended and why.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::insert::run_id;
use super::outbox;
use super::row_checksum::{Seal, UNSCORED, UNSCORED_COLUMNS, insert};
use crate::history::error::HistoryError;
use crate::history::point::{finite, integer};
use crate::history::settled::{Ending, UNSCORED_PER_RUN, Unscored};
use leakage::sample::Attempt;
use leakage::step::Ordinal;

/// The passes of a split from step `first` to `last`, by step, and how many records do not match
/// their checksum.
pub(super) fn select_unscored(
    connection: &Connection,
    run: &str,
    split: &str,
    (first, last): (i64, i64),
) -> Result<(Vec<Unscored>, u64), HistoryError> {
    let run = run_id(connection, run)?;
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {UNSCORED}, unscored.checksum, unscored.ordinal FROM unscored JOIN run ON run.id = unscored.run \
         WHERE unscored.run = ?1 AND split = ?2 AND step BETWEEN ?3 AND ?4 ORDER BY step"
    ))?;
    let rows = statement.query_map(params![run, split, first, last], read)?;
    let (mut passes, mut damaged) = (Vec::new(), 0);
    for row in rows {
        match row? {
            Some(pass) => passes.push(pass),
            None => damaged += 1,
        }
    }
    Ok((passes, damaged))
}

/// From the columns of a record, its checksum and its ordinal; `None` if the row does not match its checksum.
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Option<Unscored>> {
    if Seal::new().matching(row, 0, UNSCORED_COLUMNS)?.is_none() {
        return Ok(None);
    }
    let attempt = row.get::<_, Option<u32>>(7)?.zip(row.get::<_, Option<u32>>(8)?);
    let outcome = Ending::named(row.get_ref(4)?.as_str()?);
    Ok(outcome.map(|outcome| Unscored {
        run: row.get_unwrap(0),
        split: row.get_unwrap(1),
        step: row.get_unwrap::<_, i64>(2).cast_unsigned(),
        ordinal: Ordinal::stated(row.get_unwrap(UNSCORED_COLUMNS + 1)),
        time: row.get_unwrap(3),
        outcome,
        reason: row.get_unwrap(5),
        rows_seen: row.get_unwrap::<_, i64>(6).cast_unsigned(),
        attempt: attempt.map(|(launch, restart)| Attempt { launch, restart }),
    }))
}

/// Returns how many older records the bound for each run has removed, and how many of those the hub has not been told of.
pub(super) fn insert_unscored(connection: &Connection, passes: &[Unscored]) -> Result<(u64, u64), HistoryError> {
    let mut runs = std::collections::BTreeSet::new();
    for pass in passes {
        finite("unscored.time", pass.time)?;
        let id = match run_id(connection, &pass.run) {
            Ok(id) => id,
            Err(HistoryError::Unknown { .. }) => continue,
            Err(error) => return Err(error),
        };
        let step = integer("unscored.step", pass.step)?;
        let scored = connection
            .prepare_cached(
                "SELECT 1 FROM point WHERE run = ?1 AND split = ?2 AND step = ?3 AND superseded = 0 \
                 AND NOT provisional AND NOT incomplete",
            )?
            .query_row(params![id, pass.split, step], |_| Ok(()))
            .optional()?;
        if scored.is_some() {
            continue;
        }
        let values = [
            Value::from(pass.run.clone()),
            Value::from(pass.split.clone()),
            Value::from(step),
            Value::from(pass.time),
            Value::from(pass.outcome.name().to_owned()),
            Value::from(pass.reason.clone()),
            Value::from(integer("unscored.rows_seen", pass.rows_seen)?),
            Value::from(pass.attempt.map(|attempt| attempt.launch)),
            Value::from(pass.attempt.map(|attempt| attempt.restart)),
        ];
        let checksum = Seal::new().of(&values);
        let statement = "INSERT OR REPLACE INTO unscored (run, ordinal, split, step, time, outcome, reason, rows_seen, \
                         launch, restart, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        insert(connection, statement, &[id.into(), pass.ordinal.get().into()], &values[1..], checksum)?;
        outbox::note_unscored(connection, id, connection.last_insert_rowid())?;
        runs.insert(id);
    }
    outbox::losing(connection, || {
        let mut removed = 0;
        for run in runs {
            removed += connection
                .prepare_cached(
                    "DELETE FROM unscored WHERE run = ?1 AND id IN \
                     (SELECT id FROM unscored WHERE run = ?1 ORDER BY id DESC LIMIT -1 OFFSET ?2)",
                )?
                .execute(params![run, UNSCORED_PER_RUN as i64])? as u64;
        }
        Ok(removed)
    })
}
