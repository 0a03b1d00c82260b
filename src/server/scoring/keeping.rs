//! The values that rolling splits keep from one tick to the next, until the split ends or returns to an earlier step.

use std::collections::BTreeMap;
use std::sync::Mutex;

use leakage::pair_cache::Kept;
use leakage::run::SplitKey;

use leakage::lock::lock;

/// Maximum number of splits that keep values, and of bytes for all of them. The values of 112 concepts with embeddings
/// take 1.1 MiB, those of 1000 concepts 90 MiB. Above either bound the split with the oldest tick is removed; its next
/// tick computes every pair.
const SPLITS: usize = 256;
const BYTES: usize = 384 << 20;

#[derive(Default)]
pub struct Keeping(Mutex<Splits>);

#[derive(Default)]
struct Splits {
    splits: BTreeMap<SplitKey, Entry>,
    ticks: u64,
}

struct Entry {
    kept: Kept,
    bytes: usize,
    step: u64,
    /// Number of the split's last tick, counted over all splits.
    tick: u64,
}

impl Keeping {
    /// Takes the values of a split for its tick at `step`. They are empty if the last tick was at a later step: the run
    /// has returned to an earlier step, and the values belong to a model that it has abandoned.
    pub fn take(&self, key: &SplitKey, step: u64) -> Kept {
        let entry = lock(&self.0).splits.remove(key);
        entry.filter(|entry| entry.step <= step).map(|entry| entry.kept).unwrap_or_default()
    }

    pub fn put(&self, key: SplitKey, step: u64, kept: Kept) {
        let bytes = kept.bytes();
        let mut state = lock(&self.0);
        state.ticks += 1;
        let tick = state.ticks;
        state.splits.insert(key, Entry { kept, bytes, step, tick });
        state.let_go(SPLITS, BYTES);
    }

    /// Bytes of all values, except those taken for a tick and not put back yet.
    pub fn bytes(&self) -> usize {
        lock(&self.0).bytes()
    }

    pub fn forget_run(&self, run: &str) {
        lock(&self.0).splits.retain(|key, _| *key.run != *run);
    }
}

impl Splits {
    fn bytes(&self) -> usize {
        self.splits.values().map(|entry| entry.bytes).sum()
    }

    /// Removes the oldest entries until the rest is within both bounds.
    fn let_go(&mut self, splits: usize, bytes: usize) {
        while self.splits.len() > splits || self.bytes() > bytes {
            let oldest = self.splits.iter().min_by_key(|(_, entry)| entry.tick).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { return };
            self.splits.remove(&oldest);
        }
    }
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

    fn evaluations(keeping: &Keeping, key: &SplitKey, step: u64) -> u64 {
        keeping.take(key, step).evaluation()
    }

    fn split(run: &str, split: &str) -> SplitKey {
        SplitKey::new(run, split)
    }

    #[test]
    fn a_split_finds_its_values_unless_it_returns_to_an_earlier_step() {
        let keeping = Keeping::default();
        keeping.put(split("a", "train"), 10, kept(3));
        assert_eq!(evaluations(&keeping, &split("b", "train"), 10), 0);
        assert_eq!(evaluations(&keeping, &split("a", "train"), 10), 3);
        assert_eq!(evaluations(&keeping, &split("a", "train"), 10), 0, "it was taken");
        keeping.put(split("a", "train"), 10, kept(4));
        assert_eq!(evaluations(&keeping, &split("a", "train"), 9), 0);
    }

    #[test]
    fn the_values_of_a_run_are_forgotten_with_it() {
        let keeping = Keeping::default();
        for key in [split("a", "train"), split("a", "all"), split("ab", "train")] {
            keeping.put(key, 1, kept(1));
        }
        keeping.forget_run("a");
        let gone = ["train", "all"].map(|name| evaluations(&keeping, &split("a", name), 2));
        assert_eq!((gone, evaluations(&keeping, &split("ab", "train"), 2)), ([0, 0], 1));
    }

    #[test]
    fn above_a_bound_the_oldest_is_removed_first() {
        let keeping = Keeping::default();
        for name in ["a", "b", "c", "a"] {
            keeping.put(split(name, "train"), 1, kept(1));
        }
        let bytes = kept(1).bytes();
        assert_eq!(keeping.bytes(), 3 * bytes);
        let names = || lock(&keeping.0).splits.keys().map(|key| key.run.to_string()).collect::<Vec<_>>();
        lock(&keeping.0).let_go(3, 3 * bytes);
        assert_eq!(names(), ["a", "b", "c"]);
        lock(&keeping.0).let_go(2, 3 * bytes);
        assert_eq!(names(), ["a", "c"]);
        lock(&keeping.0).let_go(2, 2 * bytes - 1);
        assert_eq!(names(), ["a"]);
        lock(&keeping.0).let_go(2, 0);
        assert!(names().is_empty());
    }
}
