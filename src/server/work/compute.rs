//! What a job gives.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

use crate::estimate::Settings;
use crate::point::Outcome;
use crate::repeats::without_repeats;
use crate::sample::{Evaluation, PassOf, Union, union};
use crate::score::catalogue::{Cost, Score};
use crate::score::{Influences, PurityRows, always_together, panic_text};
use crate::server::scoring::compute::{Computing, Late, Piece};

use super::jobs::{Claim, Finished, Kind, Material, Return};

/// How computing a job ended.
pub enum Computed {
    Finished(Finished),
    GiveBack(Return),
    /// It cannot be computed, for this reason.
    Failed(String),
    /// It was to halt.
    Halted,
}

/// Unwinds a computation that is to halt.
struct Halt;

/// Computes a job in the pool of its caller. Ends within milliseconds once `halts` is true.
pub fn compute(
    pool: &rayon::ThreadPool,
    settings: Settings,
    claim: &Claim,
    material: Material,
    halts: &(dyn Fn() -> bool + Sync),
) -> Computed {
    // Long scores ask nobody whether to go on, but pause every few milliseconds. Nothing that they hold is used again.
    let pause = || {
        if halts() {
            resume_unwind(Box::new(Halt));
        }
    };
    let on_failure =
        |what: &str, text: &str| tracing::error!(job = %claim, what, text, "a score failed because of a bug");
    let computing = Computing { settings, memory: None, pause: &pause, is_stopping: halts, on_failure: &on_failure };
    match catch_unwind(AssertUnwindSafe(|| pool.install(|| of_parts(&computing, claim, material)))) {
        Ok(Some(computed)) => computed,
        Ok(None) => Computed::Halted,
        Err(panic) if panic.is::<Halt>() => Computed::Halted,
        // What the threads of a halted computation left behind may make others fail.
        Err(_) if halts() => Computed::Halted,
        Err(panic) => Computed::Failed(format!(
            "a score failed because of a bug in the program: {}",
            panic_text(&*panic).unwrap_or("no message")
        )),
    }
}

fn of_parts(computing: &Computing, claim: &Claim, material: Material) -> Option<Computed> {
    let parts = match material.parts {
        Ok(parts) if parts.is_empty() => return Some(Computed::GiveBack(Return::PartsMissing)),
        Ok(parts) => parts,
        Err(fault) => return Some(Computed::Finished(claim.without(&fault.to_string(), 0))),
    };
    let pass = PassOf { key: claim.key.clone(), run: material.run, attempt: claim.attempt, time: material.time };
    let (evaluation, next_cutoff) = match union(parts, pass) {
        Ok(Union::Exact { evaluation, next_cutoff }) => {
            (without_repeats(&evaluation).unwrap_or(*evaluation), next_cutoff)
        }
        Ok(Union::NeedsWhole { rows, cutoff }) => {
            tracing::info!(job = %claim, rows, cutoff, "the parts are cut too short");
            return Some(Computed::GiveBack(Return::NeedsWhole));
        }
        Err(fault) => return Some(Computed::Finished(claim.without(&fault.to_string(), 0))),
    };
    let started = Instant::now();
    let late = |late: Late| Finished::Late { late, seconds: started.elapsed().as_secs_f64() };
    let finished = match claim.kind {
        Kind::Fast => point(computing, &evaluation, material.earlier.as_ref(), next_cutoff)?,
        Kind::Slow(score) => {
            let rows = material.rows.iter().map(|bytes| postcard::from_bytes(bytes));
            let joined = match rows.collect::<Result<Vec<PurityRows>, _>>() {
                Ok(rows) => computing.slow(&evaluation, score, rows)?,
                Err(error) => Err(format!("rows of another release: {error}")),
            };
            match joined {
                Ok(joined) => late(joined),
                Err(why) => return Some(Computed::Failed(why)),
            }
        }
        Kind::Rows(Score { panel: Some(panel), .. }, from, to) if from < to && to <= evaluation.run.concept_count() => {
            rows(&computing.rows(&evaluation, *panel, from..to))
        }
        Kind::Rows(..) => return Some(Computed::Failed("got rows that the score does not have".to_owned())),
        Kind::Tests => late(computing.tests(&evaluation)?),
    };
    Some(Computed::Finished(finished))
}

fn point(
    computing: &Computing,
    evaluation: &Evaluation,
    earlier: Option<&Influences>,
    next_cutoff: Option<u64>,
) -> Option<Finished> {
    if evaluation.sample.rows() == 0 {
        let reason = "the pass had no rows".to_owned();
        return Some(Finished::Unscored { reason, rows_seen: evaluation.rows_seen });
    }
    let mut influences = None;
    let change_errors = |now: Influences| {
        let errors = earlier.map_or_else(Vec::new, |earlier| now.change_errors(earlier));
        influences = Some(now);
        errors
    };
    let (point, _) = computing.point(evaluation, Cost::AT_ONCE, None, change_errors)?;
    let following = computing.following(evaluation).into_iter().map(|piece| match piece {
        Piece::Score(score) => Kind::Slow(score),
        Piece::Rows(score, range) => Kind::Rows(score, range.start, range.end),
        Piece::Tests => Kind::Tests,
    });
    let following = following.collect();
    Some(Finished::Point { point: Box::new(point), influences, following, next_cutoff })
}

fn rows(rows: &PurityRows) -> Finished {
    Finished::Rows { rows: postcard::to_stdvec(rows).expect("a vector takes any bytes") }
}

impl Claim {
    /// The result of a job that cannot be computed.
    pub fn without(&self, reason: &str, rows_seen: u64) -> Finished {
        match self.kind {
            Kind::Fast => Finished::Unscored { reason: reason.to_owned(), rows_seen },
            Kind::Rows(_, from, _) => rows(&PurityRows::failed(from, reason)),
            Kind::Slow(score) => {
                let of = |score: &Score| (score.id.to_owned(), Outcome::undefined(reason));
                let outcomes = always_together(score).into_iter().map(of).collect();
                Finished::Late { late: Late { outcomes, ..Late::default() }, seconds: 0.0 }
            }
            // Its scores stay, without p-values.
            Kind::Tests => Finished::Late { late: Late::default(), seconds: 0.0 },
        }
    }
}
