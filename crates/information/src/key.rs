//! The identity of a column.

/// The identity of a continuous column, so that its noise differs from every other column's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Any number that names the tensor.
    pub tensor: u64,
    /// The column's first coordinate in the tensor; a vector of width w uses w numbers from there on.
    pub coordinate: u64,
}
