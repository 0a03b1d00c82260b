//! A file for programs that read by path: in memory, and the same for all inputs of a process.

use std::path::PathBuf;
use std::sync::LazyLock;

use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| {
    let memory = std::path::Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a temporary folder")
});

/// The path of a file with this content.
pub fn with(bytes: &[u8]) -> PathBuf {
    let path = FOLDER.path().join("input");
    std::fs::write(&path, bytes).expect("room in memory");
    path
}
