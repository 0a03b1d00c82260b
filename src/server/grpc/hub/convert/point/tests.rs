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
    let undefined = random.random_bool(0.3).then(|| "fewer than two classes".to_owned());
    let value = ScoreValue {
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
        per_task: maybe(random, |r| {
            let of_task =
                ScoreValue { value: number(r), per_concept: Some(vec![None, Some(0.5)]), ..ScoreValue::default() };
            vec![Outcome::undefined("one class"), Outcome::Value(of_task)]
        }),
    };
    Outcome::of(undefined, value)
}

fn random_point(random: &mut ChaCha8Rng) -> Point {
    let k = random.random_range(1..6);
    Point {
        run: "Größe 数".into(),
        split: "val".into(),
        step: random.random_range(0..=i64::MAX as u64),
        ordinal: Ordinal::stated(random.random_range(1..9)),
        epoch: maybe(random, |r| r.random_range(0.0..100.0)),
        time: random.random_range(0.0..2e9),
        rows: random.random(),
        concept_rows: if random.random() { vec![random.random(); k] } else { Vec::new() },
        rows_seen: random.random(),
        repeated_rows: 0,
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
        (with(vec![score.clone()], matrices(1, None)), "point.matrices.score: got 1, expected the index of one of 1"),
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
