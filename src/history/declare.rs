//! Declaring runs, within a transaction of the caller: decides which run a declaration starts, joins or resumes.

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

use super::error::HistoryError;
use super::insert::finite;
use super::ranks::declare_rank;
use super::seal::{RUN, RUN_COLUMNS, Seal, seal_run};
use crate::fault::in_short;
use crate::name::MAX_NAME;
use crate::run::{Run, RunFields};
use crate::sample::Attempt;
use crate::step::Rank;

/// The launch that declares a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The launch's name, equal on all its ranks; empty for an unnamed launch.
    pub job: &'a str,
    /// Restarts of the launch so far.
    pub restart: u32,
    /// This launch continues the run of exactly that name, even if another launch started it.
    pub resume: bool,
    /// The rank that declares itself; not stored for an unnamed launch.
    pub rank: Rank,
    /// The client that sends as this rank.
    pub client: &'a str,
}

/// The result of declaring a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// As declared, except for the name if that was taken.
    pub run: Run,
    /// The run existed, with the same declaration. If it had finished, it is open again.
    pub resumed: bool,
    /// Seconds since 1970-01-01 UTC of its first start.
    pub started: f64,
    /// The index of the launch among the run's launches, and its restart count; `None` for an unnamed launch.
    pub attempt: Option<Attempt>,
    /// The attempt was already known and the run had not finished: it continues the stored evaluations.
    pub continues: bool,
}

/// See [`History::record_run`](super::History::record_run).
pub(super) fn declare_run(
    connection: &Connection,
    run: &Run,
    identity: &Identity<'_>,
    started: f64,
) -> Result<RunRecord, HistoryError> {
    finite("run.started", started)?;
    let declared = run;
    let run = named(declared, own_name(connection, &declared.name, identity)?)?;
    let declared_name = Some(&declared.name).filter(|name| **name != run.name);
    let declaration = serde_json::to_string(&run)?;
    let known: Option<(i64, String, f64, bool)> = connection
        .query_row(
            "SELECT id, declaration, started, finished IS NOT NULL FROM run WHERE name = ?1",
            [&run.name],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
        )
        .optional()?;
    let (id, resumed, started, was_finished) = match known {
        Some((id, stored, started, finished)) => {
            if stored != declaration {
                same_declaration(&run.name, &stored, &declaration)?;
            }
            connection
                .execute("UPDATE run SET finished = NULL, declaration = ?2 WHERE id = ?1", params![id, declaration])?;
            (id, true, started, finished)
        }
        None => {
            connection.execute(
                "INSERT INTO run (name, declaration, started, declared_name) VALUES (?1, ?2, ?3, ?4)",
                params![run.name, declaration, started, declared_name],
            )?;
            (connection.last_insert_rowid(), false, started, false)
        }
    };
    seal_run(connection, id)?;
    let (attempt, known_attempt) = match identity.job {
        "" => (None, resumed),
        job => {
            let (attempt, known) = launch(connection, id, job, identity)?;
            (Some(attempt), known)
        }
    };
    Ok(RunRecord { run, resumed, started, attempt, continues: known_attempt && !was_finished })
}

/// The name of the run that a declaration under the name `declared` refers to.
fn own_name(connection: &Connection, declared: &str, identity: &Identity<'_>) -> Result<String, HistoryError> {
    if identity.job.is_empty() {
        return if is_intact(connection, declared)? {
            Ok(declared.to_owned())
        } else {
            next_free(connection, declared)
        };
    }
    let of_launch: Option<String> = connection
        .prepare_cached(
            "SELECT name FROM run JOIN launch ON launch.run = run.id \
             WHERE job = ?2 AND ?1 IN (name, declared_name) ORDER BY launch.id DESC LIMIT 1",
        )?
        .query_row([declared, identity.job], |row| row.get(0))
        .optional()?;
    if let Some(name) = of_launch
        && is_intact(connection, &name)?
    {
        return Ok(name);
    }
    let taken = connection.prepare_cached("SELECT 1 FROM run WHERE name = ?1")?.exists([declared])?;
    if !taken || (identity.resume && is_intact(connection, declared)?) {
        return Ok(declared.to_owned());
    }
    next_free(connection, declared)
}

