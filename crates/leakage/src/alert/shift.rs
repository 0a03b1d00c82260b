//! Distinguishes a rise of a score from noise: the newest evaluations against a baseline, in units of the run's own noise.
//!
//! Evaluations of one run differ by more than the sampling of rows explains: batches come in another order, and what the
//! model learns wanders. So the noise is that of the curve itself, the standard deviation of earlier evaluations around
//! the linear trend of each [`STRETCH`] of them (the median of these, because a curve that bends leaves its trend), and at
//! least the error of one evaluation. The score rises once both the newest value and the mean
//! of the newest ones, without the largest, lie beyond the baseline by more than [`LIMIT`] times the noise and by more
//! than a least rise. The mean is over [`RECENT`] evaluations, so that noise that is correlated from one to the next does
//! not pass for a rise, and leaves out one of them, so that no single spike does.
//!
//! A jump of a curve that has long been known needs no such mean: two evaluations in a row lie beyond the baseline, and
//! beyond the mean of the [`PAST`] before them, by more than [`JUMP_LEAST`] times the least rise. Its noise is the
//! deviation around the trends alone, as evaluations of the same rows share most of their sampling error, and half as
//! much again, as correlated noise strays further than that.
//!
//! The baseline follows the curve: a fall quickly, where the evaluation before was lower too, a rise slowly, and not at
//! all while one is suspected or an alert lasts.
//!
//! The constants are chosen by the operating curve in docs/alerts.md (`make bench-alerts`).

use std::collections::VecDeque;

/// Noise beyond which the score rises.
pub const LIMIT: f64 = 5.5;
/// Newest evaluations that are held against the baseline; at first half of those that there are.
const RECENT: usize = 6;
/// How many times as far as a least rise a jump goes.
const JUMP_LEAST: f64 = 2.6;
/// Noise of a jump, in deviations around the trends.
const STRAYS: f64 = 1.5;
/// Evaluations before the two, whose mean a jump goes beyond because the baseline lies at the lower edge of correlated
/// noise. There is none before they are known.
const PAST: usize = 16;
/// Evaluations that are remembered. The noise is estimated from those before the newest, where enough remain.
const REMEMBERED: usize = 40;
/// Evaluations whose trend is taken for a line.
const STRETCH: usize = 8;
/// Fewest for a trend and the scatter around it.
const FEWEST: usize = 4;
/// Shares of the distance by which the baseline follows a higher and a lower score while it is learned.
const LEARN: (f64, f64) = (0.2, 0.3);
/// The same afterwards. A higher score is followed as it was [`RECENT`] evaluations ago, and at most by the noise: a rise
/// that has begun since does not hide itself.
const FOLLOW: f64 = 0.3;

/// The test's memory of one curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shift {
    baseline: f64,
    seen: u32,
    /// The newest evaluations, oldest first.
    values: VecDeque<f64>,
    /// The distance of the evaluation before from its baseline.
    before: f64,
}

/// How the test uses a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Something to learn the baseline from, and not to be judged.
    Learn,
    Judge,
    /// An alert lasts: the baseline stays where the rise began.
    Hold,
}

/// The test's result for an evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The baseline before this evaluation, in the score's unit.
    pub baseline: f64,
    /// The noise of one evaluation, in the score's unit.
    pub noise: f64,
    /// How far this evaluation, and the newest ones as well, lie above the baseline, in the score's unit.
    pub rise: f64,
}

impl Reading {
    /// The rise in units of the noise.
    pub fn z(&self) -> f64 {
        self.rise / self.noise
    }
}

