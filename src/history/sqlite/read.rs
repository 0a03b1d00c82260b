//! Reading runs, points, series and matrices.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use rusqlite::types::Value;
use rusqlite::{Connection, Params, Row, params, params_from_iter};

use super::damage::Damage;
use super::row_checksum::{MATRIX, MATRIX_COLUMNS, POINT, POINT_COLUMNS, Seal, VALUE, VALUE_COLUMNS};
use super::unscored::select_unscored;
use crate::history::error::HistoryError;
use crate::history::listing::StoredSplit;
use crate::history::point::{ScoreMatrix, SeriesPoint, WholePoint};
use crate::history::settled::{Ending, Unscored};
use crate::history::stored::{Matrices, StoredValue, left_out_of, of_concept};
use leakage::lock::lock;
use leakage::point::{Outcome, Point};
use leakage::sample::Attempt;
use leakage::step::Ordinal;

/// Bytes of points after which an answer of [`Reading::whole_points`] ends.
const ENOUGH: usize = 16 << 20;

/// Index of the launch among the columns of a point; the restart follows.
const LAUNCH: usize = 18;

/// The history at one moment.
pub(super) struct Reading<'a> {
    pub connection: &'a Connection,
    /// Where rows that do not match their checksum are noted.
    pub noted: &'a Mutex<Damage>,
    /// Names of unfinished runs that were declared since the history was opened.
    pub open: &'a Mutex<HashSet<String>>,
}

