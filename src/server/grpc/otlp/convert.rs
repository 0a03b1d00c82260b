//! Families of metrics as OTLP: counters become monotonic sums, gauges and histograms stay. Names are those of `/metrics`.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prometheus::proto::{Metric as Series, MetricFamily, MetricType};

use crate::server::metrics::names;

/// Points of a request, so that it stays below the 4 MiB that collectors take.
const POINTS: usize = 4000;

/// The process whose metrics these are.
#[derive(Clone, Debug)]
pub struct Source {
    /// Unique among the processes of this service.
    pub instance: String,
    pub version: &'static str,
    pub host: String,
    /// Since when counters count, in nanoseconds since 1970-01-01 UTC.
    pub started: u64,
}

/// Returns requests that together have all series as they are at `now`, in nanoseconds since 1970-01-01 UTC.
pub fn requests(source: &Source, families: &[MetricFamily], now: u64) -> Vec<ExportMetricsServiceRequest> {
    let (mut requests, mut metrics, mut points) = (Vec::new(), Vec::new(), 0);
    let parts = families.iter().flat_map(|family| family.get_metric().chunks(POINTS).map(move |part| (family, part)));
    for (family, part) in parts {
        if points + part.len() > POINTS {
            requests.push(request(source, std::mem::take(&mut metrics)));
            points = 0;
        }
        points += part.len();
        metrics.extend(metric(family, part, [source.started, now]));
    }
    requests.push(request(source, metrics));
    requests
}

fn request(source: &Source, metrics: Vec<Metric>) -> ExportMetricsServiceRequest {
    let Source { instance, version, host, .. } = source;
    let attributes = [
        ("service.name", "conceptwatch"),
        ("service.instance.id", instance),
        ("service.version", version),
        ("host.name", host),
    ];
    let attributes = attributes.map(|(key, value)| attribute(key, value)).into();
    let scope = InstrumentationScope { name: "conceptwatch".into(), version: (*version).into(), ..Default::default() };
    let of_scope = ScopeMetrics { scope: Some(scope), metrics, ..Default::default() };
    let resource = Some(Resource { attributes, ..Default::default() });
    let of_resource = ResourceMetrics { resource, scope_metrics: vec![of_scope], ..Default::default() };
    ExportMetricsServiceRequest { resource_metrics: vec![of_resource] }
}

/// Returns part of a family; `None` for one of another kind than the three.
fn metric(family: &MetricFamily, part: &[Series], times: [u64; 2]) -> Option<Metric> {
    let cumulative = AggregationTemporality::Cumulative.into();
    let numbers = |of: fn(&Series) -> f64| part.iter().map(|series| number(series, of(series), times)).collect();
    let data = match family.get_field_type() {
        MetricType::COUNTER => Data::Sum(Sum {
            data_points: numbers(|series| series.get_counter().get_value()),
            aggregation_temporality: cumulative,
            is_monotonic: true,
        }),
        MetricType::GAUGE => Data::Gauge(Gauge { data_points: numbers(|series| series.get_gauge().get_value()) }),
        MetricType::HISTOGRAM => {
            let data_points = part.iter().map(|series| histogram(series, times)).collect();
            Data::Histogram(Histogram { data_points, aggregation_temporality: cumulative })
        }
        _ => return None,
    };
    let unit = match names::unit(family.name()) {
        Some("seconds") => "s",
        Some("bytes") => "By",
        _ => "",
    };
    let (name, description) = (family.name().to_owned(), family.help().to_owned());
    Some(Metric { name, description, unit: unit.to_owned(), data: Some(data), ..Default::default() })
}

fn number(series: &Series, value: f64, [started, now]: [u64; 2]) -> NumberDataPoint {
    NumberDataPoint {
        attributes: attributes(series),
        start_time_unix_nano: started,
        time_unix_nano: now,
        value: Some(number_data_point::Value::AsDouble(value)),
        ..Default::default()
    }
}

/// Counts of buckets are those of each alone, and the last has no bound.
fn histogram(series: &Series, [started, now]: [u64; 2]) -> HistogramDataPoint {
    let histogram = series.get_histogram();
    let buckets = histogram.get_bucket().iter().filter(|bucket| bucket.upper_bound().is_finite());
    let (explicit_bounds, mut counts): (Vec<f64>, Vec<u64>) =
        buckets.map(|bucket| (bucket.upper_bound(), bucket.cumulative_count())).unzip();
    let count = histogram.get_sample_count();
    counts.push(count);
    let below = std::iter::once(0).chain(counts.iter().copied());
    let bucket_counts = counts.iter().zip(below).map(|(upto, below)| upto.saturating_sub(below)).collect();
    HistogramDataPoint {
        attributes: attributes(series),
        start_time_unix_nano: started,
        time_unix_nano: now,
        count,
        sum: Some(histogram.get_sample_sum()),
        bucket_counts,
        explicit_bounds,
        ..Default::default()
    }
}

fn attributes(series: &Series) -> Vec<KeyValue> {
    series.get_label().iter().map(|label| attribute(label.name(), label.value())).collect()
}

fn attribute(key: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) };
    KeyValue { key: key.to_owned(), value: Some(value), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use prometheus::{IntGaugeVec, Opts, Registry};

    use super::*;

    #[test]
    fn many_series_are_divided_among_requests() {
        let registry = Registry::new();
        for name in ["a", "b", "c"] {
            let gauges = IntGaugeVec::new(Opts::new(name, "Help."), &["number"]).unwrap();
            registry.register(Box::new(gauges.clone())).unwrap();
            (0..POINTS * 3 / 4).for_each(|number| gauges.with_label_values(&[&number.to_string()]).set(1));
        }
        let source = Source { instance: String::new(), version: "1", host: String::new(), started: 1 };
        let requests = requests(&source, &registry.gather(), 2);
        let points = |request: &ExportMetricsServiceRequest| -> usize {
            let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
            let counts = metrics.iter().map(|metric| match metric.data.as_ref().unwrap() {
                Data::Gauge(gauge) => gauge.data_points.len(),
                other => panic!("{other:?}"),
            });
            counts.sum()
        };
        assert_eq!(requests.iter().map(points).collect::<Vec<_>>(), [POINTS * 3 / 4; 3]);
        assert!(requests.iter().all(|request| prost::Message::encoded_len(request) < 4 << 20));
    }
}
