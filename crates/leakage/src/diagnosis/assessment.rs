//! The verdict on a split with all that it rests on: what was looked at, and what to do.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::findings::{Diagnosis, Line, State};
use super::judgement::Evidence;
use super::verdict::{Verdict, VerdictState};

/// The summary of a run's newest finished evaluation that every surface shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assessment {
    pub run: String,
    pub split: String,
    pub step: u64,
    pub epoch: Option<f64>,
    /// N.
    pub rows: u64,
    /// The evaluation lacks ranks or rows.
    pub incomplete: bool,
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Each check: found, absent, or unknown with what would make it run.
    pub coverage: Vec<Line>,
    /// The most urgent first; empty where nothing is to be done.
    pub actions: Vec<Action>,
}

/// An advised action, and the reason for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Action {
    pub text: String,
    pub why: String,
    /// The numbers behind it.
    pub evidence: Vec<Evidence>,
}

impl fmt::Display for Action {
    /// The action; its reason where no finding with numbers gives it.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.evidence.is_empty() {
            true => write!(f, "{}: {}", self.text, self.why),
            false => f.write_str(&self.text),
        }
    }
}

impl Assessment {
    pub fn new(verdict: Verdict, diagnosis: Diagnosis) -> Self {
        let Diagnosis { run, split, step, epoch, rows, incomplete, lines } = diagnosis;
        let actions = actions(&verdict, &lines);
        Self { run, split, step, epoch, rows, incomplete, verdict, coverage: lines, actions }
    }
}

fn actions(verdict: &Verdict, lines: &[Line]) -> Vec<Action> {
    let action = |text: &str, why: &str| Action { text: text.to_owned(), why: why.to_owned(), evidence: Vec::new() };
    let stop =
        verdict.stop_advised_by.iter().map(|rule| action("Stop this run", &format!("{rule}: {}", verdict.reason)));
    let found = lines.iter().filter(|line| line.state == State::Found);
    let found = found.map(|line| Action { evidence: line.evidence.clone(), ..action(&line.action, &line.text) });
    let all: Vec<Action> = stop.chain(found).collect();
    if !all.is_empty() {
        return all;
    }
    match verdict.state {
        VerdictState::TooEarly => vec![action(
            "Wait",
            "models cross every limit while they learn their concepts, so the first two evaluations are not judged",
        )],
        VerdictState::PossiblyLeaking if !verdict.concepts.is_empty() => {
            vec![action("Log interventions, which show whether the head rests on it", &verdict.reason)]
        }
        VerdictState::PossiblyLeaking => vec![action("Log more rows", "they narrow the interval")],
        VerdictState::NothingFound | VerdictState::CannotTell if !verdict.concepts.is_empty() => {
            vec![action("Train longer, or raise the weight of the concept loss", &verdict.reason)]
        }
        VerdictState::NothingFound | VerdictState::CannotTell => {
            vec![action("Log what is missing", &verdict.reason)]
        }
        VerdictState::Leaking => vec![action("Do not rely on its concepts", &verdict.reason)],
        VerdictState::Sound => Vec::new(),
    }
}
