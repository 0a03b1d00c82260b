//! Where a point stands among those that other attempts have made.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::history::branch::{Fate, Made};
use crate::history::error::HistoryError;
use crate::history::point::completeness;
use crate::point::Point;
use crate::sample::Attempt;

/// What a point has in the column `superseded` before it has a number.
pub(super) const UNNUMBERED: i64 = -1;

/// Removes the point that a new one replaces, and marks those that it supersedes, unless it is of no use.
pub(super) fn make_way(
    connection: &Connection,
    (run, step): (i64, i64),
    point: &Point,
    attempt: Option<Attempt>,
) -> Result<Fate, HistoryError> {
    let new = Made { attempt, time: point.time };
    let split = &*point.split;
    let before = connection
        .prepare_cached(
            "SELECT launch, restart, time FROM point WHERE run = ?1 AND split = ?2 AND step <= ?3 AND superseded = 0 \
             ORDER BY step DESC LIMIT 1",
        )?
        .query_row(params![run, split, step], made)
        .optional()?;
    let fate = if before.is_some_and(|before| before.supersedes(&new)) { Fate::Superseded } else { Fate::Current };
    let (launch, restart) = (attempt.map(|attempt| attempt.launch), attempt.map(|attempt| attempt.restart));
    if fate == Fate::Current && attempt.is_some() {
        connection
            .prepare_cached(
                "UPDATE point SET superseded = id WHERE run = ?1 AND split = ?2 AND step >= ?3 AND superseded = 0 \
                 AND iif(launch IS NULL, time < ?6, (launch, restart) < (?4, ?5))",
            )?
            .execute(params![run, split, step, launch, restart, point.time])?;
    }
    let of_step = "FROM point WHERE run = ?1 AND split = ?2 AND step = ?3 \
                   AND iif(?4, superseded > 0 AND launch IS ?5 AND restart IS ?6, superseded = 0)";
    let same = params![run, split, step, fate == Fate::Superseded, launch, restart];
    let stored = connection
        .prepare_cached(&format!("SELECT provisional, incomplete, rows_seen, time {of_step}"))?
        .query_row(same, |row| {
            let (provisional, incomplete, rows_seen): (bool, bool, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok((completeness(provisional, incomplete, rows_seen.cast_unsigned()), row.get(3)?))
        })
        .optional()?;
    let own = completeness(point.provisional, point.incomplete, point.rows_seen);
    if let Some((_, time)) = stored.filter(|(stored, _)| *stored > own) {
        return Ok(Fate::Outranked { time });
    }
    connection.prepare_cached(&format!("DELETE {of_step}"))?.execute(same)?;
    Ok(fate)
}

/// From the columns launch, restart and time.
fn made(row: &Row<'_>) -> rusqlite::Result<Made> {
    let attempt = row.get::<_, Option<u32>>(0)?.zip(row.get::<_, Option<u32>>(1)?);
    Ok(Made { attempt: attempt.map(|(launch, restart)| Attempt { launch, restart }), time: row.get(2)? })
}
