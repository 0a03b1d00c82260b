//! `conceptwatch watch`: shows the curves of running jobs in a terminal.

use std::collections::BTreeMap;
use std::io::{Error, IsTerminal};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tokio::runtime::Runtime;
use tokio_stream::StreamExt;

use crate::analysis_query::assessment_of;
use crate::server::client::{ClientError, Heard, Reader};
use crate::server::peers::{Dialer, Protocol, Remote};
use crate::server::proto;
use leakage::diagnosis::Verdict;

use super::client_options::{Contact, default_address};
use super::data_dirs::{DataDir, data_dirs};
use super::failure::{Failure, check_scores, conclude};
use super::http_request::{Answering, who_answers};
use super::terminal::{has_gone, print, tell, written};

/// Show the curves of runs in a terminal
///
/// Shows the verdict on each run, its scores with standard errors and curves, and the newest alerts. If the output is
/// not a terminal, prints a line for each evaluation, change of the verdict and alert. Where no sidecar runs, shows the
/// curves kept below the user's data directory, once.
#[derive(Args)]
pub struct WatchOptions {
    /// Runs to watch [default: all running runs, and those that start later]
    runs: Vec<String>,
    /// Scores to show, by id.
    #[arg(long, value_delimiter = ',', value_name = "ID,ID", default_value = "ctl_conditional,icl_conditional")]
    scores: Vec<String>,
    /// Split to show.
    #[arg(long, default_value = "val")]
    split: String,
    /// The sidecar's gRPC port: HOST:PORT, https://HOST:PORT or unix:///path [default: the socket of the sidecar that a job
    /// of this user started, or 127.0.0.1:7800]
    #[arg(long, value_name = "ADDRESS")]
    address: Option<Remote>,
    #[command(flatten)]
    contact: Contact,
}

/// Time in which the page of a sidecar answers.
const PATIENCE: Duration = Duration::from_secs(2);
/// Alerts shown at a time.
const ALERTS: usize = 5;
/// Newest runs of each directory that are shown where no sidecar runs.
const LOOKED_BACK: usize = 20;
/// Evaluations shown in a curve, one character each.
const WIDTH: usize = 40;
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub fn run(options: &WatchOptions) -> ExitCode {
    conclude("watch", watch(options).map(|()| String::new()))
}

