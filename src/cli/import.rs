//! `conceptwatch import`: copies the curves of a stopped sidecar into the database that many share.

use std::path::PathBuf;

use clap::Args;

use crate::history::{DEFAULT_PROJECT, HistoryError, Postgres, Sqlite, Store, StoredRun, copy_run};
use leakage::name::check_name;

use super::data_dirs::check_curves;
use super::failure::Failure;

/// Copy the curves of a stopped sidecar into a database
///
/// Copies all runs with their points, matrices, titles and notes. A run whose name another run has taken there gets the
/// next free one. What is there already stays, so an import that was interrupted can be repeated.
#[derive(Args)]
pub struct Options {
    /// Directory of the curves.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The database: postgres://USER@HOST:PORT/DATABASE, with the password in PGPASSFILE, ~/.pgpass or PGPASSWORD.
    #[arg(long, value_name = "URL")]
    store: String,
    /// Project of the imported runs, one of the hub's --projects.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT)]
    project: String,
}

pub fn run(options: &Options) -> Result<String, Failure> {
    check_curves("directory", &options.directory)?;
    let from = Sqlite::open_to_read(&options.directory)?;
    check_name("project", &options.project)?;
    copy(&from, &Postgres::open(&options.store)?.in_project(&options.project), |_| true)
}

/// Copies runs, the oldest first, and says what became of each.
pub fn copy(from: &dyn Store, to: &dyn Store, wanted: impl Fn(&StoredRun) -> bool) -> Result<String, Failure> {
    let (mut said, mut failed) = (String::new(), Vec::new());
    for stored in from.runs()?.iter().rev() {
        if !wanted(stored) {
            continue;
        }
        let name = stored.run.name.as_str();
        match copy_run(from, stored, to) {
            Ok(copied) => {
                let renamed = if copied.run == name { String::new() } else { format!(" as '{}'", copied.run) };
                let unscored = match copied.unscored {
                    0 => String::new(),
                    passes => format!(", {passes} passes without a point"),
                };
                said += &format!("'{name}'{renamed}: {} points{unscored}\n", copied.points);
            }
            // Another run may be copied where this one is not.
            Err(error @ (HistoryError::DeclarationDiffers { .. } | HistoryError::OtherProject { .. })) => {
                failed.push(error.to_string());
            }
            Err(error) => return Err(error.into()),
        }
    }
    match failed.is_empty() {
        true => Ok(said),
        false => Err(Failure::running(format!("{} runs were not copied: {}", failed.len(), failed.join("; ")))),
    }
}
