//! Reading points, curves and matrices of one moment, from either engine.
//!
//! Each row is checked before anything of it is served; one that does not match its checksum is left out and noted.

use std::collections::{HashMap, HashSet};
use std::sync::MutexGuard;

use super::damage::{Damage, Session};
use super::db::{Db, List, Row, Value};
use super::error::HistoryError;
use super::point::{ScoreMatrix, SeriesPoint, WholePoint};
use super::settled::{Ending, Unscored};
use super::stored::{
    Head, MATRIX, MATRIX_COLUMNS, POINT, POINT_COLUMNS, Rest, Squares, StoredValue, VALUE, VALUE_COLUMNS, decode,
    squares,
};
use super::unscored::select_unscored;
use leakage::lock::lock;
use leakage::point::{Outcome, Point};
use leakage::sample::Attempt;
use leakage::score::catalogue::CATALOGUE;
use leakage::step::Ordinal;

/// Bytes of points after which an answer of [`Reading::whole_points`] ends.
const ENOUGH: usize = 16 << 20;
/// Points that are read at once where they may be many.
const AT_ONCE: usize = 64;

/// The history at one moment.
pub(super) struct Reading<'a> {
    pub db: Db<'a>,
    pub session: &'a Session,
}

/// The methods of [`Store`](super::Store) that read the history at one moment, by way of `self.reading`.
macro_rules! reads {
    () => {
        $crate::history::read::reads! {
            fn runs() -> Vec<StoredRun>;
            fn listed(name: &str) -> (StoredRun, Vec<StoredSplit>);
            fn listed_of(names: &[&str]) -> Vec<(StoredRun, Vec<StoredSplit>)>;
            fn ranks(run: &str) -> Vec<StoredRank>;
            fn launches(run: &str) -> Vec<StoredLaunch>;
            fn known_splits(run: &str) -> Vec<String>;
            fn splits(run: &str) -> Vec<StoredSplit>;
            fn unscored(run: &str, split: &str) -> Vec<Unscored>;
            fn series(
                run: &str, split: &str, score: &str, concept: Option<&str>, first_step: u64, last_step: Option<u64>
            ) -> Vec<SeriesPoint>;
            fn newest_steps(run: &str, split: &str, most: usize) -> Vec<u64>;
            fn evaluations(run: &str, split: &str, most: usize) -> Vec<Point>;
            fn evaluation_times(curves: &[(&str, &str)], most: usize) -> Vec<Vec<f64>>;
            fn common_steps(run: &str, a: &str, b: &str, most: usize) -> Vec<u64>;
            fn point(run: &str, split: &str, step: Option<u64>, matrices: bool) -> Option<Point>;
            fn whole_points(
                run: &str, split: &str, first_step: u64, most: usize, matrices: bool
            ) -> (Vec<WholePoint>, Option<u64>);
            fn matrix(run: &str, split: &str, score: &str, step: Option<u64>) -> Option<ScoreMatrix>;
        }
    };
    ($(fn $name:ident($($argument:ident: $kind:ty),*) -> $found:ty;)*) => {
        $(fn $name(&self, $($argument: $kind),*) -> Result<$found, HistoryError> {
            self.reading(|reading| reading.$name($($argument),*))
        })*
    };
}
pub(super) use reads;

/// Stored steps are signed integers, so no stored step is larger.
fn bound(step: u64) -> i64 {
    i64::try_from(step).unwrap_or(i64::MAX)
}

/// The stored steps that are this one, or all.
fn steps_of(step: Option<u64>) -> (i64, i64) {
    step.map_or((0, i64::MAX), |step| i64::try_from(step).map_or((1, 0), |step| (step, step)))
}

fn limit(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}

/// A point as it was read, before its scores.
struct Made {
    id: i64,
    checksum: i64,
    /// The number of its scores, but for those that joined it later.
    scores: u32,
    whole: WholePoint,
}

/// From the columns of [`POINT`] and its checksum; `None` if they do not match.
fn made(row: &Row<'_, '_>, id: i64, superseded: bool) -> Result<Option<Made>, HistoryError> {
    let Some(checksum) = row.checksum(None, 0..POINT_COLUMNS)? else { return Ok(None) };
    let head: Head = decode(&row.get::<Vec<u8>>(POINT_COLUMNS - 1)?)?;
    let scores = head.scores;
    let point = Point {
        run: row.get::<String>(0)?.into(),
        split: row.get::<String>(1)?.into(),
        step: row.unsigned(2)?,
        ordinal: Ordinal::stated(row.number(3)?),
        time: row.get(4)?,
        rows_seen: row.unsigned(7)?,
        provisional: row.get(8)?,
        incomplete: row.get(9)?,
        ..head.point()
    };
    Ok(Some(Made { id, checksum, scores, whole: WholePoint { point, attempt: row.attempt(5)?, superseded } }))
}

