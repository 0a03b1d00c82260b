//! Pushes the metrics to an OTLP collector: `conceptwatch serve --otlp-endpoint`.
//!
//! A task of its own sends all series as they are, at an interval. Nothing waits for it, and nothing is queued: a collector that
//! was gone gets the newest values when it is back.

use std::time::Duration;

use sysinfo::System;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::clock::unix_time;
use super::grpc::otlp::{Collector, ExportMetricsServiceRequest, OtlpOptions, Rejected, Source, requests};
use super::http::Exposition;
use super::metrics::OtlpMetrics;
use super::options::{Options, ServeError};
use super::peers::{Dialer, Endpoint};
use crate::VERSION;

/// How long a push may take.
const PUSHING: Duration = Duration::from_secs(10);
/// How long the last one may take, which the end of the process waits for.
const LAST: Duration = Duration::from_secs(2);

/// The sender of metrics to a collector.
pub struct Otlp {
    options: OtlpOptions,
    dialer: Dialer,
    source: Source,
    exposition: Exposition,
    metrics: OtlpMetrics,
    collector: Option<Collector>,
    /// Pushes that failed one after another, until now.
    failures: u64,
    /// The last push was rejected in part.
    rejects: bool,
}

impl Otlp {
    /// Returns the sender that the options ask for, if they do. `http` is the address of the page, which names this process
    /// among those of the host.
    pub fn new(options: &Options, http: &Endpoint, exposition: &Exposition) -> Result<Option<Self>, ServeError> {
        let Some(options) = options.otlp.clone() else { return Ok(None) };
        let host = System::host_name().unwrap_or_else(|| "localhost".to_owned());
        let place = http.tcp().map_or_else(|| http.to_string(), |address| address.port().to_string());
        let (instance, started) = (format!("{host}:{place}"), unix_nanoseconds());
        Ok(Some(Self {
            dialer: options.dialer()?,
            source: Source { instance, version: VERSION, host, started },
            options,
            metrics: OtlpMetrics::register(exposition.registry())?,
            exposition: exposition.clone(),
            collector: None,
            failures: 0,
            rejects: false,
        }))
    }

    /// Pushes until `stop` is cancelled, and then once more.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut ticks = interval(self.options.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let next = async {
                ticks.tick().await;
                self.push(PUSHING).await;
            };
            if stop.run_until_cancelled(next).await.is_none() {
                return self.push(LAST).await;
            }
        }
    }

    async fn push(&mut self, limit: Duration) {
        let (exposition, source) = (self.exposition.clone(), self.source.clone());
        let gathering = move || requests(&source, &exposition.families(), unix_nanoseconds());
        let pushing = async {
            let requests = spawn_blocking(gathering).await.map_err(|error| error.to_string())?;
            self.send(requests).await
        };
        match timeout(limit, pushing).await {
            Ok(Ok(rejected)) => self.note_taken(&rejected),
            Ok(Err(why)) => self.note_failed(&why),
            Err(_) => self.note_failed(&format!("no answer within {} s", limit.as_secs())),
        }
    }

    async fn send(&mut self, requests: Vec<ExportMetricsServiceRequest>) -> Result<Rejected, String> {
        let collector = match &mut self.collector {
            Some(collector) => collector,
            none => none.insert(Collector::connect(&self.dialer).await?),
        };
        let mut all = Rejected::default();
        for request in requests {
            let Rejected { points, why } = collector.export(request).await?;
            // Counted here, since a later request of the push may fail.
            self.metrics.rejected.inc_by(points);
            all.points += points;
            if !why.is_empty() {
                all.why = why;
            }
        }
        Ok(all)
    }

    fn note_taken(&mut self, rejected: &Rejected) {
        self.metrics.pushes.inc();
        if self.failures > 0 {
            tracing::info!(endpoint = %self.options.endpoint, failures = self.failures, "metrics are pushed by OTLP again");
        }
        self.failures = 0;
        let Rejected { points, why } = rejected;
        if *points > 0 && !self.rejects {
            let endpoint = &self.options.endpoint;
            tracing::warn!(%endpoint, points, why, "the OTLP collector rejects points; further ones are counted");
        }
        self.rejects = *points > 0;
    }

    fn note_failed(&mut self, why: &str) {
        // The next push connects again.
        self.collector = None;
        self.metrics.failed.inc();
        self.failures += 1;
        if self.failures == 1 {
            let endpoint = &self.options.endpoint;
            tracing::warn!(%endpoint, why, "metrics cannot be pushed by OTLP; further failures are counted");
        }
    }
}

fn unix_nanoseconds() -> u64 {
    (unix_time() * 1e9) as u64
}
