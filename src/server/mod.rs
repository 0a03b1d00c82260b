//! The server: everything that depends on async, protobuf, sockets and clocks, and the wiring of the other modules.
//!
//! ```text
//! grpc ─▶ runs ─▶ scoring ─▶ publish ─▶ history, advice, board, events
//!        samplers  queues,    the only    read by the ports: gRPC calls, HTTP page and API, metrics,
//!                  threads    way out     alert receivers
//! ```
//!
//! The caller of [`run`] owns the sockets and the stop signal. Stopping takes at most a fixed grace period, whatever
//! clients do.

mod advice;
mod board;
mod clock;
mod events;
mod grpc;
pub mod http;
mod hub;
pub mod live;
pub mod metrics;
mod notify;
mod options;
mod parts;
pub mod peers;
mod publish;
mod refusal;
mod release;
mod runs;
mod scoring;
mod settlement;
mod sidecar;
mod streams;
mod traces;
mod upkeep;
mod upstream;
mod windows;
pub mod work;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::history::{ADDRESS_FILE, HistoryError, Limits as HistoryLimits, Sqlite};

#[cfg(fuzzing)]
pub use grpc::tensor_of;
pub use grpc::{IngestLimits, Window, client, hub as hub_protocol, proto, recording, transport, wire};
pub use hub::{HubOptions, projects, run_hub};
pub use notify::{Options as NotifyOptions, Target};
pub use options::{Listeners, Options, ServeError};
pub use runs::SamplingOptions;
pub use scoring::pool::WorkerOptions;
pub use streams::Streams;
pub use upstream::UpstreamOptions;

use grpc::Calls;
use http::Bounds;
use parts::Parts;
use upstream::{Hubs, Upstream};

/// How long after the signal to stop rolling windows may still be saved.
const SAVING: Duration = Duration::from_millis(4300);

/// How long after the signal to stop the hub may still be told what is new.
const TELLING: Duration = Duration::from_millis(4600);

/// How long calls in flight may take when the server stops.
const DRAIN: Duration = Duration::from_secs(2);

/// Serves until `shutdown` completes; `shutdown` is first polled once everything is running. Errors when an option is out
/// of range, the history cannot be opened, or the gRPC port fails.
pub async fn run(
    listeners: Listeners,
    mut options: Options,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    options.check()?;
    let tls = options.tls.clone();
    let bounds = Bounds { connections: options.http_connections, ..Bounds::default() };
    let addresses = listeners.stated(tls.is_some());
    let history = open_history(&mut options).await?;
    let directory = options.data_dir.clone();
    let upstream = match options.upstream.take() {
        Some(upstream) => {
            let (hubs, history) = (Hubs::new(upstream)?, Arc::clone(&history));
            let created = tokio::task::spawn_blocking(move || Upstream::new(hubs, history));
            Some(created.await.map_err(std::io::Error::other)??)
        }
        None => None,
    };
    let parts = Parts::assemble(options, history, upstream.as_ref(), &listeners)?;
    let scorer = parts.scoring.start(&parts.runs)?;

    let (app, service, port) = (parts.app()?, parts.service(), parts.port());
    let (metrics, stop) = (parts.metrics.clone(), parts.stop.clone());
    let http = tokio::spawn(http::serve(listeners.http, tls.clone(), app, bounds, stop.clone()));
    let mut grpc = tokio::spawn(grpc::serve(listeners.grpc, port, Calls::Sidecar(service), metrics, stop.clone()));
    if let Some(tls) = tls {
        tokio::spawn(tls.keep_current(stop.clone()));
    }
    let upkeep = tokio::spawn(parts.upkeep().run(stop.clone()));
    let records = tokio::spawn(Arc::clone(&parts.settlement).run(stop.clone()));
    let scored = CancellationToken::new();
    let told = upstream.map(|upstream| tokio::spawn(upstream.run(scored.clone())));

    if let Some(directory) = &directory {
        state(directory, &addresses);
    }
    let failed = tokio::select! {
        () = shutdown => None,
        ended = &mut grpc => Some(ended),
    };
    tracing::info!("stopping");
    if let Some(directory) = &directory {
        // Fails if the directory is gone, and the name with it.
        let _ = std::fs::remove_file(directory.join(ADDRESS_FILE));
    }
    let stopped = Instant::now();
    stop.cancel();
    parts.scoring.hurry();

    let drained = async {
        match failed {
            Some(ended) => Some(ended),
            None => timeout(DRAIN, &mut grpc).await.ok(),
        }
    };
    // Both ports drain at once, so that the clients of one cannot use up the time of the other.
    let (ended, _) = tokio::join!(drained, timeout(DRAIN, http));
    grpc.abort();
    upkeep.abort();
    // Nothing more arrives. What was received is scored if there is time, and else it is recorded that it was not.
    parts.scoring.settle_down(scorer, stopped).await;
    parts.runs.stop();
    parts.settlement.give_up("the sidecar stopped before the pass was scored");
    // Ends with the stop; what it is writing is written before the last records.
    let _ = records.await;
    let settlement = Arc::clone(&parts.settlement);
    let (runs, windows) = (Arc::clone(&parts.runs), parts.windows.clone());
    let last = move || {
        settlement.flush();
        while let Some((key, window)) = runs.window_to_save(Duration::ZERO).filter(|_| windows.are_saved())
            && stopped.elapsed() < SAVING
        {
            windows.save(&key, &window);
        }
    };
    let _ = tokio::task::spawn_blocking(last).await;
    scored.cancel();
    if let Some(told) = told {
        // What the hub is not told by then waits in the history.
        let _ = timeout(TELLING.saturating_sub(stopped.elapsed()), told).await;
    }
    match ended {
        Some(ended) => Ok(ended.map_err(std::io::Error::other)??),
        None => Ok(()),
    }
}

/// Opens the history, and notes its absolute directory in the options, also where they only have a home for it.
async fn open_history(options: &mut Options) -> Result<Arc<Sqlite>, ServeError> {
    let (directory, home) = (options.data_dir.clone(), options.data_home.clone());
    let limits = HistoryLimits { bytes: options.history_bytes };
    let opening = tokio::task::spawn_blocking(move || match (directory, home) {
        (None, Some(home)) => Ok(in_home(&home, limits)?),
        (directory, _) => Sqlite::open(directory.as_deref(), limits).map(|history| (history, directory)),
    });
    let (history, directory) = opening.await.map_err(std::io::Error::other)??;
    // Jobs in other working directories are told this path.
    options.data_dir = directory.map(|path| std::path::absolute(&path).unwrap_or(path));
    Ok(Arc::new(history))
}

/// A history below `home`; in memory where that cannot be written, since the job that started this process chose neither.
fn in_home(home: &Path, limits: HistoryLimits) -> Result<(Sqlite, Option<PathBuf>), HistoryError> {
    match Sqlite::open_in(home, limits) {
        Ok((history, directory)) => {
            tracing::info!(directory = %directory.display(), "curves are kept");
            Ok((history, Some(directory)))
        }
        Err(error) => {
            tracing::warn!(%error, "curves are in memory and end with this process");
            Ok((Sqlite::open(None, limits)?, None))
        }
    }
}

/// States in the data directory how this process is reached, for commands that read its curves.
fn state(directory: &Path, addresses: &str) {
    let path = directory.join(ADDRESS_FILE);
    // What a killed process left may be a link.
    let _ = std::fs::remove_file(&path);
    if let Err(error) = std::fs::write(&path, addresses) {
        tracing::warn!(%error, path = %path.display(), "cannot be written: commands do not find this sidecar's curves");
    }
}
