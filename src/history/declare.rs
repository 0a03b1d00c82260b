//! Declaring runs, within a transaction of the caller: decides which run a declaration starts, joins or resumes, and which
//! restart of its launch a rank belongs to.

use super::db::Db;
use super::declaration::{named, numbered, same_declaration};
use super::edit::{finish_run, run_changed, run_to_change};
use super::error::HistoryError;
use super::outcome::RunOutcome;
use super::point::finite;
use super::postgres::insert::touch;
use super::run::{Identity, RESTARTS_KEPT, RunRecord};
use super::sqlite::outbox;
use super::stored::{RUN, RUN_COLUMNS};
use super::usage::MAX_DECLARATION;
use leakage::run::Run;
use leakage::sample::{Attempt, Seen};

/// Held in PostgreSQL by a declaration: names are given one after another, and launches counted.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7220211870110002)";

/// See [`Store::record_run`](super::Store::record_run). Returns also the number of the run.
pub(super) fn declare_run(
    db: &mut Db<'_>,
    project: &str,
    run: &Run,
    identity: &Identity<'_>,
    started: f64,
) -> Result<(i64, RunRecord), HistoryError> {
    finite("run.started", started)?;
    if let Db::Postgres(link) = db {
        link.batch(LOCK)?;
    }
    let declared = run;
    let mut run = named(declared, own_name(db, project, &declared.name, identity)?)?;
    let declared_name = Some(declared.name.as_str()).filter(|name| *name != run.name);
    let known = db.one(
        &format!(
            "SELECT id, declaration, started, finished IS NOT NULL, outcome FROM run WHERE name = $1{}",
            db.to_change()
        ),
        &[&run.name],
        |row| Ok((row.get::<i64>(0)?, row.get::<String>(1)?, row.get(2)?, row.get(3)?, RunOutcome::stored(row, 4)?)),
    )?;
    if let Some((_, stored, ..)) = &known {
        run = run.in_project_of(&serde_json::from_str(stored)?);
    }
    let declaration = serde_json::to_string(&run)?;
    let mut is_news = true;
    let (id, resumed, started, was_finished, outcome) = match known {
        Some((id, stored, started, finished, outcome)) => {
            is_news = finished || stored != declaration;
            if stored != declaration {
                same_declaration(&run.name, &stored, &declaration)?;
            }
            db.execute("UPDATE run SET finished = NULL, declaration = $2 WHERE id = $1", &[&id, &declaration])?;
            (id, true, started, finished, outcome)
        }
        None => {
            let bytes = declaration.len();
            if bytes > MAX_DECLARATION {
                let message = format!("got a declaration of {bytes} bytes, expected at most {MAX_DECLARATION}");
                return Err(HistoryError::invalid("run", message));
            }
            let (labels, concepts) = (serde_json::to_string(&run.labels)?, run.concept_count() as i64);
            let id = db.one(
                "INSERT INTO run (name, declared_name, project, declaration, labels, concepts, started) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id",
                &[&run.name, &declared_name, &project, &declaration, &labels, &concepts, &started],
                |row| row.get(0),
            )?;
            (id.unwrap_or_default(), false, started, false, None)
        }
    };
    let (attempt, known_attempt) = match identity.job {
        "" => (None, resumed),
        job => {
            let (attempt, known, changed) = launch(db, id, job, identity, run.world_size)?;
            is_news |= changed;
            (Some(attempt), known)
        }
    };
    let goes_on = known_attempt && !(was_finished && identity.job.is_empty());
    let joining = (!identity.job.is_empty()).then(|| identity.rank.get());
    if outcome.is_some_and(|outcome| !(goes_on && outcome.outlives(joining))) {
        db.execute("UPDATE run SET outcome = NULL WHERE id = $1", &[&id])?;
    }
    if resumed || db.sqlite().is_some() {
        run_changed(db, id)?;
    }
    let record = RunRecord { run, resumed, started, attempt, continues: known_attempt && !was_finished };
    outbox::note_run(db, id, identity, &record, is_news)?;
    if resumed && let Db::Postgres(link) = db {
        touch(link, id)?;
    }
    Ok((id, record))
}

