//! `conceptwatch read`: answers requests of the API from the curves of a stopped sidecar.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};

use crate::history::{FILE_NAME, Sqlite};
use crate::server::http::stored_answers;
use leakage::field_error::FieldError;

use super::failure::{Failure, conclude};
use super::options::ServeOptions;

/// Answer requests of the API from the curves of a stopped sidecar
///
/// Prints a JSON object for each request, on a line of its own: its status, and the body as the sidecar would answer it.
/// Alerts are those that the rules find in the stored curves. Programs that read curves use this, such as the Python
/// package.
#[derive(Args)]
pub struct ReadOptions {
    /// Requests, such as '/api/v1/series?run=cub&split=val&score=ctl'
    #[arg(required = true, value_name = "PATH?QUERY")]
    requests: Vec<String>,
    /// Directory of the curves.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// TOML file of the sidecar, with its [[alerts]].
    #[arg(long, env = "CONCEPTWATCH_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

pub fn run(options: &ReadOptions) -> ExitCode {
    conclude("read", read(options))
}

fn read(options: &ReadOptions) -> Result<String, Failure> {
    let rules = ServeOptions::of_file(options.config.clone())?.server()?.alerts;
    if !options.data_dir.join(FILE_NAME).is_file() {
        return Err(FieldError::new("data_dir", format!("{} has no {FILE_NAME}", options.data_dir.display())).into());
    }
    let history = Sqlite::open_to_read(&options.data_dir).map_err(Failure::running)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::running)?;
    let answers =
        runtime.block_on(stored_answers(Arc::new(history), rules, &options.requests)).map_err(Failure::running)?;
    let line = |(status, body): &(u16, Vec<u8>)| {
        let body = serde_json::from_slice(body).unwrap_or_else(|_| Value::from(String::from_utf8_lossy(body)));
        format!("{}\n", json!({"status": status, "body": body}))
    };
    Ok(answers.iter().map(line).collect())
}
