//! The verdict on which of two sides leaks more, by everything that is known of them.
//!
//! CTL and ICL alone cannot say it: both subtract what a model has not learnt of its concepts, so a model that has learnt
//! none looks clean. Conditional leakage and the intervention drop decide. A side leaks less only if no score says the
//! contrary and its concepts are learnt as well as the other's; else the scores disagree.

use serde::{Deserialize, Serialize};

use crate::limits::INTERVENTION_HARM;
use crate::score::catalogue::named;

use super::comparison::{Comparison, Verdict};
use super::side::Sided;
use super::usual::{PUBLISHED, WEIGHED};

/// Concept accuracy by which a side falls behind the other: more than a sound model is below the best.
const BEHIND: f64 = 0.02;
/// Concept accuracy below which nothing was learnt worth comparing: halfway from chance to certainty for a balanced binary
/// concept.
const UNLEARNT: f64 = 0.75;
pub(super) const DROP: &str = "intervention_drop";
pub(super) const LEARNT: &str = "concept_accuracy";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WeighedVerdict {
    ALeaksMore,
    BLeaksMore,
    /// No score differs with confidence. Not a proof that both leak alike.
    NoDifference,
    /// Scores point in different directions, or a side is lower because it has not learnt its concepts.
    ScoresDisagree,
    /// CTL or ICL differ, and nothing else is known.
    Undecided,
    /// Nothing can be compared.
    Undefined,
}

/// The verdict, with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weighed {
    pub verdict: WeighedVerdict,
    /// The statement of each score, and why it decides or does not.
    pub why: String,
}

/// The votes of several scores.
#[derive(Default)]
struct Votes {
    /// Clauses of those that are higher in a, and in b.
    a: Vec<String>,
    b: Vec<String>,
    /// Clauses of those that are so by themselves, but not at the confidence that holds for all.
    weak_a: Vec<String>,
    weak_b: Vec<String>,
    /// The drops differ, but the accuracy falls in neither.
    no_fall: bool,
    /// Scores of information that are compared.
    tests: usize,
    /// Ids of those without a difference.
    even: Vec<&'static str>,
}

