//! Archives as `np.savez` and `np.savez_compressed` write them.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use leakage::field_error::{FieldError, in_short};
use leakage::name::MAX_NAME;

use super::array::Memory;
use super::names::Names;
use super::npy;
use super::sink::Sink;

/// Arrays of an archive; one has a few dozen.
const MAX_ENTRIES: u64 = 1024;

pub fn read(path: &Path, names: &Names, memory: &mut Memory, sink: &mut Sink) -> Result<(), FieldError> {
    let file_fault = |message: String| FieldError::new(path.display().to_string(), message);
    let mut file = File::open(path).map_err(|e| file_fault(format!("cannot be opened: {e}")))?;
    // The directory is read as a whole, with some hundred bytes for each entry.
    let no_archive =
        |e: &dyn std::fmt::Display| file_fault(format!("is not an npz archive as np.savez writes it: {e}"));
    if let Some(entries) = entries(&mut file).map_err(|e| no_archive(&e))?.filter(|entries| *entries > MAX_ENTRIES) {
        return Err(file_fault(format!("has {entries} entries, expected at most {MAX_ENTRIES}")));
    }
    let mut archive = zip::ZipArchive::new(file).map_err(|e| no_archive(&e))?;
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

/// The number of entries that the end of an archive states; `None` if there is no such end. The largest of what could be
/// taken for an end, since readers differ in which they take.
fn entries(file: &mut File) -> std::io::Result<Option<u64>> {
    const END: &[u8] = b"PK\x05\x06";
    const LARGE_END: &[u8] = b"PK\x06\x06";
    /// The longest end: 22 bytes and a comment, behind the 76 bytes of that of a large archive.
    const LONGEST: u64 = 76 + 22 + 65_535;
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(LONGEST)))?;
    let mut tail = Vec::new();
    Read::by_ref(file).take(LONGEST).read_to_end(&mut tail)?;
    file.rewind()?;
    let count = |at: usize| {
        let rest = &tail[at..];
        if rest.starts_with(END) {
            // All ones: the count is in the end of a large archive.
            let count = rest.get(10..12).map(|count| u64::from(u16::from_le_bytes([count[0], count[1]])));
            return count.filter(|count| *count != 0xffff);
        }
        let count = rest.starts_with(LARGE_END).then(|| rest.get(32..40)?.try_into().ok()).flatten();
        count.map(u64::from_le_bytes)
    };
    let large = |at: usize| tail[at..].starts_with(END) && tail.get(at + 10..at + 12) == Some(&[0xff, 0xff]);
    let has_large = (0..tail.len()).any(|at| tail[at..].starts_with(LARGE_END));
    if !has_large && (0..tail.len()).any(large) {
        return Ok(Some(0xffff));
    }
    Ok((0..tail.len()).filter_map(count).max())
}
