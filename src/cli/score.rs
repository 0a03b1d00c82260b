//! `conceptwatch score`: computes all scores of files, without a sidecar.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use serde_json::{Map, Value, json};

use crate::server::unix_time;
use leakage::field_error::{in_short, printable};
use leakage::limits::plus_minus;
use leakage::point::{LeftOut, Outcome, Point};
use leakage::run::Run;
use leakage::sample::Sample;
use leakage::tensor::TensorName;

use super::outputs;
use super::progress::Progress;
use super::report::{Page, Report};
use super::rows;
use super::scoring::{Scored, Scoring, TOO_FEW, verdict_on};
use super::terminal::tell;

/// Score files of model outputs
///
/// Arrays are named like the tensors of the protocol, such as concept_activations [n, k], concept_labels [n, k] and
/// task_labels [n]; --map gives others these names.
#[derive(Args)]
pub struct Options {
    /// .npz, .npy or folders of them, .safetensors, .csv tables; as `python -m conceptwatch score` also .parquet and
    /// .pt. See docs/files.md.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Take the file's ARRAY as NAME: concept_labels=c reads the array c as concept_labels. In tables,
    /// concept_labels=has_* takes all columns that start with has_. May be given repeatedly.
    #[arg(long, value_name = "NAME=ARRAY")]
    map: Vec<outputs::Mapping>,
    /// Also write a report with charts to this file: one HTML page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    layout: outputs::Layout,
    /// Also list the rows that contribute most to ctl_conditional, or to that of a concept: ctl_conditional:wing. See
    /// docs/leakage.md.
    #[arg(long, value_name = "SCORE[:CONCEPT]")]
    rows: Option<String>,
    /// The task of --rows [default: the one with the highest ctl_conditional]
    #[arg(long, value_name = "TASK", requires = "rows")]
    rows_task: Option<String>,
    #[command(flatten)]
    scoring: Scoring,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

pub fn run(options: &Options) -> Result<String, String> {
    let started = Instant::now();
    let scoring = &options.scoring;
    scoring.named()?;
    let mut memory = outputs::Memory { limit: scoring.memory(), used: 0 };
    // Before the work, so that a place that cannot be written is known at once.
    let page = options.html.as_deref().map(Page::create).transpose()?;
    let names = outputs::Names::new(&options.map).map_err(|fault| fault.to_string())?;
    let progress = Progress::start();
    let read = outputs::read(&options.files, &names, &options.layout, &mut memory, &|what| progress.say(what));
    let (run, batch, guesses) = read.map_err(|fault| fault.to_string())?;
    let before_each = |what: &str| {
        progress.say(what);
        ControlFlow::Continue(())
    };
    let wanted_rows = |wanted| rows::Wanted::parse(wanted, options.rows_task.as_deref(), &run);
    let of_rows = options.rows.as_deref().map(wanted_rows).transpose()?;
    let mut found = scoring.score(&run, batch, memory.limit - memory.used, &before_each)?;
    let of_rows = of_rows.map(|wanted| wanted.find(&run, &found)).transpose()?;
    drop(progress);
    let passed_over = names.passed_over();
    if found.scores.is_empty() {
        return Err(nothing_to_score(&options.files, &names, &passed_over));
    }
    let kinds = kinds(&run, &found.sample);
    if options.json {
        guesses.doubts.iter().for_each(|doubt| tell(&printable(doubt)));
    }
    found.warnings.splice(..0, guesses.doubts);
    let seconds = started.elapsed().as_secs_f64();
    let ignored = match &passed_over[..] {
        [] => String::new(),
        names => format!("ignored, as no score knows the name: {}", outputs::listed(names)),
    };
    if !ignored.is_empty() {
        tell(&format!("{ignored} (see --map)"));
    }
    let point =
        Point { run: run.name.as_str().into(), split: "scored".into(), time: unix_time(), seconds, ..found.point() };
    let verdict = verdict_on(&run, &point);
    let Scored { sample, scores, tie_fraction, repeated, concept_rows: known, warnings, .. } = &found;
    let rows = sample.rows();
    let mut text = format!(
        "{rows} rows, {} concept{}, {} estimator, {:.0} % ties, {seconds:.2} s, ± 95 %{}\n\n",
        run.concept_count(),
        if run.concept_count() == 1 { "" } else { "s" },
        point.estimator,
        100.0 * tie_fraction,
        guessed(&run, &kinds, &guesses.guessed),
    );
    if let (Some(fewest), Some(most)) = (known.iter().min(), known.iter().max()) {
        text += &format!("labels of a concept known in {fewest} to {most} rows\n\n");
    }
    // The left-out parts and the reasons, with the scores that leave them out.
    let mut left_out: Vec<(&LeftOut, Vec<&str>)> = Vec::new();
    for (score, outcome) in scores {
        text += &match outcome {
            Outcome::Value(value) => {
                let error = plus_minus(value.standard_error);
                let p = value.p_value.map_or(String::new(), |p| format!(", p = {}", of_p(p)));
                let over = value.left_out.as_ref().map_or(String::new(), |left_out| format!("  {left_out}"));
                format!("{:26} {:>8.4}{error}{p}{over}\n", score.id, value.value)
            }
            Outcome::Undefined(undefined) => format!("{:26} undefined: {}\n", score.id, undefined.why),
        };
        for (task, of_task) in run.tasks.iter().zip(outcome.per_task().unwrap_or_default()) {
            text += &match of_task {
                Outcome::Value(value) => {
                    format!("  {:24} {:>8.4}{}\n", task.name, value.value, plus_minus(value.standard_error))
                }
                Outcome::Undefined(undefined) => format!("  {:24} undefined: {}\n", task.name, undefined.why),
            };
        }
        if let Some(left) = outcome.value().and_then(|value| value.left_out.as_ref()) {
            match left_out.iter_mut().find(|(known, _)| *known == left) {
                Some((_, ids)) => ids.push(score.id),
                None => left_out.push((left, vec![score.id])),
            }
        }
    }
    for (left, ids) in left_out {
        let names: Vec<&str> = left.concepts.iter().map(|&i| run.concepts[i as usize].name.as_str()).collect();
        let names = if names.is_empty() { "some pairs".to_owned() } else { names.join(", ") };
        text += &format!("\nleft out of {}: {names} ({})\n", ids.join(", "), left.why);
    }
    for warning in warnings {
        text += &format!("\nnote: {warning}\n");
    }
    text += &of_rows.as_ref().map_or(String::new(), rows::Found::text);
    text += &verdict.as_ref().map_or(String::new(), |verdict| format!("\nverdict: {verdict}\n"));
    if let Some(page) = page {
        let report = Report::of_files(&options.files, &run, &point).map_err(|failure| failure.message)?;
        page.write(&report.html(&format!("{text}\n{ignored}")))?;
    }
    if options.json {
        let scores: Map<String, Value> =
            scores.iter().map(|(score, outcome)| (score.id.to_owned(), json!(outcome))).collect();
        let mut object = json!({
            "rows": rows, "concepts": run.concept_count(), "estimator": point.estimator,
            "tie_fraction": tie_fraction, "warnings": warnings, "scores": scores, "seconds": seconds,
            "verdict": verdict,
        });
        if run.tasks.len() > 1 {
            object["tasks"] = json!(run.tasks.iter().map(|task| &task.name).collect::<Vec<_>>());
        }
        if *repeated > 0 {
            object["repeated_rows"] = json!(repeated);
        }
        for (name, kind) in kinds {
            object[name] = if let [of_all] = kind[..] { json!(of_all) } else { json!(kind) };
        }
        object["guessed"] = json!(guesses.guessed);
        if !passed_over.is_empty() {
            object["passed_over"] = json!(passed_over);
        }
        if !known.is_empty() {
            object["concept_rows"] = json!(known);
        }
        if let Some(of_rows) = &of_rows {
            object["leaking_rows"] = json!(of_rows);
        }
        return Ok(format!("{object}\n"));
    }
    Ok(text)
}

/// Returns the kinds that the arrays were read as, by their names in the JSON: one, or one for each concept or task where
/// they differ.
fn kinds(run: &Run, sample: &Sample) -> Vec<(&'static str, Vec<&'static str>)> {
    use TensorName::{ConceptActivations, ConceptLabels, TaskLabels};
    let of = |count: usize, kind: &dyn Fn(usize) -> &'static str| {
        let kinds: Vec<&str> = (0..count).map(kind).collect();
        if kinds.iter().all(|kind| *kind == kinds[0]) { vec![kinds[0]] } else { kinds }
    };
    let kinds = [
        (ConceptActivations, "activation_kind", of(run.concept_count(), &|i| run.activation_kind(i).text())),
        (ConceptLabels, "concept_kind", of(run.concept_count(), &|i| run.label_kind(i).text())),
        (TaskLabels, "task_kind", of(run.task_count(), &|task| run.task_kind(task).text())),
    ];
    let given = kinds.into_iter().filter(|(tensor, ..)| sample.column(*tensor).is_some());
    given.map(|(_, name, kind)| (name, kind)).collect()
}

