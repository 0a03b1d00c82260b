//! The values of a split that scoring carries from one evaluation to the next: the influences of its rows, for the standard
//! errors of changes, and the pairs that a rolling window need not compute again; and the rows of its newest evaluation that
//! leak most, for those who ask.
//!
//! Scores of a higher cost are not computed of every evaluation, so their influences may be those of an earlier one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use leakage::lock::lock;
use leakage::pair_cache::Kept;
use leakage::sample::Evaluation;
use leakage::score::catalogue::Cost;
use leakage::score::{Influences, LeakingRowsOfTasks};

/// Maximum number of splits of all runs that carry values, and of bytes of their pairs and rows. Influences take some 100 KiB at 4096
/// rows; pairs take 1.1 MiB for 112 concepts with embeddings, and 90 MiB for 1000. A split that was freed computes every
/// pair at its next tick, and has paired standard errors again from its second evaluation on; until then its rules use the
/// error for unpaired rows.
const SPLITS: usize = 256;
const BYTES: usize = 384 << 20;

/// The carried values of each split of a run.
#[derive(Default)]
pub struct Carried(Mutex<BTreeMap<Arc<str>, OfSplit>>);

struct OfSplit {
    /// When the split was last evaluated.
    used: Instant,
    influences: BTreeMap<Cost, Arc<Influences>>,
    pairs: Option<Pairs>,
    rows: Option<Arc<RowsOfStep>>,
}

impl OfSplit {
    fn bytes(&self) -> usize {
        let pairs = self.pairs.as_ref().map_or(0, |pairs| pairs.bytes);
        pairs + self.rows.as_ref().map_or(0, |of_step| of_step.rows.bytes())
    }
}

/// The rows of an evaluation that leak most.
pub struct RowsOfStep {
    pub step: u64,
    /// Seconds since 1970-01-01 UTC at which the sample was closed.
    pub time: f64,
    pub rows: LeakingRowsOfTasks,
}

struct Pairs {
    kept: Kept,
    bytes: usize,
    step: u64,
}

impl Carried {
    fn with<R>(&self, split: &Arc<str>, change: impl FnOnce(&mut OfSplit) -> R) -> R {
        let mut splits = lock(&self.0);
        let fresh = || OfSplit { used: Instant::now(), influences: BTreeMap::new(), pairs: None, rows: None };
        let of_split = splits.entry(Arc::clone(split)).or_insert_with(fresh);
        of_split.used = Instant::now();
        change(of_split)
    }

    /// Takes the pairs of a split for its tick at `step`. They are empty if the last tick was at a later step: the run has
    /// returned to an earlier step, and the values belong to a model that it has abandoned.
    pub fn take_pairs(&self, split: &Arc<str>, step: u64) -> Kept {
        let pairs = self.with(split, |of_split| of_split.pairs.take());
        pairs.filter(|pairs| pairs.step <= step).map(|pairs| pairs.kept).unwrap_or_default()
    }

    pub fn put_pairs(&self, split: &Arc<str>, step: u64, kept: Kept) {
        let bytes = kept.bytes();
        self.with(split, |of_split| of_split.pairs = Some(Pairs { kept, bytes, step }));
    }

    /// Keeps the rows, if any, in the place of those of an earlier evaluation, and returns the standard errors of the changes of
    /// these scores since the last evaluation of the split that had them, which this one then is; none at the first.
    pub fn carry(
        &self,
        evaluation: &Evaluation,
        influences: &Influences,
        rows: Option<LeakingRowsOfTasks>,
    ) -> Vec<(String, f64)> {
        let split = &evaluation.key.split;
        if let Some(rows) = rows {
            let kept = Arc::new(RowsOfStep { step: evaluation.step.get(), time: evaluation.time, rows });
            self.with(split, |of_split| of_split.rows = Some(kept));
        }
        let mut errors = Vec::new();
        for (cost, now) in influences.by_cost() {
            let now = Arc::new(now);
            let before = self.with(split, |of_split| of_split.influences.insert(cost, Arc::clone(&now)));
            errors.extend(before.map_or_else(Vec::new, |before| now.change_errors(&before)));
        }
        errors
    }

