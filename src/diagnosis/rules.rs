//! The table of rules, and their limits.

use crate::run::{ActivationKind, LabelKind};

use super::curve::{Curve, Measured, measured_at};
use super::judgement::{Evidence, Judgement, Reading};

/// Leakage scores above these count as leakage. This project's own, from the recorded runs in docs/alerts.md after their
/// last epoch: with λ = 0.01, 39 of 40 are above one of them with their whole interval; with λ of 1 or 5 none of 80 is,
/// and the highest CTL is 0.148.
const CTL: f64 = 0.15;
const ICL: f64 = 0.05;
/// Intervention score that counts as leakage. In Table 1 of the paper the models that leak have 0.139 or more, the
/// others 0.000; this project's own within that gap.
const INTERVENTION: f64 = 0.05;
/// Concepts below this are poorly learnt. This project's own: the well supervised models of Table 1 have 0.992 or more;
/// recorded runs have 0.87 at most with λ = 0.01, and 0.97 or more with λ = 5.
const LEARNT: f64 = 0.9;
/// Halfway between the highest reference accuracy of an incomplete concept set (0.840) and the lowest of a complete one
/// (0.999) in Table 3 of the paper.
const COMPLETE: f64 = 0.92;
/// Half of the least drop in reference accuracy that a misspecified head has in Table 3 of the paper (1.000 to 0.859).
const MISSPECIFIED: f64 = 0.07;
/// Share of the task's entropy that the vector of a single concept may carry. This project's own: with two concepts or
/// more, more than half each on average is more than any division of the task among them.
const VECTOR: f64 = 0.5;
/// Zero corresponds to no alignment leakage (Section 8 of the paper).
const ALIGNMENT: f64 = 0.0;
/// Jump of the tie fraction, as in the default alert.
const TIES: f64 = 0.2;
/// Rows, as in the default alert.
const ROWS: f64 = 500.0;

/// One thing that may be wrong with a run.
pub struct Rule {
    /// `[a-z_]+`.
    pub id: &'static str,
    /// What is wrong.
    pub title: &'static str,
    /// What is examined, in two words.
    pub subject: &'static str,
    /// Where it comes from: a section of the paper, or this project.
    pub source: &'static str,
    /// When it holds, and where its limits come from.
    pub help: &'static str,
    pub judge: fn(&Curve) -> Judgement,
}

/// All rules.
pub const RULES: &[Rule] = &[
    Rule {
        id: "insufficient_supervision",
        title: "Insufficient concept supervision",
        subject: "Concept supervision",
        source: "arXiv:2504.14094, Section 7",
        help: "There is leakage (`ctl_excess` above 0.15, `icl_excess` above 0.05 or `intervention_score` above 0.05), \
               and concepts are poorly learnt (`concept_accuracy` or `concept_auc` below 0.9). The limits are this \
               project's own.",
        judge: insufficient_supervision,
    },
    Rule {
        id: "over_expressive_encoding",
        title: "Over-expressive concept encoding",
        subject: "Concept encoding",
        source: "arXiv:2504.14094, Sections 7 and 9",
        help: "Activations are logits of binary concepts, concepts are well learnt and there is leakage all the same \
               (limits as above); or concepts are vectors, each of which carries more than half of the task's \
               entropy (`embedding_ct` above 0.5). The limits are this project's own.",
        judge: over_expressive_encoding,
    },
    Rule {
        id: "incomplete_concept_set",
        title: "Incomplete concept set",
        subject: "Concept set",
        source: "arXiv:2504.14094, Sections 7 and 9",
        help: "Neither a linear nor an MLP head on the true concepts reaches an accuracy of 0.92 \
               (`reference_accuracy_linear`, `reference_accuracy_mlp`): halfway between the incomplete and the \
               complete sets of Table 3. A task whose labels are noisy looks the same.",
        judge: incomplete_concept_set,
    },
    Rule {
        id: "misspecified_head",
        title: "Misspecified head",
        subject: "Task head",
        source: "arXiv:2504.14094, Sections 7 and 9",
        help: "On the true concepts an MLP head is more accurate than the run's own (its `reference_task_accuracy`, \
               else a linear one) by more than 0.07: half of the least drop in Table 3.",
        judge: misspecified_head,
    },
    Rule {
        id: "alignment_leakage",
        title: "Alignment leakage",
        subject: "Alignment",
        source: "arXiv:2504.14094, Section 8",
        help: "`alignment_leakage` is above 0, its value without alignment leakage.",
        judge: alignment_leakage,
    },
    Rule {
        id: "saturation",
        title: "Saturation instead of leakage",
        subject: "Saturation",
        source: "this project",
        help: "`icl_excess` has risen since its lowest evaluation while the tie fraction moved by more than 0.2 and \
               neither `ctl_excess` nor `icl_label_excess`, whose normalisers ties do not move, has risen. The limit is \
               that of the default alert.",
        judge: saturation,
    },
    Rule {
        id: "too_few_rows",
        title: "Sample too small",
        subject: "Sample size",
        source: "this project",
        help: "Fewer than 500 rows, as for the default alert; or the interval of `ctl_excess` or `icl_excess` reaches \
               at least as far to each side as the limit of the score, 0.15 and 0.05.",
        judge: too_few_rows,
    },
];

