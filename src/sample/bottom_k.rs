//! Keyed bottom-k: of all rows offered, the N with the smallest priorities, whatever the order they came in.
//!
//! Without decay a row's place is (priority, id), so the sample is uniform without replacement over the distinct
//! rows, and every pass over a data set keeps the same rows. With decay λ a row of step t has weight e^{λt}: its place
//! is ln(−ln u) − λt, smallest kept, with u = 1 − (priority + ½)/2⁶⁴ (Efraimidis & Spirakis 2006,
//! doi:10.1016/j.ipl.2005.11.003, in logarithms; that u falls as the priority grows keeps the order within one step
//! the same as without decay).
//!
//! Why order does not matter: a row's place never grows as newer arrivals of it come, so the N-th smallest place only
//! falls; a row turned away or evicted had N rows before it, and still has them at the end.

use std::collections::{BTreeMap, BinaryHeap, HashMap};

use serde::{Deserialize, Serialize};

use super::priority::{Origin, priority};
use super::{Column, Sample};
use crate::tensor::{Tensor, TensorName};

/// Size and seed of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampling {
    /// N, the most rows kept; 1 to 2³¹.
    pub rows: usize,
    /// Key of the priorities.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { rows: 4096, seed: 0 }
    }
}

/// One arrival of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Row identity. The priority hashes it alone.
    pub id: u64,
    /// Optimiser steps so far. A newer step replaces an older value of the row.
    pub step: u64,
    pub origin: Origin,
}

/// What became of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// Its values are in the sample now.
    Kept,
    /// The sample holds this row of this step already. Its values are those of the smaller origin.
    Duplicate,
    /// The sample holds a newer step of this row.
    Older,
    /// N rows come before it.
    Beyond,
}

/// A row's place in the order; the smallest are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// ln(−ln u) − λt as a number that orders like it; 0 without decay.
    decayed: u64,
    priority: u64,
    /// Of two rows with one priority the smaller id comes first.
    id: u64,
}

/// One row kept. Its values are row `slot` of every column.
#[derive(Clone, Debug)]
struct Slot {
    place: Place,
    step: u64,
    origin: Origin,
    /// Arrivals of this row since it is held, itself included.
    arrivals: u64,
    /// Its values are newer than the last call of `mark_unchanged`.
    changed: bool,
}

/// A bottom-k sampler.
#[derive(Clone, Debug)]
pub struct BottomK {
    sampling: Sampling,
    /// λ, per step.
    decay: f64,
    slots: Vec<Slot>,
    columns: BTreeMap<TensorName, Column>,
    by_id: HashMap<u64, u32>,
    /// Largest place on top, one entry a slot. An entry may be larger than its slot's place, when a newer step has
    /// moved the row; it is put right when it reaches the top.
    largest: BinaryHeap<(Place, u32)>,
    /// Rows beyond it cannot be kept: the largest place held once N rows are.
    limit: Option<Place>,
    /// (height, width) of the images that localisation maps are of.
    image_size: Option<(u32, u32)>,
    offered: u64,
    duplicates: u64,
    changed: usize,
}

impl BottomK {
    /// An empty sampler; `decay` is λ per step, 0 for none. Panics when N is 0 or `decay` is negative or not finite:
    /// both are checked with the configuration.
    pub fn new(sampling: Sampling, decay: f64) -> Self {
        assert!((1..=1 << 31).contains(&sampling.rows), "a sample has 1 to 2^31 rows");
        assert!(decay.is_finite() && decay >= 0.0, "decay is finite and at least 0");
        Self {
            sampling,
            decay,
            slots: Vec::new(),
            columns: BTreeMap::new(),
            by_id: HashMap::new(),
            largest: BinaryHeap::new(),
            limit: None,
            image_size: None,
            offered: 0,
            duplicates: 0,
            changed: 0,
        }
    }

    /// The same, for maps of images of (height, width) pixels.
    pub fn at_image_size(self, image_size: Option<(u32, u32)>) -> Self {
        Self { image_size, ..self }
    }

    /// An empty sampler for rows that are to be merged into `self` later: it turns away what `self` would.
    pub(super) fn stage(&self) -> Self {
        Self { limit: self.limit, image_size: self.image_size, ..Self::new(self.sampling, self.decay) }
    }

