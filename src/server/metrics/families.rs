//! Families whose series are read at each scrape, so that there is no second state to keep in step.

use std::collections::BTreeMap;

use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Error, Registry};

use super::names;

/// Maximum number of series in a family; those above it are omitted and counted.
pub const SERIES_PER_FAMILY: usize = 2_000;

/// A family's name, help and labels.
pub(super) type Described<Text = &'static str> = (Text, Text, &'static [&'static str]);

/// The family that counts what the others omit.
pub(super) const OMITTED: Described = (
    names::SERIES_OMITTED,
    "Series omitted from a family above its cap. A curve that a hub did not read counts once in each family.",
    &["family"],
);

/// Registers families that `read` fills at each scrape. Errors when a name is invalid or taken.
pub(super) fn register<Text: Into<String>>(
    registry: &Registry,
    families: impl IntoIterator<Item = Described<Text>>,
    read: impl Fn(&mut Families) + Send + Sync + 'static,
) -> Result<(), Error> {
    let describe = |(name, help, labels): Described<Text>| {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        Desc::new(name.into(), help.into(), labels, Default::default())
    };
    let descriptions = families.into_iter().map(describe).collect::<Result<_, Error>>()?;
    registry.register(Box::new(AtScrape { descriptions, read }))
}

struct AtScrape<F> {
    descriptions: Vec<Desc>,
    read: F,
}

impl<F: Fn(&mut Families) + Send + Sync> Collector for AtScrape<F> {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    /// Returns [`OMITTED`] too where series are omitted: it joins that of the scores, which describe it.
    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = Families::default();
        (self.read)(&mut families);
        let omitted: Vec<_> = families.0.iter().map(|(name, family)| (name.clone(), family.omitted)).collect();
        for (name, series) in omitted {
            families.omit(&name, series);
        }
        let described = self.descriptions.iter().map(|description| (&*description.fq_name, &*description.help));
        families.described(described.chain([(OMITTED.0, OMITTED.1)]))
    }
}

/// Series by family name.
#[derive(Default)]
pub(super) struct Families(BTreeMap<String, Family>);

#[derive(Default)]
struct Family {
    series: Vec<Metric>,
    omitted: u64,
}

impl Families {
    /// Notes that series of a family are omitted, if any are.
    pub fn omit(&mut self, family: &str, series: u64) {
        if series > 0 {
            self.add(names::SERIES_OMITTED, &["family"], &[family], series as f64);
        }
    }

    /// Notes that each family so far lacks some series more.
    pub fn omit_of_each(&mut self, series: u64) {
        self.0.values_mut().for_each(|family| family.omitted += series);
    }

    /// Sets the family's only series.
    pub fn set(&mut self, family: &str, value: impl Into<f64>) {
        self.add(family, &[], &[], value.into());
    }

    /// Adds a sample, unless the value is not finite or the family is full.
    pub fn add(&mut self, family: &str, labels: &[&str], values: &[&str], value: f64) {
        if !value.is_finite() {
            return;
        }
        match self.0.get_mut(family) {
            Some(full) if full.series.len() >= SERIES_PER_FAMILY => full.omitted += 1,
            _ => self.add_always(family, labels, values, value),
        }
    }

    /// Adds a sample, be the family full or not.
    pub fn add_always(&mut self, family: &str, labels: &[&str], values: &[&str], value: f64) {
        let pairs = labels.iter().zip(values).map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value((*value).to_owned());
            pair
        });
        let mut metric = Metric::from_label(pairs.collect());
        if is_counter(family) {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        self.0.entry(family.to_owned()).or_default().series.push(metric);
    }

    /// Returns those that have series, each given by name and help.
    pub fn described<'a>(mut self, families: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<MetricFamily> {
        let gathered = families.into_iter().filter_map(|(name, help)| {
            let mut gathered = MetricFamily::default();
            gathered.set_metric(self.0.remove(name)?.series);
            gathered.set_name(name.to_owned());
            gathered.set_help(help.to_owned());
            gathered.set_field_type(if is_counter(name) { MetricType::COUNTER } else { MetricType::GAUGE });
            Some(gathered)
        });
        gathered.collect()
    }
}

fn is_counter(family: &str) -> bool {
    family.ends_with("_total")
}
