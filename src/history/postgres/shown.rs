//! The tables as a hub shows them: curves, alerts, and when each run's sidecar was last heard.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use postgres::Row;

use super::store::Postgres;
use crate::history::error::HistoryError;

/// Changes of alerts that are read.
const CHANGES: i64 = 2000;
/// Changes of runs that are read.
const RUNS: i64 = 1000;

/// The tables that a hub shows, in one reading.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// The database's clock, in seconds since 1970-01-01 UTC.
    pub time: f64,
    /// Unfinished runs whose sidecar was heard within a day, newest start first, and how long ago, in seconds.
    pub heard: Vec<(String, f64)>,
    /// Curves of these and of runs that changed lately, the newest evaluation first.
    pub curves: Vec<CurveState>,
    /// Curves beyond as many as were asked for.
    pub curves_left_out: u64,
    /// The alerts of `heard` that are pending or fire.
    pub alerts: Vec<StoredAlert>,
    /// The newest changes of alerts, oldest first.
    pub alert_changes: Vec<StoredAlert>,
    /// Runs by name that were declared, finished, or renamed last, and when.
    pub run_changes: Vec<(String, SystemTime)>,
}

/// The state of a split's curve.
#[derive(Clone, Debug)]
pub struct CurveState {
    pub run: Arc<str>,
    pub split: Arc<str>,
    pub is_open: bool,
    pub filling: bool,
    /// JSON, as the sidecar judged.
    pub verdict: Option<String>,
    pub changed: SystemTime,
    /// The job and host of the lowest rank; either may be empty.
    pub job: String,
    pub host: String,
}

/// The state of a rule for a run.
#[derive(Clone, Debug)]
pub struct StoredAlert {
    /// A larger number was pushed later.
    pub id: i64,
    pub run: String,
    /// JSON, as the sidecar judged.
    pub body: String,
}

/// Unfinished runs, and when the last of their sidecars was heard.
macro_rules! with_heard {
    ($rest:literal) => {
        concat!(
            "WITH heard AS (SELECT run.id, name, run.started, max(heard) AS heard FROM run \
             JOIN origin ON origin.run = run.id JOIN source ON source.id = origin.source \
             WHERE finished IS NULL GROUP BY run.id HAVING max(heard) > now() - interval '1 day') ",
            $rest
        )
    };
}

impl Postgres {
    /// The state of all that a hub shows, with at most `most` curves. Runs that finished longer than `linger` ago have none.
    pub fn tables(&self, linger: Duration, most: usize) -> Result<Tables, HistoryError> {
        self.read(|link| {
            let time = link.query_one("SELECT extract(epoch FROM now())::float8", &[])?.get(0);
            let heard = link.query(
                with_heard!("SELECT name, extract(epoch FROM now() - heard)::float8 FROM heard ORDER BY started DESC, id DESC"),
                &[],
            )?;
            let curves = link.query(
                with_heard!(
                    "SELECT run.name, split, heard.id IS NOT NULL, filling, verdict, curve.changed, count(*) OVER (), \
                     coalesce(place.job, ''), coalesce(place.host, '') \
                     FROM curve JOIN run ON run.id = curve.run LEFT JOIN heard ON heard.id = curve.run \
                     LEFT JOIN LATERAL (SELECT job, host FROM origin WHERE origin.run = run.id ORDER BY rank LIMIT 1) \
                     AS place ON true \
                     WHERE curve.changed > now() - interval '1 day' AND (heard.id IS NOT NULL \
                     OR greatest(curve.changed, run.changed) > now() - make_interval(secs => $1)) \
                     ORDER BY curve.time DESC NULLS LAST, curve.run, split LIMIT $2"
                ),
                &[&linger.as_secs_f64(), &(most as i64)],
            )?;
            let all = curves.first().map_or(0, |row| row.get::<_, i64>(6)) as u64;
            let alerts = link.query(
                with_heard!("SELECT alert.id, name, body FROM alert JOIN heard ON heard.id = alert.run WHERE is_newest AND active ORDER BY alert.id"),
                &[],
            )?;
            let mut changes = link.query(
                "SELECT alert.id, name, body FROM alert JOIN run ON run.id = alert.run ORDER BY since DESC, alert.id DESC LIMIT $1",
                &[&CHANGES],
            )?;
            changes.reverse();
            let runs = link.query("SELECT name, changed FROM run ORDER BY changed DESC LIMIT $1", &[&RUNS])?;
            let curve = |row: &Row| CurveState {
                run: row.get::<_, &str>(0).into(),
                split: row.get::<_, &str>(1).into(),
                is_open: row.get(2),
                filling: row.get(3),
                verdict: row.get(4),
                changed: row.get(5),
                job: row.get(7),
                host: row.get(8),
            };
            let alert = |row: &Row| StoredAlert { id: row.get(0), run: row.get(1), body: row.get(2) };
            Ok(Tables {
                time,
                heard: heard.iter().map(|row| (row.get(0), row.get(1))).collect(),
                curves_left_out: all - curves.len() as u64,
                curves: curves.iter().map(curve).collect(),
                alerts: alerts.iter().map(alert).collect(),
                alert_changes: changes.iter().map(alert).collect(),
                run_changes: runs.iter().map(|row| (row.get(0), row.get(1))).collect(),
            })
        })
    }
}
