//! `conceptwatch serve`: the sidecar.

use std::io::Read;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::fault::Fault;
use crate::server::{Listeners, run as run_server};

use super::failure::{Failure, conclude};
use super::logs;
use super::options::ServeOptions;

pub fn run(options: ServeOptions) -> ExitCode {
    conclude("serve", serve(options).map(|()| String::new()))
}

fn serve(options: ServeOptions) -> Result<(), Failure> {
    let options = options.with_file()?;
    logs::start(options.log.as_deref().unwrap_or("info"), options.log_json.unwrap_or(false))?;
    let server = options.server()?;
    let (grpc, http) = options.addresses();
    if server.token.is_none()
        && let Some(open) = [grpc, http].into_iter().find(|address| !address.ip().is_loopback())
    {
        let message = format!("{open} can be reached from other machines: --token-file is required there");
        return Err(Fault::new("token_file", message).into());
    }
    server.check()?;
    outlive_file_limits();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(Failure::running)?;
    let served = runtime.block_on(async {
        let mut signals = StopSignals::catch();
        let listeners = Listeners { grpc: bind("grpc_address", grpc).await?, http: bind("http_address", http).await? };
        let addresses = Addresses::of(&listeners)?;
        let mut announced = Ok(());
        let stop = async {
            // The server polls this future once it is up, so ports that would close at once are not announced.
            announced = addresses.announce(options.port_file.as_deref());
            if announced.is_ok() {
                signals.stop(options.exit_with_stdin.unwrap_or(false)).await;
            }
        };
        run_server(listeners, server, stop).await.map_err(Failure::running)?;
        announced
    });
    // What still runs, such as a client that never reads, must not delay the exit.
    runtime.shutdown_timeout(Duration::from_millis(200));
    served
}

/// Makes a write beyond the limit of `ulimit -f` fail, as on a full disk, instead of ending the process by a signal.
fn outlive_file_limits() {
    // SAFETY: ignoring a signal runs no code of this process.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

async fn bind(field: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| Failure::running(format!("{field}: {address} cannot be opened: {error}")))
}

/// Where both ports were opened.
struct Addresses {
    grpc: SocketAddr,
    http: SocketAddr,
}

impl Addresses {
    fn of(listeners: &Listeners) -> Result<Self, Failure> {
        let grpc = listeners.grpc.local_addr().map_err(Failure::running)?;
        let http = listeners.http.local_addr().map_err(Failure::running)?;
        Ok(Self { grpc, http })
    }

    fn announce(&self, port_file: Option<&std::path::Path>) -> Result<(), Failure> {
        let Self { grpc, http } = self;
        tracing::info!(%grpc, page = %format!("http://{http}/"), version = env!("CARGO_PKG_VERSION"), "listening");
        let Some(path) = port_file else { return Ok(()) };
        // Written beside and renamed, so that no reader sees half a line.
        let unfinished = path.with_extension("unfinished");
        let written = std::fs::write(&unfinished, format!("{grpc} {http}\n"));
        written
            .and_then(|()| std::fs::rename(&unfinished, path))
            .map_err(|error| Failure::running(format!("port_file: {} cannot be written: {error}", path.display())))
    }
}

/// SIGTERM and SIGINT, caught from construction on, so also while the server starts.
struct StopSignals(Vec<Signal>);

impl StopSignals {
    fn catch() -> Self {
        // Without a handler the signal ends the process at once, which is a stop too.
        Self(
            [SignalKind::terminate(), SignalKind::interrupt()]
                .into_iter()
                .filter_map(|kind| signal(kind).ok())
                .collect(),
        )
    }

    /// Completes on either signal, and with `with_stdin` when standard input ends.
    async fn stop(&mut self, with_stdin: bool) {
        let (ended, stdin_ended) = tokio::sync::oneshot::channel::<()>();
        if with_stdin {
            // In a thread, because a read of standard input cannot be cancelled.
            std::thread::spawn(move || {
                let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
                let _ = ended.send(());
            });
        } else {
            std::mem::forget(ended);
        }
        let signals = self.0.iter_mut();
        let mut received: FuturesUnordered<_> = signals.map(|signal| signal.recv()).collect();
        tokio::select! {
            Some(_) = received.next() => {}
            _ = stdin_ended => {}
        }
    }
}
