//! What the balls of one sample tell of those of the next, when few rows were replaced.
//!
//! Of a ball that neither holds a row that went nor one that came the radius stays, and its counts change by the rows that
//! went and came within the radius in x or in y alone. All others are searched for anew, and so is every ball that has a
//! row that went or came at exactly its radius in x or in y, so that no tie is missed. What is kept of a pair of columns
//! are three arrays in the orders of x and of y; rows that stay keep their order, so carrying them over is copying runs.
//!
//! The result is that of a search from nothing to the last bit: radii are the same distances, and counts are counted with
//! the same comparisons.
//!
//! Cost, with r of N rows replaced: reading and writing 8 bytes a row, comparing each place with the changed rows about
//! it, which are 2r/N of the points a count would see, and searching for some 2kr balls, k for each row that went and came.
//! At r/N = 1 % that is 140 of 2,048 balls at k = 3, about 7 % of them, but nearly every count changes: 80 rows lie within
//! the radius in one coordinate. So an update cannot cost as little as the share of the rows that changed. Measured at
//! k = 112 concepts, N = 2,048 (`cargo bench --bench ticks`): 0.3 of an evaluation from nothing where nothing changed, 0.6
//! at 1 %, 0.7 at 2 %. At 1 % a sixth of it is the search, an eighth each the counts of what was searched for and the
//! comparing, and the rest goes through the rows as any evaluation does. Comparing sixteen places at a time in place of 64
//! took three times as long. Another layout kept where each ball begins and ends in either order, looked up where those
//! boundaries moved, and found the changed rows in a ball from sets of those before each boundary: 12 bytes a row, nothing
//! to compare and no orders to turn, but 0.66 of an evaluation from nothing at 1 % where this took 0.59.

// A loop over lanes steps through several arrays at once; indices keep it in the shape that becomes vectors.
#![allow(clippy::needless_range_loop)]

use crate::estimate::ids::side_by_side;
use crate::estimate::width::every_width;

use super::inside::Inside;
use super::lanes::{LANES, larger};
use super::padded::MARGIN;
use super::plane::Plane;
use super::sorted::Sorted;

/// Which rows of a sample stand for which of the one before.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Rows of the sample before that are not in this one, ascending.
    went: Vec<u32>,
    /// Rows of this sample that were not in the one before, ascending.
    came: Vec<u32>,
}

impl Rows {
    /// From the rows' identities, ascending in both samples. `same` says of a row of the sample before and one of this,
    /// which have one identity, whether their values are the same too.
    pub fn compare(before: &[u64], now: &[u64], same: impl Fn(usize, usize) -> bool) -> Self {
        let (mut went, mut came) = (Vec::new(), Vec::new());
        side_by_side(before, now, |old, new| {
            let stays = old.zip(new).is_some_and(|(old, new)| same(old, new));
            went.extend(old.filter(|_| !stays).map(|row| row as u32));
            came.extend(new.filter(|_| !stays).map(|row| row as u32));
        });
        Self { went, came }
    }

    /// Rows that went and rows that came.
    pub fn changed(&self) -> usize {
        self.went.len() + self.came.len()
    }
}

/// How a column moved from one sample to the next.
#[derive(Clone, Debug)]
pub struct Moves {
    runs: Vec<Run>,
    /// Values of the rows that went and then of those that came, as in [`Rows`].
    values: Vec<f32>,
    /// Those in ascending order, and which row each is of.
    ascending: Vec<(f32, u32)>,
    went: usize,
}

/// Places that stay next to each other.
#[derive(Clone, Copy, Debug)]
struct Run {
    before: u32,
    now: u32,
    length: u32,
}

impl Moves {
    /// `before` and `now` are one column of two samples, whose rows correspond by `rows`. Panics if they do not.
    pub fn new(rows: &Rows, before: &Sorted<f32>, now: &Sorted<f32>) -> Self {
        let positions = |column: &Sorted<f32>, rows: &[u32]| -> Vec<u32> {
            let mut positions: Vec<u32> = rows.iter().map(|&row| column.ranks()[row as usize]).collect();
            positions.sort_unstable();
            positions
        };
        let (went, came) = (positions(before, &rows.went), positions(now, &rows.came));
        let values = |column: &Sorted<f32>, rows: &[u32]| -> Vec<f32> {
            rows.iter().map(|&row| column.of_row(row as usize)).collect()
        };
        let values = [values(before, &rows.went), values(now, &rows.came)].concat();
        let mut ascending: Vec<(f32, u32)> = values.iter().copied().zip(0..).collect();
        ascending.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let runs = runs([&went, &came], [before.values().len(), now.values().len()]);
        Self { runs, values, ascending, went: rows.went.len() }
    }

