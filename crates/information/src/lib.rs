#![doc = include_str!("../README.md")]
// A panic is a bug: where failure is impossible, `expect` states why.
#![warn(clippy::unwrap_used)]
// A library returns values.
#![warn(clippy::print_stdout, clippy::print_stderr)]

// One source for every width of vector instructions.
mod width;

// Where one path of an estimate ends and another begins.
#[doc(hidden)]
pub mod thresholds;

// The identity of a column, and noise that follows from it.
mod key;
mod noise;

// The choice between the two estimators, and its parameters.
mod settings;

// The reasons that there is no estimate.
mod undefined;

// Arithmetic on columns, and exact sums.
pub mod elementwise;
mod sum;

// ψ of whole numbers.
pub mod digamma;

// The value of an estimate with its influences.
mod value;

// The spread of a column.
mod spread;

// Sorted columns, and the searches for neighbours in them.
mod neighbours;

// The few distinct values of a column.
mod levels;

// Discrete variables, scalars and vectors.
mod variable;

// Variables that an estimator takes.
mod checked;

// Expectations over orders of equal distances.
mod ties;

// Two discrete variables.
mod plug_in;

// A continuous and a discrete variable.
mod ross;

// Two continuous variables.
mod ksg;

// The estimator for each pair of variables.
mod information;

// Estimates within the strata of a third variable.
mod conditional;

pub use conditional::{
    Conditional, Moments, Permutations, Strata, conditional_information, conditional_information_with_each,
    permuted_locally, values_together,
};
pub use information::{mutual_information, mutual_information_with_each, self_information};
pub use key::Key;
#[doc(hidden)]
pub use ross::{Search, information_by};
pub use settings::{Kind, Settings, UnknownKind};
pub use spread::spread;
pub use undefined::Undefined;
pub use value::Estimate;
pub use variable::{Discrete, Scalar, Variable, Vector};