/// The kinds that were guessed, for the first line.
fn guessed(run: &Run, kinds: &[(&str, Vec<&str>)], guessed: &[&str]) -> String {
    let concepts = || run.concepts.iter().map(|concept| &concept.name).collect::<Vec<_>>();
    let tasks = || run.tasks.iter().map(|task| &task.name).collect();
    let of_all = |name: &str, of: &[&str]| match of {
        [kind] => (*kind).to_owned(),
        several => {
            let names = if name == "task_kind" { tasks() } else { concepts() };
            let each = several.iter().zip(names).map(|(kind, name)| format!("{name}={kind}"));
            in_short(&each.collect::<Vec<_>>().join(","))
        }
    };
    let guesses = kinds.iter().filter(|(name, _)| guessed.contains(name));
    let guesses: Vec<String> = guesses.map(|(name, kinds)| format!("{name} {}", of_all(name, kinds))).collect();
    if guesses.is_empty() { String::new() } else { format!("; guessed: {}", guesses.join(", ")) }
}

/// Why no score can be computed, with the option that would name the arrays that were passed over.
fn nothing_to_score(files: &[PathBuf], names: &outputs::Names, passed_over: &[String]) -> String {
    let place = if let [file] = files { file.display().to_string() } else { "files".to_owned() };
    let mut why = format!("{place}: no score can be computed from these arrays, {TOO_FEW}");
    if !passed_over.is_empty() {
        why += &format!("; ignored, as no score knows the name: {}", in_short(&outputs::listed(passed_over)));
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

#[cfg(test)]
mod tests {
    use super::of_p;

    #[test]
    fn p_values_are_plain_numbers() {
        let written = [1.0, 0.005, 0.0123, 0.001, 2.5e-4].map(of_p);
        assert_eq!(written, ["1", "0.005", "0.012", "0.001", "2.5e-4"]);
    }
}
