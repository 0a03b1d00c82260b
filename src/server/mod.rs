//! The shell: what knows async, protobuf, sockets and clocks, and wires the rest together.

pub mod http;
pub mod live;
pub mod metrics;
