//! Logs to standard error: lines for people, or JSON objects.

use std::io::IsTerminal;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::fault::Fault;

/// Starts logging at `level`, such as `info` or `conceptwatch=debug,warn`.
pub fn start(level: &str, json: bool) -> Result<(), Fault> {
    let filter: Targets = level
        .parse()
        .map_err(|error| Fault::new("log", format!("got '{level}', expected a level such as info: {error}")))?;
    let colours = std::io::stderr().is_terminal();
    // A log that cannot be written, such as on a full disk, must not end what is logged about: the complaint about it
    // goes to standard error as well, and would panic there.
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = lines.with_target(false).with_ansi(colours).log_internal_errors(false);
    let filtered = tracing_subscriber::registry().with(filter);
    // Fails when a logger was started before, as in tests that run two servers: then that one stays.
    let _ = if json { filtered.with(lines.json()).try_init() } else { filtered.with(lines).try_init() };
    Ok(())
}
