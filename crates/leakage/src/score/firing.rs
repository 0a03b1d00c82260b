//! Latents of a sparse autoencoder by whether they fire, that is, are above 0: dead ones, and concepts whose latents are
//! silent where another latent has absorbed them.
//!
//! Source of absorption: A is for Absorption: Studying Feature Splitting and Absorption in Sparse Autoencoders (Chanin et
//! al. 2024, arXiv 2409.14507), and its form in SAEBench (Karvonen et al. 2025, arXiv 2503.09532). Both find main latents
//! by k-sparse probing and absorbing ones by the projection of their decoder directions on a probe. A sample has no
//! decoder, so here firing alone decides. Cost: a few times N L k / 64 counts of bits for L latents.

use std::collections::BTreeSet;

use crate::parallel;
use crate::point::{Outcome, ScoreValue};
use crate::prepare::Prepared;

use super::concept_rows::NO_CLASSES;
use super::term::{Term, mean_over_concepts};

/// Rise of the difference of firing rates above which a latent is one of a concept's main ones.
const SPLIT: f64 = 0.2;
/// Precision of a carrier, as a share of that of the main latents.
const PRECISION: f64 = 0.9;
/// Probability that any of the latents is taken for a carrier by chance.
const CHANCE: f64 = 0.01;

/// The share of latents that fire in no row.
pub fn dead(p: &Prepared) -> Result<Outcome, String> {
    let firing = Firing::of(p)?;
    let silent = firing.latents().filter(|rows| count(rows) == 0).count();
    Ok(Outcome::Value(ScoreValue { value: silent as f64 / firing.latents().len() as f64, ..ScoreValue::default() }))
}

/// The share of a concept's rows on which a carrier of the concept fires and none of its main latents does; mean over
/// concepts. Each class of a categorical concept has latents of its own.
pub fn absorption(p: &Prepared) -> Result<Outcome, String> {
    let firing = Firing::of(p)?;
    let terms: Vec<Result<Term, String>> = parallel::map(p.concepts(), &|i| of_concept(p, &firing, i));
    Ok(mean_over_concepts(p, &p.class_weights(), &terms, |term| term.value))
}

fn of_concept(p: &Prepared, firing: &Firing, i: usize) -> Result<Term, String> {
    let labels = p.concept_classes(i).ok_or(NO_CLASSES)?;
    p.known(&[i]).map_err(|why| format!("labels: {why}"))?;
    let classes: BTreeSet<i32> = labels.iter().copied().filter(|&class| class >= 0).collect();
    if classes.len() < 2 {
        return Err("labels: there is one class only".into());
    }
    // A binary concept is absorbed in the rows that have it alone.
    let least = i32::from(!p.run().concepts[i].is_categorical());
    let mut absorbed = vec![None; p.rows()];
    for &class in classes.range(least..) {
        p.pause();
        let with = rows_where(&labels, |label| label == class);
        let without = rows_where(&labels, |label| label >= 0 && label != class);
        let Some(is_absorbed) = firing.absorbed(&with, &without) else { continue };
        for row in (0..labels.len()).filter(|&row| labels[row] == class) {
            absorbed[row] = Some(f64::from(u8::from(has(&is_absorbed, row))));
        }
    }
    let of_rows = Term::mean_of_some_rows(&absorbed);
    of_rows.ok_or_else(|| format!("no latent's firing rate is more than {SPLIT} higher with it than without"))
}

/// For each latent the rows in which it fires, a bit for each row.
struct Firing {
    bits: Vec<u64>,
    /// Words per latent.
    words: usize,
}

impl Firing {
    fn of(p: &Prepared) -> Result<Self, String> {
        let latents = p.latents().ok_or("there are no latents")?;
        let (width, words) = (latents.width(), p.rows().div_ceil(64));
        let mut bits = vec![0; width * words];
        let mut never_off = true;
        for (row, values) in latents.block(0..width).chunks(width).enumerate() {
            p.pause();
            for (latent, _) in values.iter().enumerate().filter(|(_, x)| **x > 0.0) {
                bits[latent * words + row / 64] |= 1 << (row % 64);
            }
            never_off &= values.iter().all(|x| *x > 0.0);
        }
        match never_off {
            true => Err("no latent is 0 or below in any row: values that never switch off do not fire".into()),
            false => Ok(Self { bits, words }),
        }
    }

    fn latents(&self) -> impl ExactSizeIterator<Item = &[u64]> {
        self.bits.chunks(self.words)
    }

    /// The rows with a concept in which it is absorbed; `None` where no latent is a main one.
    fn absorbed(&self, with: &[u64], without: &[u64]) -> Option<Vec<u64>> {
        let [present, absent] = [with, without].map(|rows| count(rows) as f64);
        let difference = |rows: &[u64], more: &[u64]| {
            let share = |of: &[u64], all: f64| {
                let both = rows.iter().zip(more).zip(of).map(|((a, b), of)| ((a | b) & of).count_ones());
                f64::from(both.sum::<u32>()) / all
            };
            share(with, present) - share(without, absent)
        };
        let (mut main, mut reached) = (vec![0; self.words], 0.0);
        loop {
            // The first of equals.
            let best = self.latents().map(|latent| (difference(&main, latent), latent));
            let (rise, latent) = best.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
            if rise <= reached + SPLIT {
                break;
            }
            main.iter_mut().zip(latent).for_each(|(main, latent)| *main |= latent);
            reached = rise;
        }
        if reached == 0.0 {
            return None;
        }
        // Rows with the concept and all rows in which any of these latents fires.
        let fired = |rows: &[u64]| {
            let hits = f64::from(common(rows, with));
            (hits, hits + f64::from(common(rows, without)))
        };
        let (hits, all) = fired(&main);
        let prevalence = present / (present + absent);
        let least = (PRECISION * hits / all).max(prevalence);
        let unlikely = (self.latents().len() as f64 / CHANCE).ln();
        let mut carried = vec![0; self.words];
        for latent in self.latents() {
            let (hits, all) = fired(latent);
            // Chernoff's bound of the probability of as many hits.
            if hits > 0.0 && hits >= least * all && all * divergence(hits / all, prevalence) > unlikely {
                carried.iter_mut().zip(latent).for_each(|(carried, latent)| *carried |= latent);
            }
        }
        Some(carried.iter().zip(&main).zip(with).map(|((carried, main), with)| carried & !main & with).collect())
    }
}

/// The Kullback-Leibler divergence of a coin that shows heads with probability `p` from one with `q`, 0 < q < 1, in nats.
fn divergence(p: f64, q: f64) -> f64 {
    let part = |p: f64, q: f64| if p > 0.0 { p * (p / q).ln() } else { 0.0 };
    part(p, q) + part(1.0 - p, 1.0 - q)
}

fn rows_where(labels: &[i32], is: impl Fn(i32) -> bool) -> Vec<u64> {
    let word =
        |labels: &[i32]| labels.iter().enumerate().fold(0, |word, (at, &label)| word | u64::from(is(label)) << at);
    labels.chunks(64).map(word).collect()
}

fn has(rows: &[u64], row: usize) -> bool {
    rows[row / 64] >> (row % 64) & 1 == 1
}

fn count(rows: &[u64]) -> u32 {
    rows.iter().map(|word| word.count_ones()).sum()
}

fn common(rows: &[u64], others: &[u64]) -> u32 {
    rows.iter().zip(others).map(|(a, b)| (a & b).count_ones()).sum()
}
