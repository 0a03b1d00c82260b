//! `conceptwatch agreement`: compares scores of items with human ratings of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};

use leakage::score::agreement::{Level, fleiss_kappa, kendall_tau, krippendorff_alpha};

use super::outputs::{is_missing, separator};

/// Compare scores of items with human ratings of them
///
/// Both files are tables with a header; the first column names the item. Empty cells are missing values. Prints
/// Kendall's τ-b between each score and the mean rating, and the agreement between raters: Fleiss' κ and Krippendorff's
/// α.
#[derive(Args)]
pub struct Options {
    /// A column for each score, such as concept_score
    scores: PathBuf,
    /// A column for each rater
    ratings: PathBuf,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// A CSV file: named columns of numbers, and a row for each item; `None` is an empty cell.
struct Table {
    columns: Vec<String>,
    rows: BTreeMap<String, Vec<Option<f64>>>,
}

pub fn run(options: &Options) -> Result<String, String> {
    let (scores, ratings) = (read(&options.scores)?, read(&options.ratings)?);
    let mean = |row: &Vec<Option<f64>>| {
        let given: Vec<f64> = row.iter().flatten().copied().collect();
        (!given.is_empty()).then(|| given.iter().sum::<f64>() / given.len() as f64)
    };
    let with_mean = |column: usize| -> (usize, Result<f64, String>) {
        let pair = |(item, row): (&String, &Vec<Option<f64>>)| Some((row[column]?, mean(ratings.rows.get(item)?)?));
        let pairs: Vec<(f64, f64)> = scores.rows.iter().filter_map(pair).collect();
        (pairs.len(), kendall_tau(&pairs))
    };
    let matrix: Vec<Vec<Option<f64>>> = ratings.rows.values().cloned().collect();
    let alpha = |level| krippendorff_alpha(&matrix, level);
    let between = [
        ("fleiss_kappa", fleiss_kappa(&matrix)),
        ("krippendorff_alpha_nominal", alpha(Level::Nominal)),
        ("krippendorff_alpha_ordinal", alpha(Level::Ordinal)),
        ("krippendorff_alpha_interval", alpha(Level::Interval)),
    ];
    if options.json {
        let shown =
            |result: Result<f64, String>| result.map_or_else(|why| json!({"undefined": why}), |x| json!({"value": x}));
        let mut series = Map::new();
        for (at, name) in scores.columns.iter().enumerate() {
            let (items, tau) = with_mean(at);
            series.insert(name.clone(), json!({"items": items, "kendall_tau": shown(tau)}));
        }
        let between: Map<String, Value> = between.into_iter().map(|(id, x)| (id.to_owned(), shown(x))).collect();
        let object = json!({
            "items": ratings.rows.len(), "raters": ratings.columns.len(), "scores": series, "ratings": between,
        });
        return Ok(format!("{object}\n"));
    }
    let shown =
        |result: Result<f64, String>| result.map_or_else(|why| format!("undefined: {why}"), |x| format!("{x:.4}"));
    let mut text = format!("{} items, {} raters\n\n", ratings.rows.len(), ratings.columns.len());
    for (at, name) in scores.columns.iter().enumerate() {
        let (items, tau) = with_mean(at);
        text += &format!("{name:28} kendall_tau {} over {items} items\n", shown(tau));
    }
    text += "\n";
    for (id, value) in between {
        text += &format!("{id:28} {}\n", shown(value));
    }
    Ok(text)
}

fn read(path: &Path) -> Result<Table, String> {
    let file = path.display();
    let unreadable = |e: std::io::Error| format!("{file}: cannot be read: {e}");
    let mut opened = BufReader::new(File::open(path).map_err(unreadable)?);
    let separator = separator(opened.fill_buf().map_err(unreadable)?);
    let mut reader = csv::ReaderBuilder::new().delimiter(separator).trim(csv::Trim::All).from_reader(opened);
    let header = reader.headers().map_err(|e| format!("{file}: has no readable header: {e}"))?.clone();
    if header.len() < 2 {
        return Err(format!(
            "{file}: got {} columns, expected the item's name and at least one column of numbers",
            header.len()
        ));
    }
    let columns: Vec<String> = header.iter().skip(1).map(str::to_owned).collect();
    let mut rows = BTreeMap::new();
    for record in reader.records() {
        let record = record.map_err(|e| format!("{file}: {e}"))?;
        let item = record[0].to_owned();
        let cell = |(column, text): (&String, &str)| match text {
            text if is_missing(text) => Ok(None),
            text => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Some(number)),
                _ => Err(format!("{file}: item '{item}', {column}: got '{text}', expected a number or an empty cell")),
            },
        };
        let cells = columns.iter().zip(record.iter().skip(1)).map(cell).collect::<Result<_, _>>()?;
        if rows.insert(item.clone(), cells).is_some() {
            return Err(format!("{file}: item '{item}' has two rows"));
        }
    }
    if rows.is_empty() { Err(format!("{file}: has no rows")) } else { Ok(Table { columns, rows }) }
}
