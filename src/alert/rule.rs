//! What a rule says, as the configuration states it, and whether it can mean anything.

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::run::check_name;

/// A rule: what it looks at, when that is too much, and what follows. Exactly one kind of judgement: a threshold
/// (`above`, `below` or both), `rise`, `stale`, `few_rows` or `saturated`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Unique among the rules.
    pub name: String,
    /// Catalogue id. Thresholds and rises need one; the other kinds have none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub score: String,
    #[serde(default = "Rule::default_split")]
    pub split: String,
    /// The score is too high above this, in its unit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub above: Option<f64>,
    /// The score is too low below this, in its unit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub below: Option<f64>,
    /// The score rises: by more than its noise explains, and by at least this much, in its unit, over the baseline or
    /// over 0 where the baseline is negative (a model that learns its concepts climbs out of the negative by right).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rise: Option<f64>,
    /// Seconds without a new evaluation of a run that has not finished.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stale: Option<f64>,
    /// The sample has fewer rows than this.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub few_rows: Option<u64>,
    /// The tie fraction, in [0, 1], jumped by more than this over its recent mean. While it fires, a rise that begins is
    /// a warning and advises nothing: ties lower the normaliser of `icl` and raise its value.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub saturated: Option<f64>,
    /// Evaluations in a row that must be beyond the limit, at least 1.
    #[serde(default = "Rule::default_evaluations")]
    pub evaluations: u32,
    /// First evaluations of a run that are not judged; the baseline of a rise is learnt from them all the same.
    #[serde(default)]
    pub warm_up: u32,
    /// Evaluations for which the rule must have been firing before it advises to stop.
    #[serde(default)]
    pub patience: u32,
    /// Evaluations after the end of an alert in which the rule does not fire again.
    #[serde(default)]
    pub cooldown: u32,
    /// How far back inside its limit the value must come to end the alert, in the unit of the limit.
    #[serde(default)]
    pub hysteresis: f64,
    #[serde(default)]
    pub severity: Severity,
    /// Whether training is advised to stop while it fires.
    #[serde(default)]
    pub advise_stop: bool,
    /// What is judged: the score, or its value for each concept or pair, with false discoveries controlled.
    #[serde(default)]
    pub scope: Scope,
    /// Of concepts or pairs, in (0, 1): expected share of false ones among those found at an evaluation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub false_discovery_rate: Option<f64>,
    /// Address of a text on what to do, passed on with every alert.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub runbook: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Info,
    #[default]
    Warning,
    Critical,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    #[default]
    Run,
    Concept,
    Pair,
}

/// What a rule judges, with its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Threshold { above: Option<f64>, below: Option<f64> },
    Rise { by: f64 },
    Stale { seconds: f64 },
    FewRows { rows: u64 },
    Saturated { by: f64 },
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("alerts '{name}' {key}: {message}")]
pub struct RuleFault {
    /// Place among the rules, from 0.
    pub at: usize,
    pub name: String,
    pub key: &'static str,
    pub message: String,
}

impl From<RuleFault> for Fault {
    fn from(fault: RuleFault) -> Self {
        // A name that is none cannot tell which rule it is.
        let rule = if fault.key == "name" && check_name("name", &fault.name).is_err() {
            format!("alerts[{}]", fault.at)
        } else {
            format!("alerts '{}'", fault.name)
        };
        Fault::new(format!("{rule} {}", fault.key), fault.message)
    }
}

/// What a checker of rules asks about a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    pub per_concept: bool,
    pub matrix: bool,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            name: String::new(),
            score: String::new(),
            split: Self::default_split(),
            above: None,
            below: None,
            rise: None,
            stale: None,
            few_rows: None,
            saturated: None,
            evaluations: Self::default_evaluations(),
            warm_up: 0,
            patience: 0,
            cooldown: 0,
            hysteresis: 0.0,
            severity: Severity::default(),
            advise_stop: false,
            scope: Scope::default(),
            false_discovery_rate: None,
            runbook: None,
        }
    }
}

/// Beyond this a count of evaluations is a slip of the pen.
const MOST_EVALUATIONS: u32 = 10_000;
/// As many false discoveries in 1,000 evaluations as the test of a rise has false alarms.
const FALSE_DISCOVERY_RATE: f64 = 0.001;

impl Rule {
    fn default_split() -> String {
        "val".into()
    }

    fn default_evaluations() -> u32 {
        1
    }

    /// Of a rule that was checked.
    pub fn kind(&self) -> Kind {
        match *self {
            Self { rise: Some(by), .. } => Kind::Rise { by },
            Self { stale: Some(seconds), .. } => Kind::Stale { seconds },
            Self { few_rows: Some(rows), .. } => Kind::FewRows { rows },
            Self { saturated: Some(by), .. } => Kind::Saturated { by },
            Self { above, below, .. } => Kind::Threshold { above, below },
        }
    }

    pub fn false_discovery_rate(&self) -> f64 {
        self.false_discovery_rate.unwrap_or(FALSE_DISCOVERY_RATE)
    }

    /// Errors name the rule and the key at fault. `score` tells which parts a score of the catalogue has.
    pub fn check(&self, at: usize, score: impl Fn(&str) -> Option<Parts>) -> Result<(), RuleFault> {
        self.find_fault(score).map_err(|(key, message)| RuleFault { at, name: self.name.clone(), key, message })
    }

