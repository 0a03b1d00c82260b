use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use prometheus::proto::{LabelPair, MetricFamily, MetricType};
use prometheus::{Registry, TextEncoder};

use super::families::Families;
use super::*;
use crate::history::{Limits, Sqlite};
use crate::server::live::{Latest, Live, Status};
use leakage::point::{LeftOut, Outcome, Point, ScoreValue, Undefined};
use leakage::score::catalogue::{CATALOGUE, Paper, ROW, Score};

/// A sidecar whose latest points the test sets.
#[derive(Default)]
struct Scripted(Mutex<Vec<Latest>>);

impl Live for Scripted {
    fn latest(&self) -> Vec<Latest> {
        self.0.lock().unwrap().clone()
    }

    fn status(&self) -> Status {
        unreachable!("a scrape does not read it")
    }

    fn ready(&self) -> Result<(), String> {
        Ok(())
    }
}

const fn score(id: &'static str, per_concept: bool) -> Score {
    let (paper, equation) = (Paper::Leakage, "eq. 6");
    Score { id, title: "A title", paper, equation, unit: "share", per_concept, help: "What it says.", ..ROW }
}

const SCORES: [Score; 3] = [score("ctl", true), score("icl", true), score("task_accuracy", false)];

fn curve(run: &str, split: &str, concepts: &[&str], scores: Vec<(String, Outcome)>) -> Latest {
    let point = Point {
        step: 1200,
        epoch: Some(3.5),
        time: 1_700_000_000.25,
        rows: 4096,
        tie_fraction: 0.25,
        scores,
        ..Point::default()
    };
    Latest {
        run: run.into(),
        split: split.into(),
        concepts: concepts.iter().map(|name| name.to_string()).collect(),
        tasks: [].into(),
        point: Some(Arc::new(point)),
        late: Vec::new(),
        rolling: false,
        filling: false,
    }
}

fn value(value: f64, standard_error: Option<f64>, per_concept: Option<Vec<Option<f64>>>) -> Outcome {
    Outcome::Value(ScoreValue { value, standard_error, per_concept, ..ScoreValue::default() })
}

fn families_of(latest: Vec<Latest>, scores: &[Score]) -> Vec<MetricFamily> {
    let mut families = Families::default();
    scores::add(&mut families, &Scripted(Mutex::new(latest)), scores);
    families.gathered()
}

fn scraped(latest: Vec<Latest>) -> Scrape {
    Scrape::of(families_of(latest, &SCORES))
}

/// The content of a scrape: the families, and the samples by name and labels.
struct Scrape {
    families: Vec<MetricFamily>,
    samples: BTreeMap<(String, BTreeMap<String, String>), f64>,
}

impl Scrape {
    fn of(families: Vec<MetricFamily>) -> Self {
        let mut samples = BTreeMap::new();
        let mut add = |name: &str, labels: &[LabelPair], bound: Option<f64>, value| {
            let labels = labels.iter().map(|label| (label.name().to_owned(), label.value().to_owned()));
            let labels: BTreeMap<_, _> = labels.chain(bound.map(|bound| ("le".into(), bound.to_string()))).collect();
            let old = samples.insert((name.to_owned(), labels.clone()), value);
            assert!(old.is_none(), "twice: {name} {labels:?}");
        };
        for (family, metric) in families.iter().flat_map(|family| family.get_metric().iter().map(move |m| (family, m)))
        {
            match family.get_field_type() {
                MetricType::COUNTER => add(family.name(), metric.get_label(), None, metric.get_counter().get_value()),
                MetricType::GAUGE => add(family.name(), metric.get_label(), None, metric.get_gauge().get_value()),
                _ => metric.get_histogram().get_bucket().iter().for_each(|bucket| {
                    let count = bucket.cumulative_count() as f64;
                    add(family.name(), metric.get_label(), Some(bucket.upper_bound()), count);
                }),
            }
        }
        Self { families, samples }
    }

    fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        self.samples.get(&(name.to_owned(), labels)).copied()
    }

    fn series(&self, family: &str) -> usize {
        self.samples.keys().filter(|(name, _)| name == family).count()
    }
}

