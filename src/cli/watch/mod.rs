//! `conceptwatch watch`: shows the curves of running jobs in a terminal.

mod frame;
mod lines;
mod live;
mod screen;
mod wanted;
mod watched;

use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::analysis_query::assessment_of;
use crate::history::{self, HistoryError};
use crate::server::client::{Client, ClientError};
use crate::server::peers::{Dialer, Protocol, Remote};
use crate::server::proto::SeriesPoint;
use crate::server::run_state::states_of;

use super::client_options::{Contact, default_address};
use super::data_dirs::{DataDir, data_dirs};
use super::failure::Failure;
use super::http_request::{Answering, who_answers};
use super::scoring::named;
use super::terminal::{print, tell};
use screen::Screen;
use wanted::Wanted;
use watched::Watched;

/// Show the curves of runs in a terminal
///
/// Shows each run with its state, newest epoch and step, verdict, and scores: the newest value with its 95 % interval,
/// its limit, and the curve. The first bar of a curve is the limit; values beyond it are red. The newest alerts stand
/// below. Ends when the sidecar stops, on q or on Ctrl-C. If the output is not a terminal, prints a line for each
/// evaluation, change of the verdict and alert. Where no sidecar runs, shows the curves below the user's data
/// directory, once.
#[derive(Args)]
pub struct WatchOptions {
    #[command(flatten)]
    wanted: Wanted,
    /// The sidecar's gRPC port: HOST:PORT, https://HOST:PORT or unix:///path [default: the socket of the sidecar that a
    /// job of this user started, or 127.0.0.1:7800]
    #[arg(long, value_name = "ADDRESS")]
    address: Option<Remote>,
    #[command(flatten)]
    contact: Contact,
}

/// Time in which the page of a sidecar answers.
const PATIENCE: Duration = Duration::from_secs(2);
/// Newest runs of each directory that are shown where no sidecar runs.
const LOOKED_BACK: usize = 20;
/// Width of frames that are printed, not shown on a terminal: nothing is cut.
const UNCUT: u16 = 1000;

pub fn run(options: &WatchOptions) -> Result<(), Failure> {
    named(&options.wanted.scores).map_err(Failure::bad_input)?;
    let token = options.contact.token()?;
    let runtime = Runtime::new()?;
    let data_dirs = if options.address.is_none() { data_dirs() } else { Vec::new() };
    let mut addresses = vec![options.address.clone().unwrap_or_else(default_address)];
    addresses.extend(data_dirs.iter().filter_map(|place| Some(place.stated.as_ref()?[0].clone())));
    let mut watched = Ok(());
    for address in addresses {
        let dialer = options.contact.dialer(&address, Protocol::Http2)?;
        watched = runtime.block_on(async {
            tokio::select! {
                ended = follow(&options.wanted, &dialer, token.as_deref()) => ended,
                () = stop_signal() => Ok(()),
            }
        });
        if !matches!(watched, Err(ClientError::Unreachable(..))) {
            break;
        }
    }
    runtime.shutdown_background();
    match (watched, &options.address) {
        (Ok(()), _) => Ok(()),
        (Err(ClientError::Unreachable(..)), None) if !data_dirs.is_empty() => look_back(&options.wanted, &data_dirs),
        (Err(error), Some(address)) => Err(http_port(options, address)?.unwrap_or_else(|| error.into())),
        (Err(error), None) => Err(error.into()),
    }
}

/// Returns the advice for an address that is that of a page.
fn http_port(options: &WatchOptions, address: &Remote) -> Result<Option<Failure>, Failure> {
    if !matches!(who_answers(&options.contact, address, PATIENCE)?, Answering::Sidecar(_) | Answering::Refusing(_)) {
        return Ok(None);
    }
    let stated = data_dirs().into_iter().filter_map(|place| place.stated);
    let grpc = stated.filter(|[_, http]| http == address).map(|[grpc, _]| format!(" ({grpc})")).next();
    let message = format!("{address} is the HTTP port; watch needs the gRPC port{}", grpc.unwrap_or_default());
    Ok(Some(Failure::bad_input(message)))
}

/// Completes on SIGINT or SIGTERM, so that the terminal is restored before the command ends.
async fn stop_signal() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

/// Shows the curves that sidecars have left, once.
fn look_back(wanted: &Wanted, data_dirs: &[DataDir]) -> Result<(), Failure> {
    let mut watched = Watched::new(&wanted.split, &wanted.scores);
    for place in data_dirs {
        // It may have been started meanwhile, or cannot be read.
        let Ok(history) = place.open() else { continue };
        let runs = history.listing(&history::Wanted::default())?.runs;
        let states = states_of(&*history, &runs, &HashMap::new())?;
        let kept = runs.iter().zip(states);
        let kept = kept.filter(|((stored, _), _)| wanted.runs.is_empty() || wanted.runs.contains(&stored.run.name));
        for ((stored, _), state) in kept.take(LOOKED_BACK) {
            let name = &stored.run.name;
            let curve = |score: &String| {
                let points = history.series(name, &wanted.split, score, None, 0, None)?;
                Ok(points.into_iter().map(SeriesPoint::from).collect::<Vec<_>>())
            };
            let curves: Result<Vec<_>, HistoryError> = wanted.scores.iter().map(curve).collect();
            let run = watched.run(name);
            (run.state, run.reason) = (state.state, state.reason.unwrap_or_default());
            // A run without evaluations of the split has no verdict.
            run.verdict = assessment_of(&*history, name, &wanted.split, |_| true, None).ok().map(|found| found.verdict);
            for (curve, points) in run.curves.iter_mut().zip(curves?) {
                curve.replace_from(0, points);
            }
        }
    }
    tell("conceptwatch watch: no sidecar runs; these are the curves that were kept");
    let width = if std::io::stdout().is_terminal() { terminal_width() } else { UNCUT };
    print(&frame::text(&watched, width));
    Ok(())
}

/// Returns the width of the terminal, or the usual one where that is unknown.
fn terminal_width() -> u16 {
    crossterm::terminal::size().map_or(80, |(width, _)| width)
}

/// Shows runs until the sidecar stops or nobody reads.
async fn follow(wanted: &Wanted, dialer: &Dialer, token: Option<&str>) -> Result<(), ClientError> {
    let mut reader = Client::connect(dialer, token).await?;
    // Subscribes first, so that no event is missed while the curves are fetched.
    let heard = reader.watch(wanted.runs.clone()).await?;
    // A terminal without keys is written to line by line.
    let watched = Watched::new(&wanted.split, &wanted.scores);
    match std::io::stdout().is_terminal().then(|| Screen::open(watched)) {
        Some(Ok(screen)) => live::follow(wanted, &mut reader, heard, screen).await,
        _ => lines::follow(wanted, &mut reader, heard).await,
    }
}
