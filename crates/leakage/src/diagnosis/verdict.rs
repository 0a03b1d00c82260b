//! Whether a run leaks, in one word, since when, and by which number: what every surface shows.
//!
//! An evaluation *leaks* where the diagnosis shows leakage. A run leaks from the second such evaluation in a row on; one
//! alone, or an interval that reaches a limit, is *possible* leakage. The advice to stop always counts as leakage, so the
//! two cannot contradict each other.
//!
//! *Sound* needs evidence: information beyond the concepts was looked for and is below its limits, and either interventions
//! do no harm or every concept is well learnt. Where less is known, nothing was found, which says less. A model that has
//! not learnt a concept is never sound.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::baseline::{is_above_reference, of_reference};
use crate::limits::{
    CONCEPT_ACCURACY, CTL_OF_ONE, CTL_UNLEARNT, INTERVENTION_DROP, ROWS, SHOWN, UNLEARNT_AUC, WARM_UP,
};
use crate::point::Point;
use crate::run::Run;
use crate::score::catalogue::{find, named};
use crate::score::of_rare_class;

use super::causes::{
    Leakage, alignment_leakage, beyond_true_concepts, concepts_ignored, leakage, over_expressive_encoding,
};
use super::curve::Curve;
use super::heads::falls_short;
use super::judgement::{Evidence, is_found};
use super::leakage::{Interventions, concepts, has_vectors, interventions};
use super::sample::{OF_OTHERS, labels_in_another_order, too_few_rows};

/// Evaluations that a diagnosis looks back over.
pub const LOOKED_BACK: usize = 100;
/// Evaluations among which the start of leakage is looked for that began before those.
pub const FARTHEST: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictState {
    Leaking,
    PossiblyLeaking,
    Sound,
    /// No leakage was found, and too little was looked at to call the run sound.
    NothingFound,
    /// The first evaluations of a run that still trains: models pass through every limit while they learn.
    TooEarly,
    CannotTell,
}

impl VerdictState {
    /// As JSON and the metrics have it.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Leaking => "leaking",
            Self::PossiblyLeaking => "possibly_leaking",
            Self::Sound => "sound",
            Self::NothingFound => "nothing_found",
            Self::TooEarly => "too_early",
            Self::CannotTell => "cannot_tell",
        }
    }
}

impl fmt::Display for VerdictState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leaking => "leaking",
            Self::PossiblyLeaking => "possibly leaking",
            Self::Sound => "sound",
            Self::NothingFound => "nothing found",
            Self::CannotTell => "cannot tell",
            Self::TooEarly => "too early to tell",
        })
    }
}

/// An evaluation by its place.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    pub step: u64,
    pub epoch: Option<f64>,
}

impl Moment {
    fn of(point: &Point) -> Self {
        Self { step: point.step, epoch: point.epoch }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub state: VerdictState,
    /// The number that decides, with its limit; absent where no number of the newest evaluations does.
    pub deciding: Option<Evidence>,
    /// The task whose scores decide, where there are several; absent where those of no single task do.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub task: Option<String>,
    /// Where it leaks, the concepts whose own value of the deciding score is above the limit, the highest first; else those
    /// that are hardly learnt.
    pub concepts: Vec<String>,
    /// The evaluation at which the leakage began that lasts until the newest; only where it leaks.
    pub since: Option<Moment>,
    /// Leakage began at `since` or before: no evaluation before it was looked at.
    pub or_earlier: bool,
    /// The newest sound evaluation before the leakage, such as one with a checkpoint to go back to.
    pub last_sound: Option<Moment>,
    /// The limitation of the verdict, or the reason why there is none; empty where there is nothing to add.
    pub reason: String,
    /// The alert rule that advises to stop, if one does and the run goes on.
    pub stop_advised_by: Option<String>,
}

impl fmt::Display for Verdict {
    /// The state and the reason, and on lines of their own the number that decides and the concepts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.state)?;
        if let Some(Moment { step, epoch }) = self.since {
            let at = epoch.map_or_else(|| format!("step {step}"), |epoch| format!("epoch {epoch}"));
            write!(f, " since {at}{}", if self.or_earlier { " or earlier" } else { "" })?;
        }
        if !self.reason.is_empty() {
            write!(f, ": {}", self.reason)?;
        }
        if let Some(one) = &self.deciding {
            let interval =
                one.standard_error.map_or_else(String::new, |_| format!(", {:.4} to {:.4}", one.low(), one.high()));
            let limit = one.limit.map_or_else(String::new, |limit| format!(", limit {limit}"));
            write!(f, "\n  {} {:.4}{interval}{limit}", one.score, one.value)?;
        }
        if let Some(task) = &self.task {
            write!(f, "\n  task: {task}")?;
        }
        if !self.concepts.is_empty() {
            write!(f, "\n  concepts: {}", self.concepts.join(", "))?;
        }
        Ok(())
    }
}

