//! Metrics of the sidecar itself.

use std::ops::Deref;
use std::sync::Arc;

use prometheus::core::Collector;
use prometheus::{Error, IntGaugeVec, Opts, Registry};

use super::names;
use super::table::{registered, table};

/// The sidecar's own metrics. Clones share them and cost next to nothing: each connection and call makes some.
#[derive(Clone)]
pub struct Metrics(Arc<Own>);

impl Deref for Metrics {
    type Target = Own;

    fn deref(&self) -> &Own {
        &self.0
    }
}

/// From a millisecond to a quarter of an hour.
const DURATION_BOUNDS: [f64; 13] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 900.0];

table! {
    /// Handles to each of them.
    Own {
        rows_received: IntCounter = "conceptwatch_rows_received_total", "Rows received in well-formed batches.";
        rows_duplicate: IntCounter = "conceptwatch_rows_duplicate_total", "Received rows that the sample already had.";
        rows_dropped: IntCounterVec["reason"] = "conceptwatch_rows_dropped_total", "Rows not accepted, by reason.";
        rows_unfinished: IntCounter = "conceptwatch_rows_unfinished_total",
            "Rows of interrupted uploads; clients send them again.";
        batches_accepted: IntCounter = "conceptwatch_batches_accepted_total", "Batches applied.";
        /// The gRPC code's name.
        batches_refused: IntCounterVec["code"] = "conceptwatch_batches_refused_total", "Batches refused, by gRPC code.";
        received_bytes: IntCounter = "conceptwatch_received_bytes_total", "Bytes of tensors received.";
        /// Bytes of all messages, including those that were never whole.
        read_bytes: IntCounter = "conceptwatch_read_bytes_total",
            "Bytes of gRPC messages read, including refused and incomplete ones.";
        /// `grpc` or `http`.
        connections: IntGaugeVec["port"] = "conceptwatch_connections", "Open connections, by port.";
        ingest_budget_used: IntGauge = "conceptwatch_ingest_budget_used_bytes",
            "Bytes reserved for gRPC connections, their messages and batches in flight.";
        ingest_budget_limit: IntGauge = "conceptwatch_ingest_budget_limit_bytes",
            "Maximum bytes reserved for gRPC connections, their messages and batches in flight.";
        sample_memory: IntGauge = "conceptwatch_sample_memory_bytes", "Bytes held by all samples.";
        /// `cheap`, `fast` or `slow`.
        scoring_memory: IntGaugeVec["scores"] = "conceptwatch_scoring_memory_bytes",
            "Estimated peak memory of scoring the newest evaluation, in bytes.";
        scoring_memory_limit: IntGauge = "conceptwatch_scoring_memory_limit_bytes",
            "Bytes that scoring may take: half for slow scores, a quarter each for fast ones and for the first points of passes.";
        passes_closed: IntCounter = "conceptwatch_passes_closed_total", "Passes that every rank ended.";
        passes_incomplete: IntCounter = "conceptwatch_passes_incomplete_total",
            "Passes closed before every rank had ended them or with missing rows.";
        passes_discarded: IntCounter = "conceptwatch_passes_discarded_total",
            "Open passes discarded because a newer attempt of their run began, or a rank left them by an exception.";
        /// A name of `settlement::Outcome`.
        passes_settled: IntCounterVec["outcome"] = "conceptwatch_passes_settled_total",
            "Passes whose point, or the reason why there is none, is in the history, by outcome.";
        passes_unsettled: IntGauge = "conceptwatch_passes_unsettled", "Passes received and not settled.";
        open_runs: IntGauge = names::OPEN_RUNS, "Unfinished runs that this sidecar serves.";
        runs_forgotten: IntCounter = "conceptwatch_runs_forgotten_total",
            "Runs removed from memory because no client sent anything for a long time.";
        windows_ignored: IntCounter = "conceptwatch_windows_ignored_total",
            "Saved rolling windows that could not be read and were ignored.";
        points_recorded: IntCounter = "conceptwatch_points_recorded_total", "Curve points written to the history.";
        points_skipped: IntCounter = "conceptwatch_points_skipped_total",
            "Evaluations that were not scored, because a newer one was ready first.";
        /// `fast` or `slow`.
        joins_skipped: IntCounterVec["scores"] = "conceptwatch_joins_skipped_total",
            "Points that lack their later scores, because a newer point was ready before these were computed.";
        points_outranked: IntCounter = "conceptwatch_points_outranked_total",
            "Curve points not stored because the history has a more complete one of the same step.";
        pairs_left: IntCounter = "conceptwatch_pairs_left_total",
            "Pairs of concepts whose value a tick of a rolling window reused from an earlier tick for lack of CPU time.";
        kept_memory: IntGauge = "conceptwatch_kept_memory_bytes",
            "Bytes that rolling windows keep from one tick to the next.";
        history_errors: IntCounter = "conceptwatch_history_errors_total",
            "Curve points that the history could not store.";
        score_failures: IntCounter = "conceptwatch_score_failures_total",
            "Scores that are undefined, and samples without a point, because of a bug in the program.";
        /// `Point::seconds` of each sample.
        score_duration: Histogram[DURATION_BOUNDS] = "conceptwatch_score_duration_seconds",
            "Wall time to score one sample, rests included, in seconds.";
        lag: Gauge = "conceptwatch_lag_seconds",
            "Scoring delay: how long the oldest waiting evaluation has been due, in seconds.";
        staleness: Gauge = "conceptwatch_staleness_seconds",
            "Longest time without an evaluation among the splits of unfinished runs, in seconds.";
        worker_cpu: Counter = "conceptwatch_worker_cpu_seconds_total", "CPU time of the scoring threads, in seconds.";
        spare_cores: Gauge = "conceptwatch_spare_cores",
            "Idle cores less half a core for gaps, averaged over the last seconds; scoring keeps to them, see --busy-cpu-share.";
        watch_events_lost: IntCounter = "conceptwatch_watch_events_lost_total",
            "Events that watchers were too slow to receive.";
        /// `reason`: `silent`, `made_room`, `full`, `handshake` or `other_user`.
        connections_closed: IntCounterVec["port", "reason"] = "conceptwatch_connections_closed_total",
            "Connections that the sidecar closed, by port and reason.";
        /// `grpc` or `http`.
        tokens_refused: IntCounterVec["port"] = "conceptwatch_tokens_refused_total",
            "Requests with a wrong token, by port.";
        /// `path`: a route or `other`, never a client's text.
        requests: IntCounterVec["path", "code"] = "conceptwatch_http_requests_total",
            "HTTP requests, by route and status code.";
        /// `webhook` or `alertmanager`, as for the next two.
        notifications: IntCounterVec["receiver"] = "conceptwatch_notifications_total",
            "Alert messages delivered, by receiver.";
        notifications_failed: IntCounterVec["receiver"] = "conceptwatch_notifications_failed_total",
            "Failed attempts to deliver an alert message, by receiver.";
        notifications_dropped: IntCounterVec["receiver"] = "conceptwatch_notifications_dropped_total",
            "Alert messages dropped after the last attempt or because the queue was full, by receiver.";
    }
}