impl Votes {
    /// Several scores of information are several tests: each is judged at the confidence that holds for all of them
    /// (Bonferroni). The drop is judged at the plain one, because no verdict may contradict it.
    fn of(a: &dyn Sided, b: &dyn Sided, scores: &[&'static str], confidence: f64) -> Self {
        let plain: Vec<_> = scores.iter().map(|&score| (score, Comparison::between(a, b, score, confidence))).collect();
        let plain: Vec<_> = plain.into_iter().filter(|(_, one)| one.verdict != Verdict::Undefined).collect();
        let tests = plain.iter().filter(|(score, _)| *score != DROP).count().max(1);
        let strict = 1.0 - (1.0 - confidence) / tests as f64;
        let mut votes = Self { tests, ..Self::default() };
        for (score, plain) in plain {
            let comparison = if score == DROP { plain.clone() } else { Comparison::between(a, b, score, strict) };
            let clause =
                |comparison: &Comparison| format!("{} {}", named(score), comparison.in_words(a.name(), b.name()));
            match (comparison.verdict, plain.verdict) {
                (Verdict::HigherInA, _) if counts(score, &comparison.a) => votes.a.push(clause(&comparison)),
                (Verdict::HigherInB, _) if counts(score, &comparison.b) => votes.b.push(clause(&comparison)),
                (Verdict::Compatible, Verdict::HigherInA) => votes.weak_a.push(clause(&plain)),
                (Verdict::Compatible, Verdict::HigherInB) => votes.weak_b.push(clause(&plain)),
                (Verdict::HigherInA | Verdict::HigherInB, _) => votes.no_fall = true,
                _ => votes.even.push(score),
            }
        }
        votes
    }

    /// A remark on clauses that only hold before the correction.
    fn remark(&self, weak: &[String]) -> String {
        match weak.is_empty() {
            true => String::new(),
            false => format!("; {}, which is within the error of {} scores", weak.join("; "), self.tests),
        }
    }

    /// For votes without a clear difference.
    fn no_difference(&self) -> String {
        let mut clauses = match self.even.as_slice() {
            [] => Vec::new(),
            [one] => vec![format!("{} shows no difference", named(one))],
            several => {
                let several: Vec<String> = several.iter().map(|score| named(score)).collect();
                vec![format!("{} show no difference", several.join(", "))]
            }
        };
        if self.no_fall {
            clauses.push("in neither is a fall of the accuracy under intervention shown".to_owned());
        }
        let weak = self.remark(&[self.weak_a.clone(), self.weak_b.clone()].concat());
        (clauses.join("; ") + &weak).trim_start_matches("; ").to_owned()
    }

    fn is_empty(&self) -> bool {
        [&self.a, &self.b, &self.weak_a, &self.weak_b].iter().all(|votes| votes.is_empty())
            && self.even.is_empty()
            && !self.no_fall
    }

    fn differing(&self) -> Vec<String> {
        [self.a.clone(), self.b.clone()].concat()
    }
}

/// A drop counts only where the accuracy falls at all: it rises where interventions correct a model's mistakes.
fn counts(score: &str, higher: &Option<super::interval::Interval>) -> bool {
    score != DROP || higher.is_none_or(|drop| drop.low.unwrap_or(drop.mean) > 0.0)
}

impl Weighed {
    pub(super) fn of(a: &dyn Sided, b: &dyn Sided, confidence: f64) -> Self {
        let votes = Votes::of(a, b, &WEIGHED, confidence);
        let published = Votes::of(a, b, &PUBLISHED, confidence);
        let decided = |verdict, why: Result<String, String>| match why {
            Ok(why) => Self { verdict, why },
            Err(why) => Self { verdict: WeighedVerdict::ScoresDisagree, why },
        };
        match (votes.a.is_empty(), votes.b.is_empty()) {
            (false, false) => decided(WeighedVerdict::ScoresDisagree, Err(votes.differing().join("; "))),
            (false, true) => {
                let why = leaks_more([a, b], &votes.a, &published.b, confidence);
                decided(WeighedVerdict::ALeaksMore, why.map(|why| why + &votes.remark(&votes.weak_b)))
            }
            (true, false) => {
                let why = leaks_more([b, a], &votes.b, &published.a, confidence);
                decided(WeighedVerdict::BLeaksMore, why.map(|why| why + &votes.remark(&votes.weak_a)))
            }
            (true, true) if votes.is_empty() => Self::by_published(&published, a, b, confidence),
            (true, true) => {
                let even = format!("{}{}", votes.no_difference(), less_well_learnt(a, b, confidence));
                let why = match published.differing() {
                    none if none.is_empty() => Ok(even),
                    some => Err(format!("{}, but {even}", some.join("; "))),
                };
                decided(WeighedVerdict::NoDifference, why)
            }
        }
    }

