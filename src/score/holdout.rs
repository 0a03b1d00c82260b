//! The rows a helper model trains on, and those it is tested on: 80 and 20 %, chosen by a hash of the row's id. A fixed
//! panel of rows so keeps its split from pass to pass.

use crate::prepare::Prepared;
use crate::sample::priority::priority;

use super::term::Term;

/// Makes this choice of rows independent of the sample's own.
const STREAM: u64 = 0x686f_6c64_6f75_7400;

/// Row numbers, ascending.
pub struct Holdout {
    pub train: Vec<usize>,
    pub test: Vec<usize>,
}

impl Holdout {
    /// A fifth of the rows, rounded up, for testing; `draw` distinguishes independent choices. Errors when either part is
    /// empty.
    pub fn of(p: &Prepared, draw: u64) -> Result<Self, String> {
        let n = p.rows();
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_unstable_by_key(|&row| (priority(p.settings().seed ^ (STREAM + draw), p.ids()[row]), row));
        let mut test: Vec<usize> = order.drain(..n.div_ceil(5)).collect();
        test.sort_unstable();
        order.sort_unstable();
        if order.is_empty() || test.is_empty() {
            return Err(format!("{n} rows are too few to train on some and test on others"));
        }
        Ok(Self { train: order, test })
    }

    /// A term of the test rows as one of all rows.
    pub fn spread(&self, term: &Term) -> Term {
        let n = self.train.len() + self.test.len();
        let scale = n as f64 / self.test.len() as f64;
        let mut influence = vec![0.0; n];
        self.test.iter().zip(&term.influence).for_each(|(&row, x)| influence[row] = scale * x);
        Term { influence, ..term.clone() }
    }
}
