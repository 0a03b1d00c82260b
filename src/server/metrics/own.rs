//! Metrics of the sidecar itself.

use std::ops::Deref;
use std::sync::Arc;

use prometheus::core::Collector;
use prometheus::{
    Counter, Error, Gauge, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

use super::heap::HeapCollector;
use super::names;

/// The sidecar's own metrics. Clones share them and cost next to nothing: each connection and call makes some.
#[derive(Clone)]
pub struct Metrics(Arc<Own>);

impl Deref for Metrics {
    type Target = Own;

    fn deref(&self) -> &Own {
        &self.0
    }
}

/// Handles to each of them.
pub struct Own {
    pub rows_received: IntCounter,
    pub rows_duplicate: IntCounter,
    /// Label `reason`.
    pub rows_dropped: IntCounterVec,
    pub rows_unfinished: IntCounter,
    pub batches_accepted: IntCounter,
    /// Label `code`: the gRPC code's name.
    pub batches_refused: IntCounterVec,
    pub received_bytes: IntCounter,
    /// Bytes of all messages, including those that were never whole.
    pub read_bytes: IntCounter,
    /// Label `port`: `grpc` or `http`.
    pub connections: IntGaugeVec,
    pub ingest_budget_used: IntGauge,
    pub ingest_budget_limit: IntGauge,
    pub sample_memory: IntGauge,
    /// Label `scores`: `cheap`, `fast` or `slow`.
    pub scoring_memory: IntGaugeVec,
    pub scoring_memory_limit: IntGauge,
    pub passes_closed: IntCounter,
    pub passes_incomplete: IntCounter,
    pub passes_discarded: IntCounter,
    /// Label `outcome`: a name of `settlement::Outcome`.
    pub passes_settled: IntCounterVec,
    pub passes_unsettled: IntGauge,
    pub open_runs: IntGauge,
    pub runs_forgotten: IntCounter,
    pub windows_ignored: IntCounter,
    pub points_recorded: IntCounter,
    pub points_skipped: IntCounter,
    /// Label `scores`: `fast` or `slow`.
    pub joins_skipped: IntCounterVec,
    pub points_outranked: IntCounter,
    pub pairs_left: IntCounter,
    pub kept_memory: IntGauge,
    pub history_errors: IntCounter,
    pub score_failures: IntCounter,
    /// `Point::seconds` of each sample.
    pub score_duration: Histogram,
    pub lag: Gauge,
    pub staleness: Gauge,
    pub worker_cpu: Counter,
    pub spare_cores: Gauge,
    pub watch_events_lost: IntCounter,
    /// Labels `port`, and `reason`: `silent`, `made_room`, `full`, `handshake` or `other_user`.
    pub connections_closed: IntCounterVec,
    /// Label `port`: `grpc` or `http`.
    pub tokens_refused: IntCounterVec,
    /// Labels `path` (a route or `other`, never a client's text) and `code`.
    pub requests: IntCounterVec,
    /// Label `receiver`: `webhook` or `alertmanager`, as for the next two.
    pub notifications: IntCounterVec,
    pub notifications_failed: IntCounterVec,
    pub notifications_dropped: IntCounterVec,
}

/// From a millisecond to a quarter of an hour.
const DURATION_BOUNDS: [f64; 13] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 900.0];

