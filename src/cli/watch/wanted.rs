//! The runs and scores to watch.

use clap::Args;

use crate::server::client::{Client, ClientError};
use crate::server::run_state::State;

#[derive(Args)]
pub struct Wanted {
    /// Runs to watch [default: all running runs, and those that start later]
    pub runs: Vec<String>,
    /// Scores to show, by id.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "ID,ID",
        default_value = "ctl_conditional,ctl_conditional_r2,icl_conditional"
    )]
    pub scores: Vec<String>,
    /// Split to show.
    #[arg(long, default_value = "val")]
    pub split: String,
}

impl Wanted {
    /// Returns the runs to show at first, with their states and the reasons for these.
    pub async fn known(&self, reader: &mut Client) -> Result<Vec<(String, State, String)>, ClientError> {
        let mut runs = reader.runs().await?;
        let runs_now = |state: &State| matches!(state, State::Training | State::Stalled);
        runs.retain(|(run, state, _)| if self.runs.is_empty() { runs_now(state) } else { self.runs.contains(run) });
        Ok(runs)
    }
}
