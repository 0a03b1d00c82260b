//! Every missing estimate has a reason; no input causes a panic or NaN.

use information::{Undefined, self_information};

use super::*;

#[test]
fn reasons() {
    let (x, y) = correlated(0.5, 40, 1);
    let (x, y) = (scalar(&x, X), scalar(&y, Y));
    let labels = Variable::discrete(&(0..40).map(|row| row % 2).collect::<Vec<_>>());
    let constant = scalar(&[0.25; 40], Y);
    let constant_vector = vector(&[0.25; 80], 2, Y);
    let one_class = Variable::discrete(&[4; 40]);
    let one_class_and_strays = Variable::discrete(&(0..40).map(|row: i32| (row - 37).max(0)).collect::<Vec<_>>());
    let all_alone = Variable::discrete(&(0..40).collect::<Vec<_>>());
    let spoilt = scalar(&[&[f64::NAN], &[1.0; 39][..]].concat(), Y);
    for settings in [tie_aware(3), published(3)] {
        let reason = |x: &Variable, y: &Variable| mutual_information(x, y, &settings).unwrap_err();
        assert_eq!(reason(&x, &constant), Undefined::Constant);
        assert_eq!(reason(&constant, &x), Undefined::Constant);
        assert_eq!(reason(&x, &constant_vector), Undefined::Constant);
        assert_eq!(reason(&constant, &labels), Undefined::Constant);
        assert_eq!(self_information(&constant, &settings), Err(Undefined::Constant));
        assert_eq!(reason(&x, &one_class), Undefined::OneClass);
        assert_eq!(reason(&x, &one_class_and_strays), Undefined::OneClass);
        assert_eq!(reason(&x, &all_alone), Undefined::NoClassOfTwo { classes: 40 });
        assert_eq!(reason(&x, &spoilt), Undefined::NotFinite);
        assert_eq!(reason(&x, &scalar(&[1.0, 2.0], Y)), Undefined::UnequalRows(40, 2));
        assert_eq!(reason(&Variable::discrete(&[]), &Variable::discrete(&[])), Undefined::NoRows);
        // For two discrete variables, and for the entropy, a single class is valid.
        assert_eq!(mutual_information(&one_class, &labels, &settings).unwrap().value, 0.0);
        assert_eq!(self_information(&one_class, &settings).unwrap().value, 0.0);
        let none = Settings { neighbours: 0, ..settings };
        assert_eq!(mutual_information(&x, &y, &none), Err(Undefined::NoNeighbours));
        let many = Settings { neighbours: 39, ..settings };
        assert_eq!(mutual_information(&x, &y, &many), Err(Undefined::TooFewRows { rows: 40, neighbours: 39 }));
        assert!(mutual_information(&x, &y, &Settings { neighbours: 38, ..settings }).unwrap().value.is_finite());
    }
    let reason = Undefined::TooFewRows { rows: 4, neighbours: 3 }.to_string();
    assert_eq!(reason, "4 rows are too few: 3 neighbours need at least 5");
}

#[test]
fn every_small_size_has_an_estimate_or_a_reason() {
    for rows in 0..12 {
        let (x, y) = correlated(0.5, rows, 2);
        let (a, b) = (scalar(&x, X), scalar(&y, Y));
        let pairs = vector(&[x, y].concat(), 2, X);
        let labels = Variable::discrete(&(0..rows as i32).map(|row| row % 2).collect::<Vec<_>>());
        for neighbours in 1..5 {
            for settings in [tie_aware(neighbours), published(neighbours)] {
                for (x, y) in [(&a, &b), (&a, &labels), (&pairs, &labels), (&pairs, &b), (&a, &a), (&pairs, &pairs)] {
                    match mutual_information(x, y, &settings) {
                        Ok(estimate) => assert!(rows >= neighbours + 2 && estimate.value.is_finite()),
                        Err(Undefined::TooFewRows { .. }) => assert!(rows < neighbours + 2),
                        // Three rows have one class of two.
                        Err(Undefined::OneClass) => assert!(rows == 3),
                        Err(reason) => panic!("{rows} rows, {neighbours} neighbours: {reason}"),
                    }
                }
            }
        }
    }
}
