//! Keyed bottom-k: of all rows offered, the N with the smallest priorities, in any order of arrival.
//!
//! Without decay a row's place is (priority, id), so the sample is uniform without replacement over the distinct
//! rows, and every pass over a data set keeps the same rows. With decay λ a row of step t has weight e^{λt}: its place
//! is ln(−ln u) − λt, smallest kept, with u = 1 − (priority + ½)/2⁶⁴ (Efraimidis & Spirakis 2006,
//! doi:10.1016/j.ipl.2005.11.003, in logarithms). As u falls with the priority, the order within one step is the same
//! as without decay.
//!
//! The order of arrival does not matter: newer arrivals of a row never raise its place, so the N-th smallest place only
//! falls. A row rejected or evicted has N rows ahead of it then and at the end.
//!
//! While fewer than N rows are held and ids arrive in ascending order, as from a data set read in order, no row can be
//! a repeat and all are kept: whole chunks are appended without an index.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::column::Column;
use super::frozen::Sample;
use super::priority::Origin;
use super::priority_order::{Index, Order, Place, grow, growth};
use crate::field_error::FieldError;
use crate::step::Step;
use crate::tensor::{Tensor, TensorName};

/// Size and seed of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampling {
    /// N, the maximum number of rows kept; 1 to 2³¹.
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
    /// Row identity, the only input of the priority.
    pub id: u64,
    /// Optimiser steps so far. A newer step replaces an older value of the row.
    pub step: Step,
    pub origin: Origin,
}

/// Outcome of offering a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// Its values are in the sample now.
    Kept,
    /// The sample holds this row of this step already. Its values are those of the smaller origin.
    Duplicate,
    /// The sample holds a newer step of this row.
    Older,
    /// N rows have smaller places.
    Beyond,
}

/// One row kept. Its values are row `slot` of every column.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Slot {
    id: u64,
    step: Step,
    origin: Origin,
    /// Arrivals of this row since it was first held, that one included.
    arrivals: u64,
    /// Its values are newer than the last call of `mark_unchanged`.
    changed: bool,
}

/// A bottom-k sampler.
#[derive(Clone, Debug)]
pub struct BottomK {
    sampling: Sampling,
    order: Order,
    slots: Vec<Slot>,
    columns: BTreeMap<TensorName, Column>,
    /// `None` while fewer than N rows are held, in ascending order of their ids.
    index: Option<Index>,
    /// Largest place a row can have and be kept: the largest one held, once N rows are held.
    limit: Option<Place>,
    /// (height, width) in pixels of the images behind the localisation maps.
    image_size: Option<(u32, u32)>,
    offered: u64,
    duplicates: u64,
    changed: usize,
}

/// The content of a sampler, to be stored. Its order and index follow from it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SavedRows {
    slots: Vec<Slot>,
    columns: BTreeMap<TensorName, Column>,
    offered: u64,
    duplicates: u64,
}

impl BottomK {
    /// A copy of what it holds.
    pub(super) fn save(&self) -> SavedRows {
        let Self { slots, columns, offered, duplicates, .. } = self;
        SavedRows { slots: slots.clone(), columns: columns.clone(), offered: *offered, duplicates: *duplicates }
    }

    /// Fills an empty sampler with what another one of the same size, seed and decay held. Errors when that cannot have
    /// been one.
    pub(super) fn restore(&mut self, saved: SavedRows) -> Result<(), FieldError> {
        let SavedRows { slots, columns, offered, duplicates } = saved;
        let mut ids: Vec<u64> = slots.iter().map(|slot| slot.id).collect();
        let ascending = ids.is_sorted();
        ids.sort_unstable();
        let whole = columns.values().all(|column| column.has_rows(slots.len()));
        if slots.len() > self.sampling.rows || !ids.is_sorted_by(|a, b| a < b) || !whole {
            let message = format!("got {} rows that no sample of {} holds", slots.len(), self.sampling.rows);
            return Err(FieldError::new("window.rows", message));
        }
        (self.slots, self.columns, self.offered, self.duplicates) = (slots, columns, offered, duplicates);
        self.changed = self.slots.iter().filter(|slot| slot.changed).count();
        if !ascending || self.is_full() {
            let order = self.order;
            self.index = Some(Index::new(self.slots.iter().map(|slot| order.place(slot.id, slot.step))));
        }
        self.tighten();
        Ok(())
    }

