//! Conversions between the protocol's messages and the core's types. Faults name the protocol's fields.

use std::time::Duration;

use crate::history::RunOutcome;
use crate::server::pass_outcomes::{Outcome as How, Settled};
use crate::server::run_state;
use leakage::alert;
use leakage::diagnosis::{Assessment, Evidence, Moment, State, Verdict, VerdictState};
use leakage::field_error::{FieldError, in_short};
use leakage::name::{check_name, check_text};
use leakage::point::{Outcome, Point};
use leakage::run::{
    ActivationColumns, ActivationKind, Concept, LabelKind, Run, RunConstants, RunFields, Task, Training,
};
use leakage::sample::WindowKind;
use leakage::tensor::{DataType, Tensor, TensorName};

use super::proto;
use super::proto::run_outcome::{Failed, Finished, Kind, StoppedOnAdvice};

/// Upper limit of a launch's restart count; anything larger is a mistake of the launcher.
pub const MOST_RESTARTS: u32 = i32::MAX as u32;
/// Longest timeout of a call.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Most characters of the message of an exception.
const MOST_OF_MESSAGE: usize = 500;

pub fn run(message: proto::Run) -> Result<Run, FieldError> {
    let concepts = message.concepts.into_iter().enumerate().map(|(i, c)| {
        Ok(Concept {
            activation_kind: activation_kind(&format!("run.concepts[{i}].activation_kind"), c.activation_kind)?,
            label_kind: label_kind(&format!("run.concepts[{i}].label_kind"), c.label_kind)?,
            name: c.name,
            cardinality: c.cardinality,
        })
    });
    let tasks = message.tasks.into_iter().enumerate().map(|(i, t)| {
        let label_kind = label_kind(&format!("run.tasks[{i}].label_kind"), t.label_kind)?;
        Ok(Task { name: t.name, cardinality: t.cardinality, label_kind })
    });
    let fields = RunFields {
        concepts: concepts.collect::<Result<_, FieldError>>()?,
        activation_kind: activation_kind("run.activation_kind", message.activation_kind)?.unwrap_or_default(),
        concept_label_kind: label_kind("run.concept_label_kind", message.concept_label_kind)?.unwrap_or_default(),
        task_label_kind: label_kind("run.task_label_kind", message.task_label_kind)?.unwrap_or_default(),
        name: message.name,
        world_size: message.world_size,
        missing_concept_labels: message.missing_concept_labels,
        tasks: tasks.collect::<Result<_, FieldError>>()?,
        missing_task_labels: message.missing_task_labels,
        constants: message.constants.map(constants).unwrap_or_default(),
        labels: message.labels.into_iter().collect(),
        activation_columns: stated::<proto::ActivationColumns, _>(
            "run.activation_columns",
            message.activation_columns,
            2,
        )?
        .unwrap_or(ActivationColumns::OnePerConcept),
        latents: (message.latents > 0).then_some(message.latents),
        training: stated::<proto::Training, _>("run.training", message.training, 3)?.unwrap_or(Training::Joint),
        reference: (!message.reference.is_empty()).then_some(message.reference),
    };
    Run::try_from(fields)
}

/// Returns the kind that a number states; `None` for 0, which states none.
fn stated<Message, Own>(field: &str, number: i32, most: u32) -> Result<Option<Own>, FieldError>
where
    Message: TryFrom<i32> + Into<Option<Own>>,
{
    let message = Message::try_from(number);
    message.map(Into::into).map_err(|_| FieldError::new(field, format!("got {number}, expected 0 to {most}")))
}

fn activation_kind(field: &str, number: i32) -> Result<Option<ActivationKind>, FieldError> {
    stated::<proto::ActivationKind, _>(field, number, 4)
}

fn label_kind(field: &str, number: i32) -> Result<Option<LabelKind>, FieldError> {
    stated::<proto::LabelKind, _>(field, number, 2)
}

fn constants(message: proto::RunConstants) -> RunConstants {
    let size = |height, width| (height > 0 || width > 0).then_some((height, width));
    RunConstants {
        reference_task_accuracy: message.reference_task_accuracy,
        concept_weights: message.concept_weights,
        head_weights: message.head_weights,
        head_bias: message.head_bias,
        linear_head: message.linear_head,
        image_size: size(message.image_height, message.image_width),
        box_size: size(message.box_height, message.box_width),
        concept_parts: message.concept_parts.into_iter().map(|concept| concept.parts).collect(),
        concept_score_weight: message.concept_score_weight,
        activity_threshold: message.activity_threshold,
        active_top_k: message.active_top_k,
        clarity_weights: message.clarity_weights,
        intervention_counts: message.intervention_counts,
    }
}