/// From the columns of [`VALUE`] from `first` on.
fn value(row: &Row<'_, '_>, first: usize) -> Result<StoredValue, HistoryError> {
    Ok(StoredValue {
        value: row.get(first + 1)?,
        standard_error: row.get(first + 2)?,
        undefined: row.get(first + 3)?,
        body: row.get(first + 4)?,
        lists: row.get(first + 5)?,
    })
}

impl Reading<'_> {
    pub fn damage(&self) -> MutexGuard<'_, Damage> {
        lock(&self.session.damage)
    }

    pub fn unscored(&mut self, run: &str, split: &str) -> Result<Vec<Unscored>, HistoryError> {
        let id = self.run_id(run)?;
        let condition = "unscored.run = $1 AND split = $2 ORDER BY step";
        let found = select_unscored(&mut self.db, condition, &[&id, &split])?;
        let mut damage = self.damage();
        if found.iter().any(Option::is_none) {
            damage.other(format!("a record of run '{run}', split '{split}'"));
        }
        let mut passes: Vec<Unscored> = found.into_iter().flatten().collect();
        passes.extend(damage.steps(run, split).map(|step| Unscored {
            run: run.to_owned(),
            split: split.to_owned(),
            step,
            ordinal: Ordinal::default(),
            time: 0.0,
            outcome: Ending::Damaged,
            reason: "the stored point does not match its checksum".to_owned(),
            rows_seen: 0,
            attempt: None,
        }));
        passes.sort_by_key(|pass| pass.step);
        passes.dedup_by_key(|pass| pass.step);
        Ok(passes)
    }

    pub fn unscored_at(&mut self, run: &str, split: &str, step: u64) -> Result<Option<Unscored>, HistoryError> {
        let (id, (first, last)) = (self.run_id(run)?, steps_of(Some(step)));
        let condition = "unscored.run = $1 AND split = $2 AND step BETWEEN $3 AND $4";
        Ok(select_unscored(&mut self.db, condition, &[&id, &split, &first, &last])?.into_iter().flatten().next_back())
    }

    /// The curve of a score, or of one concept of it, between two steps.
    pub fn series(
        &mut self,
        run: &str,
        split: &str,
        score: &str,
        concept: Option<&str>,
        first_step: u64,
        last_step: Option<u64>,
    ) -> Result<Vec<SeriesPoint>, HistoryError> {
        let (id, place) = match concept {
            Some(name) => {
                let (id, stored) = self.one_run(run)?;
                let place = stored.run.concepts.iter().position(|concept| concept.name == name);
                (id, Some(place.ok_or_else(|| HistoryError::Unknown { what: "concept", name: name.to_owned() })?))
            }
            None => (self.run_id(run)?, None),
        };
        let with_lists = place.is_some() || self.db.sqlite().is_some();
        let statement = format!(
            "SELECT {POINT}, point.checksum, {}, value.checksum, point.id, superseded > 0 FROM point \
             JOIN run ON run.id = point.run JOIN value ON value.point = point.id AND score = $3 \
             WHERE point.run = $1 AND split = $2 AND step BETWEEN $4 AND $5 ORDER BY step, superseded",
            if with_lists { VALUE.to_owned() } else { VALUE.replace("lists", "NULL::bytea") }
        );
        let (session, mut points) = (self.session, Vec::new());
        let bounds = (bound(first_step), last_step.map_or(i64::MAX, bound));
        self.db.each(&statement, &[&id, &split, &score, &bounds.0, &bounds.1], |row| {
            let of_value = POINT_COLUMNS + 1;
            let after = of_value + VALUE_COLUMNS + 1;
            let Some(made) = made(row, row.get(after)?, row.get(after + 1)?)? else { return note(session, row) };
            if row.checksum(Some(made.checksum), of_value..of_value + VALUE_COLUMNS)?.is_none() {
                return note(session, row);
            }
            points.push(series_point(made.whole, value(row, of_value)?, place)?);
            Ok(())
        })?;
        Ok(points)
    }

    pub fn newest_steps(&mut self, run: &str, split: &str, most: usize) -> Result<Vec<u64>, HistoryError> {
        let id = self.run_id(run)?;
        let of_split =
            "SELECT step FROM point WHERE run = $1 AND split = $2 AND superseded = 0 ORDER BY step DESC LIMIT $3";
        let steps = self.db.all(of_split, &[&id, &split, &limit(most)], |row| row.unsigned(0))?;
        Ok(steps.into_iter().rev().collect())
    }

    /// See [`Store::evaluation_times`](super::Store::evaluation_times). No conclusion rests on them, so checksums are not read.
    pub fn evaluation_times(&mut self, curves: &[(&str, &str)], most: usize) -> Result<Vec<Vec<f64>>, HistoryError> {
        let newest = "SELECT time FROM point WHERE run = (SELECT id FROM run WHERE name = $1) AND split = $2 \
             AND superseded = 0 AND NOT provisional ORDER BY step DESC LIMIT $3";
        let mut times =
            |(run, split): &(&str, &str)| self.db.all(newest, &[run, split, &limit(most)], |row| row.get(0));
        curves.iter().map(&mut times).collect()
    }

    pub fn common_steps(&mut self, run: &str, a: &str, b: &str, most: usize) -> Result<Vec<u64>, HistoryError> {
        let id = self.run_id(run)?;
        let of_both = "SELECT a.step FROM point a JOIN point b ON b.run = a.run AND b.step = a.step \
             WHERE a.run = $1 AND a.split = $2 AND b.split = $3 AND a.superseded = 0 AND b.superseded = 0 \
             AND NOT a.provisional AND NOT b.provisional ORDER BY a.step DESC LIMIT $4";
        let steps = self.db.all(of_both, &[&id, &a, &b, &limit(most)], |row| row.unsigned(0))?;
        Ok(steps.into_iter().rev().collect())
    }

    /// A split's newest finished evaluations, at most `most`, in ascending order.
    pub fn evaluations(&mut self, run: &str, split: &str, most: usize) -> Result<Vec<Point>, HistoryError> {
        let id = self.run_id(run)?;
        let newest = "point JOIN run ON run.id = point.run WHERE point.run = $1 AND split = $2 AND superseded = 0 \
             AND NOT provisional ORDER BY step DESC LIMIT $3";
        let found = self.points(newest, &[&id, &split, &limit(most)], false)?;
        Ok(found.into_iter().rev().flatten().map(|whole| whole.point).collect())
    }

    pub fn point(
        &mut self,
        run: &str,
        split: &str,
        step: Option<u64>,
        matrices: bool,
    ) -> Result<Option<Point>, HistoryError> {
        let (id, (first, last)) = (self.run_id(run)?, steps_of(step));
        // The newest intact one.
        for damaged in 0_i64.. {
            let newest = "point JOIN run ON run.id = point.run WHERE point.run = $1 AND split = $2 \
                 AND step BETWEEN $3 AND $4 AND superseded = 0 ORDER BY step DESC LIMIT 1 OFFSET $5";
            match self.points(newest, &[&id, &split, &first, &last, &damaged], matrices)?.pop() {
                Some(None) => {}
                found => return Ok(found.flatten().map(|whole| whole.point)),
            }
        }
        Ok(None)
    }

    pub fn has_complete_point(
        &mut self,
        run: &str,
        split: &str,
        step: u64,
        attempt: Attempt,
        ordinal: Ordinal,
    ) -> Result<bool, HistoryError> {
        let (id, (step, last)) = (self.run_id(run)?, steps_of(Some(step)));
        let (launch, restart) = (i64::from(attempt.launch), i64::from(attempt.restart));
        // Also one that is superseded.
        let of_attempt = "point JOIN run ON run.id = point.run WHERE point.run = $1 AND split = $2 \
             AND step BETWEEN $3 AND $7 AND launch = $4 AND restart = $5 AND ordinal = $6 \
             AND NOT provisional AND NOT incomplete";
        let values: [&dyn Value; 7] = [&id, &split, &step, &launch, &restart, &i64::from(ordinal.get()), &last];
        Ok(self.points(of_attempt, &values, false)?.iter().any(Option::is_some))
    }

    /// Points from a step on, some megabytes at most, and the step at which the next ones begin.
    pub fn whole_points(
        &mut self,
        run: &str,
        split: &str,
        first_step: u64,
        most: usize,
        matrices: bool,
    ) -> Result<(Vec<WholePoint>, Option<u64>), HistoryError> {
        let id = self.run_id(run)?;
        let at_once = if matrices { 1 } else { AT_ONCE };
        let (mut whole, mut seen, mut bytes) = (Vec::new(), 0, 0);
        let mut next = i64::try_from(first_step).ok();
        while let Some(from) = next {
            // Whole steps, with all their branches.
            let part = "SELECT step FROM point WHERE run = $1 AND split = $2 AND step >= $3 ORDER BY step LIMIT $4";
            let steps =
                self.db.all(part, &[&id, &split, &from, &limit(at_once.min(most.max(seen + 1) - seen))], |row| {
                    row.get::<i64>(0)
                })?;
            let (Some(first), Some(last)) = (steps.first(), steps.last()) else { break };
            if seen >= most || bytes > ENOUGH {
                return Ok((whole, Some(first.cast_unsigned())));
            }
            let of_steps = "point JOIN run ON run.id = point.run WHERE point.run = $1 AND split = $2 \
                 AND step BETWEEN $3 AND $4 ORDER BY step, superseded";
            for found in self.points(of_steps, &[&id, &split, first, last], matrices)? {
                seen += 1;
                if let Some(found) = found {
                    bytes += found.point.bytes();
                    whole.push(found);
                }
            }
            next = last.checked_add(1);
        }
        Ok((whole, None))
    }

    /// A score's matrix at the newest of some steps that has an intact one.
    pub fn matrix(
        &mut self,
        run: &str,
        split: &str,
        score: &str,
        step: Option<u64>,
    ) -> Result<Option<ScoreMatrix>, HistoryError> {
        let (id, stored) = self.one_run(run)?;
        let (session, (first, last)) = (self.session, steps_of(step));
        let statement = format!(
            "SELECT {POINT}, point.checksum, {MATRIX}, matrix.checksum FROM point JOIN run ON run.id = point.run \
             JOIN matrix ON matrix.point = point.id AND score = $3 WHERE point.run = $1 AND split = $2 \
             AND step BETWEEN $4 AND $5 AND superseded = 0 ORDER BY step DESC LIMIT 1 OFFSET $6"
        );
        for damaged in 0_i64.. {
            let found = self.db.one(&statement, &[&id, &split, &score, &first, &last, &damaged], |row| {
                let cells = POINT_COLUMNS + 1;
                let intact = match row.checksum(None, 0..POINT_COLUMNS)? {
                    Some(head) => row.checksum(Some(head), cells..cells + MATRIX_COLUMNS)?.is_some(),
                    None => false,
                };
                if !intact {
                    return note(session, row).map(|()| None);
                }
                Ok(Some((row.unsigned(2)?, squares(&row.get::<Vec<u8>>(cells + 1)?)?)))
            })?;
            match found {
                None => return Ok(None),
                Some(None) => {}
                Some(Some((step, Squares { matrix, ages, matrix_q }))) => {
                    let concepts = stored.run.concepts.iter().map(|concept| concept.name.clone()).collect();
                    let matrix = matrix.unwrap_or_default();
                    return Ok(Some(ScoreMatrix { step, concepts, matrix, ages, matrix_q }));
                }
            }
        }
        Ok(None)
    }

    /// The points that a query from `run` and `point` finds, with their scores; `None` for one that is damaged. A damaged
    /// matrix is left out.
    pub fn points(
        &mut self,
        from: &str,
        values: &[&dyn Value],
        matrices: bool,
    ) -> Result<Vec<Option<WholePoint>>, HistoryError> {
        let statement = format!("SELECT {POINT}, point.checksum, point.id, superseded > 0 FROM {from}");
        let session = self.session;
        let heads = self.db.all(&statement, values, |row| {
            let made = made(row, row.get(POINT_COLUMNS + 1)?, row.get(POINT_COLUMNS + 2)?)?;
            if made.is_none() {
                note(session, row)?;
            }
            Ok(made)
        })?;
        let known: HashMap<i64, i64> = heads.iter().flatten().map(|made| (made.id, made.checksum)).collect();
        let (mut scores, damaged) = self.scores(&known, matrices)?;
        let is_shared = self.db.sqlite().is_none();
        let mut whole = |made: Made| {
            let Made { id, scores: expected, mut whole, .. } = made;
            whole.point.scores = scores.remove(&id).unwrap_or_default();
            let is_whole = is_shared || whole.point.scores.len() == expected as usize;
            if !is_whole || damaged.contains(&id) {
                let Point { run, split, step, .. } = &whole.point;
                lock(&session.damage).point(run, split, *step);
            }
            is_whole.then_some(whole)
        };
        Ok(heads.into_iter().map(|made| made.and_then(&mut whole)).collect())
    }

    /// The outcomes of points in catalogue order, without those that are damaged, and the points that have a damaged matrix.
    /// `points` are their numbers and checksums.
    pub fn scores(
        &mut self,
        points: &HashMap<i64, i64>,
        matrices: bool,
    ) -> Result<(Scores, HashSet<i64>), HistoryError> {
        let ids: Vec<i64> = points.keys().copied().collect();
        let (mut found, mut damaged) = (HashMap::new(), HashSet::new());
        if matrices {
            match self.matrices(points, &ids) {
                Ok(read) => (found, damaged) = read,
                Err(HistoryError::Damaged(_)) => damaged.extend(&ids),
                Err(error) => return Err(error),
            }
        }
        let statement = format!("SELECT {VALUE}, checksum, point FROM value WHERE {}", self.db.among("point", 1));
        let mut scores = Scores::new();
        self.db.each(&statement, &[&List(&ids)], |row| {
            let point: i64 = row.get(VALUE_COLUMNS + 1)?;
            if row.checksum(points.get(&point).copied(), 0..VALUE_COLUMNS)?.is_some() {
                let key = (point, row.get::<String>(0)?);
                let outcome = value(row, 0)?.outcome(found.remove(&key).unwrap_or_default())?;
                scores.entry(point).or_default().push((key.1, outcome));
            }
            Ok(())
        })?;
        let place = |id: &str| CATALOGUE.iter().position(|score| score.id == id).unwrap_or(usize::MAX);
        scores.values_mut().for_each(|scores| scores.sort_by_cached_key(|(id, _)| (place(id), id.clone())));
        Ok((scores, damaged))
    }

    /// The matrices of points by point and score, and the points that have a damaged one.
    fn matrices(&mut self, points: &HashMap<i64, i64>, ids: &[i64]) -> Result<(Matrices, HashSet<i64>), HistoryError> {
        let (mut found, mut damaged) = (HashMap::new(), HashSet::new());
        let statement = format!("SELECT {MATRIX}, checksum, point FROM matrix WHERE {}", self.db.among("point", 1));
        self.db.each(&statement, &[&List(ids)], |row| {
            let point: i64 = row.get(MATRIX_COLUMNS + 1)?;
            match row.checksum(points.get(&point).copied(), 0..MATRIX_COLUMNS)? {
                Some(_) => {
                    found.insert((point, row.get(0)?), squares(&row.get::<Vec<u8>>(1)?)?);
                }
                None => {
                    damaged.insert(point);
                }
            }
            Ok(())
        })?;
        Ok((found, damaged))
    }
}

