//! A score rises: by more than its noise explains, and by at least so much over its baseline.

use serde_json::{Value, json};

use crate::alert::defined_members::{Set, in_words};
use crate::alert::fields::{Fields, KeyFault};
use crate::alert::kind::{Kind, Pace, Seen, Verdict};
use crate::alert::shift::{LIMIT, Phase, Reading, Shift};
use crate::alert::state::State;
use crate::alert::target::{Each, EachOf, Members, Target};
use crate::false_discovery::{discoveries, upper_tail};
use crate::score::catalogue;

/// Share by which N may change without the curve becoming another.
const SAME_ROWS: f64 = 0.01;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rise {
    pub(in crate::alert) target: Target,
    /// Least rise over the baseline, in the score's unit.
    pub(in crate::alert) by: f64,
    /// The level below which a rise does not count, in the score's unit.
    pub(in crate::alert) above: Option<f64>,
    /// A score that tells more: evaluations that have it are no evidence for this rule.
    pub(in crate::alert) without: Option<&'static str>,
    pub(in crate::alert) pace: Pace,
}

/// The tests of the current stretch of the curve.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// N of the stretch.
    rows: u64,
    /// One test for the score, or one for each concept or pair.
    tests: Vec<Shift>,
    /// The set that the mean was over at the previous evaluation.
    set: Option<Set>,
}

impl Memory {
    /// Forgets a stretch of another N. False where the point is no evidence.
    fn fits(&mut self, seen: &Seen) -> bool {
        let same_rows = seen.point.rows.abs_diff(self.rows) as f64 <= SAME_ROWS * self.rows as f64;
        if self.rows > 0 && !same_rows {
            // A pass that was cut short does not begin a stretch.
            if seen.point.incomplete {
                return false;
            }
            self.tests.clear();
        }
        true
    }

    /// Follows the mean to the set it is over now: the tests are moved by what only the set changes, and begin again where
    /// that is not known.
    fn follow(&mut self, set: Set) {
        if let Some(before) = &self.set {
            match set.moved_since(before) {
                Some(by) => self.tests.iter_mut().for_each(|test| test.shift(by)),
                None => self.tests.clear(),
            }
        }
        self.set = Some(set);
    }

    /// One test for each of `members`, new where N or their number changed; whether it did so after an earlier stretch.
    fn begin(&mut self, rows: u64, members: usize) -> bool {
        let again = self.tests.len() != members && self.rows > 0;
        if self.tests.len() != members {
            self.tests = vec![Shift::default(); members];
            self.rows = rows;
        }
        again
    }
}

impl Kind for Rise {
    type Memory = Memory;

    const KEYS: &'static [&'static str] = &["rise", "rise_above", "rise_without"];

    /// Ties lower the normaliser of `icl` and raise its value.
    const DOUBTED: bool = true;

    fn read(fields: &mut Fields) -> Result<Self, KeyFault> {
        let target = Target::read(fields)?;
        let by = fields.at_least_0("rise")?.unwrap_or_default();
        let pace = Pace::read(fields)?;
        if pace.hysteresis > by {
            let message = "is more than `rise`: the score would have to fall below its baseline";
            return Err(KeyFault::new("hysteresis", message));
        }
        let above = fields.number("rise_above")?;
        let without = fields
            .take("rise_without", "a score of the catalogue", |value| Some(catalogue::find(value.as_str()?)?.id))?;
        Ok(Self { target, by, above, without, pace })
    }

    fn limits(&self) -> Vec<(&'static str, Value)> {
        let mut limits = vec![("rise", json!(self.by))];
        limits.extend(self.above.map(|above| ("rise_above", json!(above))));
        limits.extend(self.without.map(|without| ("rise_without", json!(without))));
        limits
    }

    fn target(&self) -> Option<Target> {
        Some(self.target)
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    fn judge(&self, memory: &mut Memory, seen: &Seen) -> Option<Verdict> {
        let is_told =
            self.without.is_some_and(|other| seen.point.score(other).is_some_and(|one| one.value().is_some()));
        if is_told || !memory.fits(seen) {
            return None;
        }
        let phase = match seen.state {
            State::Firing => Phase::Hold,
            _ if seen.warming_up => Phase::Learn,
            _ => Phase::Judge,
        };
        match self.target.members {
            None => self.judge_value(memory, seen, phase),
            Some(each) => self.judge_each(each, memory, seen, phase),
        }
    }

    fn meaning(&self, lasting: &str) -> String {
        let (of, by) = (self.target.name(), self.by);
        let above = self.above.map_or_else(String::new, |above| format!(", to above {above}"));
        let without = self.without.map_or_else(String::new, |other| format!(", where {other} is not known"));
        format!(
            "{of} has risen by more than {by} over its baseline{above}, and more than its noise explains{without}{lasting}"
        )
    }
}

