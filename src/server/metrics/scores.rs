//! Score families, derived from the latest points at each scrape, so that there is no second state to keep in step.

use std::collections::BTreeMap;
use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::{Gauge, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Error, Registry};

use super::names;
use crate::server::live::{Latest, Live};
use leakage::point::{Outcome, Point};
use leakage::score::catalogue::Score;
use leakage::score::catalogue::find;
use leakage::score::reads_task;

/// Maximum number of series in a family; those above it are omitted and counted.
pub const SERIES_PER_FAMILY: usize = 2_000;

const CURVE: [&str; 2] = ["run", "split"];
const CURVE_SCORE: [&str; 3] = ["run", "split", "score"];
const CURVE_CONCEPT: [&str; 3] = ["run", "split", "concept"];
const CURVE_TASK: [&str; 3] = ["run", "split", "task"];

const OMITTED: &str =
    "Series omitted from a family above its cap. A curve that a hub did not read counts once in each family.";

/// Families that every curve has, whatever its scores.
pub(super) const CURVE_FAMILIES: [(&str, &str, &[&str]); 13] = [
    (names::STEP, "Optimiser steps at the newest curve point.", &CURVE),
    (names::EPOCH, "Epoch of the newest curve point.", &CURVE),
    (names::SAMPLE_ROWS, "Rows in the sample of the newest curve point.", &CURVE),
    (names::REPEATED_ROWS, "Copies of sampled rows, which are not scored.", &CURVE),
    (names::TIE_FRACTION, "Share of activations that equal another in their column, 0 to 1.", &CURVE),
    (names::PROVISIONAL, "1 while the newest sample is still filling and not part of the curve, else 0.", &CURVE),
    (
        names::EVALUATION_TIMESTAMP,
        "Time at which the sample of the newest curve point was closed, in Unix seconds.",
        &CURVE,
    ),
    (names::STANDARD_ERROR, "Standard error of a score, in the score's unit.", &CURVE_SCORE),
    (names::SCORE_UNDEFINED, "1 for a score that is undefined at the newest curve point.", &CURVE_SCORE),
    (names::CONCEPTS_LEFT_OUT, "Concepts the mean skips; not exported when 0.", &CURVE_SCORE),
    (names::PAIRS_LEFT_OUT, "Ordered pairs of concepts the mean skips; not exported when 0.", &CURVE_SCORE),
    (
        names::PAIR_AGE,
        "Age of the oldest pair of concepts in a score of a rolling window, in seconds; 0 if all are of the newest sample.",
        &CURVE_SCORE,
    ),
    (names::SERIES_OMITTED, OMITTED, &["family"]),
];

/// Exports the scores of [`Live::latest`].
pub struct ScoreCollector {
    live: Arc<dyn Live>,
    scores: Vec<ScoreFamilies>,
    descriptions: Vec<Desc>,
}

struct ScoreFamilies {
    id: &'static str,
    name: String,
    per_concept: Option<String>,
    /// The values of each task, of a score of the task.
    per_task: Option<String>,
    /// The score is over pairs of concepts.
    pairs: bool,
}

impl ScoreCollector {
    /// Errors when a score's id does not form a metric name, or forms one that is taken.
    pub fn register(registry: &Registry, live: Arc<dyn Live>, scores: &[Score]) -> Result<(), Error> {
        let mut descriptions = Vec::new();
        let mut describe = |name: &str, help: &str, labels: &[&str]| {
            let labels = labels.iter().map(|&label| label.to_owned()).collect();
            let description = Desc::new(name.to_owned(), help.to_owned(), labels, Default::default())?;
            descriptions.push(description);
            Ok::<_, Error>(())
        };
        for (name, help, labels) in CURVE_FAMILIES {
            describe(name, help, labels)?;
        }
        let families = scores.iter().map(|score| {
            let about = format!("{} Unit: {}. {}, {}.", score.help, score.unit, score.paper.citation(), score.equation);
            let name = names::score(score.id);
            describe(&name, &format!("{}. {about}", score.title), &CURVE)?;
            let per_concept = score.per_concept.then(|| names::per_concept(score.id));
            if let Some(name) = &per_concept {
                describe(name, &format!("{}, of each concept. {about}", score.title), &CURVE_CONCEPT)?;
            }
            let per_task = find(score.id).is_some_and(reads_task).then(|| names::per_task(score.id));
            if let Some(name) = &per_task {
                describe(name, &format!("{}, of each of several tasks. {about}", score.title), &CURVE_TASK)?;
            }
            Ok(ScoreFamilies { id: score.id, name, per_concept, per_task, pairs: score.matrix })
        });
        let scores = families.collect::<Result<_, Error>>()?;
        registry.register(Box::new(Self { live, scores, descriptions }))
    }

