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

use super::value::Estimate;
use super::variable::Discrete;
use super::width::every_width;

/// I(X;Y) ≥ 0 up to rounding. 0 if either has one class.
pub fn mutual_information(x: &Discrete, y: &Discrete) -> Estimate {
    let (width, n) = (y.sizes().len(), x.classes().len());
    let information = |cell: usize, together: u32| {
        let alone = f64::from(x.sizes()[cell / width]) * f64::from(y.sizes()[cell % width]);
        (f64::from(together) * n as f64 / alone).ln()
    };
    let mut terms = vec![0.0; n];
    let table = x.sizes().len() * width;
    // A table of more cells than rows is not made.
    if table <= n {
        let mut cells = vec![0; n];
        join(x.classes(), y.classes(), width as u32, &mut cells);
        let mut together = vec![0_u32; table];
        cells.iter().for_each(|&cell| together[cell as usize] += 1);
        let of_cells: Vec<f64> = together.into_iter().enumerate().map(|(cell, rows)| information(cell, rows)).collect();
        terms.iter_mut().zip(cells).for_each(|(term, cell)| *term = of_cells[cell as usize]);
        return Estimate::from_terms(0.0, terms, &[]);
    }
    let cell_of = |(&x, &y): (&u32, &u32)| x as usize * width + y as usize;
    let cells: Vec<usize> = x.classes().iter().zip(y.classes()).map(cell_of).collect();
    let mut rows: Vec<usize> = (0..n).collect();
    rows.sort_unstable_by_key(|&row| cells[row]);
    for run in rows.chunk_by(|&a, &b| cells[a] == cells[b]) {
        let information = information(cells[run[0]], run.len() as u32);
        run.iter().for_each(|&row| terms[row] = information);
    }
    Estimate::from_terms(0.0, terms, &[])
}

every_width! {
/// The cell of each row.
fn join(x: &[u32], y: &[u32], width: u32, cells: &mut [u32]) {
    cells.iter_mut().zip(x).zip(y).for_each(|((cell, &x), &y)| *cell = x * width + y);
}
}

/// H(X): 0 for one class.
pub fn entropy(x: &Discrete) -> Estimate {
    let n = x.classes().len() as f64;
    let surprise: Vec<f64> = x.sizes().iter().map(|&size| (n / f64::from(size)).ln()).collect();
    let terms: Vec<f64> = x.classes().iter().map(|&class| surprise[class as usize]).collect();
    Estimate::from_terms(0.0, terms, &[])
}
