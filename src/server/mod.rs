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
mod alert_log;
mod blocking;
mod board;
mod clock;
mod directory;
mod events;
mod grpc;
mod heap_trim;
pub mod http;
mod hub;
pub mod live;
pub mod metrics;
mod notify;
mod options;
mod otlp;
mod pass_outcomes;
pub mod peers;
mod ports;
mod publish;
mod refusal;
pub mod run_state;
mod runs;
mod scoring;
mod sidecar;
mod streams;
mod upkeep;
mod upstream;
mod windows;
mod wiring;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub use clock::unix_time;
pub use grpc::otlp::OtlpOptions;
#[cfg(fuzzing)]
pub use grpc::tensor_of;
pub use grpc::{IngestLimits, client, hub as hub_protocol, pipe, proto, recording};
pub use hub::{HubOptions, projects, run_hub};
pub use notify::{Options as NotifyOptions, Target, WebhookFormat};
pub use options::{Listeners, Options, ServeError, page_url};
pub use runs::SamplingOptions;
pub use scoring::pool::WorkerOptions;
pub use streams::Streams;
pub use upstream::{UpstreamOptions, push};

use blocking::blocking;
use grpc::Calls;
use http::verdicts_of;
use upstream::{Hubs, Upstream};
use wiring::Parts;

/// How long after the signal to stop the hub may still be told what is new.
const TELLING: Duration = Duration::from_millis(4600);

/// How long after the signal to stop the log of the history may still be moved into its file.
const EMPTYING: Duration = Duration::from_millis(4750);

/// Serves until `shutdown` completes; `shutdown` is first polled once everything is running. Errors when an option is out
/// of range or the history cannot be opened.
pub async fn run(
    listeners: Listeners,
    mut options: Options,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    options.check()?;
    let addresses = listeners.stated(options.tls.is_some());
    let history = directory::open_history(&mut options).await?;
    let (log, directory, streams) = (Arc::clone(&history), options.data_dir.clone(), options.streams.clone());
    let mut upstream = match options.upstream.take() {
        Some(upstream) => {
            let (hubs, history) = (Hubs::new(upstream)?, Arc::clone(&history));
            Some(blocking(move || Upstream::new(hubs, history)).await?)
        }
        None => None,
    };
    let parts = Parts::assemble(options, history, upstream.as_ref(), &listeners)?;
    let scorer = parts.scoring.start(&parts.runs)?;
    // Points in memory end with the process, whether scored or not.
    if directory.is_some() {
        let (settlement, queues) = (Arc::clone(&parts.settlement), parts.scoring.onward.queues.clone());
        streams.work(move || settlement.has_pending() || queues.bytes() > 0);
    }

    let stop = parts.front.stop.clone();
    let app = parts.app();
    if let Some(upstream) = &mut upstream {
        let of = app.clone();
        // A run that was removed meanwhile has none.
        let verdicts = move |curves| verdicts_of(&of, curves).unwrap_or_default();
        upstream.judge(Arc::clone(&app.live), &app.events, Arc::new(verdicts));
    }
    // The hub and the collector are told what is new until the last point is scored.
    let scored = CancellationToken::new();
    let calls = Calls::Sidecar(Box::new(parts.service()));
    let ports = parts.front.open(listeners, app, calls, Vec::new(), &scored)?;
    let upkeep = tokio::spawn(parts.upkeep().run(stop.clone()));
    let records = tokio::spawn(Arc::clone(&parts.settlement).run(stop.clone()));
    let told = upstream.map(|upstream| tokio::spawn(upstream.run(scored.clone())));
    if let Some(directory) = &directory {
        directory::state_address(directory, &addresses);
    }

    shutdown.await;
    tracing::info!("stopping");
    if let Some(directory) = &directory {
        directory::remove_address(directory);
    }
    let stopped = Instant::now();
    stop.cancel();
    parts.scoring.hurry();
    let pushed = ports.drain().await;
    upkeep.abort();
    parts.settle(scorer, records, stopped).await;
    scored.cancel();
    // Changes that are not sent to the hub by then wait in the history.
    for task in told.into_iter().chain(pushed) {
        let _ = timeout(TELLING.saturating_sub(stopped.elapsed()), task).await;
    }
    if let Err(error) = directory::close(log, stopped + EMPTYING).await {
        tracing::error!(%error, "the sidecar stops");
        return Err(error.into());
    }
    Ok(())
}
