//! Small multilayer perceptrons: trained one at a time ([`trainer`]) or, with one input and one output, by the ten thousand
//! ([`scalar`]); and the concept bottleneck models and the toy task that the demonstration trains.
//!
//! Single precision on ndarray's matrix products, seeded by ChaCha: the same seed gives the same bits on any number of
//! threads, since nothing here is parallel. Callers that train many networks run them in parallel.

pub mod dense;
pub mod loss;

pub mod mlp;

pub mod adam;

pub mod random_state;

pub mod trainer;

pub mod scalar;

pub mod rows;

pub mod tabular_toy;

pub mod bottleneck;
