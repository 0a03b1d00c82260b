//! From parts to the job of a pass.

use std::sync::Barrier;
use std::time::Duration;

use conceptwatch::history::{Ending, HistoryError, Identity, JobMaterial, PassKey, PassState, PutPart, Store};
use conceptwatch::run::SplitKey;
use conceptwatch::sample::{Attempt, Part, PassOf, Union, union};
use conceptwatch::step::Rank;

use crate::parts::{Job, run};
use crate::{Hub, small};

#[test]
fn a_pass_closes_with_the_part_of_its_last_rank() {
    let Some(hub) = Hub::new(Job { batch_rows: 8, ..Job::new(6, 60, 16, 1) }) else { return };
    let (pass, parts) = (hub.pass("val", 7), hub.parts(3, 7, None));
    let put = |at: usize| hub.store.put_part(&pass, &parts[at].0, &parts[at].1).unwrap();
    assert_eq!((put(0), put(1), put(0)), (PutPart::Open, PutPart::Open, PutPart::Open));
    assert!(hub.claim().is_none());
    assert_eq!(put(2), PutPart::Closed);
    assert_eq!(put(2), PutPart::Closed, "a retry");
    let job = hub.claim().unwrap();
    assert_eq!((&job.pass, job.kind.as_str(), job.failures), (&pass, "fast", 0));
    let material = hub.store.job_material(&job).unwrap();
    assert_eq!((material.run, material.parts.unwrap().len()), (hub.job.run.as_ref().clone(), 3));
    assert!(material.time > 1.6e9 && hub.claim().is_none());
}

