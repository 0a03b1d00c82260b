//! `conceptwatch replay`: scores recordings of jobs in this process, or sends them to a sidecar.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use crate::server::client::Client;
use crate::server::peers::{Dialer, Protocol, Remote};
use crate::server::proto;
use crate::server::recording::{Item, Recording};
use leakage::field_error::FieldError;
use leakage::limits::plus_minus;

use super::client_options::Contact;
use super::failure::Failure;
use super::in_process::{InProcess, Port};
use super::logs;
use super::options::ServeOptions;
use super::scoring::named;
use super::terminal::{print, tell};

/// Replay recordings that jobs made with mode="offline"
///
/// Scores every evaluation pass in this process and prints a line for each. With --data-dir it keeps the curves; with
/// --address it sends everything to a running sidecar instead. Give the files of all ranks in one call. Rolling windows
/// get fewer points than in training.
#[derive(Args)]
pub struct ReplayOptions {
    /// Recordings: files that end in .cwrec.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// gRPC address of a sidecar to send the recordings to: HOST:PORT, https://HOST:PORT or unix:///path
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["data_dir", "config"])]
    address: Option<Remote>,
    #[command(flatten)]
    contact: Contact,
    /// Directory to keep the curves in, created if absent.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// TOML file with the options of `conceptwatch serve` for samples, windows and estimators.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Scores to print, by id [default: the main scores that have a value]
    #[arg(long, value_delimiter = ',', value_name = "ID,ID")]
    scores: Vec<String>,
    /// Print a JSON object for each pass, with all its scores.
    #[arg(long)]
    json: bool,
}

/// The scores to look at first, each with those for numbers and embeddings.
#[rustfmt::skip]
const MAIN: [&str; 10] = [
    "ctl_conditional", "ctl_conditional_r2", "embedding_ct_conditional", "icl_conditional", "embedding_ic_conditional",
    "intervention_drop", "task_accuracy", "task_r2", "concept_accuracy", "concept_r2",
];
/// Longest wait for the scores of one pass.
const PATIENCE: Duration = Duration::from_secs(3600);

pub fn run(options: &ReplayOptions) -> Result<(), Failure> {
    named(&options.scores).map_err(Failure::bad_input)?;
    let recordings = options.files.iter().map(|path| Recording::open(path)).collect::<Result<Vec<_>, _>>();
    let recordings = recordings.map_err(Failure::bad_input)?;
    let token = options.contact.token()?;
    logs::start("warn", false)?;
    let runtime = Runtime::new()?;
    let mut replay = Replay { options, parts: parts(recordings)?, tallies: BTreeMap::new() };
    if let Some(address) = &options.address {
        let dialer = options.contact.dialer(address, Protocol::Http2)?;
        let done = runtime.block_on(async { replay.to(&dialer, token.as_deref(), false).await });
        return done.and_then(|()| replay.summary());
    }
    let mut serve = ServeOptions::of_file(options.config.clone())?;
    if options.data_dir.is_some() {
        serve.data_dir.clone_from(&options.data_dir);
    }
    let token = serve.server()?.token;
    let sidecar = InProcess::start(&runtime, serve, [Port::ANY; 2])?;
    let done = runtime.block_on(replay.to(&Remote::from(sidecar.grpc).into(), token.as_deref(), true));
    sidecar.end(runtime)?;
    done.and_then(|()| replay.summary())
}

/// Counts for one run.
#[derive(Default)]
struct Tally {
    batches: u64,
    rows: u64,
    passes: u64,
    refused: u64,
    /// Reason of the first refusal.
    refusal: String,
}

struct Replay<'o> {
    options: &'o ReplayOptions,
    parts: Vec<Part>,
    tallies: BTreeMap<String, Tally>,
}

