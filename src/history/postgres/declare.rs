//! Declaring runs, within a transaction of the caller: decides which run a declaration starts, joins or resumes.

use super::link::Link;
use super::runs::{number, outcome};
use crate::history::declaration::{named, numbered, same_declaration};
use crate::history::error::HistoryError;
use crate::history::point::finite;
use crate::history::run::{Identity, RunRecord};
use crate::history::usage::MAX_DECLARATION;
use leakage::run::Run;
use leakage::sample::Attempt;

/// Held by a declaration: names are given one after another, and launches counted.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7220211870110002)";

/// See [`Store::record_run`](crate::history::Store::record_run). Returns also the number of the run.
pub(super) fn declare_run(
    link: &mut Link,
    project: &str,
    run: &Run,
    identity: &Identity<'_>,
    started: f64,
) -> Result<(i64, RunRecord), HistoryError> {
    finite("run.started", started)?;
    link.batch(LOCK)?;
    let declared = run;
    let run = named(declared, own_name(link, project, &declared.name, identity)?)?;
    let declared_name = Some(&declared.name).filter(|name| **name != run.name);
    let declaration = serde_json::to_string(&run)?;
    let known = link.query_opt(
        "SELECT id, declaration, started, finished IS NOT NULL, outcome FROM run WHERE name = $1 FOR NO KEY UPDATE",
        &[&run.name],
    )?;
    let (id, resumed, started, was_finished, outcome) = match known {
        Some(row) => {
            let (id, stored): (i64, &str) = (row.get(0), row.get(1));
            if stored != declaration {
                same_declaration(&run.name, stored, &declaration)?;
            }
            link.execute(
                "UPDATE run SET finished = NULL, declaration = $2, touched = now(), changed = clock_timestamp() WHERE id = $1",
                &[&id, &declaration],
            )?;
            (id, true, row.get(2), row.get(3), outcome(&row, 4)?)
        }
        None => {
            if declaration.len() > MAX_DECLARATION {
                let message =
                    format!("got a declaration of {} bytes, expected at most {MAX_DECLARATION}", declaration.len());
                return Err(HistoryError::invalid("run", message));
            }
            let (labels, concepts) = (serde_json::to_string(&run.labels)?, run.concept_count() as i32);
            let row = link.query_one(
                "INSERT INTO run (name, declared_name, project, declaration, labels, concepts, started) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id",
                &[&run.name, &declared_name, &project, &declaration, &labels, &concepts, &started],
            )?;
            (row.get(0), false, started, false, None)
        }
    };
    let (attempt, known_attempt) = match identity.job {
        "" => (None, resumed),
        job => {
            let (attempt, known) = launch(link, id, job, identity)?;
            (Some(attempt), known)
        }
    };
    let goes_on = known_attempt && !(was_finished && identity.job.is_empty());
    let outcome = outcome.filter(|outcome| goes_on && outcome.outlives(identity));
    let outcome = outcome.map(|outcome| serde_json::to_string(&outcome)).transpose()?;
    link.execute("UPDATE run SET outcome = $2 WHERE id = $1", &[&id, &outcome])?;
    Ok((id, RunRecord { run, resumed, started, attempt, continues: known_attempt && !was_finished }))
}

/// The name of the run that a declaration under the name `declared` refers to.
fn own_name(link: &mut Link, project: &str, declared: &str, identity: &Identity<'_>) -> Result<String, HistoryError> {
    if !identity.job.is_empty() {
        let of_launch = link.query_opt(
            "SELECT name FROM run JOIN launch ON launch.run = run.id \
             WHERE job = $2 AND (name = $1 OR declared_name = $1) AND project = $3 ORDER BY launch.id DESC LIMIT 1",
            &[&declared, &identity.job, &project],
        )?;
        if let Some(row) = of_launch {
            return Ok(row.get(0));
        }
    }
    let owner = link.query_opt("SELECT project FROM run WHERE name = $1", &[&declared])?;
    let Some(owner) = owner.map(|row| row.get::<_, String>(0)) else { return Ok(declared.to_owned()) };
    if identity.job.is_empty() || identity.resume {
        return match owner == project {
            true => Ok(declared.to_owned()),
            false => {
                let (run, got) = (declared.to_owned(), project.to_owned());
                Err(HistoryError::OtherProject { run, project: owner, got })
            }
        };
    }
    for count in 2_u64.. {
        let name = numbered(declared, count);
        if link.query_opt("SELECT 1 FROM run WHERE name = $1", &[&name])?.is_none() {
            return Ok(name);
        }
    }
    unreachable!("a database holds fewer runs than there are numbers")
}

/// Records a launch of the run. Returns its attempt, and whether that attempt was already known. Which restart a rank belongs
/// to was found by its sidecar.
fn launch(link: &mut Link, run: i64, job: &str, identity: &Identity<'_>) -> Result<(Attempt, bool), HistoryError> {
    let known = link.query_opt("SELECT id, restarts FROM launch WHERE run = $1 AND job = $2", &[&run, &job])?;
    let restart = i64::from(identity.restart);
    let (id, known): (i64, bool) = match known {
        Some(row) => {
            let (id, restarts): (i64, i64) = (row.get(0), row.get(1));
            link.execute("UPDATE launch SET restarts = greatest(restarts, $2) WHERE id = $1", &[&id, &restart])?;
            (id, restart <= restarts)
        }
        None => {
            let statement = "INSERT INTO launch (run, job, restarts) VALUES ($1, $2, $3) RETURNING id";
            (link.query_one(statement, &[&run, &job, &restart])?.get(0), false)
        }
    };
    declare_rank(link, id, restart, identity)?;
    let launch = link.query_one("SELECT count(*) FROM launch WHERE run = $1 AND id < $2", &[&run, &id])?;
    Ok((Attempt { launch: number(&launch, 0)?, restart: identity.restart }, known))
}

/// Stores a rank's declaration. One of an older restart does not replace that of a newer.
fn declare_rank(link: &mut Link, launch: i64, restart: i64, identity: &Identity<'_>) -> Result<(), HistoryError> {
    link.execute("DELETE FROM rank WHERE launch = $1 AND restart < $2", &[&launch, &restart])?;
    let rank = i64::from(identity.rank.get());
    // A rank that declares itself again goes on with the run.
    link.execute(
        "INSERT INTO rank (launch, rank, restart, client) SELECT $1, $2, $3, $4 \
         WHERE NOT EXISTS (SELECT 1 FROM rank WHERE launch = $1 AND restart > $3) \
         ON CONFLICT (launch, rank) DO UPDATE SET restart = $3, client = $4, finished = NULL",
        &[&launch, &rank, &restart, &identity.client],
    )?;
    Ok(())
}

/// A rank that has not declared itself, or of a restart that is no longer the newest, is not stored. Returns whether its
/// outcome is that of the run.
pub(super) fn finish_rank(
    link: &mut Link,
    run: i64,
    attempt: Attempt,
    rank: u32,
    finished: f64,
) -> Result<bool, HistoryError> {
    finite("rank.finished", finished)?;
    let known = link.execute(
        "UPDATE rank SET finished = $5 WHERE rank = $3 AND restart = $4 AND launch = \
         (SELECT id FROM launch WHERE run = $1 ORDER BY id LIMIT 1 OFFSET $2)",
        &[&run, &i64::from(attempt.launch), &i64::from(rank), &i64::from(attempt.restart), &finished],
    )?;
    Ok(known > 0 || link.query_opt("SELECT 1 FROM launch WHERE run = $1 LIMIT 1", &[&run])?.is_none())
}
