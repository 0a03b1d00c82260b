//! `conceptwatch export`: writes runs as tables, one file for each kind of row. Every stored number is written in full.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::http::StatusCode;
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use crate::history::{Limits, Postgres, Sqlite};
use crate::search::Search;
use leakage::field_error::{FieldError, in_short};
use leakage::score::SCORE_OF_ROWS;

use super::failure::Failure;
use super::import::copy;
use super::run_targets::Target;
use super::source::Source;
use super::terminal::tell;

/// Write runs as tables
///
/// Writes a file for each kind of row: runs, points (an evaluation), scores (a score of an evaluation), concepts and
/// pairs (its values), unscored (passes without an evaluation), and rows (those that leak most, of a running sidecar).
#[derive(Args)]
pub struct Options {
    /// Runs by name; by default all.
    #[arg(value_name = "RUN")]
    runs: Vec<String>,
    /// Words of names, titles and labels, and conditions on labels such as 'lambda<1'; a run must match all of them.
    #[arg(long, value_name = "TEXT", conflicts_with = "runs")]
    search: Option<String>,
    /// Directory for the files; it is created if it is absent.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// What to write. Parquet is written by the Python package: python -m conceptwatch export
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,
    /// Kinds of rows to leave out, such as pairs, which are most of the bytes.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KIND")]
    without: Vec<Kind>,
    /// Write CSV texts unchanged, without apostrophes, for programs other than spreadsheets.
    #[arg(long)]
    as_is: bool,
    #[command(flatten)]
    source: Source,
    /// Read this database instead: postgres://USER@HOST:PORT/DATABASE.
    #[arg(long, value_name = "URL", conflicts_with_all = ["address", "data_dir"])]
    store: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Csv,
    /// One JSON object a line.
    Jsonl,
    /// By the Python package: python -m conceptwatch export
    Parquet,
    /// A data directory as a sidecar keeps it, with everything that the database has; needs --store.
    History,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Runs,
    Points,
    Scores,
    Concepts,
    Pairs,
    Unscored,
    Rows,
}

impl Kind {
    /// The columns after `source` and `run`.
    #[rustfmt::skip]
    fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Runs => &[
                "title", "note", "started", "finished", "activation_kind", "world_size", "concepts", "labels",
            ],
            Self::Points => &[
                "split", "step", "epoch", "time", "rows", "concept_rows", "rows_seen", "provisional", "incomplete",
                "superseded", "launch", "restart", "ordinal", "tie_fraction", "warnings", "estimator", "neighbours",
                "seed", "catalogue_version", "seconds",
            ],
            Self::Scores => &[
                "split", "step", "superseded", "launch", "restart", "ordinal", "score", "value", "standard_error",
                "undefined", "p_value", "change_error", "age", "left_out", "curve", "per_task",
            ],
            Self::Concepts => &[
                "split", "step", "superseded", "launch", "restart", "ordinal", "score", "concept", "value", "q",
            ],
            Self::Pairs => &[
                "split", "step", "superseded", "launch", "restart", "ordinal", "score", "from", "to", "value", "q",
                "age",
            ],
            Self::Unscored => &["split", "step", "ordinal", "time", "outcome", "reason", "rows_seen"],
            Self::Rows => &["split", "step", "score", "task", "concept", "id", "local", "term", "task_label", "group"],
        }
    }
}

