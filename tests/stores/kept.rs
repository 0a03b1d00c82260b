//! What a process caches of the database equals the database, whoever changes it and in whatever order changes are
//! committed.

use conceptwatch::history::{Identity, Listing, Postgres, Remark, RunOutcome, Store, Wanted};
use conceptwatch::search::Search;
use leakage::compare::OF_GROUPS;
use leakage::point::Point;
use leakage::sample::Attempt;

use super::common::postgres::{Server, database};
use super::common::stored::{point, run};
use super::comparing::one_by_one;

const RUNS: usize = 12;
const OTHERS: [&str; 4] = ["purity", "icl", "ctl", "task_accuracy"];

/// Names, titles, cursors and splits of all pages, and what a search finds.
fn pages(store: &Postgres) -> String {
    let mut said = String::new();
    for search in ["", "r1", "best"] {
        let mut wanted = Wanted { search: Search::of(search), most: Some(5), ..Wanted::default() };
        loop {
            let Listing { runs, total, next } = store.listing(&wanted).unwrap();
            for (stored, splits) in runs {
                said += &format!("{} {:?} {:?} {splits:?}\n", stored.run.name, stored.title, stored.finished);
            }
            said += &format!("{total} {next:?}\n");
            wanted.after = next;
            if next.is_none() {
                break;
            }
        }
    }
    said
}

fn agree(kept: &Postgres, url: &str, what: &str) {
    let fresh = Postgres::open(url).unwrap();
    assert_eq!(pages(kept), pages(&fresh), "{what}");
    let names: Vec<String> = (0..RUNS).map(|at| format!("r{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(kept.labelled().unwrap(), fresh.labelled().unwrap(), "{what}");
    for (scores, most) in [(&OF_GROUPS[..], 5), (&OTHERS[..], 5), (&OTHERS[..], 2), (&OTHERS[..], 9)] {
        let found = kept.briefs(&names, "val", scores, most).unwrap();
        assert_eq!(found, one_by_one(&fresh, &names, scores, most), "{what}: {scores:?} {most}");
    }
}

/// A number below `most` that looks random.
fn chance(state: &mut u64, most: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % most
}

#[test]
fn what_other_processes_change_is_seen_at_once() {
    let Some(url) = database() else { return };
    let (kept, other) = (Postgres::open(&url).unwrap(), Postgres::open(&url).unwrap());
    let state = &mut 7;
    for turn in 0..300 {
        let name = format!("r{}", chance(state, RUNS as u64));
        // Fails, and changes nothing, if the run is absent or open.
        let what = match chance(state, 12) {
            0 | 1 => {
                let job = format!("job-{turn}");
                let identity = Identity { job: &job, resume: true, ..Identity::default() };
                let started = 10.0 + chance(state, 20) as f64;
                format!("declared {:?}", other.record_run(&run(&name, 2), &identity, started).is_ok())
            }
            2 => format!(
                "finished {:?}",
                other.finish_run(&name, 1000.0 + f64::from(turn), &RunOutcome::Finished).is_ok()
            ),
            3 => {
                let title = (turn % 2 == 0).then(|| format!("best of {turn}"));
                let remark = Remark { title: Some(title.unwrap_or_default()), ..Remark::default() };
                format!("titled {:?}", other.remark(&name, &remark).is_ok())
            }
            4 => format!("removed {:?}", other.remove_run(&name).is_ok()),
            _ => {
                let (step, launch) = (chance(state, 12), chance(state, 3) as u32);
                let split = if chance(state, 6) == 0 { "test" } else { "val" };
                let provisional = chance(state, 8) == 0;
                let scored = Point { provisional, incomplete: false, ..point(&name, split, step, 2) };
                let attempt = (turn % 3 > 0).then_some(Attempt { launch, restart: 0 });
                format!("scored {split} {step} {:?}", other.record_point(&scored, attempt).is_ok())
            }
        };
        if turn % 5 == 0 || turn > 280 {
            agree(&kept, &url, &format!("turn {turn}: {name} {what}"));
        }
    }
}

#[test]
fn a_change_that_commits_after_later_ones_is_seen() {
    let (Some(url), Some(server)) = (database(), Server::shared()) else { return };
    let kept = Postgres::open(&url).unwrap();
    kept.record_run(&run("r1", 2), &Identity::default(), 1.0).unwrap();
    kept.record_run(&run("r2", 2), &Identity::default(), 2.0).unwrap();
    agree(&kept, &url, "at first");
    let mut slow = server.admin(url.rsplit('/').next().unwrap());
    let mut change = slow.transaction().unwrap();
    change.batch_execute("UPDATE run SET title = 'best', changed = clock_timestamp() WHERE name = 'r1'").unwrap();
    for step in 1..4 {
        kept.record_point(&point("r2", "val", step, 2), None).unwrap();
        kept.record_run(&run(&format!("r{}", 2 + step), 2), &Identity::default(), 3.0).unwrap();
        agree(&kept, &url, "while a change is not committed");
    }
    assert!(!pages(&kept).contains("best"));
    change.commit().unwrap();
    assert!(pages(&kept).contains("best"));
    agree(&kept, &url, "when it is");
}

#[test]
fn many_readers_see_what_they_have_changed_themselves() {
    let Some(url) = database() else { return };
    let kept = Postgres::open(&url).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let kept = &kept;
            scope.spawn(move || {
                for turn in 0..15 {
                    let name = format!("t{thread}-{turn}");
                    kept.record_run(&run(&name, 2), &Identity::default(), f64::from(turn)).unwrap();
                    let scored = Point { incomplete: false, ..point(&name, "val", 1, 2) };
                    kept.record_point(&scored, None).unwrap();
                    let found = kept.listing(&Wanted { search: Search::of(&name), ..Wanted::default() }).unwrap();
                    assert!(found.runs.iter().any(|(stored, splits)| *stored.run.name == *name && splits.len() == 1));
                    assert_eq!(found.total as usize, found.runs.len());
                    assert_eq!(kept.briefs(&[&name], "val", &OF_GROUPS, 5).unwrap()[0].len(), 1);
                }
            });
        }
    });
    assert_eq!(kept.labelled().unwrap().len(), 60);
}
