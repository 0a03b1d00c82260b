//! The target of a rule: a score's value, or that of each concept or pair.

use crate::point::Point;
use crate::score::catalogue;

use super::fields::{Fields, KeyFault};

/// As many false discoveries in 1,000 evaluations as the test of a rise has false alarms.
const FALSE_DISCOVERY_RATE: f64 = 0.001;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Catalogue id.
    pub score: &'static str,
    /// Absent where the value of the score itself is judged.
    pub members: Option<EachOf>,
}

/// All concepts or pairs, with false discoveries controlled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EachOf {
    pub each: Each,
    /// In (0, 1); absent for the default.
    pub given_rate: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Each {
    Concept,
    Pair,
}

impl Each {
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl EachOf {
    /// Expected share of false ones among those found at an evaluation.
    pub fn false_discovery_rate(self) -> f64 {
        self.given_rate.unwrap_or(FALSE_DISCOVERY_RATE)
    }
}

impl Target {
    /// The value of a score of the catalogue.
    pub(super) const fn value_of(score: &'static str) -> Self {
        Self { score, members: None }
    }

    pub fn read(fields: &mut Fields) -> Result<Self, KeyFault> {
        let id = fields.text("score")?.filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| KeyFault::new("score", "is missing, expected a score of the catalogue"))?;
        let Some(score) = catalogue::find(&id) else {
            let id = crate::field_error::in_short(&id);
            return Err(KeyFault::new("score", format!("got '{id}', expected a score of the catalogue")));
        };
        let each = fields.take("scope", "run, concept or pair", |value| match value.as_str()? {
            "run" => Some(None),
            "concept" => Some(Some(Each::Concept)),
            "pair" => Some(Some(Each::Pair)),
            _ => None,
        })?;
        let given_rate = fields.take("false_discovery_rate", "a number between 0 and 1", |value| {
            value.as_f64().filter(|rate| *rate > 0.0 && *rate < 1.0)
        })?;
        let members = each.flatten().map(|each| EachOf { each, given_rate });
        match members.map(|members| members.each) {
            None if given_rate.is_some() => Err(KeyFault::new("false_discovery_rate", "has no effect without `scope`")),
            Some(Each::Concept) if !score.per_concept => Err(without(score.id, Each::Concept)),
            Some(Each::Pair) if !score.matrix => Err(without(score.id, Each::Pair)),
            _ => Ok(Self { score: score.id, members }),
        }
    }

    /// For kinds without a score: accepts the keys only with their defaults.
    pub fn refuse(fields: &mut Fields, kind: &str) -> Result<(), KeyFault> {
        if fields.text("score")?.is_some_and(|score| !score.is_empty()) {
            return Err(KeyFault::new("score", format!("has no effect with `{kind}`")));
        }
        if fields.text("scope")?.is_some_and(|scope| scope != "run") {
            return Err(KeyFault::new("scope", format!("has no effect with `{kind}`")));
        }
        Ok(())
    }

    /// Names in words what is judged.
    pub fn name(&self) -> String {
        match self.members.map(|members| members.each) {
            None => self.score.to_owned(),
            Some(Each::Concept) => format!("{} of a concept", self.score),
            Some(Each::Pair) => format!("{} of a pair of concepts", self.score),
        }
    }
}

fn without(score: &str, each: Each) -> KeyFault {
    KeyFault::new("scope", format!("'{score}' has no value for each {}", each.name()))
}

/// A score's values for each concept or pair.
pub struct Members<'p> {
    pub values: Vec<Option<f64>>,
    /// Standard error of one of them: that of their mean times √(their number), as if each erred on its own.
    pub error: Option<f64>,
    /// Row and column of each pair; empty for concepts.
    pairs: Vec<(usize, usize)>,
    concepts: &'p [String],
    /// `concepts` or `pairs`.
    pub kind: &'static str,
}

impl<'p> Members<'p> {
    /// `None` where the point lacks them.
    pub fn of(score: &str, each: Each, point: &Point, concepts: &'p [String]) -> Option<Self> {
        let outcome = point.score(score)?;
        let (values, pairs, kind) = match each {
            Each::Pair => {
                let matrix = outcome.matrix()?;
                let cell = |i: usize, j: usize| matrix.get(i).and_then(|row| row.get(j)).copied().flatten();
                let k = matrix.len();
                let symmetric = (0..k).all(|i| (0..i).all(|j| cell(i, j) == cell(j, i)));
                let all = (0..k).flat_map(|i| (0..k).map(move |j| (i, j)));
                let pairs: Vec<_> = all.filter(|(i, j)| if symmetric { i < j } else { i != j }).collect();
                (pairs.iter().map(|&(i, j)| cell(i, j)).collect(), pairs, "pairs")
            }
            Each::Concept => (outcome.per_concept()?.to_vec(), Vec::new(), "concepts"),
        };
        let mean_error = outcome.value().and_then(|value| value.standard_error);
        let error = mean_error.map(|error: f64| error * (values.len() as f64).sqrt());
        Some(Self { values, error, pairs, concepts, kind })
    }

    pub fn name(&self, at: usize) -> String {
        let name = |i: usize| self.concepts.get(i).cloned().unwrap_or_else(|| format!("concept {i}"));
        match self.pairs.get(at) {
            Some(&(i, j)) => format!("'{}' with '{}'", name(i), name(j)),
            None => format!("'{}'", name(at)),
        }
    }
}
