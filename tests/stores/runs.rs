//! Runs: names, declarations, lists, remarks and removal.

use conceptwatch::history::{
    Cursor, HistoryError, Identity, Listing, Remark, RunOutcome, RunRecord, Store, StoredSplit, Wanted,
};
use conceptwatch::search::Search;
use leakage::point::Outcome;
use leakage::run::{ActivationColumns, ActivationKind, LabelKind, Run, RunFields};
use leakage::sample::Attempt;
use leakage::step::Rank;

use super::common::stored::{point, run};

pub fn a_declaration_does_not_change(history: &dyn Store) {
    let mut fields = (*run("a", 3)).clone();
    fields.labels.insert("lambda".into(), "5".into());
    fields.constants.reference_task_accuracy = Some(0.1 + 0.2);
    let declared = |fields: &RunFields| Run::try_from(fields.clone()).unwrap();
    history.record_run(&declared(&fields), &Identity::default(), 0.0).unwrap();
    assert!(history.record_run(&declared(&fields), &Identity::default(), 1.0).unwrap().resumed);

    type Change = fn(&mut RunFields);
    let changes: [(&str, Change); 9] = [
        ("run.concepts", |f| drop(f.concepts.pop())),
        ("run.concepts[1].name", |f| f.concepts[1].name = "other".into()),
        ("run.labels.lambda", |f| f.labels.clear()),
        ("run.constants.reference_task_accuracy", |f| f.constants.reference_task_accuracy = Some(0.3)),
        ("run.activation_kind", |f| f.activation_kind = ActivationKind::Logit),
        ("run.concepts[1].cardinality", |f| f.concepts[1].cardinality = 5),
        ("run.activation_columns", |f| f.activation_columns = ActivationColumns::TwoPerConcept),
        ("run.latents", |f| f.latents = Some(7)),
        ("run.task_label_kind", |f| f.task_label_kind = LabelKind::Continuous),
    ];
    for (expected, change) in changes {
        let mut other = fields.clone();
        change(&mut other);
        match history.record_run(&declared(&other), &Identity::default(), 2.0) {
            Err(HistoryError::DeclarationDiffers { run, field, stored, came }) => {
                assert_eq!((run.as_str(), field.as_str()), ("a", expected));
                assert_ne!(stored, came);
            }
            other => panic!("{expected}: {other:?}"),
        }
    }

    let ranks = RunFields { world_size: 2, ..fields };
    assert!(
        history.record_run(&declared(&ranks), &Identity::default(), 3.0).unwrap().resumed,
        "a job may restart with more ranks"
    );
    assert_eq!(history.runs().unwrap()[0].run.world_size, 2);
}

pub fn hostile_names_are_data(history: &dyn Store) {
    history.record_run(&run("a", 1), &Identity::default(), 0.0).unwrap();
    let hostile = ["'; DROP TABLE point; --", "\" OR 1=1", "%", "_", "../../etc/passwd", "ü\u{202e}", ""];
    for split in hostile {
        let mut point = point("a", split, 1, 1);
        point.scores.push((split.to_owned(), Outcome::undefined(split)));
        history.record_point(&point, None).unwrap();
        assert_eq!(history.point("a", split, None, true).unwrap(), Some(point), "{split:?}");
        assert_eq!(history.series("a", split, split, None, 0, None).unwrap().len(), 1, "{split:?}");
        assert!(history.series(split, "val", "icl", None, 0, None).is_err(), "{split:?}");
    }
    assert_eq!(history.splits("a").unwrap().len(), hostile.len());
}

