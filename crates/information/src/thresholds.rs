//! The choice of search and sum: the thresholds at which data take another way to the same result. Limits of what is
//! compiled, such as the numbers of neighbours that fit in registers, stand beside the code; `README.md` lists them.
//!
//! The ways to search give the same bits. The ways to sum over ties differ by rounding, some 10⁻¹³, so their thresholds
//! are part of what a score is. `README.md` draws the tree, and `cargo bench --bench shapes` measures each way on the data
//! it is for, with and without: [`without`] leaves one out.

use std::cell::Cell;

/// A way that some data take for speed alone. Everything works without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortcut {
    /// Columns of float32 values are searched in float32.
    Float32,
    /// Columns of few levels: a table of cells in place of a search.
    Cells,
    /// Duplicates among the points are searched for once, and so are the sums over their ties.
    Duplicates,
    /// Searches within strips of x.
    Strips,
    /// Sums over ties: the mean of consecutive ψ where one distance is at the radius.
    Mean,
    /// The closed form where nothing is closer.
    ClosedForm,
    /// Binomials from tables.
    Few,
    /// Probabilities of shapes met before are remembered.
    Memory,
    /// The nearest points of a search in registers.
    Registers,
    /// Terms below 128 are summed up in 64 bits.
    SmallTerms,
    /// Vectors: 64 labels of two classes in a word.
    Words,
}

thread_local! {
    static LEFT_OUT: Cell<Option<Shortcut>> = const { Cell::new(None) };
}

/// Runs something without a shortcut in this thread: what it gains is the difference.
pub fn without<T>(shortcut: Shortcut, run: impl FnOnce() -> T) -> T {
    let before = LEFT_OUT.replace(Some(shortcut));
    let result = run();
    LEFT_OUT.set(before);
    result
}

/// Returns the shortcut that is left out in this thread.
#[inline(always)]
pub(super) fn left_out() -> Option<Shortcut> {
    LEFT_OUT.get()
}

/// Values on one side up to which a count goes on step by step; what is farther is found by halving the whole column.
pub(super) const FAR: usize = 1024;
/// The same behind a group of values for which that was not enough: in a crowd it is not enough for any.
pub(super) const FAR_IN_A_CROWD: usize = 32;

/// Whether a search keeps its nearest points in registers, as far as there are enough: always.
#[inline(always)]
pub(super) fn takes_registers() -> bool {
    left_out() != Some(Shortcut::Registers)
}

/// Whether terms below 128 are summed up in 64 bits: always.
#[inline(always)]
pub(super) fn takes_small_terms() -> bool {
    left_out() != Some(Shortcut::SmallTerms)
}

/// Whether labels of two classes share words: always.
pub(super) fn takes_words() -> bool {
    left_out() != Some(Shortcut::Words)
}

/// Whether columns of float32 values are searched in float32: always.
pub(super) fn takes_float32() -> bool {
    left_out() != Some(Shortcut::Float32)
}

/// Distinct values up to which a column has few: its levels are numbered.
pub(super) const MOST_LEVELS: usize = 1024;
/// Cells per row up to which their table pays.
const MOST_CELLS: usize = 24;
/// Rows per level from which on it pays: among levels of few rows a ball takes many steps.
const LEAST_ROWS: usize = 5;

/// Whether a pair of columns is estimated from a table of cells, from the number of levels of each.
pub(super) fn takes_cells(rows: usize, [x, y]: [usize; 2]) -> bool {
    x * y <= MOST_CELLS * rows && x.max(y) * LEAST_ROWS <= rows && left_out() != Some(Shortcut::Cells)
}

/// Expected duplicates of a point from which on distinct points alone are searched for.
const CROWDED: f64 = 0.5;
/// The same for sums over ties, which take longer than a search.
const CROWDED_TIES: f64 = 0.1;

/// Whether the search is for distinct points, from the ordered pairs of rows that are equal in x and in y.
pub(super) fn searches_distinct(equal_pairs: [f64; 2], rows: usize) -> bool {
    has_duplicates(equal_pairs, rows, CROWDED)
}

/// Whether sums over ties are for distinct points.
pub(super) fn sums_distinct(equal_pairs: [f64; 2], rows: usize) -> bool {
    has_duplicates(equal_pairs, rows, CROWDED_TIES)
}

/// Whether a point has more than `expected` duplicates, were the columns independent.
fn has_duplicates([x, y]: [f64; 2], rows: usize, expected: f64) -> bool {
    x * y > expected * (rows as f64).powi(3) && left_out() != Some(Shortcut::Duplicates)
}

/// How far apart in the order of y points next to each other in x are to be for strips. Of N independent points it is N/3,
/// so strips serve independent columns from some 900 rows on.
const FAR_APART: usize = 300;
/// Half octaves by which gaps may differ within strips, and one point in how many may exceed that.
const MUCH: u16 = 5;
const FEW_UNEQUAL: usize = 4;
/// One point in how many decides.
const SAMPLED: usize = 16;

/// Whether points are searched for in strips of x: where candidates are many, because the neighbours of a point in one order
/// are anywhere in the other and there are many points, and where gaps are about the same, so that balls are about as long
/// as wide. Given are the position in y's order of each point, and the gaps in the order of either.
pub(super) fn takes_strips(rank_y: &[u32], gaps_x: &[u16], gaps_y: &[u16]) -> bool {
    let (mut apart, mut unequal) = (0, 0);
    let sampled = (0..rank_y.len() - 1).step_by(SAMPLED);
    let count = sampled.len();
    for at in sampled {
        let rank = rank_y[at] as usize;
        apart += rank.abs_diff(rank_y[at + 1] as usize);
        unequal += usize::from(gaps_x[at].abs_diff(gaps_y[rank]) > MUCH);
    }
    apart >= FAR_APART * count && unequal * FEW_UNEQUAL < count && left_out() != Some(Shortcut::Strips)
}

