//! The expectation where nothing is closer in this variable, as for duplicates (r = 0): the sum over κ closes.
//!
//! n_x + 1 is p + 1 + κ − e. With M = p + 1 + κ the position of the boundary among the S + d distances, S = p + q + 1,
//!
//! ```text
//! E ψ(M) = ψ(p + 1) + ψ(S + d + 1) − ψ(S + 1)       ψ(M − e) = ψ(M) − Σ_{l ≤ e} e(e − 1)…(e − l + 1)/l · T_l
//! T_l = 1/((M − 1)…(M − l))                         E T_l = Π_{i < l} (S − i) / ((S + d − i)(p − i))
//! ```
//!
//! Cost: one step for every sixteen p, whatever d is.
//! Gain: row `ClosedForm` of README.md (`cargo bench --bench shapes`).

#![expect(clippy::needless_range_loop, reason = "with indices, loops over lanes become vectors")]

use super::probabilities::Probabilities;
use super::sums::{LANES, Sum};

/// E ψ(p + 1 + κ − e), from `psi[n]` = ψ(n).
#[inline(always)]
pub fn expectation(probabilities: Probabilities<&[f64]>, behind: usize, beyond: usize, psi: &[f64]) -> Sum {
    let mut sums = [0.0; LANES];
    let (width, lowest, count) = (probabilities.width, probabilities.lowest, probabilities.count);
    let highest = lowest + width - 1;
    for from in (0..count).step_by(LANES) {
        let first = probabilities.first + from;
        let near = [first + 1, first + behind + beyond + 2, first + behind + 2].map(|at| &psi[at..at + LANES]);
        let mut p = [0.0; LANES];
        let mut all = [0.0; LANES];
        for lane in 0..LANES {
            p[lane] = (first + lane) as f64;
        }
        for lane in 0..LANES.min(count - from) {
            all[lane] = probabilities.values[(from + lane) * width..][..width].iter().sum();
        }
        for lane in 0..LANES {
            sums[lane] += all[lane] * (near[0][lane] + near[1][lane] - near[2][lane]);
        }
        let mut product = [1.0; LANES];
        for l in 1..=highest {
            let mut share = [0.0; LANES];
            for e in l.max(lowest)..=highest {
                // e(e − 1)…(e − l + 1)/l, over what the product has for the highest e.
                let ways = (0..l).map(|i| (e - i) as f64 / (highest - i) as f64).product::<f64>() / l as f64;
                for lane in 0..LANES.min(count - from) {
                    share[lane] += ways * probabilities.values[(from + lane) * width + e - lowest];
                }
            }
            for lane in 0..LANES {
                let left = p[lane] + (behind + 2) as f64 - l as f64;
                // Below 1 only where no e is as large.
                let before = p[lane] + 1.0 - l as f64;
                let before = if before < 1.0 { 1.0 } else { before };
                product[lane] *= (highest + 1 - l) as f64 * left / ((left + beyond as f64) * before);
                sums[lane] -= share[lane] * product[lane];
            }
        }
    }
    Sum(sums)
}