#[test]
fn a_curve_point_becomes_the_families_of_the_contract() {
    let scores = vec![
        ("ctl".into(), value(0.19, Some(0.004), Some(vec![Some(0.2), None, Some(-0.0)]))),
        ("icl".into(), Outcome::undefined("one class")),
        ("task_accuracy".into(), value(0.9, None, None)),
        ("unlisted".into(), value(0.5, None, None)),
    ];
    let scrape = scraped(vec![curve("a", "val", &["x", "y", "z"], scores)]);
    let curve = [("run", "a"), ("split", "val")];
    let expected = [
        ("conceptwatch_ctl", 0.19),
        ("conceptwatch_task_accuracy", 0.9),
        ("conceptwatch_step", 1200.0),
        ("conceptwatch_epoch", 3.5),
        ("conceptwatch_sample_rows", 4096.0),
        ("conceptwatch_repeated_rows", 0.0),
        ("conceptwatch_tie_fraction", 0.25),
        ("conceptwatch_provisional", 0.0),
        ("conceptwatch_evaluation_timestamp_seconds", 1_700_000_000.25),
    ];
    for (name, value) in expected {
        assert_eq!(scrape.get(name, &curve), Some(value), "{name}");
    }
    let with = |label, value| [("run", "a"), ("split", "val"), (label, value)];
    assert_eq!(scrape.get("conceptwatch_per_concept_ctl", &with("concept", "x")), Some(0.2));
    assert_eq!(scrape.get("conceptwatch_per_concept_ctl", &with("concept", "z")), Some(0.0));
    assert_eq!(scrape.get("conceptwatch_standard_error", &with("score", "ctl")), Some(0.004));
    assert_eq!(scrape.get("conceptwatch_score_undefined", &with("score", "icl")), Some(1.0));
    // Nothing else: no value for an undefined score or one outside the catalogue, and no omitted series below the cap.
    assert_eq!(scrape.samples.len(), expected.len() + 4);
    for family in &scrape.families {
        assert_eq!(family.get_field_type(), MetricType::GAUGE);
        assert!(!family.help().is_empty(), "{} has no help", family.name());
    }
    let source = format!("Unit: share. {}, eq. 6.", Paper::Leakage.citation());
    assert!(scrape.families.iter().any(|f| f.name() == "conceptwatch_ctl" && f.help().contains(&source)));
}

#[test]
fn scores_of_rolling_windows_tell_the_age_of_their_oldest_pair() {
    let aged = |age| Outcome::Value(ScoreValue { value: 0.1, age, ..ScoreValue::default() });
    let undefined = Outcome::Undefined(Undefined { age: Some(9.0), ..Undefined::default() });
    let scores = |icl: Outcome| vec![("ctl".into(), value(0.2, None, None)), ("icl".into(), icl)];
    let rolling = |run: &str, icl| Latest { rolling: true, ..curve(run, "train", &["x"], scores(icl)) };
    let curves = vec![
        rolling("a", aged(Some(30.0))),
        rolling("b", aged(None)),
        rolling("c", undefined),
        curve("d", "val", &["x"], scores(aged(None))),
    ];
    let scores = SCORES.map(|score| Score { matrix: score.id == "icl", ..score });
    let scrape = Scrape::of(families_of(curves, &scores));
    let of = |run| scrape.get("conceptwatch_pair_age_seconds", &[("run", run), ("split", "train"), ("score", "icl")]);
    assert_eq!(["a", "b", "c"].map(of), [Some(30.0), Some(0.0), Some(9.0)]);
    assert_eq!(scrape.series("conceptwatch_pair_age_seconds"), 3, "no pairs in ctl, and no age in a pass");
}

#[test]
fn scores_tell_how_many_concepts_and_pairs_they_leave_out() {
    let left_out = |pairs| Some(LeftOut { concepts: vec![1], pairs, of: 3, why: "one class".into() });
    let of = |pairs| Outcome::Value(ScoreValue { value: 0.1, left_out: left_out(pairs), ..ScoreValue::default() });
    let undefined = Outcome::Undefined(Undefined { left_out: left_out(4), ..Undefined::default() });
    let scores =
        vec![("ctl".into(), of(0)), ("icl".into(), undefined), ("task_accuracy".into(), value(0.9, None, None))];
    let scrape = scraped(vec![curve("a", "val", &["x", "y", "z"], scores)]);
    let get = |family: &str, score| scrape.get(family, &[("run", "a"), ("split", "val"), ("score", score)]);
    let [concepts, pairs] = ["conceptwatch_score_concepts_left_out", "conceptwatch_score_pairs_left_out"];
    assert_eq!([get(concepts, "ctl"), get(pairs, "ctl")], [Some(1.0), None]);
    assert_eq!([get(concepts, "icl"), get(pairs, "icl")], [Some(1.0), Some(4.0)]);
    assert_eq!([get(concepts, "task_accuracy"), get(pairs, "task_accuracy")], [None, None]);
}

#[test]
fn numbers_that_are_not_finite_are_no_samples() {
    let scores = vec![
        ("ctl".into(), value(f64::NAN, Some(0.1), None)),
        ("icl".into(), value(0.1, Some(f64::NAN), Some(vec![Some(f64::INFINITY)]))),
    ];
    let scrape = scraped(vec![curve("a", "val", &["x"], scores)]);
    assert!(scrape.samples.values().all(|value| value.is_finite()));
    assert_eq!(scrape.series("conceptwatch_ctl") + scrape.series("conceptwatch_standard_error"), 0);
    let undefined = [("run", "a"), ("split", "val"), ("score", "ctl")];
    assert_eq!(scrape.get("conceptwatch_score_undefined", &undefined), Some(1.0));
}

