//! The names of metric families. A score's own are [`score`], [`per_concept`] and [`per_task`].

pub const PREFIX: &str = "conceptwatch_";

/// Labels `run, split`.
pub fn score(id: &str) -> String {
    format!("{PREFIX}{id}")
}

/// Labels `run, split, concept`.
pub fn per_concept(id: &str) -> String {
    format!("{PREFIX}per_concept_{id}")
}

/// Labels `run, split, task`.
pub fn per_task(id: &str) -> String {
    format!("{PREFIX}per_task_{id}")
}

/// The unit that a family's name ends in, before `_total`.
pub fn unit(name: &str) -> Option<&'static str> {
    let name = name.strip_suffix("_total").unwrap_or(name);
    ["seconds", "bytes"].into_iter().find(|unit| name.strip_suffix(unit).is_some_and(|of| of.ends_with('_')))
}

// Families of each curve, with labels `run, split`.
pub const STEP: &str = "conceptwatch_step";
pub const EPOCH: &str = "conceptwatch_epoch";
pub const SAMPLE_ROWS: &str = "conceptwatch_sample_rows";
pub const REPEATED_ROWS: &str = "conceptwatch_repeated_rows";
pub const TIE_FRACTION: &str = "conceptwatch_tie_fraction";
pub const PROVISIONAL: &str = "conceptwatch_provisional";
pub const EVALUATION_TIMESTAMP: &str = "conceptwatch_evaluation_timestamp_seconds";
// The same labels and `score`.
pub const STANDARD_ERROR: &str = "conceptwatch_standard_error";
pub const SCORE_UNDEFINED: &str = "conceptwatch_score_undefined";
pub const CONCEPTS_LEFT_OUT: &str = "conceptwatch_score_concepts_left_out";
pub const PAIRS_LEFT_OUT: &str = "conceptwatch_score_pairs_left_out";
pub const PAIR_AGE: &str = "conceptwatch_pair_age_seconds";
// The same labels and `verdict`, or `score`.
pub const VERDICT: &str = "conceptwatch_verdict";
pub const VERDICT_VALUE: &str = "conceptwatch_verdict_value";
// Label `family`.
pub const SERIES_OMITTED: &str = "conceptwatch_series_omitted";

// Families of each run, with labels `run, job, host` and the run's own.
pub const RUN_INFO: &str = "conceptwatch_run_info";

// Families of each alert rule and run, with labels `run, split, rule, score, severity`.
pub const ALERT_STATE: &str = "conceptwatch_alert_state";

