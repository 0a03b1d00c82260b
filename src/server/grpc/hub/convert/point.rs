//! Points, with their matrices.

use std::str::FromStr;

use bytes::Bytes;

use super::super::proto;
use super::fields::{launch, launch_of, step, text, time};
use crate::history::Launch;
use crate::server::grpc::convert as run;
use crate::server::grpc::proto as v1;
use information::Kind;
use leakage::field_error::{FieldError, in_short};
use leakage::name::check_name;
use leakage::point::{LeftOut, Outcome, Point, ScoreValue};
use leakage::run::MAX_CONCEPTS;
use leakage::step::{Epoch, Ordinal};

/// Most characters of a score's id.
const MAX_ID: usize = 64;

/// A point with all it holds, and the launch whose evaluation it is.
pub fn point(point: &Point, by: Option<&Launch>) -> proto::Point {
    let errors = point.change_errors.iter();
    let matrices = point.scores.iter().zip(0..).filter_map(|((_, outcome), score)| {
        let cells = |cell: &Option<f64>| cell.unwrap_or(f64::NAN);
        let values = outcome.matrix().map(|rows| square(rows, cells));
        let ages = outcome.ages().map(|rows| square(rows, |age| *age));
        let adjusted = outcome.matrix_q().map(|rows| square(rows, cells));
        let any = values.is_some() || ages.is_some() || adjusted.is_some();
        any.then_some(proto::Matrices { score, values, ages, adjusted })
    });
    proto::Point {
        matrices: matrices.collect(),
        point: Some(run::point(point, false)),
        launch: by.map(launch),
        change_errors: errors
            .map(|(score, error)| proto::ChangeError { score: score.clone(), error: *error })
            .collect(),
    }
}

/// See [`point`].
pub fn point_of(message: proto::Point) -> Result<(Point, Option<Launch>), FieldError> {
    let of = message.point.ok_or_else(|| FieldError::new("point.point", "is missing"))?;
    check_name("point.run", &of.run)?;
    check_name("point.split", &of.split)?;
    for (field, value) in [("time", of.time), ("tie_fraction", of.tie_fraction), ("seconds", of.seconds)] {
        time(&format!("point.{field}"), value)?;
    }
    if let Some(epoch) = of.epoch {
        Epoch::new(epoch).map_err(|fault| FieldError::new("point.epoch", fault.message))?;
    }
    Kind::from_str(&of.estimator)
        .map_err(|why| FieldError::new("point.estimator", format!("got '{}', {why}", in_short(&of.estimator))))?;
    let mut scores: Vec<(String, Outcome)> = Vec::with_capacity(of.scores.len());
    for score in of.scores {
        let id = id(score.id.clone())?;
        if scores.iter().any(|(known, _)| *known == id) {
            return Err(FieldError::new("point.scores.id", format!("got '{id}' twice, expected each score once")));
        }
        scores.push((id, outcome(score)));
    }
    for matrices in message.matrices {
        add_matrices(&mut scores, matrices)?;
    }
    let mut change_errors = Vec::with_capacity(message.change_errors.len());
    for proto::ChangeError { score, error } in message.change_errors {
        change_errors.push((id(score)?, error));
    }
    let warnings = of.warnings.into_iter().map(|warning| text("point.warnings", warning));
    let point = Point {
        run: of.run.into(),
        split: of.split.into(),
        step: step("point.step", of.step)?,
        ordinal: Ordinal::stated(of.ordinal),
        epoch: of.epoch,
        time: of.time,
        rows: of.rows,
        concept_rows: of.concept_rows,
        rows_seen: of.rows_seen,
        repeated_rows: of.repeated_rows,
        provisional: of.provisional,
        incomplete: of.incomplete,
        tie_fraction: of.tie_fraction,
        warnings: warnings.collect::<Result<_, _>>()?,
        estimator: of.estimator,
        neighbours: of.neighbours,
        seed: of.seed,
        catalogue_version: of.catalogue_version,
        seconds: of.seconds,
        scores,
        change_errors,
    };
    let by = message.launch.map(|launch| launch_of("point.launch", launch)).transpose()?;
    Ok((point, by))
}

