//! All metrics, and their format that a scrape prefers.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use prometheus::proto::MetricFamily;
use prometheus::{Registry, TextEncoder};
use tokio_util::sync::CancellationToken;

use super::app::App;
use super::verdicts::Newest;
use crate::server::metrics::{openmetrics, scraped};

/// The metrics of a sidecar or a hub: those of its registry, and those that are read at each scrape.
#[derive(Clone)]
pub struct Exposition {
    pub(super) app: App,
    verdicts: Arc<Newest>,
}

impl Exposition {
    /// Keeps the verdicts current until `stop` is cancelled, which requires a tokio runtime.
    pub fn start(app: App, stop: &CancellationToken) -> Self {
        let verdicts = Arc::<Newest>::default();
        tokio::spawn(Arc::clone(&verdicts).follow(app.clone(), stop.clone()));
        Self { app, verdicts }
    }

    /// Without verdicts.
    pub(super) fn of_stored(app: App) -> Self {
        Self { app, verdicts: Arc::default() }
    }

    pub fn registry(&self) -> &Registry {
        &self.app.registry
    }

    /// All metrics as they are now. Blocks.
    pub fn families(&self) -> Vec<MetricFamily> {
        let App { history, live, registry, scores, .. } = &self.app;
        let mut families = registry.gather();
        families.extend(scraped(&**history, &**live, scores, &self.verdicts.known(&**live)));
        families.sort_by(|a, b| a.name().cmp(b.name()));
        families
    }
}

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Prometheus' own text format, also where a scrape accepts neither.
    Text,
    OpenMetrics,
}

impl Format {
    /// The format that the `Accept` headers weigh highest; OpenMetrics where it is named and weighs as much.
    pub fn accepted(headers: &HeaderMap) -> Self {
        let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let ranges: Vec<Range<'_>> = values.flat_map(|value| value.split(',')).filter_map(Range::parse).collect();
        let weight = |kinds: &[&str], version: &str| {
            // The most specific range counts.
            let fits = |kind: &&str| {
                let mut ranges = ranges.iter().filter(|range| range.kind.eq_ignore_ascii_case(kind));
                ranges.find(|range| range.version.is_none_or(|wanted| wanted == version)).map(|range| range.weight)
            };
            kinds.iter().find_map(fits).unwrap_or(0.0)
        };
        let open = weight(&["application/openmetrics-text"], "1.0.0");
        let text = weight(&["text/plain", "text/*", "*/*"], "0.0.4");
        if open > 0.0 && open >= text { Self::OpenMetrics } else { Self::Text }
    }

    pub fn answer(self, families: &[MetricFamily]) -> Result<Response, prometheus::Error> {
        let (kind, body) = match self {
            Self::Text => (TEXT, TextEncoder::new().encode_to_string(families)?),
            Self::OpenMetrics => (openmetrics::CONTENT_TYPE, openmetrics::encode(families)),
        };
        Ok(([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], body).into_response())
    }
}

/// A media range of an `Accept` header.
struct Range<'a> {
    kind: &'a str,
    version: Option<&'a str>,
    /// 0 to 1.
    weight: f64,
}

impl<'a> Range<'a> {
    /// Returns `None` for one whose weight is no number of 0 to 1.
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let mut range = Self { kind: parts.next()?, version: None, weight: 1.0 };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            if name.eq_ignore_ascii_case("q") {
                range.weight = value.parse().ok().filter(|weight| (0.0..=1.0).contains(weight))?;
            } else if name.eq_ignore_ascii_case("version") {
                range.version = Some(value.trim_matches('"'));
            }
        }
        Some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_one_that_weighs_most() {
        use Format::{OpenMetrics, Text};
        const OPEN: &str = "application/openmetrics-text";
        let prometheus_2 =
            format!("{OPEN};version=1.0.0,{OPEN};version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1");
        let prometheus_3 = format!(
            "{OPEN};version=1.0.0;escaping=allow-utf-8;q=0.6,{OPEN};version=0.0.1;q=0.5,\
             text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
        );
        for (accept, expected) in [
            (vec![], Text),
            (vec!["*/*"], Text),
            (vec![OPEN], OpenMetrics),
            (vec!["Application/OpenMetrics-Text; Version=\"1.0.0\""], OpenMetrics),
            (vec![prometheus_2.as_str()], OpenMetrics),
            (vec![prometheus_3.as_str()], OpenMetrics),
            (vec!["application/openmetrics-text; version=0.0.1"], Text),
            (vec!["application/openmetrics-text; version=2.0.0, text/plain;q=0.1"], Text),
            (vec!["application/openmetrics-text;q=0.5, text/plain"], Text),
            (vec!["application/openmetrics-text;q=0.5", "text/plain;q=0.6"], Text),
            (vec!["text/plain;q=0.4", "application/openmetrics-text;q=0.5"], OpenMetrics),
            (vec!["text/plain, application/openmetrics-text"], OpenMetrics),
            (vec!["application/openmetrics-text;q=0"], Text),
            (vec!["application/openmetrics-text;q=2"], Text),
            (vec!["application/openmetrics-text;q=0.5, */*;q=0.9"], Text),
            (vec!["application/openmetrics-text;q=0.5, text/plain;q=0.1, */*;q=0.9"], OpenMetrics),
            (vec!["text/html,application/xml;q=0.9,*/*;q=0.8"], Text),
            (vec![";;q,=,,"], Text),
        ] {
            let values = accept.iter().map(|value| (header::ACCEPT, HeaderValue::from_str(value).unwrap()));
            assert_eq!(Format::accepted(&values.collect()), expected, "{accept:?}");
        }
    }
}
