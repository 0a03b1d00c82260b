//! The content of a rule. A `Rule` that exists can be judged: its score is in the catalogue, its limits make sense, and
//! it is of exactly one kind.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde::{Deserialize, Serialize as DeriveSerialize};

use crate::field_error::FieldError;
use crate::name::check_name;

use super::fields::{Fields, KeyFault};
use super::kind::LONGEST;
use super::kinds::{Judge, KEYS};

/// An alert rule: what it judges, by which limit, and what follows.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Fields")]
pub struct Rule {
    pub(super) name: String,
    pub(super) split: String,
    pub(super) judge: Judge,
    pub(super) severity: Severity,
    pub(super) stopping: Option<Stopping>,
    pub(super) runbook: Option<String>,
    pub(super) action: Option<String>,
    /// Not for runs that are declared to train their concepts without the task.
    pub(super) joint_only: bool,
}

/// When a rule advises to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopping {
    /// Evaluations for which the rule must have been firing first.
    pub patience: u32,
}

#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, DeriveSerialize, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Severity {
    Info,
    #[default]
    Warning,
    Critical,
}

impl Severity {
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// An error in a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("alerts '{name}' {key}: {message}")]
pub struct RuleFault {
    /// Index among the rules.
    pub at: usize,
    pub name: String,
    pub key: String,
    pub message: String,
}

impl From<RuleFault> for FieldError {
    fn from(fault: RuleFault) -> Self {
        // A name that is not valid cannot say which rule it is.
        let rule = if fault.key == "name" && check_name("name", &fault.name).is_err() {
            format!("alerts[{}]", fault.at)
        } else {
            format!("alerts '{}'", fault.name)
        };
        FieldError::new(format!("{rule} {}", fault.key), fault.message)
    }
}

/// Rules with names of their own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules(Vec<Arc<Rule>>);

impl Rules {
    /// Errors name the rule and the key at fault.
    pub fn read(rules: impl IntoIterator<Item = Fields>) -> Result<Self, RuleFault> {
        let mut read: Vec<Arc<Rule>> = Vec::new();
        for (at, fields) in rules.into_iter().enumerate() {
            let name = fields.shown("name");
            let rule = Rule::read(fields).and_then(|rule| match read.iter().any(|earlier| earlier.name == rule.name) {
                true => Err(KeyFault::new("name", "is the name of two rules, expected a unique name")),
                false => Ok(rule),
            });
            let rule = rule.map_err(|KeyFault { key, message }| RuleFault { at, name, key, message })?;
            read.push(Arc::new(rule));
        }
        Ok(Self(read))
    }

    pub(super) fn of(rules: Vec<Rule>) -> Self {
        Self(rules.into_iter().map(Arc::new).collect())
    }

    pub fn as_slice(&self) -> &[Arc<Rule>] {
        &self.0
    }

    /// Splits that any rule evaluates.
    pub fn splits(&self) -> BTreeSet<&str> {
        self.0.iter().map(|rule| rule.split()).collect()
    }

    /// Splits whose evaluations advice rests on.
    pub fn advising_splits(&self) -> BTreeSet<&str> {
        self.0.iter().filter(|rule| rule.advises_stop()).map(|rule| rule.split()).collect()
    }
}

impl TryFrom<Fields> for Rule {
    type Error = RuleFault;