/// The name of the run that a declaration under the name `declared` refers to.
fn own_name(db: &mut Db<'_>, project: &str, declared: &str, identity: &Identity<'_>) -> Result<String, HistoryError> {
    let is_named = !identity.job.is_empty();
    if is_named {
        let of_launch = db.one(
            "SELECT name FROM run JOIN launch ON launch.run = run.id \
             WHERE job = $2 AND (name = $1 OR declared_name = $1) AND project = $3 ORDER BY launch.id DESC LIMIT 1",
            &[&declared, &identity.job, &project],
            |row| row.get::<String>(0),
        )?;
        if let Some(name) = of_launch
            && owner(db, &name)?.flatten().is_some()
        {
            return Ok(name);
        }
    }
    match owner(db, declared)? {
        None => return Ok(declared.to_owned()),
        Some(Some(owner)) if !is_named || identity.resume => {
            if owner == project {
                return Ok(declared.to_owned());
            }
            let (run, got) = (declared.to_owned(), project.to_owned());
            return Err(HistoryError::OtherProject { run, project: owner, got });
        }
        Some(_) => {}
    }
    for count in 2_u64.. {
        let name = numbered(declared, count);
        if owner(db, &name)?.is_none() {
            return Ok(name);
        }
    }
    unreachable!("a history holds fewer runs than there are numbers")
}

/// The project of a run of that name, `Some(None)` for one that does not match its checksum. A damaged run is never
/// continued: its concepts may not be those that were declared.
fn owner(db: &mut Db<'_>, name: &str) -> Result<Option<Option<String>>, HistoryError> {
    db.one(&format!("SELECT {RUN}, checksum FROM run WHERE name = $1"), &[&name], |row| {
        let intact = row.checksum(None, 0..RUN_COLUMNS)?;
        intact.map(|_| row.get(1)).transpose()
    })
}

/// Records a launch of the run. Returns its attempt, whether that attempt was already known, and whether anything changed.
fn launch(
    db: &mut Db<'_>,
    run: i64,
    job: &str,
    identity: &Identity<'_>,
    world_size: u32,
) -> Result<(Attempt, bool, bool), HistoryError> {
    let known = db.one("SELECT id, restarts FROM launch WHERE run = $1 AND job = $2", &[&run, &job], |row| {
        Ok((row.get::<i64>(0)?, row.number(1)?))
    })?;
    let seen = known.map(|(id, newest)| seen(db, id, newest, identity)).transpose()?;
    let restart = identity.restart_of(world_size, seen.unwrap_or_default());
    let id = match known {
        Some((id, newest)) => {
            let restarts = i64::from(newest.max(restart));
            db.execute("UPDATE launch SET restarts = $2 WHERE id = $1", &[&id, &restarts])?;
            id
        }
        None => {
            let statement = "INSERT INTO launch (run, job, restarts) VALUES ($1, $2, $3) RETURNING id";
            db.one(statement, &[&run, &job, &i64::from(restart)], |row| row.get(0))?.unwrap_or_default()
        }
    };
    let changed = declare_rank(db, id, restart, identity)?;
    declare_process(db, id, restart, world_size, identity)?;
    let statement = "SELECT count(*) FROM launch WHERE run = $1 AND id < $2";
    let launch = db.one(statement, &[&run, &id], |row| row.number(0))?.unwrap_or_default();
    Ok((Attempt { launch, restart }, known.is_some_and(|(_, restarts)| restart <= restarts), changed))
}

