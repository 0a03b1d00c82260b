//! Comparisons and diagnoses of finished evaluations: parses a request, reads the history and computes the report.
//!
//! The API and the command line share it, so both take the same parameters and give the same answers and errors.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::history::{HistoryError, LabelledRun, RunOutcome, Store, StoredRun};
use leakage::alert::{self, Alerts, Change, Judged, default_rules};
use leakage::baseline::Baseline;
use leakage::compare::{
    Class, Evaluations, GroupReport, OF_GROUPS, PUBLISHED, PairReport, Side, Sided, SplitReport, USUAL,
    USUAL_OF_GROUPS, USUAL_OF_SPLITS, compare_groups, compare_pair, compare_splits, fits,
};
use leakage::diagnosis::{
    Assessment, Diagnosis, FARTHEST, LOOKED_BACK, Line, Moment, State, StopAdvised, Verdict, VerdictState, diagnose,
    verdict,
};
use leakage::field_error::{FieldError, in_short};
use leakage::point::Point;
use leakage::run::Run;
use leakage::score::catalogue;

/// Evaluations of each run that are compared by default: the paper repeats each of its evaluations five times (Appendix
/// A.3). Of a run with fewer than twice as many its later half: the first ones are of a model that has learnt little.
const LAST: usize = 5;
/// Values per query.
const TOGETHER: usize = 1_000_000;
/// Upper limit of `last`.
const MOST: usize = 1000;
const CONFIDENCE: f64 = 0.95;
const SPLIT: &str = "val";
/// Names that an error message lists before it only counts the rest.
const LISTED: usize = 12;

/// The names of all parameters; every value is text.
pub const PARAMETERS: [&str; 9] =
    ["run_a", "run_b", "by", "where", "split", "with_split", "score", "last", "confidence"];

/// A valid request for a comparison.
pub struct Question {
    of: Of,
    splits: Vec<String>,
    /// Catalogue ids; empty: the default scores that all sides have.
    scores: Vec<String>,
    /// Newest evaluations of each run, 1 to [`MOST`]; `None`: up to [`LAST`].
    last: Option<usize>,
    /// The confidence of the intervals, between 0.5 and 1.
    confidence: f64,
}

enum Of {
    Pair(String, String),
    /// A run, and the split that `split` is compared with.
    Splits(String, String),
    /// The label whose values form the groups, and the labels that a run needs to be included.
    Label(String, Vec<(String, String)>),
}

