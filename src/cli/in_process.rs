//! A sidecar inside the process of a command, for as long as the command runs.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::server::peers::Listener;
use crate::server::{Listeners, ServeError, run};

use super::failure::Failure;
use super::options::ServeOptions;

/// The address of one of its ports.
#[derive(Clone, Copy)]
pub enum Port {
    /// This address; the start fails if it is taken.
    At(SocketAddr),
    /// This address, or a free port of the same host if it is taken.
    Preferably(SocketAddr),
}

impl Port {
    /// A free port of this machine.
    pub const ANY: Self = Self::At(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)));

    async fn bind(self) -> Result<Listener, Failure> {
        let (Self::At(address) | Self::Preferably(address)) = self;
        let bound = match (self, Listener::bind(&address.into()).await) {
            (Self::Preferably(_), Err(error)) if error.kind() == ErrorKind::AddrInUse => {
                Listener::bind(&SocketAddr::new(address.ip(), 0).into()).await
            }
            (_, bound) => bound,
        };
        bound.map_err(|error| {
            let how = "choose another with --grpc-address or --http-address";
            Failure::running(format!("{address} cannot be opened: {error}; {how}"))
        })
    }
}

pub struct InProcess {
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), ServeError>>,
}

impl InProcess {
    /// Starts it on these gRPC and HTTP ports. It may use every core, because the command waits for its scores.
    pub fn start(runtime: &Runtime, mut options: ServeOptions, [grpc, http]: [Port; 2]) -> Result<Self, Failure> {
        options.cpu_share = Some(16.0);
        options.busy_cpu_share = Some(16.0);
        options.niceness = Some(0);
        let server = options.server()?;
        server.check()?;
        let listeners = Listeners { grpc: runtime.block_on(grpc.bind())?, http: runtime.block_on(http.bind())? };
        let address = |listener: &Listener| listener.local().tcp().expect("it was opened at an IP address");
        let (grpc, http) = (address(&listeners.grpc), address(&listeners.http));
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = runtime.spawn(run(listeners, server, async {
            // An error means that the sender was dropped, which is the stop signal.
            let _ = stopped.await;
        }));
        Ok(Self { grpc, http, stop, serving })
    }

    /// Stops it and then the runtime. Errors when the sidecar failed.
    pub fn end(self, runtime: Runtime) -> Result<(), Failure> {
        drop(self.stop);
        let ended = runtime.block_on(self.serving);
        runtime.shutdown_timeout(Duration::from_millis(200));
        Ok(ended??)
    }
}
