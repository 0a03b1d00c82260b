//! The order of rows, of which a sample keeps the first N, and the index of the rows in a sample.

use std::collections::{BinaryHeap, HashMap};

use super::priority::priority;
use crate::step::Step;

/// A row's place in the order; rows with the smallest places are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// ln(−ln u) − λt as an integer of the same order; 0 without decay.
    decayed: u64,
    priority: u64,
    /// Breaks ties of the priority: the smaller id comes first.
    id: u64,
}

impl Place {
    pub fn priority(self) -> u64 {
        self.priority
    }
}

/// Parameters of the order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Order {
    pub seed: u64,
    /// λ, per step; 0 for none.
    pub decay: f64,
}

impl Order {
    pub fn place(self, id: u64, step: Step) -> Place {
        let priority = priority(self.seed, id);
        let decayed = if self.decay > 0.0 {
            // 52 bits, so that neither u nor 1 − u rounds to 0.
            let below = ((priority >> 12) as f64 + 0.5) * (0.5f64).powi(52);
            order_preserving((-(-below).ln_1p()).ln() - self.decay * step.get() as f64)
        } else {
            0
        };
        Place { decayed, priority, id }
    }
}

/// Maps a float to an integer of the same order.
fn order_preserving(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// The rows of a sample by id, and the row with the largest place.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// One entry per slot.
    places: Vec<Place>,
    by_id: HashMap<u64, u32>,
    /// One entry per slot, the largest place on top. An entry may be larger than its slot's place, after a newer step
    /// has moved the row; it is corrected when it reaches the top.
    largest: BinaryHeap<(Place, u32)>,
}

impl Index {
    /// The index of rows with distinct ids, given in the order of their slots.
    pub fn new(places: impl ExactSizeIterator<Item = Place>) -> Self {
        let mut index = Self { by_id: HashMap::with_capacity(places.len()), ..Self::default() };
        index.places.reserve_exact(places.len());
        index.places.extend(places);
        let slots = || index.places.iter().zip(0u32..);
        index.by_id.extend(slots().map(|(place, slot)| (place.id, slot)));
        index.largest = slots().map(|(&place, slot)| (place, slot)).collect();
        index
    }

    pub fn slot(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).map(|&slot| slot as usize)
    }

    /// Adds a row in the next slot; there are never more than `most` rows.
    pub fn push(&mut self, place: Place, most: usize) {
        let slot = self.places.len() as u32;
        grow(&mut self.places, 1, most);
        self.places.push(place);
        self.by_id.insert(place.id, slot);
        self.largest.push((place, slot));
    }

    /// Replaces the row with the largest place, and returns its slot.
    pub fn replace_last(&mut self, place: Place) -> usize {
        let mut largest = self.largest.peek_mut().expect("a full sample has a row: N is at least 1");
        let slot = largest.1;
        *largest = (place, slot);
        drop(largest);
        let replaced = std::mem::replace(&mut self.places[slot as usize], place);
        self.by_id.remove(&replaced.id);
        self.by_id.insert(place.id, slot);
        slot as usize
    }

    /// Records that the place of a row has become smaller.
    pub fn moved(&mut self, slot: usize, place: Place) {
        self.places[slot] = place;
    }

    /// The largest place held.
    pub fn last(&mut self) -> Option<Place> {
        while let Some(mut largest) = self.largest.peek_mut() {
            let place = self.places[largest.1 as usize];
            if largest.0 == place {
                return Some(place);
            }
            largest.0 = place;
        }
        None
    }

    /// Bytes held in memory, room for growth included.
    pub fn bytes(&self) -> usize {
        // The hash table has a power of two of buckets, at most 7/8 of them filled, with one control byte each.
        let buckets = match self.by_id.capacity() {
            0 => 0,
            capacity => (capacity * 8 / 7).next_power_of_two(),
        };
        self.places.capacity() * size_of::<Place>()
            + self.largest.capacity() * size_of::<(Place, u32)>()
            + buckets * (size_of::<(u64, u32)>() + 1)
    }
}

/// Reserves room for `more`: at least doubles the capacity, but not beyond `most` if that suffices.
pub(super) fn grow<T>(rows: &mut Vec<T>, more: usize, most: usize) {
    let capacity = rows.capacity() + growth(rows, more, most);
    rows.reserve_exact(capacity - rows.len());
}

/// The capacity that [`grow`] would add.
pub(super) fn growth<T>(rows: &Vec<T>, more: usize, most: usize) -> usize {
    if rows.capacity() - rows.len() >= more {
        return 0;
    }
    let room = rows.len().max(16).min(most.saturating_sub(rows.len())).max(more);
    rows.len() + room - rows.capacity()
}
