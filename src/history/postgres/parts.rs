//! Parts of passes whose ranks are on several hosts, from the first part to the job.
//!
//! A part is committed before anyone asks whether the pass is complete, so whoever commits last sees all parts and closes
//! the pass; no lock is needed. The first part of a newer attempt discards what is open of older ones in its split.

use std::collections::BTreeMap;
use std::time::Duration;

use super::link::Link;
use super::runs::{number, run_id, run_to_change};
use super::store::Postgres;
use super::unscored::insert_unscored;
use crate::history::error::HistoryError;
use crate::history::point::integer;
use crate::history::settled::{Ending, Unscored};
use crate::sample::{Attempt, Part};

/// A pass of a run, by the run's name here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PassKey {
    pub run: String,
    pub split: String,
    pub attempt: Attempt,
    pub step: u64,
}

/// What became of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutPart {
    /// Kept; other ranks have yet to end the pass.
    Open,
    /// Kept, and the pass has all its ranks; or it was closed before.
    Closed,
    /// Not kept: a newer attempt of the run has sent to this split.
    StaleAttempt,
}

/// Where a pass stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassState {
    /// Not decided.
    Open,
    /// The part of this source is not there, or was cut where rows are needed: it is to be sent without a cut-off.
    NeedsWhole,
    /// Its point is stored; if it is not final, slow scores may join it.
    Settled { incomplete: bool, is_final: bool },
    /// There will be no point.
    Unscored { ending: Ending, reason: String },
}

/// Passes that the deadline closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overdue {
    /// With the parts that have come.
    pub closed: u64,
    /// Without any: they have no point.
    pub lost: u64,
}

impl Postgres {
    /// Keeps a source's part of a pass in place of an earlier one that holds less, and closes the pass if all its ranks have
    /// ended. Errors in the field at fault where `body` is no part, or not one of this pass.
    pub fn put_part(&self, pass: &PassKey, source: &str, body: &[u8]) -> Result<PutPart, HistoryError> {
        let part = Part::from_bytes(body).map_err(|fault| HistoryError::invalid(fault.field, fault.message))?;
        if part.step().get() != pass.step {
            let message = format!("got {}, expected {} as its head says", part.step(), pass.step);
            return Err(HistoryError::invalid("part.step", message));
        }
        match self.write(|link| put(link, pass, source, &part, body))? {
            // In a statement after the commit, which sees what others have committed.
            (PutPart::Open, Some(id)) => match self.close_complete(id)? {
                true => Ok(PutPart::Closed),
                false => Ok(PutPart::Open),
            },
            (state, _) => Ok(state),
        }
    }

    /// Closes a pass whose parts hold all its ranks. Returns whether it is closed.
    fn close_complete(&self, pass: i64) -> Result<bool, HistoryError> {
        self.write(|link| {
            close(link, Some(pass))?;
            let row = link.query_opt("SELECT closed IS NOT NULL FROM pass WHERE id = $1", &[&pass])?;
            Ok(row.is_none_or(|row| row.get(0)))
        })
    }

    /// Closes the passes whose first part came longer ago than `deadline`, with the parts that have come. To be called every
    /// second or so by each hub.
    pub fn close_overdue(&self, deadline: Duration) -> Result<Overdue, HistoryError> {
        // A process may have ended between its part and the closing.
        self.write(|link| close(link, None))?;
        let overdue = self.read(|link| {
            link.query(
                "SELECT pass.id, run.name FROM pass JOIN run ON run.id = pass.run \
                 WHERE closed IS NULL AND opened < now() - make_interval(secs => $1) ORDER BY pass.id",
                &[&deadline.as_secs_f64()],
            )
        })?;
        let mut result = Overdue::default();
        for row in overdue {
            let (id, run): (i64, String) = (row.get(0), row.get(1));
            match self.write(|link| close_late(link, id, &run, deadline))? {
                Some(true) => result.closed += 1,
                Some(false) => result.lost += 1,
                None => {}
            }
        }
        // A part that comes later finds its pass closed.
        self.write(|link| link.execute("DELETE FROM pass WHERE done < now() - interval '1 day'", &[]))?;
        Ok(result)
    }