impl Replay<'_> {
    /// Sends everything. With `scored`, waits for the scores of each pass and prints them.
    async fn to(&mut self, dialer: &Dialer, token: Option<&str>, scored: bool) -> Result<(), Failure> {
        let mut relay = Client::connect(dialer, token).await?;
        for part in &mut self.parts {
            part.run = relay.start(part.start.clone()).await?;
            self.tallies.entry(part.run.clone()).or_default();
        }
        // Number of ranks that have ended each open pass, and the passes that a rank has left without ending them.
        let mut ended: BTreeMap<(String, String, u64, u32), u32> = BTreeMap::new();
        let mut left = BTreeSet::new();
        let ReplayOptions { scores, json, .. } = self.options;
        let mut shown: Option<Vec<String>> = None;
        while let Some((run, ranks, item)) = self.next()? {
            let tally = self.tallies.entry(run.clone()).or_default();
            let pass = item.pass().map(|(split, step, ordinal)| (run.clone(), split.to_owned(), step, ordinal));
            let ends = item.ends().map(str::to_owned);
            let answers = match item {
                Item::Start(start) => {
                    relay.start(without_process(&start)).await?;
                    continue;
                }
                Item::Finish(finish) => {
                    relay.finish(finish).await?;
                    continue;
                }
                Item::EndPass(end) => relay.end_pass(end).await?,
                Item::Batch(chunks) => {
                    tally.batches += 1;
                    relay.batch(chunks).await?
                }
            };
            let Some(pass) = pass else { continue };
            let mut all_taken = true;
            for answer in answers {
                tally.rows += answer.rows;
                if answer.outcome() == proto::ingest_response::Outcome::Refused {
                    all_taken = false;
                    // Once a rank has left a pass, the sidecar takes nothing more of it from the others.
                    if !left.contains(&pass) {
                        tally.refused += 1;
                        if tally.refusal.is_empty() {
                            tally.refusal = answer.message;
                        }
                    }
                }
            }
            let Some(why) = ends.filter(|_| all_taken) else { continue };
            if !why.is_empty() {
                if left.insert(pass.clone()) {
                    let (_, split, step, _) = pass;
                    tell(&format!(
                        "run '{run}', split '{split}', step {step}: discarded: the job left the evaluation without ending it: \
                         {why}"
                    ));
                }
                continue;
            }
            let count = ended.entry(pass.clone()).or_default();
            *count += 1;
            if *count < ranks {
                continue;
            }
            ended.remove(&pass);
            tally.passes += 1;
            if scored {
                let (run, split, step, ordinal) = pass;
                let mut point = relay.scores(&run, &split, (step, ordinal), PATIENCE).await?;
                if point.is_some() {
                    // Nothing trains meanwhile, and the next pass would take the place of those that wait for slow scores.
                    relay.complete(&run, &split, (step, ordinal), PATIENCE).await?;
                    point = relay.scores(&run, &split, (step, ordinal), PATIENCE).await?;
                }
                match point {
                    Some(point) if *json => print(&format!("{}\n", as_json(&point))),
                    Some(point) => {
                        let columns = columns(scores, shown.as_deref().unwrap_or_default(), &point);
                        if shown.as_ref() != Some(&columns) {
                            print(&title(&columns));
                        }
                        print(&line(&point, &columns));
                        shown = Some(columns);
                    }
                    None => tell(&format!("run '{run}', split '{split}', step {step}: got no scores")),
                }
            }
        }
        Ok(())
    }

    /// The next item by attempt and step, with its run and that run's number of ranks. Items of one file keep their order.
    fn next(&mut self) -> Result<Option<(String, u32, Item)>, Failure> {
        let waiting = self.parts.iter_mut().filter(|part| part.next.is_some());
        let place = |part: &&mut Part| (part.start.attempt, part.next.as_ref().map_or(u64::MAX, Item::step));
        let Some(part) = waiting.min_by_key(place) else { return Ok(None) };
        if let Some(Item::Start(start)) = &part.next {
            part.start = without_process(start);
        }
        let following = part.recording.next_item().map_err(Failure::bad_input)?;
        let item = std::mem::replace(&mut part.next, following);
        Ok(item.map(|item| (part.run.clone(), part.ranks, item.of_run(&part.run))))
    }

    /// Prints the counts of each run to standard error. Errors when a message was refused.
    fn summary(&self) -> Result<(), Failure> {
        let mut refused = Vec::new();
        for (run, tally) in &self.tallies {
            let Tally { batches, rows, passes, .. } = tally;
            tell(&format!("run '{run}': {batches} batches, {rows} rows, {passes} passes"));
            if tally.refused > 0 {
                refused.push(format!(
                    "run '{run}': {} messages were refused, the first: {}",
                    tally.refused, tally.refusal
                ));
            }
        }
        for recording in self.parts.iter().map(|part| &part.recording).filter(|recording| recording.cut_off() > 0) {
            let (path, bytes) = (recording.path().display(), recording.cut_off());
            tell(&format!("{path}: ignored the last {bytes} bytes: the message is incomplete"));
        }
        if refused.is_empty() { Ok(()) } else { Err(Failure::running(refused.join("\n"))) }
    }
}