/// Whether any score shows leakage, with the numbers of all that are known. Errors say why none is.
fn leakage(curve: &Curve) -> Result<(bool, Vec<Evidence>), String> {
    let saturated = matches!(saturation(curve), Judgement::Found(_));
    // For embeddings the intervention score carries no information about leakage (Section 4 of the paper).
    let vectors = curve.measured("embedding_ct").is_ok();
    let limits =
        [("ctl_excess", CTL, true), ("icl_excess", ICL, !saturated), ("intervention_score", INTERVENTION, !vectors)];
    let (mut leaks, mut evidence, mut why) = (false, Vec::new(), Vec::new());
    for (score, limit, counts) in limits {
        match curve.measured(score) {
            Ok(measured) if counts => {
                leaks |= measured.is_above(limit);
                evidence.push(measured.beside(limit));
            }
            Ok(_) => {}
            Err(reason) => why.push(reason),
        }
    }
    if evidence.is_empty() { Err(why.join("; ")) } else { Ok((leaks, evidence)) }
}

/// Whether concepts are poorly learnt, with the numbers. Errors say why that is unknown.
fn poorly_learnt(curve: &Curve) -> Result<(bool, Vec<Evidence>), String> {
    let measured = ["concept_accuracy", "concept_auc"].map(|score| curve.measured(score));
    if let [Err(accuracy), Err(auc)] = &measured {
        return Err(format!("{accuracy}; {auc}"));
    }
    let known: Vec<Measured> = measured.into_iter().flatten().collect();
    Ok((known.iter().any(|one| one.is_below(LEARNT)), known.iter().map(|one| one.beside(LEARNT)).collect()))
}

fn judged(found: bool, text: impl Into<String>, evidence: Vec<Evidence>) -> Judgement {
    let reading = Reading { text: text.into(), evidence };
    if found { Judgement::Found(reading) } else { Judgement::Absent(reading) }
}

fn insufficient_supervision(curve: &Curve) -> Judgement {
    let ((leaks, mut evidence), (poor, concepts)) = match (leakage(curve), poorly_learnt(curve)) {
        (Ok(leakage), Ok(concepts)) => (leakage, concepts),
        (Err(why), _) | (_, Err(why)) => return Judgement::Unknown(why),
    };
    evidence.extend(concepts);
    let text = match (leaks, poor) {
        (true, true) => "concepts are poorly learnt and leak: raise the weight of the concept loss",
        (true, false) => "there is leakage, but the concepts are well learnt",
        (false, true) => "concepts are poorly learnt, but there is no leakage",
        (false, false) => "there is no leakage, and the concepts are well learnt",
    };
    judged(leaks && poor, text, evidence)
}