pub fn run(options: &Options) -> Result<String, Failure> {
    if options.format == Format::Parquet {
        let how = "got parquet, which the Python package writes: python -m conceptwatch export, with pyarrow or Polars";
        return Err(FieldError::new("format", how).into());
    }
    if options.format == Format::History {
        return history(options);
    }
    let mut tables = Tables::create(options)?;
    let (mut found, mut targets) = (Vec::new(), 0);
    let mut take = |target: &Target<'_>| {
        targets += 1;
        let mut after = None;
        loop {
            let mut asked = vec![("search", options.search.clone().unwrap_or_default()), ("limit", "200".to_owned())];
            asked.extend(after.take().map(|next| ("after", next)));
            let page = target.ask("/api/v1/runs", &asked)?.expect_ok()?;
            for run in page["runs"].as_array().into_iter().flatten() {
                let name = run["name"].as_str().unwrap_or_default();
                if options.runs.is_empty() || options.runs.iter().any(|wanted| wanted == name) {
                    tables.run(target, run)?;
                    found.push(name.to_owned());
                }
            }
            match page["next"].as_str() {
                Some(next) => after = Some(next.to_owned()),
                None => return Ok(()),
            }
        }
    };
    let unread = match &options.store {
        Some(url) => {
            take(&Target::of_store("database".to_owned(), Arc::new(Postgres::open(url)?))?)?;
            Vec::new()
        }
        None => options.source.each_target(take)?,
    };
    if let Some(missing) = options.runs.iter().find(|wanted| !found.contains(wanted)) {
        let why = unread.first().map(|why| format!(", and {why}")).unwrap_or_default();
        return Err(FieldError::new("run", format!("'{}' is unknown{why}", in_short(missing))).into());
    }
    if let (true, Some(why)) = (targets == 0, unread.first()) {
        return Err(Failure::running(why));
    }
    for why in unread {
        tell(&format!("conceptwatch export: {why}"));
    }
    let rows = tables.finish()?;
    Ok(format!("{} runs, {rows} rows in {}\n", found.len(), options.to.display()))
}

/// Copies runs of a database into a data directory.
fn history(options: &Options) -> Result<String, Failure> {
    let Some(url) = &options.store else {
        return Err(FieldError::new("format", "got history without a database, expected --store").into());
    };
    if !options.without.is_empty() {
        return Err(FieldError::new("without", "got kinds to leave out, expected none of a history").into());
    }
    let from = Postgres::open(url)?;
    let to = Sqlite::open(Some(&options.to), Limits { bytes: u64::MAX })?;
    let search = Search::of(options.search.as_deref().unwrap_or_default());
    let named = |name: &str| options.runs.is_empty() || options.runs.iter().any(|wanted| wanted == name);
    let copied = copy(&from, &to, |stored| {
        named(&stored.run.name) && search.matches(&stored.run.name, stored.title.as_deref(), &stored.run.labels)
    })?;
    to.write_at_last()?;
    Ok(copied)
}

/// The files in the making. They get their names when they are complete.
struct Tables {
    directory: PathBuf,
    as_is: bool,
    tables: Vec<(Kind, Table)>,
}

struct Table {
    name: String,
    writer: Writer,
    rows: u64,
}

enum Writer {
    Csv(Box<csv::Writer<BufWriter<File>>>),
    Jsonl(BufWriter<File>),
}

/// The source, the name, the concepts and the tasks of the run that rows belong to.
struct Of<'a> {
    source: String,
    run: &'a str,
    concepts: Vec<&'a str>,
    tasks: Vec<&'a str>,
}

impl Drop for Tables {
    fn drop(&mut self) {
        for (_, table) in &self.tables {
            // Gone already where they are complete.
            let _ = std::fs::remove_file(self.directory.join(part(&table.name)));
        }
    }
}

fn part(name: &str) -> String {
    format!(".{name}.part")
}

impl Tables {
    fn create(options: &Options) -> Result<Self, Failure> {
        let Options { to: directory, format, without, as_is, .. } = options;
        let format = *format;
        let fault = |message: String| Failure::from(FieldError::new("to", message));
        std::fs::create_dir_all(directory)
            .map_err(|error| fault(format!("{} cannot be created: {error}", directory.display())))?;
        let mut tables = Self { directory: directory.to_owned(), as_is: *as_is, tables: Vec::new() };
        let extension = if format == Format::Csv { "csv" } else { "jsonl" };
        for kind in Kind::value_variants().iter().copied().filter(|kind| !without.contains(kind)) {
            let value = kind.to_possible_value();
            let name = format!("{}.{extension}", value.as_ref().map_or("", PossibleValue::get_name));
            if directory.join(&name).exists() {
                return Err(fault(format!(
                    "{} exists, expected a directory without it",
                    directory.join(&name).display()
                )));
            }
            let file = File::create(directory.join(part(&name)))
                .map_err(|error| fault(format!("{} cannot be written: {error}", directory.join(&name).display())))?;
            let file = BufWriter::with_capacity(1 << 18, file);
            let mut writer = match format {
                Format::Csv => Writer::Csv(Box::new(csv::Writer::from_writer(file))),
                _ => Writer::Jsonl(file),
            };
            if let Writer::Csv(writer) = &mut writer {
                writer.write_record(["source", "run"].iter().chain(kind.columns()))?;
            }
            tables.tables.push((kind, Table { name, writer, rows: 0 }));
        }
        Ok(tables)
    }

