//! Operating curve of the test for rises: false stops on curves that do not rise, delays on curves that do.
//!
//! `cargo bench --bench alerts` prints the tables of docs/alerts.md; `-- --series DIR` also writes the curves, for the
//! comparison with other detectors in python/benches/alert_peers.py. Every curve passes through the sidecar's alert
//! engine, with a rule that has no warm-up and no minimum rise. The unit is the *paired error*: the
//! standard error of the difference of two evaluations, √2 standard deviations of the noise.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use leakage::alert::{Alerts, Rules, State};
use leakage::point::{Outcome, Point, ScoreValue};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

const SERIES: usize = 1_250;
const LENGTH: usize = 100;
/// The evaluation at which a step or a drift begins.
const ONSET: usize = 30;
const NOISES: [f64; 3] = [0.0, 0.5, 0.8];
/// Height of a spike, in paired errors: far above the noise.
const SPIKE: f64 = 10.0;
const ROWS: u64 = 2_000;

/// One evaluation of a curve.
#[derive(Clone, Copy)]
struct Evaluation {
    value: f64,
    step: u64,
    rows: u64,
}

type Curve = Vec<Evaluation>;

/// AR(1) noise of standard deviation `deviation`, in paired errors.
fn ar1(rho: f64, deviation: f64, random: &mut ChaCha8Rng) -> Vec<f64> {
    let mut draw = || -> f64 { StandardNormal.sample(random) };
    let mut value = deviation * draw();
    let mut next = |_| {
        let now = value;
        value = rho * value + deviation * (1.0 - rho * rho).sqrt() * draw();
        now
    };
    (0..LENGTH).map(&mut next).collect()
}

fn curve(values: impl IntoIterator<Item = f64>) -> Curve {
    values.into_iter().enumerate().map(|(t, value)| Evaluation { value, step: t as u64 + 1, rows: ROWS }).collect()
}

/// Noise scaled so that independent draws differ by one paired error.
fn noise(rho: f64, random: &mut ChaCha8Rng) -> Vec<f64> {
    ar1(rho, 0.5_f64.sqrt(), random)
}

/// Noise scaled so that successive values differ by one paired error: the higher their correlation, the wider it
/// strays.
fn straying(_: &str, rho: f64, random: &mut ChaCha8Rng) -> Curve {
    curve(ar1(rho, (0.5 / (1.0 - rho)).sqrt(), random))
}

/// The curves that do not rise, by name.
fn still(name: &str, rho: f64, random: &mut ChaCha8Rng) -> Curve {
    let noise = noise(rho, random);
    let falling = |t: usize| 30.0 * (-(t as f64) / 15.0).exp();
    match name {
        "noise alone" => curve(noise),
        // One in every 20 evaluations, at least 8 apart.
        "single spikes" => {
            let mut values = noise;
            for stretch in 0..LENGTH / 20 {
                values[20 * stretch + random.random_range(2..15)] += SPIKE;
            }
            curve(values)
        }
        "falling" => curve(noise.iter().enumerate().map(|(t, x)| x + falling(t))),
        // Falls, and twice resumes from an earlier checkpoint with its higher level.
        "restarts" => {
            let mut step = 0;
            let back = [random.random_range(20..50), random.random_range(50..90)];
            let evaluate = |(t, x): (usize, &f64)| {
                step = if back.contains(&t) { step / 2 } else { step + 1 };
                Evaluation { value: x + falling(step), step: step as u64, rows: ROWS }
            };
            noise.iter().enumerate().map(evaluate).collect()
        }
        // The level depends on N, as for `icl`.
        "N changes" => {
            let at = random.random_range(10..90);
            let mut curve = curve(noise);
            for evaluation in &mut curve[at..] {
                evaluation.rows = 2 * ROWS;
                evaluation.value += 6.0;
            }
            curve
        }
        other => unreachable!("{other}"),
    }
}

const STILL: [&str; 5] = ["noise alone", "single spikes", "falling", "restarts", "N changes"];

/// Curves that rise from `ONSET` on.
fn rising(name: &str, rho: f64, random: &mut ChaCha8Rng) -> Curve {
    let shift = |t: usize| match (name, t) {
        (_, t) if t < ONSET => 0.0,
        ("step of 6", _) => 6.0,
        _ => (t - ONSET + 1) as f64,
    };
    curve(noise(rho, random).iter().enumerate().map(|(t, x)| x + shift(t)))
}

const RISING: [&str; 2] = ["step of 6", "drift of 1"];

/// The first evaluation at which the rule fires.
fn fires(curve: &Curve) -> Option<usize> {
    let rule = serde_json::json!({"name": "rise", "score": "ctl_excess", "rise": 0.0});
    let fields = serde_json::from_value(rule).expect("an object");
    let mut alerts = Alerts::new(Rules::read([fields]).expect("the rule is valid"));
    curve.iter().position(|evaluation| {
        let value = ScoreValue { value: evaluation.value, ..ScoreValue::default() };
        let point = Point {
            run: "run".into(),
            split: "val".into(),
            step: evaluation.step,
            rows: evaluation.rows,
            scores: vec![("ctl_excess".into(), Outcome::Value(value))],
            change_errors: vec![("ctl_excess".into(), 1.0)],
            ..Point::default()
        };
        alerts.observe(&point).iter().any(|change| change.standing.state == State::Firing)
    })
}

