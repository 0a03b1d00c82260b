//! How the sidecar stands with its hub, read at each scrape. There only with `--upstream`.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Error, Gauge, IntCounter, IntGauge, Opts, Registry};

use super::names;
use crate::server::live::UpstreamStatus;

pub struct UpstreamCollector<F> {
    status: F,
    reached: IntGauge,
    waiting: IntGauge,
    answer_age: Gauge,
    sent: Opts,
    refused: Opts,
    dropped: Opts,
    passes_waiting: IntGauge,
    parts_sent: Opts,
    part_bytes: Opts,
    parts_refused: Opts,
    passes_lost: Opts,
}

impl<F: Fn() -> UpstreamStatus + Send + Sync + 'static> UpstreamCollector<F> {
    pub fn register(registry: &Registry, status: F) -> Result<(), Error> {
        registry.register(Box::new(Self {
            status,
            reached: IntGauge::new(names::UPSTREAM_REACHED, "1 if the hub answered the last call, else 0.")?,
            waiting: IntGauge::new(
                names::UPSTREAM_WAITING,
                "Changes of the history that are not yet sent to the hub, or not yet acknowledged by it.",
            )?,
            answer_age: Gauge::new(
                names::UPSTREAM_ANSWER_AGE,
                "Time since the hub's last answer, or since the start where there was none, in seconds.",
            )?,
            sent: Opts::new(names::UPSTREAM_SENT, "Changes of the history that the hub has applied."),
            refused: Opts::new(names::UPSTREAM_REFUSED, "Changes of the history that the hub can never apply."),
            dropped: Opts::new(
                names::UPSTREAM_DROPPED,
                "Changes that the size limit of the history removed before they were sent to the hub, or that could not be read.",
            ),
            passes_waiting: IntGauge::new(
                names::UPSTREAM_PASSES_WAITING,
                "Passes over several hosts that ranks here have ended and whose end the hub has not yet reported.",
            )?,
            parts_sent: Opts::new(names::UPSTREAM_PARTS_SENT, "Parts of passes over several hosts that the hub took."),
            part_bytes: Opts::new(names::UPSTREAM_PART_BYTES, "Bytes of the parts of passes that the hub took."),
            parts_refused: Opts::new(names::UPSTREAM_PARTS_REFUSED, "Parts of passes that the hub can never take."),
            passes_lost: Opts::new(
                names::UPSTREAM_PASSES_LOST,
                "Passes over several hosts that were abandoned because no hub reported their end in time.",
            ),
        }))
    }
}

impl<F: Fn() -> UpstreamStatus + Send + Sync + 'static> Collector for UpstreamCollector<F> {
    fn desc(&self) -> Vec<&Desc> {
        [self.reached.desc(), self.waiting.desc(), self.answer_age.desc(), self.passes_waiting.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let status = (self.status)();
        self.reached.set(i64::from(status.reached));
        self.waiting.set(i64::try_from(status.waiting).unwrap_or(i64::MAX));
        self.answer_age.set(status.seconds_since_answer);
        self.passes_waiting.set(i64::try_from(status.passes_waiting).unwrap_or(i64::MAX));
        let gauges = [&self.reached, &self.waiting, &self.passes_waiting];
        let mut families: Vec<MetricFamily> = gauges.iter().flat_map(|gauge| gauge.collect()).collect();
        families.extend(self.answer_age.collect());
        for (options, count) in [
            (&self.sent, status.sent),
            (&self.refused, status.refused),
            (&self.dropped, status.dropped),
            (&self.parts_sent, status.parts_sent),
            (&self.part_bytes, status.part_bytes),
            (&self.parts_refused, status.parts_refused),
            (&self.passes_lost, status.passes_lost),
        ] {
            if let Ok(counter) = IntCounter::with_opts(options.clone()) {
                counter.inc_by(count);
                families.extend(counter.collect());
            }
        }
        families
    }
}