impl Shift {
    /// Takes the next value of the curve. `error`: of one evaluation, in the score's unit; absent where the score has none.
    /// `least`: a smaller rise is none. `None` where there is nothing to compare with: for the first two values, while
    /// learning, and without any noise.
    pub fn observe(&mut self, value: f64, error: Option<f64>, least: f64, phase: Phase) -> Option<Reading> {
        self.values.push_back(value);
        if self.values.len() > REMEMBERED {
            self.values.pop_front();
        }
        self.seen += 1;
        if self.seen == 1 {
            self.baseline = value;
            return None;
        }
        let (baseline, distance) = (self.baseline, value - self.baseline);
        let before = std::mem::replace(&mut self.before, distance);
        let scatter = self.scatter().unwrap_or(0.0);
        let noise = error.unwrap_or(0.0).max(scatter);
        if phase == Phase::Learn || noise == 0.0 || self.seen == 2 {
            let share = if distance > 0.0 { LEARN.0 } else { LEARN.1 };
            self.baseline += share.max(1.0 / f64::from(self.seen)) * distance;
            return None;
        }
        let rise = (self.recent() - baseline).min(distance);
        let suspected = 0.5 * (LIMIT * noise).max(least);
        if phase == Phase::Judge && self.recent() - baseline <= suspected {
            let earlier = self.values.iter().rev().nth(RECENT - 1).map_or(0.0, |earlier| earlier - baseline);
            self.baseline +=
                FOLLOW * if distance > 0.0 { earlier.clamp(0.0, noise) } else { distance.max(before.min(0.0)) };
        }
        let reading = Reading { baseline, noise, rise };
        let jump = self.jump(baseline, scatter).filter(|jump| jump.rise > JUMP_LEAST * least && jump.z() > reading.z());
        Some(jump.unwrap_or(reading))
    }

    /// Moves what it remembers by a distance in the score's unit: later values are over another set of concepts.
    pub fn shift(&mut self, by: f64) {
        self.baseline += by;
        self.values.iter_mut().for_each(|value| *value += by);
    }

    pub fn baseline(&self) -> f64 {
        self.baseline
    }

    /// How many of the values are the newest.
    fn newest(&self) -> usize {
        (self.values.len() / 2).clamp(2, RECENT)
    }

    /// The mean of the newest values without the largest.
    fn recent(&self) -> f64 {
        let newest = || self.values.iter().rev().take(self.newest());
        let largest = newest().copied().fold(f64::NEG_INFINITY, f64::max);
        (newest().sum::<f64>() - largest) / (self.newest() - 1) as f64
    }

    /// How far the two newest values lie above all before; `None` while too few are known, and without scatter.
    fn jump(&self, baseline: f64, scatter: f64) -> Option<Reading> {
        let newest = || self.values.iter().rev();
        if self.values.len() < PAST + RECENT || scatter == 0.0 {
            return None;
        }
        let mean = newest().skip(2).take(PAST).sum::<f64>() / PAST as f64;
        let lower = newest().take(2).copied().fold(f64::INFINITY, f64::min);
        Some(Reading { baseline, noise: STRAYS * scatter, rise: lower - baseline.max(mean) })
    }

    /// The standard deviation of earlier values around their local trend.
    fn scatter(&self) -> Option<f64> {
        let earlier = self.values.len() - self.newest();
        let count = if earlier < FEWEST { self.values.len() } else { earlier };
        if count < FEWEST {
            return None;
        }
        let values: Vec<f64> = self.values.iter().copied().take(count).collect();
        let mut variances: Vec<f64> = match count < STRETCH {
            true => vec![around_trend(&values)],
            false => values.rchunks_exact(STRETCH).map(around_trend).collect(),
        };
        variances.sort_by(f64::total_cmp);
        let middle = variances.len() / 2;
        let median = if variances.len() % 2 == 1 {
            variances[middle]
        } else {
            (variances[middle - 1] + variances[middle]) / 2.0
        };
        Some(median.sqrt())
    }
}