    /// The key at fault, and what is wrong with it.
    fn find_fault(&self, score: impl Fn(&str) -> Option<Parts>) -> Result<(), (&'static str, String)> {
        let fault = |key: &'static str, message: String| Err((key, message));
        check_name("name", &self.name).map_err(|fault| ("name", fault.message))?;
        check_name("split", &self.split).map_err(|fault| ("split", fault.message))?;
        let kinds = [
            ("above", self.above.is_some() || self.below.is_some()),
            ("rise", self.rise.is_some()),
            ("stale", self.stale.is_some()),
            ("few_rows", self.few_rows.is_some()),
            ("saturated", self.saturated.is_some()),
        ];
        let given: Vec<&'static str> = kinds.iter().filter(|(_, given)| *given).map(|(key, _)| *key).collect();
        match given[..] {
            [_] => {}
            [] => return fault("above", "none of above, below, rise, stale, few_rows and saturated is given".into()),
            [first, second, ..] => {
                return fault(second, format!("contradicts `{first}`: a rule judges one of them, two need two rules"));
            }
        }
        match (self.needs_score(), self.score.as_str()) {
            (true, "") => return fault("score", "is missing".into()),
            (true, id) => match score(id) {
                None => return fault("score", format!("got '{id}', expected a score of the catalogue")),
                Some(parts) => self.check_scope(parts)?,
            },
            (false, "") if self.scope == Scope::Run => {}
            (false, "") => return fault("scope", format!("`{}` has neither concepts nor pairs", given[0])),
            (false, _) => return fault("score", format!("`{}` looks at no score", given[0])),
        }
        self.check_limits()?;
        for (key, value) in [("warm_up", self.warm_up), ("patience", self.patience), ("cooldown", self.cooldown)] {
            if value > MOST_EVALUATIONS {
                return fault(key, format!("got {value}, expected at most {MOST_EVALUATIONS}"));
            }
        }
        if !(1..=MOST_EVALUATIONS).contains(&self.evaluations) {
            return fault("evaluations", format!("got {}, expected 1 to {MOST_EVALUATIONS}", self.evaluations));
        }
        if self.stale.is_some() && (self.evaluations > 1 || self.warm_up > 0 || self.cooldown > 0) {
            return fault("stale", "knows no `evaluations`, `warm_up` or `cooldown`: it waits for one".into());
        }
        if self.patience > 0 && !self.advise_stop {
            return fault("patience", "is of no use without `advise_stop`".into());
        }
        if self.false_discovery_rate.is_some() && self.scope == Scope::Run {
            return fault("false_discovery_rate", "is of no use without `scope`".into());
        }
        if self.false_discovery_rate.is_some_and(|rate| !(rate > 0.0 && rate < 1.0)) {
            return fault("false_discovery_rate", "expected a number between 0 and 1".into());
        }
        if let Some(runbook) = &self.runbook
            && !(runbook.starts_with("https://") || runbook.starts_with("http://"))
        {
            return fault("runbook", format!("got '{runbook}', expected an http or https address"));
        }
        Ok(())
    }

    fn needs_score(&self) -> bool {
        self.above.is_some() || self.below.is_some() || self.rise.is_some()
    }

    fn check_scope(&self, parts: Parts) -> Result<(), (&'static str, String)> {
        let (has, what) = match self.scope {
            Scope::Run => return Ok(()),
            Scope::Concept => (parts.per_concept, "concept"),
            Scope::Pair => (parts.matrix, "pair"),
        };
        match has {
            true => Ok(()),
            false => Err(("scope", format!("'{}' has no value for each {what}", self.score))),
        }
    }

    fn check_limits(&self) -> Result<(), (&'static str, String)> {
        let fault = |key: &'static str, message: String| Err((key, message));
        for (key, limit) in [("above", self.above), ("below", self.below)] {
            if limit.is_some_and(|limit| !limit.is_finite()) {
                return fault(key, format!("got {}, expected a finite number", limit.unwrap_or_default()));
            }
        }
        if let (Some(above), Some(below)) = (self.above, self.below)
            && above < below
        {
            return fault("above", format!("{above} lies under `below` {below}: every value would be beyond one"));
        }
        let least = [("rise", self.rise), ("saturated", self.saturated), ("hysteresis", Some(self.hysteresis))];
        for (key, value) in least {
            if value.is_some_and(|value| !(value.is_finite() && value >= 0.0)) {
                return fault(key, format!("got {}, expected at least 0", value.unwrap_or_default()));
            }
        }
        if self.stale.is_some_and(|seconds| !(seconds.is_finite() && seconds > 0.0)) {
            return fault("stale", "expected a number of seconds above 0".into());
        }
        if self.few_rows == Some(0) {
            return fault("few_rows", "got 0, expected at least 1".into());
        }
        if self.saturated.is_some_and(|by| by > 1.0) {
            return fault("saturated", "expected a share in 0 to 1".into());
        }
        let room = self.above.zip(self.below).map(|(above, below)| above - below);
        if room.is_some_and(|room| self.hysteresis * 2.0 > room && self.hysteresis > 0.0) {
            return fault("hysteresis", "leaves no room between `below` and `above`: no alert could ever end".into());
        }
        if self.rise.is_some_and(|by| self.hysteresis > by) {
            return fault("hysteresis", "is more than `rise`: the score would have to fall below its baseline".into());
        }
        Ok(())
    }
}
