//! The default rule on rising interconcept leakage: how often noise alone sets it off, and how soon a rise does.

use leakage::alert::{Alerts, Rules, default_rules};
use leakage::point::{Outcome, Point, ScoreValue};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

const CURVES: u64 = 2000;
const LENGTH: usize = 80;
const ONSET: usize = 30;
/// Sampling error of an evaluation, as of 2,000 rows and 14 concepts.
const SE: f64 = 0.003;

fn rule() -> Rules {
    let all = default_rules();
    let rises = all.as_slice().iter().find(|rule| rule.name() == "interconcept leakage rises").unwrap();
    let shown = serde_json::to_value(rises.as_ref()).unwrap();
    Rules::read([serde_json::from_value(shown).unwrap()]).unwrap()
}

/// AR(1) noise of this standard deviation, over 80 evaluations.
fn noise(deviation: f64, correlation: f64, seed: u64) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut draw = || -> f64 { StandardNormal.sample(&mut random) };
    let mut value = draw();
    let mut next = |_| {
        let now = deviation * value;
        value = correlation * value + (1.0 - correlation * correlation).sqrt() * draw();
        now
    };
    (0..LENGTH).map(&mut next).collect()
}

/// The evaluation at which a curve of `icl_excess` first fires.
fn fires(values: &[f64]) -> Option<usize> {
    let mut alerts = Alerts::new(rule());
    values.iter().enumerate().position(|(at, value)| {
        let score = ScoreValue { value: *value, standard_error: Some(SE), ..ScoreValue::default() };
        let point = Point {
            run: "r".into(),
            split: "val".into(),
            step: at as u64 + 1,
            rows: 2000,
            scores: vec![("icl_excess".to_owned(), Outcome::Value(score))],
            ..Point::default()
        };
        alerts.observe(&point);
        alerts.reasons_to_stop().next().is_some()
    })
}

#[test]
fn noise_sets_off_at_most_one_run_in_a_hundred() {
    let laws = [
        (0.003, 0.0),
        (0.01, 0.0),
        (0.02, 0.0),
        (0.03, 0.0),
        (0.01, 0.5),
        (0.02, 0.5),
        (0.03, 0.5),
        (0.005, 0.9),
        (0.01, 0.9),
    ];
    for (deviation, correlation) in laws {
        // From a negative baseline, where learning leaves it.
        let curve = |seed| noise(deviation, correlation, seed).into_iter().map(|x| x - 0.1).collect::<Vec<_>>();
        let set_off = (0..CURVES).filter(|&seed| fires(&curve(seed)).is_some()).count();
        println!("noise {deviation}, AR(1) {correlation}: {set_off} of {CURVES} runs");
        assert!(set_off <= CURVES as usize / 100, "{deviation} {correlation}: {set_off}");
    }
}

#[test]
fn a_rise_of_four_hundredths_is_found_within_fifteen_evaluations() {
    for (what, onset, takes) in [("a step", ONSET, 1), ("over eight evaluations", ONSET, 8), ("an early step", 12, 1)] {
        for baseline in [-0.1, 0.0, 0.2] {
            let rise = |at: usize| 0.04 * ((at + 1).saturating_sub(onset) as f64 / f64::from(takes)).min(1.0);
            let curve = |seed| -> Vec<f64> {
                noise(0.003, 0.0, seed).into_iter().enumerate().map(|(at, x)| baseline + x + rise(at)).collect()
            };
            let mut delays: Vec<usize> =
                (0..CURVES / 10).filter_map(|seed| Some(fires(&curve(seed))? + 1 - onset)).collect();
            delays.sort_unstable();
            let within = delays.iter().filter(|&&delay| (1..=15).contains(&delay)).count();
            println!(
                "{what} from {baseline}: {within} of {} within 15, median {}",
                CURVES / 10,
                delays[delays.len() / 2]
            );
            assert!(within as u64 * 10 >= CURVES / 10 * 9, "{what} from {baseline}: {within} of {}", CURVES / 10);
        }
    }
}

#[test]
fn a_jump_is_found_at_its_second_evaluation() {
    let curve = |seed| -> Vec<f64> {
        noise(0.01, 0.0, seed)
            .into_iter()
            .enumerate()
            .map(|(at, x)| if at + 1 >= ONSET { x + 0.15 } else { x })
            .collect()
    };
    let mut delays: Vec<usize> = (0..CURVES / 10).filter_map(|seed| Some(fires(&curve(seed))? + 1 - ONSET)).collect();
    delays.sort_unstable();
    println!("a jump: {} of {}, median {}", delays.len(), CURVES / 10, delays[delays.len() / 2] + 1);
    assert_eq!((delays.len() as u64, delays[0], delays[delays.len() / 2]), (CURVES / 10, 1, 1));
}
