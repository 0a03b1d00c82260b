//! `conceptwatch rules`: prints the alert rules in Prometheus' format.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;

use crate::server::metrics::names;
use leakage::alert::Rules;

use super::failure::Failure;
use super::options::ServeOptions;

/// Print the alert rules for Prometheus
///
/// The printed rules alert on the states that the sidecar exports, so that they agree with the page and the stop
/// advice.
#[derive(Args)]
pub struct RulesOptions {
    /// TOML file with [[alerts]] [default: the built-in rules]
    #[arg(long, env = "CONCEPTWATCH_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// How long Prometheus must see a rule fire before it alerts: its `for`.
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = duration)]
    r#for: String,
}

/// A duration as Prometheus writes it: `90s`, `5m` or `1h30m`.
fn duration(text: &str) -> Result<String, String> {
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let unit = ["ms", "s", "m", "h", "d", "w", "y"].into_iter().find(|unit| rest[digits..].starts_with(unit));
        match unit {
            Some(unit) if digits > 0 => rest = &rest[digits + unit.len()..],
            _ => return Err(format!("got '{text}', expected a duration such as 90s or 5m")),
        }
    }
    if text.is_empty() { Err("is empty, expected a duration such as 90s".into()) } else { Ok(text.to_owned()) }
}

pub fn run(options: &RulesOptions) -> Result<String, Failure> {
    let server = ServeOptions::of_file(options.config.clone())?.server()?;
    server.check()?;
    Ok(prometheus(&server.alerts, &options.r#for))
}

/// Joins what several scrapes say of one run: its sidecar, and each hub that shows it.
const ONCE: &str = "max without (instance, pod, job)";

/// A rule file: two recording rules, an alert for each rule, one for a sidecar that is down, and those of hubs.
fn prometheus(rules: &Rules, wait: &str) -> String {
    let state = names::ALERT_STATE.name;
    let mut text = format!(
        "# Made by `conceptwatch rules`.
groups:
  - name: conceptwatch
    rules:
      - record: conceptwatch:alerts_firing:count
        expr: count by (run, severity) ({ONCE} ({state}) == 2)
      - record: conceptwatch:alert_state:max
        expr: max by (rule, run) ({state})
"
    );
    for rule in rules.as_slice() {
        let (name, split) = (label(rule.name()), label(rule.split()));
        // The severity of the series, not of the rule: a doubtful rise has a lower one.
        let _ = write!(
            text,
            "      - alert: {alert}
        expr: {expression}
        for: {wait}
        labels:
          severity: '{{{{ $labels.severity }}}}'
        annotations:
          summary: {summary}
          description: {description}
",
            alert = quoted(rule.name()),
            expression = quoted(&format!("{ONCE} ({state}{{rule={name}, split={split}}}) == 2")),
            summary = quoted(&format!("{{{{ $labels.run }}}}: {}", untemplated(rule.name()))),
            description = quoted(&untemplated(&rule.meaning())),
        );
        if let Some(runbook) = rule.runbook() {
            let _ = writeln!(text, "          runbook_url: {}", quoted(runbook));
        }
    }
    let _ = write!(
        text,
        "      - alert: conceptwatch is gone
        expr: 'up == 0 and last_over_time({runs}[1h]) > 0'
        for: 5m
        labels:
          severity: warning
        annotations:
          summary: '{{{{ $labels.instance }}}}: the sidecar of an open run does not answer'
          description: Its alerts cannot fire while it is down.
      - alert: a sidecar is lost
        expr: '{ONCE} ({age}) > 120'
        for: 1m
        labels:
          severity: warning
        annotations:
          summary: '{{{{ $labels.run }}}}: its sidecar is silent'
          description: No hub has heard of it for more than two minutes, and what they show of the run is the last that is known.
      - alert: a sidecar does not reach its hub
        expr: '{answer} > 300'
        for: 1m
        labels:
          severity: warning
        annotations:
          summary: '{{{{ $labels.instance }}}}: no hub has answered for five minutes'
          description: Its changes wait in its data directory, within the size limit of the history.
      - alert: a hub refuses entries
        expr: 'sum without (instance, pod, job) (increase({entries}{{outcome=\"refused\"}}[10m])) > 0'
        for: 0s
        labels:
          severity: warning
        annotations:
          summary: hubs refuse what sidecars push
          description: The log of the hub names the sidecar, the field and the reason.
      - alert: a history cannot be written
        expr: '{ONCE} ({unwritable}) == 1'
        for: 1m
        labels:
          severity: critical
        annotations:
          summary: 'a history cannot be written: {{{{ $labels.reason }}}}'
          description: Evaluations wait at sidecars until it can.
      - alert: series are left out
        expr: '{ONCE} ({omitted}) > 0'
        for: 15m
        labels:
          severity: info
        annotations:
          summary: '{{{{ $value }}}} series of {{{{ $labels.family }}}} are left out of a scrape'
          description: The newest runs are exported, and every alert that fires.
",
        runs = names::OPEN_RUNS,
        age = names::HUB_PUSH_AGE.name,
        answer = names::UPSTREAM_ANSWER_AGE.name,
        entries = names::HUB_ENTRIES,
        unwritable = names::HISTORY_UNWRITABLE.name,
        omitted = names::SERIES_OMITTED.name,
    );
    text
}

/// Text of a user in an annotation, which is a template.
fn untemplated(text: &str) -> String {
    text.replace("{{", "{{ \"{{\" }}")
}

/// A YAML scalar in single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A label's value in a Prometheus expression.
fn label(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leakage::alert::default_rules;

    #[test]
    fn the_deployed_rules_are_those_of_the_defaults() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/prometheus/conceptwatch.rules.yml");
        let expected = prometheus(&default_rules(), "0s");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &expected).unwrap();
        }
        assert!(std::fs::read_to_string(path).unwrap() == expected, "run UPDATE_DOCS=1 cargo test");
    }

    #[test]
    fn names_are_quoted() {
        assert_eq!(quoted("it's {{ high }}"), "'it''s {{ high }}'");
        assert_eq!(label("v\"l\\"), "\"v\\\"l\\\\\"");
        assert_eq!(untemplated("{{x}}"), "{{ \"{{\" }}x}}");
        let text = prometheus(&default_rules(), "1m30s");
        assert!(text.contains("for: 1m30s"));
    }

    #[test]
    fn durations_are_those_of_prometheus() {
        assert_eq!(duration("1h30m").as_deref(), Ok("1h30m"));
        for bad in ["", "5", "m", "5 m", "-5m", "5mm"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
