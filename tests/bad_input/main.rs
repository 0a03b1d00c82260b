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
mod names;
mod questions;
mod streams;

/// Number of cases in all tables.
#[test]
fn the_tables_hold_at_least_five_hundred_cases() {
    let counts = [
        batches::cases().len(),
        messages::cases().len(),
        declarations::cases().len(),
        questions::cases().len(),
        archives::cases().len(),
        configuration::cases().len(),
    ];
    println!("{} bad inputs", counts.iter().sum::<usize>());
    assert!(counts.iter().sum::<usize>() >= 500, "{counts:?}");
}

/// Fails with all faults of the cases, so that one run shows every fault.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn check(&mut self, case: &str, holds: bool, what: impl std::fmt::Display) {
        if !holds {
            self.0.push(format!("{case}: {what}"));
        }
    }

    /// A message names its field first, states what was expected, and is safe to print.
    fn check_message(&mut self, case: &str, message: &str, says: &str) {
        self.check(case, message.contains(says), format!("says '{message}', expected '{says}' in it"));
        self.check(case, message.len() < 2000, format!("has a message of {} bytes", message.len()));
        self.check(case, !message.chars().any(char::is_control), format!("has control characters: {message:?}"));
    }

    fn report(self) {
        assert!(self.0.is_empty(), "{} faults:\n{}", self.0.len(), self.0.join("\n"));
    }
}