    /// The values of an array in the order of this column, where they are now; `fill` for rows that came.
    fn carry<V: Copy>(&self, before: &[V], fill: V, length: usize) -> Vec<V> {
        let mut now = vec![fill; length];
        for &Run { before: from, now: to, length } in &self.runs {
            let (from, to, length) = (from as usize, to as usize, length as usize);
            now[to..to + length].copy_from_slice(&before[from..from + length]);
        }
        now
    }
}

/// The runs between positions that are left out of either order.
fn runs(left_out: [&[u32]; 2], lengths: [usize; 2]) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut rest = left_out;
    let [mut before, mut now] = [0_u32; 2];
    let skip = |at: &mut u32, rest: &mut &[u32]| {
        while let Some((&first, others)) = rest.split_first()
            && first == *at
        {
            *at += 1;
            *rest = others;
        }
    };
    loop {
        skip(&mut before, &mut rest[0]);
        skip(&mut now, &mut rest[1]);
        let ends = [0, 1].map(|side| rest[side].first().copied().unwrap_or(lengths[side] as u32));
        let length = (ends[0] - before).min(ends[1] - now);
        if length == 0 {
            assert_eq!([before as usize, now as usize], lengths, "the rows that stay are the same in both samples");
            return runs;
        }
        runs.push(Run { before, now, length });
        before += length;
        now += length;
    }
}

/// What is kept of the balls of a pair of columns: 8 bytes a row.
#[derive(Clone, Debug)]
pub struct Balls {
    /// In x's order.
    radii: Vec<f32>,
    /// Other points closer in x, in x's order; [`OPEN`] where ties leave the counts open.
    near_x: Vec<u16>,
    /// Other points closer in y, in y's order.
    near_y: Vec<u16>,
}

/// Stands in place of a count.
const OPEN: u16 = u16::MAX;

/// Samples of more rows are not kept: their counts may not fit.
pub const MOST_ROWS: usize = OPEN as usize;

impl Balls {
    /// `open` are positions in x's order, ascending.
    pub fn new(radii: &[f32], in_x: &Inside, in_y: &Inside, open: &[u32]) -> Self {
        let near = |inside: &Inside| inside.counts()[..radii.len()].iter().map(|count| count.closer() as u16).collect();
        let mut near_x: Vec<u16> = near(in_x);
        open.iter().for_each(|&at| near_x[at as usize] = OPEN);
        Self { radii: radii.to_vec(), near_x, near_y: near(in_y) }
    }

    /// Bytes for a pair of columns of so many rows.
    pub fn bytes(rows: usize) -> usize {
        rows * (size_of::<f32>() + 2 * size_of::<u16>()) + size_of::<Self>()
    }
}

/// The balls of this sample as far as those of the one before tell.
pub struct Carried {
    /// In x's order, longer than there are positions by [`LANES`] or more.
    pub radii: Vec<f32>,
    /// The same in y's order.
    pub radii_y: Vec<f32>,
    pub in_x: Inside,
    pub in_y: Inside,
    /// Positions in x's order, ascending, of balls to be searched for anew.
    pub again: Vec<u32>,
}

impl Carried {
    /// Each column comes with how it moved since.
    pub fn new(before: &Balls, plane: &Plane<f32>, x: (&Sorted<f32>, &Moves), y: (&Sorted<f32>, &Moves)) -> Self {
        let ((x, moved_x), (y, moved_y)) = (x, y);
        let rows = x.rows().len();
        let padded = rows.next_multiple_of(GROUP);
        // Nothing is closer than 0 to a row that came; it is searched for anyway.
        let radii = moved_x.carry(&before.radii, 0.0, padded + LANES);
        let radii_y = plane.radii_in_y(&radii);
        let mut near_x = moved_x.carry(&before.near_x, OPEN, padded);
        near_x[rows..].fill(0);
        let mut near_y = moved_y.carry(&before.near_y, 0, padded);
        let (mut again, mut again_y) = (vec![0; padded / GROUP], vec![0; padded / GROUP]);
        let of_x = Column {
            places: &x.padded().with_margins()[MARGIN..],
            along: &plane.across_with_margins()[MARGIN..],
            radii: &radii,
        };
        shift::<true>(of_x, &moved_x.changes(Some(moved_y)), &mut near_x, &mut again);
        let of_y = Column { places: &y.padded().with_margins()[MARGIN..], along: &[], radii: &radii_y };
        shift::<false>(of_y, &moved_y.changes(None), &mut near_y, &mut again_y);
        each(&again_y, |at_y| {
            let at = x.ranks()[y.rows()[at_y] as usize] as usize;
            again[at / GROUP] |= 1 << (at % GROUP);
        });
        let mut positions = Vec::new();
        each(&again, |at| positions.push(at as u32));
        let (in_x, in_y) = (Inside::of_counts(&near_x), Inside::of_counts(&near_y));
        Self { radii, radii_y, in_x, in_y, again: positions }
    }
}

/// Places that are compared with the same changed rows, all that are in reach of one of them.
const GROUP: usize = 4 * LANES;

