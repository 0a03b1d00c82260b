//! The families that are read at each scrape: names, help and labels. A score's own are [`score`], [`per_concept`] and
//! [`per_task`].

/// A family of metrics.
#[derive(Clone, Copy)]
pub struct Family<'a> {
    pub name: &'a str,
    pub help: &'a str,
    pub labels: &'a [&'a str],
}

const fn family(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Family<'static> {
    Family { name, help, labels }
}

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

pub const CURVE: [&str; 2] = ["run", "split"];
pub const CURVE_SCORE: [&str; 3] = ["run", "split", "score"];
pub const CURVE_CONCEPT: [&str; 3] = ["run", "split", "concept"];
pub const CURVE_TASK: [&str; 3] = ["run", "split", "task"];

// Families of each curve.
pub const STEP: Family = family("conceptwatch_step", "Optimiser steps at the newest curve point.", &CURVE);
pub const EPOCH: Family = family("conceptwatch_epoch", "Epoch of the newest curve point.", &CURVE);
pub const SAMPLE_ROWS: Family =
    family("conceptwatch_sample_rows", "Rows in the sample of the newest curve point.", &CURVE);
pub const REPEATED_ROWS: Family =
    family("conceptwatch_repeated_rows", "Copies of sampled rows, which are not scored.", &CURVE);
pub const TIE_FRACTION: Family =
    family("conceptwatch_tie_fraction", "Share of activations that equal another in their column, 0 to 1.", &CURVE);
pub const PROVISIONAL: Family = family(
    "conceptwatch_provisional",
    "1 while the newest sample is still filling and not part of the curve, else 0.",
    &CURVE,
);
pub const EVALUATION_TIMESTAMP: Family = family(
    "conceptwatch_evaluation_timestamp_seconds",
    "Time at which the sample of the newest curve point was closed, in Unix seconds.",
    &CURVE,
);
pub const STANDARD_ERROR: Family =
    family("conceptwatch_standard_error", "Standard error of a score, in the score's unit.", &CURVE_SCORE);
pub const SCORE_UNDEFINED: Family =
    family("conceptwatch_score_undefined", "1 for a score that is undefined at the newest curve point.", &CURVE_SCORE);
pub const CONCEPTS_LEFT_OUT: Family =
    family("conceptwatch_score_concepts_left_out", "Concepts the mean skips; not exported when 0.", &CURVE_SCORE);
pub const PAIRS_LEFT_OUT: Family = family(
    "conceptwatch_score_pairs_left_out",
    "Ordered pairs of concepts the mean skips; not exported when 0.",
    &CURVE_SCORE,
);
pub const PAIR_AGE: Family = family(
    "conceptwatch_pair_age_seconds",
    "Age of the oldest pair of concepts in a score of a rolling window, in seconds; 0 if all are of the newest sample.",
    &CURVE_SCORE,
);
pub const VERDICT: Family = family(
    "conceptwatch_verdict",
    "1 for the verdict on a run: leaking, possibly_leaking, sound, nothing_found, cannot_tell or too_early. task: the one of \
     several that decides.",
    &["run", "split", "task", "verdict"],
);
pub const VERDICT_VALUE: Family = family(
    "conceptwatch_verdict_value",
    "The score that decides the verdict on a run, in the score's unit. task: the one of several that decides.",
    &["run", "score", "split", "task"],
);

// Families of each run, and of each alert rule and run.
pub const RUN_INFO: Family = family(
    "conceptwatch_run_info",
    "1 for each run, with its labels. job: the scheduler's id, else the launch's name. host: that of the lowest rank.",
    &["run", "job", "host"],
);
pub const ALERT_STATE: Family = family(
    "conceptwatch_alert_state",
    "State of an alert rule for a run: 0 inactive, 1 pending, 2 firing.",
    &["run", "split", "rule", "score", "severity"],
);

/// The family that counts what the others omit.
pub const SERIES_OMITTED: Family = family(
    "conceptwatch_series_omitted",
    "Series omitted from a family above its cap. A curve that a hub did not read counts once in each family.",
    &["family"],
);

// Families of the process itself. `OPEN_RUNS` is one of the metrics that count.
pub const OPEN_RUNS: &str = "conceptwatch_open_runs";
pub const HEAP: Family = family(
    "conceptwatch_heap_bytes",
    "Bytes allocated and not freed. Resident memory also holds the program and what the allocator keeps free. Absent where the C \
     library does not report it.",
    &[],
);
pub const HISTORY_USED: Family = family("conceptwatch_history_used_bytes", "Size of the history in bytes.", &[]);
pub const HISTORY_LIMIT: Family =
    family("conceptwatch_history_limit_bytes", "Size limit of the history in bytes.", &[]);
pub const HISTORY_DROPPED: Family = family(
    "conceptwatch_history_dropped_total",
    "Entries removed by the history's size limit, oldest first, by kind.",
    &["kind"],
);
pub const HISTORY_WRITABLE: Family =
    family("conceptwatch_history_writable", "1 if the history can be written, else 0.", &[]);
pub const HISTORY_UNWRITABLE: Family = family(
    "conceptwatch_history_unwritable",
    "1 for the reason why the history cannot be written: read_only, full, unreachable, denied or other; else 0.",
    &["reason"],
);
pub const HISTORY_WAITING: Family = family(
    "conceptwatch_history_waiting_bytes",
    "Bytes of points and declarations that wait in memory because the history cannot be written.",
    &[],
);
pub const HISTORY_UNWRITTEN: Family = family(
    "conceptwatch_history_unwritten_seconds",
    "Age of the oldest change of the history that is not on the disk, in seconds; 0 if there is none.",
    &[],
);
pub const HISTORY_REFUSED: Family = family(
    "conceptwatch_history_refused_total",
    "Changes of the history that were lost because too much waited already.",
    &[],
);
pub const HISTORY_CORRUPT: Family = family(
    "conceptwatch_history_corrupt_points_total",
    "Stored points, matrices and declarations left out because they do not match their checksum.",
    &[],
);

// Families of the hub to which a sidecar sends changes.
pub const UPSTREAM_REACHED: Family =
    family("conceptwatch_upstream_reached", "1 if the hub answered the last call, else 0.", &[]);
pub const UPSTREAM_WAITING: Family = family(
    "conceptwatch_upstream_entries_waiting",
    "Changes of the history that are not yet sent to the hub, or not yet acknowledged by it.",
    &[],
);
pub const UPSTREAM_ANSWER_AGE: Family = family(
    "conceptwatch_upstream_answer_age_seconds",
    "Time since the hub's last answer, or since the start where there was none, in seconds.",
    &[],
);
pub const UPSTREAM_SENT: Family =
    family("conceptwatch_upstream_entries_sent_total", "Changes of the history that the hub has applied.", &[]);
pub const UPSTREAM_REFUSED: Family =
    family("conceptwatch_upstream_entries_refused_total", "Changes of the history that the hub can never apply.", &[]);
pub const UPSTREAM_DROPPED: Family = family(
    "conceptwatch_upstream_entries_dropped_total",
    "Changes that the size limit of the history removed before they were sent to the hub, or that could not be read.",
    &[],
);

// Families of a hub. `HUB_ENTRIES` is one of the metrics that count.
pub const HUB_ENTRIES: &str = "conceptwatch_hub_entries_total";
pub const HUB_PUSH_AGE: Family = family(
    "conceptwatch_hub_push_age_seconds",
    "Time since the sidecar of an unfinished run last pushed or asked, in seconds; above 60 it is lost.",
    &["run"],
);