pub fn run_message(run: &Run) -> proto::Run {
    let constants = &run.constants;
    let (image_height, image_width) = constants.image_size.unwrap_or_default();
    let (box_height, box_width) = constants.box_size.unwrap_or_default();
    let activation_kind = |kind| proto::ActivationKind::from(kind).into();
    let label_kind = |kind| proto::LabelKind::from(kind).into();
    let concept = |c: &Concept| proto::Concept {
        name: c.name.clone(),
        cardinality: c.cardinality,
        activation_kind: c.activation_kind.map_or(0, activation_kind),
        label_kind: c.label_kind.map_or(0, label_kind),
    };
    let task = |t: &Task| proto::Task {
        name: t.name.clone(),
        cardinality: t.cardinality,
        label_kind: t.label_kind.map_or(0, label_kind),
    };
    proto::Run {
        name: run.name.clone(),
        concepts: run.concepts.iter().map(concept).collect(),
        activation_kind: activation_kind(run.activation_kind),
        concept_label_kind: label_kind(run.concept_label_kind),
        task_label_kind: label_kind(run.task_label_kind),
        world_size: run.world_size,
        training: proto::Training::from(run.training).into(),
        reference: run.reference.clone().unwrap_or_default(),
        missing_concept_labels: run.missing_concept_labels,
        tasks: run.tasks.iter().map(task).collect(),
        missing_task_labels: run.missing_task_labels,
        constants: Some(proto::RunConstants {
            reference_task_accuracy: constants.reference_task_accuracy,
            concept_weights: constants.concept_weights.clone(),
            head_weights: constants.head_weights.clone(),
            head_bias: constants.head_bias.clone(),
            linear_head: constants.linear_head,
            image_height,
            image_width,
            box_height,
            box_width,
            concept_parts: constants
                .concept_parts
                .iter()
                .map(|parts| proto::ConceptParts { parts: parts.clone() })
                .collect(),
            concept_score_weight: constants.concept_score_weight,
            activity_threshold: constants.activity_threshold,
            active_top_k: constants.active_top_k,
            clarity_weights: constants.clarity_weights.clone(),
            intervention_counts: constants.intervention_counts.clone(),
        }),
        labels: run.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        activation_columns: proto::ActivationColumns::from(run.activation_columns).into(),
        latents: run.latents.unwrap_or_default(),
    }
}

pub fn tensor(message: proto::Tensor) -> Result<Tensor, FieldError> {
    let Some(name) = TensorName::parse(&message.name) else {
        let known: Vec<&str> = TensorName::ALL.iter().map(|name| name.text()).collect();
        return Err(FieldError::new(
            "tensors.name",
            format!("got '{}', expected one of {}", in_short(&message.name), known.join(", ")),
        ));
    };
    use proto::DataType as Message;
    let dtype = match Message::try_from(message.dtype) {
        Ok(Message::Float16) => DataType::Float16,
        Ok(Message::Bfloat16) => DataType::BFloat16,
        Ok(Message::Float32) => DataType::Float32,
        Ok(Message::Float64) => DataType::Float64,
        Ok(Message::Int8) => DataType::Int8,
        Ok(Message::Int16) => DataType::Int16,
        Ok(Message::Int32) => DataType::Int32,
        Ok(Message::Int64) => DataType::Int64,
        Ok(Message::Uint8) => DataType::UInt8,
        Ok(Message::Uint16) => DataType::UInt16,
        Ok(Message::Uint32) => DataType::UInt32,
        Ok(Message::Uint64) => DataType::UInt64,
        Ok(Message::Bool) => DataType::Bool,
        Ok(Message::String) if !message.data.is_empty() => {
            let fault = format!("got {} bytes with strings, expected none", message.data.len());
            return Err(FieldError::new(format!("tensors.{name}.data"), fault));
        }
        Ok(Message::String) => return Tensor::texts(name, &message.shape, message.texts),
        Ok(Message::Unspecified) | Err(_) => {
            return Err(FieldError::new(
                format!("tensors.{name}.dtype"),
                format!("got {}, expected a data type from 1 to 14", message.dtype),
            ));
        }
    };
    if !message.texts.is_empty() {
        let fault = format!("got {} strings with {}, expected none", message.texts.len(), dtype.name());
        return Err(FieldError::new(format!("tensors.{name}.texts"), fault));
    }
    Tensor::numbers(name, dtype, &message.shape, message.data)
}

