//! Archives as `np.savez` and `np.savez_compressed` write them.

use std::fs::File;
use std::path::Path;

use leakage::field_error::{FieldError, in_short};
use leakage::name::MAX_NAME;

use super::array::Memory;
use super::names::Names;
use super::npy;
use super::sink::Sink;

/// Arrays of an archive; one has a few dozen.
const MAX_ENTRIES: usize = 1024;

pub fn read(path: &Path, names: &Names, memory: &mut Memory, sink: &mut Sink) -> Result<(), FieldError> {
    let file_fault = |message: String| FieldError::new(path.display().to_string(), message);
    let file = File::open(path).map_err(|e| file_fault(format!("cannot be opened: {e}")))?;
    let archive = zip::ZipArchive::new(file);
    let mut archive = archive.map_err(|e| file_fault(format!("is not an npz archive as np.savez writes it: {e}")))?;
    if archive.len() > MAX_ENTRIES {
        return Err(file_fault(format!("has {} entries, expected at most {MAX_ENTRIES}", archive.len())));
    }
    for at in 0..archive.len() {
        let mut entry =
            archive.by_index(at).map_err(|e| file_fault(format!("entry {at} of the archive cannot be read: {e}")))?;
        let entry_name = entry.name().map_err(|e| file_fault(format!("entry {at} has no readable name: {e}")))?;
        let entry_name = entry_name.into_owned();
        if entry_name.is_empty() {
            return Err(file_fault(format!("entry {at} has no name, expected entries that end in .npy")));
        }
        let name = entry_name.strip_suffix(".npy").filter(|name| name.len() <= MAX_NAME);
        // The name of an entry that is no array is none that scores know.
        let Some(target) = names.target(name.unwrap_or(&entry_name)) else {
            continue;
        };
        if name.is_none() {
            return Err(FieldError::new(in_short(&entry_name), "is not an array, expected an entry that ends in .npy"));
        }
        let size = entry.size();
        sink.put(path, &target, |name| npy::read(name, &mut entry, size, memory))?;
    }
    Ok(())
}
