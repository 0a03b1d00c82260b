//! Names of runs, and the parameters of questions, as they come in an address.

#![no_main]

use std::cell::RefCell;

use conceptwatch::analysis_query::Question;
use conceptwatch::history::{Identity, Limits, Sqlite, Store};
use leakage::run::{Concept, Run, RunFields};
use libfuzzer_sys::fuzz_target;

/// Number of runs after which the history is replaced: writes to a full one are slow.
const RUNS: u32 = 200;

thread_local! {
    static HISTORY: RefCell<(u32, Sqlite)> = RefCell::new((0, history()));
}

fn history() -> Sqlite {
    let history = Sqlite::open(None, Limits { bytes: 1 << 24 }).expect("a history in memory");
    for name in ["a", "b"] {
        let fields = RunFields {
            name: name.into(),
            concepts: vec![Concept { name: "c".into(), cardinality: 2, ..Concept::default() }],
            labels: [("lambda".to_owned(), "0.1".to_owned())].into(),
            ..RunFields::default()
        };
        let run = Run::try_from(fields).expect("a declaration that is right");
        history.record_run(&run, &Identity::default(), 0.0).expect("a run in memory");
    }
    history
}

fuzz_target!(|text: &str| {
    HISTORY.with_borrow_mut(|(runs, history)| {
        if *runs > RUNS {
            (*runs, *history) = (0, self::history());
        }
        *runs += ask(text, history);
    });
});

/// Returns the number of runs that were written.
fn ask(text: &str, history: &Sqlite) -> u32 {
    let mut written = 0;
    let parameters: Vec<(String, String)> = form_urlencoded::parse(text.as_bytes()).into_owned().collect();
    let parameter = |key: &str| parameters.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
    if let Ok(question) = Question::of(parameter) {
        let _ = question.ask(history);
    }
    for (name, value) in &parameters {
        let fields = RunFields {
            name: name.clone(),
            concepts: vec![Concept { name: value.clone(), cardinality: 2, ..Concept::default() }],
            ..RunFields::default()
        };
        if let Ok(run) = Run::try_from(fields) {
            let record = history.record_run(&run, &Identity { job: value, ..Identity::default() }, 0.0);
            assert!(record.is_ok_and(|record| record.run.concepts == run.concepts), "{run:?}");
            written += 1;
        }
    }
    written
}
