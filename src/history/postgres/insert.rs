//! Inserting points, within a transaction of the caller.

use super::branch::Split;
use super::link::Link;
use super::recent::set_curve;
use super::runs::unknown;
use crate::history::branch::{Fate, UNNUMBERED, make_way};
use crate::history::error::HistoryError;
use crate::history::point::{Recorded, concept_rows, finite, integer};
use crate::history::stored::{StoredMatrix, StoredValue, packed};
use leakage::point::Point;
use leakage::sample::Attempt;

pub(super) fn insert_point(link: &mut Link, point: &Point, attempt: Option<Attempt>) -> Result<Recorded, HistoryError> {
    let run = link.query_opt("SELECT id, concepts FROM run WHERE name = $1 FOR NO KEY UPDATE", &[&&*point.run])?;
    let run = run.ok_or_else(|| unknown(&point.run))?;
    let (run, k): (i64, i32) = (run.get(0), run.get(1));
    finite("point.time", point.time)?;
    finite("point.tie_fraction", point.tie_fraction)?;
    finite("point.seconds", point.seconds)?;
    concept_rows(&point.concept_rows, k as usize)?;
    let step = integer("point.step", point.step)?;
    // JSON has no representation for numbers that are not finite.
    let change_errors: Vec<_> = point.change_errors.iter().filter(|(_, error)| error.is_finite()).collect();
    let split = &*point.split;
    let mut at = Split { link, run, split, step, attempt, ordinal: point.ordinal, time: point.time };
    let fate = make_way(&mut at, point, attempt)?;
    if let Fate::Outranked { time } = fate {
        return Ok(Recorded::Outranked { time });
    }
    let is_current = fate == Fate::Current;
    if is_current && !point.provisional {
        link.execute("DELETE FROM unscored WHERE run = $1 AND split = $2 AND step = $3", &[&run, &split, &step])?;
    }
    let row = link.query_one(
        "INSERT INTO point (run, split, step, epoch, time, rows, rows_seen, provisional, incomplete, tie_fraction, \
         warnings, estimator, neighbours, seed, catalogue_version, seconds, change_errors, concept_rows, launch, restart, \
         superseded, ordinal, repeated_rows) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, \
         $16, $17, $18, $19, $20, $21, $22, $23) RETURNING id",
        &[
            &run,
            &split,
            &step,
            &point.epoch.filter(|epoch| epoch.is_finite()),
            &point.time,
            &integer("point.rows", point.rows)?,
            &integer("point.rows_seen", point.rows_seen)?,
            &point.provisional,
            &point.incomplete,
            &point.tie_fraction,
            &serde_json::to_string(&point.warnings)?,
            &point.estimator,
            &i64::from(point.neighbours),
            &point.seed.cast_signed(),
            &i64::from(point.catalogue_version),
            &point.seconds,
            &serde_json::to_string(&change_errors)?,
            &serde_json::to_string(&point.concept_rows)?,
            &attempt.map(|attempt| i64::from(attempt.launch)),
            &attempt.map(|attempt| i64::from(attempt.restart)),
            if is_current { &0_i64 } else { &UNNUMBERED },
            &i64::from(point.ordinal.get()),
            &integer("point.repeated_rows", point.repeated_rows)?,
        ],
    )?;
    insert_scores(link, row.get(0), point, k as usize)?;
    if !is_current {
        link.execute("UPDATE point SET superseded = id WHERE id = $1", &[&row.get::<_, i64>(0)])?;
    }
    if is_current {
        set_curve(link, run, split)?;
    }
    touch(link, run)?;
    Ok(Recorded::Stored)
}

