//! Conversions between the hub's messages and changes of a history, without loss: what a point holds arrives to the bit.
//! Faults name the protocol's fields.

mod change;
mod fields;
mod point;

pub use change::{change, entry};
