//! A score rises: by more than its noise explains, and by at least so much over its baseline.

use serde_json::{Value, json};

use crate::alert::cusum::{Cusum, Phase, Reading};
use crate::alert::discoveries::{discoveries, upper_tail};
use crate::alert::fields::{Fields, KeyFault};
use crate::alert::kind::{Kind, Pace, Seen, Verdict};
use crate::alert::set::{Set, in_words};
use crate::alert::state::State;
use crate::alert::target::{Each, EachOf, Members, Target};

/// Share by which N may change without the curve becoming another.
const SAME_ROWS: f64 = 0.01;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rise {
    pub(in crate::alert) target: Target,
    /// Least rise over the baseline, or over 0 where the baseline is negative (a model that learns its concepts climbs
    /// out of the negative by right), in the score's unit.
    pub(in crate::alert) by: f64,
    pub(in crate::alert) pace: Pace,
}

/// The tests of the current stretch of the curve.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// N of the stretch.
    rows: u64,
    /// One of the score, or one for each concept or pair.
    tests: Vec<Cusum>,
    /// What the mean was over at the evaluation before.
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
            self.tests = vec![Cusum::default(); members];
            self.rows = rows;
        }
        again
    }
}

impl Kind for Rise {
    type Memory = Memory;

    const KEYS: &'static [&'static str] = &["rise"];

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
        Ok(Self { target, by, pace })
    }

    fn limits(&self) -> Vec<(&'static str, Value)> {
        vec![("rise", json!(self.by))]
    }

    fn target(&self) -> Option<Target> {
        Some(self.target)
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    fn judge(&self, memory: &mut Memory, seen: &Seen) -> Option<Verdict> {
        if !memory.fits(seen) {
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

    fn meaning(&self) -> String {
        let (of, by) = (self.target.name(), self.by);
        format!("{of} has risen by more than {by} over its baseline, and more than its noise explains")
    }
}

/// From a negative baseline, what comes up to 0 is not leakage yet.
fn over(value: f64, reading: &Reading) -> f64 {
    value - reading.baseline.max(0.0)
}

impl Rise {
    fn judge_value(&self, memory: &mut Memory, seen: &Seen, phase: Phase) -> Option<Verdict> {
        let (point, score) = (seen.point, self.target.score);
        let value = point.score(score)?.value()?;
        let unpaired = value.standard_error.map(|error| error * std::f64::consts::SQRT_2);
        let error = point.change_error(score).or(unpaired);
        memory.follow(Set::of(value));
        let began_again = memory.begin(point.rows, 1);
        let test = &mut memory.tests[0];
        let reading = test.observe(value.value, error, phase);
        let beyond = reading.is_some_and(|reading| reading.rises && over(value.value, &reading) > self.by);
        let (evidence, back) = match &reading {
            Some(r) => {
                let evidence = format!(
                    "{}, its baseline {:.4}: {:.1} standard errors (SE {:.4})",
                    in_words(score, value),
                    r.baseline,
                    r.z,
                    r.error
                );
                (evidence, over(value.value, r) <= self.by - self.pace.hysteresis)
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
        let error = members.error.map(|error| error * std::f64::consts::SQRT_2);
        let readings: Vec<Option<(f64, Reading)>> = (memory.tests.iter_mut().zip(&members.values))
            .map(|(test, value)| Some(((*value)?, test.observe((*value)?, error, phase)?)))
            .collect();
        let p_value = |read: &Option<(f64, Reading)>| {
            let (value, reading) = read.as_ref()?;
            Some(if over(*value, reading) > self.by { upper_tail(reading.two_in_a_row) } else { 1.0 })
        };
        let p_values: Vec<Option<f64>> = readings.iter().map(p_value).collect();
        let found = discoveries(&p_values, each.false_discovery_rate());
        let worst = readings.iter().flatten().map(|(value, r)| over(*value, r)).fold(f64::NEG_INFINITY, f64::max);
        let back = found.is_empty() && worst <= self.by - self.pace.hysteresis;
        let what = |at: usize| match &readings[at] {
            Some((value, r)) => format!("{} {value:.4}, from {:.4}", members.name(at), r.baseline),
            None => members.name(at),
        };
        Some(Verdict::of_members(&members, &found, back, what, "risen"))
    }
}
