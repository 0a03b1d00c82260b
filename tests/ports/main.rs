//! The program over its ports.

#[path = "../common/mod.rs"]
mod common;

mod alerting;
mod budget;
mod identity;
mod ingest;
mod lifecycle;
mod otlp;
mod peers;
mod settlement;
mod slow_scores;
mod ticks;
mod windows;