pub fn three_thousand_runs_are_listed_in_pages_counted_and_searched(history: &dyn Store) {
    let declare = |name: &str, number: usize| {
        let labels = [("seed".to_owned(), (number % 10).to_string()), ("fold".to_owned(), "a b".to_owned())].into();
        let fields = RunFields { labels, ..RunFields::clone(&run(name, 3)) };
        history.record_run(&Run::try_from(fields).unwrap(), &Identity::default(), (number / 7) as f64).unwrap();
    };
    (0..3000).for_each(|number| declare(&format!("run {number}"), number));
    for step in [10, 20] {
        history.record_point(&point("run 2990", "val", step, 3), None).unwrap();
    }
    history.record_point(&point("run 2990", "train", 5, 3), None).unwrap();
    let all = history.listing(&Wanted::default()).unwrap();
    assert_eq!((all.runs.len(), all.total, all.next), (3000, 3000, None));
    let names = |listing: &Listing| listing.runs.iter().map(|(stored, _)| stored.run.name.clone()).collect::<Vec<_>>();
    let newest_first: Vec<String> = (0..3000).rev().map(|number| format!("run {number}")).collect();
    assert_eq!(names(&all), newest_first);

    // Pages: each run once, also where runs start or are removed meanwhile.
    let (mut paged, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = history.listing(&Wanted { after, most: Some(64), ..Wanted::default() }).unwrap();
        paged.extend(names(&page));
        pages += 1;
        if pages == 3 {
            declare("newest", 1_000_000);
            history.forget_run("run 2990");
            history.remove_run("run 2990").unwrap();
        }
        assert_eq!(page.total, 3000);
        match page.next {
            Some(next) => after = Some(next.to_string().parse().unwrap()),
            None => break,
        }
    }
    assert_eq!((paged, pages), (newest_first, 3000_usize.div_ceil(64)));

    let search = |text: &str| Wanted { search: Search::of(text), most: Some(2), ..Wanted::default() };
    let found = history.listing(&search("run seed>8 fold=a")).unwrap();
    assert_eq!((names(&found), found.total), (vec!["run 2999".to_owned(), "run 2989".to_owned()], 300));
    let next = history.listing(&Wanted { after: found.next, ..search("run seed>8 fold=a") }).unwrap();
    assert_eq!((names(&next), next.total), (vec!["run 2979".to_owned(), "run 2969".to_owned()], 300));
    history.remark("run 7", &Remark { title: Some("the best one".into()), note: None }).unwrap();
    let titled = history.listing(&search("BEST")).unwrap();
    assert_eq!((names(&titled), titled.total, titled.next), (vec!["run 7".to_owned()], 1, None));
    assert!(matches!(history.listed("run 2990"), Err(HistoryError::Unknown { .. })));
    for wrong in ["", "x", "7ff0000000000000-1", "-", "0-"] {
        assert!(wrong.parse::<Cursor>().is_err(), "{wrong}");
    }
}

pub fn splits_are_listed_with_their_run(history: &dyn Store) {
    for name in ["a", "b"] {
        history.record_run(&run(name, 2), &Identity::default(), 1.0).unwrap();
    }
    for (split, step) in [("val", 10), ("val", 30), ("train", 5)] {
        history.record_point(&point("a", split, step, 2), None).unwrap();
    }
    let split = |split: &str, points, last_step| StoredSplit { split: split.into(), points, last_step };
    let listing = history.listing(&Wanted::default()).unwrap();
    assert_eq!(listing.runs[0].1, []);
    assert_eq!(listing.runs[1].1, [split("train", 1, 5), split("val", 2, 30)]);
    assert_eq!(history.listed("a").unwrap(), listing.runs[1]);
    let several = history.listed_of(&["a", "unknown", "b"]).unwrap();
    assert_eq!(several, [listing.runs[1].clone(), listing.runs[0].clone()]);
}

pub fn a_name_belongs_to_the_job_that_declared_it(history: &dyn Store) {
    let declare = |job: &str, restart, rank, resume| {
        let rank = Rank::of(rank, 4).unwrap();
        let identity = Identity { job, restart, resume, rank, client: "client", ..Identity::default() };
        history.record_run(&run("a", 2), &identity, 1.0).unwrap()
    };
    let known = |record: &RunRecord| (record.run.name.clone(), record.resumed, record.continues);
    let attempt = |launch, restart| Some(Attempt { launch, restart });
    let first = declare("one", 0, 0, false);
    assert_eq!((known(&first), first.attempt), (("a".into(), false, false), attempt(0, 0)));
    // Another rank, and a restart, of the same job.
    assert_eq!(known(&declare("one", 0, 1, false)), ("a".into(), true, true));
    let restarted = declare("one", 1, 0, false);
    assert_eq!((known(&restarted), restarted.attempt), (("a".into(), true, false), attempt(0, 1)));
    // Other jobs get other names, each time the same one.
    let second = declare("two", 0, 0, false);
    assert_eq!((known(&second), second.attempt), (("a-2".into(), false, false), attempt(0, 0)));
    assert_eq!(known(&declare("three", 0, 0, false)).0, "a-3");
    assert_eq!(known(&declare("two", 0, 1, false)), ("a-2".into(), true, true));
    let resumed = declare("four", 0, 0, true);
    assert_eq!((known(&resumed).0, resumed.attempt), ("a".into(), attempt(1, 0)));
    // Only ranks of the newest restart count, and those that finish are known.
    history
        .finish_rank("a", Attempt { launch: 0, restart: 0 }, Rank::of(1, 4).unwrap(), 5.0, &RunOutcome::Finished)
        .unwrap();
    history
        .finish_rank("a", Attempt { launch: 0, restart: 1 }, Rank::of(0, 4).unwrap(), 5.0, &RunOutcome::Finished)
        .unwrap();
    let ranks = history.ranks("a").unwrap();
    let ranks: Vec<_> = ranks.iter().map(|rank| (rank.attempt, rank.rank, rank.finished)).collect();
    let at = |launch, restart| Attempt { launch, restart };
    assert_eq!(ranks, [(at(0, 1), 0, true), (at(1, 0), 0, false)]);
    // Finished, it does not go on with what is stored.
    history.finish_run("a-2", 9.0, &RunOutcome::Finished).unwrap();
    assert_eq!(known(&declare("two", 0, 0, false)), ("a-2".into(), true, false));
    assert_eq!(history.listed("a-2").unwrap().0.finished, None);
    // A name as long as names may be is cut for its number.
    let long = "λ".repeat(200);
    let names = ["one", "two"].map(|job| {
        let identity = Identity { job, ..Identity::default() };
        history.record_run(&run(&long, 2), &identity, 1.0).unwrap().run.name.clone()
    });
    assert_eq!(names, [long.clone(), format!("{}-2", "λ".repeat(198))]);
}

