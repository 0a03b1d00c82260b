//! Groups of runs by a label, such as λ: means with intervals, and the range of least leakage.
//!
//! Source: Leakage and Interpretability in Concept-Based Models, Section 7 and Appendix E,
//! doi:10.48550/arXiv.2504.14094. Leakage falls as concept supervision λ is raised and stays about constant from some
//! λ_min on. Beyond some λ_max training fails in part of the runs, or leakage rises again.

use serde::{Deserialize, Serialize};

use crate::limits::INTERVENTION_DROP;
use crate::score::catalogue::named;

use super::class::Class;
use super::comparison::range_of;
use super::criterion::Criterion;
use super::interval::Interval;
use super::side::{Sided, incomparable};
use super::weighed::{
    DROP, Weighed, WeighedVerdict, behind, falls_further, remaining_fall, unlearnt, without_interventions,
};

/// A run counts as trained if it reaches this share of the best median task accuracy among the groups that no other
/// beats by the criterion: the 90 % of Appendix E, where the best is near 100 %. Groups that leak more do not set the
/// mark, because their accuracy may come from leakage.
const TRAINED: f64 = 0.9;
/// A group trains if this share of its runs does. This project's own: Appendix E counts 3 of 5 as failing.
const ENOUGH: f64 = 0.8;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupReport {
    pub label: String,
    /// The confidence of every interval, such as 0.95.
    pub confidence: f64,
    /// In ascending order of the label's value where all are numbers, else by name.
    pub groups: Vec<Group>,
    /// Absent where no group is known to leak least.
    pub least: Option<Least>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub undefined: Option<String>,
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// The label's value.
    pub value: String,
    pub runs: Vec<String>,
    pub scores: Vec<GroupScore>,
    /// This group as a, the one of least leakage as b, by all that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub weighed: Option<Weighed>,
    /// The same by CTL and ICL alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub criterion: Option<Criterion>,
    /// Absent where task accuracy is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub training: Option<Training>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupScore {
    pub score: String,
    /// Over runs; of a single run, over its evaluations.
    pub interval: Option<Interval>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub undefined: Option<String>,
}

/// How many runs of a group have learnt the task.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Training {
    pub trained: usize,
    pub runs: usize,
    /// The task accuracy that counts as trained.
    pub accuracy: f64,
}

/// Where leakage is least.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Least {
    /// Value of the group that the others are compared with: of those that train, have learnt their concepts and that no
    /// other beats by all that is known, the one of lowest conditional CTL, or of lowest CTL where that is not known.
    pub reference: String,
    /// Values of the groups from λ_min to λ_max: they train, have learnt their concepts as well, lose no more accuracy
    /// under intervention, and show no difference to the reference. For labels that are not numbers, which have no
    /// order, all such groups.
    pub values: Vec<String>,
    /// The end of the range below and above: the neighbouring group and why it is not in it, or that there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub below: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub above: Option<String>,
    /// A caution that interventions fail even there, with the groups of the range that have such runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub caution: Option<String>,
}

