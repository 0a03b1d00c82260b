//! The batches that have been applied and the ranks that have finished: small sets of bounded memory.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::step::Rank;

/// Identifies a batch: its client, and the client's sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// [`client_hash`](super::client_hash) of the client's name.
    pub client: u64,
    /// Sequence number over the client's batches and ends of passes. A retry carries the same number.
    pub sequence: u64,
}

/// Maximum number of clients remembered at a time.
const MAX_CLIENTS: usize = 1 << 17;
/// Maximum number of gaps remembered in one client's sequence numbers.
const MAX_RANGES: usize = 256;

/// Batches applied. Sequence numbers are mostly consecutive, so they are stored as ranges. Forgetting some at the
/// bounds is harmless: the rows of a retry are then recognised one by one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Applied {
    /// For each client, disjoint inclusive ranges in ascending order.
    ranges: HashMap<u64, Vec<(u64, u64)>>,
}

impl Applied {
    pub fn contains(&self, source: Source) -> bool {
        let Some(ranges) = self.ranges.get(&source.client) else { return false };
        let after = ranges.partition_point(|range| range.0 <= source.sequence);
        after > 0 && source.sequence <= ranges[after - 1].1
    }

    pub fn insert(&mut self, source: Source) {
        if self.contains(source) {
            return;
        }
        if self.ranges.len() >= MAX_CLIENTS && !self.ranges.contains_key(&source.client) {
            self.ranges.clear();
        }
        let ranges = self.ranges.entry(source.client).or_default();
        let sequence = source.sequence;
        let at = ranges.partition_point(|range| range.0 <= sequence);
        let joins_left = at > 0 && ranges[at - 1].1 + 1 == sequence;
        let joins_right = at < ranges.len() && sequence + 1 == ranges[at].0;
        match (joins_left, joins_right) {
            (true, true) => {
                ranges[at - 1].1 = ranges[at].1;
                ranges.remove(at);
            }
            (true, false) => ranges[at - 1].1 = sequence,
            (false, true) => ranges[at].0 = sequence,
            (false, false) => {
                ranges.insert(at, (sequence, sequence));
                if ranges.len() > MAX_RANGES {
                    ranges.remove(0);
                }
            }
        }
    }

    /// Bytes held in memory.
    pub fn bytes(&self) -> usize {
        let ranges: usize = self.ranges.values().map(|ranges| ranges.capacity() * size_of::<(u64, u64)>()).sum();
        ranges + self.ranges.capacity() * 8 / 7 * (size_of::<(u64, Vec<(u64, u64)>)>() + 1)
    }
}

/// A set of ranks.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranks {
    words: Vec<u64>,
    count: u32,
}

impl Ranks {
    pub fn contains(&self, rank: Rank) -> bool {
        let rank = rank.get();
        self.words.get(rank as usize / 64).is_some_and(|word| word >> (rank % 64) & 1 == 1)
    }

    /// Returns whether the rank was new.
    pub fn insert(&mut self, rank: Rank) -> bool {
        let new = !self.contains(rank);
        if new {
            let rank = rank.get();
            let word = rank as usize / 64;
            self.words.resize(self.words.len().max(word + 1), 0);
            self.words[word] |= 1 << (rank % 64);
            self.count += 1;
        }
        new
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    /// Bytes held in memory.
    pub fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeSet, HashSet};

    proptest! {
        #[test]
        fn ranges_equal_a_set(sources in prop::collection::vec((0u64..3, 0u64..40), 0..80)) {
            let (mut applied, mut set) = (Applied::default(), HashSet::new());
            for (client, sequence) in sources {
                applied.insert(Source { client, sequence });
                set.insert((client, sequence));
            }
            for client in 0..4 {
                for sequence in 0..45 {
                    prop_assert_eq!(applied.contains(Source { client, sequence }), set.contains(&(client, sequence)));
                }
            }
        }

        #[test]
        fn ranks_are_a_set(ranks in prop::collection::vec(0u32..300, 0..60)) {
            let (mut bits, mut set) = (Ranks::default(), BTreeSet::new());
            let rank_of = |rank| Rank::of(rank, 300).unwrap();
            for rank in ranks {
                prop_assert_eq!(bits.insert(rank_of(rank)), set.insert(rank));
            }
            prop_assert_eq!(bits.count() as usize, set.len());
            prop_assert!((0..300).all(|rank| bits.contains(rank_of(rank)) == set.contains(&rank)));
        }
    }

    #[test]
    fn sequence_numbers_at_the_limits_do_not_overflow() {
        let mut applied = Applied::default();
        for sequence in [u64::MAX, 0, u64::MAX - 1, 1, u64::MAX] {
            applied.insert(Source { client: 1, sequence });
            assert!(applied.contains(Source { client: 1, sequence }));
        }
        assert!(!applied.contains(Source { client: 1, sequence: 2 }));
    }

    #[test]
    fn many_gaps_and_clients_stay_bounded() {
        let mut applied = Applied::default();
        for sequence in 0..10_000 {
            applied.insert(Source { client: 1, sequence: 2 * sequence });
        }
        assert!(applied.bytes() < 64 * MAX_RANGES, "{}", applied.bytes());
        assert!(applied.contains(Source { client: 1, sequence: 2 * 9_999 }));
    }
}
