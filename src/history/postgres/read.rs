//! Reading points of many runs at once.

use std::collections::{BTreeMap, HashMap};

use super::store::Postgres;
use crate::history::db::List;
use crate::history::error::HistoryError;
use crate::history::read::Reading;
use leakage::point::{Outcome, Point};

/// Evaluations in which late scores are looked for.
const LATE_AMONG: i64 = 5;

impl Reading<'_> {
    /// A split's newest finished evaluations of several runs, oldest first, in two readings.
    pub fn evaluations_of(
        &mut self,
        runs: &[&str],
        split: &str,
        most: usize,
    ) -> Result<BTreeMap<String, Vec<Point>>, HistoryError> {
        let newest = "run CROSS JOIN LATERAL (SELECT * FROM point WHERE point.run = run.id AND split = $2 \
             AND superseded = 0 AND NOT provisional ORDER BY step DESC LIMIT $3) point \
             WHERE run.name = ANY($1) ORDER BY run.id, step";
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let mut found: BTreeMap<String, Vec<Point>> = BTreeMap::new();
        for whole in self.points(newest, &[&List(runs), &split, &most], false)?.into_iter().flatten() {
            found.entry(whole.point.run.to_string()).or_default().push(whole.point);
        }
        Ok(found)
    }

    /// The values of a score at the finished evaluations of several runs, by name, in ascending order.
    pub fn values_of(
        &mut self,
        runs: &[&str],
        split: &str,
        score: &str,
    ) -> Result<BTreeMap<String, Vec<(u64, f64)>>, HistoryError> {
        let statement = "SELECT name, step, value FROM run JOIN point ON point.run = run.id AND split = $2 AND superseded = 0 \
             AND NOT provisional JOIN value ON value.point = point.id AND score = $3 AND value IS NOT NULL \
             WHERE name = ANY($1) ORDER BY run.id, step";
        let mut found: BTreeMap<String, Vec<(u64, f64)>> = BTreeMap::new();
        self.db.each(statement, &[&List(runs), &split, &score], |row| {
            found.entry(row.get(0)?).or_default().push((row.unsigned(1)?, row.get(2)?));
            Ok(())
        })?;
        Ok(found)
    }
}

impl Postgres {
    /// The newest finished point of each of these runs and splits that has one. Where it lacks some of the scores `late`, a
    /// second point has those of the evaluations just before.
    pub fn newest_points(
        &self,
        curves: &[(&str, &str)],
        late: &[&str],
    ) -> Result<Vec<(Point, Option<Point>)>, HistoryError> {
        let (runs, splits): (Vec<&str>, Vec<&str>) = curves.iter().copied().unzip();
        self.reading(|reading| {
            let newest = "unnest($1::text[], $2::text[]) wanted (run_name, of_split) JOIN run ON run.name = run_name \
                 CROSS JOIN LATERAL (SELECT * FROM point WHERE point.run = run.id AND point.split = of_split \
                 AND superseded = 0 AND NOT provisional ORDER BY step DESC LIMIT 1) point";
            let points = reading.points(newest, &[&List(&runs), &List(&splits)], false)?;
            let points: Vec<Point> = points.into_iter().flatten().map(|whole| whole.point).collect();
            let mut earlier = earlier(reading, &points, late)?;
            let with_late = |(at, point): (usize, Point)| {
                let scores = earlier.remove(&at);
                let late = scores.map(|scores| Point { scores, ..point.without_matrices() });
                (point, late)
            };
            Ok(points.into_iter().enumerate().map(with_late).collect())
        })
    }
}

/// The scores `late` that points lack, of the evaluations just before: by the index of the point.
fn earlier(
    reading: &mut Reading<'_>,
    points: &[Point],
    late: &[&str],
) -> Result<BTreeMap<usize, Vec<(String, Outcome)>>, HistoryError> {
    let runs: Vec<&str> = points.iter().map(|point| &*point.run).collect();
    let splits: Vec<&str> = points.iter().map(|point| &*point.split).collect();
    let steps: Vec<i64> = points.iter().map(|point| point.step.cast_signed()).collect();
    // Newest first.
    let before = reading.db.all(
        "SELECT at, value.point, score FROM unnest($1::text[], $2::text[], $3::bigint[]) \
         WITH ORDINALITY wanted (run_name, of_split, of_step, at) JOIN run ON run.name = run_name \
         CROSS JOIN LATERAL (SELECT id FROM point WHERE point.run = run.id AND point.split = of_split \
         AND superseded = 0 AND NOT provisional AND step < of_step ORDER BY step DESC LIMIT $4) older \
         JOIN value ON value.point = older.id AND score = ANY($5) ORDER BY at, value.point DESC",
        &[&List(&runs), &List(&splits), &List(&steps), &(LATE_AMONG - 1), &List(late)],
        |row| Ok((row.get::<i64>(0)? as usize - 1, row.get::<i64>(1)?, row.get::<String>(2)?)),
    )?;
    let mut sought: BTreeMap<usize, BTreeMap<String, i64>> = BTreeMap::new();
    for (at, point, score) in before {
        if points[at].score(&score).is_none() {
            sought.entry(at).or_default().entry(score).or_insert(point);
        }
    }
    let sources: HashMap<i64, i64> = sought.values().flat_map(BTreeMap::values).map(|id| (*id, 0)).collect();
    let (scores, _) = reading.scores(&sources, false)?;
    let one = |(score, of): (String, i64)| {
        let outcome = scores.get(&of)?.iter().find(|(known, _)| *known == score)?.1.clone();
        Some((score, outcome))
    };
    Ok(sought.into_iter().map(|(at, sought)| (at, sought.into_iter().filter_map(one).collect())).collect())
}
