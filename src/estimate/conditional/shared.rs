//! The variance that rows share with their neighbours.
//!
//! The squares of the terms are their variance if rows are independent. Rows that share neighbours have similar terms, and
//! where a class has few rows all of its terms move together: without this the standard error is 0.7 to 0.9 of the scatter.
//! Of a term ψ(k) − ψ(m), where m rows are as near as the k-th of the row's class, the variance from neighbours is
//! ψ'(k) − ψ'(m), as that of the number of trials up to the k-th success; ψ'(x) is e^(−ψ(x)) to within 1 %. To this, 0.7
//! (1 − 1/k) of it is added, and to the square of a row's influence 4/n of it, n the rows of its class. Both factors are
//! measured: samples of 600 rows from seventeen laws, 1,000 of each, in `tests/estimators/coverage.rs`. Between two numbers
//! terms share about 0.9 (1 − 1/k) of their square.

use crate::estimate::digamma::Digamma;
use crate::estimate::variable::Discrete;

/// Of each row 4/n and more.
const OF_FEW: f64 = 4.0;
const OF_CLASSES: f64 = 0.7;
const OF_NUMBERS: f64 = 0.9;

/// What is to be added to the squares of the terms of some rows.
pub(super) struct Shared {
    /// A share of each row's square.
    pub(super) of_square: Vec<f64>,
    /// In squared nats, summed over the rows.
    pub(super) beside: f64,
}

/// Of Ross's terms; rows alone in their class have 0.
pub(super) fn by_classes(terms: &[f64], label: &Discrete, neighbours: usize) -> Shared {
    let kept = label.sizes().iter().filter(|size| **size > 1).map(|&size| size as usize).sum();
    let digamma = Digamma::up_to(terms.len());
    // Of a class: 4/n, the factor of 1 − e^(ψ(k) − ψ(m)), and ψ(n) − ψ(N).
    let of_class = |&size: &u32| match size as usize {
        0 | 1 => [0.0; 3],
        size => {
            let k = neighbours.min(size - 1);
            let factor = OF_CLASSES * (1.0 - 1.0 / k as f64) * (-digamma.at(k)).exp();
            [OF_FEW / size as f64, factor, digamma.at(size) - digamma.at(kept)]
        }
    };
    let classes: Vec<[f64; 3]> = label.sizes().iter().map(of_class).collect();
    let mut beside = 0.0;
    let of_row = |(&class, term): (&u32, &f64)| {
        let [of_square, factor, own_share] = classes[class as usize];
        beside += factor * (1.0 - (term + own_share).exp()).max(0.0);
        of_square
    };
    let of_square = label.classes().iter().zip(terms).map(of_row).collect();
    Shared { of_square, beside }
}

/// Of terms between numbers.
pub(super) fn by_numbers(rows: usize, neighbours: usize) -> Shared {
    let k = neighbours.clamp(1, rows.max(2) - 1) as f64;
    let of_square = OF_NUMBERS * (1.0 - 1.0 / k) + OF_FEW / rows.max(1) as f64;
    Shared { of_square: vec![of_square; rows], beside: 0.0 }
}
