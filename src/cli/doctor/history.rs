//! The history of a stopped sidecar.

use std::path::Path;

use crate::history::{Contents, Examination, HistoryError, examine, make_private, on_network, repair};

use crate::cli::terminal::print;

/// Whether the history is healthy, after a repair if there was one.
pub fn examined(directory: &Path, repairs: bool) -> Result<bool, HistoryError> {
    let found = examine(directory)?;
    print(&report(&found, on_network(directory)));
    if found.faults.is_empty() || !repairs {
        return Ok(found.faults.is_empty());
    }
    make_private(directory)?;
    if found.damaged {
        let repair = repair(directory)?;
        print(&format!("repaired: kept {}\n", repair.kept));
        if repair.lost == Contents::default() {
            print("lost: nothing that is known of\n");
        } else {
            print(&format!("lost: {}\n", repair.lost));
        }
        print(&format!("the damaged file is {}\n", repair.damaged.display()));
    }
    let left = examine(directory)?.faults;
    left.iter().for_each(|fault| print(&format!("fault: {fault}\n")));
    Ok(left.is_empty())
}

pub fn report(found: &Examination, on_network: bool) -> String {
    let Examination { path, schema, bytes, free, intact, faults, .. } = found;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let network = if on_network { ", on a network file system" } else { "" };
    let mut text = format!("history: {}, {:.1} MiB, schema {schema}{network}\n", path.display(), mib(*bytes));
    text += &format!("free space: {:.0} MiB\n", mib(*free));
    text += &format!("intact: {intact}\n");
    match faults.is_empty() {
        true => text += "no faults\n",
        false => faults.iter().for_each(|fault| text += &format!("fault: {fault}\n")),
    }
    text
}