impl Reading<'_> {
    pub fn damage(&self) -> MutexGuard<'_, Damage> {
        lock(self.noted)
    }

    pub fn declared(&self) -> MutexGuard<'_, HashSet<String>> {
        lock(self.open)
    }

    pub fn unscored(&self, run: &str, split: &str) -> Result<Vec<Unscored>, HistoryError> {
        let (mut passes, damaged) = select_unscored(self.connection, run, split, (0, i64::MAX))?;
        let mut damage = self.damage();
        if damaged > 0 {
            damage.other(format!("a record of run '{run}', split '{split}'"));
        }
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

    pub fn known_splits(&self, run: &str) -> Result<Vec<String>, HistoryError> {
        let (run, _) = self.find_run(run)?;
        let mut statement = self.connection.prepare_cached(
            "SELECT split FROM point WHERE run = ?1 UNION SELECT split FROM unscored WHERE run = ?1 ORDER BY 1",
        )?;
        let splits = statement.query_map([run], |row| row.get(0))?;
        Ok(splits.collect::<Result<_, _>>()?)
    }

    pub fn splits(&self, run: &str) -> Result<Vec<StoredSplit>, HistoryError> {
        Ok(self.listed(run)?.1)
    }

    pub fn series(
        &self,
        run: &str,
        split: &str,
        score: &str,
        concept: Option<&str>,
        first_step: u64,
        last_step: Option<u64>,
    ) -> Result<Vec<SeriesPoint>, HistoryError> {
        let (id, declared) = self.find_run(run)?;
        let place = match concept {
            Some(name) => {
                let place = declared.concepts.iter().position(|concept| concept.name == name);
                Some(place.ok_or_else(|| HistoryError::Unknown { what: "concept", name: name.to_owned() })?)
            }
            None => None,
        };
        // Stored steps are signed integers, so no stored step is larger.
        let bound = |step: u64| i64::try_from(step).unwrap_or(i64::MAX);
        let of = Curve { id, split, score, place };
        let steps = (bound(first_step), last_step.map_or(i64::MAX, bound));
        self.curve(&of, steps)
    }

    pub fn newest_steps(&self, run: &str, split: &str, most: usize) -> Result<Vec<u64>, HistoryError> {
        let of_split = "step FROM point WHERE run = ?2 AND split = ?3 AND superseded = 0";
        self.steps(of_split, most, run, &[split])
    }

    /// A split's newest finished evaluations, at most `most`, in ascending order.
    pub fn evaluations(&self, run: &str, split: &str, most: usize) -> Result<Vec<Point>, HistoryError> {
        let finished = "step FROM point WHERE run = ?2 AND split = ?3 AND superseded = 0 AND NOT provisional";
        let steps = self.steps(finished, most, run, &[split])?.into_iter();
        steps.filter_map(|step| self.point(run, split, Some(step), false).transpose()).collect()
    }

    pub fn common_steps(&self, run: &str, a: &str, b: &str, most: usize) -> Result<Vec<u64>, HistoryError> {
        let of_both = "a.step AS step FROM point a JOIN point b ON b.run = a.run AND b.step = a.step \
             WHERE a.run = ?2 AND a.split = ?3 AND b.split = ?4 AND a.superseded = 0 AND b.superseded = 0 \
             AND NOT a.provisional AND NOT b.provisional";
        self.steps(of_both, most, run, &[a, b])
    }

    /// The newest `most` of the steps that a query of a run and of these splits selects, in ascending order.
    fn steps(&self, selected: &str, most: usize, run: &str, splits: &[&str]) -> Result<Vec<u64>, HistoryError> {
        let (id, _) = self.find_run(run)?;
        let newest = format!("SELECT step FROM (SELECT {selected} ORDER BY step DESC LIMIT ?1) ORDER BY step");
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let values = [Value::from(most), Value::from(id)].into_iter();
        let values = values.chain(splits.iter().map(|split| Value::from((*split).to_owned())));
        let mut statement = self.connection.prepare_cached(&newest)?;
        let steps = statement.query_map(params_from_iter(values), |row| row.get::<_, i64>(0))?;
        Ok(steps.map(|step| step.map(i64::cast_unsigned)).collect::<Result<_, _>>()?)
    }

    pub fn point(
        &self,
        run: &str,
        split: &str,
        step: Option<u64>,
        matrices: bool,
    ) -> Result<Option<Point>, HistoryError> {
        let (id, declared) = self.find_run(run)?;
        let Ok(step) = step.map(i64::try_from).transpose() else { return Ok(None) };
        let bounds = step.map_or((0, i64::MAX), |step| (step, step));
        let k = declared.concept_count();
        Ok(self.newest(id, split, bounds, matrices.then_some(k))?.map(|(point, _)| point))
    }

    pub fn whole_points(
        &self,
        run: &str,
        split: &str,
        first_step: u64,
        most: usize,
        matrices: bool,
    ) -> Result<(Vec<WholePoint>, Option<u64>), HistoryError> {
        let (id, declared) = self.find_run(run)?;
        let Ok(first) = i64::try_from(first_step) else { return Ok((Vec::new(), None)) };
        let mut statement = self.connection.prepare_cached(
            "SELECT id, step, superseded > 0 FROM point WHERE run = ?1 AND split = ?2 AND step >= ?3 \
             ORDER BY step, superseded",
        )?;
        let mut rows = statement.query(params![id, split, first])?;
        let k = matrices.then(|| declared.concept_count());
        let (mut points, mut seen, mut bytes, mut last) = (Vec::new(), 0, 0, None);
        while let Some(row) = rows.next()? {
            let (id, step, superseded): (i64, i64, bool) = (row.get(0)?, row.get(1)?, row.get(2)?);
            if (seen >= most || bytes > ENOUGH) && last != Some(step) {
                return Ok((points, Some(step.cast_unsigned())));
            }
            (seen, last) = (seen + 1, Some(step));
            if let Some((point, attempt)) = self.first("point.id = ?1", [id], k)? {
                bytes += point.bytes();
                points.push(WholePoint { point, attempt, superseded });
            }
        }
        Ok((points, None))
    }

    pub fn has_complete_point(
        &self,
        run: &str,
        split: &str,
        step: u64,
        attempt: Attempt,
        ordinal: Ordinal,
    ) -> Result<bool, HistoryError> {
        let (id, _) = self.find_run(run)?;
        let Ok(step) = i64::try_from(step) else { return Ok(false) };
        // Also one that is superseded.
        let of_attempt =
            "point.run = ?1 AND split = ?2 AND step = ?3 AND launch = ?4 AND restart = ?5 AND ordinal = ?6";
        let values = params![id, split, step, attempt.launch, attempt.restart, ordinal.get()];
        let found = self.first(of_attempt, values, None)?;
        Ok(found.is_some_and(|(point, _)| !point.provisional && !point.incomplete))
    }

    pub fn matrix(
        &self,
        run: &str,
        split: &str,
        score: &str,
        step: Option<u64>,
    ) -> Result<Option<ScoreMatrix>, HistoryError> {
        let (id, declared) = self.find_run(run)?;
        let Ok(step) = step.map(i64::try_from).transpose() else { return Ok(None) };
        let (first, last) = step.map_or((0, i64::MAX), |step| (step, step));
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT {POINT}, point.checksum, {MATRIX}, matrix.checksum FROM point JOIN run ON run.id = point.run \
             JOIN matrix ON matrix.point = point.id \
             WHERE point.run = ?1 AND split = ?2 AND score = ?3 AND step BETWEEN ?4 AND ?5 AND superseded = 0 \
             ORDER BY step DESC"
        ))?;
        let mut rows = statement.query(params![id, split, score, first, last])?;
        let k = declared.concept_count();
        while let Some(row) = rows.next()? {
            let head = Seal::new().matching(row, 0, POINT_COLUMNS)?;
            let cells = POINT_COLUMNS + 1;
            let intact = match head {
                Some(head) => Seal::under(head).matching(row, cells, MATRIX_COLUMNS)?.is_some(),
                None => false,
            };
            if !intact {
                self.note_damage(row);
                continue;
            }
            let found = matrices_of(row, cells + 1, k)?;
            return Ok(Some(ScoreMatrix {
                step: row.get::<_, i64>(2)?.cast_unsigned(),
                concepts: declared.concepts.iter().map(|concept| concept.name.clone()).collect(),
                matrix: found.cells.unwrap_or_default(),
                ages: found.ages,
                matrix_q: found.cells_q,
            }));
        }
        Ok(None)
    }

    /// Notes that the point whose columns begin the row is damaged.
    fn note_damage(&self, row: &Row<'_>) {
        let step = row.get::<_, i64>(2).unwrap_or_default().cast_unsigned();
        self.damage().point(&text(row, 0), &text(row, 1), step);
    }

    /// The newest intact point of the newest branch from step `first` to `last`. With `k`, it includes matrices.
    fn newest(
        &self,
        run: i64,
        split: &str,
        (first, last): (i64, i64),
        k: Option<usize>,
    ) -> Result<Option<(Point, Option<Attempt>)>, HistoryError> {
        let current = "point.run = ?1 AND split = ?2 AND step BETWEEN ?3 AND ?4 AND superseded = 0 ORDER BY step DESC";
        self.first(current, params![run, split, first, last], k)
    }

    /// The first intact point that a condition selects, and the attempt that made it. With `k`, it includes matrices.
    pub fn first(
        &self,
        condition: &str,
        values: impl Params,
        k: Option<usize>,
    ) -> Result<Option<(Point, Option<Attempt>)>, HistoryError> {
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT {POINT}, point.checksum, point.id, ordinal, repeated_rows FROM point JOIN run ON run.id = point.run WHERE {condition}"
        ))?;
        let mut rows = statement.query(values)?;
        while let Some(row) = rows.next()? {
            if let Some(head) = Seal::new().matching(row, 0, POINT_COLUMNS)?
                && let Some(scores) = self.scores(row, head, k)?
            {
                let attempt = row.get::<_, Option<u32>>(18)?.zip(row.get::<_, Option<u32>>(19)?);
                let attempt = attempt.map(|(launch, restart)| Attempt { launch, restart });
                let ordinal = Ordinal::stated(row.get(POINT_COLUMNS + 2)?);
                let repeated_rows = row.get::<_, i64>(POINT_COLUMNS + 3)?.cast_unsigned();
                return Ok(Some((Point { scores, ordinal, repeated_rows, ..point(row)? }, attempt)));
            }
            self.note_damage(row);
        }
        Ok(None)
    }

    /// The outcomes of a point; `None` if one is missing or damaged. A damaged matrix is left out.
    fn scores(
        &self,
        point: &Row<'_>,
        head: i64,
        k: Option<usize>,
    ) -> Result<Option<Vec<(String, Outcome)>>, HistoryError> {
        let (expected, id): (i64, i64) = (point.get(POINT_COLUMNS - 1)?, point.get(POINT_COLUMNS + 1)?);
        let mut matrices = match k.map(|k| intact_matrices(self.connection, id, head, k)).transpose() {
            Ok(found) => {
                let (matrices, whole) = found.unwrap_or((HashMap::new(), true));
                if !whole {
                    self.note_damage(point);
                }
                matrices
            }
            Err(HistoryError::Damaged(_)) => {
                self.note_damage(point);
                HashMap::new()
            }
            Err(error) => return Err(error),
        };
        let mut statement = self
            .connection
            .prepare_cached(&format!("SELECT {VALUE}, checksum FROM value WHERE point = ?1 ORDER BY position"))?;
        let mut rows = statement.query([id])?;
        let mut scores = Vec::new();
        while let Some(row) = rows.next()? {
            if Seal::under(head).matching(row, 0, VALUE_COLUMNS)?.is_none() {
                return Ok(None);
            }
            let score: String = row.get(0)?;
            let matrices = matrices.remove(&score).unwrap_or_default();
            scores.push((score, outcome(row, matrices)?));
        }
        Ok((scores.len() as i64 == expected).then_some(scores))
    }

    fn curve(&self, of: &Curve<'_>, (first, last): (i64, i64)) -> Result<Vec<SeriesPoint>, HistoryError> {
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT {POINT}, point.checksum, {VALUE}, value.checksum, superseded > 0, ordinal FROM point \
             JOIN run ON run.id = point.run JOIN value ON value.point = point.id \
             WHERE point.run = ?1 AND split = ?2 AND score = ?3 AND step BETWEEN ?4 AND ?5 ORDER BY step, superseded"
        ))?;
        let mut rows = statement.query(params![of.id, of.split, of.score, first, last])?;
        let mut points = Vec::new();
        let value = POINT_COLUMNS + 1;
        while let Some(row) = rows.next()? {
            let intact = match Seal::new().matching(row, 0, POINT_COLUMNS)? {
                Some(head) => Seal::under(head).matching(row, value, VALUE_COLUMNS)?.is_some(),
                None => false,
            };
            if intact {
                let attempt = (row.get(LAUNCH)?, row.get(LAUNCH + 1)?);
                let superseded = row.get(value + VALUE_COLUMNS + 1)?;
                let ordinal = Ordinal::stated(row.get(value + VALUE_COLUMNS + 2)?);
                points.push(SeriesPoint { superseded, attempt, ordinal, ..of.point(row)? });
            } else {
                self.note_damage(row);
            }
        }
        Ok(points)
    }
}

