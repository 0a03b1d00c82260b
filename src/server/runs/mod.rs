//! The runs that this process receives: their clients, and the samplers of their splits.
//!
//! All that is known of a run is one value, [`Running`], which the [`Registry`] owns. Frozen samples leave through the
//! [`Outlet`](lifecycle::Outlet) with their run, and never return.

mod intake;
mod lifecycle;
mod registry;
mod rolling;
mod run;
mod sampling;

pub use intake::{Ended, Sent};
pub use lifecycle::{Finished, Joining, Runs};
pub use registry::Registry;
pub use run::{Frozen, Origin, Running};
pub use sampling::SamplingOptions;
