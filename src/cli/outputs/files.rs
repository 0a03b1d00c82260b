//! Chooses the reader of each file.

use std::path::{Path, PathBuf};

use leakage::field_error::{FieldError, in_short};

use super::array::{Array, Memory};
use super::names::{Names, listed};
use super::sink::{Say, Sink};
use super::{npy, npz, table, tensors};

/// Files of a folder that are looked at.
const MOST_FILES: usize = 4096;

/// Reads all arrays of these files and folders that scores know, each under its name for scores. Returns them, and a
/// note on how they were read.
pub fn read(
    paths: &[PathBuf],
    names: &Names,
    memory: &mut Memory,
    say: &Say,
) -> Result<(Vec<Array>, Option<String>), FieldError> {
    let mut sink = Sink::new(say);
    for path in paths {
        if path.is_dir() {
            folder(path, names, memory, &mut sink)?;
        } else {
            file(path, names, memory, &mut sink)?;
        }
    }
    names.check_used()?;
    let (arrays, note) = sink.finish(memory)?;
    if arrays.is_empty() {
        let place = if let [path] = paths { path.display().to_string() } else { "files".to_owned() };
        let found = names.passed_over();
        let expected = "expected arrays such as concept_activations, concept_labels and task_labels";
        return Err(FieldError::new(
            place,
            match found.is_empty() {
                true => format!("holds no array, {expected}"),
                false => format!("holds no known array, got {}, {expected}: see --map", in_short(&listed(&found))),
            },
        ));
    }
    Ok((arrays, note))
}

fn file(path: &Path, names: &Names, memory: &mut Memory, sink: &mut Sink) -> Result<(), FieldError> {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase()).unwrap_or_default();
    let through_python = |what: &str| {
        let message = format!("is a {what} file, which the Python package reads: python -m conceptwatch score …");
        Err(FieldError::new(path.display().to_string(), message))
    };
    match extension.as_str() {
        "npy" => {
            let stem = path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
            match names.target(&stem) {
                Some(target) => sink.put(path, &target, |name| npy::read_file(path, &name, memory)),
                None => Ok(()),
            }
        }
        "csv" | "tsv" => table::read(path, names, memory, sink),
        "safetensors" => tensors::read(path, names, memory, sink),
        "parquet" | "pq" => through_python("Parquet"),
        "pt" | "pth" => through_python("PyTorch"),
        "npz" => npz::read(path, names, memory, sink),
        // Archives under other names are read by their first bytes.
        _ if is_archive(path) => npz::read(path, names, memory, sink),
        _ => {
            let message = "is no file of arrays, expected .npz, .npy, .csv, .tsv, .safetensors, .parquet or .pt";
            Err(FieldError::new(path.display().to_string(), message))
        }
    }
}

/// Whether a file begins as archives do, or cannot be read: its reader says why.
fn is_archive(path: &Path) -> bool {
    let mut first = [0; 2];
    let read = std::fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut first));
    match read {
        Ok(()) => first == *b"PK",
        Err(error) => error.kind() != std::io::ErrorKind::UnexpectedEof,
    }
}

/// The arrays of a folder: its `.npy` files.
fn folder(path: &Path, names: &Names, memory: &mut Memory, sink: &mut Sink) -> Result<(), FieldError> {
    let fault = |message: String| FieldError::new(path.display().to_string(), message);
    let entries = std::fs::read_dir(path).map_err(|e| fault(format!("cannot be opened: {e}")))?;
    let is_npy = |path: &PathBuf| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"));
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(is_npy).take(MOST_FILES + 1).collect();
    if files.is_empty() {
        return Err(fault("is a folder without .npy files".into()));
    }
    if files.len() > MOST_FILES {
        return Err(fault(format!("is a folder with more than {MOST_FILES} .npy files")));
    }
    files.sort();
    files.iter().try_for_each(|each| file(each, names, memory, sink))
}