/// The curve of a score, or of one concept of it.
struct Curve<'a> {
    id: i64,
    split: &'a str,
    score: &'a str,
    /// Index of the concept.
    place: Option<usize>,
}

impl Curve<'_> {
    /// From the columns of a point, its checksum, and the columns of a value.
    fn point(&self, row: &Row<'_>) -> Result<SeriesPoint, HistoryError> {
        let value = |column: usize| POINT_COLUMNS + 1 + column;
        let (found, standard_error, undefined) = match self.place {
            None => (row.get(value(2))?, row.get(value(3))?, row.get(value(4))?),
            Some(place) => {
                let cells: Option<Vec<u8>> = row.get(value(5))?;
                let (found, reason) = of_concept(cells.as_deref(), row.get(value(4))?, place);
                (found, None, reason)
            }
        };
        Ok(SeriesPoint {
            step: row.get::<_, i64>(2)?.cast_unsigned(),
            epoch: row.get(3)?,
            time: row.get(4)?,
            rows: row.get::<_, i64>(5)?.cast_unsigned(),
            tie_fraction: row.get(9)?,
            provisional: row.get(7)?,
            incomplete: row.get(8)?,
            value: found,
            standard_error,
            undefined,
            left_out: if self.place.is_none() {
                left_out_of(row.get::<_, Option<String>>(value(8))?.as_deref())?
            } else {
                None
            },
            p_value: if self.place.is_none() { row.get(value(9))? } else { None },
            superseded: false,
            attempt: (None, None),
            ordinal: Ordinal::default(),
        })
    }
}

