//! Measures leakage and alignment of concept-based models while they train.
//!
//! ```text
//! training job ──gRPC──▶ ingest ──▶ sample ──▶ schedule ──▶ prepare ──▶ score ──▶ history ──▶ alert ──▶ export
//!              batches   validate   bottom-k   what is due   sort, rank,  pure     curve       rules     /metrics
//!                        and own    per run    within the    neighbour    maths    points      state     page, API
//!                                   and split  CPU budget    lists once                        machines  gRPC watch
//! ```
//!
//! Data flows one way: each stage hands an owned or shared immutable value to the next. Each module below imports only from
//! those above it (`tests/repository/structure.rs` checks this).
//!
//! All that computes is in two crates that know nothing of this one: `leakage` has batches, samples, scores and what is
//! concluded from points, `information` the estimators below the scores. This crate receives, schedules, stores and shows;
//! only [`server`] wires the parts together.

// A panic is a bug: where failure is impossible, `expect` states why.
#![warn(clippy::unwrap_used)]
// Only commands write to the terminal. The library returns values, and the server logs.
#![warn(clippy::print_stdout, clippy::print_stderr)]

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

// The memory that the program holds, and the freed memory that the allocator keeps.
pub mod memory;

// The plan of what to score next, within a CPU share.
pub mod schedule;

// The search for runs.
pub mod search;

// Certificates in files.
mod certificates;

// Points in SQLite.
pub mod history;

// Comparisons and diagnoses, answered from the history.
pub mod analysis_query;

// Receives, scores and exports; the only place where parts are wired.
pub mod server;

// One file for each subcommand.
pub mod cli;
