//! Numbered entries of a source, each applied exactly once.
//!
//! A source numbers its entries in ascending order and sends them until it learns that they were applied. An entry and the
//! mark that it was applied are one transaction, so an entry that comes twice, or at two processes at once, changes nothing
//! the second time. A source names runs as it knows them; where its name was taken, the run here has another.

use super::judged::record_judgement;
use super::link::Link;
use super::store::Postgres;
use crate::history::change::Judgement;
use crate::history::db::Db;
use crate::history::declare::declare_run;
use crate::history::edit::{finish_run, remove_run, set_remark, unknown};
use crate::history::error::HistoryError;
use crate::history::insert::{insert_point, join_point};
use crate::history::outcome::RunOutcome;
use crate::history::point::{Recorded, integer};
use crate::history::run::{Identity, Remark, RunRecord};
use crate::history::settled::Unscored;
use crate::history::unscored::{insert_unscored, trim_unscored};
use leakage::point::Point;
use leakage::run::Run;
use leakage::sample::Attempt;

/// The outcome of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Applied<T> {
    Now(T),
    /// It was applied before, and changed nothing now.
    Before,
}

/// The changes of one entry. Runs are named as the source knows them.
pub struct Applying<'a> {
    link: &'a mut Link,
    source: &'a str,
    project: &'a str,
}

impl Postgres {
    /// Applies entry `number` of a source, unless it or a later one was applied before. The changes of an entry that fails
    /// are not made, and it stays unapplied; to pass over one that can never be applied, apply it without changes.
    /// `changes` is called again where the connection is lost.
    pub fn apply<T>(
        &self,
        source: &str,
        project: &str,
        number: u64,
        mut changes: impl FnMut(&mut Applying<'_>) -> Result<T, HistoryError>,
    ) -> Result<Applied<T>, HistoryError> {
        let number = integer("number", number)?;
        self.write(|link| {
            let statement = "INSERT INTO source (id, project) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING";
            link.execute(statement, &[&source, &project])?;
            let row = link.query_one("SELECT applied, project FROM source WHERE id = $1 FOR UPDATE", &[&source])?;
            let owner: &str = row.get(1);
            if owner != project {
                return Err(HistoryError::invalid("source", format!("belongs to project '{owner}', got '{project}'")));
            }
            if number <= row.get(0) {
                link.execute("UPDATE source SET heard = now() WHERE id = $1", &[&source])?;
                return Ok(Applied::Before);
            }
            let value = changes(&mut Applying { link, source, project })?;
            link.execute("UPDATE source SET applied = $2, heard = now() WHERE id = $1", &[&source, &number])?;
            Ok(Applied::Now(value))
        })
    }

    /// The number of the last entry of a source that was applied; 0 for none.
    pub fn applied(&self, source: &str) -> Result<u64, HistoryError> {
        let row = self.read(|link| link.query_opt("SELECT applied FROM source WHERE id = $1", &[&source]))?;
        Ok(row.map_or(0, |row| row.get::<_, i64>(0).cast_unsigned()))
    }
}

fn name_here(link: &mut Link, source: &str, local_run: &str) -> Result<Option<String>, HistoryError> {
    let statement = "SELECT name FROM origin JOIN run ON run.id = origin.run WHERE source = $1 AND local_run = $2";
    Ok(link.query_opt(statement, &[&source, &local_run])?.map(|row| row.get(0)))
}

impl Applying<'_> {
    fn db(&mut self) -> Db<'_> {
        Db::Postgres(self.link)
    }

    /// Declares the run that the source calls `local_run`.
    pub fn declare(
        &mut self,
        local_run: &str,
        run: &Run,
        identity: &Identity<'_>,
        started: f64,
    ) -> Result<RunRecord, HistoryError> {
        let (id, record) = declare_run(&mut Db::Postgres(self.link), self.project, run, identity, started)?;
        let statement = "INSERT INTO origin (source, local_run, run) VALUES ($1, $2, $3) \
                         ON CONFLICT (source, local_run) DO UPDATE SET run = excluded.run";
        self.link.execute(statement, &[&self.source, &local_run, &id])?;
        Ok(record)
    }

    /// The name here of a run. Errors when the source has not declared it.
    pub fn run_of(&mut self, local_run: &str) -> Result<String, HistoryError> {
        name_here(self.link, self.source, local_run)?.ok_or_else(|| unknown(local_run))
    }

    /// The number here of a run's launch; `None` where no rank of it has declared itself.
    pub fn launch_of(&mut self, local_run: &str, job: &str) -> Result<Option<u32>, HistoryError> {
        let run = self.run_of(local_run)?;
        self.db().one(
            "SELECT (SELECT count(*) FROM launch earlier WHERE earlier.run = launch.run AND earlier.id < launch.id) \
             FROM launch JOIN run ON run.id = launch.run WHERE name = $1 AND job = $2",
            &[&run, &job],
            |row| row.number(0),
        )
    }

    /// See [`Change::FinishRun`](crate::history::Change::FinishRun).
    pub fn finish_run(
        &mut self,
        local_run: &str,
        finished: Option<f64>,
        outcome: &RunOutcome,
    ) -> Result<(), HistoryError> {
        let run = self.run_of(local_run)?;
        finish_run(&mut self.db(), &run, finished, outcome)
    }

    /// Stores a point, whose run is the one that the source knows.
    pub fn record_point(&mut self, point: Point, attempt: Option<Attempt>) -> Result<Recorded, HistoryError> {
        let run = self.run_of(&point.run)?;
        insert_point(&mut self.db(), &Point { run: run.into(), ..point }, attempt)
    }

    /// Adds late scores to their point, whose run is the one that the source knows.
    pub fn join_point(&mut self, late: Point, attempt: Option<Attempt>) -> Result<(), HistoryError> {
        let run = self.run_of(&late.run)?;
        join_point(&mut self.db(), &Point { run: run.into(), ..late }, attempt)
    }

    pub fn record_judgement(&mut self, judgement: &Judgement) -> Result<(), HistoryError> {
        let run = self.run_of(&judgement.run)?;
        record_judgement(self.link, &run, judgement)
    }

    pub fn record_unscored(&mut self, pass: Unscored) -> Result<(), HistoryError> {
        let run = self.run_of(&pass.run)?;
        let runs = insert_unscored(&mut self.db(), &[Unscored { run, ..pass }])?;
        trim_unscored(&mut self.db(), &runs).map(drop)
    }

    pub fn remark(&mut self, local_run: &str, remark: &Remark) -> Result<(), HistoryError> {
        let run = self.run_of(local_run)?;
        set_remark(&mut self.db(), &run, remark)
    }

    pub fn remove_run(&mut self, local_run: &str) -> Result<(), HistoryError> {
        let run = self.run_of(local_run)?;
        remove_run(&mut self.db(), &run, |_| true)
    }
}