pub fn settled(settled: &Settled) -> proto::Settled {
    proto::Settled {
        run: settled.key.run.to_string(),
        split: settled.key.split.to_string(),
        step: settled.at.step.get(),
        ordinal: settled.at.ordinal.get(),
        outcome: proto::settled::Outcome::from(settled.outcome).into(),
        reason: settled.reason.clone(),
    }
}

pub fn window(kind: WindowKind) -> proto::WindowKind {
    kind.into()
}

/// A point as a message; with `matrices` it includes the k × k matrices.
pub fn point(point: &Point, matrices: bool) -> proto::Point {
    proto::Point {
        run: point.run.to_string(),
        split: point.split.to_string(),
        step: point.step,
        epoch: point.epoch,
        time: point.time,
        rows: point.rows,
        rows_seen: point.rows_seen,
        repeated_rows: point.repeated_rows,
        provisional: point.provisional,
        incomplete: point.incomplete,
        tie_fraction: point.tie_fraction,
        warnings: point.warnings.clone(),
        estimator: point.estimator.clone(),
        neighbours: point.neighbours,
        seed: point.seed,
        catalogue_version: point.catalogue_version,
        seconds: point.seconds,
        scores: point.scores.iter().map(|(id, outcome)| score(id, outcome, matrices)).collect(),
        concept_rows: point.concept_rows.clone(),
        ordinal: point.ordinal.get(),
    }
}

fn score(id: &str, outcome: &Outcome, matrices: bool) -> proto::Score {
    // The protocol marks undefined parts with NaN, because repeated numbers in protobuf have no null.
    let number = |value: &Option<f64>| value.unwrap_or(f64::NAN);
    let matrix = outcome.matrix().filter(|_| matrices).unwrap_or_default();
    let matrix_q = outcome.matrix_q().filter(|_| matrices).unwrap_or_default();
    let curve = outcome.value().and_then(|value| value.curve.as_deref()).unwrap_or_default();
    let left_out = outcome.left_out().cloned().unwrap_or_default();
    proto::Score {
        id: id.to_owned(),
        value: outcome.value().map(|value| value.value),
        undefined: outcome.why().unwrap_or_default().to_owned(),
        standard_error: outcome.value().and_then(|value| value.standard_error),
        per_concept: outcome.per_concept().unwrap_or_default().iter().map(number).collect(),
        matrix: matrix.iter().flatten().map(number).collect(),
        age: outcome.age(),
        left_out: left_out.concepts,
        left_out_why: left_out.why,
        left_out_pairs: left_out.pairs,
        left_out_of: left_out.of,
        p_value: outcome.p_value(),
        per_concept_q: outcome.per_concept_q().unwrap_or_default().iter().map(number).collect(),
        matrix_q: matrix_q.iter().flatten().map(number).collect(),
        curve: curve.iter().map(|&(x, y)| proto::CurvePoint { x, y }).collect(),
        per_task: outcome.per_task().unwrap_or_default().iter().map(|of_task| score("", of_task, false)).collect(),
    }
}

/// Converts a timeout in seconds. Errors outside 0 to an hour.
pub fn timeout(field: &str, seconds: f64) -> Result<Duration, FieldError> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(wait) if wait <= MAX_WAIT => Ok(wait),
        _ => Err(FieldError::new(field, format!("got {seconds}, expected 0 to {} seconds", MAX_WAIT.as_secs()))),
    }
}

/// How a rank ended, as it states.
pub fn outcome(field: &str, message: Option<proto::RunOutcome>, rank: u32) -> Result<RunOutcome, FieldError> {
    match message.and_then(|message| message.kind) {
        None | Some(Kind::Finished(_)) => Ok(RunOutcome::Finished),
        Some(Kind::StoppedOnAdvice(_)) => Ok(RunOutcome::StoppedOnAdvice { rank }),
        Some(Kind::Failed(Failed { error, message })) => {
            check_name(&format!("{field}.failed.error"), &error)?;
            check_text(&format!("{field}.failed.message"), &message, MOST_OF_MESSAGE)?;
            Ok(RunOutcome::Failed { rank, error, message })
        }
    }
}

