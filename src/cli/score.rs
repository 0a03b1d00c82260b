//! `conceptwatch score`: computes all scores of files, without a sidecar.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Map, Value, json};

use crate::server::unix_time;
use information::{Kind, Settings};
use leakage::batch::Batch;
use leakage::diagnosis::{Verdict, verdict};
use leakage::field_error::{in_short, printable};
use leakage::point::{LeftOut, Outcome, Point};
use leakage::prepare::Prepared;
use leakage::repeats::{distinct_rows, remark};
use leakage::run::{ActivationColumns, ActivationKind, LabelKind, Run};
use leakage::sample::{Sample, repeated_ids};
use leakage::score::catalogue::{CATALOGUE, CATALOGUE_VERSION, Score, find};
use leakage::score::{Wanted, evaluate, test};
use leakage::tensor::TensorName;

use super::failure::{BAD_INPUT, conclude};
use super::progress::Progress;
use super::report::{Page, Report};
use super::terminal::tell;
use super::{outputs, system_memory};

/// Score files of model outputs
///
/// Their arrays are named like the tensors of the protocol, such as concept_activations [n, k], concept_labels [n, k] and
/// task_labels [n]. Other arrays are listed and ignored; --map gives them the names that scores know. Scores whose
/// arrays are absent are omitted.
#[derive(Args)]
pub struct Options {
    /// .npz archives; .npy arrays, or folders of them, named like the file; .safetensors; .csv tables, whose columns
    /// concept_labels.wing and concept_labels.beak are the array concept_labels and name its concepts. As
    /// `python -m conceptwatch score` also .parquet tables and the tensors of .pt files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Take the file's ARRAY as NAME, one of the names that scores know: --map concept_labels=c reads the array c as
    /// concept_labels. In tables, concept_labels=has_* takes all columns that start with has_. May be given repeatedly.
    #[arg(long, value_name = "NAME=ARRAY")]
    map: Vec<outputs::Mapping>,
    /// Also write a report with charts to this file: one HTML page that needs nothing else, to send to others.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Take concept labels of -1, or NaN among floats, as unknown. Each score of a concept or pair then uses the rows in which
    /// its labels are known, and leaves it out where these are fewer than 50.
    #[arg(long)]
    missing_labels: bool,
    /// Take concept labels of -1 as absent, and of 1 as present; with --missing-labels 0 or NaN is unknown.
    #[arg(long)]
    signed_labels: bool,
    /// Compute only these scores, by id. A score whose arrays are absent is undefined; the reason names the array.
    #[arg(long, value_delimiter = ',', value_name = "ID,ID")]
    scores: Vec<String>,
    /// Columns of concept_activations for binary concepts: one_per_concept, or two_per_concept (absent, present)
    /// [default: the file's array activation_columns, or one_per_concept]
    #[arg(long, value_parser = activation_columns, value_name = "LAYOUT")]
    activation_columns: Option<ActivationColumns>,
    /// The columns of concept_activations were learnt without labels, such as those of a sparse autoencoder, and are
    /// matched to the concepts [default: the file's array latents, their number]
    #[arg(long, conflicts_with = "activation_columns")]
    latents: bool,
    /// Kind of concept_activations [default: the file's array activation_kind, or a guess from the values, which is printed]
    #[arg(long, value_parser = activation_kind(), value_name = "KIND")]
    activation_kind: Option<ActivationKind>,
    /// Kind of concept_labels; measured quantities are continuous [default: a guess from the values, which is printed]
    #[arg(long, value_parser = label_kind(), value_name = "KIND", conflicts_with = "signed_labels")]
    concept_kind: Option<LabelKind>,
    /// Kind of task_labels; measured quantities are continuous [default: a guess from the values, which is printed]
    #[arg(long, value_parser = label_kind(), value_name = "KIND")]
    task_kind: Option<LabelKind>,
    /// tie_aware takes the expectation over all orders of equal distances; published adds noise, as the authors' code does.
    #[arg(long, default_value = Kind::TieAware.name(), value_parser = estimator())]
    estimator: Kind,
    /// Number of neighbours of the estimators.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    neighbours: u16,
    /// Number of repeats of the published estimator, each with its own noise.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: u16,
    /// Seed of the noise.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Number of threads; the result does not depend on it [default: all cores]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// MiB that the arrays and scoring may take. A file that needs more is refused; a score that does is undefined
    /// [default: half of the memory that is available, at most 4096]
    #[arg(long, value_parser = clap::value_parser!(u32).range(8..=1 << 24), value_name = "MIB")]
    memory_mib: Option<u32>,
    /// Omit the permutation tests of conditional leakage, which give p_value, per_concept_q and matrix_q.
    #[arg(long)]
    no_tests: bool,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Reads an estimator's name; help and errors list the possible ones.
fn estimator() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.map(Kind::name)).try_map(|name| name.parse::<Kind>())
}

