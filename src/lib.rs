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
//! those above it (`tests/core/structure.rs` checks this). They are in the order of the drawing, except that the rules of
//! alerts, which judge points and store nothing, stand before the history.
//!
//! The *core* is everything before `search`: plain Rust without async, protobuf, clocks or files, which builds with
//! `--no-default-features`. The *shell* is the rest; only [`server`] wires the parts together.
//!
//! To add a score, write one function in its family's file under [`score`] and one row in `score::catalogue`.

// A panic is a bug: where failure is impossible, `expect` states why.
#![warn(clippy::unwrap_used)]
// Only commands write to the terminal. The library returns values, and the server logs.
#![warn(clippy::print_stdout, clippy::print_stderr)]

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

// --- Shared by all.

// A field, what was got and what was expected.
pub mod fault;

// The rules for names.
pub mod name;

// The memory that the program holds, and the freed memory that the allocator keeps.
pub mod memory;

// Locks that a panic leaves usable.
pub mod lock;

// The table of tensor names; a tensor whose bytes fit its shape.
pub mod tensor;

// Steps, epochs and ranks, which must not be mistaken for each other.
pub mod step;

// --- Input.

// A checked declaration.
pub mod run;

// Named tensors of the same rows that fit the declaration.
pub mod batch;

// The rows that are kept: bottom-k, passes, rolling windows, attempts.
pub mod sample;

// --- Computation.

// The plan of what to score next, within a CPU share.
pub mod schedule;

// Mutual information and entropy, and the neighbour searches below them.
pub mod estimate;

// Rows that are copies of others, of which one is scored.
pub mod repeats;

// The pairs that a rolling window keeps between ticks.
pub mod pair_cache;

// The values that the scores of one sample share, built lazily and once.
pub mod prepare;

// The scores of one sample: a point of a curve.
pub mod point;

// The small networks that OIS, NIS and the demo train.
pub mod nn;

// The boosted trees of DCI and R4.
pub mod trees;

// The catalogue of scores, and one file for each family.
pub mod score;

// --- Conclusions from points.

// The limits of alerts and diagnosis, and what fixed them.
pub mod limits;

// Leakage counted above that of a run trained without the task.
pub mod baseline;

// Rules, their states, and the test for rises.
pub mod alert;

// Two runs, two splits, groups of runs.
pub mod compare;

// The diagnosis of a run.
pub mod diagnosis;

// --- The shell.

// The search for runs.
#[cfg(feature = "server")]
pub mod search;

// Points in SQLite.
#[cfg(feature = "server")]
pub mod history;

// Comparisons and diagnoses, answered from the history.
#[cfg(feature = "server")]
pub mod analysis_query;

// Receives, scores and exports; the only place where parts are wired.
#[cfg(feature = "server")]
pub mod server;

// One file for each subcommand.
#[cfg(feature = "server")]
pub mod cli;
