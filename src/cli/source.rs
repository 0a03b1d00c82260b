//! The options by which commands find runs: a running sidecar, or the curves of a stopped one.

use std::path::PathBuf;

use clap::Args;

use crate::server::peers::Remote;

use super::client_options::Contact;

#[derive(Args)]
pub struct Source {
    /// The sidecar's HTTP port: HOST:PORT, https://HOST:PORT or unix:///path [default:
    /// CONCEPTWATCH_HTTP_ADDRESS or 127.0.0.1:7801, then all curves that are kept below the user's data directory]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "data_dir")]
    pub address: Option<Remote>,
    #[command(flatten)]
    pub contact: Contact,
    /// Read the curves of a stopped sidecar from this directory instead.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}
