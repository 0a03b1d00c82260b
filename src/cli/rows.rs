//! `conceptwatch score --rows`: the rows that contribute most to a score.

use serde::Serialize;

use leakage::field_error::in_short;
use leakage::prepare::Prepared;
use leakage::run::Run;
use leakage::score::{LeakingRows, LeakingRowsOfTasks, SCORE_OF_ROWS, task_named};

use super::scoring::Scored;

/// Rows that are listed.
const TOP: usize = 50;

/// A score, or a concept's part of it, of a task.
pub struct Wanted {
    concept: Option<usize>,
    task: Option<String>,
}

/// Its rows.
#[derive(Serialize)]
pub struct Found {
    score: &'static str,
    task: Option<String>,
    concept: Option<String>,
    #[serde(flatten)]
    rows: LeakingRows,
}

impl Wanted {
    /// Reads `SCORE` or `SCORE:CONCEPT`, and the name of a task.
    pub fn parse(text: &str, task: Option<&str>, run: &Run) -> Result<Self, String> {
        let (score, concept) = text.split_once(':').map_or((text, None), |(score, concept)| (score, Some(concept)));
        if score != SCORE_OF_ROWS {
            return Err(format!(
                "--rows: got '{}', expected {SCORE_OF_ROWS}, or {SCORE_OF_ROWS}:CONCEPT",
                in_short(score)
            ));
        }
        let find = |name: &str| {
            let found = run.concepts.iter().position(|concept| concept.name == name);
            found.ok_or_else(|| format!("--rows: got '{}', expected the name of a concept", in_short(name)))
        };
        let tasks: Vec<String> = run.tasks.iter().map(|task| task.name.clone()).collect();
        let of_tasks = task.map(|task| task_named(&tasks, task)).transpose();
        of_tasks.map_err(|why| format!("--rows-task: {why}"))?;
        Ok(Self { concept: concept.map(find).transpose()?, task: task.map(str::to_owned) })
    }

    pub fn find(&self, run: &Run, scored: &Scored) -> Result<Found, String> {
        let prepared = Prepared::new(&scored.sample, run, scored.settings);
        let tasks = LeakingRowsOfTasks::of(&prepared, TOP);
        let task = tasks.task(self.task.as_deref())?;
        let all = tasks.rows(task).map_err(|why| format!("--rows: {SCORE_OF_ROWS}: {why}"))?;
        let name = |i: usize| run.concepts[i].name.clone();
        let rows = match self.concept {
            None => Some(&all.mean),
            Some(i) => all.concepts[i].as_ref(),
        };
        let rows = rows.ok_or_else(|| format!("--rows: {SCORE_OF_ROWS} has no value for the concept"))?.clone();
        let task = tasks.name(task).map(str::to_owned);
        Ok(Found { score: SCORE_OF_ROWS, task, concept: self.concept.map(name), rows })
    }
}

impl Found {
    pub fn text(&self) -> String {
        let mut of = self.concept.as_ref().map_or(String::new(), |concept| format!(" of {concept}"));
        of += &self.task.as_ref().map_or(String::new(), |task| format!(", task {task}"));
        let mut text = format!("\nrows that contribute most to {}{of}, {:.4}\n", self.score, self.rows.value);
        text += &format!("{:>20} {:>10} {:>10}\n", "row", "local mean", "task label");
        for row in &self.rows.rows {
            text += &format!("{:>20} {:>10.4} {:>10}\n", row.id, row.local, row.task_label);
        }
        for (what, shares) in [("class of the task", &self.rows.by_class), ("group", &self.rows.by_group)] {
            if !shares.is_empty() {
                text += &format!("\n{what:>20} {:>10} {:>10} {:>10}\n", "rows", "share", "mean");
            }
            for of in shares {
                text += &format!("{:>20} {:>10} {:>10.4} {:>10.4}\n", of.label, of.rows, of.share, of.mean);
            }
        }
        text
    }
}
