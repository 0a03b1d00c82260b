//! How often an interval contains the true value. `-- --nocapture` prints the figures of docs/compare.md.

use leakage::compare::{CriterionVerdict, Estimate, Interval, Measured, Verdict, compare_pair, compare_splits};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::{point, side};

const TRIALS: usize = 4000;
const TRUTH: f64 = 0.2;

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    StandardNormal.sample(rng)
}

fn holds(interval: Interval, truth: f64) -> bool {
    interval.low.unwrap() <= truth && truth <= interval.high.unwrap()
}

fn share(trial: impl FnMut(usize) -> bool) -> f64 {
    (0..TRIALS).map(trial).filter(|held| *held).count() as f64 / TRIALS as f64
}

/// Evaluations of one run on one panel: all share the panel's error of 0.005; each has its own wobble of `wobble`,
/// correlated by `memory` from one evaluation to the next.
fn evaluations(rng: &mut ChaCha8Rng, count: usize, wobble: f64, memory: f64) -> Vec<Measured> {
    let panel = 0.005 * normal(rng);
    let mut now = normal(rng);
    let mut values = Vec::new();
    for _ in 0..count {
        values.push(Measured { value: TRUTH + panel + wobble * now, standard_error: Some(0.005), rows: 2000 });
        now = memory * now + (1.0 - memory * memory).sqrt() * normal(rng);
    }
    values
}

#[test]
fn a_runs_interval_contains_the_truth_at_its_stated_rate() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut held = |count, wobble, memory| {
        share(|_| {
            let values = evaluations(&mut rng, count, wobble, memory);
            holds(Estimate::of_evaluations(&values).unwrap().interval(0.95), TRUTH)
        })
    };
    for (wobble, memory) in [(0.0, 0.0), (0.002, 0.0), (0.01, 0.0), (0.002, 0.7), (0.01, 0.7)] {
        let shares = [1, 2, 5, 20].map(|count| held(count, wobble, memory));
        println!("wobble {wobble}, memory {memory}: 1, 2, 5, 20 evaluations hold {shares:.3?}");
        if memory == 0.0 {
            // One evaluation does not show its wobble, and two estimate it poorly.
            assert!(shares[1] > 0.9 && shares[2..].iter().all(|share| *share > 0.935), "{wobble}: {shares:?}");
        }
        if wobble == 0.002 {
            // As on fixed panels: the wobble is the smaller error, and its memory matters little.
            assert!(shares.iter().all(|share| *share > 0.92), "{memory}: {shares:?}");
        }
    }
}

/// The percentile bootstrap of the mean.
fn bootstrap(values: &[f64], rng: &mut ChaCha8Rng) -> (f64, f64) {
    let mean = |rng: &mut ChaCha8Rng| {
        let drawn = (0..values.len()).map(|_| values[rng.random_range(0..values.len())]);
        drawn.sum::<f64>() / values.len() as f64
    };
    let mut means: Vec<f64> = (0..400).map(|_| mean(rng)).collect();
    means.sort_by(f64::total_cmp);
    (means[10], means[389])
}

#[test]
fn for_few_runs_t_contains_the_truth_where_a_bootstrap_is_too_narrow() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for n in [3, 5, 10] {
        // Runs around 0.2, and runs whose leakage is noise clipped at 0: mean 1/√(2π) of the noise.
        for (name, truth, clipped) in
            [("normal", TRUTH, false), ("clipped at 0", 0.01 / (2.0 * std::f64::consts::PI).sqrt(), true)]
        {
            let (mut t, mut boot) = (0, 0);
            for _ in 0..TRIALS {
                let draw = |rng: &mut ChaCha8Rng| 0.01 * normal(rng);
                let values: Vec<f64> =
                    (0..n).map(|_| if clipped { draw(&mut rng).max(0.0) } else { TRUTH + draw(&mut rng) }).collect();
                t += usize::from(holds(Estimate::of_folds(&values).unwrap().interval(0.95), truth));
                let (low, high) = bootstrap(&values, &mut rng);
                boot += usize::from(low <= truth && truth <= high);
            }
            let (t, boot) = (t as f64 / TRIALS as f64, boot as f64 / TRIALS as f64);
            println!("{n} runs, {name}: t holds {t:.3}, the bootstrap {boot:.3}");
            assert!(t > boot, "{n} {name}");
            assert!(clipped || (t - 0.95).abs() < 0.012, "{n}: {t}");
            assert!(clipped || n > 5 || boot < 0.9, "{n}: {boot}");
        }
    }
}

