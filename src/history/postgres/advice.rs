//! Advice that was given: the first answer for an attempt and a step is everybody's.

use super::link::Link;
use super::runs::unknown;
use super::store::Postgres;
use crate::history::error::HistoryError;
use crate::history::point::integer;
use crate::sample::Attempt;

/// Whether training should stop, as it was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenAdvice {
    pub stop: bool,
    pub reason: String,
    /// Newest evaluation that the answer rests on.
    pub decided_by_step: u64,
}

impl Postgres {
    /// The answer that was given for an attempt and a step.
    pub fn advice(&self, run: &str, attempt: Attempt, step: u64) -> Result<Option<GivenAdvice>, HistoryError> {
        let step = integer("step", step)?;
        self.read(|link| given(link, run, attempt, step))
    }

    /// The newest of `steps` at which the attempt was advised to stop, with the reason.
    pub fn advised_to_stop(
        &self,
        run: &str,
        attempt: Attempt,
        steps: &[u64],
    ) -> Result<Option<(u64, String)>, HistoryError> {
        let steps: Vec<i64> = steps.iter().map(|step| integer("step", *step)).collect::<Result<_, _>>()?;
        let (launch, restart) = (i64::from(attempt.launch), i64::from(attempt.restart));
        let row = self.read(|link| {
            link.query_opt(
                "SELECT step, reason FROM given_advice JOIN run ON run.id = given_advice.run WHERE name = $1 \
                 AND launch = $2 AND restart = $3 AND step = ANY($4) AND stop ORDER BY step DESC LIMIT 1",
                &[&run, &launch, &restart, &steps],
            )
        })?;
        Ok(row.map(|row| (row.get::<_, i64>(0).cast_unsigned(), row.get(1))))
    }

    /// Keeps an answer unless there is one. Returns the one that is kept, which every caller gets.
    pub fn keep_advice(
        &self,
        run: &str,
        attempt: Attempt,
        step: u64,
        offered: &GivenAdvice,
    ) -> Result<GivenAdvice, HistoryError> {
        let step = integer("step", step)?;
        let GivenAdvice { stop, reason, decided_by_step } = offered;
        let decided = integer("decided_by_step", *decided_by_step)?;
        let (launch, restart) = (i64::from(attempt.launch), i64::from(attempt.restart));
        // A transaction of its own: the reading after it sees what any other has kept.
        self.write(|link| {
            link.execute(
                "INSERT INTO given_advice (run, launch, restart, step, stop, reason, decided_by_step) \
                 SELECT id, $2, $3, $4, $5, $6, $7 FROM run WHERE name = $1 ON CONFLICT DO NOTHING",
                &[&run, &launch, &restart, &step, stop, reason, &decided],
            )
        })?;
        self.read(|link| given(link, run, attempt, step))?.ok_or_else(|| unknown(run))
    }
}

fn given(link: &mut Link, run: &str, attempt: Attempt, step: i64) -> Result<Option<GivenAdvice>, HistoryError> {
    let (launch, restart) = (i64::from(attempt.launch), i64::from(attempt.restart));
    let row = link.query_opt(
        "SELECT stop, reason, decided_by_step FROM given_advice JOIN run ON run.id = given_advice.run \
         WHERE name = $1 AND launch = $2 AND restart = $3 AND step = $4",
        &[&run, &launch, &restart, &step],
    )?;
    Ok(row.map(|row| GivenAdvice {
        stop: row.get(0),
        reason: row.get(1),
        decided_by_step: row.get::<_, i64>(2).cast_unsigned(),
    }))
}