    fn add_curve(&self, families: &mut Families, latest: &Latest) {
        let curve = [&*latest.run, &*latest.split];
        let point = latest.point.as_deref().filter(|point| !point.provisional);
        families.add(names::PROVISIONAL, &CURVE, &curve, if latest.filling { 1.0 } else { 0.0 });
        let Some(point) = point else { return };
        families.add(names::STEP, &CURVE, &curve, point.step as f64);
        if let Some(epoch) = point.epoch {
            families.add(names::EPOCH, &CURVE, &curve, epoch);
        }
        families.add(names::SAMPLE_ROWS, &CURVE, &curve, point.rows as f64);
        families.add(names::REPEATED_ROWS, &CURVE, &curve, point.repeated_rows as f64);
        families.add(names::TIE_FRACTION, &CURVE, &curve, point.tie_fraction);
        families.add(names::EVALUATION_TIMESTAMP, &CURVE, &curve, point.time);
        for score in &self.scores {
            let mut points = std::iter::once(point).chain(latest.late.iter().map(|late| &**late));
            if let Some(point) = points.find(|point| point.score(score.id).is_some()) {
                add_score(families, score, latest, point);
            }
        }
    }
}

fn add_score(families: &mut Families, score: &ScoreFamilies, latest: &Latest, point: &Point) {
    let curve = [&*latest.run, &*latest.split];
    let with_score = [&*latest.run, &*latest.split, score.id];
    let Some(outcome) = point.score(score.id) else { return };
    if let Some(age) = outcome.age().or((latest.rolling && score.pairs).then_some(0.0)) {
        families.add(names::PAIR_AGE, &CURVE_SCORE, &with_score, age);
    }
    if let Some(left_out) = outcome.left_out() {
        families.add(names::CONCEPTS_LEFT_OUT, &CURVE_SCORE, &with_score, left_out.concepts.len() as f64);
        if left_out.pairs > 0 {
            families.add(names::PAIRS_LEFT_OUT, &CURVE_SCORE, &with_score, left_out.pairs as f64);
        }
    }
    if let (Some(family), Some(of_tasks)) = (&score.per_task, outcome.per_task()) {
        for (task, of_task) in latest.tasks.iter().zip(of_tasks) {
            if let Some(value) = of_task.value() {
                families.add(family, &CURVE_TASK, &[&*latest.run, &*latest.split, task], value.value);
            }
        }
    }
    let value = match outcome {
        Outcome::Value(value) if value.value.is_finite() => value,
        _ => return families.add(names::SCORE_UNDEFINED, &CURVE_SCORE, &with_score, 1.0),
    };
    families.add(&score.name, &CURVE, &curve, value.value);
    if let Some(error) = value.standard_error {
        families.add(names::STANDARD_ERROR, &CURVE_SCORE, &with_score, error);
    }
    if let (Some(family), Some(values)) = (&score.per_concept, &value.per_concept) {
        for (concept, value) in latest.concepts.iter().zip(values) {
            if let Some(value) = value {
                families.add(family, &CURVE_CONCEPT, &[&*latest.run, &*latest.split, concept], *value);
            }
        }
    }
}

impl Collector for ScoreCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = Families::default();
        let (curves, left_out) = (self.live.latest(), self.live.curves_left_out());
        for latest in &curves {
            self.add_curve(&mut families, latest);
        }
        let of_verdicts = curves.len().saturating_sub(SERIES_PER_FAMILY) as u64;
        let omitted = families.0.iter().map(|(name, family)| (name.clone(), family.omitted));
        let omitted: Vec<_> = omitted.chain([(names::VERDICT.to_owned(), of_verdicts)]).collect();
        for (family, omitted) in omitted {
            families.omit(&family, omitted + left_out);
        }
        let gathered = self.descriptions.iter().filter_map(|description| {
            Some(gathered(&description.fq_name, &description.help, families.0.remove(description.fq_name.as_str())?))
        });
        gathered.collect()
    }
}

pub(super) fn gathered(name: &str, help: &str, family: Family) -> MetricFamily {
    let mut gathered = MetricFamily::default();
    gathered.set_name(name.to_owned());
    gathered.set_help(help.to_owned());
    gathered.set_field_type(MetricType::GAUGE);
    gathered.set_metric(family.series);
    gathered
}

/// The family that says how many series of another are omitted; none where none is. It joins that of the scores.
pub(super) fn omitted(family: &str, series: u64) -> Option<MetricFamily> {
    let mut families = Families::default();
    families.omit(family, series);
    Some(gathered(names::SERIES_OMITTED, OMITTED, families.0.remove(names::SERIES_OMITTED)?))
}

/// Series by family name.
#[derive(Default)]
pub(super) struct Families(BTreeMap<String, Family>);

#[derive(Default)]
pub(super) struct Family {
    series: Vec<Metric>,
    pub omitted: u64,
}

impl Families {
    /// Notes that series of a family are omitted, if any are.
    fn omit(&mut self, family: &str, series: u64) {
        if series > 0 {
            self.add(names::SERIES_OMITTED, &["family"], &[family], series as f64);
        }
    }

    pub fn take(&mut self, family: &str) -> Option<Family> {
        self.0.remove(family)
    }

    /// Adds a sample, unless the value is not finite.
    pub fn add(&mut self, family: &str, labels: &[&str], values: &[&str], value: f64) {
        if !value.is_finite() {
            return;
        }
        let family = self.0.entry(family.to_owned()).or_default();
        if family.series.len() >= SERIES_PER_FAMILY {
            family.omitted += 1;
            return;
        }
        let pairs = labels.iter().zip(values).map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value((*value).to_owned());
            pair
        });
        let mut gauge = Gauge::default();
        gauge.set_value(value);
        let mut metric = Metric::from_label(pairs.collect());
        metric.set_gauge(gauge);
        family.series.push(metric);
    }
}