fn activation_kind() -> impl TypedValueParser<Value = ActivationKind> {
    PossibleValuesParser::new(ActivationKind::ALL.map(ActivationKind::text))
        .map(|text| ActivationKind::parse(&text).expect("one of the possible values"))
}

fn label_kind() -> impl TypedValueParser<Value = LabelKind> {
    PossibleValuesParser::new([LabelKind::Class, LabelKind::Continuous].map(LabelKind::text))
        .map(|text| LabelKind::parse(&text).expect("one of the possible values"))
}

pub fn run(options: Options) -> ExitCode {
    match score(&options) {
        Ok(text) => conclude("score", Ok(text)),
        Err(message) => {
            // Names in a file are untrusted: they must not break the line or send escape sequences to the terminal.
            tell(&printable(&message));
            ExitCode::from(BAD_INPUT)
        }
    }
}

fn score(options: &Options) -> Result<String, String> {
    let started = Instant::now();
    let named: Vec<&'static Score> = options.scores.iter().map(|id| named(id)).collect::<Result<_, _>>()?;
    let layout = outputs::Layout {
        columns: options.activation_columns,
        latents: options.latents,
        missing_labels: options.missing_labels,
        signed_labels: options.signed_labels,
        activation_kind: options.activation_kind,
        concept_kind: options.concept_kind,
        task_kind: options.task_kind,
    };
    let limit = options.memory_mib.map_or_else(half_of_available, |mebibytes| (mebibytes as usize) << 20);
    let mut memory = outputs::Memory { limit, used: 0 };
    // Before the work, so that a place that cannot be written is known at once.
    let page = options.html.as_deref().map(Page::create).transpose()?;
    let names = outputs::Names::new(&options.map).map_err(|fault| fault.to_string())?;
    let progress = Progress::start();
    let read = outputs::read(&options.files, &names, layout, &mut memory, &|what| progress.say(what));
    let (run, batch, guesses) = read.map_err(|fault| fault.to_string())?;
    let ids_remark = repeated(&batch);
    let sample = Sample::of_batch(&batch, &run);
    drop(batch);
    let distinct = distinct_rows(&sample, &run);
    let repeated = distinct.as_ref().map_or(0, |distinct| sample.rows() - distinct.len());
    let sample = match distinct {
        Some(rows) => sample.gather(&rows),
        None => sample,
    };
    let settings = Settings {
        kind: options.estimator,
        neighbours: usize::from(options.neighbours),
        repeats: usize::from(options.repeats),
        seed: options.seed,
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads.map_or(0, usize::from)).build();
    let pool = pool.map_err(|e| format!("--threads: {e}"))?;
    let prepared = Prepared::new(&sample, &run, settings).with_memory(memory.limit - memory.used);
    let wanted = if options.scores.is_empty() { Wanted::Available } else { Wanted::Named(&named) };
    let (scores, tie_fraction) = pool.install(|| {
        let show = |at: usize, total: usize, score: &Score| {
            progress.say(&format!("{}/{total} {}", at + 1, score.id));
            ControlFlow::Continue(())
        };
        let mut scores = evaluate(&prepared, wanted, show).unwrap_or_default();
        let is_tested = |score: &Score| !options.no_tests && scores.iter().any(|(other, _)| other.id == score.id);
        for (tested, significance) in test(&prepared, is_tested, show).unwrap_or_default() {
            let found = scores.iter_mut().find(|(score, _)| score.id == tested.id);
            found.into_iter().for_each(|(_, outcome)| outcome.add(significance.clone()));
        }
        (scores, prepared.tie_fraction())
    });
    drop(progress);
    let passed_over = names.passed_over();
    if scores.is_empty() {
        return Err(nothing_to_score(&options.files, &names, &passed_over));
    }
    let kinds = kinds(&run, &sample);
    guesses.doubts.iter().for_each(|doubt| tell(&printable(doubt)));
    let warnings = [guesses.doubts, ids_remark.into_iter().collect(), prepared.warnings()];
    let warnings: Vec<String> =
        warnings.concat().into_iter().chain(remark(repeated as u64, sample.rows() as u64)).collect();
    let seconds = started.elapsed().as_secs_f64();
    let ignored = match &passed_over[..] {
        [] => String::new(),
        names => format!("ignored, as no score knows the name: {}", names.join(", ")),
    };
    if !ignored.is_empty() {
        tell(&format!("{ignored} (see --map)"));
    }
    let point = Point {
        run: run.name.as_str().into(),
        split: "scored".into(),
        time: unix_time(),
        rows: sample.rows() as u64,
        rows_seen: (sample.rows() + repeated) as u64,
        repeated_rows: repeated as u64,
        concept_rows: prepared.concept_rows(),
        tie_fraction,
        warnings,
        estimator: options.estimator.name().to_owned(),
        neighbours: options.neighbours.into(),
        seed: options.seed,
        catalogue_version: CATALOGUE_VERSION,
        seconds,
        scores: scores.into_iter().map(|(score, outcome)| (score.id.to_owned(), outcome)).collect(),
        ..Point::default()
    };
    // A file has no step.
    let verdict = verdict(&run, std::slice::from_ref(&point), true, true, None);
    let verdict = verdict.map(|verdict| Verdict { since: None, ..verdict });
    let mut text = format!(
        "{} rows, {} concepts, {} estimator, {:.0} % ties, {seconds:.2} s{}\n\n",
        sample.rows(),
        run.concept_count(),
        options.estimator.name(),
        100.0 * tie_fraction,
        guessed(&kinds, &guesses.guessed),
    );
    if let (Some(fewest), Some(most)) = (point.concept_rows.iter().min(), point.concept_rows.iter().max()) {
        text += &format!("labels of a concept known in {fewest} to {most} rows\n\n");
    }
    // The left-out parts and the reasons, with the scores that leave them out.
    let mut left_out: Vec<(&LeftOut, Vec<&str>)> = Vec::new();
    for (id, outcome) in &point.scores {
        text += &match outcome {
            Outcome::Value(value) => {
                let error = value.standard_error.map_or(String::new(), |error| format!(" ± {error:.4}"));
                let p = value.p_value.map_or(String::new(), |p| format!(", p = {}", of_p(p)));
                let over = value.left_out.as_ref().map_or(String::new(), |left_out| format!("  {left_out}"));
                format!("{id:26} {:>8.4}{error}{p}{over}\n", value.value)
            }
            Outcome::Undefined(undefined) => format!("{id:26} undefined: {}\n", undefined.why),
        };
        if let Some(left) = outcome.value().and_then(|value| value.left_out.as_ref()) {
            match left_out.iter_mut().find(|(known, _)| *known == left) {
                Some((_, ids)) => ids.push(id),
                None => left_out.push((left, vec![id])),
            }
        }
    }
    for (left, ids) in left_out {
        let names: Vec<&str> = left.concepts.iter().map(|&i| run.concepts[i as usize].name.as_str()).collect();
        let names = if names.is_empty() { "some pairs".to_owned() } else { names.join(", ") };
        text += &format!("\nleft out of {}: {names} ({})\n", ids.join(", "), left.why);
    }
    for warning in &point.warnings {
        text += &format!("\nnote: {warning}\n");
    }
    text += &verdict.as_ref().map_or(String::new(), |verdict| format!("\nverdict: {verdict}\n"));
    if let Some(page) = page {
        let report = Report::of_files(&options.files, &run, &point).map_err(|failure| failure.message)?;
        page.write(&report.html(&format!("{text}\n{ignored}")))?;
    }
    if options.json {
        let scores: Map<String, Value> =
            point.scores.iter().map(|(id, outcome)| (id.clone(), json!(outcome))).collect();
        let mut object = json!({
            "rows": sample.rows(), "concepts": run.concept_count(), "estimator": options.estimator.name(),
            "tie_fraction": tie_fraction, "warnings": point.warnings, "scores": scores, "seconds": seconds,
            "verdict": verdict,
        });
        if repeated > 0 {
            object["repeated_rows"] = json!(repeated);
        }
        for (name, kind) in kinds {
            object[name] = json!(kind);
        }
        object["guessed"] = json!(guesses.guessed);
        if !passed_over.is_empty() {
            object["passed_over"] = json!(passed_over);
        }
        if !point.concept_rows.is_empty() {
            object["concept_rows"] = json!(point.concept_rows);
        }
        return Ok(format!("{object}\n"));
    }
    Ok(text)
}

