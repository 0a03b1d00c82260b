//! The view of the history that readers have.

use crate::lock::lock;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};

use rusqlite::Connection;

use super::damage::Damage;

/// The history while no other call changes it.
pub(super) struct Reading<'a> {
    pub connection: &'a Connection,
    /// Where rows that do not match their checksum are noted.
    pub noted: &'a Mutex<Damage>,
    /// Names of unfinished runs that were declared since the history was opened.
    pub open: &'a Mutex<HashSet<String>>,
}

impl Reading<'_> {
    pub fn damage(&self) -> MutexGuard<'_, Damage> {
        lock(self.noted)
    }

    pub fn declared(&self) -> MutexGuard<'_, HashSet<String>> {
        lock(self.open)
    }
}
