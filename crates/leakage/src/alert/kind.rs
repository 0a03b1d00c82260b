//! The common interface of all kinds of rules: keys, a judgement of evaluations, and words for it.

use std::fmt::Debug;

use serde_json::Value;

use crate::point::Point;

use super::fields::{Fields, KeyFault};
use super::state::State;
use super::target::{Members, Target};

/// A count of evaluations beyond this is a slip of the pen.
pub const LONGEST: u64 = 10_000;

/// A way to judge.
pub trait Kind: Copy + Debug + PartialEq {
    /// The state that it keeps for one run.
    type Memory: Clone + Debug + Default;

    /// Keys that make a rule one of this kind: at least one is given.
    const KEYS: &'static [&'static str];

    /// While it fires it casts doubt on rules that can be doubted; it is judged before them.
    const CASTS_DOUBT: bool = false;

    /// An alert that begins while another rule casts doubt is at most a warning and advises nothing.
    const DOUBTED: bool = false;

    /// Takes its keys, and those of [`Target`] and [`Pace`] that it has.
    fn read(fields: &mut Fields) -> Result<Self, KeyFault>;

    /// The keys of `KEYS` that are given, with their values.
    fn limits(&self) -> Vec<(&'static str, Value)>;

    /// The score it looks at, if any.
    fn target(&self) -> Option<Target> {
        None
    }

    /// All scores that its judgement depends on.
    fn reads(&self) -> Vec<&'static str> {
        self.target().map(|target| target.score).into_iter().collect()
    }

    fn pace(&self) -> Pace;

    /// Seconds without an evaluation after which it fires, for a kind that waits for evaluations and judges none.
    fn silence(&self) -> Option<f64> {
        None
    }

    /// Judges an evaluation. `None` where it is no evidence: it changes nothing.
    fn judge(&self, memory: &mut Self::Memory, seen: &Seen) -> Option<Verdict>;

    /// Notes what scores that joined a point `late` say of its exceptions. Returns the evidence for one that holds, to stand
    /// beside that of the evaluation at `step`.
    fn excuse(&self, _memory: &mut Self::Memory, _point: &Point, _late: &[&str], _step: u64) -> Option<String> {
        None
    }

    /// Describes in words what is wrong when it fires. `lasting` says in how many evaluations, and stands before exceptions.
    fn meaning(&self, lasting: &str) -> String;
}

/// An evaluation, and where the rule stood before it.
pub struct Seen<'a> {
    pub point: &'a Point,
    pub concepts: &'a [String],
    pub state: State,
    pub warming_up: bool,
}

/// A rule's judgement of one evaluation.
#[derive(Debug)]
pub struct Verdict {
    /// Whether each judged value is beyond the limit: one flag for the score, or one for each concept or pair.
    pub beyond: Vec<bool>,
    /// Whether the value is far enough inside the limit for an alert to end.
    pub back: bool,
    /// The value and its limit, in words.
    pub evidence: String,
    pub value: Option<f64>,
    pub baseline: Option<f64>,
}

impl Verdict {
    /// Builds the verdict on concepts or pairs: `found` are those beyond the limit, `what` describes one and `verb` all
    /// of them.
    pub fn of_members(
        members: &Members,
        found: &[usize],
        back: bool,
        what: impl Fn(usize) -> String,
        verb: &str,
    ) -> Self {
        /// The most members that the evidence names.
        const NAMED: usize = 3;
        let all = members.values.len();
        let mut named: Vec<String> = found.iter().take(NAMED).map(|&at| what(at)).collect();
        if found.len() > NAMED {
            named.push(format!("and {} more", found.len() - NAMED));
        }
        let list = if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) };
        Self {
            beyond: (0..all).map(|at| found.contains(&at)).collect(),
            back,
            evidence: format!("{} of {all} {} {verb}{list}", found.len(), members.kind),
            value: found.first().and_then(|&at| members.values[at]),
            baseline: None,
        }
    }
}

/// How soon an alert begins and ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Evaluations in a row that must be beyond the limit, at least 1.
    pub evaluations: u32,
    /// First evaluations of a run that are not judged; the baseline of a rise is learned from them all the same.
    pub warm_up: u32,
    /// Evaluations after the end of an alert in which the rule does not fire again.
    pub cooldown: u32,
    /// How far back inside its limit the value must come to end the alert, in the unit of the limit.
    pub hysteresis: f64,
}

impl Pace {
    /// Fires with the first evaluation beyond the limit, ends with the first one inside.
    pub const AT_ONCE: Self = Self { evaluations: 1, warm_up: 0, cooldown: 0, hysteresis: 0.0 };

    pub fn read(fields: &mut Fields) -> Result<Self, KeyFault> {
        let mut count = |key, least| Ok(fields.whole(key, least, LONGEST)?.unwrap_or(least) as u32);
        let (evaluations, warm_up, cooldown) = (count("evaluations", 1)?, count("warm_up", 0)?, count("cooldown", 0)?);
        let hysteresis = fields.at_least_0("hysteresis")?.unwrap_or_default();
        Ok(Self { evaluations, warm_up, cooldown, hysteresis })
    }
}