/// An alert rule that advises to stop now, and the step from which on it was beyond its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopAdvised {
    pub rule: String,
    pub since: u64,
    /// The rule's evidence, with numbers.
    pub evidence: String,
}

/// The sign that one evaluation gives, the reason for it, and the number that decides.
struct Sign {
    says: Says,
    reason: String,
    deciding: Option<Evidence>,
    concepts: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    Leaks,
    Maybe,
    Sound,
    Nothing,
    Unknown,
}

impl Sign {
    fn of(says: Says, reason: impl Into<String>) -> Self {
        Self { says, reason: reason.into(), deciding: None, concepts: Vec::new() }
    }

    fn by(self, deciding: Option<Evidence>) -> Self {
        Self { deciding, ..self }
    }
}

/// The verdict on finished evaluations of a run with one task: see [`super::verdict`].
pub fn verdict_on(
    run: &Run,
    points: &[Point],
    whole: bool,
    finished: bool,
    advised: Option<&StopAdvised>,
) -> Option<Verdict> {
    let newest = points.len().checked_sub(1)?;
    let sign = |at: usize| {
        let from = (at + 1).saturating_sub(LOOKED_BACK);
        let curve = Curve::new(run, &points[from..=at]).map(|curve| curve.before(&points[at + 1..]));
        curve.map_or(Sign::of(Says::Unknown, ""), |curve| sign(&curve))
    };
    let now = sign(newest);
    let above = of_reference(&points[newest]);
    let earlier = now.deciding.as_ref().filter(|deciding| deciding.step != points[newest].step);
    let earlier = earlier.map(|deciding| format!("{} is of step {}", named(&deciding.score), deciding.step));
    let of = |state, reason: &str| Verdict {
        state,
        deciding: now.deciding.clone(),
        task: None,
        concepts: now.concepts.clone(),
        since: None,
        or_earlier: false,
        last_sound: None,
        reason: joined([Some(reason), above, earlier.as_deref()]),
        stop_advised_by: advised.filter(|_| !finished).map(|advised| advised.rule.clone()),
    };
    let early = !finished && whole && points.len() <= WARM_UP as usize;
    if early && advised.is_none() {
        let reason = format!("{} of {} evaluations that are needed", points.len(), WARM_UP + 1);
        return Some(of(VerdictState::TooEarly, &reason));
    }
    let (stretch, earlier) = match now.says {
        Says::Leaks => stretch(newest, |at| sign(at).says),
        _ => (Stretch { start: newest, leaking: 0 }, None),
    };
    // An evaluation without the score that decides now may have been no better.
    let decider = now.deciding.as_ref().and_then(|deciding| find(&deciding.score));
    let last_sound = |before: usize| {
        let is_judged = |at: usize| decider.is_none_or(|score| points[at].score(score.id).is_some());
        let sound = |at: &usize| is_judged(*at) && sign(*at).says == Says::Sound;
        (0..before).rev().find(sound).map(|at| Moment::of(&points[at]))
    };
    let lasts = stretch.leaking >= 2 || (stretch.leaking == 1 && finished && whole && newest == 0);
    if lasts || advised.is_some() {
        let by_rule = advised.and_then(|advised| points.iter().position(|point| point.step >= advised.since));
        let start = if stretch.leaking > 0 { stretch.start } else { newest };
        let start = start.min(by_rule.unwrap_or(start));
        // The deciding number and concepts of the newest evaluation count only where it shows leakage.
        let leaks = now.says == Says::Leaks;
        return Some(Verdict {
            since: Some(Moment::of(&points[start])),
            or_earlier: start == 0 && !whole,
            last_sound: last_sound(earlier.unwrap_or(start).min(start)),
            deciding: now.deciding.clone().filter(|_| leaks),
            concepts: if leaks { now.concepts.clone() } else { Vec::new() },
            ..of(
                VerdictState::Leaking,
                advised.map_or(if leaks { &now.reason } else { "" }, |advised| &advised.evidence),
            )
        });
    }
    Some(match now.says {
        Says::Leaks => Verdict {
            last_sound: last_sound(newest),
            ..of(VerdictState::PossiblyLeaking, "in the newest evaluation only, so far")
        },
        Says::Maybe => Verdict { last_sound: last_sound(newest), ..of(VerdictState::PossiblyLeaking, &now.reason) },
        Says::Sound => of(VerdictState::Sound, &now.reason),
        Says::Nothing => of(VerdictState::NothingFound, &now.reason),
        Says::Unknown => of(VerdictState::CannotTell, &now.reason),
    })
}

