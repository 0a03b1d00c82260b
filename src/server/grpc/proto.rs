//! The messages and service of `proto/conceptwatch/v1`. `make protocol` generates their code, which
//! `tests/repository/protocol.rs` compares with the protocol.
#![allow(missing_docs, clippy::all, clippy::pedantic)]

include!("generated.rs");
