//! Reading points with all their scores.

use std::collections::{BTreeMap, HashMap};

use postgres::Row;

use super::link::{Link, Value};
use super::runs::{attempt, find_run, number, run_id};
use crate::history::error::HistoryError;
use crate::history::point::WholePoint;
use crate::history::stored::{Matrices, StoredValue};
use leakage::point::{Outcome, Point};
use leakage::sample::Attempt;
use leakage::score::catalogue::CATALOGUE;
use leakage::step::Ordinal;

/// Bytes of points after which an answer ends.
const ENOUGH: usize = 16 << 20;
/// Points that are read at once where they may be many.
const AT_ONCE: usize = 64;

/// The columns that [`head`] reads, of the points of a condition.
macro_rules! points {
    ($condition:literal) => {
        concat!(
            "SELECT id, split, step, epoch, time, rows, rows_seen, provisional, incomplete, tie_fraction, warnings, \
             estimator, neighbours, seed, catalogue_version, seconds, change_errors, concept_rows, launch, restart, \
             superseded > 0, ordinal, repeated_rows FROM point WHERE run = $1 AND split = $2 ",
            $condition
        )
    };
}

/// The flag says whether it is superseded.
type Made = (Point, Option<Attempt>, bool);

/// A point without its scores.
fn head(run: &str, row: &Row) -> Result<Made, HistoryError> {
    let point = Point {
        run: run.into(),
        split: row.get::<_, &str>(1).into(),
        step: row.get::<_, i64>(2).cast_unsigned(),
        ordinal: Ordinal::stated(number(row, 21)?),
        epoch: row.get(3),
        time: row.get(4),
        rows: row.get::<_, i64>(5).cast_unsigned(),
        rows_seen: row.get::<_, i64>(6).cast_unsigned(),
        repeated_rows: row.get::<_, i64>(22).cast_unsigned(),
        provisional: row.get(7),
        incomplete: row.get(8),
        tie_fraction: row.get(9),
        warnings: serde_json::from_str(row.get(10))?,
        estimator: row.get(11),
        neighbours: number(row, 12)?,
        seed: row.get::<_, i64>(13).cast_unsigned(),
        catalogue_version: number(row, 14)?,
        seconds: row.get(15),
        change_errors: serde_json::from_str(row.get(16))?,
        concept_rows: serde_json::from_str(row.get(17))?,
        scores: Vec::new(),
    };
    Ok((point, attempt(row, 18)?, row.get(20)))
}

