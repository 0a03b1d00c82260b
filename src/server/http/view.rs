//! The JSON form of points and runs in the API.

use std::collections::{BTreeMap, HashMap};

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::app::App;
use super::refusal::Refusal;
use crate::history::{RunOutcome, StoredRun, StoredSplit, WholePoint};
use crate::server::live::RunStatus;
use crate::server::run_state::{RunState, states_of};
use leakage::point::{Outcome, Point};
use leakage::run::ActivationKind;
use leakage::sample::Attempt;

/// A point with its scores as an object by id, in catalogue order.
pub(super) struct PointView<'a> {
    point: &'a Point,
    detail: Detail,
    /// The launch of the run that made it, and how often that had been restarted.
    attempt: Option<Attempt>,
    /// The run has returned to this step or an earlier one since.
    superseded: bool,
}

/// The parts of a score that are shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    Means,
    Concepts,
    Pairs,
}

impl<'a> PointView<'a> {
    /// Returns a point without matrices.
    pub fn full(point: &'a Point) -> Self {
        Self { point, detail: Detail::Concepts, attempt: None, superseded: false }
    }

    /// Returns a point as it is stored, with the matrices that it has.
    pub fn whole(stored: &'a WholePoint) -> Self {
        let WholePoint { point, attempt, superseded } = stored;
        Self { point, detail: Detail::Pairs, attempt: *attempt, superseded: *superseded }
    }

    /// Returns a point without matrices and values per concept.
    pub fn summary(point: &'a Point) -> Self {
        Self { detail: Detail::Means, ..Self::full(point) }
    }
}

impl Serialize for PointView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { point, detail, attempt, superseded } = self;
        let mut map = serializer.serialize_map(None)?;
        macro_rules! fields {
            ($($field:ident),+) => { $(map.serialize_entry(stringify!($field), &point.$field)?;)+ };
        }
        fields!(run, split, step, epoch, time, rows);
        // Rows in which each concept's label is known, where some are not.
        if !point.concept_rows.is_empty() {
            fields!(concept_rows);
        }
        fields!(rows_seen, repeated_rows, provisional, incomplete, tie_fraction, warnings);
        fields!(estimator, neighbours, seed, catalogue_version, seconds);
        map.serialize_entry("scores", &Scores { scores: &point.scores, detail: *detail })?;
        // Standard error of the change since the previous evaluation, by score.
        let change_errors: BTreeMap<&str, f64> =
            point.change_errors.iter().map(|(id, error)| (id.as_str(), *error)).collect();
        if !change_errors.is_empty() {
            map.serialize_entry("change_errors", &change_errors)?;
        }
        if let Some(attempt) = attempt {
            map.serialize_entry("attempt", attempt)?;
        }
        // The number of the pass among those of its step; absent for the first.
        if !point.ordinal.is_first() {
            fields!(ordinal);
        }
        if *superseded {
            map.serialize_entry("superseded", superseded)?;
        }
        map.end()
    }
}

struct Scores<'a> {
    scores: &'a [(String, Outcome)],
    detail: Detail,
}

impl Serialize for Scores<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.scores.iter().map(|(id, outcome)| (id, ScoreView { outcome, detail: self.detail })))
    }
}

/// A score has either a value or the reason why there is none.
struct ScoreView<'a> {
    outcome: &'a Outcome,
    detail: Detail,
}

impl Serialize for ScoreView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { outcome, detail } = *self;
        let (value, concepts) = (outcome.value(), detail >= Detail::Concepts);
        let mut map = serializer.serialize_map(None)?;
        macro_rules! present {
            ($($name:literal: $value:expr;)+) => {
                $(if let Some(value) = $value {
                    map.serialize_entry($name, &value)?;
                })+
            };
        }
        present! {
            "undefined": outcome.why();
            "value": value.map(|value| value.value);
            // Null for a value whose error is not known.
            "standard_error": value.map(|value| value.standard_error);
            "per_concept": outcome.per_concept().filter(|_| concepts);
            // Pairs of threshold and value, for scores that are derived from a curve.
            "curve": value.and_then(|value| value.curve.as_deref()).filter(|_| concepts);
            // Age of the oldest pair in seconds, if some pairs were computed on earlier samples.
            "age": outcome.age();
            "left_out": outcome.left_out();
            "p_value": outcome.p_value();
            "per_concept_q": outcome.per_concept_q().filter(|_| concepts);
            // The score of each of several tasks.
            "per_task": outcome.per_task().filter(|_| concepts);
        }
        // Values of pairs; row i is from concept i.
        if let Some(matrix) = outcome.matrix().filter(|_| detail == Detail::Pairs) {
            map.serialize_entry("matrix", matrix)?;
            present! {
                // Seconds since each pair was computed, where some were on an earlier sample.
                "ages": outcome.ages();
                "matrix_q": outcome.matrix_q();
            }
        }
        map.end()
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
