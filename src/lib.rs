//! Measures leakage and alignment of concept-based models while they train.
//!
//! ```text
//! training job ──gRPC──▶ ingest ──▶ sample ──▶ schedule ──▶ prepare ──▶ score ──▶ history ──▶ alert ──▶ export
//!              batches   validate   bottom-k   what is due   sort, rank,  pure     curve       rules     /metrics
//!                        and own    per run    within the    neighbour    maths    points      state     page, API
//!                                   and split  CPU budget    lists once                        machines  gRPC watch
//! ```
//!
//! Data flows one way: each stage hands an owned or shared immutable value to the next. A module imports only modules
//! above it in the list below; only [`server`] wires them together. Everything but `server`, `cli` and `history` is
//! the *core*: plain Rust without async, protobuf, clocks or files, which builds without the `server` feature.
//!
//! To add a score, write one function in its family's file under [`score`] and one row in `score::catalogue`.

// A panic is a bug: where failure is impossible, `expect` states why.
#![warn(clippy::unwrap_used)]
// Only commands write to the terminal. The library returns values, and the server logs.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod fault;

pub mod memory;

pub mod tensor;

pub mod step;

pub mod run;

pub mod batch;

pub mod sample;

pub mod schedule;

pub mod estimate;

pub mod kept;

pub mod prepare;

pub mod point;

pub mod score;

pub mod alert;

pub mod compare;

pub mod diagnosis;

pub mod nn;

#[cfg(feature = "server")]
pub mod history;

#[cfg(feature = "server")]
pub mod question;

#[cfg(feature = "server")]
pub mod server;

#[cfg(feature = "server")]
pub mod cli;
