//! Mutual information and entropy from samples, in nats.
//!
//! [`information`] chooses the estimator: [`plug_in`] for two discrete variables, [`ross`] for a continuous and a discrete
//! one, [`ksg`] for two continuous ones. [`Kind::Published`] repeats what the authors of the leakage scores computed, noise
//! and clipping included; [`Kind::TieAware`] is the expectation of the same estimator over random orders of equal
//! distances. Without ties the two agree.
//!
//! A result depends on the rows and their identities alone: not on their order, on the order of the pair, on threads or
//! on earlier results. Sums are exact ([`sum`]), and noise is a function of what it disturbs ([`noise`]).
//!
//! `README.md` in this folder maps which code path serves which data; [`thresholds`] holds the thresholds.

mod checked;
mod conditional;
pub mod digamma;
pub(crate) mod elementwise;
pub(crate) mod ids;
mod information;
mod key;
mod ksg;
mod levels;
mod neighbours;
mod noise;
mod plug_in;
pub mod ross;
mod settings;
pub(crate) mod spread;
mod sum;
#[doc(hidden)]
pub mod thresholds;
mod ties;
mod undefined;
mod value;
pub(crate) mod variable;
mod width;

pub use conditional::{
    Conditional, Moments, Permutations, Strata, conditional_information, conditional_information_with_each,
    permuted_locally, values_together,
};
pub use information::{mutual_information, mutual_information_with_each, self_information};
pub use key::Key;
pub use settings::{Kind, Settings};
pub use undefined::Undefined;
pub use value::Estimate;
pub use variable::{Scalar, Variable};
