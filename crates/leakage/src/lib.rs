#![doc = include_str!("../README.md")]
// A panic is a bug: where failure is impossible, `expect` states why.
#![warn(clippy::unwrap_used)]
// A library returns values: only the program writes to the terminal.
#![warn(clippy::print_stdout, clippy::print_stderr)]

// --- Shared by all.

// A field, what was got and what was expected.
pub mod field_error;

// The rules for names.
pub mod name;

// Locks that a panic leaves usable.
pub mod lock;

// Loops on all threads.
mod parallel;

// The table of tensor names; a tensor whose bytes fit its shape.
pub mod tensor;

// The false discovery rate of many tests.
mod false_discovery;

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
