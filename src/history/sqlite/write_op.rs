//! A change of the history as a value, so that it can be kept and made again.

use std::collections::HashSet;

use rusqlite::Connection;

use super::declare::declare_run;
use super::insert::{insert_point, mark_finished};
use super::ranks::finish_rank;
use super::title_and_note::{remove, set_remark};
use super::unscored::insert_unscored;
use crate::history::error::HistoryError;
use crate::history::run::{Identity, Remark};
use crate::history::settled::{Unscored, Written};
use crate::point::{Outcome, Point};
use crate::run::Run;
use crate::sample::Attempt;

/// A change that has yet to be written.
pub(super) enum Entry {
    Run {
        run: Box<Run>,
        job: String,
        client: String,
        process: String,
        rank: crate::step::Rank,
        restart: u32,
        resume: bool,
        started: f64,
    },
    Point(Box<Point>, Option<Attempt>),
    Unscored(Vec<Unscored>),
    FinishRun {
        run: String,
        finished: f64,
    },
    FinishRank {
        run: String,
        attempt: Attempt,
        rank: u32,
        finished: f64,
    },
    Remark {
        run: String,
        remark: Remark,
    },
    RemoveRun(String),
}

impl Entry {
    pub fn run(run: &Run, identity: &Identity<'_>, started: f64) -> Self {
        let Identity { job, restart, resume, rank, client, process, .. } = *identity;
        Self::Run {
            run: Box::new(run.clone()),
            job: job.to_owned(),
            client: client.to_owned(),
            process: process.to_owned(),
            rank,
            restart,
            resume,
            started,
        }
    }

    pub fn point(&self) -> Option<&Point> {
        match self {
            Self::Point(point, _) => Some(point),
            _ => None,
        }
    }

    pub fn apply(&self, connection: &Connection) -> Result<(), HistoryError> {
        match self {
            Self::Run { run, job, client, process, rank, restart, resume, started } => {
                let (restart, resume, rank) = (*restart, *resume, *rank);
                let identity = Identity { job, restart, resume, rank, client, process };
                declare_run(connection, run, &identity, *started).map(drop)
            }
            Self::Point(point, attempt) => insert_point(connection, point, *attempt).map(drop),
            Self::Unscored(passes) => insert_unscored(connection, passes).map(drop),
            Self::FinishRun { run, finished } => mark_finished(connection, run, *finished),
            Self::FinishRank { run, attempt, rank, finished } => {
                finish_rank(connection, run, *attempt, *rank, *finished)
            }
            Self::Remark { run, remark } => set_remark(connection, run, remark),
            Self::RemoveRun(run) => remove(connection, run, &HashSet::new()),
        }
    }

    /// Whether it can be large and there can be many, which is why room is left for the others.
    pub fn is_bulk(&self) -> bool {
        matches!(self, Self::Point(..) | Self::Unscored(_))
    }

    /// Approximate bytes in memory.
    pub fn bytes(&self) -> usize {
        const SMALL: usize = 256;
        SMALL
            + match self {
                Self::Run { run, .. } => {
                    run.concepts.iter().map(|concept| concept.name.len() + 64).sum::<usize>() + 4096
                }
                Self::Point(point, _) => point.scores.iter().map(|(_, outcome)| SMALL + outcome_bytes(outcome)).sum(),
                Self::Unscored(passes) => passes.iter().map(|pass| SMALL + pass.reason.len()).sum(),
                Self::Remark { remark, .. } => remark.note.as_ref().map_or(0, String::len),
                Self::FinishRun { .. } | Self::FinishRank { .. } | Self::RemoveRun(_) => 0,
            }
    }

    /// Adds the reports to be made once it is durable.
    pub fn written(self, reports: &mut Vec<Written>) {
        match self {
            Self::Point(point, attempt) => reports.push(Written {
                run: point.run.to_string(),
                split: point.split.to_string(),
                step: point.step,
                ordinal: point.ordinal,
                attempt,
                ending: None,
            }),
            Self::Unscored(passes) => reports.extend(passes.into_iter().map(|pass| Written {
                run: pass.run,
                split: pass.split,
                step: pass.step,
                ordinal: pass.ordinal,
                attempt: pass.attempt,
                ending: Some(pass.outcome),
            })),
            Self::Run { .. }
            | Self::FinishRun { .. }
            | Self::FinishRank { .. }
            | Self::Remark { .. }
            | Self::RemoveRun(_) => {}
        }
    }
}

fn outcome_bytes(outcome: &Outcome) -> usize {
    let list = |values: Option<&[Option<f64>]>| values.map_or(0, |values| values.len() * 16);
    let square = |rows: Option<&[Vec<Option<f64>>]>| rows.map_or(0, |rows| rows.len() * rows.len() * 16);
    list(outcome.per_concept())
        + list(outcome.per_concept_q())
        + square(outcome.matrix())
        + square(outcome.matrix_q())
        + outcome.ages().map_or(0, |ages| ages.len() * ages.len() * 8)
}
