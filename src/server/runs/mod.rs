//! The runs that this process receives: their clients, and the samplers of their splits.
//!
//! Frozen samples leave through the [`Outlet`] and never return.

mod intake;
mod registry;
mod sampling;

pub use intake::{Ended, Sent, Stated};
pub use registry::{Finished, Joining, Outlet, Running, Runs};
pub use sampling::SamplingOptions;