    fn try_from(fields: Fields) -> Result<Self, RuleFault> {
        let name = fields.shown("name");
        Self::read(fields).map_err(|KeyFault { key, message }| RuleFault { at: 0, name, key, message })
    }
}

/// The keys that do not make a rule one of a kind.
pub(super) const SHARED: &[&str] = &[
    "name",
    "score",
    "split",
    "evaluations",
    "warm_up",
    "patience",
    "cooldown",
    "hysteresis",
    "severity",
    "advise_stop",
    "scope",
    "false_discovery_rate",
    "runbook",
    "action",
    "joint_only",
];

impl Rule {
    fn read(mut fields: Fields) -> Result<Self, KeyFault> {
        let known = [SHARED, &KEYS.concat()].concat();
        if let Some(key) = fields.other_than(&known) {
            return Err(KeyFault::new(key, format!("is not a key of a rule, expected one of {}", known.join(", "))));
        }
        let name = fields.text("name")?.ok_or_else(|| KeyFault::new("name", "is missing"))?;
        check_name("name", &name).map_err(|fault| KeyFault::new("name", fault.message))?;
        let split = fields.text("split")?.unwrap_or_else(|| "val".to_owned());
        check_name("split", &split).map_err(|fault| KeyFault::new("split", fault.message))?;
        let judge = Judge::read(&mut fields)?;
        let severity = fields.one_of("severity", "info, warning or critical")?.unwrap_or_default();
        let patience = fields.whole("patience", 0, LONGEST)?.unwrap_or_default() as u32;
        let stopping = fields.flag("advise_stop")?.then_some(Stopping { patience });
        if patience > 0 && stopping.is_none() {
            return Err(KeyFault::new("patience", "has no effect without `advise_stop`"));
        }
        let is_address = |address: &str| address.starts_with("https://") || address.starts_with("http://");
        let runbook = fields.take("runbook", "an http or https address", |value| {
            value.as_str().filter(|address| is_address(address)).map(str::to_owned)
        })?;
        let action = fields.text("action")?.filter(|action| !action.is_empty());
        let joint_only = fields.flag("joint_only")?;
        match fields.other_than(&[]) {
            Some(key) => Err(KeyFault::new(key, "has no effect on a rule of this kind")),
            None => Ok(Self { name, split, judge, severity, stopping, runbook, action, joint_only }),
        }
    }

    /// Unique among the rules.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn split(&self) -> &str {
        &self.split
    }

    pub fn judge(&self) -> &Judge {
        &self.judge
    }

    /// Catalogue id; empty for kinds without a score.
    pub fn score(&self) -> &'static str {
        self.judge.target().map_or("", |target| target.score)
    }

    pub fn severity(&self) -> Severity {
        self.severity
    }

    pub fn advises_stop(&self) -> bool {
        self.stopping.is_some()
    }

    /// Address of a text on what to do, passed on with every alert.
    pub fn runbook(&self) -> Option<&str> {
        self.runbook.as_deref()
    }

    /// Returns what to do when it fires, in sentences.
    pub fn action(&self) -> Option<&str> {
        self.action.as_deref()
    }

    /// Describes the rule in a sentence.
    pub fn meaning(&self) -> String {
        let lasting = match self.judge.pace().evaluations {
            1 => String::new(),
            n => format!(" in {n} evaluations in a row"),
        };
        let advice = if self.advises_stop() { " Training is advised to stop." } else { "" };
        let action = self.action.as_ref().map_or(String::new(), |action| format!(" {action}"));
        format!("On '{}', {}.{advice}{action}", self.split, self.judge.meaning(&lasting))
    }
}

/// The flat form.
impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (pace, target) = (self.judge.pace(), self.judge.target());
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        // Conditions name their own scores.
        if let (Some(target), false) = (target, matches!(self.judge, Judge::Together(_))) {
            map.serialize_entry("score", target.score)?;
        }
        map.serialize_entry("split", &self.split)?;
        for (key, value) in self.judge.limits() {
            map.serialize_entry(key, &value)?;
        }
        map.serialize_entry("evaluations", &pace.evaluations)?;
        map.serialize_entry("warm_up", &pace.warm_up)?;
        map.serialize_entry("patience", &self.stopping.map_or(0, |stopping| stopping.patience))?;
        map.serialize_entry("cooldown", &pace.cooldown)?;
        map.serialize_entry("hysteresis", &pace.hysteresis)?;
        map.serialize_entry("severity", &self.severity)?;
        map.serialize_entry("advise_stop", &self.advises_stop())?;
        map.serialize_entry("joint_only", &self.joint_only)?;
        let members = target.and_then(|target| target.members);
        map.serialize_entry("scope", members.map_or("run", |members| members.each.name()))?;
        if let Some(rate) = members.and_then(|members| members.given_rate) {
            map.serialize_entry("false_discovery_rate", &rate)?;
        }
        if let Some(runbook) = &self.runbook {
            map.serialize_entry("runbook", runbook)?;
        }
        if let Some(action) = &self.action {
            map.serialize_entry("action", action)?;
        }
        map.end()
    }
}
