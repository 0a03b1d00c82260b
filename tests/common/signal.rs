//! Signals to the processes of a test.

use std::process::Child;

/// Sends SIGTERM to a process that has not been waited for.
pub fn terminate(child: &Child) {
    // SAFETY: kill takes two numbers; the process is a child that has not been waited for, so its number is its own.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) }, 0);
}