/// The points that a statement finds, with their scores; with `k` also their matrices.
fn points(
    link: &mut Link,
    run: &str,
    statement: &'static str,
    values: &[Value<'_>],
    k: Option<usize>,
) -> Result<Vec<Made>, HistoryError> {
    let rows = link.query(statement, values)?;
    let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    let mut scores = scores(link, &ids, k)?;
    let whole = |row: &Row| {
        let (point, attempt, superseded) = head(run, row)?;
        let scores = scores.remove(&row.get(0)).unwrap_or_default();
        Ok((Point { scores, ..point }, attempt, superseded))
    };
    rows.iter().map(whole).collect()
}

/// The outcomes of points, in catalogue order.
fn scores(
    link: &mut Link,
    points: &[i64],
    k: Option<usize>,
) -> Result<HashMap<i64, Vec<(String, Outcome)>>, HistoryError> {
    let mut matrices: HashMap<(i64, String), Matrices> = HashMap::new();
    if let Some(k) = k {
        let statement = "SELECT point, score, cells, ages, cells_q FROM matrix WHERE point = ANY($1)";
        for row in link.query(statement, &[&points])? {
            let found = Matrices::unpacked(row.get(2), row.get(3), row.get(4), k);
            matrices.insert((row.get(0), row.get(1)), found);
        }
    }
    let rows = link.query(
        "SELECT point, score, value, standard_error, undefined, per_concept, curve, age, left_out, p_value, \
         per_concept_q FROM value WHERE point = ANY($1)",
        &[&points],
    )?;
    let mut scores: HashMap<i64, Vec<(String, Outcome)>> = HashMap::new();
    for row in rows {
        let (point, score): (i64, String) = (row.get(0), row.get(1));
        let stored = StoredValue {
            value: row.get(2),
            standard_error: row.get(3),
            undefined: row.get(4),
            per_concept: row.get(5),
            curve: row.get(6),
            age: row.get(7),
            left_out: row.get(8),
            p_value: row.get(9),
            per_concept_q: row.get(10),
        };
        let key = (point, score);
        let outcome = stored.unpacked(matrices.remove(&key).unwrap_or_default())?;
        scores.entry(point).or_default().push((key.1, outcome));
    }
    let place = |id: &str| CATALOGUE.iter().position(|score| score.id == id).unwrap_or(usize::MAX);
    scores.values_mut().for_each(|scores| scores.sort_by_cached_key(|(id, _)| (place(id), id.clone())));
    Ok(scores)
}

/// The newest point of the newest branch between two steps, and the attempt that made it.
pub(super) fn newest(
    link: &mut Link,
    run: &str,
    split: &str,
    (first, last): (i64, i64),
    matrices: bool,
) -> Result<Option<Made>, HistoryError> {
    let (id, declared) = find_run(link, run)?;
    let statement = points!("AND step BETWEEN $3 AND $4 AND superseded = 0 ORDER BY step DESC LIMIT 1");
    let k = matrices.then(|| declared.concept_count());
    Ok(points(link, run, statement, &[&id, &split, &first, &last], k)?.pop())
}

/// Whether an attempt has made a complete point of a pass, also where it is superseded.
pub(super) fn has_complete(
    link: &mut Link,
    run: &str,
    split: &str,
    step: i64,
    attempt: Attempt,
    ordinal: Ordinal,
) -> Result<bool, HistoryError> {
    let id = run_id(link, run)?;
    let found = link.query_opt(
        "SELECT 1 FROM point WHERE run = $1 AND split = $2 AND step = $3 AND launch = $4 AND restart = $5 \
         AND ordinal = $6 AND NOT provisional AND NOT incomplete LIMIT 1",
        &[&id, &split, &step, &i64::from(attempt.launch), &i64::from(attempt.restart), &i64::from(ordinal.get())],
    )?;
    Ok(found.is_some())
}

/// A split's newest finished evaluations, oldest first.
pub(super) fn evaluations(link: &mut Link, run: &str, split: &str, most: usize) -> Result<Vec<Point>, HistoryError> {
    let (id, _) = find_run(link, run)?;
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let statement = points!("AND superseded = 0 AND NOT provisional ORDER BY step DESC LIMIT $3");
    let found = points(link, run, statement, &[&id, &split, &most], None)?;
    Ok(found.into_iter().rev().map(|(point, _, _)| point).collect())
}

/// A split's newest finished evaluations of several runs, oldest first, in two readings.
pub(super) fn evaluations_of(
    link: &mut Link,
    runs: &[&str],
    split: &str,
    most: usize,
) -> Result<BTreeMap<String, Vec<Point>>, HistoryError> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let rows = link.query(
        "SELECT newest.*, run.name AS of_run FROM run CROSS JOIN LATERAL (SELECT id, split, step, epoch, time, rows, rows_seen, \
         provisional, incomplete, tie_fraction, warnings, estimator, neighbours, seed, catalogue_version, seconds, \
         change_errors, concept_rows, launch, restart, false, ordinal, repeated_rows FROM point WHERE point.run = run.id \
         AND split = $2 AND superseded = 0 AND NOT provisional ORDER BY step DESC LIMIT $3) newest \
         WHERE run.name = ANY($1) ORDER BY run.id, step",
        &[&runs, &split, &most],
    )?;
    let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    let mut scores = scores(link, &ids, None)?;
    let mut found: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    for row in &rows {
        let run: &str = row.get("of_run");
        let (point, _, _) = head(run, row)?;
        let scores = scores.remove(&row.get(0)).unwrap_or_default();
        found.entry(run.to_owned()).or_default().push(Point { scores, ..point });
    }
    Ok(found)
}

/// Evaluations in which late scores are looked for.
const LATE_AMONG: i64 = 5;

