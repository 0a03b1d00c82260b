//! The alert states and verdicts that sidecars judged.

use std::collections::BTreeMap;

use super::link::Link;
use crate::history::change::Judgement;
use crate::history::db::Db;
use crate::history::edit::run_to_change;
use crate::history::error::HistoryError;
use crate::history::point::finite;
use leakage::diagnosis::Verdict;

/// Alert states kept of each run; beyond it the oldest are removed.
const KEPT: i64 = 1000;

pub(super) fn record_judgement(link: &mut Link, run: &str, judgement: &Judgement) -> Result<(), HistoryError> {
    let Judgement { split, rule, active, since, json, .. } = judgement;
    let (run, _) = run_to_change(&mut Db::Postgres(link), run)?;
    let Some(rule) = rule else {
        let statement = "INSERT INTO curve (run, split, verdict, changed) VALUES ($1, $2, $3, clock_timestamp()) \
                         ON CONFLICT (run, split) DO UPDATE SET (verdict, changed) = (excluded.verdict, excluded.changed)";
        return link.execute(statement, &[&run, split, json]).map(drop);
    };
    finite("judgement.since", *since)?;
    // A sidecar that was restarted judges the newest points again, and says once more how its rules stand.
    let known =
        "SELECT id FROM alert WHERE run = $1 AND split = $2 AND rule = $3 AND is_newest AND active = $4 AND since = $5";
    match link.query_opt(known, &[&run, split, rule, active, since])? {
        Some(row) => {
            link.execute("UPDATE alert SET body = $2 WHERE id = $1", &[&row.get::<_, i64>(0), json])?;
        }
        None => {
            let older = "UPDATE alert SET is_newest = false WHERE run = $1 AND split = $2 AND rule = $3 AND is_newest";
            link.execute(older, &[&run, split, rule])?;
            let statement = "INSERT INTO alert (run, split, rule, active, since, body) VALUES ($1, $2, $3, $4, $5, $6)";
            link.execute(statement, &[&run, split, rule, active, since, json])?;
        }
    }
    link.execute(
        "DELETE FROM alert WHERE run = $1 AND NOT is_newest AND id IN \
         (SELECT id FROM alert WHERE run = $1 ORDER BY id DESC OFFSET $2)",
        &[&run, &KEPT],
    )?;
    Ok(())
}

/// The verdicts on a split of runs that have one, by name.
pub(super) fn verdicts(link: &mut Link, runs: &[&str], split: &str) -> Result<BTreeMap<String, Verdict>, HistoryError> {
    let rows = link.query(
        "SELECT name, verdict FROM run JOIN curve ON curve.run = run.id AND split = $2 AND verdict IS NOT NULL \
         WHERE name = ANY($1)",
        &[&runs, &split],
    )?;
    rows.iter().map(|row| Ok((row.get(0), serde_json::from_str(row.get(1))?))).collect()
}