/// A point from the columns under its checksum: without scores, ordinal and repeated rows.
fn point(row: &Row<'_>) -> Result<Point, HistoryError> {
    let list = |column: usize| row.get::<_, String>(column);
    Ok(Point {
        run: list(0)?.into(),
        split: list(1)?.into(),
        step: row.get::<_, i64>(2)?.cast_unsigned(),
        epoch: row.get(3)?,
        time: row.get(4)?,
        rows: row.get::<_, i64>(5)?.cast_unsigned(),
        rows_seen: row.get::<_, i64>(6)?.cast_unsigned(),
        repeated_rows: 0,
        provisional: row.get(7)?,
        incomplete: row.get(8)?,
        tie_fraction: row.get(9)?,
        warnings: serde_json::from_str(&list(10)?)?,
        estimator: row.get(11)?,
        neighbours: row.get(12)?,
        seed: row.get::<_, i64>(13)?.cast_unsigned(),
        catalogue_version: row.get(14)?,
        seconds: row.get(15)?,
        change_errors: serde_json::from_str(&list(16)?)?,
        concept_rows: serde_json::from_str(&list(17)?)?,
        ordinal: Ordinal::default(),
        scores: Vec::new(),
    })
}

fn matrices_of(row: &Row<'_>, first: usize, k: usize) -> rusqlite::Result<Matrices> {
    let blob = |column: usize| row.get::<_, Option<Vec<u8>>>(first + column);
    let (cells, ages, cells_q) = (blob(0)?, blob(1)?, blob(2)?);
    Ok(Matrices::unpacked(cells.as_deref(), ages.as_deref(), cells_q.as_deref(), k))
}

