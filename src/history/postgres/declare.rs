//! Declaring runs, within a transaction of the caller: decides which run a declaration starts, joins or resumes.

use super::link::Link;
use super::runs::number;
use crate::history::declaration::{named, numbered, same_declaration};
use crate::history::error::HistoryError;
use crate::history::point::finite;
use crate::history::run::{Identity, RESTARTS_KEPT, RunRecord};
use crate::history::usage::MAX_DECLARATION;
use crate::run::Run;
use crate::sample::{Attempt, Seen};

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
        "SELECT id, declaration, started, finished IS NOT NULL FROM run WHERE name = $1 FOR NO KEY UPDATE",
        &[&run.name],
    )?;
    let (id, resumed, started, was_finished) = match known {
        Some(row) => {
            let (id, stored): (i64, &str) = (row.get(0), row.get(1));
            if stored != declaration {
                same_declaration(&run.name, stored, &declaration)?;
            }
            link.execute(
                "UPDATE run SET finished = NULL, declaration = $2, touched = now(), changed = clock_timestamp() WHERE id = $1",
                &[&id, &declaration],
            )?;
            (id, true, row.get(2), row.get(3))
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
            (row.get(0), false, started, false)
        }
    };
    let (attempt, known_attempt) = match identity.job {
        "" => (None, resumed),
        job => {
            let (attempt, known) = launch(link, id, job, identity, run.world_size)?;
            (Some(attempt), known)
        }
    };
    Ok((id, RunRecord { run, resumed, started, attempt, continues: known_attempt && !was_finished }))
}

/// The record of a rank that has declared itself and finished since: repeating its declaration changes nothing.
pub(super) fn finished_declaration(
    link: &mut Link,
    project: &str,
    run: &Run,
    identity: &Identity<'_>,
) -> Result<Option<RunRecord>, HistoryError> {
    let name = own_name(link, project, &run.name, identity)?;
    let row = link.query_opt(
        "SELECT started, (SELECT count(*) FROM launch earlier WHERE earlier.run = run.id AND earlier.id < launch.id), \
         restart FROM rank JOIN launch ON launch.id = rank.launch JOIN run ON run.id = launch.run \
         WHERE run.name = $1 AND job = $2 AND rank = $3 AND client = $5 AND rank.finished IS NOT NULL AND restart = \
         coalesce((SELECT process.restart FROM process WHERE process.launch = launch.id AND process.name = $6), $4)",
        &[
            &name,
            &identity.job,
            &i64::from(identity.rank.get()),
            &i64::from(identity.restart),
            &identity.client,
            &identity.process,
        ],
    )?;
    let record = |row: &postgres::Row| {
        let attempt = Some(Attempt { launch: number(row, 1)?, restart: number(row, 2)? });
        Ok(RunRecord { run: named(run, name)?, resumed: true, started: row.get(0), attempt, continues: true })
    };
    row.as_ref().map(record).transpose()
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

/// Records a launch of the run. Returns its attempt, and whether that attempt was already known.
fn launch(
    link: &mut Link,
    run: i64,
    job: &str,
    identity: &Identity<'_>,
    world_size: u32,
) -> Result<(Attempt, bool), HistoryError> {
    let known = link.query_opt("SELECT id, restarts FROM launch WHERE run = $1 AND job = $2", &[&run, &job])?;
    let seen = known.as_ref().map(|row| seen(link, row.get(0), row.get(1), identity)).transpose()?.unwrap_or_default();
    let own = identity.restart_of(world_size, seen);
    let restart = i64::from(own);
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
    // A relayed declaration of an older restart names no process here that could be replaced.
    if !(identity.is_relayed && Some(own) < seen.newest) {
        declare_process(link, id, restart, world_size, identity)?;
    }
    let launch = link.query_one("SELECT count(*) FROM launch WHERE run = $1 AND id < $2", &[&run, &id])?;
    Ok((Attempt { launch: number(&launch, 0)?, restart: own }, known))
}

/// Returns what is known of a launch, whose newest restart is `newest`, when a process declares itself.
fn seen(link: &mut Link, launch: i64, newest: i64, identity: &Identity<'_>) -> Result<Seen, HistoryError> {
    if identity.process.is_empty() {
        return Ok(Seen::default());
    }
    let (rank, name) = (i64::from(identity.rank.get()), identity.process);
    let row = link.query_one(
        "SELECT $2::bigint, (SELECT restart FROM process WHERE launch = $1 AND name = $4), \
         EXISTS (SELECT 1 FROM process WHERE launch = $1 AND restart = $2 AND rank = $3 AND name <> $4), \
         (SELECT world_size FROM process WHERE launch = $1 AND restart = $2 LIMIT 1)",
        &[&launch, &newest, &rank, &name],
    )?;
    let optional = |column: usize| row.get::<_, Option<i64>>(column).map(|_| number(&row, column)).transpose();
    Ok(Seen { newest: optional(0)?, own: optional(1)?, is_taken: row.get(2), world_size: optional(3)? })
}

/// Stores which process declared itself, if it is named, and forgets those of restarts long past.
fn declare_process(
    link: &mut Link,
    launch: i64,
    restart: i64,
    world_size: u32,
    identity: &Identity<'_>,
) -> Result<(), HistoryError> {
    if identity.process.is_empty() {
        return Ok(());
    }
    link.execute(
        "INSERT INTO process (launch, name, restart, rank, world_size) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (launch, name) DO UPDATE SET (restart, rank, world_size) = ($3, $4, $5)",
        &[&launch, &identity.process, &restart, &i64::from(identity.rank.get()), &i64::from(world_size)],
    )?;
    let kept = restart - i64::from(RESTARTS_KEPT);
    link.execute("DELETE FROM process WHERE launch = $1 AND restart < $2", &[&launch, &kept])?;
    Ok(())
}

/// The attempt that a process belongs to here, which may be another than at the sidecar; the given one for a process that
/// is not known.
pub(super) fn attempt_of_process(
    link: &mut Link,
    run: i64,
    attempt: Attempt,
    process: &str,
) -> Result<Attempt, HistoryError> {
    let row = link.query_opt(
        "SELECT restart FROM process WHERE name = $3 AND launch = \
         (SELECT id FROM launch WHERE run = $1 ORDER BY id LIMIT 1 OFFSET $2)",
        &[&run, &i64::from(attempt.launch), &process],
    )?;
    let restart = row.as_ref().map(|row| number(row, 0)).transpose()?;
    Ok(Attempt { restart: restart.unwrap_or(attempt.restart), ..attempt })
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

/// A rank that has not declared itself, or of a restart that is no longer the newest, is not stored.
pub(super) fn finish_rank(
    link: &mut Link,
    run: i64,
    attempt: Attempt,
    rank: u32,
    finished: f64,
) -> Result<(), HistoryError> {
    finite("rank.finished", finished)?;
    link.execute(
        "UPDATE rank SET finished = $5 WHERE rank = $3 AND restart = $4 AND launch = \
         (SELECT id FROM launch WHERE run = $1 ORDER BY id LIMIT 1 OFFSET $2)",
        &[&run, &i64::from(attempt.launch), &i64::from(rank), &i64::from(attempt.restart), &finished],
    )?;
    Ok(())
}
