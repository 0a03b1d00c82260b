//! Where a worker's jobs come from, and where their results go.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::estimate::{self, Settings};
use crate::fault::Fault;
use crate::history::{HistoryError, MadeWith};
use crate::point::Point;
use crate::run::{Run, SplitKey};
use crate::sample::{Attempt, Part};
use crate::score::Influences;
use crate::score::catalogue::{self, Score};
use crate::server::scoring::compute::Late;
use crate::step::Step;

const ROWS: &str = "rows:";

/// What a job computes of a pass.
#[derive(Clone, Copy)]
pub enum Kind {
    /// The point with its cheap and fast scores. The others follow from it.
    Fast,
    /// A slow score, with those that are made of the same matrices.
    Slow(&'static Score),
    /// Rows of the matrices that a slow score is made of: its first row, and the one after its last.
    Rows(&'static Score, usize, usize),
    /// The permutation tests of the scores that the point has.
    Tests,
}

impl Kind {
    /// The kind of this name; `None` for a score that this program does not have.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "fast" => Some(Self::Fast),
            "tests" => Some(Self::Tests),
            name => match name.strip_prefix("slow:") {
                Some(score) => catalogue::find(score).map(Self::Slow),
                None => {
                    let (score, rows) = name.strip_prefix(ROWS)?.split_once(':')?;
                    let (from, to) = rows.split_once('-')?;
                    Some(Self::Rows(catalogue::find(score)?, from.parse().ok()?, to.parse().ok()?))
                }
            },
        }
    }

    /// The prefix of the names of jobs that compute rows for this score.
    pub fn of_rows(score: &Score) -> String {
        format!("{ROWS}{}:", score.id)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fast => f.write_str("fast"),
            Self::Slow(score) => write!(f, "slow:{}", score.id),
            Self::Rows(score, from, to) => write!(f, "{}{from}-{to}", Self::of_rows(score)),
            Self::Tests => f.write_str("tests"),
        }
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Slow(a), Self::Slow(b)) => a.id == b.id,
            (Self::Rows(a, from, to), Self::Rows(b, start, end)) => (a.id, from, to) == (b.id, start, end),
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }
}

/// A job that this worker has leased.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The store's number of the job.
    pub id: i64,
    pub key: SplitKey,
    pub attempt: Attempt,
    pub step: Step,
    pub kind: Kind,
    /// Distinguishes this lease from all others of the job.
    pub lease: String,
    /// Earlier tries that failed or whose worker disappeared.
    pub failures: u32,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, step, kind, .. } = self;
        write!(f, "{kind} of run '{}', split '{}', step {step}", key.run, key.split)
    }
}

/// What a job is computed from.
#[derive(Clone, Debug)]
pub struct Material {
    pub run: Arc<Run>,
    /// Seconds since 1970-01-01 UTC at which the pass was closed.
    pub time: f64,
    /// Empty where they are lost; an error where what arrived cannot be read.
    pub parts: Result<Vec<Part>, Fault>,
    /// Of the evaluation before, for a point.
    pub earlier: Option<Influences>,
    /// The results of the jobs for rows that this job uses, in any order.
    pub rows: Vec<Vec<u8>>,
    /// How the point was made that the result joins, if there is one yet.
    pub point: Option<MadeWith>,
}

impl Material {
    /// The settings to compute with: those of the point, where hubs have stated others since. Errors for an estimator that
    /// this program does not have.
    pub fn settings(&self, stated: Settings) -> Result<Settings, String> {
        let Some(MadeWith { estimator, neighbours, seed }) = &self.point else { return Ok(stated) };
        let kind: estimate::Kind = estimator
            .parse()
            .map_err(|_| format!("got a point of the estimator '{estimator}', which this release does not have"))?;
        Ok(Settings { kind, neighbours: *neighbours as usize, seed: *seed, ..stated })
    }
}

/// Why a job is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// The worker stops.
    Stopped,
    /// The parts were lost with a restart of the database. The pass is open again until sidecars have sent them.
    PartsMissing,
    /// Rows were cut off that the sample needs. The pass is open again until whole parts have come.
    NeedsWhole,
}

/// What a job gives.
#[derive(Clone, Debug)]
pub enum Finished {
    /// A point, what the error of the next change needs of it, the jobs that follow from it, and where the parts of the
    /// next pass may be cut.
    Point { point: Box<Point>, influences: Option<Influences>, following: Vec<Kind>, next_cutoff: Option<u64> },
    /// Rows that a score is made of, which is computed once all are there.
    Rows { rows: Vec<u8> },
    /// What joins the point, and the seconds it took.
    Late { late: Late, seconds: f64 },
    /// The pass has no point, for this reason.
    Unscored { reason: String, rows_seen: u64 },
}

/// Jobs that several workers share. All calls block; one that errors has changed nothing, and may be made again.
pub trait Jobs: Send + Sync {
    /// How all workers compute; `None` until a hub has stated it.
    fn settings(&self) -> Result<Option<Settings>, HistoryError>;

    /// Leases the job that has waited longest; `None` if none waits. A job whose lease has ended waits again and counts one
    /// more failure. The points of a split are computed in order, because the error of a change needs the evaluation
    /// before.
    fn claim(&self, lease: Duration) -> Result<Option<Claim>, HistoryError>;

    /// Whether the lease still holds; if so it lasts this long from now on.
    fn renew(&self, claim: &Claim, lease: Duration) -> Result<bool, HistoryError>;

    fn material(&self, claim: &Claim) -> Result<Material, HistoryError>;

    /// Lets another worker compute it, if the lease still holds.
    fn give_back(&self, claim: &Claim, why: Return) -> Result<(), HistoryError>;

    /// Stores what a job gave, with what follows from it, in one transaction. Returns false, and stores nothing, if the
    /// lease does not hold any more.
    fn finish(&self, claim: &Claim, finished: &Finished) -> Result<bool, HistoryError>;

    /// Notes that a job could not be computed, and lets a worker try again. Returns false if the lease does not hold any
    /// more.
    fn fail(&self, claim: &Claim, reason: &str) -> Result<bool, HistoryError>;
}
