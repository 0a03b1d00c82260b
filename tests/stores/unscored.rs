//! Passes without a point.

use conceptwatch::analysis_query::diagnosis_of;
use conceptwatch::history::{Ending, Identity, Store, UNSCORED_PER_RUN, Unscored};
use leakage::point::Point;

use super::common::stored::{point, run, unscored};

pub fn what_was_not_scored_is_recorded_until_it_has_a_point(history: &dyn Store) {
    history.record_run(&run("r", 2), &Identity::default(), 0.0).unwrap();
    let passes: Vec<_> = (0..100).map(|step| unscored("val", step, Ending::Skipped)).collect();
    assert!(history.record_unscored(&passes).unwrap());
    let other = [
        unscored("test", 3, Ending::Failed),
        unscored("val", 7, Ending::Discarded),
        Unscored { run: "unknown".into(), ..unscored("val", 1, Ending::Skipped) },
        Unscored { attempt: None, ..unscored("val", 200, Ending::Unsettled) },
    ];
    assert!(history.record_unscored(&other).unwrap());

    let mut expected = passes;
    expected[7] = other[1].clone();
    expected.push(other[3].clone());
    assert_eq!(history.unscored("r", "val").unwrap(), expected);
    assert_eq!(history.unscored("r", "test").unwrap(), other[..1]);
    assert_eq!(history.unscored_at("r", "val", 7).unwrap().as_ref(), Some(&other[1]));
    assert_eq!(history.unscored_at("r", "val", 101).unwrap(), None);
    assert!(history.unscored("unknown", "val").is_err());

    history.record_point(&Point { provisional: true, ..point("r", "val", 7, 2) }, None).unwrap();
    assert!(history.unscored_at("r", "val", 7).unwrap().is_some(), "a provisional point is not part of the curve");
    history.record_point(&point("r", "val", 7, 2), None).unwrap();
    assert!(history.unscored_at("r", "val", 7).unwrap().is_none());
    history.record_point(&Point { incomplete: false, ..point("r", "val", 8, 2) }, None).unwrap();
    history.record_unscored(&[unscored("val", 8, Ending::Skipped)]).unwrap();
    assert!(history.unscored_at("r", "val", 8).unwrap().is_none(), "the step has a complete point");

    // A diagnosis mentions the evaluations after it.
    let diagnosis = diagnosis_of(history, "r", "val", |_| true).unwrap_or_else(|_| panic!("there is a point"));
    let later = diagnosis.lines.last().unwrap();
    let expected =
        format!("92 came after this one without complete scores, the newest at step 200: {}", other[3].reason);
    assert_eq!((diagnosis.step, later.subject.as_str(), &later.text), (8, "Later evaluations", &expected));
}

pub fn records_of_passes_without_points_are_bounded_for_each_run(history: &dyn Store) {
    history.record_run(&run("r", 2), &Identity::default(), 0.0).unwrap();
    let most = UNSCORED_PER_RUN;
    for first in (0..most + 500).step_by(500) {
        let passes: Vec<_> = (first..first + 500).map(|step| unscored("val", step, Ending::Skipped)).collect();
        history.record_unscored(&passes).unwrap();
    }
    let kept: Vec<u64> = history.unscored("r", "val").unwrap().iter().map(|pass| pass.step).collect();
    assert_eq!(kept, (500..most + 500).collect::<Vec<_>>(), "the oldest are removed");
    assert_eq!(history.usage().unwrap().dropped.unscored, 500);
}