    /// An empty sampler; `decay` is λ per step, 0 for none. Panics when N is not in 1 to 2³¹ or `decay` is negative or
    /// not finite: both are checked with the configuration.
    pub fn new(sampling: Sampling, decay: f64) -> Self {
        assert!((1..=1 << 31).contains(&sampling.rows), "a sample has 1 to 2^31 rows");
        assert!(decay.is_finite() && decay >= 0.0, "decay is finite and at least 0");
        Self {
            sampling,
            order: Order { seed: sampling.seed, decay },
            slots: Vec::new(),
            columns: BTreeMap::new(),
            index: None,
            limit: None,
            image_size: None,
            offered: 0,
            duplicates: 0,
            changed: 0,
        }
    }

    /// This sampler, for localisation maps of images of (height, width) pixels.
    pub fn at_image_size(self, image_size: Option<(u32, u32)>) -> Self {
        Self { image_size, ..self }
    }

    /// An empty sampler for rows that will be merged into `self`: it rejects the rows that `self` would reject.
    pub(super) fn stage(&self) -> Self {
        Self { limit: self.limit, image_size: self.image_size, ..Self::new(self.sampling, self.order.decay) }
    }

    /// Offers row `row` of `tensors`, which all have the same number of rows. Values are copied only when the row
    /// enters the sample; `continuous` says which label tensors hold measured quantities.
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
                put(column, slot, self.sampling.rows, |column| column.extend(tensor, row..row + 1));
            }
        }
        offered
    }

    /// Offers all rows of `tensors`, one arrival each, with the same result as offering them one after the other.
    /// Returns `false`, without any change, when some rows may have to be rejected.
    pub fn offer_all<'a>(
        &mut self,
        arrivals: &[Arrival],
        tensors: impl Iterator<Item = &'a Tensor>,
        continuous: impl Fn(TensorName) -> bool,
    ) -> bool {
        let ascend = arrivals.is_sorted_by(|a, b| a.id < b.id);
        if !ascend || arrivals.is_empty() || !self.takes_all(arrivals[0].id, arrivals.len()) {
            return false;
        }
        let image_size = self.image_size;
        for tensor in tensors {
            let name = tensor.name();
            let empty = || Column::for_tensor(tensor, continuous(name)).at_image_size(image_size);
            let column = self.columns.entry(name).or_insert_with(empty);
            column.grow(arrivals.len(), self.sampling.rows);
            column.extend(tensor, 0..tensor.rows());
        }
        grow(&mut self.slots, arrivals.len(), self.sampling.rows);
        self.slots.extend(arrivals.iter().map(|arrival| Slot::new(*arrival, 1)));
        self.changed += arrivals.len();
        self.offered = self.offered.saturating_add(arrivals.len() as u64);
        true
    }

    /// Union: `self` ends in the state it would have if all rows of `other` had been offered to it. Returns how many
    /// rows of `other` it already held at the same step. Panics unless both have the same N, seed and decay.
    pub fn merge(&mut self, mut other: BottomK) -> u64 {
        assert!(
            self.sampling == other.sampling && self.order == other.order,
            "samples of one split have one size, seed and decay"
        );
        self.offered = self.offered.saturating_add(other.offered);
        self.duplicates += other.duplicates;
        other.slots.iter_mut().for_each(|slot| slot.changed = true);
        if self.slots.is_empty() {
            // The limit of `other` may be the one it took over from another sample.
            (self.slots, self.columns, self.index) = (other.slots, other.columns, other.index);
            self.changed = self.slots.len();
            self.tighten();
            return 0;
        }
        self.make_room(&other);
        let appended = other.slots.first().is_some_and(|first| self.takes_all(first.id, other.slots.len()));
        if appended && other.index.is_none() {
            for (name, source) in other.columns {
                let column = self.columns.entry(name).or_insert_with(|| source.empty_like());
                column.append(&source, 0..source.rows());
            }
            self.changed += other.slots.len();
            self.slots.extend(other.slots);
            return 0;
        }
        let mut known = 0;
        for (row, from) in other.slots.iter().enumerate() {
            let arrival = Arrival { id: from.id, step: from.step, origin: from.origin };
            let (offered, slot) = self.admit(arrival, from.arrivals);
            known += u64::from(offered == Offered::Duplicate);
            let Some(slot) = slot else { continue };
            for (name, source) in &other.columns {
                let column = self.columns.entry(*name).or_insert_with(|| source.empty_like());
                put(column, slot, self.sampling.rows, |column| column.append(source, row..row + 1));
            }
        }
        known
    }

    /// Upper bound in bytes on the growth by [`merge`](Self::merge) of `other`, without the index of rows, which takes
    /// about 100 bytes a row.
    pub(super) fn growth(&self, other: &BottomK) -> usize {
        if self.slots.is_empty() {
            return other.bytes();
        }
        let (more, most) = (self.new_slots(other), self.sampling.rows);
        let columns = self.columns.values().map(|column| column.growth(more, most + 1)).sum::<usize>();
        let texts = other.columns.values().map(Column::text_bytes).sum::<usize>();
        columns + texts + growth(&self.slots, more, most) * size_of::<Slot>()
    }

    /// Reserves room for the rows of `other` in one step.
    fn make_room(&mut self, other: &BottomK) {
        let (more, most) = (self.new_slots(other), self.sampling.rows);
        self.columns.values_mut().for_each(|column| column.grow(more, most + 1));
        grow(&mut self.slots, more, most);
    }

    /// Upper bound on the slots that rows of `other` need, including the spare one through which a full sample writes.
    fn new_slots(&self, other: &BottomK) -> usize {
        other.slots.len().min(self.sampling.rows + 1 - self.slots.len())
    }

    /// Counts rows that a job did not send because their priorities show that no sample can hold them.
    pub fn left_out(&mut self, rows: u64) {
        // The job states the number, so it may be arbitrarily large.
        self.offered = self.offered.saturating_add(rows);
    }

    /// Number of rows held.
    pub fn rows(&self) -> usize {
        self.slots.len()
    }

    /// Whether N rows are held.
    pub fn is_full(&self) -> bool {
        self.slots.len() == self.sampling.rows
    }

    /// Without decay, once N rows are held: the largest priority of a row that may still be kept.
    pub fn bound(&self) -> Option<u64> {
        if self.order.decay > 0.0 { None } else { self.limit.map(Place::priority) }
    }

    /// Number of rows offered, repeats included, plus the rows the job left out.
    pub fn rows_offered(&self) -> u64 {
        self.offered
    }

    /// Number of arrivals of a row at a step at which the sample already held it. Repeats of rows that are not held are
    /// not counted.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Number of distinct rows offered. Without decay: rows offered, divided by the mean number of arrivals of the rows
    /// held. This is exact while no row was rejected and when all rows arrived equally often; otherwise it is an
    /// estimate with the relative error of that mean (whether a row is held does not depend on its number of arrivals).
    /// With decay: rows offered less duplicates, where newer values of a row count again.
    pub fn distinct_rows(&self) -> u64 {
        if self.order.decay > 0.0 {
            return self.offered - self.duplicates;
        }
        distinct_rows(self.offered, self.slots.len(), self.slots.iter().map(|slot| slot.arrivals))
    }

    /// Arrivals of the rows held beyond the first of each, whatever the order of arrival.
    pub(super) fn repeats(&self) -> u64 {
        self.slots.iter().map(|slot| slot.arrivals - 1).sum()
    }

    /// Number of rows whose values entered since the last call of [`mark_unchanged`](Self::mark_unchanged).
    pub fn rows_changed(&self) -> usize {
        self.changed
    }

    pub fn mark_unchanged(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.changed = false);
        self.changed = 0;
    }

    /// Bytes held in memory, room for growth included.
    pub fn bytes(&self) -> usize {
        self.columns.values().map(Column::bytes).sum::<usize>()
            + self.slots.capacity() * size_of::<Slot>()
            + self.index.as_ref().map_or(0, Index::bytes)
    }

    /// The rows held, in ascending order of their ids, independent of the order of arrival.
    pub fn freeze(&self) -> Sample {
        let order = self.by_id();
        let ids = order.iter().map(|&slot| self.slots[slot].id).collect();
        let columns = self.columns.iter().map(|(name, column)| (*name, column.gather(&order))).collect();
        Sample::new(ids, columns)
    }

    /// The slots in ascending order of their ids.
    fn by_id(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.slots.len()).collect();
        order.sort_unstable_by_key(|&slot| self.slots[slot].id);
        order
    }

    /// As [`freeze`](Self::freeze), consuming the sampler. Rows already in ascending order of their ids are not copied.
    pub fn into_sample(self) -> Sample {
        match self.index {
            None => Sample::new(self.slots.iter().map(|slot| slot.id).collect(), self.columns),
            Some(_) => self.freeze(),
        }
    }

    /// Whether `rows` rows in ascending order of their ids, `first` the smallest, can all be appended without an index.
    fn takes_all(&self, first: u64, rows: usize) -> bool {
        self.index.is_none()
            && self.limit.is_none()
            && self.slots.len() + rows < self.sampling.rows
            && self.slots.last().is_none_or(|last| first > last.id)
    }

    /// Offers one row. Returns the slot for its values if they enter the sample.
    fn admit(&mut self, arrival: Arrival, arrivals: u64) -> (Offered, Option<usize>) {
        if self.takes_all(arrival.id, 1) {
            return (Offered::Kept, Some(self.add(arrival, arrivals)));
        }
        let order = self.order;
        let place = order.place(arrival.id, arrival.step);
        if self.limit.is_some_and(|limit| place > limit) {
            return (Offered::Beyond, None);
        }
        let index =
            self.index.get_or_insert_with(|| Index::new(self.slots.iter().map(|slot| order.place(slot.id, slot.step))));
        if let Some(slot) = index.slot(arrival.id) {
            return self.admit_again(arrival, arrivals, place, slot);
        }
        let slot = if self.slots.len() < self.sampling.rows {
            index.push(place, self.sampling.rows);
            self.add(arrival, arrivals)
        } else {
            let slot = index.replace_last(place);
            self.changed += usize::from(!self.slots[slot].changed);
            self.slots[slot] = Slot::new(arrival, arrivals);
            slot
        };
        self.tighten();
        (Offered::Kept, Some(slot))
    }

    /// Handles a further arrival of a row that is held.
    fn admit_again(&mut self, arrival: Arrival, arrivals: u64, place: Place, at: usize) -> (Offered, Option<usize>) {
        let slot = &mut self.slots[at];
        slot.arrivals += arrivals;
        let same_step = arrival.step == slot.step;
        self.duplicates += u64::from(same_step);
        let newer = arrival.step > slot.step;
        if newer || (same_step && arrival.origin < slot.origin) {
            (slot.step, slot.origin) = (arrival.step, arrival.origin);
            self.changed += usize::from(!slot.changed);
            slot.changed = true;
            if let Some(index) = &mut self.index {
                index.moved(at, place);
            }
            self.tighten();
            let offered = if same_step { Offered::Duplicate } else { Offered::Kept };
            return (offered, Some(at));
        }
        (if same_step { Offered::Duplicate } else { Offered::Older }, None)
    }

    /// Adds a slot at the end.
    fn add(&mut self, arrival: Arrival, arrivals: u64) -> usize {
        grow(&mut self.slots, 1, self.sampling.rows);
        self.slots.push(Slot::new(arrival, arrivals));
        self.changed += 1;
        self.slots.len() - 1
    }

    /// Sets the limit to the largest place held, once N rows are held.
    fn tighten(&mut self) {
        if self.is_full() {
            // A full sample has an index.
            self.limit = self.index.as_mut().and_then(Index::last);
        }
    }
}

impl Slot {
    fn new(Arrival { id, step, origin }: Arrival, arrivals: u64) -> Self {
        Self { id, step, origin, arrivals, changed: true }
    }
}

/// Without decay, the number of distinct rows of which `offered` arrived and `held` are held, with these arrivals: see
/// [`BottomK::distinct_rows`].
pub(super) fn distinct_rows(offered: u64, held: usize, arrivals: impl Iterator<Item = u64>) -> u64 {
    let arrivals: u128 = arrivals.map(u128::from).sum();
    if arrivals == 0 {
        return 0;
    }
    let distinct = (u128::from(offered) * held as u128 + arrivals / 2) / arrivals;
    u64::try_from(distinct).unwrap_or(u64::MAX)
}

/// Writes a row into `slot`: appends it and, unless `slot` is the last, swaps it into place.
fn put(column: &mut Column, slot: usize, most_rows: usize, push: impl FnOnce(&mut Column)) {
    let end = column.rows();
    column.grow(1, most_rows + 1);
    push(column);
    if slot < end {
        column.swap_remove(slot);
    }
}