/// Whether the run matches its checksum, or there is none of that name. A damaged run is never continued: its concepts
/// may not be those that were declared.
fn is_intact(connection: &Connection, name: &str) -> Result<bool, HistoryError> {
    let intact = connection
        .prepare_cached(&format!("SELECT {RUN}, checksum FROM run WHERE name = ?1"))?
        .query_row([name], |row| Ok(Seal::new().matching(row, 0, RUN_COLUMNS)?.is_some()))
        .optional()?;
    Ok(intact.unwrap_or(true))
}

fn next_free(connection: &Connection, declared: &str) -> Result<String, HistoryError> {
    let mut taken = connection.prepare_cached("SELECT 1 FROM run WHERE name = ?1")?;
    for number in 2_u64.. {
        let suffix = format!("-{number}");
        let name: String = declared.chars().take(MAX_NAME - suffix.len()).chain(suffix.chars()).collect();
        if !taken.exists([&name])? {
            return Ok(name);
        }
    }
    unreachable!("a history holds fewer runs than there are numbers")
}

/// The run under another name.
fn named(run: &Run, name: String) -> Result<Run, HistoryError> {
    let fields = RunFields { name, ..RunFields::clone(run) };
    Run::try_from(fields).map_err(|fault| HistoryError::invalid(fault.field, fault.message))
}

/// Records a launch of the run. Returns its attempt, and whether that attempt was already known.
fn launch(
    connection: &Connection,
    run: i64,
    job: &str,
    identity: &Identity<'_>,
) -> Result<(Attempt, bool), HistoryError> {
    let restart = identity.restart;
    let known: Option<(i64, u32)> = connection
        .prepare_cached("SELECT id, restarts FROM launch WHERE run = ?1 AND job = ?2")?
        .query_row(params![run, job], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let id = match known {
        Some((id, _)) => {
            connection.execute("UPDATE launch SET restarts = max(restarts, ?2) WHERE id = ?1", params![id, restart])?;
            id
        }
        None => {
            connection
                .execute("INSERT INTO launch (run, job, restarts) VALUES (?1, ?2, ?3)", params![run, job, restart])?;
            connection.last_insert_rowid()
        }
    };
    declare_rank(connection, id, restart, identity.rank.get(), identity.client)?;
    let launch = connection
        .prepare_cached("SELECT count(*) FROM launch WHERE run = ?1 AND id < ?2")?
        .query_row([run, id], |row| row.get(0))?;
    Ok((Attempt { launch, restart }, known.is_some_and(|(_, restarts)| restart <= restarts)))
}

/// Errors at the first difference other than `world_size`. Both texts go through the same parser, so that equal numbers
/// compare equal.
fn same_declaration(run: &str, stored: &str, got: &str) -> Result<(), HistoryError> {
    let (mut stored, mut got): (Value, Value) = (serde_json::from_str(stored)?, serde_json::from_str(got)?);
    // A job may restart with more or fewer ranks; any other difference would make the curve incomparable.
    for declaration in [&mut stored, &mut got] {
        declaration.as_object_mut().and_then(|fields| fields.remove("world_size"));
    }
    match first_difference("run", &stored, &got) {
        None => Ok(()),
        Some((field, stored, came)) => {
            Err(HistoryError::DeclarationDiffers { run: run.to_owned(), field, stored, came })
        }
    }
}

/// Path of the first field that differs, and both values as short text.
fn first_difference(path: &str, stored: &Value, got: &Value) -> Option<(String, String, String)> {
    match (stored, got) {
        (a, b) if a == b => None,
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            keys.into_iter().find_map(|key| {
                let side = |object: &serde_json::Map<String, Value>| object.get(key).cloned().unwrap_or(Value::Null);
                first_difference(&format!("{path}.{key}"), &side(a), &side(b))
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(i, (a, b))| first_difference(&format!("{path}[{i}]"), a, b))
        }
        (a, b) => Some((path.to_owned(), described(a), described(b))),
    }
}

fn described(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Array(items) => format!("{} items", items.len()),
        Value::Object(fields) => format!("{} fields", fields.len()),
        other => in_short(&other.to_string()),
    }
}