fn watch(options: &WatchOptions) -> Result<(), Failure> {
    check_scores(&options.scores)?;
    let token = options.contact.token()?;
    let runtime = Runtime::new().map_err(Failure::running)?;
    let data_dirs = if options.address.is_none() { data_dirs() } else { Vec::new() };
    let mut addresses = vec![options.address.clone().unwrap_or_else(default_address)];
    addresses.extend(data_dirs.iter().filter_map(|place| Some(place.stated.as_ref()?[0].clone())));
    let mut watched = Ok(());
    for address in addresses {
        let dialer = options.contact.dialer(&address, Protocol::Http2)?;
        watched = runtime.block_on(async {
            tokio::select! {
                ended = follow(options, &dialer, token.as_deref()) => ended,
                _ = tokio::signal::ctrl_c() => Ok(()),
            }
        });
        if !matches!(watched, Err(ClientError::Unreachable(..))) {
            break;
        }
    }
    runtime.shutdown_background();
    match (watched, &options.address) {
        (Ok(()), _) => Ok(()),
        (Err(ClientError::Unreachable(..)), None) if !data_dirs.is_empty() => look_back(options, &data_dirs),
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

/// Shows the curves that sidecars have left, once.
fn look_back(options: &WatchOptions, data_dirs: &[DataDir]) -> Result<(), Failure> {
    let mut screen = Screen::new(options);
    for place in data_dirs {
        // It may have been started meanwhile, or cannot be read.
        let Ok(history) = place.open() else { continue };
        let runs = history.runs().map_err(Failure::running)?.into_iter().map(|stored| stored.run.name.clone());
        let wanted = runs.filter(|run| options.runs.is_empty() || options.runs.contains(run));
        for run in wanted.take(LOOKED_BACK) {
            // A run without evaluations of the split has no verdict.
            if let Ok(found) = assessment_of(&*history, &run, &options.split, |_| true, None) {
                screen.judge(&run, &found.verdict);
            }
            for score in &options.scores {
                for point in history.series(&run, &options.split, score, None, 0, None).map_err(Failure::running)? {
                    let newest = newest(point.value, point.standard_error, None, &point.undefined.unwrap_or_default());
                    screen.take(
                        &run,
                        score,
                        Taken { step: point.step, left: point.superseded, value: point.value, newest },
                    );
                }
            }
        }
    }
    tell("conceptwatch watch: no sidecar runs; these are the curves that were kept");
    screen.list();
    Ok(())
}

async fn follow(options: &WatchOptions, dialer: &Dialer, token: Option<&str>) -> Result<(), ClientError> {
    let mut reader = Reader::connect(dialer, token).await?;
    // Subscribes first, so that no event is missed while the curves are fetched.
    let mut heard = pin!(reader.watch(options.runs.clone()).await?);
    let mut screen = Screen::new(options);
    let known = reader.runs().await?.into_iter();
    let wanted =
        known.filter(|(run, finished)| if options.runs.is_empty() { !finished } else { options.runs.contains(run) });
    for (run, _) in wanted.collect::<Vec<_>>().into_iter().rev() {
        for score in &options.scores {
            // A split is unknown until its first point.
            let points = reader.series(&run, &options.split, score).await.unwrap_or_default();
            screen.load(&run, score, points);
        }
        if let Ok(Some(verdict)) = reader.verdict(&run, &options.split).await {
            screen.judge(&run, &verdict);
        }
    }
    let mut shown = screen.show();
    // Where nobody reads any more there is nobody to tell.
    while !shown.is_err_and(|error| has_gone(&error))
        && let Some(heard) = heard.next().await
    {
        let run = heard.run().map(str::to_owned);
        shown = screen.hear(heard);
        // The run may have been removed meanwhile.
        if shown.is_ok()
            && let Some(run) = run
            && let Ok(Some(verdict)) = reader.verdict(&run, &options.split).await
            && let Some(line) = screen.judge(&run, &verdict)
        {
            shown = screen.say(&line).and_then(|()| screen.show());
        }
    }
    Ok(())
}

/// The contents of the screen: curves, and the newest alerts.
struct Screen<'o> {
    options: &'o WatchOptions,
    terminal: bool,
    /// Number of lines drawn last time.
    lines: usize,
    /// By run and index of the score.
    curves: BTreeMap<(String, usize), Curve>,
    /// By run.
    verdicts: BTreeMap<String, String>,
    alerts: Vec<String>,
}

/// A score of an evaluation.
struct Taken {
    step: u64,
    /// The run has returned to this step or an earlier one since.
    left: bool,
    value: Option<f64>,
    newest: String,
}

#[derive(Default)]
struct Curve {
    /// Step and value of the newest branch, in order.
    points: Vec<(u64, Option<f64>)>,
    newest: String,
    /// Evaluations of branches that the run has left, and the last step of these.
    left: usize,
    left_until: u64,
}

impl Curve {
    fn take(&mut self, point: Taken) {
        if point.left {
            return self.leave(1, point.step);
        }
        // Where the run went back to an earlier step, later values no longer belong to its curve. One of the same step is
        // the more complete.
        let kept = self.points.partition_point(|(step, _)| *step < point.step);
        if let Some((last, _)) = self.points.last().filter(|(last, _)| *last > point.step) {
            self.leave(self.points.len() - kept, *last);
        }
        self.points.truncate(kept);
        self.points.push((point.step, point.value));
        self.newest = point.newest;
    }

    fn leave(&mut self, count: usize, until: u64) {
        self.left += count;
        self.left_until = self.left_until.max(until);
    }

    fn drawn(&self) -> String {
        let values: Vec<f64> = self.points.iter().filter_map(|(_, value)| *value).collect();
        let step = self.points.last().map_or(0, |(step, _)| *step);
        let left = match self.left {
            0 => String::new(),
            count => format!("; left behind: {count} up to step {}", self.left_until),
        };
        format!("step {step:>8}  {:WIDTH$}  {}{left}", sparkline(&values), self.newest)
    }
}

impl<'o> Screen<'o> {
    fn new(options: &'o WatchOptions) -> Self {
        let terminal = std::io::stdout().is_terminal();
        Self { options, terminal, lines: 0, curves: BTreeMap::new(), verdicts: BTreeMap::new(), alerts: Vec::new() }
    }

    fn load(&mut self, run: &str, score: &str, points: Vec<proto::SeriesPoint>) {
        for point in points {
            let newest = newest(point.value, point.standard_error, None, &point.undefined);
            self.take(run, score, Taken { step: point.step, left: point.superseded, value: point.value, newest });
        }
    }

    fn take(&mut self, run: &str, score: &str, point: Taken) {
        let Some(place) = self.options.scores.iter().position(|wanted| wanted == score) else { return };
        self.curves.entry((run.to_owned(), place)).or_default().take(point);
    }

    /// Notes the verdict on a run. Returns it as a line if it has changed.
    fn judge(&mut self, run: &str, verdict: &Verdict) -> Option<String> {
        let text = verdict.to_string().replace("\n  ", "; ");
        let before = self.verdicts.insert(run.to_owned(), text.clone());
        (before.as_ref() != Some(&text)).then(|| format!("{run}  {text}"))
    }

    /// Errors when the output takes nothing more.
    fn hear(&mut self, heard: Heard) -> Result<(), Error> {
        match heard {
            Heard::Point(point) if point.split != self.options.split || point.provisional => return Ok(()),
            Heard::Point(point) => {
                let mut line = format!("{}  step {}", point.run, point.step);
                for score in point.scores {
                    if self.options.scores.contains(&score.id) {
                        let value = score.value.map_or("undefined".to_owned(), |value| format!("{value:.4}"));
                        line += &format!("  {} {value}{}", score.id, of_age(score.age));
                    }
                    let newest = newest(score.value, score.standard_error, score.age, &score.undefined);
                    let taken = Taken { step: point.step, left: false, value: score.value, newest };
                    self.take(&point.run, &score.id, taken);
                }
                self.say(&line)?;
            }
            Heard::Alert(change) => {
                let state = match change.state() {
                    proto::AlertState::Firing => "FIRING",
                    proto::AlertState::Pending => "pending",
                    _ => "resolved",
                };
                let line = format!("{state}  {}: {}: {}", change.run, change.rule, change.evidence);
                self.alerts.push(line.clone());
                if self.alerts.len() > ALERTS {
                    self.alerts.remove(0);
                }
                self.say(&line)?;
            }
            Heard::Lost(count) => self.say(&format!("{count} events were missed"))?,
        }
        self.show()
    }

    /// Prints a line if the output is not a terminal.
    fn say(&self, line: &str) -> Result<(), Error> {
        if self.terminal { Ok(()) } else { written(&format!("{line}\n")) }
    }

    fn show(&mut self) -> Result<(), Error> {
        if !self.terminal {
            return Ok(());
        }
        let text = self.drawn();
        let back = if self.lines > 0 { format!("\x1b[{}A\x1b[J", self.lines) } else { String::new() };
        self.lines = text.matches('\n').count();
        written(&(back + &text))
    }

    /// Prints the curves once, on a terminal or not.
    fn list(&self) {
        print(&self.drawn());
    }

    fn drawn(&self) -> String {
        let mut text = String::new();
        let name = self.curves.keys().map(|(run, _)| run.chars().count()).max().unwrap_or(0);
        let mut above = None;
        for ((run, place), curve) in &self.curves {
            let score = &self.options.scores[*place];
            if let Some(verdict) = self.verdicts.get(run).filter(|_| above != Some(run)) {
                text += &format!("{run:name$}  {verdict}\n");
            }
            above = Some(run);
            text += &format!("{run:name$}  {score:12}  {}\n", curve.drawn());
        }
        if self.curves.is_empty() {
            text += "no curves yet\n";
        }
        for alert in &self.alerts {
            text += &format!("{alert}\n");
        }
        text
    }
}

/// The newest value as text, with its standard error and the age of its oldest pair.
fn newest(value: Option<f64>, error: Option<f64>, age: Option<f64>, why: &str) -> String {
    let value = match (value, error) {
        (Some(value), Some(error)) => format!("{value:.4} ± {error:.4}"),
        (Some(value), None) => format!("{value:.4}"),
        (None, _) => format!("undefined: {why}"),
    };
    value + &of_age(age)
}

/// The age of the oldest pair in a score, if some pairs were computed on earlier samples for lack of CPU time.
fn of_age(age: Option<f64>) -> String {
    age.map_or_else(String::new, |age| format!(" (pairs up to {age:.0} s old)"))
}

/// The newest values as bars of one character. The scale runs from 0, or the lowest value if negative, to the highest.
fn sparkline(values: &[f64]) -> String {
    let shown = &values[values.len().saturating_sub(WIDTH)..];
    let low = shown.iter().copied().fold(0.0, f64::min);
    let high = shown.iter().copied().fold(low, f64::max);
    let level = |value: f64| {
        let share = if high > low { (value - low) / (high - low) } else { 0.0 };
        LEVELS[((share * LEVELS.len() as f64) as usize).min(LEVELS.len() - 1)]
    };
    shown.iter().map(|&value| level(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_value_has_its_error_and_the_age_of_its_oldest_pair() {
        assert_eq!(newest(Some(0.05), Some(0.002), None, ""), "0.0500 ± 0.0020");
        assert_eq!(newest(Some(0.05), Some(0.002), Some(12.4), ""), "0.0500 ± 0.0020 (pairs up to 12 s old)");
        assert_eq!(newest(Some(0.9), None, None, ""), "0.9000");
        assert_eq!(newest(None, None, Some(3.0), "one class"), "undefined: one class (pairs up to 3 s old)");
    }

    #[test]
    fn a_curve_is_drawn_from_0_to_its_highest_value() {
        assert_eq!(sparkline(&[0.0, 0.1, 0.2, 0.4]), "▁▃▅█");
        assert_eq!(sparkline(&[-0.4, 0.0, 0.4]), "▁▅█");
        assert_eq!(sparkline(&[0.3, 0.3]), "██");
        assert_eq!(sparkline(&[0.0, 0.0]), "▁▁");
        assert_eq!(sparkline(&[]), "");
        assert_eq!(sparkline(&vec![1.0; 500]).chars().count(), WIDTH);
    }
}
