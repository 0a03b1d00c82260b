//! The history's size and what its limit has removed.

use std::sync::Arc;

use prometheus::{Error, Registry};
use strum::VariantArray;

use super::families::{self, Described, Families};
use super::names;
use crate::history::{Store, Unwritable};

const FAMILIES: [Described; 9] = [
    (names::HISTORY_USED, "Size of the history in bytes.", &[]),
    (names::HISTORY_LIMIT, "Size limit of the history in bytes.", &[]),
    (names::HISTORY_WRITABLE, "1 if the history can be written, else 0.", &[]),
    (
        names::HISTORY_UNWRITABLE,
        "1 for the reason why the history cannot be written: read_only, full, unreachable, denied or other; else 0.",
        &["reason"],
    ),
    (
        names::HISTORY_WAITING,
        "Bytes of points and declarations that wait in memory because the history cannot be written.",
        &[],
    ),
    (
        names::HISTORY_UNWRITTEN,
        "Age of the oldest change of the history that is not on the disk, in seconds; 0 if there is none.",
        &[],
    ),
    (names::HISTORY_REFUSED, "Changes of the history that were lost because too much waited already.", &[]),
    (
        names::HISTORY_CORRUPT,
        "Stored points, matrices and declarations left out because they do not match their checksum.",
        &[],
    ),
    (names::HISTORY_DROPPED, "Entries removed by the history's size limit, oldest first, by kind.", &["kind"]),
];

pub fn register(registry: &Registry, history: Arc<dyn Store>) -> Result<(), Error> {
    families::register(registry, FAMILIES, move |families| add(families, &*history))
}

/// Adds no sizes if the history cannot be read; the failing call is counted where it is made.
fn add(families: &mut Families, history: &dyn Store) {
    let waiting = history.waiting();
    families.set(names::HISTORY_WRITABLE, waiting.why.is_none());
    for reason in Unwritable::VARIANTS {
        let is_so = waiting.why.is_some() && waiting.kind == *reason;
        families.add(names::HISTORY_UNWRITABLE, &["reason"], &[reason.as_ref()], is_so.into());
    }
    families.set(names::HISTORY_WAITING, waiting.bytes as f64);
    families.set(names::HISTORY_UNWRITTEN, waiting.unwritten.as_secs_f64());
    families.set(names::HISTORY_REFUSED, waiting.refused as f64);
    let Ok(usage) = history.usage() else { return };
    families.set(names::HISTORY_CORRUPT, usage.damaged as f64);
    families.set(names::HISTORY_USED, usage.bytes as f64);
    families.set(names::HISTORY_LIMIT, usage.limit as f64);
    let removed = usage.dropped;
    for (kind, count) in
        [("matrix", removed.matrices), ("point", removed.points), ("run", removed.runs), ("unscored", removed.unscored)]
    {
        families.add(names::HISTORY_DROPPED, &["kind"], &[kind], count as f64);
    }
}