/// The remark that `sample_ids` do not identify rows.
fn repeated(batch: &Batch) -> Option<String> {
    let ids = batch.tensor(TensorName::SampleIds)?;
    let distinct = batch.kept_rows().filter_map(|row| ids.id(row)).collect::<HashSet<u64>>().len() as u64;
    repeated_ids(batch.rows() as u64 - distinct, distinct)
}

/// Returns the kinds that the arrays were read as, by their names in the JSON.
fn kinds(run: &Run, sample: &Sample) -> Vec<(&'static str, &'static str)> {
    use TensorName::{ConceptActivations, ConceptLabels, TaskLabels};
    let kinds = [
        (ConceptActivations, "activation_kind", run.activation_kind.text()),
        (ConceptLabels, "concept_kind", run.concept_label_kind.text()),
        (TaskLabels, "task_kind", run.task_label_kind.text()),
    ];
    let given = kinds.into_iter().filter(|(tensor, ..)| sample.column(*tensor).is_some());
    given.map(|(_, name, kind)| (name, kind)).collect()
}

/// The kinds that were guessed, for the first line.
fn guessed(kinds: &[(&str, &str)], guessed: &[&str]) -> String {
    let guesses = kinds.iter().filter(|(name, _)| guessed.contains(name));
    let guesses: Vec<String> = guesses.map(|(name, kind)| format!("{name} {kind}")).collect();
    if guesses.is_empty() { String::new() } else { format!("; guessed: {}", guesses.join(", ")) }
}