    fn wants(&self, kind: Kind) -> bool {
        self.tables.iter().any(|(of, _)| *of == kind)
    }

    fn row(&mut self, kind: Kind, of: &Of<'_>, values: &[Value]) -> Result<(), Failure> {
        let Some((_, table)) = self.tables.iter_mut().find(|(found, _)| *found == kind) else { return Ok(()) };
        let written = match &mut table.writer {
            Writer::Csv(writer) => {
                let first = [of.source.as_str().into(), of.run.into()];
                let cells = first.iter().chain(values).map(|value| cell(value, self.as_is));
                writer.write_record(cells).map_err(std::io::Error::other)
            }
            Writer::Jsonl(writer) => {
                let mut row = Map::new();
                row.insert("source".to_owned(), of.source.as_str().into());
                row.insert("run".to_owned(), of.run.into());
                row.extend(kind.columns().iter().zip(values).map(|(name, value)| ((*name).to_owned(), value.clone())));
                writeln!(writer, "{}", Value::Object(row))
            }
        };
        table.rows += 1;
        written.map_err(|error| cannot_be_written(&self.directory, &error))
    }

    fn run(&mut self, target: &Target<'_>, run: &Value) -> Result<(), Failure> {
        let name = run["name"].as_str().unwrap_or_default();
        let names = |of: &str| run[of].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let of = Of { source: target.name(), run: name, concepts: names("concepts"), tasks: names("tasks") };
        self.row(Kind::Runs, &of, &pick(run, Kind::Runs.columns()))?;
        for split in run["splits"].as_array().into_iter().flatten().filter_map(|split| split["split"].as_str()) {
            self.split(target, &of, split)?;
        }
        if self.wants(Kind::Unscored) {
            // Also of splits that have no point.
            let answer = target.ask("/api/v1/unscored", &[("run", name.to_owned())])?.expect_ok()?;
            for pass in answer["passes"].as_array().into_iter().flatten() {
                self.row(Kind::Unscored, &of, &with_ordinal(pass, Kind::Unscored.columns()))?;
            }
        }
        Ok(())
    }

    fn split(&mut self, target: &Target<'_>, of: &Of<'_>, split: &str) -> Result<(), Failure> {
        let mut asked = vec![("run", of.run.to_owned()), ("split", split.to_owned())];
        asked.push(("matrices", self.wants(Kind::Pairs).to_string()));
        let mut next = Some(0);
        while let Some(first) = next {
            let page = [&asked[..], &[("first_step", first.to_string())]].concat();
            let mut answer = target.ask("/api/v1/points", &page)?.expect_ok()?;
            next = answer["next_step"].as_u64();
            for point in answer["points"].as_array_mut().into_iter().flatten() {
                self.point(of, point)?;
            }
        }
        if self.wants(Kind::Rows) { self.rows(target, of, split) } else { Ok(()) }
    }

    /// The rows that leak most for each task, those of the mean over concepts first, where the sidecar has them in
    /// memory.
    fn rows(&mut self, target: &Target<'_>, of: &Of<'_>, split: &str) -> Result<(), Failure> {
        let concepts: Vec<Option<&str>> = std::iter::once(None).chain(of.concepts.iter().copied().map(Some)).collect();
        let tasks: Vec<Option<&str>> =
            if of.tasks.is_empty() { vec![None] } else { of.tasks.iter().copied().map(Some).collect() };
        for task in tasks {
            for &concept in &concepts {
                let mut asked = vec![("run", of.run.to_owned()), ("split", split.to_owned())];
                asked.push(("score", SCORE_OF_ROWS.to_owned()));
                asked.extend(task.map(|task| ("task", task.to_owned())));
                asked.extend(concept.map(|concept| ("concept", concept.to_owned())));
                let answer = target.ask("/api/v1/rows", &asked)?;
                if answer.status == StatusCode::NOT_FOUND {
                    match concept {
                        None => break,
                        Some(_) => continue,
                    }
                }
                let found = answer.expect_ok()?;
                let first = [&[json!(split)], &pick(&found, &["step", "score", "task", "concept"])[..]].concat();
                for row in found["rows"].as_array().into_iter().flatten() {
                    let row = pick(row, &["id", "local", "term", "task_label", "group"]);
                    self.row(Kind::Rows, of, &[&first[..], &row].concat())?;
                }
            }
        }
        Ok(())
    }

