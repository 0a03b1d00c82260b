//! Metrics in the text format of OpenMetrics 1.0 (IETF draft-richih-opsawg-openmetrics-00).
//!
//! Beside Prometheus' own text format: a counter's family is named without `_total`, units are stated, floats among bucket bounds
//! keep their point, and the last line says that nothing is missing.

use std::fmt::Write;

use prometheus::proto::{LabelPair, MetricFamily, MetricType};

use super::names;

pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns the families as text. Metrics are counters, gauges and histograms; others are left out.
pub fn encode(families: &[MetricFamily]) -> String {
    let mut text = Lines::default();
    for family in families {
        let kind = match family.get_field_type() {
            MetricType::COUNTER => "counter",
            MetricType::GAUGE => "gauge",
            MetricType::HISTOGRAM => "histogram",
            _ => continue,
        };
        let sampled = family.name();
        let name = if kind == "counter" { sampled.strip_suffix("_total").unwrap_or(sampled) } else { sampled };
        text.about("TYPE", name, kind);
        if let Some(unit) = names::unit(name) {
            text.about("UNIT", name, unit);
        }
        text.about("HELP", name, &escaped(family.help()));
        for metric in family.get_metric() {
            let labels = metric.get_label();
            match kind {
                "counter" => text.sample(&[name, "_total"], labels, None, metric.get_counter().get_value()),
                "gauge" => text.sample(&[name], labels, None, metric.get_gauge().get_value()),
                _ => {
                    let histogram = metric.get_histogram();
                    let count = histogram.get_sample_count() as f64;
                    let below = histogram.get_bucket().iter();
                    let below = below.map(|bucket| (bucket.upper_bound(), bucket.cumulative_count() as f64));
                    let finite = below.filter(|(bound, _)| bound.is_finite());
                    for (bound, count) in finite.chain([(f64::INFINITY, count)]) {
                        text.sample(&[name, "_bucket"], labels, Some(bound), count);
                    }
                    text.sample(&[name, "_count"], labels, None, count);
                    text.sample(&[name, "_sum"], labels, None, histogram.get_sample_sum());
                }
            }
        }
    }
    text.0 + "# EOF\n"
}

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn about(&mut self, what: &str, name: &str, text: &str) {
        let _ = writeln!(self.0, "# {what} {name} {text}");
    }

    /// Writes a sample, whose name is given in parts. A bucket has a bound.
    fn sample(&mut self, name: &[&str], labels: &[LabelPair], bound: Option<f64>, value: f64) {
        self.0.extend(name.iter().copied());
        let labels = labels.iter().map(|label| (label.name(), escaped(label.value())));
        for (at, (name, value)) in labels.chain(bound.map(|bound| ("le", number(bound)))).enumerate() {
            let _ = write!(self.0, "{}{name}=\"{value}\"", if at == 0 { '{' } else { ',' });
        }
        let is_labelled = self.0.ends_with('"');
        let _ = writeln!(self.0, "{} {}", if is_labelled { "}" } else { "" }, number(value));
    }
}

/// A float in its shortest form, with a point or an exponent.
fn number(value: f64) -> String {
    match value {
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        nan if nan.is_nan() => "NaN".to_owned(),
        finite => format!("{finite:?}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}
