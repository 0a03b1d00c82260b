//! The runs this process receives: who sends to them, and the samplers of their splits.
//!
//! What is frozen leaves by the [`Outlet`] and does not come back.

mod intake;
mod registry;
mod sampling;

pub use intake::Sent;
pub use registry::{Finished, Joining, Outlet, Running, Runs};
pub use sampling::SamplingOptions;
