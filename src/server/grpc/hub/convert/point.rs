//! Points, with their matrices.

use std::str::FromStr;

use bytes::Bytes;

use super::super::proto;
use super::fields::{launch, launch_of, step, text, time};
use crate::estimate::Kind;
use crate::fault::{Fault, in_short};
use crate::history::Launch;
use crate::name::check_name;
use crate::point::{LeftOut, Outcome, Point, ScoreValue, Undefined};
use crate::run::MAX_CONCEPTS;
use crate::server::grpc::convert as run;
use crate::server::grpc::proto as v1;
use crate::step::Epoch;

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
pub fn point_of(message: proto::Point) -> Result<(Point, Option<Launch>), Fault> {
    let of = message.point.ok_or_else(|| Fault::new("point.point", "is missing"))?;
    check_name("point.run", &of.run)?;
    check_name("point.split", &of.split)?;
    for (field, value) in [("time", of.time), ("tie_fraction", of.tie_fraction), ("seconds", of.seconds)] {
        time(&format!("point.{field}"), value)?;
    }
    if let Some(epoch) = of.epoch {
        Epoch::new(epoch).map_err(|fault| Fault::new("point.epoch", fault.message))?;
    }
    Kind::from_str(&of.estimator).map_err(|fault| Fault::new("point.estimator", fault.message))?;
    let mut scores: Vec<(String, Outcome)> = Vec::with_capacity(of.scores.len());
    for score in of.scores {
        let id = id(score.id.clone())?;
        if scores.iter().any(|(known, _)| *known == id) {
            return Err(Fault::new("point.scores.id", format!("got '{id}' twice, expected each score once")));
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
        epoch: of.epoch,
        time: of.time,
        rows: of.rows,
        concept_rows: of.concept_rows,
        rows_seen: of.rows_seen,
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
    let (matrix, ages, matrix_q) = (None, None, None);
    match score.value {
        Some(value) => Outcome::Value(ScoreValue {
            value,
            standard_error: score.standard_error,
            per_concept,
            matrix,
            curve: Some(score.curve.into_iter().map(|at| (at.x, at.y)).collect::<Vec<_>>())
                .filter(|curve| !curve.is_empty()),
            age: score.age,
            ages,
            left_out,
            p_value: score.p_value,
            per_concept_q,
            matrix_q,
        }),
        None => Outcome::Undefined(Undefined {
            why: score.undefined,
            per_concept,
            matrix,
            age: score.age,
            ages,
            left_out,
            per_concept_q,
            matrix_q,
        }),
    }
}

fn add_matrices(scores: &mut [(String, Outcome)], message: proto::Matrices) -> Result<(), Fault> {
    let count = scores.len();
    let Some((id, outcome)) = scores.get_mut(message.score as usize) else {
        let message = format!("got {}, expected the index of one of {count} scores", message.score);
        return Err(Fault::new("point.matrices.score", message));
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

fn square_of<T>(field: &str, square: &proto::Square, number: impl Fn(f64) -> T) -> Result<Vec<Vec<T>>, Fault> {
    let (size, bytes) = (square.size as usize, square.cells.len());
    if size == 0 || size > MAX_CONCEPTS {
        return Err(Fault::new(format!("{field}.size"), format!("got {size}, expected 1 to {MAX_CONCEPTS}")));
    }
    let cells: Vec<f64> = if bytes == 4 * size * size {
        let (cells, _) = square.cells.as_chunks::<4>();
        cells.iter().map(|cell| f64::from(f32::from_le_bytes(*cell))).collect()
    } else if bytes == 8 * size * size {
        let (cells, _) = square.cells.as_chunks::<8>();
        cells.iter().map(|cell| f64::from_le_bytes(*cell)).collect()
    } else {
        let message = format!("got {bytes} bytes, expected {} or {}", 4 * size * size, 8 * size * size);
        return Err(Fault::new(format!("{field}.cells"), message));
    };
    Ok(cells.chunks(size).map(|row| row.iter().map(|cell| number(*cell)).collect()).collect())
}

/// Ids become parts of names of metrics.
fn id(id: String) -> Result<String, Fault> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if !id.is_empty() && id.len() <= MAX_ID && id.bytes().all(fits) {
        return Ok(id);
    }
    let message = format!("got '{}', expected 1 to {MAX_ID} of a to z, 0 to 9 and _", in_short(&id));
    Err(Fault::new("point.scores.id", message))
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn maybe<T>(random: &mut ChaCha8Rng, make: impl FnOnce(&mut ChaCha8Rng) -> T) -> Option<T> {
        random.random_bool(0.5).then(|| make(random))
    }

    /// Any bits but those of NaN, which stands for what is undefined.
    fn number(random: &mut ChaCha8Rng) -> f64 {
        loop {
            let number = f64::from_bits(random.random());
            if !number.is_nan() {
                return number;
            }
        }
    }

    fn list(random: &mut ChaCha8Rng, k: usize) -> Vec<Option<f64>> {
        (0..k).map(|_| maybe(random, number)).collect()
    }

    fn matrix(random: &mut ChaCha8Rng, k: usize) -> Vec<Vec<Option<f64>>> {
        let single = random.random_bool(0.5);
        let rounded = |value: f64| if single { f64::from(value as f32) } else { value };
        (0..k).map(|_| list(random, k).into_iter().map(|cell| cell.map(rounded)).collect()).collect()
    }

    fn ages(random: &mut ChaCha8Rng, k: usize) -> Vec<Vec<f64>> {
        (0..k).map(|_| (0..k).map(|_| number(random)).collect()).collect()
    }

    fn left_out(random: &mut ChaCha8Rng) -> LeftOut {
        LeftOut { concepts: vec![0, random.random()], pairs: random.random(), of: 7, why: "no row".into() }
    }

    fn outcome(random: &mut ChaCha8Rng, k: usize) -> Outcome {
        let (per_concept, per_concept_q) = (maybe(random, |r| list(r, k)), maybe(random, |r| list(r, k)));
        let (matrix, matrix_q) = (maybe(random, |r| matrix(r, k)), maybe(random, |r| matrix(r, k)));
        let (age, ages) = (maybe(random, number), maybe(random, |r| ages(r, k)));
        let left_out = maybe(random, left_out);
        if random.random_bool(0.3) {
            let why = "fewer than two classes".to_owned();
            let undefined = Undefined { why, per_concept, matrix, age, ages, left_out, per_concept_q, matrix_q };
            return Outcome::Undefined(undefined);
        }
        Outcome::Value(ScoreValue {
            value: number(random),
            standard_error: maybe(random, number),
            per_concept,
            matrix,
            curve: maybe(random, |r| (0..3).map(|_| (number(r), maybe(r, number))).collect()),
            age,
            ages,
            left_out,
            p_value: maybe(random, number),
            per_concept_q,
            matrix_q,
        })
    }

    fn random_point(random: &mut ChaCha8Rng) -> Point {
        let k = random.random_range(1..6);
        Point {
            run: "Größe 数".into(),
            split: "val".into(),
            step: random.random_range(0..=i64::MAX as u64),
            epoch: maybe(random, |r| r.random_range(0.0..100.0)),
            time: random.random_range(0.0..2e9),
            rows: random.random(),
            concept_rows: if random.random() { vec![random.random(); k] } else { Vec::new() },
            rows_seen: random.random(),
            provisional: random.random(),
            incomplete: random.random(),
            tie_fraction: random.random(),
            warnings: vec!["half precision".into(); random.random_range(0..3)],
            estimator: "tie_aware".into(),
            neighbours: random.random(),
            seed: random.random(),
            catalogue_version: random.random(),
            seconds: random.random(),
            scores: (0..random.random_range(0..6)).map(|at| (format!("score_{at}"), outcome(random, k))).collect(),
            change_errors: (0..random.random_range(0..3)).map(|at| (format!("score_{at}"), number(random))).collect(),
        }
    }

    #[test]
    fn a_point_arrives_to_the_bit() {
        let mut random = ChaCha8Rng::seed_from_u64(21);
        for _ in 0..300 {
            let point = random_point(&mut random);
            let by = maybe(&mut random, |_| Launch { job: "job".into(), restart: 2, number: 1 });
            let sent = (point, by);
            let bytes = super::point(&sent.0, sent.1.as_ref()).encode_to_vec();
            let arrived = point_of(proto::Point::decode(bytes.as_slice()).unwrap()).unwrap();
            // Equal, and with the same sign of zeros.
            assert_eq!(format!("{arrived:?}"), format!("{sent:?}"));
            assert_eq!(arrived, sent);
        }
    }

    #[test]
    fn what_a_history_has_rounded_takes_half_the_bytes() {
        let size = |value: f64| {
            square(&[vec![Some(value), None], vec![None, Some(f64::NAN)]], |cell| cell.unwrap_or(f64::NAN)).cells.len()
        };
        assert_eq!((size(f64::from(0.1_f32)), size(0.1)), (16, 32));
    }

    #[test]
    fn what_no_history_can_hold_is_refused_by_its_field() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let good = point(&Point { step: 1, ..random_point(&mut random) }, None);
        let score = v1::Score { id: "ctl".into(), value: Some(1.0), ..Default::default() };
        let with = |scores: Vec<v1::Score>, matrices| {
            let of = v1::Point { scores, ..good.point.clone().unwrap() };
            proto::Point { point: Some(of), matrices, ..good.clone() }
        };
        let square = |size, bytes| Some(proto::Square { size, cells: Bytes::from(vec![0; bytes]) });
        let matrices = |score, values| vec![proto::Matrices { score, values, ..Default::default() }];
        let of = |change: fn(&mut v1::Point)| {
            let mut point = good.point.clone().unwrap();
            change(&mut point);
            proto::Point { point: Some(point), ..good.clone() }
        };
        for (message, expected) in [
            (proto::Point::default(), "point.point: is missing"),
            (of(|point| point.run = String::new()), "point.run: got none, expected 1 to 200 characters"),
            (of(|point| point.step = u64::MAX), "point.step: got 18446744073709551615, expected at most"),
            (of(|point| point.time = f64::NAN), "point.time: got NaN, expected a finite number"),
            (of(|point| point.epoch = Some(-1.0)), "point.epoch: got -1, expected a finite number of at least 0"),
            (of(|point| point.estimator = "x".into()), "point.estimator: got 'x', expected tie_aware or published"),
            (with(vec![score.clone(), score.clone()], Vec::new()), "point.scores.id: got 'ctl' twice"),
            (
                with(vec![v1::Score { id: "a-b".into(), ..score.clone() }], Vec::new()),
                "point.scores.id: got 'a-b', expected 1 to 64 of a to z, 0 to 9 and _",
            ),
            (
                with(vec![score.clone()], matrices(1, None)),
                "point.matrices.score: got 1, expected the index of one of 1",
            ),
            (
                with(vec![score.clone()], matrices(0, square(2, 15))),
                "point.scores.ctl.matrix.cells: got 15 bytes, expected 16 or 32",
            ),
            (
                with(vec![score.clone()], matrices(0, square(1 << 31, 0))),
                "point.scores.ctl.matrix.size: got 2147483648, expected 1 to 4096",
            ),
        ] {
            let fault = point_of(message).unwrap_err().to_string();
            assert!(fault.starts_with(expected), "{fault}");
        }
    }
}
