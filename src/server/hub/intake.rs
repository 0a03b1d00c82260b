//! What sidecars send: changes of their histories, declarations, and questions for advice. All calls block.

use std::sync::Arc;

use tokio::sync::Notify;

use super::board::SharedBoard;
use crate::fault::Fault;
use crate::history::{
    Applied, Applying, Change, Declared, GivenAdvice, HistoryError, Identity, Launch, PassKey, PassState, Postgres,
    PutPart, RunRecord, Store, Unscored,
};
use crate::point::Point;
use crate::run::{Run, RunFields};
use crate::sample::{Attempt, Part};
use crate::server::advice::{Advice, Decision, Missed};
use crate::server::metrics::HubMetrics;
use crate::server::refusal::Refusal;
use crate::step::Rank;

/// Takes what sidecars send.
#[derive(Clone)]
pub struct Intake {
    pub store: Arc<Postgres>,
    pub board: Arc<SharedBoard>,
    pub advice: Arc<Advice>,
    pub metrics: HubMetrics,
    /// Wakes the follower.
    pub look: Arc<Notify>,
}

/// Who sends: a sidecar's history, and the project of its token.
#[derive(Clone, Debug)]
pub struct Sender {
    pub source: String,
    pub project: Arc<str>,
}

/// What the head of a part says of it.
#[derive(Debug)]
pub struct SentPart {
    pub pass: PassKey,
    pub world_size: u32,
    /// Ascending.
    pub ended: Vec<u32>,
    pub cutoff: Option<u64>,
}

/// A change with its number; a fault for one that no history can make.
pub type Numbered = (u64, Result<Change, Fault>);

/// Where a pass stands, its point, and where the next parts of its split may be cut.
pub type PassFound = (PassState, Option<Point>, Option<u64>);

/// What became of a push.
#[derive(Debug, Default, PartialEq)]
pub struct Pushed {
    /// All entries up to this number were applied or refused, now or before.
    pub applied: u64,
    pub refused: Vec<(u64, Fault)>,
    /// Runs that were declared: the sender's name, and the one here.
    pub named: Vec<(String, String)>,
}

/// What advice is asked for.
#[derive(Debug)]
pub struct Question {
    pub run: String,
    pub attempt: Attempt,
    pub step: u64,
    /// Waits for their evaluations; empty: those of the run that rules judge.
    pub splits: Vec<String>,
}

impl Intake {
    /// Applies changes in ascending order of their numbers, each exactly once; without any, only tells what is applied. One
    /// that can never be applied is refused and passed over. Where the database fails, those before are applied, and the
    /// error is returned.
    pub fn push(&self, sender: &Sender, entries: Vec<Numbered>) -> Result<Pushed, Refusal> {
        let mut pushed = Pushed::default();
        if entries.is_empty() {
            // Nothing has the number 0: it is known in every source, and only whose source it is is looked at.
            let asked = self.store.apply(&sender.source, &sender.project, 0, |_| Ok(()));
            asked.map_err(|error| permanent(error).map_or_else(Refusal::from, Refusal::Forbidden))?;
            pushed.applied = self.store.applied(&sender.source)?;
        }
        let pushing = entries.into_iter().try_for_each(|(number, change)| {
            let outcome = self.apply(sender, number, change, &mut pushed)?;
            self.metrics.entries.with_label_values(&[outcome]).inc();
            pushed.applied = number;
            Ok(())
        });
        self.look.notify_one();
        pushing.map(|()| pushed)
    }