table! {
    /// The counters of pushes by OTLP. There only with `--otlp-endpoint`.
    OtlpMetrics {
        pushes: IntCounter = "conceptwatch_otlp_pushes_total", "Pushes of all metrics that the OTLP collector took.";
        failed: IntCounter = "conceptwatch_otlp_pushes_failed_total",
            "Pushes that failed because the OTLP collector was gone or refused them.";
        rejected: IntCounter = "conceptwatch_otlp_points_rejected_total", "Points that the OTLP collector rejected.";
    }
}

table! {
    /// The counters of a hub. Clones share them.
    #[derive(Clone)]
    HubMetrics {
        /// `applied`, `known` or `refused`.
        entries: IntCounterVec["outcome"] = names::HUB_ENTRIES,
            "Entries that sidecars pushed: applied, known already, or refused because they can never be applied.";
        /// `code`: the gRPC code's name.
        calls_refused: IntCounterVec["call", "code"] = "conceptwatch_hub_calls_refused_total",
            "Calls of sidecars that were refused as a whole, by call and gRPC code.";
    }
}

impl Metrics {
    /// Registers all of them. Errors when the registry already has one of the names.
    pub fn register(registry: &Registry, version: &str, catalogue_version: u32) -> Result<Self, Error> {
        let help = "Always 1; the labels are the versions of the program and of its score catalogue.";
        let build = Opts::new("conceptwatch_build_info", help);
        let build = registered(registry, IntGaugeVec::new(build, &["version", "catalogue_version"]))?;
        build.with_label_values(&[version, &catalogue_version.to_string()]).set(1);
        Ok(Self(Arc::new(Own::register(registry)?)))
    }

    /// Returns the rows dropped for any reason.
    pub fn all_rows_dropped(&self) -> u64 {
        let series = self.rows_dropped.collect().into_iter();
        let counts = series
            .flat_map(|family| family.get_metric().iter().map(|m| m.get_counter().get_value()).collect::<Vec<_>>());
        counts.sum::<f64>() as u64
    }
}
