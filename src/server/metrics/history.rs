//! Metrics of the history.

use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Error, Gauge, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};
use strum::VariantArray;

use super::names;
use crate::history::{Store, Unwritable};

/// The history's size and what its limit has removed, read at each scrape.
pub struct HistoryCollector {
    history: Arc<dyn Store>,
    used: IntGauge,
    limit: IntGauge,
    writable: IntGauge,
    unwritable: IntGaugeVec,
    waiting: IntGauge,
    unwritten: Gauge,
    refused: Opts,
    corrupt: Opts,
    dropped: Opts,
}

impl HistoryCollector {
    pub fn register(registry: &Registry, history: Arc<dyn Store>) -> Result<(), Error> {
        let help = "Entries removed by the history's size limit, oldest first, by kind.";
        registry.register(Box::new(Self {
            history,
            used: IntGauge::new(names::HISTORY_USED, "Size of the history in bytes.")?,
            limit: IntGauge::new(names::HISTORY_LIMIT, "Size limit of the history in bytes.")?,
            writable: IntGauge::new(names::HISTORY_WRITABLE, "1 if the history can be written, else 0.")?,
            unwritable: IntGaugeVec::new(
                Opts::new(
                    names::HISTORY_UNWRITABLE,
                    "1 for the reason why the history cannot be written: read_only, full, unreachable, denied or other; else 0.",
                ),
                &["reason"],
            )?,
            waiting: IntGauge::new(
                names::HISTORY_WAITING,
                "Bytes of points and declarations that wait in memory because the history cannot be written.",
            )?,
            unwritten: Gauge::new(
                names::HISTORY_UNWRITTEN,
                "Age of the oldest change of the history that is not on the disk, in seconds; 0 if there is none.",
            )?,
            refused: Opts::new(
                names::HISTORY_REFUSED,
                "Changes of the history that were lost because too much waited already.",
            ),
            corrupt: Opts::new(
                names::HISTORY_CORRUPT,
                "Stored points, matrices and declarations left out because they do not match their checksum.",
            ),
            dropped: Opts::new(names::HISTORY_DROPPED, help).variable_label("kind"),
        }))
    }
}

impl Collector for HistoryCollector {
    fn desc(&self) -> Vec<&Desc> {
        let gauges = [self.used.desc(), self.limit.desc(), self.writable.desc(), self.waiting.desc()].concat();
        [gauges, self.unwritable.desc(), self.unwritten.desc()].concat()
    }

    /// Exports no sizes if the history cannot be read; the failing call is counted where it is made.
    fn collect(&self) -> Vec<MetricFamily> {
        let bytes = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let counted = |options: &Opts, count: u64| {
            let counter = IntCounter::with_opts(options.clone()).ok();
            counter.map(|counter| {
                counter.inc_by(count);
                counter.collect()
            })
        };
        let waiting = self.history.waiting();
        self.writable.set(i64::from(waiting.why.is_none()));
        for reason in Unwritable::VARIANTS {
            let is_so = waiting.why.is_some() && waiting.kind == *reason;
            self.unwritable.with_label_values(&[reason.name()]).set(i64::from(is_so));
        }
        self.waiting.set(bytes(waiting.bytes));
        self.unwritten.set(waiting.unwritten.as_secs_f64());
        let refused = counted(&self.refused, waiting.refused).unwrap_or_default();
        let writable = [self.writable.collect(), self.unwritable.collect()].concat();
        let state = [writable, self.waiting.collect(), self.unwritten.collect(), refused].concat();
        let Ok(usage) = self.history.usage() else { return state };
        let Ok(dropped) = IntCounterVec::new(self.dropped.clone(), &["kind"]) else { return state };
        let corrupt = counted(&self.corrupt, usage.damaged).unwrap_or_default();
        self.used.set(bytes(usage.bytes));
        self.limit.set(bytes(usage.limit));
        let removed = usage.dropped;
        for (kind, count) in [
            ("matrix", removed.matrices),
            ("point", removed.points),
            ("run", removed.runs),
            ("unscored", removed.unscored),
        ] {
            dropped.with_label_values(&[kind]).inc_by(count);
        }
        [state, corrupt, self.used.collect(), self.limit.collect(), dropped.collect()].concat()
    }
}
