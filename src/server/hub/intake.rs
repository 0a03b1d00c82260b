//! Applies the changes of their histories that sidecars send. All calls block.

use std::sync::Arc;

use crate::history::{Change, HistoryError, Postgres};
use crate::server::metrics::HubMetrics;
use crate::server::refusal::Refusal;
use leakage::field_error::FieldError;

/// The receiver of changes from sidecars.
#[derive(Clone)]
pub struct Intake {
    pub store: Arc<Postgres>,
    pub metrics: HubMetrics,
}

/// The sender: a sidecar's history, and the project of its token.
#[derive(Clone, Debug)]
pub struct Sender {
    pub source: String,
    pub project: Arc<str>,
}

/// A change with its number; a fault for one that no history can make.
pub type Numbered = (u64, Result<Change, FieldError>);

/// The outcome of a push.
#[derive(Debug, Default, PartialEq)]
pub struct Pushed {
    /// All entries up to this number were applied or refused, now or before.
    pub applied: u64,
    pub refused: Vec<(u64, FieldError)>,
}

impl Intake {
    /// Applies changes in ascending order of their numbers, each exactly once; without any, only tells what is applied. One
    /// that can never be applied is refused and passed over. Where the database fails, those before are applied, and the
    /// error is returned.
    pub fn push(&self, sender: &Sender, entries: Vec<Numbered>) -> Result<Pushed, Refusal> {
        let mut pushed = Pushed::default();
        if entries.is_empty() {
            // No entry has the number 0, which counts as known in every source: this checks the source's owner only.
            let asked = self.store.apply(&sender.source, &sender.project, 0, |_| Ok(()));
            asked.map_err(forbidden)?;
            pushed.applied = self.store.applied(&sender.source)?;
        }
        entries.into_iter().try_for_each(|(number, change)| {
            let outcome = self.apply(sender, number, change, &mut pushed)?;
            self.metrics.entries.with_label_values(&[outcome]).inc();
            pushed.applied = number;
            Ok::<_, Refusal>(())
        })?;
        Ok(pushed)
    }

    /// Applies one change; says whether it was applied, known or refused.
    fn apply(
        &self,
        sender: &Sender,
        number: u64,
        change: Result<Change, FieldError>,
        pushed: &mut Pushed,
    ) -> Result<&'static str, Refusal> {
        let Sender { source, project } = sender;
        let change = match change {
            Ok(change) => change,
            Err(fault) => return self.pass_over(sender, number, fault, pushed),
        };
        let made = self.store.apply(source, project, number, |applying| applying.make(&change));
        match made {
            Ok(false) => Ok("known"),
            Ok(true) => Ok("applied"),
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
        fault: FieldError,
        pushed: &mut Pushed,
    ) -> Result<&'static str, Refusal> {
        if !self.store.apply(source, project, number, |_| Ok(())).map_err(forbidden)? {
            return Ok("known");
        }
        tracing::warn!(source, number, field = %fault.field, why = %fault.message, "an entry of a sidecar was refused");
        pushed.refused.push((number, fault));
        Ok("refused")
    }
}

/// Turns an error into the refusal of all that a sender pushes.
fn forbidden(error: HistoryError) -> Refusal {
    permanent(error).map_or_else(Refusal::from, Refusal::Forbidden)
}

/// Why an entry can never be applied; the error itself where sending it again may help.
fn permanent(error: HistoryError) -> Result<FieldError, HistoryError> {
    match error {
        HistoryError::Invalid { field, message } => Ok(FieldError::new(field, message)),
        HistoryError::DeclarationDiffers { ref field, .. } => Ok(FieldError::new(field.clone(), error.to_string())),
        HistoryError::Open { .. } | HistoryError::OtherProject { .. } => Ok(FieldError::new("run", error.to_string())),
        HistoryError::Unknown { what, .. } => Ok(FieldError::new(what, error.to_string())),
        error => Err(error),
    }
}