    /// The rows that leak most, of the newest evaluation that has some; `None` where none is in memory.
    pub fn leaking_rows(&self, split: &str) -> Option<Arc<RowsOfStep>> {
        lock(&self.0).get(split)?.rows.clone()
    }
}

/// Frees the values of the splits of these runs that were evaluated longest ago, until the rest is within both bounds.
/// Returns the bytes of the pairs and rows that are left, except those taken for a tick and not put back yet.
pub fn bound<'a>(runs: impl IntoIterator<Item = &'a Carried>) -> usize {
    within(runs, SPLITS, BYTES)
}

fn within<'a>(runs: impl IntoIterator<Item = &'a Carried>, most_splits: usize, most_bytes: usize) -> usize {
    let mut held = Vec::new();
    for carried in runs {
        let splits = lock(&carried.0);
        held.extend(splits.iter().map(|(split, of)| (of.used, of.bytes(), carried, Arc::clone(split))));
    }
    held.sort_by_key(|(used, ..)| *used);
    let (mut splits, mut left) = (held.len(), held.iter().map(|(_, bytes, ..)| bytes).sum());
    for (_, bytes, carried, split) in held {
        if splits > most_splits || (left > most_bytes && bytes > 0) {
            lock(&carried.0).remove(&split);
            (splits, left) = (splits - 1, left - bytes);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values after that many evaluations.
    fn kept(evaluations: u64) -> Kept {
        let mut kept = Kept::default();
        (0..evaluations).for_each(|_| kept.begin(10));
        kept
    }

    fn evaluations(carried: &Carried, split: &str, step: u64) -> u64 {
        carried.take_pairs(&split.into(), step).evaluation()
    }

    fn splits(carried: &Carried) -> Vec<String> {
        lock(&carried.0).keys().map(|split| split.to_string()).collect()
    }

    #[test]
    fn a_split_finds_its_pairs_unless_it_returns_to_an_earlier_step() {
        let carried = Carried::default();
        carried.put_pairs(&"train".into(), 10, kept(3));
        assert_eq!(evaluations(&carried, "all", 10), 0);
        assert_eq!(evaluations(&carried, "train", 10), 3);
        assert_eq!(evaluations(&carried, "train", 10), 0, "it was taken");
        carried.put_pairs(&"train".into(), 10, kept(4));
        assert_eq!(evaluations(&carried, "train", 9), 0);
    }

    #[test]
    fn above_a_bound_the_split_that_was_evaluated_longest_ago_is_freed_first() {
        let runs = [Carried::default(), Carried::default()];
        for (run, split) in [(0, "a"), (1, "b"), (0, "c"), (0, "a")] {
            runs[run].put_pairs(&split.into(), 1, kept(1));
        }
        // Evaluated before the others, but it has no pairs to free.
        runs[1].with(&"val".into(), |of_split| of_split.used = Instant::now() - std::time::Duration::from_secs(1));
        let bytes = kept(1).bytes();
        assert!(bytes > 0);
        assert_eq!(within(&runs, 4, 3 * bytes), 3 * bytes);
        assert_eq!([splits(&runs[0]), splits(&runs[1])].concat(), ["a", "c", "b", "val"]);
        assert_eq!(within(&runs, 4, 3 * bytes - 1), 2 * bytes);
        assert_eq!([splits(&runs[0]), splits(&runs[1])].concat(), ["a", "c", "val"]);
        assert_eq!(within(&runs, 2, 2 * bytes), 2 * bytes);
        assert_eq!(splits(&runs[0]), ["a", "c"]);
        assert_eq!(within(&runs, 1, 2 * bytes), bytes);
        assert_eq!(splits(&runs[0]), ["a"]);
        assert_eq!(within(&runs, 1, 0), 0);
        assert!(splits(&runs[0]).is_empty());
    }
}
