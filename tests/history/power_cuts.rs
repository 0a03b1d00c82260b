//! Power cuts: what was written and synced is recorded, and the disk is built as a cut may leave it.
//!
//! What was synced is there. Of what was written since, each write is there, or not, or only some of its sectors,
//! whatever the order. A sector of 512 bytes is written as a whole or not at all, and bytes beside a write are left alone
//! (SQLite's "powersafe overwrite"). Deleted files stay deleted.
//!
//! `CONCEPTWATCH_CASES` is the number of cuts, `CONCEPTWATCH_SEED` the first seed.

use std::collections::BTreeMap;

use conceptwatch::history::{Ending, Identity, Sqlite, Store};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::points::{LIMITS, point, setting, stored};
use crate::stored::{run, unscored};
use crate::vfs::{Event, Watch};

const SECTOR: usize = 512;
const CONCEPTS: usize = 32;
const STEPS: u64 = 240;

/// A file as the disk has it, and what has been done to it since the last sync.
#[derive(Clone, Default)]
struct Disk {
    synced: Vec<u8>,
    since: Vec<Event>,
}

impl Disk {
    fn after(&self, random: &mut ChaCha8Rng) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        // As much as possible, as little, or each on its own.
        let mood = random.random_range(0..4);
        for event in &self.since {
            match (event, mood) {
                (_, 0) => {}
                (event, 1) => apply(event, &mut bytes, |_| true),
                (event, _) => match random.random_range(0..3) {
                    0 => {}
                    1 => apply(event, &mut bytes, |_| true),
                    _ => apply(event, &mut bytes, |_| random.random()),
                },
            }
        }
        bytes
    }
}

fn apply(event: &Event, file: &mut Vec<u8>, mut keeps: impl FnMut(usize) -> bool) {
    match event {
        Event::Write { at, bytes, .. } => {
            file.resize(file.len().max(at + bytes.len()), 0);
            let mut from = 0;
            while from < bytes.len() {
                let to = ((at + from) / SECTOR + 1) * SECTOR - at;
                let to = to.min(bytes.len());
                if keeps(from) {
                    file[at + from..at + to].copy_from_slice(&bytes[from..to]);
                }
                from = to;
            }
        }
        Event::Truncate { length, .. } => file.resize(*length, 0),
        _ => {}
    }
}

/// A history that is opened twice, with a point each step and now and then a record, and every change of its files.
fn recorded() -> Vec<Event> {
    let directory = tempfile::tempdir().unwrap();
    let watch = Watch::over(directory.path());
    watch.record();
    let open = || Sqlite::open(Some(directory.path()), LIMITS).unwrap();
    let mut history = open();
    for step in 0..STEPS {
        if step == STEPS / 3 {
            drop(history);
            history = open();
        }
        if step % (STEPS / 3) == 0 {
            let identity = Identity { job: "job", resume: true, ..Identity::default() };
            history.record_run(&run("r", CONCEPTS), &identity, 1.0).unwrap();
        }
        history.record_point(&point("r", "val", step, CONCEPTS), None).unwrap();
        history.write_at_last().unwrap();
        watch.mark(step);
        if step % 10 == 0 {
            history.record_unscored(&[unscored("test", step, Ending::Skipped)]).unwrap();
            history.write_at_last().unwrap();
            watch.mark(STEPS + step);
        }
    }
    watch.events()
}

#[test]
fn what_is_stored_survives_a_power_cut_at_any_moment() {
    let events = recorded();
    assert!(events.iter().filter(|event| matches!(event, Event::Truncate { .. } | Event::Delete { .. })).count() > 0);
    let (cases, first) = (setting("CONCEPTWATCH_CASES", 100), setting("CONCEPTWATCH_SEED", 1));
    let mut cuts: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for seed in first..first + cases {
        let at = ChaCha8Rng::seed_from_u64(seed).random_range(0..=events.len());
        cuts.entry(at).or_default().push(seed);
    }
    let (mut disk, mut last): (BTreeMap<String, Disk>, [Option<u64>; 2]) = Default::default();
    let mut lost_writes = 0;
    for at in 0..=events.len() {
        for seed in cuts.get(&at).into_iter().flatten() {
            let case = format!("seed {seed}, cut after {at} of {} events", events.len());
            let mut random = ChaCha8Rng::seed_from_u64(*seed);
            random.random_range(0..=events.len());
            let directory = tempfile::tempdir().unwrap();
            for (name, file) in &disk {
                lost_writes += file.since.len();
                std::fs::write(directory.path().join(name), file.after(&mut random)).unwrap();
            }
            let history =
                Sqlite::open(Some(directory.path()), LIMITS).unwrap_or_else(|error| panic!("{case}: {error}"));
            assert_eq!(history.usage().unwrap().damaged, 0, "{case}: a power cut is not damage");
            let Some(newest) = last[0] else { continue };
            let steps = stored(&history, "r", "val", STEPS, CONCEPTS, &case);
            assert!(steps.len() as u64 > newest, "{case}: step {newest} was stored, got {steps:?}");
            assert_eq!(steps, (0..steps.len() as u64).collect::<Vec<_>>(), "{case}");
            assert!(steps.len() as u64 <= newest + 2, "{case}");
            let records: Vec<u64> = history.unscored("r", "test").unwrap().iter().map(|pass| pass.step).collect();
            let expected = last[1].map_or(0, |newest| newest / 10 + 1) as usize;
            assert!((expected..=expected + 1).contains(&records.len()), "{case}: got {records:?}");
            // It goes on where it was.
            history.record_point(&point("r", "val", newest + 1, CONCEPTS), None).unwrap();
        }
        match events.get(at) {
            Some(Event::Mark(step)) if *step < STEPS => last[0] = Some(*step),
            Some(Event::Mark(step)) => last[1] = Some(step - STEPS),
            Some(Event::Sync { name }) => {
                let file = disk.entry(name.clone()).or_default();
                for event in std::mem::take(&mut file.since) {
                    apply(&event, &mut file.synced, |_| true);
                }
            }
            Some(Event::Delete { name }) => drop(disk.remove(name)),
            Some(event @ (Event::Write { name, .. } | Event::Truncate { name, .. })) => {
                disk.entry(name.clone()).or_default().since.push(event.clone());
            }
            None => {}
        }
    }
    println!("{cases} cuts in {} events; {lost_writes} writes were not synced", events.len());
}
