//! Invalid input over the real port and the command line: a clear error that names the field, nothing applied, and the
//! process alive. One table for each entry point.

mod archives;
mod batches;
#[path = "../common/mod.rs"]
mod common;
mod configuration;
mod declarations;
mod files;
mod messages;
mod questions;
mod streams;

use std::collections::BTreeSet;

/// A name that is refused wherever one is given, as a line that it could forge shows, and what the refusal says. The library
/// names what else is no name.
const NO_NAME: &str = "a\n\u{1b}[31mb";
const NOT_SHOWN: &str = "expected text without control characters";

/// Fails with all faults of the cases, so that one run shows every fault.
#[derive(Default)]
struct Faults {
    cases: BTreeSet<String>,
    found: Vec<String>,
}

impl Faults {
    fn check(&mut self, case: &str, holds: bool, what: impl std::fmt::Display) {
        self.cases.insert(case.to_owned());
        if !holds {
            self.found.push(format!("{case}: {what}"));
        }
    }

    /// A message names its field first, states what was expected, and is safe to print.
    fn check_message(&mut self, case: &str, message: &str, says: &str) {
        self.check(case, message.contains(says), format!("says '{message}', expected '{says}' in it"));
        self.check(case, message.len() < 2000, format!("has a message of {} bytes", message.len()));
        self.check(case, !message.chars().any(char::is_control), format!("has control characters: {message:?}"));
    }

    /// Fails where there are any, and prints how many cases there were, which `make torture` adds up.
    fn report(self) {
        println!("{} bad inputs", self.cases.len());
        assert!(self.found.is_empty(), "{} faults:\n{}", self.found.len(), self.found.join("\n"));
    }
}