// Families of the sidecar itself.
pub const BUILD_INFO: &str = "conceptwatch_build_info";
pub const ROWS_RECEIVED: &str = "conceptwatch_rows_received_total";
pub const ROWS_DUPLICATE: &str = "conceptwatch_rows_duplicate_total";
pub const ROWS_DROPPED: &str = "conceptwatch_rows_dropped_total";
pub const ROWS_UNFINISHED: &str = "conceptwatch_rows_unfinished_total";
pub const BATCHES_ACCEPTED: &str = "conceptwatch_batches_accepted_total";
pub const BATCHES_REFUSED: &str = "conceptwatch_batches_refused_total";
pub const RECEIVED_BYTES: &str = "conceptwatch_received_bytes_total";
pub const READ_BYTES: &str = "conceptwatch_read_bytes_total";
pub const CONNECTIONS: &str = "conceptwatch_connections";
pub const INGEST_BUDGET_USED: &str = "conceptwatch_ingest_budget_used_bytes";
pub const INGEST_BUDGET_LIMIT: &str = "conceptwatch_ingest_budget_limit_bytes";
pub const HEAP: &str = "conceptwatch_heap_bytes";
pub const SAMPLE_MEMORY: &str = "conceptwatch_sample_memory_bytes";
// Label `scores`: `cheap`, `fast` or `slow`.
pub const SCORING_MEMORY: &str = "conceptwatch_scoring_memory_bytes";
pub const SCORING_MEMORY_LIMIT: &str = "conceptwatch_scoring_memory_limit_bytes";
pub const PASSES_CLOSED: &str = "conceptwatch_passes_closed_total";
pub const PASSES_INCOMPLETE: &str = "conceptwatch_passes_incomplete_total";
pub const PASSES_DISCARDED: &str = "conceptwatch_passes_discarded_total";
pub const PASSES_SETTLED: &str = "conceptwatch_passes_settled_total";
pub const PASSES_UNSETTLED: &str = "conceptwatch_passes_unsettled";
pub const OPEN_RUNS: &str = "conceptwatch_open_runs";
pub const RUNS_FORGOTTEN: &str = "conceptwatch_runs_forgotten_total";
pub const WINDOWS_IGNORED: &str = "conceptwatch_windows_ignored_total";
pub const POINTS_RECORDED: &str = "conceptwatch_points_recorded_total";
pub const POINTS_SKIPPED: &str = "conceptwatch_points_skipped_total";
// Label `scores`: `fast` or `slow`.
pub const JOINS_SKIPPED: &str = "conceptwatch_joins_skipped_total";
pub const POINTS_OUTRANKED: &str = "conceptwatch_points_outranked_total";
pub const KEPT_MEMORY: &str = "conceptwatch_kept_memory_bytes";
pub const PAIRS_LEFT: &str = "conceptwatch_pairs_left_total";
pub const HISTORY_ERRORS: &str = "conceptwatch_history_errors_total";
pub const SCORE_FAILURES: &str = "conceptwatch_score_failures_total";
pub const HISTORY_USED: &str = "conceptwatch_history_used_bytes";
pub const HISTORY_LIMIT: &str = "conceptwatch_history_limit_bytes";
pub const HISTORY_DROPPED: &str = "conceptwatch_history_dropped_total";
pub const HISTORY_WRITABLE: &str = "conceptwatch_history_writable";
pub const HISTORY_UNWRITTEN: &str = "conceptwatch_history_unwritten_seconds";
// Label `reason`.
pub const HISTORY_UNWRITABLE: &str = "conceptwatch_history_unwritable";
pub const HISTORY_WAITING: &str = "conceptwatch_history_waiting_bytes";
pub const HISTORY_REFUSED: &str = "conceptwatch_history_refused_total";
pub const HISTORY_CORRUPT: &str = "conceptwatch_history_corrupt_points_total";
pub const SCORE_DURATION: &str = "conceptwatch_score_duration_seconds";
pub const LAG: &str = "conceptwatch_lag_seconds";
pub const STALENESS: &str = "conceptwatch_staleness_seconds";
pub const WORKER_CPU: &str = "conceptwatch_worker_cpu_seconds_total";
pub const SPARE_CORES: &str = "conceptwatch_spare_cores";
pub const WATCH_EVENTS_LOST: &str = "conceptwatch_watch_events_lost_total";
pub const CONNECTIONS_CLOSED: &str = "conceptwatch_connections_closed_total";
pub const TOKENS_REFUSED: &str = "conceptwatch_tokens_refused_total";
pub const REQUESTS: &str = "conceptwatch_http_requests_total";
pub const NOTIFICATIONS: &str = "conceptwatch_notifications_total";
pub const NOTIFICATIONS_FAILED: &str = "conceptwatch_notifications_failed_total";
pub const NOTIFICATIONS_DROPPED: &str = "conceptwatch_notifications_dropped_total";

// Families of a hub.
// Label `outcome`: `applied`, `known` or `refused`.
pub const HUB_ENTRIES: &str = "conceptwatch_hub_entries_total";
// Labels `call, code`.
pub const HUB_CALLS_REFUSED: &str = "conceptwatch_hub_calls_refused_total";
// Label `run`.
pub const HUB_PUSH_AGE: &str = "conceptwatch_hub_push_age_seconds";

// Families of a collector to which metrics are pushed.
pub const OTLP_PUSHES: &str = "conceptwatch_otlp_pushes_total";
pub const OTLP_FAILED: &str = "conceptwatch_otlp_pushes_failed_total";
pub const OTLP_REJECTED: &str = "conceptwatch_otlp_points_rejected_total";

// Families of the hub to which a sidecar sends changes.
pub const UPSTREAM_REACHED: &str = "conceptwatch_upstream_reached";
pub const UPSTREAM_WAITING: &str = "conceptwatch_upstream_entries_waiting";
pub const UPSTREAM_ANSWER_AGE: &str = "conceptwatch_upstream_answer_age_seconds";
pub const UPSTREAM_SENT: &str = "conceptwatch_upstream_entries_sent_total";
pub const UPSTREAM_REFUSED: &str = "conceptwatch_upstream_entries_refused_total";
pub const UPSTREAM_DROPPED: &str = "conceptwatch_upstream_entries_dropped_total";