/// Adds late scores to the point of their evaluation, and what they change of its other fields. Does nothing where the
/// evaluation has no point here.
pub(super) fn join_point(link: &mut Link, late: &Point, attempt: Option<Attempt>) -> Result<(), HistoryError> {
    let run = link.query_opt("SELECT id, concepts FROM run WHERE name = $1 FOR NO KEY UPDATE", &[&&*late.run])?;
    let run = run.ok_or_else(|| unknown(&late.run))?;
    let (run, k): (i64, i32) = (run.get(0), run.get(1));
    finite("point.seconds", late.seconds)?;
    let change_errors: Vec<_> = late.change_errors.iter().filter(|(_, error)| error.is_finite()).collect();
    let row = link.query_opt(
        "UPDATE point SET (seconds, warnings, change_errors) = ($8, $9, $10) WHERE run = $1 AND split = $2 AND step = $3 \
         AND time = $4 AND ordinal = $5 AND launch IS NOT DISTINCT FROM $6 AND restart IS NOT DISTINCT FROM $7 \
         RETURNING id, superseded = 0",
        &[
            &run,
            &&*late.split,
            &integer("point.step", late.step)?,
            &late.time,
            &i64::from(late.ordinal.get()),
            &attempt.map(|attempt| i64::from(attempt.launch)),
            &attempt.map(|attempt| i64::from(attempt.restart)),
            &late.seconds,
            &serde_json::to_string(&late.warnings)?,
            &serde_json::to_string(&change_errors)?,
        ],
    )?;
    let Some(row) = row else { return Ok(()) };
    insert_scores(link, row.get(0), late, k as usize)?;
    if row.get(1) {
        set_curve(link, run, &late.split)?;
    }
    touch(link, run)
}

/// A job has said something of the run. To the minute, so that not every point writes the run's row.
pub(super) fn touch(link: &mut Link, run: i64) -> Result<(), HistoryError> {
    let statement = "UPDATE run SET touched = now() WHERE id = $1 AND touched < now() - interval '1 minute'";
    link.execute(statement, &[&run]).map(drop)
}

/// All scores in one statement: there are forty, and each statement is a round trip. A score that the point has is replaced.
fn insert_scores(link: &mut Link, point: i64, whole: &Point, k: usize) -> Result<(), HistoryError> {
    let (mut names, mut values) = (Vec::new(), Vec::new());
    let (mut with_matrix, mut matrices) = (Vec::new(), Vec::new());
    for (score, outcome) in &whole.scores {
        let (value, matrix) = packed(score, outcome, k)?;
        names.push(score.as_str());
        values.push(value);
        if let Some(matrix) = matrix {
            with_matrix.push(score.as_str());
            matrices.push(matrix);
        }
    }
    let floats = |of: fn(&StoredValue) -> Option<f64>| values.iter().map(of).collect::<Vec<_>>();
    let blobs = |of: fn(&StoredValue) -> Option<&[u8]>| values.iter().map(of).collect::<Vec<_>>();
    let texts = |of: fn(&StoredValue) -> Option<&str>| values.iter().map(of).collect::<Vec<_>>();
    link.execute(
        "INSERT INTO value (point, score, value, standard_error, undefined, per_concept, curve, age, left_out, \
         p_value, per_concept_q) SELECT $1, scores.* \
         FROM unnest($2::text[], $3::float8[], $4::float8[], $5::text[], $6::bytea[], $7::bytea[], $8::float8[], \
         $9::text[], $10::float8[], $11::bytea[]) AS scores \
         ON CONFLICT (point, score) DO UPDATE SET (value, standard_error, undefined, per_concept, curve, age, left_out, \
         p_value, per_concept_q) = (excluded.value, excluded.standard_error, excluded.undefined, excluded.per_concept, \
         excluded.curve, excluded.age, excluded.left_out, excluded.p_value, excluded.per_concept_q)",
        &[
            &point,
            &names,
            &floats(|value| value.value),
            &floats(|value| value.standard_error),
            &texts(|value| value.undefined.as_deref()),
            &blobs(|value| value.per_concept.as_deref()),
            &blobs(|value| value.curve.as_deref()),
            &floats(|value| value.age),
            &texts(|value| value.left_out.as_deref()),
            &floats(|value| value.p_value),
            &blobs(|value| value.per_concept_q.as_deref()),
        ],
    )?;
    for (score, StoredMatrix { cells, ages, cells_q }) in with_matrix.iter().zip(&matrices) {
        let statement = "INSERT INTO matrix (point, score, cells, ages, cells_q) VALUES ($1, $2, $3, $4, $5) ON CONFLICT \
                         (point, score) DO UPDATE SET (cells, ages, cells_q) = (excluded.cells, excluded.ages, excluded.cells_q)";
        link.execute(statement, &[&point, score, cells, ages, cells_q])?;
    }
    Ok(())
}
