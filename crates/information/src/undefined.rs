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
    #[error("got 0 neighbours, expected at least 1")]
    NoNeighbours,
    #[error("a continuous variable is constant")]
    Constant,
    #[error("a value is NaN or infinite")]
    NotFinite,
    #[error("the values are so large that their sum overflows")]
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
    #[error("the conditioning variable is a vector, expected one column of classes or numbers")]
    ContinuousCondition,
}
