//! The estimators of mutual information against closed forms, invariances, brute force and scikit-learn.

mod closed_forms;
mod conditional;
mod coverage;
mod golden;
mod invariance;
mod oracle;
mod shortcuts;
mod ties;
mod undefined;
mod units;

use std::sync::Arc;

use information::{Estimate, Key, Kind, Settings, Variable, mutual_information};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

pub const X: Key = Key { tensor: 1, coordinate: 0 };
pub const Y: Key = Key { tensor: 2, coordinate: 0 };

pub fn ids(rows: usize) -> Arc<[u64]> {
    (0..rows as u64).collect()
}

pub fn scalar(values: &[f64], key: Key) -> Variable {
    Variable::scalar(values.to_vec(), &ids(values.len()), key)
}

pub fn vector(values: &[f64], width: usize, key: Key) -> Variable {
    Variable::vector(values, width, &ids(values.len() / width), key)
}

pub fn tie_aware(neighbours: usize) -> Settings {
    Settings { kind: Kind::TieAware, neighbours, ..Settings::default() }
}

pub fn published(neighbours: usize) -> Settings {
    Settings { kind: Kind::Published, neighbours, ..Settings::default() }
}

pub fn estimate(x: &Variable, y: &Variable, settings: &Settings) -> Estimate {
    mutual_information(x, y, settings).expect("the variables vary and have enough rows")
}

pub fn random(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

pub fn gaussians(rows: usize, random: &mut ChaCha8Rng) -> Vec<f64> {
    (0..rows).map(|_| StandardNormal.sample(random)).collect()
}

/// Two Gaussian columns of the given correlation.
pub fn correlated(correlation: f64, rows: usize, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut random = random(seed);
    let (x, noise) = (gaussians(rows, &mut random), gaussians(rows, &mut random));
    let rest = (1.0 - correlation * correlation).sqrt();
    let y = x.iter().zip(noise).map(|(x, noise)| correlation * x + rest * noise).collect();
    (x, y)
}

/// Classes of equal probability and a Gaussian column whose mean is `shift` times the class.
pub fn shifted(shift: f64, classes: i32, rows: usize, seed: u64) -> (Vec<f64>, Vec<i32>) {
    let mut random = random(seed);
    let labels: Vec<i32> = (0..rows).map(|row| row as i32 % classes).collect();
    let x = gaussians(rows, &mut random).iter().zip(&labels).map(|(x, &label)| x + shift * f64::from(label)).collect();
    (x, labels)
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Standard error of the mean of independent values.
pub fn error_of_mean(values: &[f64]) -> f64 {
    let mean = mean(values);
    let count = values.len() as f64;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0) / count).sqrt()
}
