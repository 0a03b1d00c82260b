//! A row of the catalogue.

use serde::Serialize;

use crate::point::{CurveDescription, Outcome, Significance};
use crate::prepare::Prepared;

use super::inputs::Input;
use super::memory::Memory;
use super::paper::Paper;

/// One score. Serde writes what describes it.
#[derive(Clone, Copy, Serialize)]
pub struct Score {
    /// JSON key and suffix of the metric's name, `[a-z0-9_]+`, such as `icl`.
    pub id: &'static str,
    pub title: &'static str,
    /// The plain name in sentences; empty where it is the title.
    #[serde(skip)]
    pub plain: &'static str,
    pub family: &'static str,
    pub paper: Paper,
    /// Number in the paper; empty for this project's own.
    pub equation: &'static str,
    pub unit: &'static str,
    /// Least and largest value the definition allows, estimation noise aside.
    pub range: (f64, f64),
    /// Gives a value for each concept.
    pub per_concept: bool,
    /// Gives a value for each pair of concepts.
    pub matrix: bool,
    /// Comes with a curve, over this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub curve: Option<CurveDescription>,
    #[serde(skip)]
    pub inputs: &'static [Input],
    /// Whether it is defined for activations that were learnt without labels, of which none belongs to a concept.
    #[serde(skip)]
    pub latents: bool,
    #[serde(skip)]
    pub cost: Cost,
    /// Why its values come without a standard error; `None` where they have one.
    #[serde(skip)]
    pub no_standard_error: Option<&'static str>,
    /// A description of what it shows, and what it does not.
    pub help: &'static str,
    /// When to trust it: rows, classes and widths for which it was measured, and what it does not see, in remarks of one
    /// or more sentences.
    pub trust: &'static [&'static str],
    /// The memory that computing it takes.
    #[serde(skip)]
    pub memory: Memory,
    #[serde(skip)]
    /// Computes it. An error says why it has no value.
    pub compute: fn(&Prepared) -> Result<Outcome, String>,
    /// The permutation test of its values, if it has one. Slow, whatever the cost of the score.
    #[serde(skip)]
    pub test: Option<fn(&Prepared) -> Significance>,
}

/// The defaults of what a row need not state.
pub const ROW: Score = Score {
    id: "",
    title: "",
    plain: "",
    family: "",
    paper: Paper::Common,
    equation: "",
    unit: "",
    range: (0.0, 1.0),
    per_concept: false,
    matrix: false,
    curve: None,
    inputs: &[],
    latents: false,
    cost: Cost::Fast,
    no_standard_error: None,
    help: "",
    trust: &[],
    memory: Memory::LINEAR,
    compute: |_| Err("nothing computes it".to_owned()),
    test: None,
};

/// How long a score takes, which decides when it is computed while a model trains: no score waits for one of a higher cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Cost {
    /// Some passes over the rows, milliseconds: published first, for every pass. The scores that most alerts rest on.
    Cheap,
    /// Goes over pairs of concepts, seconds at most: joins the point where the others of this cost do not fall behind.
    Fast,
    /// Trains networks, up to a minute: joins the point last, on a cadence of its own.
    Slow,
}

impl Cost {
    /// The costs of the scores that a point has where it is computed at once: all but those that train networks.
    pub const AT_ONCE: &'static [Self] = &[Self::Cheap, Self::Fast];

    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The trust remark of scores that are means of rows.
pub(super) const MEANS: &str = "Means of rows (accuracies, F1, AUC and such): intervals of ±1.96 standard errors hold \
     the expected value in 93 to 96 % of 500 synthetic data sets.";

/// The trust remark of standard errors from influences.
pub(super) const COVERED: &str = "Standard errors from influences: intervals of ±1.96 errors cover the expected value \
     in 89 to 94 % of data sets (N = 400 and 600).";