/// Places of a group, a bit each.
type Mask = u64;
const _: () = assert!(Mask::BITS as usize == GROUP && GROUP <= MARGIN);

/// Calls with the position of each bit that is set.
fn each(masks: &[Mask], mut call: impl FnMut(usize)) {
    for (group, &mask) in masks.iter().enumerate() {
        let mut rest = mask;
        while rest != 0 {
            call(group * GROUP + rest.trailing_zeros() as usize);
            rest &= rest - 1;
        }
    }
}

/// A row that went or came, seen from one column.
#[derive(Clone, Copy, Debug)]
struct Change {
    /// Its value there.
    here: f32,
    /// Its value in the other column.
    there: f32,
    /// 1 for one that came, −1 for one that went.
    sign: i32,
}

impl Moves {
    /// In ascending order of this column, with the values of the `other` if there is one.
    fn changes(&self, other: Option<&Self>) -> Vec<Change> {
        let change = |&(here, row): &(f32, u32)| {
            let there = other.map_or(0.0, |other| other.values[row as usize]);
            Change { here, there, sign: if (row as usize) < self.went { -1 } else { 1 } }
        };
        self.ascending.iter().map(change).collect()
    }
}

/// A column from its first place on, with a margin behind the last.
#[derive(Clone, Copy)]
struct Column<'a> {
    places: &'a [f32],
    /// The other coordinate of each point.
    along: &'a [f32],
    radii: &'a [f32],
}

every_width! {
/// Counts in `near` the changes within each place's radius, and notes in `again` the places that have one at exactly their
/// radius. With `BALLS` those too that have one within the radius in both coordinates or are open.
fn shift<const BALLS: bool>(column: Column, changes: &[Change], near: &mut [u16], again: &mut [Mask]) {
    let (mut from, mut to) = (0, 0);
    for (group, (near, again)) in near.chunks_exact_mut(GROUP).zip(again).enumerate() {
        let first = group * GROUP;
        let (places, radii) = (&column.places[first..first + GROUP], &column.radii[first..first + GROUP]);
        let along = if BALLS { &column.along[first..first + GROUP] } else { places };
        let mut reach = [0.0; LANES];
        for lanes in radii.chunks_exact(LANES) {
            for lane in 0..LANES {
                reach[lane] = larger(reach[lane], lanes[lane]);
            }
        }
        let reach = reach.into_iter().fold(0.0, larger);
        // The differences of the places between these two are no smaller, and rounding keeps that order.
        let before = |change: &Change| places[0] - change.here > reach;
        let behind = |change: &Change| change.here - places[GROUP - 1] > reach;
        while from > 0 && !before(&changes[from - 1]) {
            from -= 1;
        }
        while from < changes.len() && before(&changes[from]) {
            from += 1;
        }
        while to > 0 && behind(&changes[to - 1]) {
            to -= 1;
        }
        while to < changes.len() && !behind(&changes[to]) {
            to += 1;
        }
        let mut lanes = Compared { counts: [0; GROUP], notes: [0; GROUP] };
        for change in &changes[from..to.max(from)] {
            lanes.take::<BALLS>(change, places, along, radii);
        }
        if BALLS {
            for lane in 0..GROUP {
                lanes.notes[lane] |= u32::from(near[lane] == OPEN);
            }
        }
        *again = lanes.noted();
        for lane in 0..GROUP {
            near[lane] = near[lane].wrapping_add(lanes.counts[lane] as u16);
        }
    }
}
}

/// What the changed rows are to the places of a group.
#[repr(align(64))]
struct Compared {
    /// Those that came within the radius, less those that went.
    counts: [i32; GROUP],
    /// Not 0 where a place is to be noted.
    notes: [u32; GROUP],
}

impl Compared {
    /// A vector at a time, as the bits of one become instructions that those of all do not.
    #[inline(always)]
    fn noted(&self) -> Mask {
        let mut all = 0;
        for (notes, first) in self.notes.chunks_exact(LANES).zip((0..).step_by(LANES)) {
            let mut mask = 0_u16;
            for lane in 0..LANES {
                mask |= u16::from(notes[lane] != 0) << lane;
            }
            all |= Mask::from(mask) << first;
        }
        all
    }

    #[inline(always)]
    fn take<const BALLS: bool>(&mut self, change: &Change, places: &[f32], along: &[f32], radii: &[f32]) {
        let mut distances = [0.0; GROUP];
        for lane in 0..GROUP {
            distances[lane] = (change.here - places[lane]).abs();
        }
        for lane in 0..GROUP {
            self.counts[lane] += if distances[lane] < radii[lane] { change.sign } else { 0 };
        }
        for lane in 0..GROUP {
            self.notes[lane] |= u32::from(distances[lane] == radii[lane]);
        }
        if BALLS {
            for lane in 0..GROUP {
                let in_both = larger(distances[lane], (change.there - along[lane]).abs()) <= radii[lane];
                self.notes[lane] |= u32::from(in_both);
            }
        }
    }
}
