//! The newest evaluations of a split in one row, so that one query compares thousands of runs.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use postgres::Row;
use serde::{Deserialize, Serialize};

use super::cache::Cached;
use super::link::Link;
use crate::history::error::HistoryError;
use crate::history::stored::{Head, decode, encode};
use leakage::compare::OF_GROUPS;
use leakage::lock::lock;
use leakage::point::{Brief, Whole};

/// Evaluations per row: as many as a comparison reads by default.
const KEPT: usize = 5;
/// Values read by one query; a row of its answer takes half a kilobyte.
const AT_ONCE: usize = 20_000;
/// Splits whose evaluations are cached, each 25 MB for 10,000 runs.
const SPLITS: usize = 4;

/// The newest evaluations with the scores of [`OF_GROUPS`] of all runs that have any, by name.
type Evaluations = HashMap<Arc<str>, Arc<[Brief]>>;

/// Most recently read splits.
#[derive(Default)]
pub(super) struct Newest(Mutex<Vec<(String, Arc<Cached<Evaluations>>)>>);

impl Newest {
    fn of(&self, split: &str) -> Arc<Cached<Evaluations>> {
        let mut splits = lock(&self.0);
        let known = splits.iter().position(|(known, _)| known == split).map(|at| splits.remove(at));
        let (split, kept) = known.unwrap_or_else(|| (split.to_owned(), Arc::default()));
        splits.insert(0, (split, Arc::clone(&kept)));
        splits.truncate(SPLITS);
        kept
    }
}

/// The body of a row.
#[derive(Serialize, Deserialize)]
struct Recent<'a> {
    #[serde(borrow)]
    scores: Vec<&'a str>,
    /// Oldest first, with the values of `scores`.
    evaluations: Vec<Brief>,
}

/// One entry per run, in the order of `runs`. Call it first in a transaction.
pub(super) fn briefs(
    link: &mut Link,
    newest: &Newest,
    runs: &[&str],
    split: &str,
    scores: &[&str],
    most: usize,
) -> Result<Vec<Arc<[Brief]>>, HistoryError> {
    if most > KEPT {
        return from_points(link, runs, split, scores, most);
    }
    let known = newest.of(split).current(
        link,
        |link| link.query_one("SELECT count(*), max(changed) FROM curve WHERE split = $1", &[&split]),
        |link, known, since| add_changed(link, known, split, since),
    )?;
    let none: Arc<[Brief]> = Arc::default();
    let mut found: Vec<Arc<[Brief]>> = runs.iter().map(|run| Arc::clone(known.get(*run).unwrap_or(&none))).collect();
    let places: Vec<Option<usize>> =
        scores.iter().map(|score| OF_GROUPS.iter().position(|known| known == score)).collect();
    if scores == OF_GROUPS && most == KEPT {
        return Ok(found);
    }
    for evaluations in &mut found {
        let newest = evaluations[evaluations.len().saturating_sub(most)..].iter();
        *evaluations = newest.map(|evaluation| with(evaluation, &places)).collect();
    }
    let others: Vec<&str> =
        scores.iter().zip(&places).filter(|(_, place)| place.is_none()).map(|(id, _)| *id).collect();
    if !others.is_empty() {
        add(link, runs, split, (scores, &others), &mut found)?;
    }
    Ok(found)
}

/// An evaluation with the scores at these indices.
fn with(evaluation: &Brief, places: &[Option<usize>]) -> Brief {
    let at = |place: &Option<usize>| place.and_then(|place| evaluation.scores[place].clone());
    Brief { scores: places.iter().map(at).collect(), estimator: evaluation.estimator.clone(), ..*evaluation }
}

/// Adds the scores `others` to the newest evaluations.
fn add(
    link: &mut Link,
    runs: &[&str],
    split: &str,
    (scores, others): (&[&str], &[&str]),
    found: &mut [Arc<[Brief]>],
) -> Result<(), HistoryError> {
    let with_any: Vec<usize> = (0..runs.len()).filter(|at| !found[*at].is_empty()).collect();
    for together in with_any.chunks((AT_ONCE / (KEPT * others.len())).max(1)) {
        let names: Vec<&str> = together.iter().map(|at| runs[*at]).collect();
        // Counted from 1, the newest evaluation first.
        let rows = link.query(
            "SELECT wanted.at, newest.place, array_position($3::text[], score), value, standard_error, undefined \
             FROM unnest($1::text[]) WITH ORDINALITY wanted (name, at) JOIN run ON run.name = wanted.name \
             CROSS JOIN LATERAL (SELECT id, row_number() OVER (ORDER BY step DESC) AS place FROM point \
             WHERE point.run = run.id AND split = $2 AND superseded = 0 AND NOT provisional ORDER BY step DESC LIMIT $4) newest \
             JOIN value ON value.point = newest.id AND score = ANY($5)",
            &[&names, &split, &scores, &(KEPT as i64), &others],
        )?;
        for row in &rows {
            let (run, age): (i64, i64) = (row.get(0), row.get(1));
            let evaluations = &mut found[together[run as usize - 1]];
            let Some(at) = evaluations.len().checked_sub(age as usize) else { continue };
            // Created above, so there is no other reference.
            let Some(evaluation) = Arc::get_mut(evaluations).map(|evaluations| &mut evaluations[at]) else { continue };
            evaluation.scores[row.get::<_, i32>(2) as usize - 1] = Some(whole(row, 3));
        }
    }
    Ok(())
}