/// A recording, of which the first item that was not sent is read.
struct Part {
    recording: Recording,
    /// The declaration of the attempt that it has come to.
    start: proto::StartRunRequest,
    /// The run's name in the sidecar.
    run: String,
    next: Option<Item>,
    /// The run's world size.
    ranks: u32,
}

/// Begins to read recordings. Errors when a run lacks that of a rank.
fn parts(recordings: Vec<Recording>) -> Result<Vec<Part>, Failure> {
    let mut of_run: BTreeMap<String, u32> = BTreeMap::new();
    for recording in &recordings {
        *of_run.entry(recording.run().to_owned()).or_default() += 1;
    }
    let mut parts = Vec::new();
    for mut recording in recordings {
        let ranks = of_run.get(recording.run()).copied().unwrap_or(1);
        let world_size = recording.start().run.as_ref().map_or(1, |run| run.world_size.max(1));
        if ranks < world_size {
            let message = format!("got the files of {ranks} ranks, expected all {world_size} of the run");
            return Err(FieldError::new(recording.path().display().to_string(), message).into());
        }
        let start = without_process(recording.start());
        let next = recording.next_item().map_err(Failure::bad_input)?;
        let run = recording.run().to_owned();
        parts.push(Part { recording, start, run, next, ranks: world_size });
    }
    Ok(parts)
}

/// A declaration without its process: recordings come in any order, so processes do not tell which attempt is newer.
fn without_process(start: &proto::StartRunRequest) -> proto::StartRunRequest {
    proto::StartRunRequest { process: String::new(), ..start.clone() }
}

/// The stated scores, or else the main ones that this point or an earlier one has.
fn columns(stated: &[String], shown: &[String], point: &proto::Point) -> Vec<String> {
    if !stated.is_empty() {
        return stated.to_vec();
    }
    let has = |id: &str| point.scores.iter().any(|score| score.id == id && score.value.is_some());
    let is_shown = |id: &&str| has(id) || shown.iter().any(|earlier| earlier == id);
    MAIN.into_iter().filter(is_shown).map(str::to_owned).collect()
}

/// The heads of the columns of [`line`].
fn title(scores: &[String]) -> String {
    let scores: String = scores.iter().map(|score| format!("  {score:>18}")).collect();
    format!("{:24} {:8} {:>8} {:>7}{scores}  (± 95 %)\n", "run", "split", "step", "rows")
}

fn line(point: &proto::Point, scores: &[String]) -> String {
    let mut text = format!("{:24} {:8} {:>8} {:>7}", point.run, point.split, point.step, point.rows);
    for id in scores {
        let found = point.scores.iter().find(|score| score.id == *id);
        let shown = found
            .and_then(|score| Some(format!("{:.4}{}", score.value?, plus_minus(score.standard_error))))
            .unwrap_or_else(|| "-".to_owned());
        text += &format!("  {shown:>width$}", width = id.len().max(18));
    }
    text + "\n"
}

fn as_json(point: &proto::Point) -> Value {
    let score = |score: &proto::Score| match score.value {
        Some(value) => json!({"value": value, "standard_error": score.standard_error}),
        None => json!({"undefined": score.undefined}),
    };
    let scores: Map<String, Value> = point.scores.iter().map(|one| (one.id.clone(), score(one))).collect();
    json!({
        "run": point.run, "split": point.split, "step": point.step, "epoch": point.epoch, "rows": point.rows,
        "tie_fraction": point.tie_fraction, "warnings": point.warnings, "scores": scores,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_those_of_main_scores_with_a_value() {
        let score = |id: &str, value| proto::Score { id: id.into(), value, ..proto::Score::default() };
        let with = |scores: &[proto::Score]| proto::Point { scores: scores.to_vec(), ..proto::Point::default() };
        let numbers = with(&[score("task_accuracy", None), score("task_r2", Some(0.5)), score("ctl", Some(0.1))]);
        let classes = with(&[score("task_accuracy", Some(0.5))]);
        assert_eq!(columns(&[], &[], &numbers), ["task_r2"]);
        assert_eq!(columns(&[], &columns(&[], &[], &numbers), &classes), ["task_accuracy", "task_r2"]);
        assert_eq!(columns(&["ctl".into()], &[], &classes), ["ctl"]);
    }
}
