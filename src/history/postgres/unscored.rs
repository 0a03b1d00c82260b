//! Passes that were settled without a complete point: which, how they ended and why.

use std::collections::BTreeSet;

use super::link::Link;
use super::runs::{attempt, number, run_id, run_to_change};
use crate::history::error::HistoryError;
use crate::history::point::{finite, integer};
use crate::history::settled::{Ending, UNSCORED_PER_RUN, Unscored};
use leakage::step::Ordinal;

/// The passes of a split from step `first` to `last`, by step.
pub(super) fn select_unscored(
    link: &mut Link,
    run: &str,
    split: &str,
    (first, last): (i64, i64),
) -> Result<Vec<Unscored>, HistoryError> {
    let id = run_id(link, run)?;
    let rows = link.query(
        "SELECT step, time, outcome, reason, rows_seen, launch, restart, ordinal FROM unscored \
         WHERE run = $1 AND split = $2 AND step BETWEEN $3 AND $4 ORDER BY step",
        &[&id, &split, &first, &last],
    )?;
    let mut passes = Vec::new();
    for row in rows {
        let Some(outcome) = Ending::named(row.get(2)) else { continue };
        passes.push(Unscored {
            run: run.to_owned(),
            split: split.to_owned(),
            step: row.get::<_, i64>(0).cast_unsigned(),
            ordinal: Ordinal::stated(number(&row, 7)?),
            time: row.get(1),
            outcome,
            reason: row.get(3),
            rows_seen: row.get::<_, i64>(4).cast_unsigned(),
            attempt: attempt(&row, 5)?,
        });
    }
    Ok(passes)
}

/// A step that has a complete point gets no record, and neither does a run that is unknown. Returns how many older records
/// the bound for each run has removed.
pub(super) fn insert_unscored(link: &mut Link, passes: &[Unscored]) -> Result<u64, HistoryError> {
    let mut removed = 0;
    // In the order of names, so that two transactions do not wait for each other.
    for run in passes.iter().map(|pass| pass.run.as_str()).collect::<BTreeSet<_>>() {
        let id = match run_to_change(link, run) {
            Ok(id) => id,
            Err(HistoryError::Unknown { .. }) => continue,
            Err(error) => return Err(error),
        };
        for pass in passes.iter().filter(|pass| pass.run == run) {
            finite("unscored.time", pass.time)?;
            let step = integer("unscored.step", pass.step)?;
            // A record that is replaced is the newest again.
            let replaced = "DELETE FROM unscored WHERE run = $1 AND split = $2 AND step = $3 AND NOT EXISTS \
                            (SELECT 1 FROM point WHERE run = $1 AND split = $2 AND step = $3 \
                            AND superseded = 0 AND NOT provisional AND NOT incomplete)";
            link.execute(replaced, &[&id, &pass.split, &step])?;
            link.execute(
                "INSERT INTO unscored (run, split, step, time, outcome, reason, rows_seen, launch, restart, ordinal) \
                 SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10 WHERE NOT EXISTS (SELECT 1 FROM point \
                 WHERE run = $1 AND split = $2 AND step = $3 AND superseded = 0 AND NOT provisional AND NOT incomplete)",
                &[
                    &id,
                    &pass.split,
                    &step,
                    &pass.time,
                    &pass.outcome.name(),
                    &pass.reason,
                    &integer("unscored.rows_seen", pass.rows_seen)?,
                    &pass.attempt.map(|attempt| i64::from(attempt.launch)),
                    &pass.attempt.map(|attempt| i64::from(attempt.restart)),
                    &i64::from(pass.ordinal.get()),
                ],
            )?;
        }
        removed += link.execute(
            "DELETE FROM unscored WHERE run = $1 AND id IN \
             (SELECT id FROM unscored WHERE run = $1 ORDER BY id DESC OFFSET $2)",
            &[&id, &(UNSCORED_PER_RUN as i64)],
        )?;
    }
    Ok(removed)
}