/// Upper 95 % confidence bound of a Poisson rate, given `count` events in `n`.
fn upper_bound(count: usize, n: usize) -> f64 {
    let at_most = |mean: f64| {
        let mut term = (-mean).exp();
        (0..=count)
            .map(|k| {
                if k == 0 {
                    term
                } else {
                    term *= mean / k as f64;
                    term
                }
            })
            .sum::<f64>()
    };
    let (mut low, mut high) = (count as f64, 2.0 * count as f64 + 10.0);
    while high - low > 1e-6 {
        let middle = (low + high) / 2.0;
        if at_most(middle) > 0.05 { low = middle } else { high = middle }
    }
    high / n as f64
}

fn quantile(sorted: &[usize], share: f64) -> usize {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

/// All curves of a scenario; every scenario has a separate random stream.
fn curves(name: &str, rho: f64, make: fn(&str, f64, &mut ChaCha8Rng) -> Curve) -> Vec<Curve> {
    let names = || STILL.iter().chain(&RISING).chain(&["straying"]);
    let places = names().position(|known| *known == name).expect("a known scenario");
    let mut random = ChaCha8Rng::seed_from_u64(1000 * places as u64 + (10.0 * rho) as u64);
    (0..SERIES).map(|_| make(name, rho, &mut random)).collect()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let directory =
        arguments.iter().position(|argument| argument == "--series").map(|at| PathBuf::from(&arguments[at + 1]));
    if let Some(directory) = &directory {
        fs::create_dir_all(directory).expect("the directory can be made");
    }
    let mut failed = false;
    println!("| curve | AR(1) | evaluations | stops | per 1,000 | at most (95 %) |\n|---|---|---|---|---|---|");
    for name in STILL {
        for rho in NOISES {
            let curves = curves(name, rho, still);
            write(directory.as_deref(), name, rho, &curves);
            let stops: Vec<Option<usize>> = curves.iter().map(fires).collect();
            // A stop ends the run, so later values are not evaluations.
            let evaluations: usize = stops.iter().map(|stop| stop.map_or(LENGTH, |at| at + 1)).sum();
            let count = stops.iter().flatten().count();
            let (rate, bound) = (1e3 * count as f64 / evaluations as f64, 1e3 * upper_bound(count, evaluations));
            println!("| {name} | {rho} | {evaluations} | {count} | {rate:.2} | {bound:.2} |");
            failed |= bound > 1.0 || evaluations < 100_000;
        }
    }
    println!("\n| curve | AR(1) | median delay | 90 % within | never | before the onset |\n|---|---|---|---|---|---|");
    for name in RISING {
        for rho in NOISES {
            let curves = curves(name, rho, rising);
            write(directory.as_deref(), name, rho, &curves);
            let stops: Vec<Option<usize>> = curves.iter().map(fires).collect();
            let early = stops.iter().flatten().filter(|at| **at < ONSET).count();
            // The first changed evaluation counts as delay 1, the shortest possible.
            let mut delays: Vec<usize> = stops
                .iter()
                .filter(|at| at.is_none_or(|at| at >= ONSET))
                .map(|at| at.map_or(999, |at| at + 1 - ONSET))
                .collect();
            delays.sort_unstable();
            let never = delays.iter().filter(|delay| **delay == 999).count();
            let median = quantile(&delays, 0.5);
            println!("| {name} | {rho} | {median} | {} | {never} | {early} |", quantile(&delays, 0.9));
            failed |= median > if name == "step of 6" { 5 } else { 8 };
        }
    }
    println!("\nNoise that strays further than its stated error:\n");
    println!("| AR(1) | standard deviation | stops per 1,000 |\n|---|---|---|");
    for rho in NOISES {
        let stops: Vec<Option<usize>> = curves("straying", rho, straying).iter().map(fires).collect();
        let evaluations: usize = stops.iter().map(|stop| stop.map_or(LENGTH, |at| at + 1)).sum();
        let rate = 1e3 * stops.iter().flatten().count() as f64 / evaluations as f64;
        println!("| {rho} | {:.2} | {rate:.2} |", (0.5 / (1.0 - rho)).sqrt());
    }
    if failed {
        eprintln!("the test for rises is outside its documented limits: see the tables");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Values, steps and rows of each evaluation, as little-endian f64 [series, evaluation, 3].
fn write(directory: Option<&Path>, name: &str, rho: f64, curves: &[Curve]) {
    let Some(directory) = directory else { return };
    let path = directory.join(format!("{} {rho}.f64", name.replace(' ', "-")));
    let mut file = std::io::BufWriter::new(fs::File::create(path).expect("the file can be made"));
    for evaluation in curves.iter().flatten() {
        for number in [evaluation.value, evaluation.step as f64, evaluation.rows as f64] {
            file.write_all(&number.to_le_bytes()).expect("the file can be written");
        }
    }
}