/// Compares groups of runs, each named after the label's value, at a confidence in (0, 1). `judged`: the scores of
/// concepts-task and interconcept leakage that the criterion is read from.
pub fn compare_groups(
    label: &str,
    groups: Vec<impl Into<Class>>,
    scores: &[String],
    judged: [&str; 2],
    confidence: f64,
) -> GroupReport {
    let mut classes: Vec<Class> = groups.into_iter().map(Into::into).collect();
    let number = |class: &Class| class.name().trim().parse::<f64>().ok().filter(|value| value.is_finite());
    let ordered = classes.iter().all(|class| number(class).is_some());
    classes.sort_by(|a, b| match (number(a), number(b)) {
        (Some(a), Some(b)) if ordered => a.total_cmp(&b),
        _ => a.name().cmp(b.name()),
    });
    let values: Vec<String> = classes.iter().map(|class| class.name().to_owned()).collect();
    classes.iter_mut().for_each(|class| class.name_by(label));
    let all: Vec<&dyn Sided> = classes.iter().map(|class| class as &dyn Sided).collect();
    let unbeaten = unbeaten(&all, judged, confidence);
    let (reached, medians, training) = training(&classes, unbeaten.as_deref().unwrap_or_default());
    let learns = |at: usize| training[at].is_none_or(|t| t.trained as f64 >= ENOUGH * t.runs as f64);
    // Where it fails in every group that leaks least, there is no reference for the others.
    let looked_at = unbeaten.iter().flatten().any(|at| learns(*at));
    let trains = |at: usize| !looked_at || learns(at);
    let trained: Vec<usize> = (0..all.len()).filter(|at| trains(*at)).collect();
    let able = unbeaten.map(|unbeaten| unbeaten.into_iter().filter(|at| trains(*at)).collect::<Vec<usize>>());
    let falls = able.iter().flatten().filter_map(|at| classes[*at].of_runs(DROP)).map(|runs| median(&runs));
    let least_fall = falls.fold(f64::INFINITY, f64::min);
    let collapsed: Vec<Collapsed> = classes.iter().map(|class| Collapsed::of(class, least_fall)).collect();
    let reference = able.and_then(|able| {
        let share = |at: &usize| collapsed[*at].count as f64 / collapsed[*at].runs.max(1) as f64;
        let fewest = able.iter().copied().min_by(|a, b| share(a).total_cmp(&share(b))).expect("one of them trains");
        let steady: Vec<usize> = able.into_iter().filter(|at| !collapsed[*at].exceeds(&collapsed[fewest])).collect();
        reference(&all, &steady, &trained, confidence)
    });
    let against = |at: usize, least: usize| {
        (Weighed::of(all[at], all[least], confidence), Criterion::between(all[at], all[least], judged, confidence))
    };
    let verdicts: Vec<Option<(Weighed, Criterion)>> = (0..all.len())
        .map(|at| reference.as_ref().ok().filter(|least| **least != at).map(|least| against(at, *least)))
        .collect();
    let least = reference.as_ref().ok().map(|&reference| {
        // Why a group is not in the range; `None` if it is.
        let outside = |at: usize| {
            let name = all[at].name();
            let untrained = training[at]
                .filter(|_| !trains(at))
                .map(|t| format!("{name}: {} of {} runs reach a {reached} of {:.3}", t.trained, t.runs, t.accuracy));
            let weighed = verdicts[at].as_ref().map(|(weighed, _)| weighed);
            // A run that was stopped because it leaks has not learnt the task either.
            match weighed.map(|weighed| (weighed.verdict, &weighed.why)) {
                Some((WeighedVerdict::ALeaksMore, why)) => return Some(format!("{name}: {why}")),
                _ if untrained.is_some() => return untrained,
                None => return None,
                Some((WeighedVerdict::NoDifference, _)) => {}
                Some((WeighedVerdict::ScoresDisagree, why)) => return Some(format!("{name}: scores disagree: {why}")),
                Some((_, why)) => return Some(format!("{name}: {why}")),
            }
            if collapsed[at].exceeds(&collapsed[reference]) {
                return Some(format!("{name}: {}", collapsed[at].in_words()));
            }
            let less_well = behind(all[at], all[reference], confidence);
            let falls = || trained.iter().find_map(|other| falls_further(all[at], all[*other], confidence));
            less_well.or_else(falls).map(|why| format!("{name}: {why}"))
        };
        let inside = |at: &usize| outside(*at).is_none();
        let within: Vec<usize> = match ordered {
            true => {
                let first = (0..=reference).rev().take_while(inside).last().unwrap_or(reference);
                (first..all.len()).take_while(inside).collect()
            }
            false => (0..all.len()).filter(inside).collect(),
        };
        let of_some = within.iter().filter(|at| collapsed[**at].count > 0);
        let mut cautions: Vec<String> =
            of_some.map(|at| format!("{}: {}", all[*at].name(), collapsed[*at].in_words())).collect();
        if cautions.is_empty() {
            let remains = remaining_fall(all[reference]);
            cautions.extend(Some(remains.trim_start_matches("; ").to_owned()).filter(|text| !text.is_empty()));
        }
        let end = |at: Option<usize>, none: &str| {
            ordered.then(|| at.filter(|at| *at < all.len()).map_or(Some(none.to_owned()), outside)).flatten()
        };
        let [first, last] = [within.first(), within.last()].map(|at| at.copied().unwrap_or(reference));
        Least {
            reference: values[reference].clone(),
            values: within.iter().map(|at| values[*at].clone()).collect(),
            below: end(first.checked_sub(1), "no smaller value was tried"),
            above: end(Some(last + 1), "no larger value was tried"),
            caution: (!cautions.is_empty()).then(|| cautions.join("; ")),
        }
    });
    let groups =
        classes.iter().zip(&values).zip(verdicts).zip(&training).map(|(((class, value), verdict), training)| Group {
            value: value.clone(),
            runs: class.runs.clone(),
            scores: scores.iter().map(|score| GroupScore::of(&all, class, score, confidence)).collect(),
            weighed: verdict.as_ref().map(|(weighed, _)| weighed.clone()),
            criterion: verdict.map(|(_, criterion)| criterion),
            training: *training,
        });
    let mut notes: Vec<String> = Vec::new();
    let single: Vec<&str> = classes.iter().filter(|class| class.count() == 1).map(Sided::name).collect();
    if !single.is_empty() {
        let single = single.join(", ");
        notes.push(format!("one run only, whose interval says nothing about other seeds: {single}"));
    }
    notes.extend(classes.iter().flat_map(|class| class.partial(scores)));
    if training.iter().any(Option::is_none) {
        notes.push("failed training is not looked for in groups whose task accuracy is not known".into());
    }
    notes.extend(without_interventions(&all));
    let best = medians.iter().flatten().copied().fold(0.0, f64::max);
    let of_least = reference.as_ref().ok().and_then(|at| Some((all[*at].name(), medians[*at]?)));
    if let Some((name, median)) = of_least.filter(|(_, median)| *median < TRAINED * best) {
        notes.push(format!(
            "{name}, where leakage is least, reaches a {reached} of {median:.2}, and others up to {best:.2}"
        ));
    }
    if !looked_at && reference.is_ok() {
        notes.push("training fails in some runs of every group that leaks least, so it does not end the range".into());
    }
    GroupReport {
        label: label.to_owned(),
        confidence,
        groups: groups.collect(),
        least,
        undefined: reference.err(),
        notes,
    }
}

