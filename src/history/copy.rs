//! Copies runs from one history to another, whichever engines keep them, without loss.
//!
//! A copy that is interrupted is made again from the start: what is there already is stored again, and points that are more
//! complete stay. Runs keep their jobs, by which the other history tells them from others of their names; a run without a
//! job gets one that is made of its name and its start.

use std::collections::BTreeMap;

use super::declaration::named;
use super::error::HistoryError;
use super::point::WholePoint;
use super::run::{Identity, Remark, StoredLaunch, StoredRun};
use super::settled::{Ending, Unscored};
use super::store::Store;
use leakage::point::Point;
use leakage::sample::Attempt;
use leakage::step::Rank;

/// Points that are read at once; an answer also ends after some megabytes.
const AT_ONCE: usize = 256;

/// The outcome of copying a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Its name in the other history: another one where that was taken by another job.
    pub run: String,
    pub points: u64,
    pub unscored: u64,
}

/// Copies a run with its launches, ranks, points, matrices, passes without points, title and note. Errors where the other
/// history has a run of that name and job that was declared differently.
pub fn copy_run(from: &dyn Store, stored: &StoredRun, to: &dyn Store) -> Result<Copied, HistoryError> {
    let (run, launches) = declare(from, stored, to)?;
    let name = stored.run.name.as_str();
    let here = |attempt: Option<Attempt>| attempt.map(|attempt| attempt_here(&launches, attempt));
    let mut copied = Copied { run: run.clone(), ..Copied::default() };
    for split in from.known_splits(name)? {
        let mut next = Some(0);
        while let Some(first) = next {
            let (points, after) = from.whole_points(name, &split, first, AT_ONCE, true)?;
            for WholePoint { point, attempt, .. } in points {
                to.record_point(&Point { run: run.as_str().into(), ..point }, here(attempt))?;
                copied.points += 1;
            }
            next = after;
        }
        let passes = from.unscored(name, &split)?.into_iter();
        let passes: Vec<Unscored> = passes
            .filter(|pass| pass.outcome != Ending::Damaged)
            .map(|pass| Unscored { run: run.clone(), attempt: here(pass.attempt), ..pass })
            .collect();
        to.record_unscored(&passes)?;
        copied.unscored += passes.len() as u64;
    }
    let (title, note) = (stored.title.clone(), stored.note.clone());
    if title.is_some() || note.is_some() {
        to.remark(&run, &Remark { title, note })?;
    }
    match stored.finished {
        Some(finished) => to.finish_run(&run, finished, &stored.outcome.clone().unwrap_or_default())?,
        None => to.forget_run(&run),
    }
    Ok(copied)
}

/// Declares a run as its launches did, and finishes their ranks. Returns its name, and the number there of each launch.
fn declare(from: &dyn Store, stored: &StoredRun, to: &dyn Store) -> Result<(String, BTreeMap<u32, u32>), HistoryError> {
    let (mut launches, ranks) = (from.launches(&stored.run.name)?, from.ranks(&stored.run.name)?);
    if launches.is_empty() {
        launches.push(StoredLaunch { job: job_of(stored), restarts: 0 });
    }
    let (mut run, mut numbers, mut resume) = (stored.run.clone(), BTreeMap::new(), false);
    for (number, launch) in (0..).zip(&launches) {
        let declared: Vec<_> = ranks.iter().filter(|rank| rank.attempt.launch == number).collect();
        // A run without a job has none.
        let clients = declared.iter().map(|rank| (Rank::stored(rank.rank), rank.client.as_str()));
        let clients = if declared.is_empty() { vec![(Rank::default(), "")] } else { clients.collect() };
        for (rank, client) in clients {
            let (job, restart) = (launch.job.as_str(), launch.restarts);
            let identity = Identity { job, restart, resume, rank, client, ..Identity::default() };
            let record = to.record_run(&run, &identity, stored.started)?;
            // The launches after the first belong to the run that the first has declared, whatever its name.
            (run, resume) = (named(&run, record.run.name.clone())?, true);
            numbers.extend(record.attempt.map(|attempt| (number, attempt.launch)));
        }
    }
    for rank in ranks.iter().filter(|rank| rank.finished) {
        let finished = stored.finished.unwrap_or(stored.started);
        // The outcome is that of one rank, and of the run if it has not finished.
        let outcome = stored.outcome.as_ref().filter(|outcome| outcome.rank() == Some(rank.rank));
        let outcome = outcome.cloned().unwrap_or_default();
        to.finish_rank(&run.name, attempt_here(&numbers, rank.attempt), Rank::stored(rank.rank), finished, &outcome)?;
    }
    Ok((run.name.clone(), numbers))
}

/// The job of a run that has none: always the same for the same run, and another for any run that only has its name. Without
/// a job the copy would continue whatever run has its name.
fn job_of(stored: &StoredRun) -> String {
    format!("copy of '{}', started at {}", stored.run.name, stored.started)
}

fn attempt_here(launches: &BTreeMap<u32, u32>, attempt: Attempt) -> Attempt {
    Attempt { launch: launches.get(&attempt.launch).copied().unwrap_or(attempt.launch), ..attempt }
}
