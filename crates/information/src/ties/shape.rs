//! The numbers of points at exactly the radius of a point, which leave its counts open.

/// The boundary of a point's ball, seen from one of the two variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// Other points closer than r in this variable.
    pub closer: usize,
    pub shape: Shape,
}

/// The points at distance r, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// k' ≥ 1: how many of the k nearest are at r.
    pub missing: usize,
    /// a: at r in this variable and closer in the other.
    pub only_here: usize,
    /// b: at r in the other variable and closer in this one.
    pub only_there: usize,
    /// c: at r in both. a + b + c ≥ k'.
    pub both: usize,
    /// d: at r in this variable and farther in the other.
    pub beyond: usize,
}
