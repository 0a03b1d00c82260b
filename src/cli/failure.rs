//! The end of a command: its output, or a message and an exit status.

use std::error::Error;
use std::process::ExitCode;

use crate::analysis_query::Refused;
use crate::history::HistoryError;
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

impl<E: Error + 'static> From<E> for Failure {
    /// Errors about what was given are the input's.
    fn from(error: E) -> Self {
        let any: &(dyn Error + 'static) = &error;
        let refused = any.downcast_ref().is_some_and(|refused| !matches!(refused, Refused::History(_)));
        let invalid = any.downcast_ref().is_some_and(|error| matches!(error, HistoryError::Invalid { .. }));
        if any.is::<FieldError>() || refused || invalid { Self::bad_input(error) } else { Self::running(error) }
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