#[test]
fn whoever_commits_last_closes_the_pass() {
    const SOURCES: u32 = 8;
    let Some(hub) = Hub::new(Job { batch_rows: 8, ..Job::new(SOURCES, 64, 16, 1) }) else { return };
    let parts = hub.parts(SOURCES, 7, None);
    let stores: Vec<_> = (0..SOURCES).map(|_| hub.another()).collect();
    let start = Barrier::new(SOURCES as usize);
    for round in 0..200 {
        let pass = hub.pass(&format!("split {round}"), 7);
        let states: Vec<PutPart> = std::thread::scope(|scope| {
            let put = |at: usize| {
                let (store, (source, part), start, pass) = (&stores[at], &parts[at], &start, &pass);
                scope.spawn(move || {
                    start.wait();
                    store.put_part(pass, source, part).unwrap()
                })
            };
            let threads: Vec<_> = (0..SOURCES as usize).map(put).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(states.contains(&PutPart::Closed), "round {round}: {states:?}");
        let job = hub.claim().unwrap();
        assert!(job.pass == pass && hub.claim().is_none(), "round {round}: one job");
        assert!(hub.store.finish_unscored(&job, "enough", 0).unwrap());
    }
}

#[test]
fn a_larger_part_of_a_source_replaces_a_smaller_one_and_not_the_other_way_round() {
    let Some(hub) = Hub::new(Job { batch_rows: 8, ..Job::new(4, 60, 16, 1) }) else { return };
    let pass = hub.pass("val", 7);
    let (small, whole) = (hub.parts(4, 7, None), hub.parts(2, 7, None));
    let put = |part: &[u8]| hub.store.put_part(&pass, "one", part).unwrap();
    assert_eq!((put(&small[0].1), put(&whole[0].1), put(&small[1].1)), (PutPart::Open, PutPart::Open, PutPart::Open));
    assert_eq!(hub.store.put_part(&pass, "two", &whole[1].1).unwrap(), PutPart::Closed);
    let material = hub.store.job_material(&hub.claim().unwrap()).unwrap();
    let ended = |part: &Part| part.ended().len();
    assert_eq!(material.parts.unwrap().iter().map(ended).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn a_part_of_an_older_attempt_is_refused_and_what_is_open_of_it_discarded() {
    let Some(hub) = Hub::new(small()) else { return };
    let parts = hub.parts(2, 7, None);
    let (old, other) = (hub.pass("val", 7), hub.pass("test", 7));
    for pass in [&old, &other] {
        assert_eq!(hub.store.put_part(pass, "a", &parts[0].1).unwrap(), PutPart::Open);
    }
    let new = PassKey { attempt: Attempt { launch: 0, restart: 1 }, ..old.clone() };
    assert_eq!(hub.store.put_part(&new, "a", &parts[0].1).unwrap(), PutPart::Open);
    assert_eq!(hub.store.put_part(&old, "b", &parts[1].1).unwrap(), PutPart::StaleAttempt);
    let discarded = hub.store.unscored_at("run", "val", 7).unwrap().unwrap();
    assert_eq!((discarded.outcome, discarded.attempt), (Ending::Discarded, Some(Attempt::default())));
    let states = hub.store.pass_states("a", &[old, new.clone(), other.clone()]).unwrap();
    let discarded = "a newer attempt of the run began before all ranks had ended it".to_owned();
    assert_eq!(states[0], PassState::Unscored { ending: Ending::Discarded, reason: discarded });
    assert_eq!(states[1..], [PassState::Open, PassState::Open], "another split is not concerned");
    assert_eq!(hub.store.put_part(&new, "b", &parts[1].1).unwrap(), PutPart::Closed);
    assert_eq!(hub.store.put_part(&other, "b", &parts[1].1).unwrap(), PutPart::Closed);
}

#[test]
fn attempts_that_race_leave_parts_of_the_newest_alone() {
    let Some(hub) = Hub::new(small()) else { return };
    let parts = hub.parts(2, 7, None);
    let start = Barrier::new(8);
    for round in 0..25 {
        let pass =
            |restart| PassKey { attempt: Attempt { launch: 0, restart }, ..hub.pass(&format!("split {round}"), 7) };
        std::thread::scope(|scope| {
            for at in 0..8 {
                let (hub, start, pass, (source, part)) = (&hub, &start, pass(at as u32 / 2), &parts[at % 2]);
                scope.spawn(move || {
                    start.wait();
                    hub.store.put_part(&pass, source, part).unwrap()
                });
            }
        });
        // Attempts may have been complete before the next one came.
        let mut last = None;
        while let Some(job) = hub.claim() {
            assert!(hub.store.finish_unscored(&job, "enough", 0).unwrap());
            last = last.max(Some(job.pass.attempt.restart));
        }
        assert_eq!(last, Some(3), "round {round}");
    }
}

#[test]
fn the_deadline_closes_a_pass_with_the_parts_that_have_come() {
    let Some(hub) = Hub::new(small()) else { return };
    let pass = hub.pass("val", 7);
    hub.store.put_part(&pass, "a", &hub.parts(2, 7, None)[0].1).unwrap();
    let overdue = hub.store.close_overdue(Duration::from_secs(3600)).unwrap();
    assert_eq!((overdue.closed, overdue.lost), (0, 0));
    let overdue = hub.store.close_overdue(Duration::ZERO).unwrap();
    assert_eq!((overdue.closed, overdue.lost), (1, 0));
    assert_eq!(hub.store.close_overdue(Duration::ZERO).unwrap().closed, 0);
    let job = hub.claim().unwrap();
    let parts = hub.store.job_material(&job).unwrap().parts.unwrap();
    let (evaluation, _) = hub.job.exactly(&parts.iter().map(Part::to_bytes).collect::<Vec<_>>());
    assert_eq!((evaluation.ranks_missing, evaluation.incomplete()), (1, true));
}

#[test]
fn parts_that_are_none_are_refused_by_the_field() {
    let Some(hub) = Hub::new(small()) else { return };
    let (pass, part) = (hub.pass("val", 7), hub.parts(2, 7, None).remove(0).1);
    assert_eq!(hub.store.put_part(&pass, "b", &part).unwrap(), PutPart::Open);
    let other = Job { run: run(2, 4), ..Job::new(4, 40, 16, 1) };
    let of_four = other.parts(&other.in_processes(2, &other.batches(1)), None).remove(0);
    let cut_off = part[..part.len() - 1].to_vec();
    let cases = [
        (&pass, vec![0; 40], "part", "expected a part"),
        (&pass, cut_off, "part.checksum", "does not match"),
        (&hub.pass("val", 8), part.clone(), "part.step", "got 7, expected 8"),
        (&pass, of_four, "part.world_size", "got 4, expected 2"),
    ];
    for (pass, body, field, message) in cases {
        match hub.store.put_part(pass, "a", &body) {
            Err(HistoryError::Invalid { field: got, message: why }) => {
                assert!(got == field && why.contains(message), "{got}: {why}");
            }
            other => panic!("{other:?} for {field}"),
        }
    }
    let unknown = PassKey { run: "other".into(), ..pass };
    assert!(matches!(hub.store.put_part(&unknown, "a", &part), Err(HistoryError::Unknown { .. })));
}

#[test]
fn a_restart_with_another_number_of_ranks_leaves_the_passes_before_it_as_they_were() {
    let Some(hub) = Hub::new(small()) else { return };
    let (closed, old) = (hub.closed("val", 7), hub.pass("val", 8));
    let of_two = hub.parts(2, 8, None);
    assert_eq!(hub.store.put_part(&old, "a", &of_two[0].1).unwrap(), PutPart::Open);
    let job = Job { run: run(2, 4), step: 8, ..Job::new(4, 40, 16, 1) };
    let rank = Rank::of(0, 4).unwrap();
    let identity = Identity { job: "launch", restart: 1, rank, client: "rank-0", ..Identity::default() };
    hub.store.record_run(&job.run, &identity, 1e9).unwrap();
    let of_four = job.parts(&job.in_processes(2, &job.batches(1)), None);
    let new = PassKey { attempt: Attempt { launch: 0, restart: 1 }, ..old.clone() };
    assert_eq!(hub.store.put_part(&new, "a", &of_four[0]).unwrap(), PutPart::Open);
    assert_eq!(hub.store.put_part(&old, "b", &of_two[1].1).unwrap(), PutPart::StaleAttempt);
    assert_eq!(hub.store.put_part(&new, "b", &of_four[1]).unwrap(), PutPart::Closed);
    for pass in [closed, new] {
        let job = hub.claim().unwrap();
        assert_eq!(job.pass, pass);
        let JobMaterial { run, parts, time, .. } = hub.store.job_material(&job).unwrap();
        let of = PassOf { key: SplitKey::new("run", "val"), run: run.into(), attempt: job.pass.attempt, time };
        match union(parts.unwrap(), of).unwrap() {
            Union::Exact { evaluation, .. } => assert_eq!(evaluation.ranks_missing, 0),
            Union::NeedsWhole { .. } => panic!("whole parts"),
        }
        assert!(hub.store.finish_unscored(&job, "enough", 0).unwrap());
    }
}
