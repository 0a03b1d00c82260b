//! The state of this machine: its sidecars, its stored curves, and its room for scoring.

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use hyper::StatusCode;
use rustix::fs::{Access, access};
use serde_json::Value;

use crate::VERSION;
use crate::cli::client_options::{Contact, own_sockets};
use crate::cli::data_dirs::{DataDir, data_dirs};
use crate::cli::http_request::{Answering, who_answers};
use crate::cli::options::{DEFAULT_ADDRESSES, usual_page};
use crate::cli::scoring::system_memory;
use crate::cli::terminal::print;
use crate::history::{HistoryError, SCHEMA, examine, on_network, user_home};
use crate::server::peers::Remote;
use leakage::field_error::in_short;

use super::timing;

/// A sidecar on this machine answers at once.
const PATIENCE: Duration = Duration::from_secs(5);
const HOUR: f64 = 3600.0;

/// Prints what is found. Returns whether none of it is a fault.
pub fn check(contact: &Contact) -> bool {
    let program = std::env::current_exe().map_or_else(|_| "this program".to_owned(), |path| path.display().to_string());
    print(&format!("program: conceptwatch {}, schema {}, {program}\n", VERSION, SCHEMA));
    print(&machine());
    let data_dirs = data_dirs();
    sidecars(contact, &data_dirs);
    let healthy = curves(&data_dirs);
    print("\nscores of one pass, on one idle core (a pass of 2,048 rows):\n");
    for line in timing::lines() {
        print(&format!("  {line}\n"));
    }
    print(if healthy { "\nno faults\n" } else { "\nfaults were found: see above\n" });
    healthy
}

fn machine() -> String {
    let system = system_memory();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    format!(
        "machine: {cores} cores, {:.1} of {:.1} GiB of memory available\n",
        gib(system.available_memory()),
        gib(system.total_memory())
    )
}

/// Prints the sidecars that jobs and commands of this user would find.
fn sidecars(contact: &Contact, data_dirs: &[DataDir]) {
    print("\nsidecars:\n");
    let (grpc, http) = (Remote::from(DEFAULT_ADDRESSES[0]), usual_page());
    let mut seen = Vec::new();
    for socket in own_sockets() {
        print(&format!("  {}: listens for jobs of this user\n", Remote::Unix(socket)));
    }
    for place in data_dirs {
        if let Some([ingest, page]) = &place.stated {
            print(&format!("  {ingest}, page {page}: {}\n", said(contact, page)));
            seen.push(page.clone());
        }
    }
    if !seen.contains(&http) {
        print(&format!("  {http} (the usual page): {}\n", said(contact, &http)));
    }
    let taken = TcpListener::bind(DEFAULT_ADDRESSES[0]).is_err();
    print(&format!("  {grpc} (the usual port of jobs): {}\n", if taken { "taken" } else { "free" }));
    if let Some(address) = std::env::var_os("CONCEPTWATCH_ADDRESS") {
        print(&format!("  jobs go to {} (CONCEPTWATCH_ADDRESS)\n", in_short(&address.to_string_lossy())));
    }
}

/// Describes what answers at an HTTP port.
fn said(contact: &Contact, address: &Remote) -> String {
    match who_answers(contact, address, PATIENCE) {
        Ok(Answering::Sidecar(status)) => described(&status),
        Ok(Answering::Refusing(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)) => {
            "a sidecar that wants a token (--token-file)".to_owned()
        }
        Ok(Answering::Refusing(status)) => format!("a sidecar, which answers {status}"),
        Ok(Answering::Stranger(StatusCode::OK)) => "another program listens".to_owned(),
        Ok(Answering::Stranger(status)) => format!("another program listens, and answers {status}"),
        Ok(Answering::Nobody) => "nothing listens".to_owned(),
        Err(failure) => failure.message,
    }
}

fn described(status: &Value) -> String {
    let number = |name: &str| status[name].as_f64().unwrap_or_default();
    let version = in_short(status["version"].as_str().unwrap_or_default());
    let other = if version == VERSION { "" } else { ", another version than this program" };
    let mut text = format!(
        "conceptwatch {version}{other}, up {:.1} h, samples of {:.0} MiB, scoring delay {:.1} s",
        number("uptime_seconds") / HOUR,
        number("memory_bytes") / f64::from(1 << 20),
        number("lag_seconds")
    );
    for (name, what) in [("rows_dropped", "rows dropped"), ("points_skipped", "evaluations skipped")] {
        if number(name) > 0.0 {
            text += &format!(", {} {what}", number(name));
        }
    }
    text + &of_hub(&status["upstream"])
}

/// Describes how a sidecar stands with its hub; empty without one.
fn of_hub(upstream: &Value) -> String {
    let Some(hub) = upstream["hub"].as_str().map(in_short) else { return String::new() };
    let number = |name: &str| upstream[name].as_u64().unwrap_or_default();
    let mut text = match (upstream["reached"].as_bool(), upstream["why"].as_str()) {
        (Some(false), Some(why)) => format!(", hub {hub} does not answer ({})", in_short(why)),
        _ => format!(", hub {hub} answers"),
    };
    text += &format!(", {} changes wait for it", number("waiting"));
    for (name, what) in [("refused", "refused by it"), ("dropped", "lost before it had them")] {
        if number(name) > 0 {
            text += &format!(", {} {what}", number(name));
        }
    }
    text
}

/// Prints the curves of this user. Returns whether they have no fault.
fn curves(data_dirs: &[DataDir]) -> bool {
    print("\ncurves:\n");
    let mut healthy = true;
    match user_home() {
        None => print("  not kept: the user has no home directory\n"),
        Some(home) => {
            if let Some(fault) = unwritable(&home) {
                healthy = false;
                print(&format!("  fault: {fault}\n"));
            }
            if data_dirs.is_empty() {
                print(&format!("  none below {}\n", home.display()));
            }
        }
    }
    for place in data_dirs {
        let directory = &place.directory;
        match examine(directory) {
            Ok(found) => {
                healthy &= found.faults.is_empty();
                let text = super::history::report(&found, on_network(directory));
                text.lines().for_each(|line| print(&format!("  {line}\n")));
            }
            Err(HistoryError::InUse { .. }) => {
                print(&format!("  {}: in use by its sidecar, which checks what it reads\n", directory.display()));
            }
            Err(error) => {
                healthy = false;
                print(&format!("  fault: {error}\n"));
            }
        }
    }
    healthy
}

/// Returns why nothing can be written to a directory, or to the first above it that exists.
fn unwritable(directory: &Path) -> Option<String> {
    let existing = directory.ancestors().find(|path| path.exists())?;
    let denied = access(existing, Access::WRITE_OK | Access::EXEC_OK).err()?;
    Some(format!("{} cannot be written: {denied}", existing.display()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sidecar_says_how_it_stands_with_its_hub() {
        assert_eq!(of_hub(&Value::Null), "");
        let mut upstream =
            json!({"hub": "hub:7800", "reached": true, "why": "", "waiting": 0, "refused": 0, "dropped": 0});
        assert_eq!(of_hub(&upstream), ", hub hub:7800 answers, 0 changes wait for it");
        upstream["reached"] = false.into();
        upstream["why"] = "got a wrong token".into();
        (upstream["waiting"], upstream["refused"], upstream["dropped"]) = (7.into(), 1.into(), 2.into());
        let expected = ", hub hub:7800 does not answer (got a wrong token), 7 changes wait for it, 1 refused by it, \
                        2 lost before it had them";
        assert_eq!(of_hub(&upstream), expected);
    }
}
