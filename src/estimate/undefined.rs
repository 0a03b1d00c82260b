//! Why there is no estimate: every reason is a value, and its text names the numbers that decide.

/// Why there is no estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undefined {
    #[error("{rows} rows are too few: {neighbours} neighbours need at least {}", neighbours + 2)]
    TooFewRows { rows: usize, neighbours: usize },
    #[error("there are no rows")]
    NoRows,
    #[error("the two variables have {0} and {1} rows")]
    UnequalRows(usize, usize),
    #[error("the number of neighbours is 0; it is at least 1")]
    NoNeighbours,
    #[error("a continuous variable is constant")]
    Constant,
    #[error("a value is NaN or infinite")]
    NotFinite,
    #[error("the values are so large that their sum leaves the range of numbers")]
    TooLarge,
    #[error("the discrete variable has fewer than two classes of at least two rows")]
    OneClass,
    #[error("none of the {classes} classes has two rows")]
    NoClassOfTwo { classes: usize },
    #[error(
        "{left_out} of {rows} rows are alone in their class among the rows with the same label of the concept, \
         expected at most half"
    )]
    MostlyAlone { left_out: usize, rows: usize },
    #[error("the variable that is conditioned on is a vector; it is a column of classes or of numbers")]
    ContinuousCondition,
}
