//! Reading curves, steps and matrices.

use std::collections::BTreeMap;

use super::link::Link;
use super::runs::{attempt, find_run, number, run_id};
use crate::history::error::HistoryError;
use crate::history::point::{ScoreMatrix, SeriesPoint};
use crate::history::stored::{Matrices, left_out_of, of_concept};
use leakage::step::Ordinal;

/// The curve of a score, or of one concept of it, between two steps.
pub(super) fn series(
    link: &mut Link,
    run: &str,
    split: &str,
    score: &str,
    concept: Option<&str>,
    (first, last): (i64, i64),
) -> Result<Vec<SeriesPoint>, HistoryError> {
    let (id, place) = match concept {
        Some(name) => {
            let (id, declared) = find_run(link, run)?;
            let place = declared.concepts.iter().position(|concept| concept.name == name);
            let place = place.ok_or_else(|| HistoryError::Unknown { what: "concept", name: name.to_owned() })?;
            (id, Some(place))
        }
        None => (run_id(link, run)?, None),
    };
    let rows = link.query(
        "SELECT step, epoch, time, rows, tie_fraction, provisional, incomplete, value, standard_error, undefined, \
         CASE WHEN $6 THEN per_concept END, left_out, p_value, launch, restart, superseded > 0, ordinal \
         FROM point JOIN value ON value.point = point.id AND score = $3 \
         WHERE run = $1 AND split = $2 AND step BETWEEN $4 AND $5 ORDER BY step, superseded",
        &[&id, &split, &score, &first, &last, &place.is_some()],
    )?;
    let mut points = Vec::with_capacity(rows.len());
    for row in rows {
        let attempt = attempt(&row, 13)?;
        let (value, standard_error, undefined) = match place {
            None => (row.get(7), row.get(8), row.get(9)),
            Some(place) => {
                let (value, reason) = of_concept(row.get(10), row.get(9), place);
                (value, None, reason)
            }
        };
        points.push(SeriesPoint {
            step: row.get::<_, i64>(0).cast_unsigned(),
            epoch: row.get(1),
            time: row.get(2),
            rows: row.get::<_, i64>(3).cast_unsigned(),
            tie_fraction: row.get(4),
            provisional: row.get(5),
            incomplete: row.get(6),
            value,
            standard_error,
            undefined,
            left_out: if place.is_none() { left_out_of(row.get(11))? } else { None },
            p_value: if place.is_none() { row.get(12) } else { None },
            superseded: row.get(15),
            attempt: (attempt.map(|attempt| attempt.launch), attempt.map(|attempt| attempt.restart)),
            ordinal: Ordinal::stated(number(&row, 16)?),
        });
    }
    Ok(points)
}

/// The values of a score at the finished evaluations of several runs, by name, in ascending order.
pub(super) fn values_of(
    link: &mut Link,
    runs: &[&str],
    split: &str,
    score: &str,
) -> Result<BTreeMap<String, Vec<(u64, f64)>>, HistoryError> {
    let rows = link.query(
        "SELECT name, step, value FROM run JOIN point ON point.run = run.id AND split = $2 AND superseded = 0 \
         AND NOT provisional JOIN value ON value.point = point.id AND score = $3 AND value IS NOT NULL \
         WHERE name = ANY($1) ORDER BY run.id, step",
        &[&runs, &split, &score],
    )?;
    let mut found: BTreeMap<String, Vec<(u64, f64)>> = BTreeMap::new();
    for row in rows {
        found.entry(row.get(0)).or_default().push((row.get::<_, i64>(1).cast_unsigned(), row.get(2)));
    }
    Ok(found)
}

/// Steps of a split's newest points in ascending order.
pub(super) fn newest_steps(link: &mut Link, run: &str, split: &str, most: usize) -> Result<Vec<u64>, HistoryError> {
    let id = run_id(link, run)?;
    let mut rows = link.query(
        "SELECT step FROM point WHERE run = $1 AND split = $2 AND superseded = 0 ORDER BY step DESC LIMIT $3",
        &[&id, &split, &i64::try_from(most).unwrap_or(i64::MAX)],
    )?;
    rows.reverse();
    Ok(rows.iter().map(|row| row.get::<_, i64>(0).cast_unsigned()).collect())
}

/// See [`Store::evaluation_times`](crate::history::Store::evaluation_times).
pub(super) fn evaluation_times(
    link: &mut Link,
    runs: &[&str],
    most: usize,
) -> Result<BTreeMap<String, Vec<Vec<f64>>>, HistoryError> {
    let rows = link.query(
        "SELECT name, array(SELECT time FROM point WHERE point.run = curve.run AND point.split = curve.split \
         AND superseded = 0 AND NOT provisional ORDER BY step DESC LIMIT $2) \
         FROM curve JOIN run ON run.id = curve.run WHERE name = ANY($1) ORDER BY split",
        &[&runs, &(most as i64)],
    )?;
    let mut found: BTreeMap<String, Vec<Vec<f64>>> = BTreeMap::new();
    for row in rows {
        let times: Vec<f64> = row.get(1);
        if !times.is_empty() {
            found.entry(row.get(0)).or_default().push(times);
        }
    }
    Ok(found)
}

/// The newest steps at which both splits have a finished evaluation, in ascending order.
pub(super) fn common_steps(
    link: &mut Link,
    run: &str,
    a: &str,
    b: &str,
    most: usize,
) -> Result<Vec<u64>, HistoryError> {
    let id = run_id(link, run)?;
    let mut rows = link.query(
        "SELECT a.step FROM point a JOIN point b ON b.run = a.run AND b.step = a.step \
         WHERE a.run = $1 AND a.split = $2 AND b.split = $3 AND a.superseded = 0 AND b.superseded = 0 \
         AND NOT a.provisional AND NOT b.provisional ORDER BY a.step DESC LIMIT $4",
        &[&id, &a, &b, &i64::try_from(most).unwrap_or(i64::MAX)],
    )?;
    rows.reverse();
    Ok(rows.iter().map(|row| row.get::<_, i64>(0).cast_unsigned()).collect())
}

/// A score's matrix at the newest of some steps that has one.
pub(super) fn matrix(
    link: &mut Link,
    run: &str,
    split: &str,
    score: &str,
    (first, last): (i64, i64),
) -> Result<Option<ScoreMatrix>, HistoryError> {
    let (id, declared) = find_run(link, run)?;
    let row = link.query_opt(
        "SELECT step, cells, ages, cells_q FROM point JOIN matrix ON matrix.point = point.id AND score = $3 \
         WHERE run = $1 AND split = $2 AND step BETWEEN $4 AND $5 AND superseded = 0 ORDER BY step DESC LIMIT 1",
        &[&id, &split, &score, &first, &last],
    )?;
    Ok(row.map(|row| {
        let found = Matrices::unpacked(row.get(1), row.get(2), row.get(3), declared.concept_count());
        ScoreMatrix {
            step: row.get::<_, i64>(0).cast_unsigned(),
            concepts: declared.concepts.iter().map(|concept| concept.name.clone()).collect(),
            matrix: found.cells.unwrap_or_default(),
            ages: found.ages,
            matrix_q: found.cells_q,
        }
    }))
}