impl GroupScore {
    fn of(all: &[&dyn Sided], side: &dyn Sided, score: &str, confidence: f64) -> Self {
        let estimate = match incomparable(all, score) {
            Some(why) => Err(why),
            None => side.estimate(score),
        };
        let (interval, undefined) = match estimate {
            Ok(estimate) => (Some(estimate.interval(confidence).within(range_of(score))), None),
            Err(why) => (None, Some(why)),
        };
        Self { score: score.to_owned(), interval, undefined }
    }
}

/// The runs of a group that lose far more accuracy under intervention than models of its task must. Their mean hides them: a
/// single one among five also widens its interval.
struct Collapsed {
    count: usize,
    /// The number of all its runs.
    runs: usize,
    /// The greatest loss.
    most: f64,
}

impl Collapsed {
    /// `least_fall`: the lowest median loss of a group.
    fn of(class: &Class, least_fall: f64) -> Self {
        let runs = class.of_runs(DROP).unwrap_or_default();
        let count = runs.iter().filter(|drop| **drop - least_fall > INTERVENTION_DROP).count();
        Self { count, runs: runs.len(), most: runs.into_iter().fold(f64::NEG_INFINITY, f64::max) }
    }

    /// Whether these are more runs than the share of the other group comes to, rounded up.
    fn exceeds(&self, other: &Self) -> bool {
        self.count > (other.count * self.runs).div_ceil(other.runs.max(1))
    }