/// Why no score can be computed, with the option that would name the arrays that were passed over.
fn nothing_to_score(files: &[PathBuf], names: &outputs::Names, passed_over: &[String]) -> String {
    let place = if let [file] = files { file.display().to_string() } else { "files".to_owned() };
    let mut why = format!(
        "{place}: no score can be computed from these arrays, expected at least two of concept_activations, concept_labels \
         and task_labels"
    );
    if !passed_over.is_empty() {
        why += &format!("; ignored, as no score knows the name: {}", in_short(&passed_over.join(", ")));
    }
    let maps: Vec<String> = names.like_tensors().iter().map(|name| format!("--map \"{name}={name}*\"")).collect();
    if !maps.is_empty() {
        why += &format!("; try {}", maps.join(" "));
    }
    why
}

/// A p-value as a person writes it: three decimals at most, with an exponent only below that.
fn of_p(p: f64) -> String {
    if p < 0.001 {
        return format!("{p:.1e}");
    }
    let text = format!("{p:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn activation_columns(text: &str) -> Result<ActivationColumns, String> {
    ActivationColumns::parse(text).ok_or_else(|| format!("got '{text}', expected one_per_concept or two_per_concept"))
}

/// Half of the memory that is available to this process, at most 4 GiB.
fn half_of_available() -> usize {
    let system = system_memory::memory();
    let of_group = system.cgroup_limits().map_or(u64::MAX, |limits| limits.total_memory);
    let available = system.available_memory().min(of_group);
    usize::try_from(available / 2).unwrap_or(usize::MAX).clamp(64 << 20, 4 << 30)
}

fn named(id: &str) -> Result<&'static Score, String> {
    find(id).ok_or_else(|| {
        let known: Vec<&str> = CATALOGUE.iter().map(|score| score.id).collect();
        format!("--scores: got '{id}', expected one of {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::of_p;

    #[test]
    fn p_values_are_plain_numbers() {
        let written = [1.0, 0.005, 0.0123, 0.001, 2.5e-4].map(of_p);
        assert_eq!(written, ["1", "0.005", "0.012", "0.001", "2.5e-4"]);
    }
}