fn over_expressive_encoding(curve: &Curve) -> Judgement {
    let scalar = curve.run.concept_count() < 2;
    if let (Ok(vector), false) = (curve.measured("embedding_ct"), scalar) {
        let found = vector.is_above(VECTOR);
        let text = match found {
            true => "concepts are vectors, which hold more than the annotated concepts do",
            false => "concepts are vectors, but do not clearly carry more than half of the task's entropy each",
        };
        return judged(found, text, vec![vector.beside(VECTOR)]);
    }
    let ((leaks, mut evidence), (poor, concepts)) = match (leakage(curve), poorly_learnt(curve)) {
        (Ok(leakage), Ok(concepts)) => (leakage, concepts),
        (Err(why), _) | (_, Err(why)) => return Judgement::Unknown(why),
    };
    evidence.extend(concepts);
    let binary = curve.run.concepts.iter().any(|concept| !concept.is_categorical())
        && curve.run.concept_label_kind == LabelKind::Class;
    match (curve.run.activation_kind, binary) {
        (ActivationKind::Logit, true) => {
            let text = match (leaks, poor) {
                (true, false) => "activations are logits of binary concepts: probabilities leave less room",
                (true, true) => "activations are logits, but poorly learnt concepts explain the leakage",
                (false, _) => "activations are logits of binary concepts, but there is no leakage",
            };
            judged(leaks && !poor, text, evidence)
        }
        (kind, _) => {
            let name = match kind {
                ActivationKind::Hard => "hard",
                ActivationKind::Probability => "probabilities",
                ActivationKind::Logit => "logits",
                ActivationKind::Continuous => "continuous",
            };
            judged(false, format!("activations are {name}, as the concepts require"), evidence)
        }
    }
}

/// Both reference heads.
fn heads(curve: &Curve) -> Result<(Measured, Measured), String> {
    Ok((curve.measured("reference_accuracy_linear")?, curve.measured("reference_accuracy_mlp")?))
}

fn incomplete_concept_set(curve: &Curve) -> Judgement {
    let (linear, mlp) = match heads(curve) {
        Ok(heads) => heads,
        Err(why) => return Judgement::Unknown(why),
    };
    let short = linear.is_below(COMPLETE) && mlp.is_below(COMPLETE);
    let mut evidence = vec![linear.beside(COMPLETE), mlp.beside(COMPLETE)];
    evidence.extend(curve.measured("task_accuracy").ok().map(|accuracy| accuracy.beside(None)));
    let text = match short {
        true => "the true concepts do not determine the task: what a model predicts beyond them is leakage",
        false => "the true concepts determine the task",
    };
    judged(short, text, evidence)
}

fn misspecified_head(curve: &Curve) -> Judgement {
    let (linear, mlp) = match heads(curve) {
        Ok(heads) => heads,
        Err(why) => return Judgement::Unknown(why),
    };
    let constants = &curve.run.constants;
    let (own, whose) = match constants.reference_task_accuracy {
        Some(stated) => (
            Measured::of("reference_task_accuracy", stated, curve.newest().step),
            "the run's own head, by its stated accuracy,",
        ),
        None if !constants.head_weights.is_empty() => (linear, "the run's head, which is linear,"),
        None => (linear, "a linear head, if that is what the run has,"),
    };
    let gap = mlp.less(&own);
    let short = gap.is_above(MISSPECIFIED);
    let text = match short {
        true => format!("{whose} cannot represent how the task depends on the true concepts, and an MLP can"),
        false => format!("{whose} represents how the task depends on the true concepts as well as an MLP"),
    };
    judged(short, text, vec![gap.beside(MISSPECIFIED), own.beside(None), mlp.beside(None)])
}