/// Evaluations that leak up to the newest; those that show nothing either way do not end it.
struct Stretch {
    start: usize,
    leaking: usize,
}

/// The stretch that ends at the newest evaluation, and the evaluation that ends it.
fn stretch(newest: usize, says: impl Fn(usize) -> Says) -> (Stretch, Option<usize>) {
    let mut stretch = Stretch { start: newest, leaking: 0 };
    for at in (0..=newest).rev() {
        match says(at) {
            Says::Leaks => stretch = Stretch { start: at, leaking: stretch.leaking + 1 },
            Says::Unknown => {}
            Says::Maybe | Says::Sound | Says::Nothing => return (stretch, Some(at + 1)),
        }
    }
    (stretch, None)
}

const UNUSED_IN_EMBEDDINGS: &str = "embeddings hold extra information, and no intervention shows that it is used";
const MAY_BE_NOISY: &str =
    "heads on the true concepts fall short of the task: labels may be noisy, or concepts missing";
const NOISE_NOT_EXCLUDED: &str = "labels may be noisy: heads on the true concepts, which would tell, are not scored";

/// Returns the sign of the curve's newest evaluation, by the rules of the diagnosis.
fn sign(curve: &Curve) -> Sign {
    if is_found(&labels_in_another_order(curve)) {
        return Sign::of(Says::Unknown, OF_OTHERS);
    }
    if let Some(remark) = of_rare_class(curve.newest()) {
        return Sign::of(Says::Unknown, remark);
    }
    let interventions = interventions(curve);
    if !curve.run.training.can_leak() {
        return without_the_task(curve, &interventions);
    }
    // An honest predictor of noisy labels knows more than its label, but no more than the reference does.
    let may_be_noisy = !is_above_reference(curve.newest()) && falls_short(curve).is_ok_and(|(short, _)| short);
    if let Ok(Interventions::Fall(evidence)) = &interventions {
        let drop = evidence.first().cloned();
        let small = drop.as_ref().is_some_and(|drop| drop.low() <= INTERVENTION_DROP);
        let doubt = match small && !has_vectors(curve) && !is_above_reference(curve.newest()) {
            true if may_be_noisy => Some(MAY_BE_NOISY),
            true if curve.is_due("reference_accuracy_mlp") => Some(NOISE_NOT_EXCLUDED),
            _ => None,
        };
        let sign = match doubt {
            Some(doubt) => Sign::of(Says::Maybe, format!("the head does worse on the true concepts, but {doubt}")),
            None => Sign::of(Says::Leaks, "the head does worse on the true concepts"),
        };
        // ctl_conditional of a numeric task is small even where concepts are nothing but that number.
        let by_number = carriers(curve, "ctl_conditional_r2");
        let concepts = if by_number.is_empty() { carriers(curve, "ctl_conditional") } else { by_number };
        return Sign { concepts, ..sign.by(drop) };
    }
    let leakage = leakage(curve);
    if let Ok(Leakage::Shown { evidence, .. }) = &leakage {
        let deciding = first_beyond(evidence);
        let why = match interventions {
            Ok(Interventions::Hold(..)) if !has_vectors(curve) => Some(
                match is_found(&concepts_ignored(curve)) {
                    true => "activations hold extra information, and predictions do not rest on the concepts",
                    false => "activations hold extra information, harmless once concepts are corrected",
                }
                .to_owned(),
            ),
            Ok(Interventions::FallToReference(_)) => Some(
                "activations hold extra information, and interventions reach all that the true concepts allow"
                    .to_owned(),
            ),
            _ if has_vectors(curve) => Some(UNUSED_IN_EMBEDDINGS.to_owned()),
            _ if may_be_noisy => Some(format!("activations hold extra information, but {MAY_BE_NOISY}")),
            Err(_) => {
                let of = match concepts(curve) {
                    Ok(concepts) if concepts.well => Some("activations of well-learnt concepts"),
                    Ok(concepts) if concepts.poor => None,
                    _ => Some("activations of concepts that may be well learnt"),
                };
                let untold = untold(curve, &interventions);
                of.map(|of| {
                    format!("{of} hold extra information, and whether the head rests on it is not known: {untold}")
                })
            }
            _ => None,
        };
        let concepts = carriers(curve, deciding.as_ref().map_or("", |one| &one.score));
        let sign = why.map_or(Sign::of(Says::Leaks, ""), |why| Sign::of(Says::Maybe, why));
        return Sign { concepts, ..sign.by(deciding) };
    }
    let of_vectors =
        || [over_expressive_encoding, alignment_leakage].map(|rule| rule(curve)).into_iter().find(is_found);
    if has_vectors(curve)
        && let Some(Ok(reading)) = of_vectors()
    {
        return Sign::of(Says::Maybe, UNUSED_IN_EMBEDDINGS).by(reading.evidence.first().cloned());
    }
    if let Some(reading) = beyond_true_concepts(curve).ok().filter(|reading| reading.found) {
        return Sign::of(Says::Maybe, "the task is predicted beyond the true concepts")
            .by(reading.evidence.first().cloned());
    }
    let evidence = match leakage {
        Err(why) => return Sign::of(Says::Unknown, why),
        Ok(Leakage::NotSeen(evidence, _) | Leakage::Shown { evidence, .. }) => evidence,
    };
    // A mean over many concepts hides the one that the head may rest on.
    let highest = curve.of_concepts("ctl_conditional").pop().filter(|(value, _)| *value > CTL_OF_ONE);
    let highest = highest.filter(|_| !holds(&interventions) && curve.newest().labelled_rows() as f64 >= ROWS);
    let reaches = |one: &&Evidence| one.limit.is_some_and(|limit| one.high() >= limit);
    let reaching: Vec<&Evidence> = evidence.iter().filter(reaches).collect();
    let sign = match reaching.first() {
        Some(first) => {
            let names = reaching.iter().map(|one| named(&one.score)).collect::<Vec<_>>().join(", ");
            let reason = match reaching.len() {
                1 => format!("the interval of {names} reaches the limit"),
                _ => format!("the intervals of {names} reach their limits"),
            };
            let (says, reason) = match is_found(&too_few_rows(curve)) {
                true => (Says::Unknown, format!("{} are too few: {reason}", curve.newest().labelled_rows_in_words())),
                false => (Says::Maybe, reason),
            };
            Sign::of(says, reason).by(Some((*first).clone()))
        }
        None => unless_unlearnt(curve, &interventions, evidence),
    };
    match highest {
        Some((value, name)) => Sign {
            says: Says::Maybe,
            reason: format!("the activation of {name} alone reveals {value:.2} of the task beyond its concept"),
            concepts: vec![name.to_owned()],
            ..sign
        },
        None => sign,
    }
}