/// The variance of at least three values around their linear trend.
fn around_trend(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let placed = || values.iter().zip((0..values.len()).map(|at| at as f64 - (count - 1.0) / 2.0));
    let mean = values.iter().sum::<f64>() / count;
    let spread: f64 = placed().map(|(_, at)| at * at).sum();
    let slope = placed().map(|(value, at)| (value - mean) * at).sum::<f64>() / spread;
    placed().map(|(value, at)| (value - mean - slope * at).powi(2)).sum::<f64>() / (count - 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alarms(values: &[f64], error: Option<f64>, least: f64) -> Vec<usize> {
        let mut shift = Shift::default();
        let rises = |&value: &f64| {
            let found = shift.observe(value, error, least, Phase::Judge);
            found.is_some_and(|found| found.z() > LIMIT && found.rise > least)
        };
        values.iter().map(rises).enumerate().filter(|(_, rises)| *rises).map(|(at, _)| at).collect()
    }

    /// Values of a noise of 0.005, and from the 26th on this much more.
    fn step(height: f64) -> Vec<f64> {
        (0..40).map(|at| if at % 2 == 0 { 0.1 } else { 0.11 } + if at < 25 { 0.0 } else { height }).collect()
    }

    #[test]
    fn a_step_is_found_as_soon_as_the_mean_of_the_newest_is_beyond_the_limit() {
        // The mean of the six newest values without the largest is (j − 1)/5 of a step that j of them follow.
        assert_eq!(alarms(&step(0.07), None, 0.035)[0], 25 + 3);
    }

    #[test]
    fn two_evaluations_far_above_all_before_are_a_jump() {
        assert_eq!(alarms(&step(0.1), None, 0.035)[0], 25 + 1);
        assert_eq!(alarms(&step(0.1), Some(0.015), 0.035)[0], 25 + 1, "the curve tells its own noise");
        assert!(alarms(&step(0.1), None, 0.04)[0] > 25 + 1, "not far enough beyond the least rise");
        assert!(alarms(&step(0.1)[10..], None, 0.035)[0] > 15 + 1, "too few evaluations before");
    }

    #[test]
    fn one_spike_is_no_rise_however_high() {
        let mut values = vec![0.1; 20];
        values[10] = 1e6;
        assert_eq!(alarms(&values, Some(0.1), 0.0), [] as [usize; 0]);
        values[10] = -1e6;
        assert_eq!(alarms(&values, Some(0.1), 0.0), [] as [usize; 0]);
    }

    #[test]
    fn a_fall_is_no_rise_and_the_baseline_follows_it() {
        let falling: Vec<f64> = (0..40).map(|t| 3.0 * (-f64::from(t) / 5.0).exp()).collect();
        assert!(alarms(&falling, Some(0.02), 0.0).is_empty());
        let mut then_up = falling.clone();
        then_up.extend([falling[39] + 0.5; 6]);
        assert!((40..44).contains(&alarms(&then_up, Some(0.02), 0.0)[0]));
    }

    #[test]
    fn without_any_error_the_scatter_of_the_curve_serves() {
        let noise = [0.00, 0.03, -0.02, 0.02, -0.03, 0.01, 0.00, -0.01, 0.02, -0.02, 0.01, 0.00];
        let mut values: Vec<f64> = noise.iter().map(|x| 0.5 + x).collect();
        assert!(alarms(&values, None, 0.0).is_empty());
        values.extend([0.8; 6]);
        assert!((13..18).contains(&alarms(&values, None, 0.0)[0]));
    }

    #[test]
    fn readings_do_not_depend_on_the_unit() {
        let values = [0.2, 0.25, 0.19, 0.3, 0.5, 0.6, 0.7];
        let read = |unit: f64| {
            let mut shift = Shift::default();
            values.map(|value| {
                let found = shift.observe(value * unit, Some(0.05 * unit), 0.01 * unit, Phase::Judge);
                found.map_or(0.0, |reading| reading.z())
            })
        };
        for (a, b) in read(1.0).iter().zip(read(1024.0)) {
            assert!((a - b).abs() < 1e-9);
        }
    }
}