fn failed(rank: u32) -> RunOutcome {
    RunOutcome::Failed { rank, error: "ValueError".into(), message: "no such concept, é".into() }
}

pub fn a_run_ends_as_its_ranks_do_until_it_goes_on(history: &dyn Store) {
    let declare = |job: &str, restart, rank| {
        let rank = Rank::of(rank, 4).unwrap();
        let identity = Identity { job, restart, resume: true, rank, client: "client", ..Identity::default() };
        history.record_run(&run("a", 2), &identity, 1.0).unwrap();
    };
    let end = |restart, rank, outcome: &RunOutcome| {
        let attempt = Attempt { launch: 0, restart };
        history.finish_rank("a", attempt, Rank::of(rank, 4).unwrap(), 5.0, outcome).unwrap();
    };
    let outcome = || {
        let stored = history.listed("a").unwrap().0;
        assert_eq!(history.runs().unwrap(), std::slice::from_ref(&stored));
        (stored.finished, stored.outcome)
    };
    let stopped = RunOutcome::StoppedOnAdvice { rank: 0 };
    (0..3).for_each(|rank| declare("one", 0, rank));
    assert_eq!(outcome(), (None, None));
    end(0, 0, &RunOutcome::Finished);
    assert_eq!(outcome(), (None, None), "others go on");
    end(0, 0, &stopped);
    end(0, 1, &failed(1));
    end(0, 2, &failed(2));
    end(0, 3, &failed(3));
    assert_eq!(outcome(), (None, Some(failed(1))));
    // A rank that joins later changes nothing, nor does one that is told twice.
    declare("one", 0, 3);
    history.finish_run("a", 9.0, &RunOutcome::Finished).unwrap();
    history.finish_run("a", 9.0, &RunOutcome::Finished).unwrap();
    assert_eq!(outcome(), (Some(9.0), Some(failed(1))));
    // The last rank has to tell a restarted sidecar again.
    declare("one", 0, 3);
    assert_eq!(outcome(), (None, Some(failed(1))));
    declare("one", 0, 1);
    assert_eq!(outcome(), (None, None), "the rank that had failed goes on");
    end(0, 1, &failed(1));
    declare("one", 1, 0);
    assert_eq!(outcome(), (None, None), "a restart");
    end(0, 2, &failed(2));
    assert_eq!(outcome(), (None, None), "a rank of the restart before");
    history.finish_run("a", 9.0, &stopped).unwrap();
    assert_eq!(outcome(), (Some(9.0), Some(stopped)));
    declare("two", 0, 1);
    assert_eq!(outcome(), (None, None), "another launch");
    history.finish_run("a", 9.0, &RunOutcome::Finished).unwrap();
    assert_eq!(outcome(), (Some(9.0), Some(RunOutcome::Finished)));
}

pub fn the_outcome_of_ranks_without_a_job_is_that_of_the_run(history: &dyn Store) {
    let declare = || history.record_run(&run("a", 2), &Identity::default(), 1.0).unwrap();
    let outcome = || history.listed("a").unwrap().0.outcome;
    declare();
    history.finish_rank("a", Attempt::default(), Rank::of(1, 4).unwrap(), 5.0, &failed(1)).unwrap();
    declare();
    assert_eq!(outcome(), Some(failed(1)));
    history.finish_run("a", 9.0, &RunOutcome::Finished).unwrap();
    assert_eq!(outcome(), Some(failed(1)));
    declare();
    assert_eq!(outcome(), None);
}

