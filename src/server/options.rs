//! What can be configured, and why the server could not start or go on.

use std::path::PathBuf;

use tokio::net::TcpListener;

use crate::alert::Rules;
use crate::fault::Fault;
use crate::history::HistoryError;
use crate::schedule::{Budget as CpuBudget, Ticks};

use super::grpc::IngestLimits;
use super::notify::Options as NotifyOptions;
use super::runs::SamplingOptions;
use super::scoring::pool::WorkerOptions;

/// Everything that can be configured.
#[derive(Clone, Debug)]
pub struct Options {
    pub sampling: SamplingOptions,
    pub worker: WorkerOptions,
    pub ticks: Ticks,
    pub cpu: CpuBudget,
    pub ingest: IngestLimits,
    /// Bytes of batches in flight, over all connections.
    pub ingest_bytes: usize,
    /// gRPC connections at a time.
    pub connections: usize,
    /// Where the history is kept; in memory without.
    pub data_dir: Option<PathBuf>,
    pub history_bytes: u64,
    pub alerts: Rules,
    pub notify: NotifyOptions,
    /// Required of every call, on both ports, when given.
    pub token: Option<String>,
    /// Names under which the page may be requested besides its address and localhost.
    pub host_names: Vec<String>,
}

/// Sockets that are bound already, so that the caller knows their addresses.
pub struct Listeners {
    pub grpc: TcpListener,
    pub http: TcpListener,
}

/// Why the server could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Configuration(#[from] Fault),
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("the gRPC port failed: {0}")]
    Grpc(#[from] tonic::transport::Error),
}

impl Options {
    /// Errors naming the option that is out of range.
    pub fn check(&self) -> Result<(), Fault> {
        self.sampling.split("val").check()?;
        self.cpu.check()
    }
}