pub fn outcome_message(outcome: &RunOutcome) -> proto::RunOutcome {
    let kind = match outcome {
        RunOutcome::Finished => Kind::Finished(Finished {}),
        RunOutcome::StoppedOnAdvice { .. } => Kind::StoppedOnAdvice(StoppedOnAdvice {}),
        RunOutcome::Failed { error, message, .. } => {
            Kind::Failed(Failed { error: error.clone(), message: message.clone() })
        }
    };
    proto::RunOutcome { kind: Some(kind) }
}

pub fn assessment(found: Assessment) -> proto::GetDiagnosisResponse {
    let lines = found.coverage.into_iter().map(|line| proto::DiagnosisLine {
        rule: line.rule,
        subject: line.subject,
        title: line.title,
        source: line.source,
        state: proto::DiagnosisState::from(line.state).into(),
        text: line.text,
        evidence: line.evidence.into_iter().map(evidence).collect(),
    });
    let actions = found.actions.into_iter().map(|action| proto::Action {
        text: action.text,
        why: action.why,
        evidence: action.evidence.into_iter().map(evidence).collect(),
    });
    proto::GetDiagnosisResponse {
        step: found.step,
        epoch: found.epoch,
        rows: found.rows,
        incomplete: found.incomplete,
        lines: lines.collect(),
        verdict: Some(verdict(found.verdict)),
        actions: actions.collect(),
    }
}

fn verdict(verdict: Verdict) -> proto::Verdict {
    proto::Verdict {
        state: proto::VerdictState::from(verdict.state).into(),
        deciding: verdict.deciding.map(evidence),
        concepts: verdict.concepts,
        since_step: verdict.since.map(|since| since.step),
        since_epoch: verdict.since.and_then(|since| since.epoch),
        or_earlier: verdict.or_earlier,
        reason: verdict.reason,
        stop_advised_by: verdict.stop_advised_by.unwrap_or_default(),
        task: verdict.task.unwrap_or_default(),
    }
}

/// The state of a message; of one that has none, or one that is unknown here, the run trains.
pub fn state_of(message: proto::RunState) -> run_state::State {
    Option::from(message).unwrap_or(run_state::State::Training)
}

/// The verdict of a message, but for the last sound evaluation; `None` for a state that is unknown here.
pub fn verdict_of(message: proto::Verdict) -> Option<Verdict> {
    let state = Option::from(message.state())?;
    let deciding = message.deciding.map(|evidence| {
        let proto::Evidence { score, value, standard_error, limit, step } = evidence;
        Evidence { score, value, standard_error, limit, step }
    });
    Some(Verdict {
        state,
        deciding,
        concepts: message.concepts,
        since: message.since_step.map(|step| Moment { step, epoch: message.since_epoch }),
        or_earlier: message.or_earlier,
        last_sound: None,
        reason: message.reason,
        stop_advised_by: Some(message.stop_advised_by).filter(|rule| !rule.is_empty()),
        task: Some(message.task).filter(|task| !task.is_empty()),
    })
}

fn evidence(evidence: Evidence) -> proto::Evidence {
    let Evidence { score, value, standard_error, limit, step } = evidence;
    proto::Evidence { score, value, standard_error, limit, step }
}

/// Converts between enums of the core and those of the protocol, whose variants have the same names.
macro_rules! same_variants {
    ($($own:ty, $message:ty: $($variant:ident),+;)+) => {$(
        impl From<$own> for $message {
            fn from(own: $own) -> Self {
                match own { $(<$own>::$variant => Self::$variant,)+ }
            }
        }

        impl From<$message> for Option<$own> {
            fn from(message: $message) -> Self {
                match message {
                    <$message>::Unspecified => None,
                    $(<$message>::$variant => Some(<$own>::$variant),)+
                }
            }
        }
    )+};
}

same_variants! {
    ActivationKind, proto::ActivationKind: Probability, Hard, Logit, Continuous;
    ActivationColumns, proto::ActivationColumns: OnePerConcept, TwoPerConcept;
    Training, proto::Training: Joint, Sequential, Independent;
    LabelKind, proto::LabelKind: Class, Continuous;
    WindowKind, proto::WindowKind: Pass, Recent, All;
    How, proto::settled::Outcome: Point, Incomplete, Skipped, Discarded, Failed;
    alert::State, proto::AlertState: Inactive, Pending, Firing;
    State, proto::DiagnosisState: Found, Absent, Unknown;
    VerdictState, proto::VerdictState: Leaking, PossiblyLeaking, Sound, NothingFound, CannotTell, TooEarly;
    run_state::State, proto::RunState: Training, Stalled, Lost, Finished, StoppedOnAdvice, Failed;
}
