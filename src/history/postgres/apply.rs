//! Numbered entries of a source, each applied exactly once.
//!
//! A source numbers its entries in ascending order and sends them until it learns that they were applied. An entry and the
//! mark that it was applied are one transaction, so an entry that comes twice, or at two processes at once, changes nothing
//! the second time. A source names runs as it knows them; where its name was taken, the run here has another.

use super::judged::record_judgement;
use super::link::Link;
use super::store::Postgres;
use crate::history::change::{Change, Declared, Launch};
use crate::history::db::Db;
use crate::history::declaration::named;
use crate::history::declare::declare_run;
use crate::history::edit::{finish_run, remove_run, set_remark, unknown};
use crate::history::error::HistoryError;
use crate::history::insert::{insert_point, join_point};
use crate::history::point::integer;
use crate::history::run::Identity;
use crate::history::settled::Unscored;
use crate::history::unscored::record_unscored;
use leakage::point::Point;
use leakage::sample::Attempt;

/// The changes of one entry. Runs are named as the source knows them.
pub struct Applying<'a> {
    link: &'a mut Link,
    source: &'a str,
    project: &'a str,
}

impl Postgres {
    /// Applies entry `number` of a source, unless it or a later one was applied before. The changes of an entry that fails
    /// are not made, and it stays unapplied; to pass over one that can never be applied, apply it without changes.
    /// `changes` is called again where the connection is lost. Returns whether the entry was applied now.
    pub fn apply(
        &self,
        source: &str,
        project: &str,
        number: u64,
        mut changes: impl FnMut(&mut Applying<'_>) -> Result<(), HistoryError>,
    ) -> Result<bool, HistoryError> {
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
                return Ok(false);
            }
            changes(&mut Applying { link, source, project })?;
            link.execute("UPDATE source SET applied = $2, heard = now() WHERE id = $1", &[&source, &number])?;
            Ok(true)
        })
    }

    /// The number of the last entry of a source that was applied; 0 for none.
    pub fn applied(&self, source: &str) -> Result<u64, HistoryError> {
        let row = self.read(|link| link.query_opt("SELECT applied FROM source WHERE id = $1", &[&source]))?;
        Ok(row.map_or(0, |row| row.get::<_, i64>(0).cast_unsigned()))
    }
}

impl Applying<'_> {
    fn db(&mut self) -> Db<'_> {
        Db::Postgres(self.link)
    }

    /// Makes a change, whose run is the one that the source knows.
    pub fn make(&mut self, change: &Change) -> Result<(), HistoryError> {
        if let Change::Declare(declared) = change {
            return self.declare(declared);
        }
        let run = self.run_of(change.run())?;
        match change {
            // As above: it is what gives the run its name here.
            Change::Declare(_) => Ok(()),
            Change::FinishRun { finished, outcome, .. } => finish_run(&mut self.db(), &run, *finished, outcome),
            Change::Point(point, by) => {
                let attempt = self.attempt(&point.run, by.as_ref())?;
                insert_point(&mut self.db(), &Point { run: run.into(), ..Point::clone(point) }, attempt).map(drop)
            }
            Change::Late(late, by) => {
                let attempt = self.attempt(&late.run, by.as_ref())?;
                join_point(&mut self.db(), &Point { run: run.into(), ..Point::clone(late) }, attempt)
            }
            Change::Unscored(record, by) => {
                let attempt = self.attempt(&record.run, by.as_ref())?;
                record_unscored(&mut self.db(), &[Unscored { run, attempt, ..record.clone() }]).map(drop)
            }
            Change::Judged(judgement) => record_judgement(self.link, &run, judgement),
            Change::Remark { remark, .. } => set_remark(&mut self.db(), &run, remark),
            Change::RemoveRun(_) => remove_run(&mut self.db(), &run, |_| true),
        }
    }

    fn declare(&mut self, declared: &Declared) -> Result<(), HistoryError> {
        let local_run = declared.run.name.as_str();
        let name = declared.declared_name.as_deref().unwrap_or(local_run);
        let Launch { job, restart, .. } = &declared.launch;
        let identity = Identity {
            // An unnamed launch is known by where it runs, so that those of two hosts are not taken for one.
            job: if job.is_empty() { self.source } else { job },
            restart: *restart,
            resume: declared.resume,
            rank: declared.rank,
            client: &declared.client,
            scheduler_job: &declared.scheduler_job,
            host: &declared.host,
            process: "",
        };
        let (project, run) = (self.project, named(&declared.run, name.to_owned())?);
        let (id, _) = declare_run(&mut self.db(), project, &run, &identity, declared.started)?;
        let statement = "INSERT INTO origin (source, local_run, run) VALUES ($1, $2, $3) \
                         ON CONFLICT (source, local_run) DO UPDATE SET run = excluded.run";
        self.link.execute(statement, &[&self.source, &local_run, &id])?;
        let rank = i64::from(declared.rank.get());
        let shown = if declared.scheduler_job.is_empty() { job } else { &declared.scheduler_job };
        let of_lowest = "UPDATE origin SET rank = $3, job = $4, host = $5 \
                         WHERE source = $1 AND local_run = $2 AND (rank IS NULL OR rank >= $3)";
        self.link.execute(of_lowest, &[&self.source, &local_run, &rank, shown, &declared.host]).map(drop)
    }

    /// The attempt by its numbers here.
    fn attempt(&mut self, local_run: &str, launch: Option<&Launch>) -> Result<Option<Attempt>, HistoryError> {
        let Some(Launch { job, restart, number }) = launch else { return Ok(None) };
        let number = if job.is_empty() { Some(*number) } else { self.launch_of(local_run, job)? };
        Ok(number.map(|launch| Attempt { launch, restart: *restart }))
    }

    /// The name here of a run. Errors when the source has not declared it.
    fn run_of(&mut self, local_run: &str) -> Result<String, HistoryError> {
        let statement = "SELECT name FROM origin JOIN run ON run.id = origin.run WHERE source = $1 AND local_run = $2";
        let row = self.link.query_opt(statement, &[&self.source, &local_run])?;
        row.map(|row| row.get(0)).ok_or_else(|| unknown(local_run))
    }

    /// The number here of a run's launch; `None` where no rank of it has declared itself.
    fn launch_of(&mut self, local_run: &str, job: &str) -> Result<Option<u32>, HistoryError> {
        let run = self.run_of(local_run)?;
        self.db().one(
            "SELECT (SELECT count(*) FROM launch earlier WHERE earlier.run = launch.run AND earlier.id < launch.id) \
             FROM launch JOIN run ON run.id = launch.run WHERE name = $1 AND job = $2",
            &[&run, &job],
            |row| row.number(0),
        )
    }
}