impl Rise {
    /// Whether a rise is large enough, and to a level that matters.
    fn counts(&self, value: f64, reading: &Reading) -> bool {
        reading.rise > self.by && self.above.is_none_or(|above| value > above)
    }

    fn judge_value(&self, memory: &mut Memory, seen: &Seen, phase: Phase) -> Option<Verdict> {
        let (point, score) = (seen.point, self.target.score);
        let value = point.score(score)?.value()?;
        let paired = point.change_error(score).map(|error| error / std::f64::consts::SQRT_2);
        let error = paired.or(value.standard_error);
        memory.follow(Set::of(value));
        let began_again = memory.begin(point.rows, 1);
        let test = &mut memory.tests[0];
        let reading = test.observe(value.value, error, self.by, phase);
        let beyond = reading.is_some_and(|reading| reading.z() > LIMIT && self.counts(value.value, &reading));
        let (evidence, back) = match &reading {
            Some(r) => {
                let evidence = format!(
                    "{}, its baseline {:.4}: {:.1} times the noise of an evaluation ({:.4})",
                    in_words(score, value),
                    r.baseline,
                    r.z(),
                    r.noise
                );
                (evidence, r.rise <= self.by - self.pace.hysteresis)
            }
            None if began_again => {
                let evidence = format!("{}, its baseline starts again at {} rows", in_words(score, value), point.rows);
                (evidence, true)
            }
            None => (format!("{}, its baseline is being learned", in_words(score, value)), true),
        };
        Some(Verdict {
            beyond: vec![beyond],
            back: back && !beyond,
            evidence,
            value: Some(value.value),
            baseline: Some(test.baseline()),
        })
    }

    fn judge_each(&self, each: EachOf, memory: &mut Memory, seen: &Seen, phase: Phase) -> Option<Verdict> {
        let members = Members::of(self.target.score, each.each, seen.point, seen.concepts)?;
        // A concept's mean over its pairs is over another set than before where pairs are left out; a pair's value, or that
        // of a concept without pairs, depends on no other.
        if each.each == Each::Concept
            && let Some(value) = seen.point.score(self.target.score)?.value().filter(|value| value.matrix.is_some())
        {
            let set = Set::of(value);
            if memory.set.as_ref().is_some_and(|before| set.moved_since(before) != Some(0.0)) {
                memory.tests.clear();
            }
            memory.set = Some(set);
        }
        memory.begin(seen.point.rows, members.values.len());
        let readings: Vec<Option<(f64, Reading)>> = (memory.tests.iter_mut().zip(&members.values))
            .map(|(test, value)| Some(((*value)?, test.observe((*value)?, members.error, self.by, phase)?)))
            .collect();
        let p_value = |read: &Option<(f64, Reading)>| {
            let (value, reading) = read.as_ref()?;
            Some(if self.counts(*value, reading) { upper_tail(reading.z()) } else { 1.0 })
        };
        let p_values: Vec<Option<f64>> = readings.iter().map(p_value).collect();
        let found = discoveries(&p_values, each.false_discovery_rate());
        let worst = readings.iter().flatten().map(|(_, r)| r.rise).fold(f64::NEG_INFINITY, f64::max);
        let back = found.is_empty() && worst <= self.by - self.pace.hysteresis;
        let what = |at: usize| match &readings[at] {
            Some((value, r)) => format!("{} {value:.4}, from {:.4}", members.name(at), r.baseline),
            None => members.name(at),
        };
        Some(Verdict::of_members(&members, &found, back, what, "risen"))
    }
}
