//! The watched runs: their state, verdict and curves, and the newest alerts.

use std::collections::BTreeMap;

use leakage::diagnosis::Verdict;

use crate::server::proto::SeriesPoint;
use crate::server::run_state::State;

/// Alerts kept, the newest last.
const ALERTS: usize = 5;

/// The runs and scores that are shown, and the newest alerts.
pub struct Watched {
    pub split: String,
    /// Ids of the scores, in the order of the command line.
    pub scores: Vec<String>,
    pub runs: BTreeMap<String, WatchedRun>,
    pub alerts: Vec<String>,
}

#[derive(Default)]
pub struct WatchedRun {
    pub state: State,
    /// Why it is in this state; empty where the state says all.
    pub reason: String,
    /// Absent before the first evaluation.
    pub verdict: Option<Verdict>,
    /// A curve for each score of [`Watched::scores`].
    pub curves: Vec<Curve>,
    /// The age in seconds of the oldest pair in the newest evaluation, if some pairs were computed on earlier samples.
    pub age: Option<f64>,
}

/// The evaluations of one score.
#[derive(Default)]
pub struct Curve {
    /// Evaluations of the newest branch, by step.
    pub current: Vec<SeriesPoint>,
    /// Steps of evaluations in branches that the run has left.
    pub left: Vec<u64>,
}

impl Watched {
    pub fn new(split: &str, scores: &[String]) -> Self {
        Self { split: split.to_owned(), scores: scores.to_owned(), runs: BTreeMap::new(), alerts: Vec::new() }
    }

    /// Returns the run, which is added if it is new.
    pub fn run(&mut self, name: &str) -> &mut WatchedRun {
        let count = self.scores.len();
        self.runs.entry(name.to_owned()).or_insert_with(|| WatchedRun {
            curves: std::iter::repeat_with(Curve::default).take(count).collect(),
            ..WatchedRun::default()
        })
    }

    pub fn add_alert(&mut self, line: String) {
        self.alerts.push(line);
        if self.alerts.len() > ALERTS {
            self.alerts.remove(0);
        }
    }
}

impl WatchedRun {
    /// Returns the newest evaluation of any score.
    pub fn newest(&self) -> Option<&SeriesPoint> {
        self.curves.iter().filter_map(|curve| curve.current.last()).max_by_key(|one| one.step)
    }
}

impl Curve {
    /// Replaces the evaluations from the step on by those that the history has.
    pub fn replace_from(&mut self, step: u64, points: impl IntoIterator<Item = SeriesPoint>) {
        self.current.retain(|one| one.step < step);
        self.left.retain(|&left| left < step);
        for point in points {
            if point.superseded {
                self.left.push(point.step);
            } else {
                self.current.push(point);
            }
        }
    }
}
