//! `conceptwatch doctor`: what runs and is kept on this machine, and the repair of a history.

mod history;
mod machine;
mod timing;

use std::path::PathBuf;

use clap::Args;

use leakage::field_error::FieldError;

use super::client_options::Contact;
use super::data_dirs::check_curves;
use super::failure::Failure;

/// Check this machine; examine the history of a stopped sidecar, and repair it
///
/// Without --data-dir, reports versions, listening sidecars and the speed of this machine, and examines all curves
/// below the user's data directory. With it, checks one history: the file, the checksum of every point, permissions,
/// the owner and free space. Exit status 0: healthy, or repaired; 1: faults were found; 2: the history cannot be
/// examined, as when a sidecar has it open.
#[derive(Args)]
pub struct DoctorOptions {
    /// Directory of the curves.
    #[arg(long, env = "CONCEPTWATCH_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Write what is readable to a new file, which takes the place of the damaged one; that one stays beside it.
    #[arg(long, requires = "data_dir")]
    repair: bool,
    #[command(flatten)]
    contact: Contact,
}

/// Whether all is healthy.
pub fn run(options: &DoctorOptions) -> Result<bool, Failure> {
    let Some(directory) = &options.data_dir else { return Ok(machine::check(&options.contact)) };
    check_curves("data_dir", directory)?;
    history::examined(directory, options.repair)
        .map_err(|error| Failure::bad_input(FieldError::new("data_dir", error.to_string())))
}
