//! Reading runs: what was declared, when, what people say about it, and lists of them.

use std::collections::BTreeMap;

use super::damage::Session;
use super::db::{List, Row, Value};
use super::edit::unknown;
use super::error::HistoryError;
use super::listing::{Listing, Page, StoredSplit, Wanted};
use super::outcome::RunOutcome;
use super::read::Reading;
use super::run::{StoredLaunch, StoredRank, StoredRun};
use super::stored::{RUN, RUN_COLUMNS};
use leakage::lock::lock;
use leakage::sample::Attempt;

/// Whether a row of a run is intact; damage is noted.
fn is_intact(session: &Session, row: &Row<'_, '_>) -> Result<bool, HistoryError> {
    let is_intact = row.checksum(None, 0..RUN_COLUMNS)?.is_some();
    if !is_intact {
        lock(&session.damage).other(format!("the declaration of run '{}'", row.get::<String>(0)?));
    }
    Ok(is_intact)
}

impl Reading<'_> {
    /// The query for the runs of a condition: their columns, checksum, number, and whether they are open.
    fn select_runs(&self, condition: &str) -> String {
        format!("SELECT {RUN}, checksum, id, {} FROM run {condition}", self.db.is_open())
    }

    /// The intact runs of a condition with their numbers.
    pub fn runs_where(
        &mut self,
        condition: &str,
        values: &[&dyn Value],
    ) -> Result<Vec<(i64, StoredRun)>, HistoryError> {
        let (statement, session, mut runs) = (self.select_runs(condition), self.session, Vec::new());
        // Other processes declare runs, too, where they share the database.
        let is_shared = self.db.sqlite().is_none();
        self.db.each(&statement, values, |row| {
            if is_intact(session, row)? {
                let name: String = row.get(0)?;
                let open = row.get(RUN_COLUMNS + 2)? && (is_shared || lock(&session.declared).contains(&name));
                let run = serde_json::from_str(&row.get::<String>(3)?)?;
                let (started, finished, title, note) = (row.get(6)?, row.get(7)?, row.get(8)?, row.get(9)?);
                let outcome = RunOutcome::stored(row, 10)?;
                runs.push((
                    row.get(RUN_COLUMNS + 1)?,
                    StoredRun { run, started, finished, outcome, open, title, note },
                ));
            }
            Ok(())
        })?;
        Ok(runs)
    }

    pub fn runs(&mut self) -> Result<Vec<StoredRun>, HistoryError> {
        let runs = self.runs_where("ORDER BY started DESC, id DESC", &[])?;
        Ok(runs.into_iter().map(|(_, run)| run).collect())
    }

    /// The number of a run, and the run. Errors when it is unknown or damaged.
    pub fn one_run(&mut self, name: &str) -> Result<(i64, StoredRun), HistoryError> {
        self.runs_where("WHERE name = $1", &[&name])?.pop().ok_or_else(|| unknown(name))
    }

    /// The number of a run. Errors when it is unknown or damaged.
    pub fn run_id(&mut self, name: &str) -> Result<i64, HistoryError> {
        if self.db.sqlite().is_some() {
            let (statement, session) = (self.select_runs("WHERE name = $1"), self.session);
            let found = self.db.one(&statement, &[&name], |row| {
                is_intact(session, row)?.then(|| row.get(RUN_COLUMNS + 1)).transpose()
            })?;
            return found.flatten().ok_or_else(|| unknown(name));
        }
        self.db.one("SELECT id FROM run WHERE name = $1", &[&name], |row| row.get(0))?.ok_or_else(|| unknown(name))
    }

    /// The runs that a search names, or a page of them, where their names, titles and labels are not cached.
    pub fn listing(&mut self, wanted: &Wanted) -> Result<Listing, HistoryError> {
        let statement = self.select_runs("ORDER BY started DESC, id DESC");
        let (session, mut page) = (self.session, Page::default());
        self.db.each(&statement, &[], |row| {
            if is_intact(session, row)? {
                let is_named = || -> Result<bool, HistoryError> {
                    let labels: BTreeMap<String, String> = serde_json::from_str(&row.get::<String>(4)?)?;
                    let title: Option<String> = row.get(8)?;
                    Ok(wanted.search.matches(&row.get::<String>(0)?, title.as_deref(), &labels))
                };
                if wanted.search.is_empty() || is_named()? {
                    page.add(wanted, row.get(6)?, row.get(RUN_COLUMNS + 1)?);
                }
            }
            Ok(())
        })?;
        self.listed_page(page)
    }

    /// The runs of a page with their splits.
    pub fn listed_page(&mut self, page: Page) -> Result<Listing, HistoryError> {
        let Page { ids, total, next, .. } = page;
        let condition = format!("WHERE {} ORDER BY started DESC, id DESC", self.db.among("id", 1));
        let runs = self.runs_where(&condition, &[&List(&ids)])?;
        Ok(Listing { runs: self.with_splits(runs)?, total, next })
    }

    pub fn listed(&mut self, name: &str) -> Result<(StoredRun, Vec<StoredSplit>), HistoryError> {
        let run = self.one_run(name)?;
        self.with_splits(vec![run])?.pop().ok_or_else(|| unknown(name))
    }

    /// Several runs with their splits, in the order of `names`, without those that are unknown.
    pub fn listed_of(&mut self, names: &[&str]) -> Result<Vec<(StoredRun, Vec<StoredSplit>)>, HistoryError> {
        let condition = format!("WHERE {}", self.db.among("name", 1));
        let mut runs = self.runs_where(&condition, &[&List(names)])?;
        runs.sort_by_cached_key(|(_, run)| names.iter().position(|name| *name == run.run.name));
        self.with_splits(runs)
    }

    pub fn splits(&mut self, run: &str) -> Result<Vec<StoredSplit>, HistoryError> {
        let id = self.run_id(run)?;
        Ok(self.splits_of(&[id])?.remove(&id).unwrap_or_default())
    }

    fn with_splits(&mut self, runs: Vec<(i64, StoredRun)>) -> Result<Vec<(StoredRun, Vec<StoredSplit>)>, HistoryError> {
        let ids: Vec<i64> = runs.iter().map(|(id, _)| *id).collect();
        let mut splits = self.splits_of(&ids)?;
        Ok(runs.into_iter().map(|(id, run)| (run, splits.remove(&id).unwrap_or_default())).collect())
    }

    /// The splits of runs that have points, by name.
    fn splits_of(&mut self, runs: &[i64]) -> Result<BTreeMap<i64, Vec<StoredSplit>>, HistoryError> {
        let statement = format!(
            "SELECT run, split, count(*), max(step) FROM point WHERE {} AND superseded = 0 \
             GROUP BY run, split ORDER BY run, split",
            self.db.among("run", 1)
        );
        let mut splits: BTreeMap<i64, Vec<StoredSplit>> = BTreeMap::new();
        self.db.each(&statement, &[&List(runs)], |row| {
            let split = StoredSplit { split: row.get(1)?, points: row.unsigned(2)?, last_step: row.unsigned(3)? };
            splits.entry(row.get(0)?).or_default().push(split);
            Ok(())
        })?;
        Ok(splits)
    }

    pub fn known_splits(&mut self, run: &str) -> Result<Vec<String>, HistoryError> {
        let id = self.run_id(run)?;
        let statement =
            "SELECT split FROM point WHERE run = $1 UNION SELECT split FROM unscored WHERE run = $1 ORDER BY 1";
        self.db.all(statement, &[&id], |row| row.get(0))
    }

    pub fn ranks(&mut self, run: &str) -> Result<Vec<StoredRank>, HistoryError> {
        let id = self.run_id(run)?;
        self.db.all(
            "SELECT (SELECT count(*) FROM launch earlier WHERE earlier.run = launch.run AND earlier.id < launch.id), \
             restart, rank, client, rank.finished IS NOT NULL \
             FROM rank JOIN launch ON launch.id = rank.launch WHERE launch.run = $1 ORDER BY launch.id, rank",
            &[&id],
            |row| {
                let attempt = Attempt { launch: row.number(0)?, restart: row.number(1)? };
                Ok(StoredRank { attempt, rank: row.number(2)?, client: row.get(3)?, finished: row.get(4)? })
            },
        )
    }

    pub fn launches(&mut self, run: &str) -> Result<Vec<StoredLaunch>, HistoryError> {
        let id = self.run_id(run)?;
        let statement = "SELECT job, restarts FROM launch WHERE run = $1 ORDER BY id";
        self.db.all(statement, &[&id], |row| Ok(StoredLaunch { job: row.get(0)?, restarts: row.number(1)? }))
    }
}