impl Of {
    /// For parameters that include `with_split`.
    fn splits(parameter: impl Fn(&str) -> Option<String>) -> Result<Self, Refused> {
        if let Some(other) = ["run_b", "by", "where"].into_iter().find(|key| parameter(key).is_some()) {
            return Err(bad(
                other,
                "cannot be combined with with_split, expected run_a alone: with_split compares two splits of one run",
            ));
        }
        match (parameter("run_a"), parameter("with_split")) {
            (Some(run), Some(split)) => Ok(Self::Splits(run, split.trim().to_owned())),
            _ => Err(bad("run_a", "is missing: expected the run whose splits are compared")),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Report {
    Pair(PairReport),
    Groups(GroupReport),
    Splits(SplitReport),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The run, split, score or label does not exist.
    #[error("{0}")]
    Unknown(FieldError),
    /// A parameter is missing, malformed, out of range or in conflict with another.
    #[error("{0}")]
    Bad(FieldError),
    #[error(transparent)]
    History(#[from] HistoryError),
}

fn bad(field: &str, message: impl Into<String>) -> Refused {
    Refused::Bad(FieldError::new(field, message))
}

fn unknown(field: &str, message: impl Into<String>) -> Refused {
    Refused::Unknown(FieldError::new(field, message))
}

impl Question {
    /// Parses and checks parameters, named as in [`PARAMETERS`]; lists are separated by commas. Errors name the parameter.
    pub fn of(parameter: impl Fn(&str) -> Option<String>) -> Result<Self, Refused> {
        let list = |key: &str| -> Vec<String> {
            let text = parameter(key).unwrap_or_default();
            text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect()
        };
        let of = match (parameter("run_a"), parameter("run_b"), parameter("by")) {
            _ if parameter("with_split").is_some() => Of::splits(&parameter)?,
            (Some(a), Some(b), None) if a == b => {
                let both = in_short(&b);
                return Err(bad("run_b", format!("got '{both}' for both runs, expected a run other than run_a")));
            }
            (Some(a), Some(b), None) if parameter("where").is_none() => Of::Pair(a, b),
            (Some(_), Some(_), None) => {
                return Err(bad("where", "selects the runs of groups, expected it only with by"));
            }
            (None, None, Some(label)) => {
                let pair = |text: String| match text.split_once('=') {
                    Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
                    None => Err(bad("where", format!("got '{}', expected LABEL=VALUE", in_short(&text)))),
                };
                Of::Label(label, list("where").into_iter().map(pair).collect::<Result<_, _>>()?)
            }
            (None, None, None) => {
                return Err(bad("run_a", "is missing: expected run_a and run_b, run_a and with_split, or by"));
            }
            (None, _, None) => return Err(bad("run_a", "is missing: got one run, expected two")),
            (_, None, None) => return Err(bad("run_b", "is missing: got one run, expected two, or with_split")),
            (_, _, Some(_)) => {
                return Err(bad("by", "cannot be combined with runs, expected either two runs or a label"));
            }
        };
        let mut splits = list("split");
        if splits.is_empty() {
            splits.push(SPLIT.to_owned());
        }
        if let Some(twice) = splits.iter().enumerate().find(|(at, split)| splits[..*at].contains(split)) {
            return Err(bad("split", format!("got '{}' twice, expected folds that differ", in_short(twice.1))));
        }
        let one_alone = match &of {
            Of::Label(..) => Some("one: with by, the runs are the folds"),
            Of::Splits(..) => Some("one and the other as with_split"),
            Of::Pair(..) => None,
        };
        if let Some(expected) = one_alone.filter(|_| splits.len() > 1) {
            return Err(bad("split", format!("got {} splits, expected {expected}", splits.len())));
        }
        if let Of::Splits(_, with) = &of
            && *with == splits[0]
        {
            let with = in_short(with);
            return Err(bad("with_split", format!("got '{with}' for both, expected a split other than split")));
        }
        let scores = list("score");
        if let Some(score) = scores.iter().find(|id| catalogue::find(id).is_none()) {
            return Err(unknown("score", format!("'{}' is not a score of the catalogue", in_short(score))));
        }
        let last = parameter("last").map(|text| {
            let whole = text.parse().ok().filter(|last| (1..=MOST).contains(last));
            whole.ok_or_else(|| {
                bad("last", format!("got '{}', expected a whole number from 1 to {MOST}", in_short(&text)))
            })
        });
        let confidence = parameter("confidence").map(|text| {
            let share = text.parse().ok().filter(|share| *share > 0.5 && *share < 1.0);
            let expected = "a number between 0.5 and 1, such as 0.95";
            share.ok_or_else(|| bad("confidence", format!("got '{}', expected {expected}", in_short(&text))))
        });
        Ok(Self {
            of,
            splits,
            scores,
            last: last.transpose()?,
            confidence: confidence.transpose()?.unwrap_or(CONFIDENCE),
        })
    }

    /// Reads the evaluations and compares them. Blocks.
    pub fn ask(&self, history: &dyn Store) -> Result<Report, Refused> {
        match &self.of {
            Of::Pair(a, b) => self.pair(history, a, b).map(Report::Pair),
            Of::Splits(run, with) => self.splits(history, run, with).map(Report::Splits),
            Of::Label(label, wanted) => self.groups(history, label, wanted).map(Report::Groups),
        }
    }

    fn pair(&self, history: &dyn Store, a: &str, b: &str) -> Result<PairReport, Refused> {
        let side = |field: &str, name: &str| {
            let run = find(history, field, name)?;
            let folds = self.splits.iter().map(|split| self.evaluations(history, &run, split));
            Ok::<_, Refused>((Side { name: name.to_owned(), folds: folds.collect::<Result<_, _>>()? }, run))
        };
        let ((a, run_a), (b, run_b)) = (side("run_a", a)?, side("run_b", b)?);
        let scores = self.common(&[&a, &b], &USUAL, [&run_a, &run_b].iter().all(|of| of.run.has_only_numbers()))?;
        let mut report = compare_pair(&a, &b, &scores, self.confidence);
        if !run_a.run.is_comparable(&run_b.run) {
            let note =
                "the runs differ in their concepts or their task, so differences of scores may be those of the data";
            report.notes.insert(0, note.to_owned());
        }
        report.notes.extend(still_running([&run_a, &run_b].into_iter().map(as_running)));
        Ok(report)
    }

    fn splits(&self, history: &dyn Store, name: &str, with: &str) -> Result<SplitReport, Refused> {
        let stored = find(history, "run_a", name)?;
        let split = self.splits[0].as_str();
        let steps = history.common_steps(name, split, with, self.last.unwrap_or(LAST))?;
        if steps.is_empty() {
            for (field, split) in [("split", split), ("with_split", with)] {
                if history.evaluations(name, split, 1)?.is_empty() {
                    return Err(without(history, field, name, split)?);
                }
            }
            let message =
                format!("run '{name}' has no step with evaluations of both '{split}' and '{}'", in_short(with));
            return Err(bad("with_split", format!("{message}, expected passes over both with one model")));
        }
        if let Some(last) = self.last.filter(|last| steps.len() < *last) {
            let message = format!("run '{name}' has {} steps with evaluations of both, expected {last}", steps.len());
            return Err(bad("last", message));
        }
        let concepts: Vec<String> = stored.run.concepts.iter().map(|concept| concept.name.clone()).collect();
        let mut pairs = Vec::new();
        for step in steps {
            // The size limit may have removed a point since the steps were read.
            let at = |split: &str| history.point(name, split, Some(step), false);
            pairs.extend(at(split)?.zip(at(with)?));
        }
        let (a, b) = pairs.into_iter().unzip();
        let side = |name: &str, points| Side {
            name: name.to_owned(),
            folds: vec![Evaluations { concepts: concepts.clone(), points }],
        };
        let (a, b) = (side(split, a), side(with, b));
        let scores = self.common(&[&a, &b], &USUAL_OF_SPLITS, stored.run.has_only_numbers())?;
        let mut report = compare_splits(name, &a, &b, &scores, self.confidence);
        report.notes.extend(still_running([as_running(&stored)].into_iter()));
        Ok(report)
    }

    fn groups(&self, history: &dyn Store, label: &str, wanted: &[(String, String)]) -> Result<GroupReport, Refused> {
        let runs = history.labelled()?;
        let labels: BTreeSet<&str> = runs.iter().flat_map(|run| run.labels.keys().map(String::as_str)).collect();
        let known = |field: &str, key: &str| match labels.contains(key) {
            true => Ok(()),
            false => {
                let known = listed(labels.iter().copied());
                Err(unknown(field, format!("no run has the label '{}', expected one of {known}", in_short(key))))
            }
        };
        known("by", label)?;
        wanted.iter().try_for_each(|(key, _)| known("where", key))?;
        let chosen: Vec<&LabelledRun> = runs
            .iter()
            .map(|run| &**run)
            .filter(|run| run.labels.contains_key(label))
            .filter(|run| wanted.iter().all(|(key, value)| run.labels.get(key) == Some(value)))
            .collect();
        let (chosen, declared_otherwise) = alike(history, chosen)?;
        let mut read: Vec<&str> = OF_GROUPS.to_vec();
        read.extend(self.scores.iter().map(String::as_str).filter(|score| !OF_GROUPS.contains(score)));
        let (mut classes, mut without) = self.classes(history, label, &chosen, &read)?;
        let usual: Vec<&str> = match self.scores.is_empty() {
            true => USUAL_OF_GROUPS.to_vec(),
            false => self.scores.iter().map(String::as_str).collect(),
        };
        if !usual.iter().any(|score| classes.iter().all(|class| class.has(score))) {
            // The scores that they have in common are among the others.
            let all: Vec<&str> = catalogue::CATALOGUE.iter().map(|score| score.id).collect();
            (classes, without) = self.classes(history, label, &chosen, &all)?;
        }
        let sides: Vec<&dyn Sided> = classes.iter().map(|class| class as &dyn Sided).collect();
        // All are declared alike.
        let first = chosen.first().map(|run| find(history, "by", &run.name)).transpose()?;
        let tasks_are_numbers = first.is_some_and(|first| first.run.has_only_numbers());
        let scores = self.common(&sides, &USUAL_OF_GROUPS, tasks_are_numbers)?;
        let mut report = compare_groups(label, classes, &scores, PUBLISHED, self.confidence);
        if !declared_otherwise.is_empty() {
            let names = listed(declared_otherwise.iter().map(|run| run.name.as_str()));
            report.notes.insert(0, format!("left out, because their concepts or their task differ: {names}"));
        }
        let left_out: HashSet<&str> = without.iter().copied().collect();
        let shown = || chosen.iter().copied().filter(|run| !left_out.contains(run.name.as_str()));
        report.notes.extend(mixed(label, shown()));
        report.notes.extend(still_running(shown().map(|run| (run.name.as_str(), !run.finished))));
        if !without.is_empty() {
            report.notes.push(format!("no evaluation of split '{}': {}", self.splits[0], listed(without)));
        }
        Ok(report)
    }

    /// The groups by the label's value, with some scores, and the runs without evaluations of the split. Errors unless
    /// there are two groups.
    fn classes<'r>(
        &self,
        history: &dyn Store,
        label: &str,
        chosen: &[&'r LabelledRun],
        scores: &[&str],
    ) -> Result<(Vec<Class>, Vec<&'r str>), Refused> {
        let split = &self.splits[0];
        let most = self.last.unwrap_or(LAST);
        let (mut classes, mut without): (BTreeMap<&str, Class>, Vec<&str>) = Default::default();
        for together in chosen.chunks((TOGETHER / (most * scores.len().max(1))).max(1)) {
            let names: Vec<&str> = together.iter().map(|run| run.name.as_str()).collect();
            let read = history.briefs(&names, split, scores, most)?;
            for (run, evaluations) in together.iter().zip(&read) {
                let evaluations = self.later(history, &run.name, split, evaluations)?;
                // Runs without the split are named in a note; the others are still compared.
                if evaluations.is_empty() {
                    without.push(&run.name);
                    continue;
                }
                self.enough(&run.name, split, evaluations.len())?;
                let value = run.labels[label].as_str();
                classes.entry(value).or_insert_with(|| Class::new(value, scores)).add(&run.name, evaluations);
            }
        }
        if classes.len() < 2 {
            let values = listed(classes.keys().copied());
            let got = if classes.is_empty() { "no run".to_owned() } else { format!("only {label}={values}") };
            let message = format!("{got} has evaluations of split '{split}', expected two values of the label");
            return Err(bad("by", message));
        }
        Ok((classes.into_values().collect(), without))
    }

    fn evaluations(&self, history: &dyn Store, stored: &StoredRun, split: &str) -> Result<Evaluations, Refused> {
        let run = &stored.run;
        let points = history.evaluations(&run.name, split, self.last.unwrap_or(LAST))?;
        if points.is_empty() {
            return Err(without(history, "split", &run.name, split)?);
        }
        self.enough(&run.name, split, points.len())?;
        let points = self.later(history, &run.name, split, &points)?.to_vec();
        Ok(Evaluations { concepts: run.concepts.iter().map(|concept| concept.name.clone()).collect(), points })
    }

    /// The newest evaluations by default: see [`LAST`]. `newest` are all, or at least as many.
    fn later<'e, T>(
        &self,
        history: &dyn Store,
        run: &str,
        split: &str,
        newest: &'e [T],
    ) -> Result<&'e [T], HistoryError> {
        if self.last.is_some() || newest.len() < 2 {
            return Ok(newest);
        }
        let splits = history.splits(run)?;
        let all = splits.iter().find(|stored| stored.split == split).map_or(0, |stored| stored.points as usize);
        let kept = (all / 2).clamp(1, LAST).min(newest.len());
        Ok(&newest[newest.len() - kept..])
    }

    /// Errors when a run has fewer evaluations than were asked for.
    fn enough(&self, run: &str, split: &str, evaluations: usize) -> Result<(), Refused> {
        match self.last {
            Some(last) if evaluations < last => {
                Err(bad("last", format!("run '{run}' has {evaluations} evaluations of '{split}', expected {last}")))
            }
            _ => Ok(()),
        }
    }

    /// The requested scores; by default the `usual` ones that all sides have, or if they have none of them, all scores
    /// in common.
    fn common(
        &self,
        sides: &[&dyn Sided],
        usual: &[&'static str],
        tasks_are_numbers: bool,
    ) -> Result<Vec<String>, Refused> {
        let on_all = |id: &str| sides.iter().all(|side| side.has(id));
        let asked: Vec<&str> = self.scores.iter().map(String::as_str).collect();
        let asked_for_none = asked.is_empty();
        let all = || catalogue::CATALOGUE.iter().map(|score| score.id);
        let common: Vec<&str> = if asked_for_none { all().filter(|id| on_all(id)).collect() } else { asked };
        let has_value = |id: &str| sides.iter().any(|side| side.estimate(id).is_ok());
        let is_usual = |id: &&str| asked_for_none && common.contains(id) && fits(id, tasks_are_numbers, has_value);
        let usual: Vec<&str> = usual.iter().copied().filter(is_usual).collect();
        let chosen = if usual.is_empty() { common } else { usual };
        if !chosen.iter().any(|id| on_all(id)) {
            let has = |side: &&dyn Sided| {
                let own = listed(all().filter(|id| side.has(id)));
                format!("'{}' has {own}", side.name())
            };
            let each: Vec<String> = sides.iter().map(has).collect();
            let message = match asked_for_none {
                true => format!("no score in common: {}", each.join("; ")),
                false => format!("not all sides have {}: {}", self.scores.join(", "), each.join("; ")),
            };
            return Err(bad("score", message));
        }
        Ok(chosen.into_iter().map(str::to_owned).collect())
    }
}

/// The diagnosis of a run's newest finished evaluation of a split, with up to [`LOOKED_BACK`] evaluations as context, of
/// those that `admits` accepts. Errors when the run or the split is unknown or has no such evaluation. Blocks.
pub fn diagnosis_of(
    history: &dyn Store,
    run: &str,
    split: &str,
    admits: impl Fn(&Point) -> bool,
) -> Result<Diagnosis, Refused> {
    let (stored, points, _) = evaluations_of(history, run, split, LOOKED_BACK, admits)?;
    diagnosed(history, &stored.run, split, &points)
}

/// The diagnosis, with a line about evaluations that came after its own and have no scores.
fn diagnosed(history: &dyn Store, run: &Run, split: &str, points: &[Point]) -> Result<Diagnosis, Refused> {
    let Some(mut diagnosis) = diagnose(run, points) else { return Err(without(history, "split", &run.name, split)?) };
    let mut later = history.unscored(&run.name, split)?;
    later.retain(|pass| pass.step > diagnosis.step);
    if let Some(newest) = later.iter().max_by_key(|pass| pass.step) {
        let (count, step, reason) = (later.len(), newest.step, &newest.reason);
        diagnosis.lines.push(Line {
            rule: "later_evaluations".into(),
            title: "Later evaluations have no scores".into(),
            subject: "Later evaluations".into(),
            source: "this project".into(),
            action: String::new(),
            state: State::Unknown,
            text: format!("{count} came after this one without complete scores, the newest at step {step}: {reason}"),
            evidence: Vec::new(),
        });
    }
    Ok(diagnosis)
}

/// The verdict on a split with what it rests on, from the points that `admits` takes.
pub fn assessment_of(
    history: &dyn Store,
    run: &str,
    split: &str,
    admits: impl Fn(&Point) -> bool,
    advised: Option<&StopAdvised>,
) -> Result<Assessment, Refused> {
    let (stored, points, whole) = evaluations_of(history, run, split, LOOKED_BACK, &admits)?;
    let verdict = match history.verdicts(&[run], split)?.remove(run) {
        None => judged(history, &stored, split, (&points, whole), advised, admits, None)?,
        of_sidecar => of_sidecar,
    };
    let diagnosis = diagnosed(history, &stored.run, split, &points)?;
    match verdict {
        Some(verdict) => Ok(Assessment::new(verdict, diagnosis)),
        None => Err(without(history, "split", run, split)?),
    }
}

/// The verdict on a split from its newest evaluations, and whether these are all. Leakage is counted above that of the run's
/// reference. Leakage that `before` knows to have begun earlier keeps its start; else evaluations that are farther back are read.
pub fn judged(
    history: &dyn Store,
    stored: &StoredRun,
    split: &str,
    (points, whole): (&[Point], bool),
    advised: Option<&StopAdvised>,
    admits: impl Fn(&Point) -> bool,
    before: Option<&Verdict>,
) -> Result<Option<Verdict>, HistoryError> {
    let followed = if advised.is_none() { advice_followed(history, stored, split)? } else { None };
    let advised = advised.or(followed.as_ref());
    let judge = |points: &[Point], whole| verdict(&stored.run, points, whole, stored.finished.is_some(), advised);
    let Some(mut found) = judge(points, whole) else { return Ok(None) };
    if found.or_earlier {
        let known = before.filter(|known| known.state == VerdictState::Leaking);
        let reaches = |since: Moment| points.first().is_some_and(|first| since.step < first.step);
        let Some(known) = known.filter(|known| known.since.is_some_and(reaches)) else {
            let (all, whole) = newest(history, &stored.run, split, FARTHEST, admits)?;
            return Ok(judge(&all, whole));
        };
        (found.since, found.or_earlier, found.last_sound) = (known.since, known.or_earlier, known.last_sound);
    }
    Ok(Some(found))
}

/// The advice of the default rules that a run followed, once no sidecar remembers which it was.
fn advice_followed(history: &dyn Store, stored: &StoredRun, split: &str) -> Result<Option<StopAdvised>, HistoryError> {
    if !matches!(stored.outcome, Some(RunOutcome::StoppedOnAdvice { .. })) {
        return Ok(None);
    }
    let mut alerts = Alerts::new(default_rules());
    alerts.start(Judged::of(&stored.run, baseline_of(history, &stored.run)?), stored.started);
    let (mut advised, mut began) = (None, HashMap::new());
    for point in history.evaluations(&stored.run.name, split, MOST)? {
        for Change { rule, standing } in alerts.observe(&point) {
            match standing.state {
                alert::State::Inactive => began.remove(rule.name()),
                _ => Some(*began.entry(rule.name().to_owned()).or_insert(point.step)),
            };
        }
        let mut reasons = alerts.reasons_to_stop().filter(|(rule, _)| rule.split() == split);
        advised = reasons.next().map(|(rule, standing)| {
            let (name, evidence) = (rule.name().to_owned(), standing.evidence.clone());
            StopAdvised { since: began.get(&name).copied().unwrap_or(point.step), rule: name, evidence }
        });
    }
    Ok(advised)
}

/// The newest evaluations of the run that this one names as its reference; `None` where it names none.
pub fn baseline_of(history: &dyn Store, run: &Run) -> Result<Option<Baseline>, HistoryError> {
    let Some(reference) = &run.reference else { return Ok(None) };
    let mut baseline = Baseline { run: reference.clone(), ..Baseline::default() };
    baseline.unfit = match history.listed(reference) {
        Ok((stored, _)) if stored.run.training.can_leak() => Some("was trained with the task, and may leak itself"),
        Ok((stored, _)) if !stored.run.is_comparable(run) => Some("has other concepts or another task"),
        Ok(_) => None,
        Err(HistoryError::Unknown { .. }) => Some("does not exist"),
        Err(error) => return Err(error),
    };
    if baseline.unfit.is_none() {
        for split in history.splits(reference)? {
            baseline.points.extend(history.evaluations(reference, &split.split, 1)?);
        }
    }
    Ok(Some(baseline))
}

/// A run, and its newest evaluations of a split.
fn evaluations_of(
    history: &dyn Store,
    run: &str,
    split: &str,
    most: usize,
    admits: impl Fn(&Point) -> bool,
) -> Result<(StoredRun, Vec<Point>, bool), Refused> {
    let stored = find(history, "run", run)?;
    let (points, whole) = newest(history, &stored.run, split, most, admits)?;
    Ok((stored, points, whole))
}

/// The newest evaluations of a split that `admits` accepts, and whether no earlier ones exist. Leakage is counted above that
/// of the run's reference.
fn newest(
    history: &dyn Store,
    run: &Run,
    split: &str,
    most: usize,
    admits: impl Fn(&Point) -> bool,
) -> Result<(Vec<Point>, bool), HistoryError> {
    let mut points = history.evaluations(&run.name, split, most)?;
    let whole = points.len() < most;
    points.retain(admits);
    if let Some(baseline) = baseline_of(history, run)? {
        points.iter_mut().for_each(|point| *point = baseline.above(point));
    }
    Ok((points, whole))
}

fn find(history: &dyn Store, field: &str, name: &str) -> Result<StoredRun, Refused> {
    match history.listed(name) {
        Ok((stored, _)) => Ok(stored),
        Err(HistoryError::Unknown { .. }) => {
            let runs = history.labelled()?;
            let known = listed(runs.iter().map(|run| run.name.as_str()));
            Err(unknown(field, format!("'{}' is unknown, expected one of {known}", in_short(name))))
        }
        Err(error) => Err(error.into()),
    }
}

/// The error for a run without a finished evaluation of a split.
fn without(history: &dyn Store, field: &str, run: &str, split: &str) -> Result<Refused, HistoryError> {
    let known = history.splits(run)?;
    let known = listed(known.iter().map(|stored| stored.split.as_str()));
    let split = in_short(split);
    Ok(unknown(field, format!("run '{run}' has no evaluation of '{split}', expected one of its splits: {known}")))
}

/// Returns the largest set of these runs that have equal concepts and a task of one kind, and the others.
fn alike<'r>(
    history: &dyn Store,
    runs: Vec<&'r LabelledRun>,
) -> Result<(Vec<&'r LabelledRun>, Vec<&'r LabelledRun>), HistoryError> {
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let declared = history.listed_of(&names)?;
    // The first run of each kind stands for it.
    let mut kinds: Vec<(&Run, HashSet<&str>)> = Vec::new();
    for (stored, _) in &declared {
        let name = stored.run.name.as_str();
        match kinds.iter_mut().find(|(first, _)| first.is_comparable(&stored.run)) {
            Some((_, names)) => drop(names.insert(name)),
            None => kinds.push((&stored.run, [name].into())),
        }
    }
    let Some((_, most)) = kinds.into_iter().rev().max_by_key(|(_, names)| names.len()) else {
        return Ok((runs, Vec::new()));
    };
    Ok(runs.into_iter().partition(|run| most.contains(run.name.as_str())))
}

fn as_running(stored: &StoredRun) -> (&str, bool) {
    (&stored.run.name, stored.finished.is_none())
}

/// Returns a note that names the unfinished runs; `runs` has each name and whether that run is still running.
fn still_running<'r>(runs: impl Iterator<Item = (&'r str, bool)>) -> Option<String> {
    let names: Vec<&str> = runs.filter(|(_, running)| *running).map(|(name, _)| name).collect();
    (!names.is_empty()).then(|| format!("not finished yet: {}", listed(names)))
}

/// A note that names the other labels whose values differ between runs of one group.
fn mixed<'r>(label: &str, runs: impl Iterator<Item = &'r LabelledRun>) -> Option<String> {
    let mut values: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for stored in runs {
        let labels = &stored.labels;
        for (key, value) in labels.iter().filter(|(key, _)| *key != label) {
            values.entry((&labels[label], key)).or_default().insert(value);
        }
    }
    let differ: BTreeSet<&str> = values.iter().filter(|(_, v)| v.len() > 1).map(|((_, key), _)| *key).collect();
    (!differ.is_empty()).then(|| format!("runs of a group differ in {}", listed(differ)))
}

fn listed<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    match names.len() {
        0 => "none".to_owned(),
        many if many > LISTED => format!("{} and {} more", names[..LISTED].join(", "), many - LISTED),
        _ => names.join(", "),
    }
}