#[test]
fn a_filling_sample_gives_out_no_value() {
    let scores = || vec![("ctl".into(), value(0.3, None, None))];
    let mut first = curve("a", "train", &["x"], scores());
    first.point = None;
    first.filling = true;
    let mut later = curve("b", "train", &["x"], scores());
    later.filling = true;
    let mut misplaced = curve("c", "train", &["x"], scores());
    Arc::get_mut(misplaced.point.as_mut().unwrap()).unwrap().provisional = true;
    let scrape = scraped(vec![first, later, misplaced]);
    let of = |run| [("run", run), ("split", "train")];
    assert_eq!(scrape.get("conceptwatch_provisional", &of("a")), Some(1.0));
    assert_eq!(scrape.get("conceptwatch_provisional", &of("b")), Some(1.0));
    assert_eq!(scrape.get("conceptwatch_ctl", &of("b")), Some(0.3), "the last full sample's");
    assert_eq!(scrape.series("conceptwatch_ctl"), 1);
    assert_eq!(scrape.series("conceptwatch_step"), 1);
}

#[test]
fn hostile_labels_are_escaped() {
    let hostile = "a\"b\\c\nd},{=# HELP \\n";
    let scores = vec![("ctl".into(), value(0.5, None, Some(vec![Some(0.25)])))];
    let families = families_of(vec![curve(hostile, hostile, &[hostile], scores)], &SCORES);
    let escaped = r#""a\"b\\c\nd},{=# HELP \\n""#;
    let line = format!("\nconceptwatch_per_concept_ctl{{run={escaped},split={escaped},concept={escaped}}} 0.25\n");
    assert!(openmetrics::encode(&families).contains(&line));
    assert!(TextEncoder::new().encode_to_string(&families).unwrap().contains(&line));
}

#[test]
fn series_over_the_cap_are_counted() {
    let names: Vec<String> = (0..1500).map(|i| format!("c{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let scores = || vec![("ctl".into(), value(0.5, None, Some(vec![Some(0.25); 1500])))];
    let scrape = scraped(vec![curve("z", "val", &names, scores()), curve("a", "val", &names, scores())]);
    let family = "conceptwatch_per_concept_ctl";
    assert_eq!(scrape.series(family), SERIES_PER_FAMILY);
    assert_eq!(scrape.get("conceptwatch_series_omitted", &[("family", family)]), Some(1000.0));
    assert_eq!(scrape.series("conceptwatch_series_omitted"), 1);
    let of = |run| scrape.samples.keys().filter(|(name, labels)| name == family && labels["run"] == run).count();
    assert_eq!((of("z"), of("a")), (1500, 500), "the snapshot's first are kept");
    assert_eq!(scrape.series("conceptwatch_ctl"), 2);
}

/// Names of scores come from their ids.
#[test]
fn no_score_takes_the_name_of_another_family() {
    let registry = Registry::new();
    Metrics::register(&registry, "1.2.3", 7).unwrap();
    let history = Sqlite::open(None, Limits { bytes: 1 << 20 }).unwrap();
    let own = super::scraped(&history, &Scripted::default(), &[], &[]);
    let own = registry.gather().into_iter().chain(own).map(|family| family.name().to_owned());
    let of_curves = scores::CURVE_FAMILIES.iter().map(|family| family.name.to_owned());
    let mut names: BTreeSet<String> = own.chain(of_curves).collect();
    for name in CATALOGUE
        .iter()
        .flat_map(|score| [names::score, names::per_concept, names::per_task].map(|name| name(score.id)))
    {
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{name}");
        assert!(names.insert(name.clone()), "{name} is taken");
    }
}

#[test]
fn self_metrics_have_their_labels_and_bounds() {
    let registry = Registry::new();
    let metrics = Metrics::register(&registry, "1.2.3", 7).unwrap();
    let history = Sqlite::open(None, Limits { bytes: 1 << 20 }).unwrap();
    metrics.rows_dropped.with_label_values(&["non_finite"]).inc_by(2);
    metrics.connections.with_label_values(&["grpc"]).set(3);
    metrics.score_duration.observe(0.02);

    let of_history = super::scraped(&history, &Scripted::default(), &[], &[]);
    let scrape = Scrape::of(registry.gather().into_iter().chain(of_history).collect());
    let build = [("version", "1.2.3"), ("catalogue_version", "7")];
    assert_eq!(scrape.get("conceptwatch_build_info", &build), Some(1.0));
    assert_eq!(scrape.get("conceptwatch_rows_dropped_total", &[("reason", "non_finite")]), Some(2.0));
    assert_eq!(scrape.get("conceptwatch_connections", &[("port", "grpc")]), Some(3.0));
    assert_eq!(scrape.get("conceptwatch_score_duration_seconds", &[("le", "0.03")]), Some(1.0));
    assert_eq!(scrape.get("conceptwatch_score_duration_seconds", &[("le", "0.01")]), Some(0.0));
    assert_eq!(scrape.get("conceptwatch_history_limit_bytes", &[]), Some((1 << 20) as f64));
    assert_eq!(scrape.get("conceptwatch_history_dropped_total", &[("kind", "point")]), Some(0.0));
    assert_eq!(scrape.get("conceptwatch_history_writable", &[]), Some(1.0));
    assert!(scrape.get("conceptwatch_history_used_bytes", &[]).is_some_and(|bytes| bytes > 0.0));
    assert!(Metrics::register(&registry, "1.2.3", 7).is_err(), "a second set would hide the first");
}