    /// Where the next parts of a split may be cut.
    pub fn next_cutoff(&self, run: &str, split: &str) -> Result<Option<u64>, HistoryError> {
        let row = self.read(|link| {
            link.query_opt(
                "SELECT next_cutoff FROM influence JOIN run ON run.id = influence.run WHERE name = $1 AND split = $2",
                &[&run, &split],
            )
        })?;
        Ok(row.and_then(|row| row.get::<_, Option<i64>>(0)).map(i64::cast_unsigned))
    }

    /// Where passes stand, for a source that sends parts of them: one state for each.
    pub fn pass_states(&self, source: &str, passes: &[PassKey]) -> Result<Vec<PassState>, HistoryError> {
        self.read(|link| {
            let mut runs = BTreeMap::new();
            let mut states = Vec::with_capacity(passes.len());
            for pass in passes {
                let run = match runs.get(&pass.run) {
                    Some(run) => *run,
                    None => *runs.entry(&pass.run).or_insert(run_id(link, &pass.run)?),
                };
                states.push(state(link, run, source, pass)?);
            }
            Ok(states)
        })
    }
}

fn columns(pass: &PassKey) -> Result<(i64, i64, i64), HistoryError> {
    Ok((integer("step", pass.step)?, pass.attempt.launch.into(), pass.attempt.restart.into()))
}

/// The pass is the number of the one that may be complete now.
fn put(
    link: &mut Link,
    pass: &PassKey,
    source: &str,
    part: &Part,
    body: &[u8],
) -> Result<(PutPart, Option<i64>), HistoryError> {
    let run = run_id(link, &pass.run)?;
    let (step, launch, restart) = columns(pass)?;
    if raised(link, run, pass)? < (launch, restart) {
        raise(link, run, pass)?;
    }
    // Nobody raises it before this part is committed.
    let statement = "SELECT launch, restart FROM sending WHERE run = $1 AND split = $2 FOR SHARE";
    let newest = link.query_one(statement, &[&run, &pass.split])?;
    if (newest.get::<_, i64>(0), newest.get::<_, i64>(1)) != (launch, restart) {
        return Ok((PutPart::StaleAttempt, None));
    }
    let settled = "SELECT 1 FROM point WHERE run = $1 AND split = $2 AND step = $3 AND launch = $4 AND restart = $5 \
                   AND NOT provisional LIMIT 1";
    let key = "SELECT id, closed IS NOT NULL, world_size FROM pass \
               WHERE run = $1 AND split = $2 AND step = $3 AND launch = $4 AND restart = $5 FOR SHARE";
    let mut known = link.query_opt(key, &[&run, &pass.split, &step, &launch, &restart])?;
    if known.is_none() {
        if link.query_opt(settled, &[&run, &pass.split, &step, &launch, &restart])?.is_some() {
            return Ok((PutPart::Closed, None));
        }
        // Of this attempt: the run may have been declared with another since.
        let world_size = part.world_size().cast_signed();
        link.execute(
            "INSERT INTO pass (run, split, step, launch, restart, world_size, opened) \
             VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp()) ON CONFLICT (run, split, step, launch, restart) DO NOTHING",
            &[&run, &pass.split, &step, &launch, &restart, &world_size],
        )?;
        known = link.query_opt(key, &[&run, &pass.split, &step, &launch, &restart])?;
    }
    // A pass is removed a day after it was done.
    let Some(known) = known.filter(|row| !row.get::<_, bool>(1)) else { return Ok((PutPart::Closed, None)) };
    let (id, world_size): (i64, i32) = (known.get(0), known.get(2));
    if part.world_size() != world_size.cast_unsigned() {
        let message = format!("got {}, expected {world_size} as in another part of the pass", part.world_size());
        return Err(HistoryError::invalid("part.world_size", message));
    }
    let ended: Vec<i32> = part.ended().iter().map(|rank| rank.get().cast_signed()).collect();
    // Parts may arrive in another order than they were sent in.
    link.execute(
        "INSERT INTO part (pass, source, ended, cutoff, body) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (pass, source) DO UPDATE SET (ended, cutoff, body) = (excluded.ended, excluded.cutoff, excluded.body) \
         WHERE (cardinality(excluded.ended), excluded.cutoff IS NULL) >= (cardinality(part.ended), part.cutoff IS NULL)",
        &[&id, &source, &ended, &part.cutoff().map(u64::cast_signed), &body],
    )?;
    Ok((PutPart::Open, Some(id)))
}

