//! The JSON form of points and runs in the API.

use std::collections::{BTreeMap, HashMap};

use serde::{Serialize, Serializer};

use super::app::App;
use super::refusal::Refusal;
use crate::history::{RunOutcome, StoredRun, StoredSplit, WholePoint};
use crate::server::live::RunStatus;
use crate::server::run_state::{RunState, states_of};
use leakage::point::{LeftOut, Outcome, Point};
use leakage::run::ActivationKind;
use leakage::sample::Attempt;
use leakage::step::Ordinal;

/// A point with its scores as an object by id, in catalogue order, without matrices.
#[derive(Serialize)]
pub(super) struct PointView<'a> {
    run: &'a str,
    split: &'a str,
    step: u64,
    epoch: Option<f64>,
    time: f64,
    rows: u64,
    /// Rows in which each concept's label is known, where some are not.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    concept_rows: &'a [u64],
    rows_seen: u64,
    /// Copies of scored rows.
    repeated_rows: u64,
    provisional: bool,
    incomplete: bool,
    tie_fraction: f64,
    warnings: &'a [String],
    estimator: &'a str,
    neighbours: u32,
    seed: u64,
    catalogue_version: u32,
    seconds: f64,
    scores: Scores<'a>,
    /// Standard error of the change since the previous evaluation, by score.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    change_errors: BTreeMap<&'a str, f64>,
    /// The launch of the run that made it, and how often that had been restarted.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<Attempt>,
    /// The number of the pass among those of its step; absent for the first.
    #[serde(skip_serializing_if = "Ordinal::is_first")]
    ordinal: Ordinal,
    /// The run has returned to this step or an earlier one since.
    #[serde(skip_serializing_if = "is_false")]
    superseded: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// The parts of a score that are shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    Means,
    Concepts,
    Pairs,
}

/// Values of pairs; row i is from concept i.
#[derive(Serialize)]
struct Pairs<'a> {
    matrix: &'a [Vec<Option<f64>>],
    /// Seconds since each pair was computed, where some were on an earlier sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    ages: Option<&'a [Vec<f64>]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    matrix_q: Option<&'a [Vec<Option<f64>>]>,
}

impl<'a> PointView<'a> {
    pub fn full(point: &'a Point) -> Self {
        Self::new(point, Detail::Concepts)
    }

    /// Returns a point as it is stored, with the matrices that it has.
    pub fn whole(stored: &'a WholePoint) -> Self {
        Self { attempt: stored.attempt, superseded: stored.superseded, ..Self::new(&stored.point, Detail::Pairs) }
    }

    /// A point without matrices and values per concept.
    pub fn summary(point: &'a Point) -> Self {
        Self::new(point, Detail::Means)
    }

    fn new(point: &'a Point, detail: Detail) -> Self {
        Self {
            run: &point.run,
            split: &point.split,
            step: point.step,
            epoch: point.epoch,
            time: point.time,
            rows: point.rows,
            concept_rows: &point.concept_rows,
            rows_seen: point.rows_seen,
            repeated_rows: point.repeated_rows,
            provisional: point.provisional,
            incomplete: point.incomplete,
            tie_fraction: point.tie_fraction,
            warnings: &point.warnings,
            estimator: &point.estimator,
            neighbours: point.neighbours,
            seed: point.seed,
            catalogue_version: point.catalogue_version,
            seconds: point.seconds,
            scores: Scores { scores: &point.scores, detail },
            attempt: None,
            ordinal: point.ordinal,
            superseded: false,
            change_errors: point.change_errors.iter().map(|(id, error)| (id.as_str(), *error)).collect(),
        }
    }
}

struct Scores<'a> {
    scores: &'a [(String, Outcome)],
    detail: Detail,
}

/// A score has either a value or the reason why there is none.
#[derive(Serialize)]
struct ScoreView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    undefined: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    /// Null for a value whose error is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    standard_error: Option<Option<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_concept: Option<&'a [Option<f64>]>,
    /// Pairs of threshold and value, for scores that are derived from a curve.
    #[serde(skip_serializing_if = "Option::is_none")]
    curve: Option<&'a [(f64, Option<f64>)]>,
    /// Age of the oldest pair in seconds, if some pairs were computed on earlier samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    age: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<&'a LeftOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_concept_q: Option<&'a [Option<f64>]>,
    /// The score of each of several tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    per_task: Option<&'a [Outcome]>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pairs: Option<Pairs<'a>>,
}

