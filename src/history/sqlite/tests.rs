//! Changes that wait, also on a file system of the network, which these tests do not have.

use super::*;
use crate::history::{Ending, Limits};
use leakage::point::{Outcome, ScoreValue};
use leakage::run::{Concept, RunFields};

const ROOMY: Limits = Limits { bytes: 1 << 30 };

fn point(step: u64) -> Point {
    let score = ScoreValue { value: step as f64, ..ScoreValue::default() };
    let scores = vec![("icl".into(), Outcome::Value(score))];
    Point { run: "r".into(), split: "val".into(), step, scores, ..Point::default() }
}

fn steps(history: &Sqlite) -> Vec<u64> {
    history.newest_steps("r", "val", 9).unwrap()
}

#[test]
fn what_waits_is_written_once_the_file_is_back() {
    for on_network in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let history = match on_network {
            true => Sqlite::open_as(directory.path(), &open::REMOTE, ROOMY).unwrap(),
            false => Sqlite::open(Some(directory.path()), ROOMY).unwrap(),
        };
        let concepts = vec![Concept { name: "wing".into(), cardinality: 2, ..Concept::default() }];
        let run = Run::try_from(RunFields { name: "r".into(), concepts, ..RunFields::default() }).unwrap();
        history.record_run(&run, &Identity::default(), 0.0).unwrap();
        history.record_point(&point(0), None).unwrap();
        history.write_at_last().unwrap();
        let (file, elsewhere) = (directory.path().join(FILE_NAME), directory.path().join("elsewhere"));
        std::fs::rename(&file, &elsewhere).unwrap();
        for step in 1..5 {
            assert_eq!(history.record_point(&point(step), None).unwrap(), Recorded::Waiting);
        }
        let failed = Unscored {
            run: "r".into(),
            split: "val".into(),
            step: 99,
            ordinal: Ordinal::default(),
            time: 1.0,
            outcome: Ending::Failed,
            reason: "it had no rows".into(),
            rows_seen: 0,
            attempt: None,
        };
        assert!(!history.record_unscored(std::slice::from_ref(&failed)).unwrap());
        assert_eq!(history.waiting().entries, 5);
        assert_eq!(steps(&history), [0, 1, 2, 3, 4], "readers see all");
        std::fs::rename(&elsewhere, &file).unwrap();
        history.write_at_last().unwrap();
        assert_eq!(history.waiting(), Waiting::default());
        drop(history);
        let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
        assert_eq!(steps(&history), [0, 1, 2, 3, 4]);
        assert_eq!(history.unscored("r", "val").unwrap(), [failed]);
    }
}
