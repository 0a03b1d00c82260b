//! Distinguishes a rise of a score from noise: a cumulative sum of standardised distances from a baseline.
//!
//! At evaluation t the score x lies z = (x − b) / e above the baseline b, where e is the standard error of the
//! difference of two evaluations: of the paired difference where row ids repeat, √2·SE where they do not, or the scatter
//! around the local trend where that is larger. Then
//!
//!   S ← max(0, S + min(z, max(z of the evaluation before, [`FIRST`]), [`MOST`]) − [`SLACK`]),
//!
//! and the score rises once S exceeds [`LIMIT`]. The minimum makes it robust: an evaluation counts for more
//! than `FIRST` only as far as the one before it was high too, so that no single spike fires (the two-in-a-row rule of
//! Lucas and Crosier, Robust CUSUM, doi:10.1080/03610928208828414). The baseline follows slowly, a fall faster than a
//! rise, and stands still while a rise is suspected or an alert lasts.
//!
//! The constants are chosen by the operating curve in docs/alerts.md (`make bench-alerts`).

use std::collections::VecDeque;

/// What a distance from the baseline loses at each evaluation, in errors.
const SLACK: f64 = 1.2;
/// Beyond it the sum says that the score rises.
const LIMIT: f64 = 2.2;
/// Most that an evaluation can add by itself, in errors, before the slack.
const FIRST: f64 = 2.0;
/// Most that an evaluation can add when the one before was high too.
const MOST: f64 = 3.0;
/// Shares of the distance by which the baseline follows a higher and a lower score.
const FOLLOW: (f64, f64) = (0.2, 0.3);
/// Evaluations that the scatter is estimated from, and the fewest that it takes.
const SCATTER: (usize, usize) = (14, 5);

/// The test's memory of one curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cusum {
    baseline: f64,
    seen: u32,
    sum: f64,
    before: f64,
    recent: VecDeque<f64>,
}

/// What a value is to the test.
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
    /// Of the evaluations before this one, in the score's unit.
    pub baseline: f64,
    /// Of a difference of two evaluations, in the score's unit.
    pub error: f64,
    /// (value − baseline) / error.
    pub z: f64,
    /// The smaller of this z and the one before: standard normal or smaller without a rise.
    pub two_in_a_row: f64,
    pub sum: f64,
    pub rises: bool,
}

impl Cusum {
    /// Takes the next value of the curve. `error`: of the difference of two evaluations, in the score's unit; absent
    /// where the score has none. `None` where there is nothing to compare with: for the first value, and while learning.
    pub fn observe(&mut self, value: f64, error: Option<f64>, phase: Phase) -> Option<Reading> {
        let error = error.unwrap_or(0.0).max(self.scatter().unwrap_or(0.0));
        self.recent.push_back(value);
        if self.recent.len() > SCATTER.0 + 2 {
            self.recent.pop_front();
        }
        self.seen += 1;
        if self.seen == 1 {
            self.baseline = value;
            return None;
        }
        let baseline = self.baseline;
        let follow = |this: &mut Self, distance: f64| {
            let share = if distance > 0.0 { FOLLOW.0 } else { FOLLOW.1 };
            this.baseline += share.max(1.0 / f64::from(this.seen)) * distance;
        };
        // Without an error, a difference cannot be distinguished from noise.
        if phase == Phase::Learn || error == 0.0 {
            follow(self, value - baseline);
            return None;
        }
        let z = (value - baseline) / error;
        let counts = z.min(MOST).min(self.before.max(FIRST));
        self.sum = (self.sum + counts - SLACK).max(0.0);
        let two_in_a_row = z.min(self.before);
        self.before = z;
        if phase == Phase::Judge && self.sum <= LIMIT / 2.0 {
            follow(self, (value - baseline).min(error));
        }
        Some(Reading { baseline, error, z, two_in_a_row, sum: self.sum, rises: self.sum > LIMIT })
    }

    /// Moves what it remembers by a distance in the score's unit: later values are over another set of concepts.
    pub fn shift(&mut self, by: f64) {
        self.baseline += by;
        self.recent.iter_mut().for_each(|value| *value += by);
    }

    pub fn baseline(&self) -> f64 {
        self.baseline
    }

    /// Scatter of a difference around the local trend, from the median second difference of what was seen before: √2
    /// standard deviations if the noise is independent. A step moves one or two of the second differences, and so not
    /// their median.
    fn scatter(&self) -> Option<f64> {
        /// A normal variable's standard deviation over the median of its absolute value.
        const NORMAL: f64 = 1.4826;
        /// That few second differences give the scatter to within a quarter: it takes over where it is clearly larger.
        const CLEARLY: f64 = 0.75;
        if self.recent.len() < SCATTER.1 + 2 {
            return None;
        }
        let values: Vec<f64> = self.recent.iter().copied().collect();
        let mut bends: Vec<f64> = values.windows(3).map(|w| (w[0] - 2.0 * w[1] + w[2]).abs()).collect();
        bends.sort_by(f64::total_cmp);
        let median = bends[bends.len() / 2];
        // The variance of a second difference is 6 times that of a value.
        Some(CLEARLY * NORMAL * median / 6_f64.sqrt() * 2_f64.sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alarms(values: &[f64], error: Option<f64>) -> Vec<usize> {
        let mut rise = Cusum::default();
        let rises = |&value: &f64| rise.observe(value, error, Phase::Judge).is_some_and(|reading| reading.rises);
        values.iter().map(rises).enumerate().filter(|(_, rises)| *rises).map(|(at, _)| at).collect()
    }

    #[test]
    fn a_step_of_three_errors_is_found_at_its_second_evaluation() {
        let values = [0.1, 0.1, 0.1, 0.1, 0.1, 0.4, 0.4, 0.4];
        assert_eq!(alarms(&values, Some(0.1))[0], 6);
    }

    #[test]
    fn one_spike_is_no_rise_however_high() {
        let mut values = vec![0.1; 20];
        values[10] = 1e6;
        assert_eq!(alarms(&values, Some(0.1)), [] as [usize; 0]);
    }

    #[test]
    fn a_fall_is_no_rise_and_the_baseline_follows_it() {
        let falling: Vec<f64> = (0..30).map(|t| 3.0 * (-f64::from(t) / 8.0).exp()).collect();
        assert!(alarms(&falling, Some(0.05)).is_empty());
        let mut then_up = falling.clone();
        then_up.extend([falling[29] + 0.3; 3]);
        assert_eq!(alarms(&then_up, Some(0.05))[0], 31);
    }

    #[test]
    fn without_any_error_the_scatter_around_the_trend_serves() {
        let noise = [0.00, 0.03, -0.02, 0.02, -0.03, 0.01, 0.00, -0.01, 0.02, -0.02, 0.01, 0.00];
        let mut values: Vec<f64> = noise.iter().map(|x| 0.5 + x).collect();
        assert!(alarms(&values, None).is_empty());
        values.extend([0.8, 0.8, 0.8]);
        assert_eq!(alarms(&values, None), [13, 14]);
    }

    #[test]
    fn readings_do_not_depend_on_the_unit() {
        let values = [0.2, 0.25, 0.19, 0.3, 0.5, 0.6, 0.7];
        let read = |unit: f64| {
            let mut rise = Cusum::default();
            values.map(|value| {
                rise.observe(value * unit, Some(0.05 * unit), Phase::Judge).map_or(0.0, |reading| reading.sum)
            })
        };
        for (a, b) in read(1.0).iter().zip(read(1024.0)) {
            assert!((a - b).abs() < 1e-9);
        }
    }
}