impl<'a> ScoreView<'a> {
    fn of(outcome: &'a Outcome, detail: Detail) -> Self {
        let (value, concepts) = (outcome.value(), detail >= Detail::Concepts);
        let pairs = |matrix| Pairs { matrix, ages: outcome.ages(), matrix_q: outcome.matrix_q() };
        Self {
            undefined: outcome.why(),
            value: value.map(|value| value.value),
            standard_error: value.map(|value| value.standard_error),
            per_concept: outcome.per_concept().filter(|_| concepts),
            curve: value.and_then(|value| value.curve.as_deref()).filter(|_| concepts),
            age: outcome.age(),
            left_out: outcome.left_out(),
            p_value: outcome.p_value(),
            per_concept_q: outcome.per_concept_q().filter(|_| concepts),
            per_task: outcome.per_task().filter(|_| concepts),
            pairs: outcome.matrix().filter(|_| detail == Detail::Pairs).map(pairs),
        }
    }
}

impl Serialize for Scores<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.scores.iter().map(|(id, outcome)| (id, ScoreView::of(outcome, self.detail))))
    }
}

#[derive(Serialize)]
pub(super) struct PointsView<'a> {
    pub points: Vec<PointView<'a>>,
    /// Where the next answer begins; absent after the last.
    pub next_step: Option<u64>,
}

#[derive(Serialize)]
pub(super) struct RunsView {
    pub runs: Vec<RunView>,
    /// Runs that the search names, on all pages.
    pub total: u64,
    /// The value of `after` for the next page; absent on the last.
    pub next: Option<String>,
}

#[derive(Serialize)]
pub(super) struct RunView {
    name: String,
    /// Shown in place of the name.
    title: Option<String>,
    note: Option<String>,
    finished: bool,
    /// Jobs may still send to it.
    open: bool,
    #[serde(flatten)]
    state: RunState,
    /// How it ended; of a run that has not finished, of a rank that has failed or stopped on advice.
    outcome: Option<RunOutcome>,
    started: f64,
    activation_kind: ActivationKind,
    concepts: Vec<String>,
    /// Names of tasks, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<String>,
    labels: BTreeMap<String, String>,
    world_size: u32,
    splits: Vec<SplitView>,
}

/// Row counts are those of this process; they are absent for a split that it has received nothing for.
#[derive(Default, Serialize)]
struct SplitView {
    split: String,
    window: Option<&'static str>,
    rows_received: Option<u64>,
    rows_duplicate: Option<u64>,
    rows_dropped: Option<u64>,
    passes_unsettled: Option<u64>,
    points: u64,
    last_step: Option<u64>,
}

impl RunView {
    /// The runs with their states, in their order. Blocks.
    pub fn all(app: &App, runs: Vec<(StoredRun, Vec<StoredSplit>)>) -> Result<Vec<Self>, Refusal> {
        let live: HashMap<String, RunStatus> =
            app.live.runs().into_iter().map(|status| (status.name.clone(), status)).collect();
        let states = states_of(&*app.history, &runs, &live)?;
        let view = |((stored, splits), state): ((StoredRun, Vec<StoredSplit>), RunState)| {
            let live = live.get(&stored.run.name);
            Self::new(stored, splits, live, state)
        };
        Ok(runs.into_iter().zip(states).map(view).collect())
    }

    fn new(stored: StoredRun, splits: Vec<StoredSplit>, live: Option<&RunStatus>, state: RunState) -> Self {
        let mut by_name: BTreeMap<String, SplitView> = BTreeMap::new();
        for status in live.iter().flat_map(|live| &live.splits) {
            let view = by_name.entry(status.split.clone()).or_default();
            view.window = Some(status.window);
            view.rows_received = Some(status.rows_received);
            view.rows_duplicate = Some(status.rows_duplicate);
            view.rows_dropped = Some(status.rows_dropped);
            view.passes_unsettled = Some(status.passes_unsettled);
        }
        for split in splits {
            let view = by_name.entry(split.split).or_default();
            view.points = split.points;
            view.last_step = Some(split.last_step);
        }
        let splits = by_name.into_iter().map(|(split, view)| SplitView { split, ..view }).collect();
        let run = &*stored.run;
        Self {
            name: run.name.clone(),
            title: stored.title.clone(),
            note: stored.note.clone(),
            finished: stored.finished.is_some(),
            open: stored.open,
            state,
            outcome: stored.outcome,
            started: stored.started,
            activation_kind: run.activation_kind,
            concepts: run.concepts.iter().map(|concept| concept.name.clone()).collect(),
            tasks: run.tasks.iter().map(|task| task.name.clone()).collect(),
            labels: run.labels.clone(),
            world_size: run.world_size,
            splits,
        }
    }
}
