//! `conceptwatch read`: answers requests of the API from the curves of a stopped sidecar.

use std::path::PathBuf;

use axum::http::Method;
use clap::Args;
use serde_json::{Value, json};

use crate::server::http::StoredApi;

use super::data_dirs::{DataDir, check_curves};
use super::failure::Failure;
use super::http_request::waiting;
use super::options::ServeOptions;

/// Answer requests of the API from the curves of a stopped sidecar
///
/// Prints a line of JSON for each request: its status, and the body as the sidecar would answer it.
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

pub fn run(options: &ReadOptions) -> Result<String, Failure> {
    let rules = ServeOptions::of_file(options.config.clone())?.server()?.alerts;
    check_curves("data_dir", &options.data_dir)?;
    let history = DataDir::at(options.data_dir.clone()).open()?;
    let wants_alerts = options.requests.iter().any(|request| request.starts_with("/api/v1/alerts"));
    let api = StoredApi::new(history, wants_alerts.then_some(rules))?;
    let answered = |request: &String| {
        let (status, body) = waiting(api.answer(Method::GET, request, None))??;
        let body = serde_json::from_slice(&body).unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&body)));
        Ok(format!("{}\n", json!({"status": status.as_u16(), "body": body})))
    };
    options.requests.iter().map(answered).collect()
}
