//! Whether a run leaks, in one word, and since when: what the diagnosis concludes at its newest evaluations.
//!
//! An evaluation *leaks* where the diagnosis shows leakage. A run leaks from the second such evaluation in a row on; one
//! alone, or an interval that reaches a limit, is *possible* leakage. The advice to stop always counts as leakage, so the
//! two cannot contradict each other.

use serde::{Deserialize, Serialize};

use crate::limits::{ROWS, WARM_UP};
use crate::point::Point;
use crate::run::Run;

use super::causes::{
    Leakage, alignment_leakage, beyond_true_concepts, leakage, over_expressive_encoding, removable_information,
};
use super::curve::{Curve, INTERVAL};
use super::judgement::{Evidence, Judgement};
use super::leakage::{Interventions, concepts, interventions};
use super::sample::{OF_OTHERS, labels_in_another_order, too_few_rows};

/// Evaluations that a diagnosis looks back over.
pub const LOOKED_BACK: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Leaking,
    PossiblyLeaking,
    Sound,
    /// The first evaluations of a run that still trains: models pass through every limit while they learn.
    TooEarly,
    CannotTell,
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
    pub kind: Kind,
    /// The evaluation at which the leakage began that lasts until the newest; only where it leaks.
    pub since: Option<Moment>,
    /// Leakage began at `since` or before: no evaluation before it was looked at.
    pub or_earlier: bool,
    /// The newest sound evaluation before the leakage, such as one with a checkpoint to go back to.
    pub last_sound: Option<Moment>,
    /// What limits the verdict, or why there is none; empty where nothing is to be added.
    pub reason: String,
    /// The alert rule that advises to stop, if one does.
    pub stop_advised_by: Option<String>,
}

/// An alert rule that advises to stop now, and the step at which it began to fire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopAdvised {
    pub rule: String,
    pub since: u64,
}

/// What one evaluation shows.
enum Sign {
    Leaks,
    Maybe(String),
    Sound(&'static str),
    Unknown(String),
}

/// The verdict on finished evaluations, oldest first. `whole`: no earlier ones exist. `None` without any.
pub fn verdict(
    run: &Run,
    points: &[Point],
    whole: bool,
    finished: bool,
    advised: Option<&StopAdvised>,
) -> Option<Verdict> {
    let newest = points.len().checked_sub(1)?;
    let sign = |at: usize| {
        let from = (at + 1).saturating_sub(LOOKED_BACK);
        Curve::new(run, &points[from..=at]).map_or(Sign::Unknown(String::new()), |curve| sign(&curve))
    };
    let of = |kind, reason: String| Verdict {
        kind,
        since: None,
        or_earlier: false,
        last_sound: None,
        reason,
        stop_advised_by: advised.map(|advised| advised.rule.clone()),
    };
    let early = !finished && whole && points.len() <= WARM_UP as usize;
    if early && advised.is_none() {
        let reason = format!("{} of {} evaluations that are needed", points.len(), WARM_UP + 1);
        return Some(of(Kind::TooEarly, reason));
    }
    let now = sign(newest);
    let (stretch, earlier) = match now {
        Sign::Leaks => stretch(newest, sign),
        _ => (Stretch { start: newest, leaking: 0 }, None),
    };
    let last_sound = |before: usize| {
        let sound = |at: &usize| matches!(sign(*at), Sign::Sound(_));
        (0..before).rev().find(sound).map(|at| Moment::of(&points[at]))
    };
    let lasts = stretch.leaking >= 2 || (stretch.leaking == 1 && finished && whole && newest == 0);
    if lasts || advised.is_some() {
        let by_rule = advised.and_then(|advised| points.iter().position(|point| point.step >= advised.since));
        let start = if stretch.leaking > 0 { stretch.start } else { newest };
        let start = start.min(by_rule.unwrap_or(start));
        return Some(Verdict {
            since: Some(Moment::of(&points[start])),
            or_earlier: start == 0 && !whole,
            last_sound: last_sound(earlier.unwrap_or(start).min(start)),
            ..of(Kind::Leaking, String::new())
        });
    }
    Some(match now {
        Sign::Leaks => Verdict {
            last_sound: last_sound(newest),
            ..of(Kind::PossiblyLeaking, "in the newest evaluation only, so far".to_owned())
        },
        Sign::Maybe(why) => Verdict { last_sound: last_sound(newest), ..of(Kind::PossiblyLeaking, why) },
        Sign::Sound(remark) => of(Kind::Sound, remark.to_owned()),
        Sign::Unknown(why) => of(Kind::CannotTell, why),
    })
}

/// Evaluations that leak up to the newest; those that show nothing either way do not end it.
struct Stretch {
    start: usize,
    leaking: usize,
}

/// The stretch that ends at the newest evaluation, and the evaluation that ends it.
fn stretch(newest: usize, sign: impl Fn(usize) -> Sign) -> (Stretch, Option<usize>) {
    let mut stretch = Stretch { start: newest, leaking: 0 };
    for at in (0..=newest).rev() {
        match sign(at) {
            Sign::Leaks => stretch = Stretch { start: at, leaking: stretch.leaking + 1 },
            Sign::Unknown(_) => {}
            Sign::Maybe(_) | Sign::Sound(_) => return (stretch, Some(at + 1)),
        }
    }
    (stretch, None)
}

/// What the newest evaluation of the curve shows, by the rules of the diagnosis.
fn sign(curve: &Curve) -> Sign {
    let found = |judgement: Judgement| matches!(judgement, Judgement::Found(_));
    let rows = curve.newest().rows;
    if (rows as f64) < ROWS {
        return Sign::Unknown(format!("{rows} rows, needs {ROWS}"));
    }
    if found(labels_in_another_order(curve)) {
        return Sign::Unknown(OF_OTHERS.to_owned());
    }
    if found(removable_information(curve)) {
        return Sign::Maybe("activations hold extra information, harmless once concepts are corrected".to_owned());
    }
    let leakage = leakage(curve);
    if matches!(leakage, Leakage::Shown { .. })
        || found(over_expressive_encoding(curve))
        || found(alignment_leakage(curve))
    {
        return Sign::Leaks;
    }
    if found(beyond_true_concepts(curve)) {
        return Sign::Maybe("the task is predicted beyond the true concepts".to_owned());
    }
    let evidence = match leakage {
        Leakage::Unknown(why) => return Sign::Unknown(why),
        Leakage::NotSeen(evidence, _) | Leakage::Shown { evidence, .. } => evidence,
    };
    let reaches = |one: &&Evidence| {
        one.limit.is_some_and(|limit| one.value + INTERVAL * one.standard_error.unwrap_or(0.0) >= limit)
    };
    let reaching: Vec<&str> = evidence.iter().filter(reaches).map(|one| one.score.as_str()).collect();
    match (reaching.is_empty(), found(too_few_rows(curve))) {
        (false, true) => {
            Sign::Unknown(format!("{rows} rows: the interval of {} is as wide as the limit", reaching.join(", ")))
        }
        (false, false) => Sign::Maybe(format!("the interval of {} reaches the limit", reaching.join(", "))),
        (true, _) if concepts(curve).is_ok_and(|concepts| concepts.poor) => {
            Sign::Sound("but concepts are poorly learnt")
        }
        (true, _) if matches!(interventions(curve), Interventions::Unknown(_)) => {
            Sign::Sound("interventions were not logged")
        }
        (true, _) => Sign::Sound(""),
    }
}