pub fn processes_tell_the_restarts_of_a_launch_apart(history: &dyn Store) {
    let declare = |process: &str, restart, number, ranks| {
        let rank = Rank::of(number, ranks).unwrap();
        let identity = Identity { job: "one", restart, rank, client: process, process, ..Identity::default() };
        let of_size = RunFields { world_size: ranks, ..RunFields::clone(&run("a", 2)) };
        let record = history.record_run(&Run::try_from(of_size).unwrap(), &identity, 1.0).unwrap();
        (record.attempt.unwrap().restart, record.continues)
    };
    for (number, process) in (0..).zip(["p0", "p1", "p2", "p3"]) {
        assert_eq!(declare(process, 0, number, 4), (0, number > 0));
    }
    // The agent of ranks 2 and 3 counts a failure, that of ranks 0 and 1 does not.
    let restarted = [("q1", 0, 1), ("q3", 1, 3), ("q0", 0, 0), ("q2", 1, 2)];
    for (process, stated, number) in restarted {
        assert_eq!(declare(process, stated, number, 4), (1, process != "q1"), "{process}");
    }
    assert_eq!(declare("p3", 0, 3, 4), (0, true), "it has been replaced");
    // Two ranks leave: nobody counts that.
    assert_eq!(declare("r0", 0, 0, 2), (2, false));
    assert_eq!(declare("r1", 0, 1, 2), (2, true));
    assert_eq!(declare("q1", 0, 1, 4), (1, true));
    // Its agent counts more.
    assert_eq!(declare("s0", 3, 0, 2), (3, false));
    let ranks = history.ranks("a").unwrap();
    let ranks: Vec<_> = ranks.iter().map(|rank| (rank.attempt.restart, rank.rank, rank.client.as_str())).collect();
    assert_eq!(ranks, [(3, 0, "s0")]);
    // r1 was no part of what began, so it joins.
    assert_eq!(declare("r1", 0, 1, 2), (3, true));
}

pub fn titles_and_notes_are_kept_until_they_are_taken_away(history: &dyn Store) {
    history.record_run(&run("a", 2), &Identity::default(), 1.0).unwrap();
    let set = |title: Option<&str>, note: Option<&str>| {
        history.remark("a", &Remark { title: title.map(str::to_owned), note: note.map(str::to_owned) })
    };
    let said = || {
        let (stored, _) = history.listed("a").unwrap();
        (stored.title, stored.note)
    };
    set(Some("λ = 1, <b>"), None).unwrap();
    set(None, Some("two\nlines\tand 🦆")).unwrap();
    let both = (Some("λ = 1, <b>".to_owned()), Some("two\nlines\tand 🦆".to_owned()));
    assert_eq!(said(), both);
    history.record_run(&run("a", 2), &Identity::default(), 2.0).unwrap();
    assert_eq!(said(), both, "it resumes");
    assert!(matches!(set(Some("a\nb"), None), Err(HistoryError::Invalid { .. })));
    // The name itself is no title.
    set(Some("a"), Some("")).unwrap();
    assert_eq!(said(), (None, None));
    assert!(matches!(history.remark("b", &Remark::default()), Err(HistoryError::Unknown { .. })));
}

pub fn a_run_is_removed_whole_unless_it_is_open(history: &dyn Store) {
    let job = Identity { job: "job", ..Identity::default() };
    for name in ["a", "b"] {
        history.record_run(&run(name, 4), &job, 1.0).unwrap();
        history.record_point(&point(name, "val", 1, 4), None).unwrap();
    }
    assert!(matches!(history.remove_run("a"), Err(HistoryError::Open { run }) if run == "a"));
    history.finish_run("a", 5.0, &RunOutcome::Finished).unwrap();
    history.remove_run("a").unwrap();
    assert!(matches!(history.remove_run("a"), Err(HistoryError::Unknown { .. })));
    assert!(matches!(history.point("a", "val", None, true), Err(HistoryError::Unknown { .. })));
    assert_eq!(history.point("b", "val", None, true).unwrap(), Some(point("b", "val", 1, 4)));
    // Its name is free; resumed, a run is open again, until nobody sends to it.
    assert!(!history.record_run(&run("a", 2), &job, 2.0).unwrap().resumed);
    assert!(history.splits("a").unwrap().is_empty());
    history.finish_run("a", 5.0, &RunOutcome::Finished).unwrap();
    history.record_run(&run("a", 2), &job, 2.0).unwrap();
    assert!(matches!(history.remove_run("a"), Err(HistoryError::Open { .. })));
    history.forget_run("a");
    history.remove_run("a").unwrap();
}