/// The response to interventions, or why it is not known.
type Known = Result<Interventions, String>;

fn holds(interventions: &Known) -> bool {
    matches!(interventions, Ok(Interventions::Hold(..) | Interventions::FallToReference(_)))
}

/// Returns the sign of an evaluation whose concepts were trained without the task. They did not learn from it what they
/// hold beyond their labels.
fn without_the_task(curve: &Curve, interventions: &Known) -> Sign {
    if let Ok(Interventions::Fall(evidence)) = interventions {
        let why = "the head does worse on the true concepts, though the concepts were trained without the task";
        return Sign::of(Says::Nothing, why).by(evidence.first().cloned());
    }
    let evidence = match leakage(curve) {
        Err(_) => Vec::new(),
        Ok(Leakage::NotSeen(evidence, _) | Leakage::Shown { evidence, .. }) => evidence,
    };
    let sign = unless_unlearnt(curve, interventions, evidence);
    match sign.says {
        Says::Sound => Sign { reason: "the concepts were trained without the task".into(), ..sign },
        _ => sign,
    }
}

/// Returns the sign of an evaluation whose every number is below its limit.
fn unless_unlearnt(curve: &Curve, interventions: &Known, evidence: Vec<Evidence>) -> Sign {
    let deciding = || {
        let of_drop = |one: &&Evidence| one.score.starts_with("intervention");
        evidence.iter().find(of_drop).or(evidence.first()).cloned()
    };
    let hold = holds(interventions);
    let unlearnt = unlearnt(curve);
    let learnt = concepts(curve);
    let poor = learnt.as_ref().is_ok_and(|concepts| concepts.poor);
    if poor || !unlearnt.is_empty() {
        let what = match &unlearnt[..] {
            [] => "concepts are poorly learnt".to_owned(),
            [one] => format!("the concept {one} is hardly learnt"),
            [_, _, ..] => format!("{} of {} concepts are hardly learnt", unlearnt.len(), curve.run.concept_count()),
        };
        let sign = match hold {
            true => Sign::of(Says::Nothing, what),
            false => Sign::of(Says::Unknown, format!("{what}, and {}", untold(curve, interventions))),
        };
        let measured = ["concept_auc", "concept_accuracy"].into_iter().filter_map(|score| curve.measured(score).ok());
        let lowest = measured.min_by(|a, b| a.value.total_cmp(&b.value)).map(|one| one.beside(CONCEPT_ACCURACY));
        return Sign { concepts: unlearnt, ..sign.by(lowest) };
    }
    if let (Err(why), other) = (curve.measured("ctl_conditional"), curve.measured("ctl_excess")) {
        // With this many classes or this few rows CTL is low whether the model leaks or not, so it is no evidence.
        let is_due = curve.is_due("ctl_conditional");
        let why = match other {
            Err(_) if is_due => Some("leakage to the task was not looked for: task_labels were not logged".to_owned()),
            Err(_) => Some(format!("leakage to the task was not looked for: {why}")),
            Ok(_) => Some(why).filter(|_| !hold && !is_due),
        };
        if let Some(why) = why {
            return Sign::of(Says::Nothing, why).by(deciding());
        }
    }
    let few = (curve.newest().labelled_rows() as f64) < ROWS;
    let well = learnt.as_ref().is_ok_and(|concepts| concepts.well);
    // A head can read in well-learnt activations what hardly raises any score of them.
    let may_collapse = curve.measured("ctl_conditional").is_ok_and(|one| !one.is_below(CTL_UNLEARNT));
    let sign = match (hold, well) {
        _ if few => Sign::of(Says::Nothing, format!("{}, fewer than {ROWS}", curve.newest().labelled_rows_in_words())),
        (true, _) => Sign::of(Says::Sound, ""),
        (false, true) if may_collapse => Sign::of(
            Says::Nothing,
            format!(
                "activations may reveal {CTL_UNLEARNT} of the task beyond concepts, as in models that collapse, and {}",
                untold(curve, interventions)
            ),
        ),
        (false, true) => Sign::of(Says::Sound, untold(curve, interventions)),
        (false, false) => Sign::of(
            Says::Nothing,
            format!("that every concept is well learnt is not shown, and {}", untold(curve, interventions)),
        ),
    };
    // Such predictions leak nothing, and are not explained by the concepts either.
    let ignored = sign.says == Says::Sound && is_found(&concepts_ignored(curve));
    let reason = joined([Some(&*sign.reason), ignored.then_some("predictions do not rest on the concepts")]);
    Sign { reason, says: if ignored { Says::Nothing } else { sign.says }, ..sign.by(deciding()) }
}