#[test]
fn the_criterion_has_the_false_positive_rate_of_two_tests() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    // Two runs, five evaluations each: the true ctl and icl differ by `gap` times the panel's error.
    let mut verdicts = |gap: f64, confidence: f64| {
        let mut counts = [0.0; 3];
        for _ in 0..TRIALS {
            let [a, b] = [gap * 0.005, 0.0].map(|more| {
                let of = |rng: &mut ChaCha8Rng| evaluations(rng, 5, 0.003, 0.0);
                let (ctl, icl) = (of(&mut rng), of(&mut rng));
                let made = ctl.iter().zip(&icl).zip(1..).map(|((ctl, icl), step)| {
                    let [ctl, icl] = [ctl, icl].map(|one| (one.value + more, one.standard_error));
                    point("r", step, &[("ctl", ctl.0, ctl.1), ("icl", icl.0, icl.1)])
                });
                side("r", vec![made.collect()])
            });
            match compare_pair(&a, &b, &[], confidence).criterion.verdict {
                CriterionVerdict::ALeaksMore => counts[0] += 1.0 / TRIALS as f64,
                CriterionVerdict::BLeaksMore => counts[1] += 1.0 / TRIALS as f64,
                CriterionVerdict::Compatible => {}
                CriterionVerdict::Undecided => counts[2] += 1.0 / TRIALS as f64,
                CriterionVerdict::Undefined => panic!("both have values"),
            }
        }
        println!(
            "gap {gap} errors, confidence {confidence}: a {:.3}, b {:.3}, undecided {:.3}",
            counts[0], counts[1], counts[2]
        );
        counts
    };
    let none = verdicts(0.0, 0.95);
    assert!(none[0] + none[1] < 0.11, "{none:?}");
    let strict = verdicts(0.0, 0.975);
    assert!(strict[0] + strict[1] < 0.06, "{strict:?}");
    let some = verdicts(3.0, 0.95);
    assert!(some[0] > 0.6 && some[1] + some[2] < 0.01, "{some:?}");
    let much = verdicts(6.0, 0.95);
    assert!(much[0] > 0.99, "{much:?}");
}

#[test]
fn a_drop_between_splits_is_found_while_the_model_keeps_learning() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    // Five evaluations of both splits, which the model moves together, far more than the panels' errors of 0.005; these
    // are shared by `rows`, their correlation. One split loses `drop` errors.
    let mut found = |drop: f64, rows: f64| {
        share(|_| {
            let common = evaluations(&mut rng, 5, 0.05, 0.7);
            let shared = normal(&mut rng);
            let mut side_of = |name: &str, less: f64| {
                let panel = 0.005 * (rows.sqrt() * shared + (1.0 - rows).sqrt() * normal(&mut rng)) - less;
                let of = |(one, step): (&Measured, u64)| {
                    let own = 0.001 * normal(&mut rng);
                    point("r", step, &[("concept_accuracy", one.value + panel + own, one.standard_error)])
                };
                side(name, vec![common.iter().zip(1..).map(of).collect()])
            };
            let (a, b) = (side_of("val", 0.0), side_of("val_dropped", drop * 0.005));
            let report = compare_splits("r", &a, &b, &["concept_accuracy".to_owned()], 0.95);
            report.scores[0].comparison.verdict == Verdict::HigherInA
        })
    };
    for rows in [0.0, 0.8] {
        let shares = [0.0, 3.0, 6.0].map(|drop| found(drop, rows));
        println!("correlation of the panels {rows}: drops of 0, 3 and 6 errors are found in {shares:.3?}");
        // One side of a two-sided test at 95 %.
        assert!(shares[0] < 0.035 && shares[1] > 0.5 && shares[2] > 0.98, "{rows}: {shares:?}");
        assert!(rows == 0.0 || shares[0] < 0.005, "shared rows make it conservative: {shares:?}");
    }
}