/// Matrices by the number of their point and score.
type Matrices = HashMap<(i64, String), Squares>;

/// The outcomes of points by their number.
pub(super) type Scores = HashMap<i64, Vec<(String, Outcome)>>;

/// Notes that the point whose columns begin the row is damaged.
fn note(session: &Session, row: &Row<'_, '_>) -> Result<(), HistoryError> {
    let text = |column| row.get::<String>(column).unwrap_or_default();
    let step = row.unsigned(2).unwrap_or_default();
    lock(&session.damage).point(&text(0), &text(1), step);
    Ok(())
}

/// A point of a score's curve, or of that of the concept at `place`.
fn series_point(whole: WholePoint, stored: StoredValue, place: Option<usize>) -> Result<SeriesPoint, HistoryError> {
    let WholePoint { point, attempt, superseded } = whole;
    let (value, standard_error, undefined, left_out, p_value) = match place {
        None => {
            let rest: Rest = decode(&stored.body)?;
            (stored.value, stored.standard_error, stored.undefined, rest.left_out(), rest.p_value)
        }
        Some(place) => {
            let (value, reason) = stored.of_concept(place)?;
            (value, None, reason, None, None)
        }
    };
    Ok(SeriesPoint {
        step: point.step,
        epoch: point.epoch,
        time: point.time,
        value,
        standard_error,
        undefined,
        rows: point.rows,
        tie_fraction: point.tie_fraction,
        provisional: point.provisional,
        incomplete: point.incomplete,
        left_out,
        p_value,
        superseded,
        attempt: (attempt.map(|attempt| attempt.launch), attempt.map(|attempt| attempt.restart)),
        ordinal: point.ordinal,
    })
}
