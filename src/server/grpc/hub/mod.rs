//! The protocol between sidecars and a hub, which both ends use.

pub mod convert;
pub mod proto;
