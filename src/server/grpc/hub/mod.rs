//! The protocol between sidecars and a hub, which both ends use.

pub mod client;
pub mod convert;
pub mod proto;
pub(super) mod service;

/// Maximum bytes of a push, and so of an entry: larger points are sent without matrices.
pub const PUSH_BYTES: usize = 16 << 20;
