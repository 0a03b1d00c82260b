//! The verdicts on the runs at work, computed beside the scrapes, so that none waits for the history.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::app::App;
use crate::history::Wanted;
use crate::server::live::{CurveVerdict, Live};
use crate::server::metrics::SERIES_PER_FAMILY;
use leakage::lock::lock;

/// Interval of looking for new points, which is how far a verdict may be behind them.
const LOOK: Duration = Duration::from_millis(500);
/// Interval of reading where there are none: a run may have finished, or been removed.
const READ: Duration = Duration::from_secs(15);

/// The newest verdicts on the first [`SERIES_PER_FAMILY`] curves that are exported.
#[derive(Default)]
pub(super) struct Newest(Mutex<Vec<CurveVerdict>>);

impl Newest {
    pub fn known(&self, live: &dyn Live) -> Vec<CurveVerdict> {
        live.verdicts().unwrap_or_else(|| lock(&self.0).clone())
    }

    /// Keeps the verdicts current until `stop` is cancelled. While the history cannot be read, they stay as they are.
    pub async fn follow(self: Arc<Self>, app: App, stop: CancellationToken) {
        if !app.live.judges() {
            return;
        }
        let (mut seen, mut read) = (None, Instant::now());
        loop {
            let curves = exported_curves(&*app.live);
            if seen.as_ref() != Some(&curves) || read.elapsed() >= READ {
                let (own, app, of) = (Arc::clone(&self), app.clone(), curves.clone());
                let of = move || of.into_iter().map(|(run, split, _)| (run, split));
                let reading = move || verdicts_of(&app, of()).map(|found| *lock(&own.0) = found);
                if let Ok(Some(())) = tokio::task::spawn_blocking(reading).await {
                    (seen, read) = (Some(curves), Instant::now());
                }
            }
            if stop.run_until_cancelled(sleep(LOOK)).await.is_none() {
                return;
            }
        }
    }
}

/// A curve with step, time and seconds of its newest point; slow scores that join it change the seconds.
type Curve = (Arc<str>, Arc<str>, Option<(u64, f64, f64)>);

/// Returns the curves that are exported.
fn exported_curves(live: &dyn Live) -> Vec<Curve> {
    let latest = live.latest().into_iter().take(SERIES_PER_FAMILY);
    latest.map(|one| (one.run, one.split, one.point.map(|point| (point.step, point.time, point.seconds)))).collect()
}

/// Reads the verdicts on curves, each a run and a split; `None` while the history cannot be read. Blocks.
pub fn verdicts_of(app: &App, curves: impl IntoIterator<Item = (Arc<str>, Arc<str>)>) -> Option<Vec<CurveVerdict>> {
    let mut of_split: BTreeMap<Arc<str>, Vec<Arc<str>>> = BTreeMap::new();
    for (run, split) in curves {
        of_split.entry(split).or_default().push(run);
    }
    let mut found = Vec::new();
    for (split, runs) in of_split {
        let runs: Vec<&str> = runs.iter().map(|run| &**run).collect();
        loop {
            let read = app.rows.read(app, &split, &runs, &Wanted::default()).ok()?;
            if read.pending == 0 {
                let judged =
                    read.runs.into_iter().filter_map(|row| Some((row.name.as_str().into(), row.verdict.clone()?)));
                found.extend(judged.map(|(run, verdict)| (run, Arc::clone(&split), verdict)));
                break;
            }
        }
    }
    Some(found)
}
