//! The point of an evaluation: its first scores, and those of higher costs and tests that join it later.
//!
//! The memory limit, the pauses and the stop are passed in, and none of them changes a bit of the result.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use information::Settings;
use leakage::pair_cache::Budgeted;
use leakage::point::{Outcome, Point, Significance};
use leakage::prepare::Prepared;
use leakage::repeats;
use leakage::sample::Evaluation;
use leakage::score::catalogue::{CATALOGUE, CATALOGUE_VERSION, Cost, Score};
use leakage::score::{Influences, LeakingRowsOfTasks, Wanted, evaluate, test};
use leakage::step::Epoch;

/// The number of rows kept for each concept and task.
pub const MOST_ROWS: usize = 50;

/// How scores are computed.
#[derive(Clone, Copy)]
pub struct Computing<'a> {
    pub settings: Settings,
    /// Bytes that scores may take; `None`: any.
    pub memory: Option<usize>,
    /// Called every few milliseconds by each computing thread.
    pub pause: &'a (dyn Fn() + Sync),
    /// Asked before each score. Once it is true, nothing is computed any more.
    pub is_stopping: &'a (dyn Fn() -> bool + Sync),
    /// Learns of each score, or other part, that fails because of a bug: its name and the text of the panic.
    pub on_failure: &'a (dyn Fn(&str, &str) + Sync),
}

impl Computing<'_> {
    fn prepare<'e>(&'e self, evaluation: &'e Evaluation) -> Prepared<'e> {
        let prepared = Prepared::new(&evaluation.sample, &evaluation.run, self.settings)
            .with_pause(self.pause)
            .with_failures(self.on_failure);
        match self.memory {
            Some(bytes) => prepared.with_memory(bytes),
            None => prepared,
        }
    }

    fn go_on(&self) -> impl Fn(usize, usize, &Score) -> ControlFlow<()> {
        |_, _, _| if (self.is_stopping)() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// The point of a sample with all scores of these costs, and the most bytes that any of them took, as estimated;
    /// `None` if it is stopped first. With a budget some pairs may be left for the next tick, see [`leakage::pair_cache`].
    ///
    /// `carry` takes the rows that leak, where fast scores are computed, and turns what each row adds to the scores into the
    /// errors of their changes. It is not called while a sample still fills, because such a point is not part of the curve.
    pub fn point<'e>(
        &'e self,
        evaluation: &'e Evaluation,
        costs: &[Cost],
        budgeted: Option<Budgeted<'e>>,
        carry: impl FnOnce(Influences, Option<LeakingRowsOfTasks>) -> Vec<(String, f64)>,
    ) -> Option<(Point, usize)> {
        let started = Instant::now();
        let mut prepared = self.prepare(evaluation);
        if let Some(budgeted) = budgeted {
            prepared = prepared.with_budget(budgeted);
        }
        let scores = evaluate(&prepared, Wanted::AvailableAt(costs), self.go_on())?;
        let change_errors = match evaluation.provisional {
            true => Vec::new(),
            false => carry(Influences::of(&prepared, evaluation.sample.ids(), costs), rows_of(&prepared, costs)),
        };
        let rows = evaluation.sample.rows() as u64;
        let point = Point {
            run: Arc::clone(&evaluation.key.run),
            split: Arc::clone(&evaluation.key.split),
            step: evaluation.step.get(),
            ordinal: evaluation.ordinal,
            epoch: evaluation.epoch.map(Epoch::get),
            time: evaluation.time,
            rows,
            concept_rows: prepared.concept_rows(),
            rows_seen: evaluation.rows_seen,
            repeated_rows: evaluation.repeated_rows,
            provisional: evaluation.provisional,
            incomplete: evaluation.incomplete(),
            tie_fraction: prepared.tie_fraction(),
            warnings: evaluation
                .ids_remark()
                .into_iter()
                .chain(prepared.warnings())
                .chain(repeats::remark(evaluation.repeated_rows, evaluation.relabelled_rows, rows))
                .collect(),
            estimator: self.settings.kind.name().to_owned(),
            neighbours: self.settings.neighbours as u32,
            seed: self.settings.seed,
            catalogue_version: CATALOGUE_VERSION,
            seconds: started.elapsed().as_secs_f64(),
            scores: scores.into_iter().map(|(score, outcome)| (score.id.to_owned(), outcome)).collect(),
            change_errors,
        };
        Some((point, prepared.peak()))
    }

    /// All scores of a higher cost of a sample whose point has those of the lower ones, and the most bytes that any of them
    /// took; `None` if it is stopped first. Tests of the other scores come with the slow ones. `carry` as of
    /// [`point`](Self::point).
    pub fn late<'e>(
        &'e self,
        evaluation: &'e Evaluation,
        cost: Cost,
        carry: impl FnOnce(Influences, Option<LeakingRowsOfTasks>) -> Vec<(String, f64)>,
    ) -> Option<(Late, usize)> {
        let (prepared, costs) = (self.prepare(evaluation), &[cost]);
        let tests = if cost == Cost::Slow { test(&prepared, |_| true, self.go_on())? } else { Vec::new() };
        let outcomes = evaluate(&prepared, Wanted::AvailableAt(costs), self.go_on())?;
        let change_errors = match cost {
            Cost::Slow => Vec::new(),
            _ => carry(Influences::of(&prepared, evaluation.sample.ids(), costs), rows_of(&prepared, costs)),
        };
        let late = Late {
            outcomes: outcomes.into_iter().map(|(score, outcome)| (score.id.to_owned(), outcome)).collect(),
            tests: tests.into_iter().map(|(score, significance)| (score.id, significance)).collect(),
            change_errors,
            warnings: prepared.remarks(),
        };
        Some((late, prepared.peak()))
    }
}

/// The rows that leak most; none where only cheap scores are computed, since alerts wait for these.
fn rows_of(prepared: &Prepared, costs: &[Cost]) -> Option<LeakingRowsOfTasks> {
    costs.contains(&Cost::Fast).then(|| LeakingRowsOfTasks::of(prepared, MOST_ROWS))
}

/// The results that join a point later, by catalogue id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Late {
    pub outcomes: Vec<(String, Outcome)>,
    /// Tests of scores that the point has already.
    pub tests: Vec<(&'static str, Significance)>,
    /// Errors of the changes of scores among the outcomes.
    pub change_errors: Vec<(String, f64)>,
    /// Remarks of the scores, which join those of the point.
    pub warnings: Vec<String>,
}

impl Late {
    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty() && self.tests.is_empty() && self.warnings.is_empty()
    }
}

/// The point with what was computed for it in `seconds`, in catalogue order.
pub fn joined(point: &Point, late: &Late, seconds: f64) -> Point {
    let mut whole = Point { seconds: point.seconds + seconds, ..point.clone() };
    whole.scores.extend(late.outcomes.iter().cloned());
    whole.change_errors.extend(late.change_errors.iter().cloned());
    for warning in &late.warnings {
        if !whole.warnings.contains(warning) {
            whole.warnings.push(warning.clone());
        }
    }
    for (id, significance) in &late.tests {
        if let Some((_, outcome)) = whole.scores.iter_mut().find(|(score, _)| score == id) {
            outcome.add(significance.clone());
        }
    }
    whole.scores.sort_by_key(|(id, _)| CATALOGUE.iter().position(|score| score.id == *id));
    whole
}
