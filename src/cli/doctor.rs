//! `conceptwatch doctor`: examines the history of a stopped sidecar, and repairs it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::history::{Contents, Examination, FILE_NAME, HistoryError, examine, make_private, on_network, repair};

use super::BAD_INPUT;
use super::failure::print;

/// Examine the history of a stopped sidecar, and repair it
///
/// Checks the file, the checksum of every point, the log, permissions, the owner and free space. Exit status 0: healthy, or
/// repaired; 1: faults were found; 2: the history cannot be examined, for example because a sidecar has it open.
#[derive(Args)]
pub struct DoctorOptions {
    /// Directory of the curves.
    #[arg(long, env = "CONCEPTWATCH_DATA_DIR", value_name = "DIR")]
    data_dir: PathBuf,
    /// Write what is readable to a new file, which takes the place of the damaged one; that one stays beside it.
    #[arg(long)]
    repair: bool,
}

pub fn run(options: &DoctorOptions) -> ExitCode {
    if !options.data_dir.join(FILE_NAME).is_file() {
        eprintln!("conceptwatch doctor: data_dir: {} has no {FILE_NAME}", options.data_dir.display());
        return ExitCode::from(BAD_INPUT);
    }
    match examined(options) {
        Ok(healthy) => ExitCode::from(u8::from(!healthy)),
        Err(error) => {
            eprintln!("conceptwatch doctor: data_dir: {error}");
            ExitCode::from(BAD_INPUT)
        }
    }
}

/// Whether the history is healthy, after a repair if there was one.
fn examined(options: &DoctorOptions) -> Result<bool, HistoryError> {
    let directory = &options.data_dir;
    let found = examine(directory)?;
    print(&report(&found, on_network(directory)));
    if found.faults.is_empty() || !options.repair {
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

fn report(found: &Examination, on_network: bool) -> String {
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
