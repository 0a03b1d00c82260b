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
        }))
    }
}

impl<F: Fn() -> UpstreamStatus + Send + Sync + 'static> Collector for UpstreamCollector<F> {
    fn desc(&self) -> Vec<&Desc> {
        [self.reached.desc(), self.waiting.desc(), self.answer_age.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let status = (self.status)();
        self.reached.set(i64::from(status.reached));
        self.waiting.set(i64::try_from(status.waiting).unwrap_or(i64::MAX));
        self.answer_age.set(status.seconds_since_answer);
        let gauges = [&self.reached, &self.waiting];
        let mut families: Vec<MetricFamily> = gauges.iter().flat_map(|gauge| gauge.collect()).collect();
        families.extend(self.answer_age.collect());
        for (options, count) in
            [(&self.sent, status.sent), (&self.refused, status.refused), (&self.dropped, status.dropped)]
        {
            if let Ok(counter) = IntCounter::with_opts(options.clone()) {
                counter.inc_by(count);
                families.extend(counter.collect());
            }
        }
        families
    }
}
