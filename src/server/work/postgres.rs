//! The jobs of a database of PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use super::jobs::{Claim, Finished, Jobs, Kind, Material, Return};
use crate::estimate::Settings;
use crate::history::{FirstPoint, HistoryError, LeasedJob, PassKey, Postgres};
use crate::run::SplitKey;
use crate::server::scoring::compute::joined;
use crate::step::Step;

/// The jobs of a database, for one worker.
pub struct Shared {
    pub store: Arc<Postgres>,
    /// For people: who has a job.
    pub worker: String,
}

fn leased(claim: &Claim) -> LeasedJob {
    let (run, split) = (claim.key.run.to_string(), claim.key.split.to_string());
    LeasedJob {
        id: claim.id,
        pass: PassKey { run, split, attempt: claim.attempt, step: claim.step.get() },
        kind: claim.kind.to_string(),
        lease: claim.lease.clone(),
        failures: claim.failures,
    }
}

impl Jobs for Shared {
    fn settings(&self) -> Result<Option<Settings>, HistoryError> {
        self.store.stated_settings()
    }

    fn claim(&self, lease: Duration) -> Result<Option<Claim>, HistoryError> {
        let Some(job) = self.store.claim_job(&self.worker, lease)? else { return Ok(None) };
        let (Some(kind), Ok(step)) = (Kind::named(&job.kind), Step::new(job.pass.step)) else {
            tracing::warn!(kind = job.kind, run = job.pass.run, "a job is of a newer release");
            self.store.return_job(&job)?;
            return Ok(None);
        };
        let key = SplitKey::new(job.pass.run, job.pass.split);
        let (id, attempt, lease, failures) = (job.id, job.pass.attempt, job.lease, job.failures);
        Ok(Some(Claim { id, key, attempt, step, kind, lease, failures }))
    }

    fn renew(&self, claim: &Claim, lease: Duration) -> Result<bool, HistoryError> {
        self.store.renew_job(&leased(claim), lease)
    }

    fn material(&self, claim: &Claim) -> Result<Material, HistoryError> {
        let material = self.store.job_material(&leased(claim))?;
        // The run is known by the name that it has here.
        let (run, earlier) = (Arc::new(material.run), material.earlier);
        let rows = match claim.kind {
            Kind::Slow(score) => self.store.job_rows(&leased(claim), &Kind::of_rows(score))?,
            Kind::Fast | Kind::Rows(..) | Kind::Tests => Vec::new(),
        };
        Ok(Material { run, time: material.time, parts: material.parts, earlier, rows, point: material.point })
    }

    fn give_back(&self, claim: &Claim, why: Return) -> Result<(), HistoryError> {
        match why {
            Return::Stopped => self.store.return_job(&leased(claim)),
            Return::PartsMissing | Return::NeedsWhole => self.store.reopen_pass(&leased(claim)),
        }
        .map(drop)
    }

    fn finish(&self, claim: &Claim, finished: &Finished) -> Result<bool, HistoryError> {
        let job = leased(claim);
        match finished {
            Finished::Point { point, influences, following, next_cutoff } => {
                let following: Vec<String> = following.iter().map(ToString::to_string).collect();
                let (influences, next_cutoff) = (influences.as_ref(), *next_cutoff);
                self.store.finish_first(&job, &FirstPoint { point, influences, next_cutoff, following: &following })
            }
            Finished::Rows { rows } => {
                let Kind::Rows(score, ..) = claim.kind else {
                    return Err(HistoryError::Unknown { what: "kind", name: claim.kind.to_string() });
                };
                self.store.finish_rows(&job, rows, &Kind::of_rows(score), &Kind::Slow(score).to_string())
            }
            Finished::Late { late, seconds } => self.store.finish_late(&job, |point| joined(point, late, *seconds)),
            Finished::Unscored { reason, rows_seen } => self.store.finish_unscored(&job, reason, *rows_seen),
        }
    }

    fn fail(&self, claim: &Claim, _reason: &str) -> Result<bool, HistoryError> {
        self.store.fail_job(&leased(claim))
    }
}