/// Stores a rank's declaration. One of an older restart does not replace that of a newer. Returns whether anything changed.
fn declare_rank(db: &mut Db<'_>, launch: i64, restart: u32, identity: &Identity<'_>) -> Result<bool, HistoryError> {
    let (rank, restart, client) = (i64::from(identity.rank.get()), i64::from(restart), identity.client);
    db.execute("DELETE FROM rank WHERE launch = $1 AND restart < $2", &[&launch, &restart])?;
    if db.exists("SELECT 1 FROM rank WHERE launch = $1 AND restart > $2 LIMIT 1", &[&launch, &restart])? {
        return Ok(false);
    }
    let same =
        "SELECT 1 FROM rank WHERE launch = $1 AND rank = $2 AND restart = $3 AND client = $4 AND finished IS NULL";
    let known = db.exists(same, &[&launch, &rank, &restart, &client])?;
    // A rank that declares itself again goes on with the run.
    db.execute(
        "INSERT INTO rank (launch, rank, restart, client) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (launch, rank) DO UPDATE SET restart = $3, client = $4, finished = NULL",
        &[&launch, &rank, &restart, &client],
    )?;
    Ok(!known)
}

/// See [`Store::finish_rank`](super::Store::finish_rank).
pub(super) fn finish_rank(
    db: &mut Db<'_>,
    run: &str,
    attempt: Attempt,
    rank: u32,
    finished: f64,
    outcome: &RunOutcome,
) -> Result<(), HistoryError> {
    finite("rank.finished", finished)?;
    let (id, _) = run_to_change(db, run)?;
    let known = db.execute(
        "UPDATE rank SET finished = $5 WHERE rank = $3 AND restart = $4 AND launch = \
         (SELECT id FROM launch WHERE run = $1 ORDER BY id LIMIT 1 OFFSET $2)",
        &[&id, &i64::from(attempt.launch), &i64::from(rank), &i64::from(attempt.restart), &finished],
    )?;
    match known > 0 || !db.exists("SELECT 1 FROM launch WHERE run = $1 LIMIT 1", &[&id])? {
        true => finish_run(db, run, None, outcome),
        false => Ok(()),
    }
}

/// Returns what is known of a launch, whose newest restart is `newest`, when a process declares itself. A hub is told the
/// restart by the sidecar, and knows no processes.
fn seen(db: &mut Db<'_>, launch: i64, newest: u32, identity: &Identity<'_>) -> Result<Seen, HistoryError> {
    if identity.process.is_empty() {
        return Ok(Seen::default());
    }
    let (rank, restart, process) = (i64::from(identity.rank.get()), i64::from(newest), identity.process);
    let own = "SELECT restart FROM process WHERE launch = $1 AND name = $2";
    let taken = "SELECT 1 FROM process WHERE launch = $1 AND restart = $2 AND rank = $3 AND name <> $4 LIMIT 1";
    let size = "SELECT world_size FROM process WHERE launch = $1 AND restart = $2 LIMIT 1";
    Ok(Seen {
        newest: Some(newest),
        own: db.one(own, &[&launch, &process], |row| row.number(0))?,
        is_taken: db.exists(taken, &[&launch, &restart, &rank, &process])?,
        world_size: db.one(size, &[&launch, &restart], |row| row.number(0))?,
    })
}

/// Stores which process declared itself, if it is named, and forgets those of restarts long past.
fn declare_process(
    db: &mut Db<'_>,
    launch: i64,
    restart: u32,
    world_size: u32,
    identity: &Identity<'_>,
) -> Result<(), HistoryError> {
    if identity.process.is_empty() {
        return Ok(());
    }
    let (rank, world_size) = (i64::from(identity.rank.get()), i64::from(world_size));
    db.execute(
        "INSERT INTO process (launch, name, restart, rank, world_size) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (launch, name) DO UPDATE SET restart = $3, rank = $4, world_size = $5",
        &[&launch, &identity.process, &i64::from(restart), &rank, &world_size],
    )?;
    let oldest = i64::from(restart.saturating_sub(RESTARTS_KEPT));
    db.execute("DELETE FROM process WHERE launch = $1 AND restart < $2", &[&launch, &oldest]).map(drop)
}
