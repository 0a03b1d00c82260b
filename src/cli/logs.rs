//! Logs to standard error: lines for people, or JSON objects.

use std::io::IsTerminal;
use std::sync::OnceLock;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::log_limit::LogLimit;
use leakage::field_error::FieldError;

/// The limit of the logger that runs.
static LIMIT: OnceLock<LogLimit> = OnceLock::new();

/// Writes what is to be said before the process ends.
pub fn settle() {
    if let Some(limit) = LIMIT.get() {
        limit.summarise();
    }
}

/// Starts logging at `level`, such as `info` or `conceptwatch=debug,warn`.
pub fn start(level: &str, json: bool) -> Result<(), FieldError> {
    let filter: Targets = level
        .parse()
        .map_err(|error| FieldError::new("log", format!("got '{level}', expected a level such as info: {error}")))?;
    let colours = std::io::stderr().is_terminal();
    // A log line that cannot be written, such as on a full disk, must not end the program. Reporting the failure would
    // write to standard error again, and panic.
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = lines.with_target(false).with_ansi(colours).log_internal_errors(false);
    let limit = LogLimit::default();
    let filtered = tracing_subscriber::registry().with(filter).with(limit.clone());
    // Fails if a logger is already running, as in tests that start two servers; that one stays in place.
    let started = if json { filtered.with(lines.json()).try_init() } else { filtered.with(lines).try_init() };
    if started.is_ok() {
        limit.start_summaries();
        let _ = LIMIT.set(limit);
    }
    Ok(())
}