    /// Applies one change; says whether it was applied, known or refused.
    fn apply(
        &self,
        sender: &Sender,
        number: u64,
        change: Result<Change, Fault>,
        pushed: &mut Pushed,
    ) -> Result<&'static str, Refusal> {
        let Sender { source, project } = sender;
        let change = match change {
            Ok(change) => change,
            Err(fault) => return self.pass_over(sender, number, fault, pushed),
        };
        let made = self.store.apply(source, project, number, |applying| make(applying, source, &change));
        match made {
            Ok(Applied::Before) => Ok("known"),
            Ok(Applied::Now(named)) => {
                pushed.named.extend(named.map(|name| (change.run().to_owned(), name)));
                Ok("applied")
            }
            Err(error) => match permanent(error) {
                Ok(fault) if fault.field == "source" => Err(Refusal::Forbidden(fault)),
                Ok(fault) => self.pass_over(sender, number, fault, pushed),
                Err(error) => Err(error.into()),
            },
        }
    }

    fn pass_over(
        &self,
        Sender { source, project }: &Sender,
        number: u64,
        fault: Fault,
        pushed: &mut Pushed,
    ) -> Result<&'static str, Refusal> {
        match self.store.apply(source, project, number, |_| Ok(())) {
            Ok(Applied::Before) => return Ok("known"),
            Ok(Applied::Now(())) => {}
            Err(error) => {
                return Err(match permanent(error) {
                    Ok(fault) => Refusal::Forbidden(fault),
                    Err(error) => error.into(),
                });
            }
        }
        tracing::warn!(source, number, field = %fault.field, why = %fault.message, "an entry of a sidecar was refused");
        pushed.refused.push((number, fault));
        Ok("refused")
    }

    /// Declares a rank of a run over several hosts. Returns also the ranks of its attempt that have finished.
    pub fn declare(
        &self,
        project: &str,
        run: &Run,
        identity: &Identity<'_>,
        time: f64,
    ) -> Result<(RunRecord, Vec<u32>), Refusal> {
        let declared = self.store.declare(project, run, identity, time);
        self.look.notify_one();
        let record = declared.map_err(|error| match error {
            HistoryError::OtherProject { .. } => Refusal::Forbidden(Fault::new("run", error.to_string())),
            error => error.into(),
        })?;
        let known = self.store.ranks(&record.run.name)?;
        let finished = known.iter().filter(|known| known.finished && Some(known.attempt) == record.attempt);
        let finished = finished.map(|known| known.rank).collect();
        Ok((record, finished))
    }

    /// Errors unless a run belongs to a project.
    pub fn check_project(&self, project: &str, run: &str) -> Result<(), Refusal> {
        let owner = self.store.project_of(run)?;
        match owner == project {
            true => Ok(()),
            false => {
                let message = format!("'{run}' belongs to project '{owner}', got '{project}'");
                Err(Refusal::Forbidden(Fault::new("run", message)))
            }
        }
    }

    /// Keeps a part of a pass. Returns also where the next parts of its split may be cut.
    pub fn put_part(&self, source: &str, sent: &SentPart, body: &[u8]) -> Result<(PutPart, Option<u64>), Refusal> {
        let SentPart { pass, world_size, ended, cutoff } = sent;
        let part = Part::from_bytes(body)?;
        let differs = |field: &str, got: String, said: String| {
            Refusal::Invalid(Fault::new(field, format!("got {got}, expected {said} as its head says")))
        };
        if part.world_size() != *world_size {
            return Err(differs("part.world_size", part.world_size().to_string(), world_size.to_string()));
        }
        let of_part: Vec<u32> = part.ended().iter().map(|rank| rank.get()).collect();
        if of_part != *ended {
            let text = |ranks: &[u32]| format!("{} ranks", ranks.len());
            return Err(differs("part.ended", text(&of_part), text(ended)));
        }
        if part.cutoff() != *cutoff {
            return Err(differs("part.cutoff", format!("{:?}", part.cutoff()), format!("{cutoff:?}")));
        }
        drop(part);
        let state = self.store.put_part(pass, source, body)?;
        self.look.notify_one();
        Ok((state, self.store.next_cutoff(&pass.run, &pass.split)?))
    }

    /// Where passes stand, with the points of those that are settled, and where the next parts of their splits may be cut.
    pub fn pass_states(&self, source: &str, passes: &[PassKey]) -> Result<Vec<PassFound>, Refusal> {
        let states = self.store.pass_states(source, passes)?;
        let with_point = |(pass, state): (&PassKey, PassState)| {
            let (point, cutoff) = match state {
                PassState::Settled { .. } => (
                    self.store.point(&pass.run, &pass.split, Some(pass.step), true)?,
                    self.store.next_cutoff(&pass.run, &pass.split)?,
                ),
                _ => (None, None),
            };
            Ok((state, point, cutoff))
        };
        passes.iter().zip(states).map(with_point).collect()
    }

    /// Whether this hub has learnt how a pass ended. Never blocks.
    pub fn is_settled(&self, pass: &PassKey) -> bool {
        self.board.is_settled(&pass.run, &pass.split, pass.step, pass.attempt)
    }

    /// The answer that was given for an attempt and a step.
    pub fn advice(&self, question: &Question) -> Result<Option<Decision>, Refusal> {
        let Question { run, attempt, step, .. } = question;
        Ok(self.store.advice(run, *attempt, *step)?.map(decision))
    }

    /// Whether all evaluations that the answer rests on are judged, or there is nothing to wait for. Never blocks.
    pub fn is_judged(&self, question: &Question) -> bool {
        self.unjudged(question).is_empty()
    }

    /// The splits whose evaluation the answer is to rest on and that is not judged yet.
    fn unjudged<'q>(&'q self, question: &'q Question) -> Vec<&'q str> {
        let Question { run, attempt, step, splits } = question;
        let unsettled = |split: &&str| !self.board.is_settled(run, split, *step, *attempt);
        match splits.is_empty() {
            // Rules name splits for all runs, so a run may not have the split at all.
            true => self.advice.splits().filter(|split| self.board.has_split(run, split) && unsettled(split)).collect(),
            false => splits.iter().map(String::as_str).filter(unsettled).collect(),
        }
    }

    /// Whether training should stop. The first answer of any hub for an attempt and a step is kept.
    pub fn decide(&self, question: &Question) -> Result<Decision, Refusal> {
        let Question { run, attempt, step, .. } = question;
        let found = self.advice.decide(&run.as_str().into(), *attempt, *step, &self.unjudged(question));
        let offered = GivenAdvice { stop: found.stop, reason: found.reason, decided_by_step: found.decided_by_step };
        Ok(decision(self.store.keep_advice(run, *attempt, *step, &offered)?))
    }

    /// The newest of `steps` at which the attempt was advised to stop, by any hub.
    pub fn missed(&self, question: &Question, steps: &[u64]) -> Result<Option<Missed>, Refusal> {
        let Question { run, attempt, .. } = question;
        Ok(self.store.advised_to_stop(run, *attempt, steps)?.map(|(step, reason)| Missed { step, reason }))
    }
}