/// Candidates that nearly all groups of sixteen points of independent columns need: a search for more is given up, and left
/// to the order of the other coordinate.
pub(super) fn most_candidates(rows: usize, k: usize) -> usize {
    2 * ((k * rows) as f64).sqrt() as usize + 32
}

/// Fewer rows take no more than some milliseconds either way.
const LEAST_ROWS_OF_TREE: usize = 1024;
/// With fewer rows for each coordinate, finding the principal axes would take as long as rows of distances.
const ROWS_PER_COORDINATE: usize = 32;
/// For each dimension that the rows fill a tree needs this many times as many rows to cost less. Gaussian vectors cost the
/// same either way below 2,000 rows for 2 coordinates, between 2,000 and 5,000 for 4 and above 20,000 for 8
/// (`cargo bench --bench vectors`).
const ROWS_PER_DIMENSION: f64 = 3.0;
/// Points in a leaf of kiddo's tree.
const LEAF: usize = 32;
/// Nor is a tree taken where more than one row in this many is within reach of a row: of crowds and of what the leading
/// coordinates do not tell apart.
const MANY: usize = 16;

/// Whether vectors of some width may be searched in a tree: what it costs to find out pays.
pub(super) fn may_take_tree(rows: usize, width: usize) -> bool {
    width >= 2 && rows >= LEAST_ROWS_OF_TREE.max(ROWS_PER_COORDINATE * width)
}

/// Whether a tree is expected to cost less than rows of distances, from the dimension that the rows fill.
pub(super) fn takes_tree(rows: usize, dimension: f64) -> bool {
    rows as f64 >= LEAF as f64 * ROWS_PER_DIMENSION.powf(dimension)
}

/// A class of fewer than one row in this many is searched by itself instead of in the list of a row's neighbours.
pub(super) const SMALL_CLASS: usize = 8;
/// A tree, in which a longer list costs more, searches a class by itself that would need a list of more than this.
pub(super) const LONGEST_LIST: usize = 1024;

/// Whether a tree leaves few enough candidates, counted over several searches.
pub(super) fn tree_prunes(candidates: usize, searches: usize, rows: usize) -> bool {
    candidates * MANY <= rows * searches
}

/// Whether an expectation over orders of tied distances is a mean of consecutive ψ: one point is the boundary, anywhere
/// among the farther ones, or nothing is at the radius in this variable. The numbers are a, b, c and d of
/// [`Shape`](super::ties::Shape).
///
/// Gain: row `Mean` of README.md (`cargo bench --bench shapes`).
#[inline(always)]
pub(super) fn takes_mean([only_here, only_there, both, beyond]: [usize; 4], left_out: Option<Shortcut>) -> bool {
    (both == 0) & ((only_here + only_there == 1) | (only_here + beyond == 0)) & (left_out != Some(Shortcut::Mean))
}

/// Values of ψ from which on their mean is a difference of two closed sums. Of fewer values it would lose digits.
pub(super) const LONG_MEAN: usize = 64;

/// Whether P(p, e) of a shape met before is looked up: always.
#[inline(always)]
pub(super) fn takes_memory(left_out: Option<Shortcut>) -> bool {
    left_out != Some(Shortcut::Memory)
}

/// How any other expectation over orders of tied distances is summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Summation {
    /// `ties/closed_form.rs`: nothing is closer.
    ClosedForm,
    /// `ties/tabulated.rs`: binomials from tables.
    Few,
    /// `ties/direct.rs`: every term.
    Many,
}

/// Distances before the boundary and behind it, and farther points, below which binomials are in tables. Their products are
/// below 10²⁰⁰.
pub(super) const FEW_BEFORE: usize = 32;
pub(super) const FEW_BEHIND: usize = 64;
pub(super) const FEW_BEYOND: usize = 1 << 12;
/// Probabilities P(p, e) up to which they are remembered, and summed up with binomials from tables.
pub(super) const FEW_PROBABILITIES: usize = 1 << 7;

/// The size of a boundary, which determines the sum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Other points that are closer.
    pub closer: usize,
    /// a.
    pub only_here: usize,
    /// One more than the largest p.
    pub before: usize,
    /// q.
    pub behind: usize,
    /// d.
    pub beyond: usize,
    /// How many P(p, e) there are.
    pub probabilities: usize,
}

/// The sum that takes least time for a boundary of this size.
#[inline(always)]
pub(super) fn summation(size: Size, left_out: Option<Shortcut>) -> Summation {
    let Size { closer, only_here, before, behind, beyond, probabilities } = size;
    let few =
        (before <= FEW_BEFORE) & (probabilities <= FEW_PROBABILITIES) & (behind < FEW_BEHIND) & (beyond < FEW_BEYOND);
    // With a = 0 alone the other sums do not reach ψ(0), a pole.
    if closer == 0 && (only_here > 0 || left_out != Some(Shortcut::ClosedForm)) {
        Summation::ClosedForm
    } else if few && left_out != Some(Shortcut::Few) {
        Summation::Few
    } else {
        Summation::Many
    }
}