/// See [`Postgres::newest_points`](super::Postgres::newest_points).
pub(super) fn newest_of(
    link: &mut Link,
    curves: &[(&str, &str)],
    late: &[&str],
) -> Result<Vec<(Point, Option<Point>)>, HistoryError> {
    let (runs, splits): (Vec<&str>, Vec<&str>) = curves.iter().copied().unzip();
    let rows = link.query(
        "SELECT newest.*, run.name AS of_run FROM unnest($1::text[], $2::text[]) wanted (name, split) \
         JOIN run ON run.name = wanted.name CROSS JOIN LATERAL (SELECT id, split, step, epoch, time, rows, rows_seen, \
         provisional, incomplete, tie_fraction, warnings, estimator, neighbours, seed, catalogue_version, seconds, \
         change_errors, concept_rows, launch, restart, false, ordinal, repeated_rows FROM point WHERE point.run = run.id \
         AND point.split = wanted.split AND superseded = 0 AND NOT provisional ORDER BY step DESC LIMIT 1) newest",
        &[&runs, &splits],
    )?;
    let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    let mut of_points = scores(link, &ids, None)?;
    // Newest first.
    let before = link.query(
        "SELECT newest.id, value.point, score FROM unnest($1::bigint[]) wanted (id) JOIN point newest ON newest.id = wanted.id \
         CROSS JOIN LATERAL (SELECT id FROM point WHERE point.run = newest.run AND point.split = newest.split \
         AND superseded = 0 AND NOT provisional AND step < newest.step ORDER BY step DESC LIMIT $2) older \
         JOIN value ON value.point = older.id AND score = ANY($3) ORDER BY newest.id, value.point DESC",
        &[&ids, &(LATE_AMONG - 1), &late],
    )?;
    let mut found: BTreeMap<i64, BTreeMap<String, i64>> = BTreeMap::new();
    for row in &before {
        let (newest, point, score): (i64, i64, String) = (row.get(0), row.get(1), row.get(2));
        if !of_points.get(&newest).is_some_and(|scores| scores.iter().any(|(id, _)| *id == score)) {
            found.entry(newest).or_default().entry(score).or_insert(point);
        }
    }
    let sources: Vec<i64> = found.values().flat_map(BTreeMap::values).copied().collect();
    let earlier = scores(link, &sources, None)?;
    rows.iter()
        .map(|row| {
            let id: i64 = row.get(0);
            let (point, _, _) = head(row.get("of_run"), row)?;
            let late = found.remove(&id).map(|sought| {
                let one = |(score, of): (String, i64)| {
                    let outcome = earlier.get(&of)?.iter().find(|(known, _)| *known == score)?.1.clone();
                    Some((score, outcome))
                };
                Point { scores: sought.into_iter().filter_map(one).collect(), ..point.clone() }
            });
            Ok((Point { scores: of_points.remove(&id).unwrap_or_default(), ..point }, late))
        })
        .collect()
}

/// Points from a step on, some megabytes at most, and the step at which the next ones begin.
pub(super) fn whole_points(
    link: &mut Link,
    run: &str,
    split: &str,
    first: i64,
    most: usize,
    matrices: bool,
) -> Result<(Vec<WholePoint>, Option<u64>), HistoryError> {
    let (id, declared) = find_run(link, run)?;
    let k = matrices.then(|| declared.concept_count());
    let at_once = if matrices { 1 } else { AT_ONCE };
    let (mut whole, mut bytes, mut next) = (Vec::new(), 0, Some(first));
    while let Some(from) = next {
        if whole.len() >= most || bytes > ENOUGH {
            break;
        }
        // Whole steps, with all their branches.
        let limit = at_once.min(most - whole.len()) as i64;
        let statement = points!(
            "AND step >= $3 AND step <= (SELECT max(step) FROM (SELECT step FROM point WHERE run = $1 AND split = $2 \
             AND step >= $3 ORDER BY step LIMIT $4) AS part) ORDER BY step, superseded"
        );
        let found = points(link, run, statement, &[&id, &split, &from, &limit], k)?;
        let after = found.last().map(|(point, _, _)| point.step.cast_signed());
        for (point, attempt, superseded) in found {
            bytes += point.bytes();
            whole.push(WholePoint { point, attempt, superseded });
        }
        next = match after {
            Some(after) => step_after(link, id, split, after)?,
            None => None,
        };
    }
    // Only where nothing was asked for.
    if whole.is_empty() && most == 0 {
        next = step_after(link, id, split, first.saturating_sub(1))?;
    }
    Ok((whole, next.map(i64::cast_unsigned)))
}

fn step_after(link: &mut Link, run: i64, split: &str, step: i64) -> Result<Option<i64>, HistoryError> {
    let statement = "SELECT min(step) FROM point WHERE run = $1 AND split = $2 AND step > $3";
    Ok(link.query_one(statement, &[&run, &split, &step])?.get(0))
}