/// The matrices of a point that match their checksum, by score, and whether all do.
fn intact_matrices(
    connection: &Connection,
    point: i64,
    head: i64,
    k: usize,
) -> Result<(HashMap<String, Matrices>, bool), HistoryError> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {MATRIX}, checksum FROM matrix WHERE point = ?1"))?;
    let mut rows = statement.query([point])?;
    let (mut matrices, mut whole) = (HashMap::new(), true);
    while let Some(row) = rows.next()? {
        if Seal::under(head).matching(row, 0, MATRIX_COLUMNS)?.is_none() {
            whole = false;
            continue;
        }
        matrices.insert(row.get::<_, String>(0)?, matrices_of(row, 1, k)?);
    }
    Ok((matrices, whole))
}

/// From the columns of a value.
fn outcome(row: &Row<'_>, matrices: Matrices) -> Result<Outcome, HistoryError> {
    let stored = StoredValue {
        value: row.get(2)?,
        standard_error: row.get(3)?,
        undefined: row.get(4)?,
        per_concept: row.get(5)?,
        curve: row.get(6)?,
        age: row.get(7)?,
        left_out: row.get(8)?,
        p_value: row.get(9)?,
        per_concept_q: row.get(10)?,
    };
    stored.unpacked(matrices)
}

/// A column's text for a message, whatever the column holds.
fn text(row: &Row<'_>, column: usize) -> String {
    match row.get_ref(column) {
        Ok(rusqlite::types::ValueRef::Text(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}
