//! The server's options, and its errors.

use std::path::PathBuf;

use crate::history::HistoryError;
use crate::schedule::{Budget as CpuBudget, Ticks};
use leakage::alert::Rules;
use leakage::field_error::FieldError;

use super::grpc::IngestLimits;
use super::grpc::otlp::OtlpOptions;
use super::notify::Options as NotifyOptions;
use super::peers::{Endpoint, Listener, Tls};
use super::runs::SamplingOptions;
use super::scoring::pool::WorkerOptions;
use super::streams::Streams;
use super::upstream::UpstreamOptions;

/// Everything that can be configured.
#[derive(Clone, Debug)]
pub struct Options {
    pub sampling: SamplingOptions,
    pub worker: WorkerOptions,
    pub ticks: Ticks,
    pub cpu: CpuBudget,
    pub ingest: IngestLimits,
    /// Maximum bytes of batches in flight, over all connections.
    pub ingest_bytes: usize,
    /// Maximum number of open gRPC connections.
    pub connections: usize,
    /// Maximum number of open HTTP connections.
    pub http_connections: usize,
    /// Directory of the history; `None` keeps it in memory.
    pub data_dir: Option<PathBuf>,
    /// Without `data_dir`: the directory below which the history gets a directory of its own.
    pub data_home: Option<PathBuf>,
    /// Size limit of the history.
    pub history_bytes: u64,
    pub alerts: Rules,
    pub notify: NotifyOptions,
    /// The collector to which metrics are pushed.
    pub otlp: Option<OtlpOptions>,
    /// Hubs to which changes of the history are sent.
    pub upstream: Option<UpstreamOptions>,
    /// If set, every call on either port must carry it.
    pub token: Option<String>,
    /// If set, both ports speak TLS to peers on other addresses than Unix sockets.
    pub tls: Option<Tls>,
    /// Host names accepted for the page, in addition to its address and localhost.
    pub host_names: Vec<String>,
    /// This process ends once no job uses it.
    pub ends_unused: bool,
    /// Counts the streams of jobs.
    pub streams: Streams,
}

/// Bound ports, whose addresses the caller therefore knows.
pub struct Listeners {
    pub grpc: Listener,
    pub http: Listener,
}

impl Listeners {
    /// How both are reached: `GRPC HTTP` and a line feed.
    pub(super) fn stated(&self, tls: bool) -> String {
        let of = |listener: &Listener| match listener.local() {
            Endpoint::Tcp(address) if tls => format!("https://{address}"),
            other => other.to_string(),
        };
        format!("{} {}\n", of(&self.grpc), of(&self.http))
    }
}

/// The address of the page; empty for a Unix socket, which browsers cannot open.
pub fn page_url(http: &Endpoint, tls: bool) -> String {
    let scheme = if tls { "https" } else { "http" };
    http.tcp().map(|address| format!("{scheme}://{address}/")).unwrap_or_default()
}

/// Why the server could not start or keep running.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Configuration(#[from] FieldError),
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl Options {
    /// Errors when an option is out of range; the fault names it.
    pub fn check(&self) -> Result<(), FieldError> {
        self.sampling.split("val").check()?;
        self.cpu.check()
    }
}
