//! `docs/metrics.md`, written by `UPDATE_DOCS=1 cargo test --lib metrics::reference`.

use std::collections::BTreeMap;
use std::fmt::Write;

use prometheus::Registry;
use prometheus::proto::{MetricFamily, MetricType};

use super::families::Families;
use super::scores::CURVE_FAMILIES;
use super::*;
use crate::history::{Limits, Sqlite};
use crate::server::live::UpstreamStatus;

const HEAD: &str = "\
# Metrics

Every family of `/metrics`. [Prometheus](prometheus.md) says how to scrape them, [Operating](operating.md#metrics-to-watch) which of
them to watch. Besides these, each score has the family `conceptwatch_<score>{run,split}` and, where it has a value for each concept,
`conceptwatch_per_concept_<score>{run,split,concept}`; [Scores](scores.md) lists them. A score of several tasks is their mean, and
each task's is in `conceptwatch_per_task_<score>{run,split,task}`. Families that end in `_total` are counters,
`conceptwatch_score_duration_seconds` is a histogram, the others are gauges.
";

struct Family {
    labels: Vec<String>,
    help: String,
}

/// Returns the sidecar's own families, by name. A family with labels has no series before it is used, so each gets one.
fn own() -> BTreeMap<String, Family> {
    let registry = Registry::new();
    let metrics = Metrics::register(&registry, "1.2.3", 1).unwrap();
    let one = [
        &metrics.rows_dropped,
        &metrics.batches_refused,
        &metrics.passes_settled,
        &metrics.tokens_refused,
        &metrics.notifications,
        &metrics.notifications_failed,
        &metrics.notifications_dropped,
    ];
    for family in one {
        family.with_label_values(&[""]);
    }
    for family in [&metrics.connections_closed, &metrics.requests] {
        family.with_label_values(&["", ""]);
    }
    metrics.joins_skipped.with_label_values(&[""]);
    for family in [&metrics.connections, &metrics.scoring_memory] {
        family.with_label_values(&[""]);
    }
    OtlpMetrics::register(&registry).unwrap();
    let mut scraped = Families::default();
    scrape::of_history(&mut scraped, &Sqlite::open(None, Limits { bytes: 1 << 20 }).unwrap());
    scrape::upstream(&mut scraped, &UpstreamStatus::default());
    scraped.set(&names::HEAP, 0.0);
    described(registry.gather().into_iter().chain(scraped.gathered()))
}

/// Returns the families that only a hub has.
fn of_hubs() -> BTreeMap<String, Family> {
    let registry = Registry::new();
    let metrics = HubMetrics::register(&registry).unwrap();
    metrics.entries.with_label_values(&[""]);
    metrics.calls_refused.with_label_values(&["", ""]);
    let mut scraped = Families::default();
    scraped.add(&names::HUB_PUSH_AGE, &[""], 0.0);
    described(registry.gather().into_iter().chain(scraped.gathered()))
}

fn described(families: impl Iterator<Item = MetricFamily>) -> BTreeMap<String, Family> {
    let described = |family: MetricFamily| {
        // The page says the type by the name.
        let is_counter = family.get_field_type() == MetricType::COUNTER;
        assert_eq!(is_counter, family.name().ends_with("_total"), "{}", family.name());
        let labels = family.get_metric()[0].get_label().iter().map(|label| label.name().to_owned()).collect();
        (family.name().to_owned(), Family { labels, help: family.help().to_owned() })
    };
    families.map(described).collect()
}

/// Returns the families of each curve and of each alert rule.
fn of_runs() -> BTreeMap<String, Family> {
    let others = [names::VERDICT, names::VERDICT_VALUE, names::ALERT_STATE, names::RUN_INFO, names::SERIES_OMITTED];
    let described = CURVE_FAMILIES.into_iter().chain(others).map(|names::Family { name, help, labels }| {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        (name.to_owned(), Family { labels, help: help.to_owned() })
    });
    described.collect()
}

fn list(families: &BTreeMap<String, Family>) -> String {
    let mut list = String::new();
    for (name, family) in families {
        let labels = match family.labels.join(",") {
            none if none.is_empty() => none,
            some => format!("{{{some}}}"),
        };
        writeln!(list, "- `{name}{labels}`: {}", family.help).unwrap();
    }
    list
}

#[test]
fn the_reference_has_every_family() {
    let (own, of_runs, of_hubs) = (own(), of_runs(), of_hubs());
    let sources = [include_str!("names.rs"), include_str!("own.rs")].concat();
    for name in sources.split("\"conceptwatch_").skip(1).filter_map(|rest| rest.split_once('"')).map(|(name, _)| name) {
        let name = format!("{}{name}", names::PREFIX);
        let is_there = [&own, &of_runs, &of_hubs].iter().any(|families| families.contains_key(&name));
        assert!(is_there || name == names::PREFIX, "{name} is not in the reference");
    }
    let [of_runs, own, of_hubs] = [&of_runs, &own, &of_hubs].map(list);
    let expected = format!(
        "{HEAD}\n## Run metrics\n\n{of_runs}\n## Sidecar metrics\n\n{own}\n## Additional hub metrics\n\n{of_hubs}"
    );
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap();
    assert!(
        written == expected,
        "docs/metrics.md is out of date: run UPDATE_DOCS=1 cargo test --lib metrics::reference"
    );
}
