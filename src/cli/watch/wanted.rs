//! The runs and scores to watch.

use clap::Args;

use crate::server::client::{ClientError, Reader};

#[derive(Args)]
pub struct Wanted {
    /// Runs to watch [default: all running runs, and those that start later]
    pub runs: Vec<String>,
    /// Scores to show, by id.
    #[arg(long, value_delimiter = ',', value_name = "ID,ID", default_value = "ctl_conditional,icl_conditional")]
    pub scores: Vec<String>,
    /// Split to show.
    #[arg(long, default_value = "val")]
    pub split: String,
}

impl Wanted {
    /// Returns the runs to show at first, and whether each has finished.
    pub async fn known(&self, reader: &mut Reader) -> Result<Vec<(String, bool)>, ClientError> {
        let mut runs = reader.runs().await?;
        runs.retain(|(run, finished)| if self.runs.is_empty() { !finished } else { self.runs.contains(run) });
        Ok(runs)
    }
}