    fn in_words(&self) -> String {
        format!("{} of {} runs lose up to {:.2} of accuracy under intervention", self.count, self.runs, self.most)
    }
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// How many runs of each group reach [`TRAINED`] of the best median accuracy among the `unbeaten`, and of which accuracy, with
/// the medians.
fn training(classes: &[Class], unbeaten: &[usize]) -> (&'static str, Vec<Option<f64>>, Vec<Option<Training>>) {
    // Where one class is rare, a model that always answers the other one has a high accuracy.
    let of_each = |score| classes.iter().map(|class| class.of_runs(score)).collect::<Vec<_>>();
    let balanced: Vec<Option<Vec<f64>>> = of_each("task_balanced_accuracy");
    let (reached, accuracies) = match balanced.iter().all(Option::is_some) {
        true => ("balanced task accuracy", balanced),
        false => ("task accuracy", of_each("task_accuracy")),
    };
    let medians: Vec<Option<f64>> = accuracies.iter().map(|runs| runs.as_deref().map(median)).collect();
    let best = unbeaten.iter().filter_map(|at| medians[*at]).fold(0.0, f64::max);
    let accuracy = TRAINED * best;
    let counted = |runs: Vec<f64>| Training {
        trained: runs.iter().filter(|reached| **reached >= accuracy).count(),
        runs: runs.len(),
        accuracy,
    };
    (reached, medians, accuracies.into_iter().map(|runs| runs.map(counted)).collect())
}

/// Groups such that no other leaks less, by all that is known.
fn unbeaten(all: &[&dyn Sided], judged: [&str; 2], confidence: f64) -> Result<Vec<usize>, String> {
    let has = |at: &usize, scores: &[&str]| scores.iter().all(|score| all[*at].estimate(score).is_ok());
    let conditional = (0..all.len()).any(|at| has(&at, &["ctl_conditional"]));
    if !conditional
        && let Some(why) =
            judged.iter().find_map(|score| incomparable(all, score).map(|why| format!("{}: {why}", named(score))))
    {
        return Err(why);
    }
    let able: Vec<usize> = match conditional {
        true => (0..all.len()).filter(|at| has(at, &["ctl_conditional"])).collect(),
        false => (0..all.len()).filter(|at| has(at, &judged)).collect(),
    };
    if able.is_empty() {
        return Err(format!("no group has both {} and {}", named(judged[0]), named(judged[1])));
    }
    let beaten = |at: &usize| {
        let more = |other: &usize| Weighed::of(all[*at], all[*other], confidence).verdict == WeighedVerdict::ALeaksMore;
        able.iter().any(|other| other != at && more(other))
    };
    let unbeaten: Vec<usize> = able.iter().copied().filter(|at| !beaten(at)).collect();
    // Verdicts need not be transitive: if each is beaten by another, all remain.
    Ok(if unbeaten.is_empty() { able } else { unbeaten })
}

/// The group of least leakage among those `able`. Errors where it has not learnt its concepts, or one of the `trained` loses
/// less accuracy under intervention.
fn reference(all: &[&dyn Sided], able: &[usize], trained: &[usize], confidence: f64) -> Result<usize, String> {
    let accuracy = |at: &usize| all[*at].estimate("concept_accuracy").map_or(f64::NEG_INFINITY, |one| one.mean);
    let best = able.iter().copied().max_by(|a, b| accuracy(a).total_cmp(&accuracy(b))).expect("one of them is able");
    if let Some(why) = unlearnt(all[best], confidence) {
        return Err(format!("{why}, and no group has learnt them better"));
    }
    let learnt: Vec<usize> =
        able.iter().copied().filter(|at| *at == best || behind(all[*at], all[best], confidence).is_none()).collect();
    let falls =
        |at: usize, others: &[usize]| others.iter().find_map(|other| falls_further(all[at], all[*other], confidence));
    let held: Vec<usize> = learnt.iter().copied().filter(|at| falls(*at, &learnt).is_none()).collect();
    let held = if held.is_empty() { learnt } else { held };
    let score = match held.iter().all(|at| all[*at].estimate("ctl_conditional").is_ok()) {
        true => "ctl_conditional",
        false => "ctl",
    };
    let leak = |at: &usize| all[*at].estimate(score).map_or(f64::INFINITY, |estimate| estimate.mean);
    let least = held.into_iter().min_by(|a, b| leak(a).total_cmp(&leak(b))).expect("one remains");
    match falls(least, trained) {
        Some(why) => Err(format!("scores disagree: {} has the least leakage, but {why}", all[least].name())),
        None => Ok(least),
    }
}
