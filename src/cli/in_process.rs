//! A sidecar in this process, for commands that need one for a while.

use std::io::{Error, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::server::{Listeners, ServeError, run};

use super::options::ServeOptions;

/// Where one of its ports is opened.
#[derive(Clone, Copy)]
pub enum Port {
    /// Here, or the start fails.
    At(SocketAddr),
    /// Here, or at a free port of the same host where this one is taken.
    Preferably(SocketAddr),
}

impl Port {
    /// A free port of this machine.
    pub const ANY: Self = Self::At(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)));

    async fn bind(self) -> Result<TcpListener, String> {
        let cannot = |address: SocketAddr, error: Error| {
            format!("{address} cannot be opened: {error}; choose another with --grpc-address or --http-address")
        };
        let (Self::At(address) | Self::Preferably(address)) = self;
        let bound = TcpListener::bind(address).await;
        match (self, bound) {
            (Self::Preferably(_), Err(error)) if error.kind() == ErrorKind::AddrInUse => {
                let anywhere = SocketAddr::new(address.ip(), 0);
                TcpListener::bind(anywhere).await.map_err(|error| cannot(anywhere, error))
            }
            (_, bound) => bound.map_err(|error| cannot(address, error)),
        }
    }
}

pub struct InProcess {
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), ServeError>>,
}

impl InProcess {
    /// Starts it at these ports, gRPC and HTTP. It may take every core: the command waits for its scores.
    pub fn start(runtime: &Runtime, mut options: ServeOptions, [grpc, http]: [Port; 2]) -> Result<Self, String> {
        options.cpu_share = Some(16.0);
        options.busy_cpu_share = Some(16.0);
        options.niceness = Some(0);
        let server = options.server().map_err(|fault| fault.to_string())?;
        server.check().map_err(|fault| fault.to_string())?;
        let listeners = Listeners { grpc: runtime.block_on(grpc.bind())?, http: runtime.block_on(http.bind())? };
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