/// The newest attempt that has sent to a split.
fn raised(link: &mut Link, run: i64, pass: &PassKey) -> Result<(i64, i64), HistoryError> {
    let statement = "SELECT launch, restart FROM sending WHERE run = $1 AND split = $2";
    let row = link.query_opt(statement, &[&run, &pass.split])?;
    Ok(row.map_or((-1, -1), |row| (row.get(0), row.get(1))))
}

/// Makes an attempt the newest of a split. What is open of older ones is discarded: those rows are of another model.
fn raise(link: &mut Link, run: i64, pass: &PassKey) -> Result<(), HistoryError> {
    run_to_change(link, &pass.run)?;
    let (_, launch, restart) = columns(pass)?;
    if raised(link, run, pass)? >= (launch, restart) {
        return Ok(());
    }
    link.execute(
        "INSERT INTO sending (run, split, launch, restart) VALUES ($1, $2, $3, $4) ON CONFLICT (run, split) \
         DO UPDATE SET (launch, restart) = (excluded.launch, excluded.restart)",
        &[&run, &pass.split, &launch, &restart],
    )?;
    let older = link.query(
        "DELETE FROM pass WHERE run = $1 AND split = $2 AND (launch, restart) < ($3, $4) AND closed IS NULL \
         RETURNING step, launch, restart, extract(epoch FROM clock_timestamp())::float8",
        &[&run, &pass.split, &launch, &restart],
    )?;
    let discarded = |row: &postgres::Row| {
        Ok(Unscored {
            run: pass.run.clone(),
            split: pass.split.clone(),
            step: row.get::<_, i64>(0).cast_unsigned(),
            ordinal: crate::step::Ordinal::default(),
            time: row.get(3),
            outcome: Ending::Discarded,
            reason: "a newer attempt of the run began before all ranks had ended it".to_owned(),
            rows_seen: 0,
            attempt: Some(Attempt { launch: number(row, 1)?, restart: number(row, 2)? }),
        })
    };
    let discarded: Vec<Unscored> = older.iter().map(discarded).collect::<Result<_, HistoryError>>()?;
    insert_unscored(link, &discarded).map(drop)
}

/// Closes one pass or all, where every rank has ended; the parts of a pass that needs whole ones count without cut-off.
fn close(link: &mut Link, pass: Option<i64>) -> Result<(), HistoryError> {
    link.execute(
        "WITH closing AS (UPDATE pass SET closed = clock_timestamp() WHERE closed IS NULL AND ($1::bigint IS NULL OR id = $1) \
         AND (SELECT count(DISTINCT rank) FROM part, unnest(ended) AS rank \
         WHERE part.pass = pass.id AND NOT (pass.needs_whole AND cutoff IS NOT NULL)) >= world_size RETURNING id) \
         INSERT INTO job (pass, kind) SELECT id, 'fast' FROM closing ON CONFLICT (pass, kind) DO NOTHING",
        &[&pass],
    )?;
    Ok(())
}

