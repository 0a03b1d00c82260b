//! Logs to standard error: lines for people, or JSON objects.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::fault::Fault;

/// Starts logging at `level`, such as `info` or `conceptwatch=debug,warn`.
pub fn start(level: &str, json: bool) -> Result<(), Fault> {
    let filter = EnvFilter::try_new(level)
        .map_err(|error| Fault::new("log", format!("got '{level}', expected a level such as info: {error}")))?;
    let colours = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A log line that cannot be written, such as on a full disk, must not end the program. Reporting the failure would
    // write to standard error again, and panic.
    let lines = lines.with_target(false).with_ansi(colours).log_internal_errors(false);
    // Fails if a logger is already running, as in tests that start two servers; that one stays in place.
    let _ = if json { lines.json().try_init() } else { lines.try_init() };
    Ok(())
}