fn alignment_leakage(curve: &Curve) -> Judgement {
    match curve.measured("alignment_leakage") {
        Ok(measured) => {
            let found = measured.is_above(ALIGNMENT);
            let text = match found {
                true => "embeddings that agree with the true concept predict the task better than those that do not",
                false => {
                    "embeddings that agree with the true concept predict the task no better than those that do not"
                }
            };
            judged(found, text, vec![measured.beside(ALIGNMENT)])
        }
        Err(why) => Judgement::Unknown(why),
    }
}

fn saturation(curve: &Curve) -> Judgement {
    let newest = curve.newest();
    let now = match measured_at(newest, "icl_excess") {
        Some(now) => now,
        None => {
            return Judgement::Unknown(
                curve.measured("icl_excess").err().unwrap_or_else(|| "the newest evaluation has no icl_excess".into()),
            );
        }
    };
    let with = curve.alike().filter_map(|point| Some((point, measured_at(point, "icl_excess")?)));
    let lowest = with.min_by(|(_, a), (_, b)| a.value.total_cmp(&b.value));
    // The newest is one of them.
    let Some((before, low)) = lowest else { return Judgement::Unknown("needs icl_excess".into()) };
    if before.step == newest.step {
        let ties = Measured::of("tie_fraction", newest.tie_fraction, newest.step);
        return judged(false, "icl_excess is at its lowest", vec![now.beside(None), ties.beside(None)]);
    }
    let since = |score: &str| {
        let change = measured_at(newest, score)?.less(&measured_at(before, score)?);
        Some(change.named(format!("change of {score}")))
    };
    let rise = now.less(&low).named("change of icl_excess");
    let ties = Measured::of("change of tie_fraction", newest.tie_fraction - before.tie_fraction, newest.step);
    let others: Vec<Measured> = ["ctl_excess", "icl_label_excess"].into_iter().filter_map(since).collect();
    let mut evidence = vec![rise.beside(0.0), ties.beside(TIES)];
    evidence.extend(others.iter().map(|change| change.beside(0.0)));
    if others.is_empty() {
        return Judgement::Unknown(
            "needs ctl_excess or icl_label_excess, to distinguish saturation from leakage".into(),
        );
    }
    let moved = ties.value.abs() > TIES;
    let leaks = others.iter().any(|change| change.is_above(0.0));
    let text = match (rise.is_above(0.0), moved, leaks) {
        (true, true, false) => {
            format!("since step {} icl_excess has risen with the ties, and no other leakage score", before.step)
        }
        (true, true, true) => {
            format!("since step {} ties have moved, and leakage has risen by other scores as well", before.step)
        }
        (true, false, _) => format!("since step {} icl_excess has risen, and ties have not moved", before.step),
        (false, ..) => format!("icl_excess has not risen since step {}, its lowest", before.step),
    };
    judged(rise.is_above(0.0) && moved && !leaks, text, evidence)
}

fn too_few_rows(curve: &Curve) -> Judgement {
    let newest = curve.newest();
    let rows = Measured::of("rows", newest.rows as f64, newest.step);
    let limits = [("ctl_excess", CTL), ("icl_excess", ICL)];
    let wide: Vec<(Measured, f64)> = limits
        .into_iter()
        .filter_map(|(score, limit)| {
            let measured = curve.measured(score).ok()?;
            let half = measured.half_width();
            Some((Measured::of(&format!("half interval of {score}"), half, newest.step), limit))
        })
        .collect();
    let few = rows.value < ROWS;
    let unclear = wide.iter().any(|(half, limit)| half.value > *limit);
    let mut evidence = vec![rows.beside(ROWS)];
    evidence.extend(wide.iter().map(|(half, limit)| half.beside(*limit)));
    let text = match (few, unclear) {
        (true, _) => "the sample is small: evaluate more rows before you draw conclusions",
        (false, true) => "the standard errors are as large as the limits: evaluate more rows",
        (false, false) => return judged(false, format!("{} rows are enough for these limits", newest.rows), evidence),
    };
    judged(few || unclear, text, evidence)
}