/// Closes an overdue pass. Returns whether it has parts to be computed from; `None` if it was closed meanwhile.
fn close_late(link: &mut Link, id: i64, run: &str, deadline: Duration) -> Result<Option<bool>, HistoryError> {
    run_to_change(link, run)?;
    let row = link.query_opt(
        "SELECT split, step, launch, restart, needs_whole, extract(epoch FROM clock_timestamp())::float8 FROM pass \
         WHERE id = $1 AND closed IS NULL AND opened < now() - make_interval(secs => $2) FOR UPDATE",
        &[&id, &deadline.as_secs_f64()],
    )?;
    let Some(row) = row else { return Ok(None) };
    if row.get(4) {
        link.execute("DELETE FROM part WHERE pass = $1 AND cutoff IS NOT NULL", &[&id])?;
    }
    let parts: i64 = link.query_one("SELECT count(*) FROM part WHERE pass = $1", &[&id])?.get(0);
    if parts > 0 {
        link.execute("UPDATE pass SET closed = clock_timestamp() WHERE id = $1", &[&id])?;
        link.execute("INSERT INTO job (pass, kind) VALUES ($1, 'fast') ON CONFLICT (pass, kind) DO NOTHING", &[&id])?;
        return Ok(Some(true));
    }
    let scored = link.query_opt("SELECT 1 FROM job WHERE pass = $1 AND kind = 'fast' AND done", &[&id])?.is_some();
    if !scored {
        let lost = Unscored {
            run: run.to_owned(),
            split: row.get(0),
            step: row.get::<_, i64>(1).cast_unsigned(),
            ordinal: crate::step::Ordinal::default(),
            time: row.get(5),
            outcome: Ending::Unsettled,
            reason: "its rows were lost with a restart of the database, and did not come again".to_owned(),
            rows_seen: 0,
            attempt: Some(Attempt { launch: number(&row, 2)?, restart: number(&row, 3)? }),
        };
        insert_unscored(link, &[lost])?;
    }
    link.execute("DELETE FROM job WHERE pass = $1", &[&id])?;
    link.execute("UPDATE pass SET closed = now(), done = now() WHERE id = $1", &[&id])?;
    Ok(Some(false))
}

fn state(link: &mut Link, run: i64, source: &str, pass: &PassKey) -> Result<PassState, HistoryError> {
    let (step, launch, restart) = columns(pass)?;
    let point = link.query_opt(
        "SELECT incomplete, NOT EXISTS (SELECT 1 FROM pass WHERE (run, split, step, launch, restart) = ($1, $2, $3, $4, $5) \
         AND done IS NULL) FROM point WHERE (run, split, step, launch, restart) = ($1, $2, $3, $4, $5) AND NOT provisional \
         ORDER BY superseded LIMIT 1",
        &[&run, &pass.split, &step, &launch, &restart],
    )?;
    if let Some(point) = point {
        return Ok(PassState::Settled { incomplete: point.get(0), is_final: point.get(1) });
    }
    let unscored = link.query_opt(
        "SELECT reason, outcome FROM unscored WHERE run = $1 AND split = $2 AND step = $3 AND launch = $4 AND restart = $5",
        &[&run, &pass.split, &step, &launch, &restart],
    )?;
    if let Some(unscored) = unscored {
        let ending = Ending::named(unscored.get(1)).unwrap_or(Ending::Failed);
        return Ok(PassState::Unscored { ending, reason: unscored.get(0) });
    }
    let known = link.query_opt(
        "SELECT done IS NOT NULL, closed IS NOT NULL, EXISTS (SELECT 1 FROM part WHERE part.pass = pass.id \
         AND source = $6 AND NOT (needs_whole AND cutoff IS NOT NULL)) FROM pass \
         WHERE run = $1 AND split = $2 AND step = $3 AND launch = $4 AND restart = $5",
        &[&run, &pass.split, &step, &launch, &restart, &source],
    )?;
    let unscored = |ending, reason: &str| Ok(PassState::Unscored { ending, reason: reason.to_owned() });
    match known.map(|row| (row.get(0), row.get(1), row.get(2))) {
        Some((true, _, _)) => unscored(Ending::Failed, "the history has another point of this step"),
        _ if raised(link, run, pass)? > (launch, restart) => {
            unscored(Ending::Discarded, "a newer attempt of the run has begun")
        }
        Some((_, true, _) | (_, _, true)) => Ok(PassState::Open),
        // Also where the parts of an open pass were lost.
        Some((_, false, false)) | None => Ok(PassState::NeedsWhole),
    }
}
