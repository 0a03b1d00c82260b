//! Passes that were settled without a complete point: which, how they ended and why.

use std::collections::BTreeSet;

use super::db::{Db, Row, Value};
use super::edit::run_to_change;
use super::error::HistoryError;
use super::point::{finite, integer};
use super::settled::{UNSCORED_PER_RUN, Unscored};
use super::sqlite::outbox;
use super::stored::{UNSCORED, UNSCORED_COLUMNS};
use leakage::step::Ordinal;

/// The records of a condition on `run` and `unscored` joined; `None` for one that does not match its checksum.
pub(super) fn select_unscored(
    db: &mut Db<'_>,
    condition: &str,
    values: &[&dyn Value],
) -> Result<Vec<Option<Unscored>>, HistoryError> {
    let statement = format!(
        "SELECT {UNSCORED}, unscored.checksum FROM unscored JOIN run ON run.id = unscored.run WHERE {condition}"
    );
    db.all(&statement, values, read)
}

fn read(row: &Row<'_, '_>) -> Result<Option<Unscored>, HistoryError> {
    if row.checksum(None, 0..UNSCORED_COLUMNS)?.is_none() {
        return Ok(None);
    }
    let Ok(outcome) = row.get::<String>(5)?.parse() else { return Ok(None) };
    Ok(Some(Unscored {
        run: row.get(0)?,
        split: row.get(1)?,
        step: row.unsigned(2)?,
        ordinal: Ordinal::stated(row.number(3)?),
        time: row.get(4)?,
        outcome,
        reason: row.get(6)?,
        rows_seen: row.unsigned(7)?,
        attempt: row.attempt(8)?,
    }))
}

/// See [`Store::record_unscored`](super::Store::record_unscored). Removes the oldest records of these runs beyond the bound
/// for each. Returns how many it removed, and how many entries of the outbox went with them.
pub(super) fn record_unscored(db: &mut Db<'_>, passes: &[Unscored]) -> Result<(u64, u64), HistoryError> {
    let mut runs = BTreeSet::new();
    // In the order of names, so that two transactions do not wait for each other.
    for name in passes.iter().map(|pass| pass.run.as_str()).collect::<BTreeSet<_>>() {
        let id = match run_to_change(db, name) {
            Ok((id, _)) => id,
            Err(HistoryError::Unknown { .. }) => continue,
            Err(error) => return Err(error),
        };
        for pass in passes.iter().filter(|pass| pass.run == name) {
            insert(db, id, pass)?;
        }
        runs.insert(id);
    }
    let statement = "DELETE FROM unscored WHERE run = $1 AND id IN \
                     (SELECT id FROM unscored WHERE run = $1 ORDER BY id DESC LIMIT 1000000000 OFFSET $2)";
    outbox::losing(db, |db| runs.iter().map(|run| db.execute(statement, &[run, &UNSCORED_PER_RUN.cast_signed()])).sum())
}

fn insert(db: &mut Db<'_>, run: i64, pass: &Unscored) -> Result<(), HistoryError> {
    finite("unscored.time", pass.time)?;
    let (split, step) = (pass.split.as_str(), integer("unscored.step", pass.step)?);
    let unless_scored = "NOT EXISTS (SELECT 1 FROM point WHERE run = $1 AND split = $2 AND step = $3 \
                         AND superseded = 0 AND NOT provisional AND NOT incomplete)";
    // A record that is replaced is the newest again.
    let replaced = format!("DELETE FROM unscored WHERE run = $1 AND split = $2 AND step = $3 AND {unless_scored}");
    db.execute(&replaced, &[&run, &split, &step])?;
    let (ordinal, rows_seen) = (i64::from(pass.ordinal.get()), integer("unscored.rows_seen", pass.rows_seen)?);
    let attempt = pass.attempt.map(|attempt| (i64::from(attempt.launch), i64::from(attempt.restart)));
    let ((launch, restart), outcome) = (attempt.unzip(), pass.outcome.as_ref());
    let row: [&dyn Value; 10] =
        [&pass.run, &split, &step, &ordinal, &pass.time, &outcome, &pass.reason, &rows_seen, &launch, &restart];
    let checksum = db.checksum(None, &row)?;
    let mut values: Vec<&dyn Value> = vec![&run];
    values.extend_from_slice(&row[1..]);
    values.push(&checksum);
    let insert = format!(
        "INSERT INTO unscored (run, split, step, ordinal, time, outcome, reason, rows_seen, launch, restart, checksum) \
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11 WHERE {unless_scored} RETURNING id"
    );
    let id = db.one(&insert, &values, |row| row.get(0))?;
    id.map_or(Ok(()), |id| outbox::note_unscored(db, run, id))
}
