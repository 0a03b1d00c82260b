//! Entropy and mutual information of discrete variables, by counting:
//!
//! ```text
//! H(X) = Σ p(x) ln 1/p(x)        I(X;Y) = Σ p(x,y) ln [ p(x,y) / p(x) p(y) ]        p = counts / N
//! ```
//!
//! Nats. Maximum likelihood; Paninski 2003, Section 4, DOI 10.1162/089976603321780272.
//!
//! Where it fails: H is too small by about (classes − 1)/2N, and I too large by about (classes of x − 1)(classes of y −
//! 1)/2N, so independent variables show a positive I. With nearly as many classes as rows neither means anything.

use super::Estimate;
use super::variable::Discrete;

/// I(X;Y) ≥ 0 up to rounding. 0 if either has one class.
pub fn mutual_information(x: &Discrete, y: &Discrete) -> Estimate {
    let width = y.sizes().len();
    let cell = |row: usize| x.classes()[row] as usize * width + y.classes()[row] as usize;
    let n = x.classes().len();
    // A table where it is small, as it nearly always is; otherwise the occupied cells alone.
    let cells = x.sizes().len() * width;
    let together: Vec<u32> = if cells <= 16 * n {
        let mut table = vec![0_u32; cells];
        (0..n).for_each(|row| table[cell(row)] += 1);
        (0..n).map(|row| table[cell(row)]).collect()
    } else {
        let mut rows: Vec<usize> = (0..n).collect();
        rows.sort_unstable_by_key(|&row| cell(row));
        let mut together = vec![0; n];
        for run in rows.chunk_by(|&a, &b| cell(a) == cell(b)) {
            run.iter().for_each(|&row| together[row] = run.len() as u32);
        }
        together
    };
    let term = |row: usize| {
        let alone = f64::from(x.sizes()[x.classes()[row] as usize]) * f64::from(y.sizes()[y.classes()[row] as usize]);
        Some((f64::from(together[row]) * n as f64 / alone).ln())
    };
    Estimate::from_terms(0.0, (0..n).map(term).collect())
}

/// H(X): 0 for one class.
pub fn entropy(x: &Discrete) -> Estimate {
    let n = x.classes().len() as f64;
    let surprise: Vec<f64> = x.sizes().iter().map(|&size| (n / f64::from(size)).ln()).collect();
    Estimate::from_terms(0.0, x.classes().iter().map(|&class| Some(surprise[class as usize])).collect())
}