/// Reads the newest evaluations of the runs whose curves changed.
fn add_changed(
    link: &mut Link,
    known: &mut Evaluations,
    split: &str,
    since: SystemTime,
) -> Result<usize, HistoryError> {
    let rows = link.query(
        "SELECT run.id, name, body FROM curve JOIN run ON run.id = curve.run WHERE split = $1 AND curve.changed >= $2",
        &[&split, &since],
    )?;
    let mut others = BTreeMap::new();
    for row in rows {
        let name: Arc<str> = row.get::<_, &str>(1).into();
        let Some(body) = row.get::<_, Option<&[u8]>>(2) else {
            known.insert(name, Arc::default());
            continue;
        };
        // A row of another version counts as absent.
        match postcard::from_bytes::<Recent<'_>>(body).ok().filter(|recent| recent.scores == OF_GROUPS) {
            Some(recent) => {
                known.insert(name, recent.evaluations.into());
            }
            None => {
                others.insert(row.get::<_, i64>(0), name);
            }
        }
    }
    let ids: Vec<i64> = others.keys().copied().collect();
    for together in ids.chunks(AT_ONCE / (KEPT * OF_GROUPS.len())) {
        let mut found = read(link, together, split, &OF_GROUPS, KEPT)?;
        for id in together {
            let evaluations = found.remove(id).unwrap_or_default();
            known.extend(others.remove(id).map(|name| (name, evaluations.into())));
        }
    }
    Ok(known.len())
}

/// Reads more evaluations than a row holds.
fn from_points(
    link: &mut Link,
    runs: &[&str],
    split: &str,
    scores: &[&str],
    most: usize,
) -> Result<Vec<Arc<[Brief]>>, HistoryError> {
    let mut found = Vec::with_capacity(runs.len());
    for together in runs.chunks((AT_ONCE / (most * scores.len().max(1))).max(1)) {
        let rows = link.query("SELECT id, name FROM run WHERE name = ANY($1)", &[&together])?;
        let by_name: HashMap<&str, i64> = rows.iter().map(|row| (row.get(1), row.get(0))).collect();
        let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        let mut read = read(link, &ids, split, scores, most)?;
        for run in together {
            found.push(by_name.get(run).and_then(|id| read.remove(id)).unwrap_or_default().into());
        }
    }
    Ok(found)
}

/// Reads evaluations from the points themselves, for runs that have any, by number.
fn read(
    link: &mut Link,
    runs: &[i64],
    split: &str,
    scores: &[&str],
    most: usize,
) -> Result<BTreeMap<i64, Vec<Brief>>, HistoryError> {
    if runs.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows = link.query(
        "SELECT wanted.run, newest.id, CASE WHEN row_number() OVER (PARTITION BY newest.id) = 1 THEN newest.body END, \
         score, value, standard_error, undefined FROM unnest($1::bigint[]) wanted (run) \
         CROSS JOIN LATERAL (SELECT id, step, body FROM point WHERE point.run = wanted.run AND split = $2 \
         AND superseded = 0 AND NOT provisional ORDER BY step DESC LIMIT $3) newest \
         LEFT JOIN value ON value.point = newest.id AND score = ANY($4) ORDER BY wanted.run, step, newest.id, 3 NULLS LAST",
        &[&runs, &split, &i64::try_from(most).unwrap_or(i64::MAX), &scores],
    )?;
    let mut found: BTreeMap<i64, Vec<Brief>> = BTreeMap::new();
    let mut last = None;
    for row in &rows {
        let evaluations = found.entry(row.get(0)).or_default();
        let point: i64 = row.get(1);
        if last != Some(point) {
            last = Some(point);
            evaluations.push(decode::<Head>(row.get(2))?.brief(scores.len()));
        }
        let place = row.get::<_, Option<&str>>(3).and_then(|id| scores.iter().position(|score| *score == id));
        if let (Some(place), Some(evaluation)) = (place, evaluations.last_mut()) {
            evaluation.scores[place] = Some(whole(row, 4));
        }
    }
    Ok(found)
}

/// Reads a score from three columns.
fn whole(row: &Row, column: usize) -> Whole {
    match (row.get(column + 2), row.get(column)) {
        (None, Some(value)) => Whole::Value { value, standard_error: row.get(column + 1) },
        (reason, _) => Whole::Undefined(reason.unwrap_or_default()),
    }
}

/// Writes the state of a split whose points have changed.
pub(in crate::history) fn set_curve(link: &mut Link, run: i64, split: &str) -> Result<(), HistoryError> {
    let evaluations = read(link, &[run], split, &OF_GROUPS, KEPT)?.remove(&run).unwrap_or_default();
    let recent = Recent { scores: OF_GROUPS.to_vec(), evaluations };
    let body = encode(&recent)?;
    link.execute(
        "INSERT INTO curve (run, split, time, filling, body, changed) SELECT $1, $2, \
         (SELECT time FROM point WHERE run = $1 AND split = $2 AND superseded = 0 AND NOT provisional \
         ORDER BY step DESC LIMIT 1), \
         coalesce((SELECT provisional FROM point WHERE run = $1 AND split = $2 AND superseded = 0 \
         ORDER BY step DESC LIMIT 1), false), $3, clock_timestamp() \
         ON CONFLICT (run, split) DO UPDATE SET (time, filling, body, changed) = \
         (excluded.time, excluded.filling, excluded.body, excluded.changed)",
        &[&run, &split, &body],
    )?;
    Ok(())
}