/// Returns reasons as one, without the empty ones.
fn joined<'a>(reasons: impl IntoIterator<Item = Option<&'a str>>) -> String {
    reasons.into_iter().flatten().filter(|reason| !reason.is_empty()).collect::<Vec<_>>().join("; ")
}

/// The reason why interventions do not tell how the head does on the true concepts.
fn untold(curve: &Curve, interventions: &Known) -> String {
    match interventions {
        Err(why) if !curve.is_due("intervention_drop") => why.clone(),
        Err(_) => "interventions were not logged".to_owned(),
        Ok(_) => "interventions are not clear".to_owned(),
    }
}

/// The first number beyond its limit: leakage to the task before that between concepts.
fn first_beyond(evidence: &[Evidence]) -> Option<Evidence> {
    evidence.iter().find(|one| one.limit.is_some_and(|limit| one.low() > limit)).cloned()
}

/// Concepts whose own value of a score of leakage is above the limit of the mean, the highest first.
fn carriers(curve: &Curve, score: &str) -> Vec<String> {
    // Joint leakage is of all concepts together.
    let score = if score == "joint_leakage" { "ctl_conditional" } else { score };
    let Some((_, limit, _)) = SHOWN.iter().find(|(id, ..)| *id == score) else { return Vec::new() };
    let highest_first = curve.of_concepts(score).into_iter().rev();
    highest_first.take_while(|(value, _)| value > limit).map(|(_, name)| name.to_owned()).collect()
}

/// Concepts whose activations order their own labels little better than chance, the worst first.
fn unlearnt(curve: &Curve) -> Vec<String> {
    let worst_first = curve.of_concepts("concept_auc").into_iter();
    worst_first.take_while(|(auc, _)| *auc < UNLEARNT_AUC).map(|(_, name)| name.to_owned()).collect()
}