    fn point(&mut self, of: &Of<'_>, point: &mut Value) -> Result<(), Failure> {
        let attempt = point["attempt"].take();
        for key in ["launch", "restart"] {
            point[key] = attempt.get(key).cloned().unwrap_or_default();
        }
        if point["superseded"].is_null() {
            point["superseded"] = false.into();
        }
        self.row(Kind::Points, of, &with_ordinal(point, Kind::Points.columns()))?;
        let of_point = with_ordinal(point, &["split", "step", "superseded", "launch", "restart", "ordinal"]);
        let changes = point["change_errors"].take();
        for (score, found) in point["scores"].as_object().into_iter().flatten() {
            let first = [&of_point[..], &[score.as_str().into()]].concat();
            let mut row = first.clone();
            row.extend(pick(found, &["value", "standard_error", "undefined", "p_value"]));
            row.push(changes.get(score).cloned().unwrap_or_default());
            row.extend(pick(found, &["age", "left_out", "curve", "per_task"]));
            self.row(Kind::Scores, of, &row)?;
            self.concepts(of, &first, found)?;
            self.pairs(of, &first, found)?;
        }
        Ok(())
    }

    fn concepts(&mut self, of: &Of<'_>, first: &[Value], found: &Value) -> Result<(), Failure> {
        let values = found["per_concept"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (i, (concept, value)) in of.concepts.iter().zip(values).enumerate() {
            let q = found["per_concept_q"].get(i).cloned().unwrap_or_default();
            let row = [first, &[json!(concept), value.clone(), q]].concat();
            self.row(Kind::Concepts, of, &row)?;
        }
        Ok(())
    }

    fn pairs(&mut self, of: &Of<'_>, first: &[Value], found: &Value) -> Result<(), Failure> {
        let rows = found["matrix"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (i, (from, values)) in of.concepts.iter().zip(rows).enumerate() {
            let values = values.as_array().map(Vec::as_slice).unwrap_or_default();
            for (j, (to, value)) in of.concepts.iter().zip(values).enumerate() {
                let beside = |key: &str| found[key].get(i).and_then(|row| row.get(j)).cloned().unwrap_or_default();
                let row = [json!(from), json!(to), value.clone(), beside("matrix_q"), beside("ages")];
                self.row(Kind::Pairs, of, &[first, &row].concat())?;
            }
        }
        Ok(())
    }

    /// Gives the files their names. Returns how many rows they have.
    fn finish(mut self) -> Result<u64, Failure> {
        let mut rows = 0;
        for (_, table) in &mut self.tables {
            let flushed = match &mut table.writer {
                Writer::Csv(writer) => writer.flush(),
                Writer::Jsonl(writer) => writer.flush(),
            };
            flushed.map_err(|error| cannot_be_written(&self.directory, &error))?;
            rows += table.rows;
        }
        for (_, table) in &self.tables {
            std::fs::rename(self.directory.join(part(&table.name)), self.directory.join(&table.name))
                .map_err(|error| cannot_be_written(&self.directory, &error))?;
        }
        Ok(rows)
    }
}

fn cannot_be_written(directory: &Path, error: &std::io::Error) -> Failure {
    Failure::bad_input(FieldError::new("to", format!("{} cannot be written: {error}", directory.display())))
}

/// Fields of an object in the order of the columns; null where it has none.
fn pick(object: &Value, columns: &[&str]) -> Vec<Value> {
    columns.iter().map(|column| object.get(column).cloned().unwrap_or_default()).collect()
}

/// [`pick`] of an evaluation: the first of its step states no ordinal.
fn with_ordinal(object: &Value, columns: &[&str]) -> Vec<Value> {
    let ordinal = |column: &str| (column == "ordinal" && object[column].is_null()).then(|| 1.into());
    let picked = columns.iter().zip(pick(object, columns));
    picked.map(|(column, value)| ordinal(column).unwrap_or(value)).collect()
}

/// A value as a cell; lists and objects as JSON.
/// Prefixes a text that a spreadsheet would evaluate with an apostrophe, unless texts are to stay unchanged.
fn cell(value: &Value, as_is: bool) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if !as_is && text.starts_with(['=', '+', '-', '@']) => format!("'{text}"),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
