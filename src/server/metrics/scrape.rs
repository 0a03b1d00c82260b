//! The families that are read at each scrape, from what a sidecar or hub shows.

use std::cmp::Reverse;

use prometheus::proto::MetricFamily;
use strum::VariantArray;

use super::families::{Families, SERIES_PER_FAMILY};
use super::{identities, names, scores};
use crate::history::{Store, Unwritable};
use crate::memory;
use crate::server::live::{CurveVerdict, Live, UpstreamStatus};
use leakage::alert::State;
use leakage::score::catalogue::Score;

/// Reads all of them, with verdicts that are known already.
pub fn scraped(history: &dyn Store, live: &dyn Live, catalogue: &[Score], known: &[CurveVerdict]) -> Vec<MetricFamily> {
    let mut families = Families::default();
    scores::add(&mut families, live, catalogue);
    verdicts(&mut families, known);
    identities::add(&mut families, &live.identities());
    alerts(&mut families, live);
    for (run, age) in live.push_ages() {
        families.add(&names::HUB_PUSH_AGE, &[&run], age);
    }
    if let Some(status) = live.upstream() {
        upstream(&mut families, &status);
    }
    of_history(&mut families, history);
    if let Some(bytes) = memory::in_use() {
        families.set(&names::HEAP, bytes as f64);
    }
    families.gathered()
}

pub(super) fn verdicts(families: &mut Families, verdicts: &[CurveVerdict]) {
    for (run, split, verdict) in verdicts {
        // Without a task there is no such label.
        let task = verdict.task.as_deref().map(|task| ("task", task));
        let (run, split) = (("run", &**run), ("split", &**split));
        let labels = [run, split].into_iter().chain(task).chain([("verdict", verdict.state.id())]);
        families.add_labelled(&names::VERDICT, labels, 1.0);
        if let Some(one) = &verdict.deciding {
            let labels = [run, ("score", &*one.score), split].into_iter().chain(task);
            families.add_labelled(&names::VERDICT_VALUE, labels, one.value);
        }
    }
}

fn alerts(families: &mut Families, live: &dyn Live) {
    let mut standings = live.alerts().standings;
    let number = |state: State| match state {
        State::Firing => 2,
        State::Pending => 1,
        State::Inactive => 0,
    };
    // Firing and pending states first, because series above the cap are omitted. Those that fire never are.
    standings.sort_by_key(|standing| Reverse(number(standing.state)));
    let firing = standings.partition_point(|standing| standing.state == State::Firing);
    let shown = firing.max(SERIES_PER_FAMILY).min(standings.len());
    for one in &standings[..shown] {
        let (rule, severity) = (("rule", &*one.rule), ("severity", one.severity.name()));
        let labels = [rule, ("run", &one.run), ("score", &one.score), severity, ("split", &one.split)];
        families.add_always(&names::ALERT_STATE, labels, number(one.state).into());
    }
    families.omit(&names::ALERT_STATE, (standings.len() - shown) as u64);
}

/// How the sidecar stands with its hub.
pub(super) fn upstream(families: &mut Families, status: &UpstreamStatus) {
    families.set(&names::UPSTREAM_REACHED, status.reached);
    families.set(&names::UPSTREAM_WAITING, status.waiting as f64);
    families.set(&names::UPSTREAM_ANSWER_AGE, status.seconds_since_answer);
    families.set(&names::UPSTREAM_SENT, status.sent as f64);
    families.set(&names::UPSTREAM_REFUSED, status.refused as f64);
    families.set(&names::UPSTREAM_DROPPED, status.dropped as f64);
}

/// Adds no sizes if the history cannot be read; the failing call is counted where it is made.
pub(super) fn of_history(families: &mut Families, history: &dyn Store) {
    let waiting = history.waiting();
    families.set(&names::HISTORY_WRITABLE, waiting.why.is_none());
    for reason in Unwritable::VARIANTS {
        let is_so = waiting.why.is_some() && waiting.kind == *reason;
        families.add(&names::HISTORY_UNWRITABLE, &[reason.as_ref()], is_so.into());
    }
    families.set(&names::HISTORY_WAITING, waiting.bytes as f64);
    families.set(&names::HISTORY_UNWRITTEN, waiting.unwritten.as_secs_f64());
    families.set(&names::HISTORY_REFUSED, waiting.refused as f64);
    let Ok(usage) = history.usage() else { return };
    families.set(&names::HISTORY_CORRUPT, usage.damaged as f64);
    families.set(&names::HISTORY_USED, usage.bytes as f64);
    families.set(&names::HISTORY_LIMIT, usage.limit as f64);
    let removed = usage.dropped;
    for (kind, count) in
        [("matrix", removed.matrices), ("point", removed.points), ("run", removed.runs), ("unscored", removed.unscored)]
    {
        families.add(&names::HISTORY_DROPPED, &[kind], count as f64);
    }
}
