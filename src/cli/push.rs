//! `conceptwatch push`: sends what a stopped sidecar left for its hub.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use crate::history::{HistoryError, Limits, Sqlite};
use crate::server::push as push_outbox;

use super::data_dirs::check_curves;
use super::failure::Failure;
use super::logs;
use super::options::upstream;

/// Send what a stopped sidecar left for its hub
///
/// A sidecar with `--upstream` keeps what no hub has applied in its data directory. This command sends it without a
/// sidecar. Each change arrives exactly once.
#[derive(Args)]
pub struct Options {
    /// Directory of the curves.
    #[arg(long, env = "CONCEPTWATCH_DATA_DIR", value_name = "DIR")]
    data_dir: PathBuf,
    /// Addresses of hubs, as for `serve`.
    #[arg(long, env = "CONCEPTWATCH_UPSTREAM", value_delimiter = ',', value_name = "ADDRESS,ADDRESS", required = true)]
    upstream: Vec<String>,
    /// File with the token of the hubs.
    #[arg(long, env = "CONCEPTWATCH_UPSTREAM_TOKEN_FILE", value_name = "FILE")]
    upstream_token_file: Option<PathBuf>,
    /// PEM file with the authorities of https hubs' certificates [default: those of the system]
    #[arg(long, env = "CONCEPTWATCH_UPSTREAM_CA", value_name = "FILE")]
    upstream_ca: Option<PathBuf>,
    /// Accept a token file that others can read.
    #[arg(long, env = "CONCEPTWATCH_SHARED_SECRETS", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    shared_secrets: Option<bool>,
}

pub fn run(options: Options) -> Result<String, Failure> {
    logs::start("error", false)?;
    let Options { data_dir, upstream_token_file: token, upstream_ca: ca, shared_secrets, .. } = options;
    let hubs = upstream(&options.upstream, token, ca, shared_secrets.unwrap_or(false))?;
    check_curves("data_dir", &data_dir)?;
    // Nothing is removed here.
    let history = Sqlite::open(Some(&data_dir), Limits { bytes: u64::MAX }).map_err(|error| match error {
        HistoryError::InUse { .. } => Failure::running(format!("{error}: a sidecar at work sends by itself")),
        error => error.into(),
    })?;
    if history.outbox_usage()?.waiting == 0 {
        return Ok("nothing waits for a hub\n".to_owned());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let status = runtime?.block_on(push_outbox(hubs, Arc::new(history)));
    let status = status?;
    let said = format!("sent {} changes to {}, which refused {}", status.sent, status.hub, status.refused);
    match status.waiting {
        0 => Ok(said + "\n"),
        left => Err(Failure::running(format!("{said}; {left} are left: {}", status.why))),
    }
}
