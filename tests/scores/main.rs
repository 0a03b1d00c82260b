//! The scores against closed forms, invariances, scikit-learn and synthetic truth.

mod builder;
mod closed_forms;
mod coverage;
mod documentation;
mod golden;
mod invariance;
mod kinds;
mod paired;
mod shapes;
mod undefined;

pub use builder::*;
