//! The end of a command: its output, or a message and an exit status.

use std::process::ExitCode;

use crate::analysis_query::Refused;
use leakage::field_error::{FieldError, printable};

use super::terminal::{has_gone, tell, written};

/// Exit status for bad input or usage, as in most command-line tools.
pub const BAD_INPUT: u8 = 2;

/// Why a command failed, and its exit status: [`BAD_INPUT`], or 1 for any other failure.
pub struct Failure {
    pub status: u8,
    pub message: String,
    /// Nothing can be reached at the address.
    pub is_silence: bool,
}

impl Failure {
    pub fn bad_input(message: impl std::fmt::Display) -> Self {
        Self { status: BAD_INPUT, ..Self::running(message) }
    }

    /// Whether another place may still have the answer.
    pub fn is_of_place(&self) -> bool {
        self.status != BAD_INPUT
    }

    /// Adds a further failure, on a line of its own, whose status counts if it is not the input's.
    pub fn add(&mut self, command: &str, other: &Self) {
        self.message += &format!("\nconceptwatch {command}: {}", other.message);
        if other.status != BAD_INPUT {
            self.status = other.status;
        }
    }

    /// A failure that the input did not cause.
    pub fn running(message: impl std::fmt::Display) -> Self {
        Self { status: 1, message: message.to_string(), is_silence: false }
    }
}

impl From<FieldError> for Failure {
    fn from(fault: FieldError) -> Self {
        Self::bad_input(fault)
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        if matches!(refused, Refused::History(_)) { Self::running(refused) } else { Self::bad_input(refused) }
    }
}

/// Prints the output of a command, or its failure.
pub fn conclude(command: &str, result: Result<String, Failure>) -> ExitCode {
    match result.map(|text| written(&text)) {
        Ok(Err(error)) if !has_gone(&error) => {
            tell(&format!("conceptwatch {command}: the output cannot be written: {error}"));
            ExitCode::FAILURE
        }
        Ok(_) => ExitCode::SUCCESS,
        Err(failure) => {
            tell(&format!("conceptwatch {command}: {}", failure.message));
            ExitCode::from(failure.status)
        }
    }
}

/// As [`conclude`], of a command that reads files: what is wrong begins with the name of an array.
pub fn conclude_files(command: &str, result: Result<String, String>) -> ExitCode {
    match result {
        Ok(text) => conclude(command, Ok(text)),
        Err(message) => {
            // Names in a file are untrusted: they must not break the line or send escape sequences to the terminal.
            tell(&printable(&message));
            ExitCode::from(BAD_INPUT)
        }
    }
}

/// As [`conclude`], of a command that has printed its output, and says whether all is as it should be.
pub fn conclude_check(command: &str, result: Result<bool, Failure>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => conclude(command, Err(failure)),
    }
}