    /// Offers row `row` of `tensors`, which all have the same rows. Values are copied only when it enters;
    /// `continuous` says which label tensors hold measured quantities.
    pub fn offer<'a>(
        &mut self,
        arrival: Arrival,
        tensors: impl Iterator<Item = &'a Tensor>,
        row: usize,
        continuous: impl Fn(TensorName) -> bool,
    ) -> Offered {
        self.offered = self.offered.saturating_add(1);
        let (offered, slot) = self.admit(arrival, 1);
        if let Some(slot) = slot {
            let image_size = self.image_size;
            for tensor in tensors {
                let name = tensor.name();
                let empty = || Column::for_tensor(tensor, continuous(name)).at_image_size(image_size);
                let column = self.columns.entry(name).or_insert_with(empty);
                put(column, slot, self.sampling.rows, |column| column.push(tensor, row));
            }
        }
        offered
    }

    /// Union: afterwards `self` is what it would be had all rows of `other` been offered to it. Returns how many rows
    /// of `other` it knew at the same step. Both must have the same N, seed and decay.
    pub fn merge(&mut self, other: &BottomK) -> u64 {
        assert!(
            self.sampling == other.sampling && self.decay == other.decay,
            "samples of one split have one size, seed and decay"
        );
        let mut known = 0;
        for (row, from) in other.slots.iter().enumerate() {
            let arrival = Arrival { id: from.place.id, step: from.step, origin: from.origin };
            let (offered, slot) = self.admit(arrival, from.arrivals);
            known += u64::from(offered == Offered::Duplicate);
            let Some(slot) = slot else { continue };
            for (name, source) in &other.columns {
                let column = self.columns.entry(*name).or_insert_with(|| source.empty_like());
                put(column, slot, self.sampling.rows, |column| column.push_from(source, row));
            }
        }
        self.offered = self.offered.saturating_add(other.offered);
        self.duplicates += other.duplicates;
        known
    }

    /// Counts rows that a job left out because their priorities show that no sample can hold them.
    pub fn left_out(&mut self, rows: u64) {
        // The number is the job's word, so any can come.
        self.offered = self.offered.saturating_add(rows);
    }

    /// Rows held.
    pub fn rows(&self) -> usize {
        self.slots.len()
    }

    /// Whether N rows are held.
    pub fn is_full(&self) -> bool {
        self.slots.len() == self.sampling.rows
    }

    /// Rows offered, repeats included, and rows left out by the job.
    pub fn rows_offered(&self) -> u64 {
        self.offered
    }

    /// Arrivals of a row at a step at which the sample held it already. Repeats of rows that are not held go unseen.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Distinct rows offered. Without decay: rows offered, divided by the mean number of arrivals of the rows held.
    /// That is exact while nothing was turned away, and when all rows came equally often; otherwise an estimate whose
    /// error is that of the mean (rows are held whatever their number of arrivals). With decay, rows offered
    /// less duplicates: newer values of a row count again.
    pub fn distinct_rows(&self) -> u64 {
        if self.decay > 0.0 {
            return self.offered - self.duplicates;
        }
        let arrivals: u128 = self.slots.iter().map(|slot| u128::from(slot.arrivals)).sum();
        if arrivals == 0 {
            return 0;
        }
        let distinct = (u128::from(self.offered) * self.slots.len() as u128 + arrivals / 2) / arrivals;
        u64::try_from(distinct).unwrap_or(u64::MAX)
    }

    /// Rows whose values entered since the last call of [`mark_unchanged`](Self::mark_unchanged).
    pub fn rows_changed(&self) -> usize {
        self.changed
    }

    pub fn mark_unchanged(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.changed = false);
        self.changed = 0;
    }

    /// Bytes held in memory, room for growth included.
    pub fn bytes(&self) -> usize {
        // The hash table has a power of two of buckets, filled to 7/8, with one control byte each.
        let buckets = match self.by_id.capacity() {
            0 => 0,
            capacity => (capacity * 8 / 7).next_power_of_two(),
        };
        self.columns.values().map(Column::bytes).sum::<usize>()
            + self.slots.capacity() * size_of::<Slot>()
            + self.largest.capacity() * size_of::<(Place, u32)>()
            + buckets * (size_of::<(u64, u32)>() + 1)
    }

    /// The rows held, in ascending id: the same whatever the order of arrival.
    pub fn freeze(&self) -> Sample {
        let mut order: Vec<usize> = (0..self.slots.len()).collect();
        order.sort_unstable_by_key(|&slot| self.slots[slot].place.id);
        let ids = order.iter().map(|&slot| self.slots[slot].place.id).collect();
        let columns = self.columns.iter().map(|(name, column)| (*name, column.gather(&order))).collect();
        Sample::new(ids, columns)
    }

    /// Takes a row in, or not: the slot its values belong in, if they are to be written.
    fn admit(&mut self, arrival: Arrival, arrivals: u64) -> (Offered, Option<usize>) {
        let place = self.place(arrival.id, arrival.step);
        if self.limit.is_some_and(|limit| place > limit) {
            return (Offered::Beyond, None);
        }
        if let Some(&slot) = self.by_id.get(&arrival.id) {
            return self.admit_again(arrival, arrivals, place, slot as usize);
        }
        let row = Slot { place, step: arrival.step, origin: arrival.origin, arrivals, changed: true };
        let slot = if self.is_full() {
            self.replace_largest(row)
        } else {
            let slot = self.slots.len();
            grow(&mut self.slots, self.sampling.rows);
            self.slots.push(row);
            self.changed += 1;
            self.largest.push((place, slot as u32));
            slot
        };
        self.by_id.insert(arrival.id, slot as u32);
        self.tighten();
        (Offered::Kept, Some(slot))
    }

    /// A further arrival of a row held.
    fn admit_again(&mut self, arrival: Arrival, arrivals: u64, place: Place, at: usize) -> (Offered, Option<usize>) {
        let slot = &mut self.slots[at];
        slot.arrivals += arrivals;
        let same_step = arrival.step == slot.step;
        self.duplicates += u64::from(same_step);
        let newer = arrival.step > slot.step;
        if newer || (same_step && arrival.origin < slot.origin) {
            (slot.step, slot.origin, slot.place) = (arrival.step, arrival.origin, place);
            self.changed += usize::from(!slot.changed);
            slot.changed = true;
            self.tighten();
            let offered = if same_step { Offered::Duplicate } else { Offered::Kept };
            return (offered, Some(at));
        }
        (if same_step { Offered::Duplicate } else { Offered::Older }, None)
    }

    fn replace_largest(&mut self, row: Slot) -> usize {
        let mut largest = self.largest.peek_mut().expect("a full sample has a largest row: N is at least 1");
        let at = largest.1 as usize;
        *largest = (row.place, largest.1);
        drop(largest);
        self.by_id.remove(&self.slots[at].place.id);
        self.changed += usize::from(!self.slots[at].changed);
        self.slots[at] = row;
        at
    }

    /// Sets the limit to the largest place held, once N rows are.
    fn tighten(&mut self) {
        if !self.is_full() {
            return;
        }
        while let Some(mut largest) = self.largest.peek_mut() {
            let place = self.slots[largest.1 as usize].place;
            if largest.0 == place {
                self.limit = Some(place);
                return;
            }
            largest.0 = place;
        }
    }

    fn place(&self, id: u64, step: u64) -> Place {
        let priority = priority(self.sampling.seed, id);
        let decayed = if self.decay > 0.0 {
            // 52 bits, so that neither u nor 1 − u rounds to 0.
            let below = ((priority >> 12) as f64 + 0.5) * (0.5f64).powi(52);
            order_preserving((-(-below).ln_1p()).ln() - self.decay * step as f64)
        } else {
            0
        };
        Place { decayed, priority, id }
    }
}

/// Writes a row into `slot`: the row is added at the end and, unless it belongs there, takes the slot's place.
fn put(column: &mut Column, slot: usize, most_rows: usize, push: impl FnOnce(&mut Column)) {
    let end = column.rows();
    column.grow(most_rows);
    push(column);
    if slot < end {
        column.swap_remove(slot);
    }
}

/// Room for one more, doubling but not beyond `most`.
fn grow<T>(rows: &mut Vec<T>, most: usize) {
    if rows.len() == rows.capacity() {
        rows.reserve_exact(rows.len().max(16).min(most.saturating_sub(rows.len()).max(1)));
    }
}

/// Orders as the floats do.
fn order_preserving(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}
