//! The location of a history: its directory, the kind of file system, and whether the open file is still the one there.

use std::fs::{DirBuilder, File, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::history::error::HistoryError;

/// The file in the data directory.
pub const FILE_NAME: &str = "history.sqlite3";

/// The mode of directories that are created: nobody else on the machine may read what a job logs.
const PRIVATE: u32 = 0o700;

/// The most links of which one leads to the next.
const MOST_LINKS: usize = 40;

/// Device and inode of a file. An inode is not used again while the file is open.
type Identity = (u64, u64);

/// The place of an open history.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub directory: PathBuf,
    /// On a file system of the network. SQLite's write-ahead log is meant for local ones.
    pub remote: bool,
    file: Identity,
    log: Option<Identity>,
}

impl Place {
    /// Creates the directory if it is absent, also where a link leads to it. What is created is durable and private.
    pub fn prepare(directory: &Path) -> Result<(), HistoryError> {
        let fault = |source| HistoryError::Directory { path: directory.to_owned(), source };
        if directory.is_dir() {
            return Ok(());
        }
        let mut directory = directory.to_owned();
        for _ in 0..MOST_LINKS {
            let Ok(target) = std::fs::read_link(&directory) else { break };
            directory = directory.parent().unwrap_or(Path::new("")).join(target);
        }
        let directory = directory.as_path();
        DirBuilder::new().recursive(true).mode(PRIVATE).create(directory).map_err(fault)?;
        for created in directory.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty()).take(2) {
            sync(created).map_err(fault)?;
        }
        Ok(())
    }

    /// The place of the history that has just been opened or created in `directory`. Its directory entries are durable
    /// when this returns.
    pub fn of_open(directory: &Path, remote: bool) -> Result<Self, HistoryError> {
        let fault = |source| HistoryError::Directory { path: directory.to_owned(), source };
        sync(directory).map_err(fault)?;
        let file = identity(&std::fs::metadata(directory.join(FILE_NAME)).map_err(fault)?);
        Ok(Self { directory: directory.to_owned(), remote, file, log: log(directory) })
    }

    pub fn file(&self) -> PathBuf {
        self.directory.join(FILE_NAME)
    }

    /// Errors unless the open file and its log are the ones that the directory has. What is written to a file that was
    /// removed or replaced is lost with the process.
    pub fn check(&self) -> Result<(), HistoryError> {
        let gone = |what: &str| HistoryError::Detached { path: self.file(), what: what.to_owned() };
        match std::fs::metadata(self.file()) {
            Ok(found) if identity(&found) != self.file => return Err(gone("replaced by another file")),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(gone("removed")),
            Err(error) => return Err(gone(&format!("not accessible ({error})"))),
        }
        match (self.log, log(&self.directory)) {
            (Some(log), Some(found)) if log != found => Err(gone("separated from its log, which was replaced")),
            (Some(_), None) => Err(gone("separated from its log, which was removed")),
            _ => Ok(()),
        }
    }
}

fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

fn log(directory: &Path) -> Option<Identity> {
    std::fs::metadata(directory.join(format!("{FILE_NAME}-wal"))).ok().as_ref().map(identity)
}

/// Says that a file has no bytes although its log has, which SQLite would delete. Without a log such a file is one that was
/// never written.
pub(super) fn emptied(directory: &Path) -> Option<String> {
    let length = |name: &str| std::fs::metadata(directory.join(name)).map(|file| file.len()).ok();
    match (length(FILE_NAME), length(&format!("{FILE_NAME}-wal"))) {
        (Some(0), Some(log @ 1..)) => Some(format!("the file has 0 bytes, its log {log}")),
        _ => None,
    }
}

/// Makes the entries of a directory durable.
pub(super) fn sync(directory: &Path) -> std::io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Whether a directory lies on a file system of the network, or on one whose program may be.
#[cfg(target_os = "linux")]
pub fn is_remote(directory: &Path) -> bool {
    /// Numbers of linux/magic.h and of the file systems' own headers.
    const REMOTE: [u32; 15] = [
        0x0000_6969, // NFS
        0xFF53_4D42, // CIFS
        0xFE53_4D42, // SMB 2
        0x0000_517B, // SMB
        0x6573_5546, // FUSE
        0x0BD0_0BD0, // Lustre
        0x4750_4653, // GPFS
        0x00C3_6400, // Ceph
        0x5346_414F, // AFS
        0x6B41_4653, // AFS, of the kernel
        0x0102_1997, // 9P
        0x1983_0326, // BeeGFS
        0x7461_636F, // OCFS2
        0x0116_1970, // GFS2
        0xAAD7_AAEA, // PanFS
    ];
    rustix::fs::statfs(directory).is_ok_and(|found| REMOTE.contains(&(found.f_type as u32)))
}

#[cfg(not(target_os = "linux"))]
pub fn is_remote(_: &Path) -> bool {
    false
}