impl Metrics {
    /// Registers all of them. Errors when the registry already has one of the names.
    pub fn register(registry: &Registry, version: &str, catalogue_version: u32) -> Result<Self, Error> {
        let build = labelled_gauge(
            registry,
            names::BUILD_INFO,
            "Always 1; the labels are the versions of the program and of its score catalogue.",
            &["version", "catalogue_version"],
        )?;
        build.with_label_values(&[version, &catalogue_version.to_string()]).set(1);
        HeapCollector::register(registry)?;

        let score_duration = Histogram::with_opts(
            HistogramOpts::new(names::SCORE_DURATION, "Wall time to score one sample, rests included, in seconds.")
                .buckets(DURATION_BOUNDS.to_vec()),
        )?;
        registry.register(Box::new(score_duration.clone()))?;
        let worker_cpu = Counter::new(names::WORKER_CPU, "CPU time of the scoring threads, in seconds.")?;
        registry.register(Box::new(worker_cpu.clone()))?;

        let counter = |name, help| {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, Error>(counter)
        };
        let counters = |name, help, labels: &[&str]| {
            let counters = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counters.clone()))?;
            Ok::<_, Error>(counters)
        };
        let bytes = |name, help| {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, Error>(gauge)
        };
        let gauge = |name, help| {
            let gauge = Gauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, Error>(gauge)
        };
        Ok(Self(Arc::new(Own {
            rows_received: counter(names::ROWS_RECEIVED, "Rows received in well-formed batches.")?,
            rows_duplicate: counter(names::ROWS_DUPLICATE, "Received rows that the sample already had.")?,
            rows_dropped: counters(names::ROWS_DROPPED, "Rows not accepted, by reason.", &["reason"])?,
            rows_unfinished: counter(names::ROWS_UNFINISHED, "Rows of interrupted uploads; clients send them again.")?,
            batches_accepted: counter(names::BATCHES_ACCEPTED, "Batches applied.")?,
            batches_refused: counters(names::BATCHES_REFUSED, "Batches refused, by gRPC code.", &["code"])?,
            received_bytes: counter(names::RECEIVED_BYTES, "Bytes of tensors received.")?,
            read_bytes: counter(
                names::READ_BYTES,
                "Bytes of gRPC messages read, including refused and incomplete ones.",
            )?,
            connections: labelled_gauge(registry, names::CONNECTIONS, "Open connections, by port.", &["port"])?,
            ingest_budget_used: bytes(
                names::INGEST_BUDGET_USED,
                "Bytes reserved for gRPC connections, their messages and batches in flight.",
            )?,
            ingest_budget_limit: bytes(
                names::INGEST_BUDGET_LIMIT,
                "Maximum bytes reserved for gRPC connections, their messages and batches in flight.",
            )?,
            sample_memory: bytes(names::SAMPLE_MEMORY, "Bytes held by all samples.")?,
            scoring_memory: labelled_gauge(
                registry,
                names::SCORING_MEMORY,
                "Estimated peak memory of scoring the newest evaluation, in bytes.",
                &["scores"],
            )?,
            scoring_memory_limit: bytes(
                names::SCORING_MEMORY_LIMIT,
                "Bytes that scoring may take: half for slow scores, a quarter each for fast ones and for the first points of passes.",
            )?,
            passes_closed: counter(names::PASSES_CLOSED, "Passes that every rank ended.")?,
            passes_incomplete: counter(
                names::PASSES_INCOMPLETE,
                "Passes closed before every rank had ended them or with missing rows.",
            )?,
            passes_discarded: counter(
                names::PASSES_DISCARDED,
                "Open passes discarded because a newer attempt of their run began, or a rank left them by an exception.",
            )?,
            passes_settled: counters(
                names::PASSES_SETTLED,
                "Passes whose point, or the reason why there is none, is in the history, by outcome.",
                &["outcome"],
            )?,
            passes_unsettled: bytes(names::PASSES_UNSETTLED, "Passes received and not settled.")?,
            open_runs: bytes(names::OPEN_RUNS, "Unfinished runs that this sidecar serves.")?,
            runs_forgotten: counter(
                names::RUNS_FORGOTTEN,
                "Runs removed from memory because no client sent anything for a long time.",
            )?,
            windows_ignored: counter(
                names::WINDOWS_IGNORED,
                "Saved rolling windows that could not be read and were ignored.",
            )?,
            points_outranked: counter(
                names::POINTS_OUTRANKED,
                "Curve points not stored because the history has a more complete one of the same step.",
            )?,
            points_recorded: counter(names::POINTS_RECORDED, "Curve points written to the history.")?,
            points_skipped: counter(
                names::POINTS_SKIPPED,
                "Evaluations that were not scored, because a newer one was ready first.",
            )?,
            joins_skipped: counters(
                names::JOINS_SKIPPED,
                "Points that lack their later scores, because a newer point was ready before these were computed.",
                &["scores"],
            )?,
            kept_memory: bytes(names::KEPT_MEMORY, "Bytes that rolling windows keep from one tick to the next.")?,
            pairs_left: counter(
                names::PAIRS_LEFT,
                "Pairs of concepts whose value a tick of a rolling window reused from an earlier tick for lack of CPU time.",
            )?,
            history_errors: counter(names::HISTORY_ERRORS, "Curve points that the history could not store.")?,
            score_failures: counter(
                names::SCORE_FAILURES,
                "Scores that are undefined, and samples without a point, because of a bug in the program.",
            )?,
            score_duration,
            lag: gauge(names::LAG, "Scoring delay: how long the oldest waiting evaluation has been due, in seconds.")?,
            staleness: gauge(
                names::STALENESS,
                "Longest time without an evaluation among the splits of unfinished runs, in seconds.",
            )?,
            worker_cpu,
            spare_cores: gauge(
                names::SPARE_CORES,
                "Idle cores less half a core for gaps, averaged over the last seconds; scoring keeps to them, see --busy-cpu-share.",
            )?,
            watch_events_lost: counter(names::WATCH_EVENTS_LOST, "Events that watchers were too slow to receive.")?,
            notifications: counters(names::NOTIFICATIONS, "Alert messages delivered, by receiver.", &["receiver"])?,
            notifications_failed: counters(
                names::NOTIFICATIONS_FAILED,
                "Failed attempts to deliver an alert message, by receiver.",
                &["receiver"],
            )?,
            notifications_dropped: counters(
                names::NOTIFICATIONS_DROPPED,
                "Alert messages dropped after the last attempt or because the queue was full, by receiver.",
                &["receiver"],
            )?,
            connections_closed: counters(
                names::CONNECTIONS_CLOSED,
                "Connections that the sidecar closed, by port and reason.",
                &["port", "reason"],
            )?,
            tokens_refused: counters(names::TOKENS_REFUSED, "Requests with a wrong token, by port.", &["port"])?,
            requests: counters(names::REQUESTS, "HTTP requests, by route and status code.", &["path", "code"])?,
        })))
    }

    /// Returns the rows dropped for any reason.
    pub fn all_rows_dropped(&self) -> u64 {
        let series = self.rows_dropped.collect().into_iter();
        let counts = series
            .flat_map(|family| family.get_metric().iter().map(|m| m.get_counter().get_value()).collect::<Vec<_>>());
        counts.sum::<f64>() as u64
    }
}

fn labelled_gauge(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec, Error> {
    let gauge = IntGaugeVec::new(Opts::new(name, help), labels)?;
    registry.register(Box::new(gauge.clone()))?;
    Ok(gauge)
}
