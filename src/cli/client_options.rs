//! How a command reaches a sidecar: its token, whom it trusts, and how it proves itself.

use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::server::peers::{Dialer, Protocol, Remote, Trust, own_user, read_token};
use leakage::field_error::FieldError;

#[derive(Args)]
pub struct Contact {
    /// File with the sidecar's token, if it needs one.
    #[arg(long, env = "CONCEPTWATCH_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// PEM file with the authorities of an https sidecar's certificate [default: those of the system]
    #[arg(long, env = "CONCEPTWATCH_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// PEM file with a client certificate, for a sidecar with --client-ca.
    #[arg(long, env = "CONCEPTWATCH_CERT_FILE", requires = "key_file", value_name = "FILE")]
    cert_file: Option<PathBuf>,
    /// PEM file with the client certificate's key.
    #[arg(long, env = "CONCEPTWATCH_KEY_FILE", requires = "cert_file", value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Accept a token file that others can read, as one mounted into a container.
    #[arg(long, env = "CONCEPTWATCH_SHARED_SECRETS", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    shared_secrets: Option<bool>,
}

impl Contact {
    pub fn token(&self) -> Result<Option<String>, FieldError> {
        let shared = self.shared_secrets.unwrap_or(false);
        self.token_file.as_deref().map(|path| read_token("token_file", path, shared)).transpose()
    }

    pub fn dialer(&self, remote: &Remote, protocol: Protocol) -> Result<Dialer, FieldError> {
        let identity = self.cert_file.clone().zip(self.key_file.clone());
        Dialer::new(remote.clone(), &Trust { ca_file: self.ca_file.clone(), identity }, protocol)
    }
}

/// The socket of the sidecar that a job of this user started, where one listens; else the default port. The rule is that of
/// the Python client, `python/conceptwatch/_private.py`.
pub fn default_address() -> Remote {
    let first = own_sockets().into_iter().find(|socket| socket.ends_with("grpc.sock"));
    first.map_or_else(|| Remote::Tcp { host: "127.0.0.1".to_owned(), port: 7800, tls: false }, Remote::Unix)
}

/// Sockets of sidecars that jobs of this user started, in order: `grpc.sock`, then those of jobs that could not use it
/// (`python/conceptwatch/_sidecar_lease.py`).
pub fn own_sockets() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let directory = match runtime.filter(|path| is_private(path)) {
        Some(runtime) => runtime.join("conceptwatch"),
        None => std::env::temp_dir().join(format!("conceptwatch-{}", own_user())),
    };
    if !is_private(&directory) {
        return Vec::new();
    }
    let files = std::fs::read_dir(&directory).into_iter().flatten().flatten().map(|file| file.path());
    let sockets = files.filter(|path| path.extension().is_some_and(|end| end == "sock"));
    let mut listening: Vec<PathBuf> = sockets.filter(|path| UnixStream::connect(path).is_ok()).collect();
    listening.sort();
    listening
}

/// Whether only this user can enter a directory.
fn is_private(directory: &Path) -> bool {
    std::fs::symlink_metadata(directory)
        .is_ok_and(|found| found.is_dir() && found.uid() == own_user() && found.mode() & 0o077 == 0)
}
