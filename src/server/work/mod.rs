//! Workers: processes that claim evaluations from a store that others fill, compute them and commit the results.
//!
//! ```text
//! claim ─▶ material ─▶ union of parts ─▶ compute ─▶ finish
//!   └────────── lease, renewed meanwhile ──────────┘
//! ```
//!
//! A job is computed at least once and its result is stored exactly once: the lease is checked in the transaction that
//! stores it. Results have the bits of one process, so it does not matter which worker is first. A worker that dies loses
//! its lease; one that is told to stop gives its job back at once.

mod compute;
mod jobs;
mod lease;
mod postgres;
mod stop;
mod worker;

pub use super::scoring::compute::{Computing, Late, joined};
pub use jobs::{Claim, Finished, Jobs, Kind, Material, Return};
pub use lease::LEASE;
pub use postgres::Shared;
pub use stop::Stop;
pub use worker::{Counts, WorkOptions, Worker};
