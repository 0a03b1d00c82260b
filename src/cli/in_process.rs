//! A sidecar in this process, for commands that need one for a while.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::server::{Listeners, ServeError, run};

use super::options::ServeOptions;

pub struct InProcess {
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), ServeError>>,
}

impl InProcess {
    /// Starts it at these addresses, with all the CPU it can use: the command only waits for its scores.
    pub fn start(runtime: &Runtime, mut options: ServeOptions, [grpc, http]: [SocketAddr; 2]) -> Result<Self, String> {
        options.cpu_share = Some(16.0);
        options.busy_cpu_share = Some(16.0);
        options.niceness = Some(0);
        let server = options.server().map_err(|fault| fault.to_string())?;
        server.check().map_err(|fault| fault.to_string())?;
        let bind = |address: SocketAddr| {
            let bound = runtime.block_on(TcpListener::bind(address));
            bound.map_err(|error| {
                format!("{address} cannot be opened: {error}; choose another with --grpc-address or --http-address")
            })
        };
        let listeners = Listeners { grpc: bind(grpc)?, http: bind(http)? };
        let address = |listener: &TcpListener| listener.local_addr().map_err(|error| error.to_string());
        let (grpc, http) = (address(&listeners.grpc)?, address(&listeners.http)?);
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = runtime.spawn(run(listeners, server, async {
            // An error means that the sender is gone, which is a stop too.
            let _ = stopped.await;
        }));
        Ok(Self { grpc, http, stop, serving })
    }

    /// Stops it, and the runtime with it.
    pub fn end(self, runtime: Runtime) -> Result<(), String> {
        drop(self.stop);
        let ended = runtime.block_on(self.serving);
        runtime.shutdown_timeout(Duration::from_millis(200));
        ended.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }
}
