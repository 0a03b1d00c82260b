//! The scores against closed forms, invariances, scikit-learn and synthetic truth.

mod budget;
mod builder;
mod clarity;
mod clarity_tables;
mod closed_forms;
mod clusters;
mod conditional;
mod conditional_null;
mod coverage;
mod degenerate;
mod disentanglement;
mod documentation;
mod drawn;
mod feature_alignment;
mod golden;
mod head;
mod impurity;
mod internal_error;
mod intervention;
mod invariance;
mod joint;
mod kinds;
mod latents;
mod leaking_rows;
mod left_out;
mod missing;
mod mixed;
mod paired;
mod ranges;
mod repeats;
mod shapes;
mod task;
mod text;
mod trust;
mod undefined;

pub use builder::*;
