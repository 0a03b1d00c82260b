//! One side of a comparison by label: the runs with one value of it. Only the means of each run are kept, so that
//! thousands of runs are compared quickly.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::point::{Brief, Whole};

use super::interval::{Estimate, Measured};
use super::side::{Made, Side, Sided, mean_of_folds, why_not};

/// Some scores of the runs with one value of a label.
#[derive(Clone, Debug)]
pub struct Class {
    name: String,
    /// Names of the runs with evaluations.
    pub(super) runs: Vec<String>,
    scores: Vec<(String, OfScore)>,
}

#[derive(Clone, Debug, Default)]
struct OfScore {
    /// The mean of each run's evaluations; `None` where none of them has a value.
    runs: Vec<Option<Estimate>>,
    mean: OnceCell<Option<Estimate>>,
    /// The last reason why an evaluation has no value.
    why: Option<String>,
    /// Estimator, neighbours and catalogue version of the evaluations that have the score.
    made: Vec<(String, u32, u32)>,
    /// Least and largest N of them.
    rows: (u64, u64),
}

impl Class {
    /// Without runs, named after the label's value.
    pub fn new(name: impl Into<String>, scores: &[&str]) -> Self {
        let scores = scores.iter().map(|score| ((*score).to_owned(), OfScore::default())).collect();
        Self { name: name.into(), runs: Vec::new(), scores }
    }

    /// Adds a run by its newest evaluations, oldest first, with the scores of this class.
    pub fn add(&mut self, run: &str, evaluations: &[Brief]) {
        if !evaluations.is_empty() {
            self.runs.push(run.to_owned());
        }
        for (place, (_, score)) in self.scores.iter_mut().enumerate() {
            score.add(place, evaluations);
        }
    }

    /// Adds the label to its name, so that a sentence says of what the name is a value.
    pub(super) fn name_by(&mut self, label: &str) {
        self.name = format!("{label}={}", self.name);
    }

    /// The score's mean in each run; `None` where a run has none.
    pub(super) fn of_runs(&self, score: &str) -> Option<Vec<f64>> {
        self.find(score)?.runs.iter().map(|mean| mean.map(|mean| mean.mean)).collect()
    }

    pub(super) fn count(&self) -> usize {
        self.runs.len()
    }

    /// Notes on those of the scores that only some of the runs have, one for each number of runs.
    pub(super) fn partial(&self, scores: &[String]) -> Vec<String> {
        let mut by_count: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for (id, known) in self.scores.iter().filter(|(id, _)| scores.contains(id)) {
            by_count.entry(known.runs.iter().flatten().count()).or_default().push(id);
        }
        let partial = by_count.into_iter().filter(|(count, _)| (1..self.count()).contains(count));
        let note = |(count, scores): (usize, Vec<&str>)| {
            let seeds = if count == 1 { ": its interval says nothing about other seeds" } else { "" };
            let (name, of) = (&self.name, scores.join(", "));
            format!(
                "{count} of {} runs of {name} {} {of}{seeds}",
                self.count(),
                if count == 1 { "has" } else { "have" }
            )
        };
        partial.map(note).collect()
    }

    fn find(&self, score: &str) -> Option<&OfScore> {
        self.scores.iter().find(|(id, _)| id == score).map(|(_, known)| known)
    }
}

impl OfScore {
    fn add(&mut self, place: usize, evaluations: &[Brief]) {
        let mut values = Vec::with_capacity(evaluations.len());
        for evaluation in evaluations {
            let rows = evaluation.rows;
            match evaluation.scores.get(place) {
                None | Some(None) => continue,
                Some(Some(Whole::Value { value, standard_error })) => {
                    values.push(Measured { value: *value, standard_error: *standard_error, rows });
                }
                Some(Some(Whole::Undefined(why))) => self.why = Some(why.clone()),
            }
            self.rows = match self.made.is_empty() {
                true => (rows, rows),
                false => (self.rows.0.min(rows), self.rows.1.max(rows)),
            };
            let Brief { estimator, neighbours, catalogue_version, .. } = evaluation;
            let is_known = |made: &(String, u32, u32)| {
                (made.1, made.2) == (*neighbours, *catalogue_version) && made.0 == *estimator
            };
            if !self.made.iter().any(is_known) {
                self.made.push((estimator.clone(), *neighbours, *catalogue_version));
            }
        }
        self.runs.push(Estimate::of_evaluations(&values));
        self.mean = OnceCell::new();
    }
}

impl Sided for Class {
    fn name(&self) -> &str {
        &self.name
    }

    fn estimate(&self, score: &str) -> Result<Estimate, String> {
        let known = self.find(score);
        let mean = known.and_then(|known| *known.mean.get_or_init(|| mean_of_folds(&known.runs)));
        mean.ok_or_else(|| why_not(&self.name, known.and_then(|known| known.why.as_deref())))
    }

    fn made(&self, score: &str) -> Option<Made> {
        let known = self.find(score).filter(|known| !known.made.is_empty())?;
        let by = known.made.iter().map(|(estimator, neighbours, version)| Made::by(estimator, *neighbours, *version));
        Some(Made { by: by.collect(), rows: known.rows })
    }
}

impl From<Side> for Class {
    /// With all scores of its evaluations.
    fn from(side: Side) -> Self {
        let scores: BTreeSet<&str> =
            side.points().flat_map(|point| &point.scores).map(|(score, _)| score.as_str()).collect();
        let scores: Vec<&str> = scores.into_iter().collect();
        let mut class = Self::new(side.name.as_str(), &scores);
        for fold in &side.folds {
            let run = fold.points.first().map(|point| point.run.to_string()).unwrap_or_default();
            class.add(&run, &fold.points.iter().map(|point| Brief::of(point, &scores)).collect::<Vec<_>>());
        }
        class
    }
}
