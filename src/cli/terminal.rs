//! The output of commands. The macros of the standard library panic where the terminal has gone or a reader has closed
//! the pipe; here that is no failure: a reader that stops has what it needs.

use std::io::{Error, ErrorKind, Write};

/// Writes to standard output, for callers that go on in any case.
pub fn print(text: &str) {
    let _ = written(text);
}

/// Writes to standard output. An error is a reader that has gone ([`has_gone`]) or an output that takes nothing.
pub fn written(text: &str) -> Result<(), Error> {
    let mut output = std::io::stdout();
    output.write_all(text.as_bytes()).and_then(|()| output.flush())
}

/// Writes a line to standard error.
pub fn tell(line: &str) {
    tell_part(&format!("{line}\n"));
}

/// Writes to standard error.
pub fn tell_part(text: &str) {
    // As a whole, so that lines of several threads do not mix.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Whether nobody reads: the pipe is closed, or the terminal hung up.
pub fn has_gone(error: &Error) -> bool {
    error.kind() == ErrorKind::BrokenPipe || error.raw_os_error() == Some(libc::EIO)
}
