//! Where a point stands among those that other attempts have made.

use super::link::Link;
use super::recent::set_recent;
use super::runs::attempt as attempt_of;
use crate::history::branch::{Fate, Made};
use crate::history::error::HistoryError;
use crate::history::point::completeness;
use crate::point::Point;
use crate::sample::Attempt;

/// What a point has in the column `superseded` before it has a number.
pub(super) const UNNUMBERED: i64 = -1;

/// Superseded points that a split keeps: no size limit removes them.
const KEPT: i64 = 5000;

/// Removes the point that a new one replaces, and marks those that it supersedes, unless it is of no use. Called with the
/// run's row locked.
pub(super) fn make_way(
    link: &mut Link,
    (run, step): (i64, i64),
    point: &Point,
    attempt: Option<Attempt>,
) -> Result<Fate, HistoryError> {
    let new = Made { attempt, time: point.time };
    let split = &*point.split;
    let before = link.query_opt(
        "SELECT launch, restart, time FROM point WHERE run = $1 AND split = $2 AND step <= $3 AND superseded = 0 \
         ORDER BY step DESC LIMIT 1",
        &[&run, &split, &step],
    )?;
    let before = before.map(|row| Ok::<_, HistoryError>(Made { attempt: attempt_of(&row, 0)?, time: row.get(2) }));
    let is_late = before.transpose()?.is_some_and(|before| before.supersedes(&new));
    let launch = attempt.map(|attempt| i64::from(attempt.launch));
    let restart = attempt.map(|attempt| i64::from(attempt.restart));
    if !is_late && attempt.is_some() {
        let marked = link.execute(
            "UPDATE point SET superseded = id WHERE run = $1 AND split = $2 AND step >= $3 AND superseded = 0 \
             AND CASE WHEN launch IS NULL THEN time < $6 ELSE (launch, restart) < ($4, $5) END",
            &[&run, &split, &step, &launch, &restart, &point.time],
        )?;
        if marked > 0 {
            begin_branch(link, run, split, step)?;
        }
    }
    let stored = link.query_opt(
        "SELECT id, provisional, incomplete, rows_seen, time FROM point WHERE run = $1 AND split = $2 AND step = $3 \
         AND CASE WHEN $4 THEN superseded > 0 AND launch IS NOT DISTINCT FROM $5 AND restart IS NOT DISTINCT FROM $6 \
         ELSE superseded = 0 END ORDER BY id DESC LIMIT 1",
        &[&run, &split, &step, &is_late, &launch, &restart],
    )?;
    if let Some(row) = stored {
        let rows_seen: i64 = row.get(3);
        let known = completeness(row.get(1), row.get(2), rows_seen.cast_unsigned());
        if known > completeness(point.provisional, point.incomplete, point.rows_seen) {
            return Ok(Fate::Outranked { time: row.get(4) });
        }
        link.execute("DELETE FROM point WHERE id = $1", &[&row.get::<_, i64>(0)])?;
    }
    Ok(if is_late { Fate::Superseded } else { Fate::Current })
}

/// Bounds what a split keeps of older branches, and forgets their values as its newest.
fn begin_branch(link: &mut Link, run: i64, split: &str, step: i64) -> Result<(), HistoryError> {
    link.execute(
        "DELETE FROM point WHERE id IN (SELECT id FROM point WHERE run = $1 AND split = $2 AND superseded > 0 \
         ORDER BY id DESC OFFSET $3)",
        &[&run, &split, &KEPT],
    )?;
    link.execute("DELETE FROM latest WHERE run = $1 AND split = $2 AND step >= $3", &[&run, &split, &step])?;
    // Scores that are not of every point have their newest value some points before.
    link.execute(
        "INSERT INTO latest (run, split, score, step, epoch, time, provisional, incomplete, value, standard_error, \
         undefined) SELECT DISTINCT ON (score) run, split, score, step, epoch, time, provisional, incomplete, value, \
         standard_error, undefined FROM (SELECT * FROM point WHERE run = $1 AND split = $2 AND superseded = 0 \
         ORDER BY step DESC LIMIT 50) newest JOIN value ON value.point = newest.id ORDER BY score, step DESC \
         ON CONFLICT (run, split, score) DO NOTHING",
        &[&run, &split],
    )?;
    set_recent(link, run, split)
}