    /// Where neither conditional scores nor interventions are known.
    fn by_published(published: &Votes, a: &dyn Sided, b: &dyn Sided, confidence: f64) -> Self {
        let (of_a, of_b) = (&published.a, &published.b);
        let (verdict, clauses, more, less) = match (of_a.is_empty(), of_b.is_empty()) {
            (false, false) => {
                return Self { verdict: WeighedVerdict::ScoresDisagree, why: published.differing().join("; ") };
            }
            (true, true) if published.is_empty() => {
                let why = Comparison::between(a, b, PUBLISHED[0], confidence).undefined.unwrap_or_default();
                return Self { verdict: WeighedVerdict::Undefined, why: format!("{}: {why}", named(PUBLISHED[0])) };
            }
            (true, true) => {
                let learnt = less_well_learnt(a, b, confidence);
                let why = format!("{}, and nothing else is known{learnt}", published.no_difference());
                return Self { verdict: WeighedVerdict::NoDifference, why };
            }
            (false, true) => (WeighedVerdict::ALeaksMore, of_a, a, b),
            (true, false) => (WeighedVerdict::BLeaksMore, of_b, b, a),
        };
        let said = clauses.join("; ");
        if a.estimate(LEARNT).is_err() || b.estimate(LEARNT).is_err() {
            let why = format!(
                "{said}, perhaps because {} has not learnt its concepts: concept accuracy is not known",
                less.name()
            );
            return Self { verdict: WeighedVerdict::Undecided, why };
        }
        match behind(less, more, confidence) {
            Some(why) => Self { verdict: WeighedVerdict::ScoresDisagree, why: format!("{said}, but because {why}") },
            None => Self { verdict, why: format!("{said}; by CTL and ICL alone") },
        }
    }
}

/// That `more` leaks more than `less`, by clauses of the weighed scores, none of which says the contrary. `contrary`: clauses of
/// the published scores that do. Errors say why it does not follow.
fn leaks_more(
    [more, less]: [&dyn Sided; 2],
    clauses: &[String],
    contrary: &[String],
    confidence: f64,
) -> Result<String, String> {
    let said = clauses.join("; ");
    if let Some(why) = behind(less, more, confidence) {
        return Err(format!("{said}, but {why}"));
    }
    let falls = remaining_fall(less);
    if contrary.is_empty() {
        return Ok(format!("{said}{falls}"));
    }
    let contrary = contrary.join("; ");
    let knows_drop = more.estimate(DROP).is_ok() && less.estimate(DROP).is_ok();
    match (behind(more, less, confidence), knows_drop) {
        (Some(why), _) => Ok(format!("{said}; {contrary}, because {why}{falls}")),
        (None, true) => Ok(format!("{said}; although {contrary}{falls}")),
        (None, false) => Err(format!("{said}, but {contrary}")),
    }
}

/// A clause on the side that has learnt its concepts less well, if one has.
fn less_well_learnt(a: &dyn Sided, b: &dyn Sided, confidence: f64) -> String {
    let why = behind(a, b, confidence).or_else(|| behind(b, a, confidence));
    why.map_or(String::new(), |why| format!("; {why}"))
}

/// Why low leakage of `side` shows nothing beside `other`: it has learnt its concepts less well, or hardly at all.
pub(super) fn behind(side: &dyn Sided, other: &dyn Sided, confidence: f64) -> Option<String> {
    let comparison = Comparison::between(side, other, LEARNT, confidence);
    let (own, others) = (side.estimate(LEARNT).ok()?, other.estimate(LEARNT).ok());
    let less = match comparison.verdict {
        Verdict::HigherInB => true,
        // Values without an error are taken as they are.
        Verdict::Undefined => comparison.difference.is_some(),
        _ => false,
    };
    let against = others.filter(|others| less && others.mean - own.mean > BEHIND);
    match against {
        Some(others) => Some(format!(
            "concepts of {} are learnt less well (concept accuracy {:.2} against {:.2})",
            side.name(),
            own.mean,
            others.mean
        )),
        None => unlearnt(side, confidence),
    }
}

/// Why comparing a side says nothing: its concepts are not learnt.
pub(super) fn unlearnt(side: &dyn Sided, confidence: f64) -> Option<String> {
    let own = side.estimate(LEARNT).ok()?;
    let high = own.interval(confidence).high.unwrap_or(own.mean);
    (high < UNLEARNT).then(|| format!("concepts of {} are not learnt (concept accuracy {:.2})", side.name(), own.mean))
}

/// Whether a side's accuracy falls further than the other's when all concepts are set to their true values, in words.
pub(super) fn falls_further(side: &dyn Sided, other: &dyn Sided, confidence: f64) -> Option<String> {
    let comparison = Comparison::between(side, other, DROP, confidence);
    (comparison.verdict == Verdict::HigherInA && counts(DROP, &comparison.a))
        .then(|| format!("{} {}", named(DROP), comparison.in_words(side.name(), other.name())))
}

/// That the side which leaks less loses accuracy under intervention as well.
pub(super) fn remaining_fall(side: &dyn Sided) -> String {
    let drop = side.estimate(DROP).ok().map(|drop| drop.mean).filter(|drop| *drop > INTERVENTION_HARM);
    drop.map_or(String::new(), |drop| format!("; {} still loses {drop:.2} of accuracy under intervention", side.name()))
}

/// A note that names the sides of which nothing says how their heads respond to interventions.
pub(super) fn without_interventions(sides: &[&dyn Sided]) -> Option<String> {
    let without: Vec<&str> = sides.iter().filter(|side| side.estimate(DROP).is_err()).map(|side| side.name()).collect();
    (!without.is_empty()).then(|| format!("{} is not known for {}: log interventions", named(DROP), without.join(", ")))
}
