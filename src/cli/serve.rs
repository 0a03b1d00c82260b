//! `conceptwatch serve`: the sidecar.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::VERSION;
use crate::history::HistoryError;
use crate::memory;
use crate::server::peers::{Endpoint, Listener, Tls, fitting, raise_file_limit};
use crate::server::{Listeners, ServeError, Streams, UpstreamOptions, page_url, run as run_server, run_hub};
use leakage::field_error::FieldError;

use super::failure::Failure;
use super::logs;
use super::options::ServeOptions;

pub fn run(options: ServeOptions) -> Result<(), Failure> {
    let options = options.with_file()?;
    // Before the first thread starts, which is the logger's.
    memory::limit_arenas(ARENAS + options.scoring_threads());
    logs::start(options.log.as_deref().unwrap_or("info"), options.log_json.unwrap_or(false))?;
    let mut server = options.server()?;
    let (grpc, http) = options.addresses();
    let hub = options.hub()?;
    let proved = server.token.is_some() || server.tls.as_ref().is_some_and(Tls::knows_clients);
    if let Some(open) = [&grpc, &http].into_iter().find(|address| address.is_remote()) {
        if !proved {
            let message =
                format!("{open} can be reached from other machines, which requires --token-file or --client-ca");
            return Err(FieldError::new("token_file", message).into());
        }
        if server.tls.is_none() {
            tracing::warn!(address = %open, "the token and the data cross the network unencrypted: set --tls-cert and --tls-key");
        }
    }
    if let Some(address) = server.upstream.as_ref().and_then(UpstreamOptions::unencrypted) {
        tracing::warn!(%address, "the hub's token and the curves cross the network unencrypted: use an https address");
    }
    server.check()?;
    outlive_file_limits();
    let (wanted, files) = ([server.connections, server.http_connections], raise_file_limit());
    [server.connections, server.http_connections] = fitting(wanted, files);
    if wanted != [server.connections, server.http_connections] {
        let (grpc, http) = (server.connections, server.http_connections);
        tracing::warn!(files, grpc, http, "the limit on open files leaves room for fewer connections: raise ulimit -n");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(BLOCKING)
        .thread_keep_alive(KEPT_ALIVE)
        .enable_all()
        .build()?;
    let served = runtime.block_on(async {
        let mut signals = StopSignals::catch();
        let listeners =
            Listeners { grpc: bind("grpc_address", &grpc).await?, http: bind("http_address", &http).await? };
        let tls = server.tls.is_some();
        let end = match (options.exit_with_stdin, options.exit_unused) {
            (Some(true), _) => End::WithInput,
            (_, Some(true)) => End::Unused(server.streams.clone(), server.sampling.linger),
            _ => End::BySignal,
        };
        let (grpc, http) = (listeners.grpc.local().clone(), listeners.http.local().clone());
        let mut announced = Ok(());
        // Called once the server is up, so ports that would close at once are not announced.
        let mut announce = || {
            announced = announce(&grpc, &http, tls, options.port_file.as_deref());
            announced.is_ok()
        };
        match hub {
            Some(hub) => run_hub(listeners, server, hub, announce, signals.stop(end)).await,
            None => {
                let stop = async {
                    if announce() {
                        signals.stop(end).await;
                    }
                };
                run_server(listeners, server, stop).await
            }
        }
        .map_err(|error| match error {
            ServeError::History(HistoryError::Invalid { field, message }) => FieldError::new(field, message).into(),
            error => Failure::from(error),
        })?;
        announced
    });
    // Tasks that still run, such as for a client that never reads, must not delay the exit.
    runtime.shutdown_timeout(Duration::from_millis(200));
    logs::settle();
    served
}

/// Arenas of the allocator beside those of threads that score: the program's own seven threads, and as many calls that
/// block at once as there usually are.
const ARENAS: usize = 12;

/// The most threads for calls that block: more than the requests that the page's port answers at once.
const BLOCKING: usize = 64;

/// How long such a thread waits for another call. Idle ones take turns, so a longer time would keep as many alive as there
/// ever were, for as long as there are a few calls a second.
const KEPT_ALIVE: Duration = Duration::from_millis(100);

/// Makes a write beyond the limit of `ulimit -f` fail, as on a full disk, instead of ending the process by a signal.
fn outlive_file_limits() {
    // SAFETY: ignoring a signal runs no code of this process.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

async fn bind(field: &str, address: &Endpoint) -> Result<Listener, Failure> {
    let bound = Listener::bind(address).await;
    bound.map_err(|error| Failure::running(format!("{field}: {address} cannot be opened: {error}")))
}

/// Tells the addresses of the ports, in the log and in the port file.
fn announce(grpc: &Endpoint, http: &Endpoint, tls: bool, port_file: Option<&Path>) -> Result<(), Failure> {
    let page = match http {
        Endpoint::Tcp(_) => page_url(http, tls),
        Endpoint::Unix(_) => http.to_string(),
    };
    tracing::info!(%grpc, page, tls, version = VERSION, "listening");
    let Some(path) = port_file else { return Ok(()) };
    write_owned(path, &format!("{grpc} {http}\n"))
        .map_err(|error| Failure::running(format!("port_file: {} cannot be written: {error}", path.display())))
}

/// Writes a file that only this user can read. It is written beside and renamed: no reader sees half a line, and a link that
/// stands at either place is replaced or refused, and never followed.
fn write_owned(path: &Path, text: &str) -> std::io::Result<()> {
    let mut name = path.file_name().ok_or(ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}", std::process::id()));
    let unfinished = path.with_file_name(name);
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(&unfinished)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| std::fs::rename(&unfinished, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    written
}

/// The event that ends the sidecar besides signals.
enum End {
    BySignal,
    /// The end of standard input.
    WithInput,
    /// The end of standard input, then of the last stream of batches, and then of what waits to be scored, but at most this
    /// long after the last stream.
    Unused(Streams, Duration),
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

    /// Completes on either signal, or at `end`.
    async fn stop(&mut self, end: End) {
        let (ended, stdin_ended) = tokio::sync::oneshot::channel::<()>();
        if !matches!(end, End::BySignal) {
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
            () = async {
                let _ = stdin_ended.await;
                if let End::Unused(streams, linger) = end {
                    streams.unused(linger).await;
                }
            } => {}
        }
    }
}
