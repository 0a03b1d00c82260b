//! The families of a scrape, filled with series that are read for it, so that there is no second state to keep in step.

use std::collections::BTreeMap;

use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

use super::names::{Family, SERIES_OMITTED};

/// Maximum number of series in a family; those above it are omitted and counted.
pub const SERIES_PER_FAMILY: usize = 2_000;

/// Series by family name.
#[derive(Default)]
pub(super) struct Families(BTreeMap<String, Filled>);

#[derive(Default)]
struct Filled {
    help: String,
    series: Vec<Metric>,
    omitted: u64,
}

impl Families {
    /// Notes that series of a family are omitted, if any are.
    pub fn omit(&mut self, family: &Family, series: u64) {
        if series > 0 {
            self.add(&SERIES_OMITTED, &[family.name], series as f64);
        }
    }

    /// Notes that a family that has series lacks some more.
    pub fn lack(&mut self, family: &Family, series: u64) {
        self.0.get_mut(family.name).into_iter().for_each(|family| family.omitted += series);
    }

    /// Sets the family's only series.
    pub fn set(&mut self, family: &Family, value: impl Into<f64>) {
        self.add(family, &[], value.into());
    }

    /// Adds a sample with a value for each label, unless it is not finite or the family is full.
    pub fn add(&mut self, family: &Family, values: &[&str], value: f64) {
        self.add_labelled(family, family.labels.iter().copied().zip(values.iter().copied()), value);
    }

    /// The same with labels of its own.
    pub fn add_labelled<'a>(
        &mut self,
        family: &Family,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        value: f64,
    ) {
        if !value.is_finite() {
            return;
        }
        match self.0.get_mut(family.name) {
            Some(full) if full.series.len() >= SERIES_PER_FAMILY => full.omitted += 1,
            _ => self.add_always(family, labels, value),
        }
    }

    /// Adds a sample, be the family full or not.
    pub fn add_always<'a>(
        &mut self,
        family: &Family,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        value: f64,
    ) {
        let pairs = labels.into_iter().map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name(name.to_owned());
            pair.set_value(value.to_owned());
            pair
        });
        let mut metric = Metric::from_label(pairs.collect());
        if is_counter(family.name) {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        let filled = self.0.entry(family.name.to_owned()).or_default();
        if filled.series.is_empty() {
            filled.help = family.help.to_owned();
        }
        filled.series.push(metric);
    }

    /// Returns the families that have series.
    pub fn gathered(mut self) -> Vec<MetricFamily> {
        let omitted: Vec<_> = self.0.iter().map(|(name, family)| (name.clone(), family.omitted)).collect();
        for (name, series) in omitted.iter().filter(|(_, series)| *series > 0) {
            self.add(&SERIES_OMITTED, &[name], *series as f64);
        }
        let gathered = self.0.into_iter().map(|(name, Filled { help, series, .. })| {
            let mut gathered = MetricFamily::default();
            gathered.set_field_type(if is_counter(&name) { MetricType::COUNTER } else { MetricType::GAUGE });
            gathered.set_metric(series);
            gathered.set_name(name);
            gathered.set_help(help);
            gathered
        });
        gathered.collect()
    }
}

fn is_counter(family: &str) -> bool {
    family.ends_with("_total")
}