/// A score without its matrices.
fn outcome(score: v1::Score) -> Outcome {
    let number = |value: f64| Some(value).filter(|value| !value.is_nan());
    let list = |values: Vec<f64>| (!values.is_empty()).then(|| values.into_iter().map(number).collect::<Vec<_>>());
    let left_out = LeftOut {
        concepts: score.left_out,
        pairs: score.left_out_pairs,
        of: score.left_out_of,
        why: score.left_out_why,
    };
    let left_out = Some(left_out).filter(|left_out| *left_out != LeftOut::default());
    let (per_concept, per_concept_q) = (list(score.per_concept), list(score.per_concept_q));
    let per_task = score.per_task.into_iter().map(outcome).collect::<Vec<_>>();
    let per_task = (!per_task.is_empty()).then_some(per_task);
    let curve = score.curve.into_iter().map(|at| (at.x, at.y)).collect::<Vec<_>>();
    let undefined = score.value.is_none().then_some(score.undefined);
    let value = ScoreValue {
        value: score.value.unwrap_or_default(),
        standard_error: score.standard_error,
        per_concept,
        curve: (!curve.is_empty()).then_some(curve),
        age: score.age,
        left_out,
        p_value: score.p_value,
        per_concept_q,
        per_task,
        ..ScoreValue::default()
    };
    Outcome::of(undefined, value)
}

fn add_matrices(scores: &mut [(String, Outcome)], message: proto::Matrices) -> Result<(), FieldError> {
    let count = scores.len();
    let Some((id, outcome)) = scores.get_mut(message.score as usize) else {
        let message = format!("got {}, expected the index of one of {count} scores", message.score);
        return Err(FieldError::new("point.matrices.score", message));
    };
    let field = |what: &str| format!("point.scores.{id}.{what}");
    let number = |value: f64| Some(value).filter(|value| !value.is_nan());
    let cells = |what: &str, square: Option<proto::Square>| {
        square.map(|square| square_of(&field(what), &square, number)).transpose()
    };
    let values = cells("matrix", message.values)?;
    let adjusted = cells("matrix_q", message.adjusted)?;
    let of_age = message.ages.map(|square| square_of(&field("ages"), &square, |age| age)).transpose()?;
    let (matrix, ages, matrix_q) = match outcome {
        Outcome::Value(value) => (&mut value.matrix, &mut value.ages, &mut value.matrix_q),
        Outcome::Undefined(undefined) => (&mut undefined.matrix, &mut undefined.ages, &mut undefined.matrix_q),
    };
    (*matrix, *ages, *matrix_q) = (values, of_age, adjusted);
    Ok(())
}

/// Half the bytes where every value is exactly a `float`, as values that a history has stored are.
fn square<T>(rows: &[Vec<T>], number: impl Fn(&T) -> f64) -> proto::Square {
    let cells = || rows.iter().flatten().map(&number);
    let single = cells().all(|cell| cell.is_nan() || f64::from(cell as f32) == cell);
    let bytes: Vec<u8> = if single {
        cells().flat_map(|cell| (cell as f32).to_le_bytes()).collect()
    } else {
        cells().flat_map(f64::to_le_bytes).collect()
    };
    proto::Square { size: rows.len() as u32, cells: Bytes::from(bytes) }
}

fn square_of<T>(field: &str, square: &proto::Square, number: impl Fn(f64) -> T) -> Result<Vec<Vec<T>>, FieldError> {
    let (size, bytes) = (square.size as usize, square.cells.len());
    if size == 0 || size > MAX_CONCEPTS {
        return Err(FieldError::new(format!("{field}.size"), format!("got {size}, expected 1 to {MAX_CONCEPTS}")));
    }
    let cells: Vec<f64> = if bytes == 4 * size * size {
        let (cells, _) = square.cells.as_chunks::<4>();
        cells.iter().map(|cell| f64::from(f32::from_le_bytes(*cell))).collect()
    } else if bytes == 8 * size * size {
        let (cells, _) = square.cells.as_chunks::<8>();
        cells.iter().map(|cell| f64::from_le_bytes(*cell)).collect()
    } else {
        let message = format!("got {bytes} bytes, expected {} or {}", 4 * size * size, 8 * size * size);
        return Err(FieldError::new(format!("{field}.cells"), message));
    };
    Ok(cells.chunks(size).map(|row| row.iter().map(|cell| number(*cell)).collect()).collect())
}

/// Ids become parts of names of metrics.
fn id(id: String) -> Result<String, FieldError> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if !id.is_empty() && id.len() <= MAX_ID && id.bytes().all(fits) {
        return Ok(id);
    }
    let message = format!("got '{}', expected 1 to {MAX_ID} of a to z, 0 to 9 and _", in_short(&id));
    Err(FieldError::new("point.scores.id", message))
}

#[cfg(test)]
mod tests;