fn decision(given: GivenAdvice) -> Decision {
    let GivenAdvice { stop, reason, decided_by_step } = given;
    Decision { stop, reason, decided_by_step, undecided: false }
}

/// Makes a change in the transaction of its entry. Returns the name of a run that it declares.
fn make(applying: &mut Applying<'_>, source: &str, change: &Change) -> Result<Option<String>, HistoryError> {
    match change {
        Change::Declare(declared) => declare(applying, source, declared).map(|record| Some(record.run.name.clone())),
        Change::FinishRank { run, launch, rank, process, finished } => {
            let Some(attempt) = attempt(applying, run, Some(launch))? else { return Ok(None) };
            applying.finish_rank(run, attempt, Rank::stored(*rank), process, *finished).map(|()| None)
        }
        Change::FinishRun { run, finished } => applying.finish_run(run, *finished).map(|()| None),
        Change::Point(point, by) => {
            let attempt = attempt(applying, &point.run, by.as_ref())?;
            applying.record_point(Point::clone(point), attempt).map(|_| None)
        }
        Change::Unscored(record, by) => {
            let attempt = attempt(applying, &record.run, by.as_ref())?;
            applying.record_unscored(Unscored { attempt, ..record.clone() }).map(|()| None)
        }
        Change::Remark { run, remark } => applying.remark(run, remark).map(|()| None),
        Change::RemoveRun(run) => applying.remove_run(run).map(|()| None),
    }
}

fn declare(applying: &mut Applying<'_>, source: &str, declared: &Declared) -> Result<RunRecord, HistoryError> {
    let local = declared.run.name.as_str();
    let name = declared.declared_name.clone().unwrap_or_else(|| local.to_owned());
    let run = Run::try_from(RunFields { name, ..RunFields::clone(&declared.run) })
        .map_err(|fault| HistoryError::Invalid { field: fault.field, message: fault.message })?;
    let Launch { job, restart, .. } = &declared.launch;
    let identity = Identity {
        // An unnamed launch is known by where it runs, so that those of two hosts are not taken for one.
        job: if job.is_empty() { source } else { job },
        restart: *restart,
        resume: declared.resume,
        rank: declared.rank,
        client: &declared.client,
        process: &declared.process,
        is_relayed: true,
    };
    applying.declare(local, &run, &identity, declared.started)
}

/// The attempt by its numbers here.
fn attempt(applying: &mut Applying<'_>, run: &str, launch: Option<&Launch>) -> Result<Option<Attempt>, HistoryError> {
    let Some(Launch { job, restart, number }) = launch else { return Ok(None) };
    let restart = *restart;
    if job.is_empty() {
        return Ok(Some(Attempt { launch: *number, restart }));
    }
    let launch = applying.launch_of(run, job)?;
    Ok(launch.map(|launch| Attempt { launch, restart }))
}

/// Why an entry can never be applied; the error itself where sending it again may help.
fn permanent(error: HistoryError) -> Result<Fault, HistoryError> {
    match error {
        HistoryError::Invalid { field, message } => Ok(Fault::new(field, message)),
        HistoryError::DeclarationDiffers { ref field, .. } => Ok(Fault::new(field.clone(), error.to_string())),
        HistoryError::Open { .. } | HistoryError::OtherProject { .. } => Ok(Fault::new("run", error.to_string())),
        HistoryError::Unknown { what, .. } => Ok(Fault::new(what, error.to_string())),
        error => Err(error),
    }
}
