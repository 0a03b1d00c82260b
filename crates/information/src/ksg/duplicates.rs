//! The points of a plane that are duplicates of each other: they have the same balls and terms.
//!
//! Columns of few values, or with a crowd at one value, have many. Their search then is for distinct points alone, and so
//! are the sums over ties.
//!
//! Cost: one step a point.
//! Gain: row `Duplicates` of README.md (`cargo bench --bench shapes`).

use crate::neighbours::lanes::Real;
use crate::neighbours::sorted_pair::Plane;
use crate::thresholds;

/// The distinct points among some of a plane, and which of them each is.
pub(super) struct Duplicates {
    /// The position of the first of each, and how many there are.
    pub(super) distinct: Vec<(u32, u32)>,
    /// The index in `distinct` of each point.
    pub(super) index: Vec<u32>,
}

impl Duplicates {
    /// Finds the duplicates among all points; `None` where there are too few to search for distinct points alone.
    pub(super) fn of_all<T: Real>(plane: &Plane<T>, positions: &[u32]) -> Option<Self> {
        thresholds::searches_distinct(equal_pairs(plane), plane.rank_y().len()).then(|| Self::new(plane, positions))
    }

    /// Finds the duplicates among open points. Where there are too few, all points are taken as distinct.
    pub(super) fn of_open<T: Real>(plane: &Plane<T>, open: &[u32]) -> Self {
        match thresholds::sums_distinct(equal_pairs(plane), plane.rank_y().len()) {
            true => Self::new(plane, open),
            false => {
                Self { distinct: open.iter().map(|&at| (at, 1)).collect(), index: (0..open.len() as u32).collect() }
            }
        }
    }

    /// Finds the duplicates among the points at `positions`, which ascend in the order of x. Points of one value of x
    /// follow each other, so a note for each value of y is enough.
    fn new<T: Real>(plane: &Plane<T>, positions: &[u32]) -> Self {
        let rank_y = plane.rank_y();
        let (runs_x, runs_y) = (&plane.sorted_x().runs().bounds, &plane.sorted_y().runs().bounds);
        let (mut distinct, mut index) = (vec![(0, 0); positions.len()], Vec::with_capacity(positions.len()));
        let mut count = 0;
        // By where a run in y starts: the last run in x that it was met in, and its index there.
        let mut met = vec![[u32::MAX; 2]; rank_y.len()];
        for &at in positions {
            let run_x = runs_x[at as usize][0];
            let met = &mut met[runs_y[rank_y[at as usize] as usize][0] as usize];
            // Unpredictable, so no branch depends on it.
            let is_first = met[0] != run_x;
            distinct[count].0 = at;
            *met = [run_x, if is_first { count as u32 } else { met[1] }];
            count += usize::from(is_first);
            distinct[met[1] as usize].1 += 1;
            index.push(met[1]);
        }
        distinct.truncate(count);
        Self { distinct, index }
    }

    /// The first of each point of which there are at most `copies`.
    pub(super) fn first_of_at_most(&self, copies: usize) -> Vec<u32> {
        self.distinct.iter().filter(|distinct| distinct.1 as usize <= copies).map(|distinct| distinct.0).collect()
    }
}

fn equal_pairs<T: Real>(plane: &Plane<T>) -> [f64; 2] {
    [plane.sorted_x(), plane.sorted_y()].map(|column| column.runs().equal_pairs)
}
