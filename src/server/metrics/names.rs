//! The names of metric families that are read at each scrape or that alerts name. A score's own are [`score`], [`per_concept`] and [`per_task`].

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
pub const OPEN_RUNS: &str = "conceptwatch_open_runs";
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

// Families of a hub.
// Label `outcome`: `applied`, `known` or `refused`.
pub const HUB_ENTRIES: &str = "conceptwatch_hub_entries_total";
// Label `run`.
pub const HUB_PUSH_AGE: &str = "conceptwatch_hub_push_age_seconds";

// Families of the hub to which a sidecar sends changes.
pub const UPSTREAM_REACHED: &str = "conceptwatch_upstream_reached";
pub const UPSTREAM_WAITING: &str = "conceptwatch_upstream_entries_waiting";
pub const UPSTREAM_ANSWER_AGE: &str = "conceptwatch_upstream_answer_age_seconds";
pub const UPSTREAM_SENT: &str = "conceptwatch_upstream_entries_sent_total";
pub const UPSTREAM_REFUSED: &str = "conceptwatch_upstream_entries_refused_total";
pub const UPSTREAM_DROPPED: &str = "conceptwatch_upstream_entries_dropped_total";
