//! The influences of the newest evaluations of each split, for the standard errors of changes. Scores of a higher cost may be
//! those of an earlier evaluation: they are not computed of every one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use leakage::lock::lock;
use leakage::run::SplitKey;
use leakage::score::Influences;
use leakage::score::catalogue::Cost;

/// Maximum number of splits, each some 100 KiB at 4096 rows. A removed split has paired standard errors again from its
/// second evaluation on; until then its rules use the error for unpaired rows.
const SPLITS: usize = 256;

#[derive(Default)]
pub struct Earlier(Mutex<Splits>);

#[derive(Default)]
struct Splits {
    splits: BTreeMap<SplitKey, Newest>,
    evaluations: u64,
}

/// The newest influences of one split.
#[derive(Default)]
struct Newest {
    /// Number of the evaluation, counted over all splits.
    evaluation: u64,
    of_cost: BTreeMap<Cost, Arc<Influences>>,
}

impl Earlier {
    /// The standard errors of the changes of these scores since the last evaluation of the split that had them, which
    /// this one then is; none at the first.
    pub fn change_errors(&self, key: SplitKey, now: &Influences) -> Vec<(String, f64)> {
        let mut errors = Vec::new();
        for (cost, now) in now.by_cost() {
            let now = Arc::new(now);
            let before = lock(&self.0).of(&key).of_cost.insert(cost, Arc::clone(&now));
            errors.extend(before.map_or_else(Vec::new, |before| now.change_errors(&before)));
        }
        let mut state = lock(&self.0);
        state.evaluations += 1;
        let evaluation = state.evaluations;
        state.of(&key).evaluation = evaluation;
        if state.splits.len() > SPLITS {
            let oldest = state.splits.iter().min_by_key(|(_, newest)| newest.evaluation).map(|(key, _)| key.clone());
            oldest.and_then(|key| state.splits.remove(&key));
        }
        errors
    }

    pub fn forget_run(&self, run: &str) {
        lock(&self.0).splits.retain(|key, _| *key.run != *run);
    }
}

impl Splits {
    fn of(&mut self, key: &SplitKey) -> &mut Newest {
        self.splits.entry(key.clone()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn splits(earlier: &Earlier) -> Vec<String> {
        lock(&earlier.0).splits.keys().map(|key| format!("{}/{}", key.run, key.split)).collect()
    }

    #[test]
    fn a_run_is_forgotten_with_all_its_splits() {
        let earlier = Earlier::default();
        for (run, split) in [("a", "train"), ("ab", "val"), ("a", "val")] {
            earlier.change_errors(SplitKey::new(run, split), &Influences::default());
        }
        earlier.forget_run("a");
        assert_eq!(splits(&earlier), ["ab/val"]);
    }

    #[test]
    fn above_the_bound_the_oldest_evaluation_is_removed_first() {
        let earlier = Earlier::default();
        let evaluate =
            |run: usize| earlier.change_errors(SplitKey::new(format!("{run:03}"), "val"), &Influences::default());
        (0..SPLITS).for_each(|run| drop(evaluate(run)));
        evaluate(0);
        evaluate(SPLITS);
        let kept = splits(&earlier);
        assert_eq!((kept.len(), kept[0].as_str(), kept[1].as_str()), (SPLITS, "000/val", "002/val"));
    }
}
