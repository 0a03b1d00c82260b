//! A score that panics is undefined, says so, and takes no other along.

use std::ops::ControlFlow;
use std::sync::Mutex;

use leakage::prepare::Prepared;
use leakage::score::catalogue::{Score, find};
use leakage::score::{Wanted, evaluate};

use super::*;

fn go_on(_: usize, _: usize, _: &Score) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn a_score_that_panics_is_undefined_and_the_others_stand() {
    static BROKEN: std::sync::LazyLock<Score> = std::sync::LazyLock::new(|| Score {
        compute: |p| {
            // In a value that scores share, on another thread.
            let shared = p.shared("broken", || rayon::join(|| (), || panic!("index out of bounds: {}", p.rows())));
            drop(shared);
            Err("not reached".to_owned())
        },
        ..*find("icl").unwrap()
    });
    let columns = model(80, 3, 0.5, 1);
    let (sample, run) = (columns.sample(), columns.run());
    let failures = Mutex::new(Vec::new());
    let on_failure = |what: &str, text: &str| failures.lock().unwrap().push(format!("{what}: {text}"));
    let prepared = Prepared::new(&sample, &run, TIE_AWARE).with_failures(&on_failure);
    let scores = [find("ctl").unwrap(), &BROKEN, find("concept_accuracy").unwrap()];
    let outcomes = evaluate(&prepared, Wanted::Named(&scores), go_on).unwrap();
    assert!(outcomes[0].1.value().is_some() && outcomes[2].1.value().is_some());
    let why = why(&outcomes[1].1);
    assert!(why.starts_with("internal error (index out of bounds: 80)") && why.contains("please report it"), "{why}");
    assert_eq!(*failures.lock().unwrap(), ["icl: index out of bounds: 80"]);
}

#[test]
fn a_computation_that_is_to_halt_does_so_within_a_score() {
    struct Halt;
    let columns = model(80, 3, 0.5, 1);
    let (sample, run) = (columns.sample(), columns.run());
    let pause = || std::panic::resume_unwind(Box::new(Halt));
    let on_failure = |what: &str, _: &str| panic!("{what} failed");
    let prepared = Prepared::new(&sample, &run, TIE_AWARE).with_pause(&pause).with_failures(&on_failure);
    let scores = [find("icl").unwrap()];
    let halted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        evaluate(&prepared, Wanted::Named(&scores), go_on).is_some()
    }));
    assert!(halted.is_err_and(|panic| panic.is::<Halt>()));
}
