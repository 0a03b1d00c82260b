//! The part of inserting points that is PostgreSQL's own, within a transaction of the caller.

use super::link::Link;
use super::recent::set_curve;
use crate::history::error::HistoryError;
use crate::history::stored::StoredValue;

/// Superseded points kept per split. A database has no size limit that would remove them.
const KEPT: i64 = 5000;

/// A job has said something of the run. To the minute, so that not every point writes the run's row.
pub(in crate::history) fn touch(link: &mut Link, run: i64) -> Result<(), HistoryError> {
    let statement = "UPDATE run SET touched = now() WHERE id = $1 AND touched < now() - interval '1 minute'";
    link.execute(statement, &[&run]).map(drop)
}

/// Removes the oldest superseded points of a split beyond [`KEPT`].
pub(in crate::history) fn begin_branch(link: &mut Link, run: i64, split: &str) -> Result<(), HistoryError> {
    link.execute(
        "DELETE FROM point WHERE id IN (SELECT id FROM point WHERE run = $1 AND split = $2 AND superseded > 0 \
         ORDER BY id DESC OFFSET $3)",
        &[&run, &split, &KEPT],
    )?;
    set_curve(link, run, split)
}

/// Inserts all scores of a point in one statement: there are forty, and each statement is a round trip. A score that the
/// point has is replaced.
pub(in crate::history) fn insert_values<'s>(
    link: &mut Link,
    point: i64,
    scores: impl Iterator<Item = (&'s str, &'s StoredValue)>,
) -> Result<(), HistoryError> {
    let (names, values): (Vec<&str>, Vec<&StoredValue>) = scores.unzip();
    let floats = |of: fn(&StoredValue) -> Option<f64>| values.iter().map(|value| of(value)).collect::<Vec<_>>();
    let reasons: Vec<Option<&str>> = values.iter().map(|value| value.undefined.as_deref()).collect();
    let bodies: Vec<&[u8]> = values.iter().map(|value| value.body.as_slice()).collect();
    let lists: Vec<Option<&[u8]>> = values.iter().map(|value| value.lists.as_deref()).collect();
    let (of_value, of_error) = (floats(|value| value.value), floats(|value| value.standard_error));
    link.execute(
        "INSERT INTO value (point, score, value, standard_error, undefined, body, lists) SELECT $1, scores.* \
         FROM unnest($2::text[], $3::float8[], $4::float8[], $5::text[], $6::bytea[], $7::bytea[]) AS scores \
         ON CONFLICT (point, score) DO UPDATE SET (value, standard_error, undefined, body, lists) = \
         (excluded.value, excluded.standard_error, excluded.undefined, excluded.body, excluded.lists)",
        &[&point, &names, &of_value, &of_error, &reasons, &bodies, &lists],
    )?;
    Ok(())
}
