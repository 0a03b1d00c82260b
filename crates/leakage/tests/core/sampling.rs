//! Properties of a bottom-k sample: uniform, a union under merge, independent of order and repeats, decay as stated.

use std::collections::{BTreeMap, BTreeSet};

use leakage::sample::priority::priority;
use leakage::sample::{Arrival, BottomK, Offered, Origin, Sample, Sampling, Values};
use leakage::step::Step;
use leakage::tensor::{DataType, Tensor, TensorName};
use proptest::prelude::*;

const VALUES: TensorName = TensorName::ConceptActivations;
const TEXTS: TensorName = TensorName::PredictedText;

/// An arrival whose values encode id, step and origin.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    id: u64,
    step: u64,
    client: u64,
    sequence: u64,
}

impl Row {
    fn arrival(self) -> Arrival {
        let origin = Origin { client: self.client, sequence: self.sequence, row: self.id };
        Arrival { id: self.id, step: Step::new(self.step).unwrap(), origin }
    }

    fn text(self) -> String {
        format!("{self:?}")
    }

    fn values(self) -> [f64; 3] {
        [self.id as f64, self.step as f64, (self.client * 1000 + self.sequence) as f64]
    }
}

/// `None` without rows, because a tensor has at least one.
fn tensors(rows: &[Row]) -> Vec<Tensor> {
    let n = rows.len() as u64;
    let bytes: Vec<u8> = rows.iter().flat_map(|row| row.values()).flat_map(|value| value.to_le_bytes()).collect();
    let texts = rows.iter().map(|row| row.text()).collect();
    let both = [Tensor::numbers(VALUES, DataType::Float64, &[n, 3], bytes.into()), Tensor::texts(TEXTS, &[n], texts)];
    both.into_iter().flatten().collect()
}

fn offer(sampler: &mut BottomK, row: Row) -> Offered {
    sampler.offer(row.arrival(), tensors(&[row]).iter(), 0, |_| false)
}

fn sampled(rows: &[Row], most: usize, decay: f64) -> BottomK {
    let mut sampler = BottomK::new(Sampling { rows: most, seed: 9 }, decay);
    rows.iter().for_each(|&row| {
        offer(&mut sampler, row);
    });
    sampler
}

/// Ids, values to the bit, and texts.
type Content = (Vec<u64>, Vec<u64>, Vec<String>);

/// All contents of a sample.
fn content(sample: &Sample) -> Content {
    let Some(column) = sample.column(VALUES) else { return Default::default() };
    let Values::Float64(values) = column.values() else { panic!("float64 stays float64") };
    let Some(Values::Text(texts)) = sample.column(TEXTS).map(|column| column.values()) else {
        panic!("texts stay texts")
    };
    (sample.ids().to_vec(), values.iter().map(|value| value.to_bits()).collect(), texts.clone())
}

fn frozen(rows: &[Row], most: usize, decay: f64) -> Content {
    content(&sampled(rows, most, decay).freeze())
}

/// The sample by definition: newest step and smallest origin of each id, then the N smallest places.
fn by_definition(rows: &[Row], most: usize, decay: f64) -> Content {
    let mut newest: BTreeMap<u64, Row> = BTreeMap::new();
    for &row in rows {
        let held = newest.entry(row.id).or_insert(row);
        if (row.step, std::cmp::Reverse(row.arrival().origin)) > (held.step, std::cmp::Reverse(held.arrival().origin)) {
            *held = row;
        }
    }
    let mut ordered: Vec<Row> = newest.into_values().collect();
    let place = |row: &Row| {
        let p = priority(9, row.id);
        let u = 1.0 - ((p >> 12) as f64 + 0.5) / (1u64 << 52) as f64;
        (if decay > 0.0 { (-u.ln()).ln() - decay * row.step as f64 } else { 0.0 }, p)
    };
    ordered.sort_by(|a, b| place(a).partial_cmp(&place(b)).unwrap());
    ordered.truncate(most);
    ordered.sort_by_key(|row| row.id);
    let values = ordered.iter().flat_map(|row| row.values()).map(f64::to_bits).collect();
    (ordered.iter().map(|row| row.id).collect(), values, ordered.into_iter().map(Row::text).collect())
}

fn rows(ids: u64, steps: u64) -> impl Strategy<Value = Vec<Row>> {
    let row = (0..ids, 0..steps, 0u64..3, 0u64..4);
    prop::collection::vec(row.prop_map(|(id, step, client, sequence)| Row { id, step, client, sequence }), 0..120)
}

/// Rows of one batch, mostly in ascending order of their ids, as in a data set that is read in order.
fn chunk() -> impl Strategy<Value = Vec<Row>> {
    (0u64..60, 0u64..3, 0u64..4, prop::collection::vec(prop_oneof![9 => 1u64..4, 1 => Just(0u64)], 0..30)).prop_map(
        |(mut id, step, sequence, gaps)| {
            let row = |gap| {
                id += gap;
                Row { id, step, client: 0, sequence }
            };
            gaps.into_iter().map(row).collect()
        },
    )
}

/// Offers a chunk at once where possible, otherwise row by row.
fn offer_chunk(sampler: &mut BottomK, rows: &[Row]) {
    let arrivals: Vec<Arrival> = rows.iter().map(|row| row.arrival()).collect();
    let (offered, ascending) = (sampler.rows_offered(), rows.is_sorted_by_key(|row| row.id));
    if !sampler.offer_all(&arrivals, tensors(rows).iter(), |_| false) {
        assert_eq!(sampler.rows_offered(), offered, "a failed offer of a whole chunk changed the sample");
        for &row in rows {
            offer(sampler, row);
        }
    } else {
        assert!(ascending);
    }
}

fn decays() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(0.05), Just(2.0)]
}

proptest! {
    /// Its definition knows no order of arrival and no retries.
    #[test]
    fn a_sample_equals_its_definition(
        first in rows(60, 6), retried in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        most in 1usize..40, decay in decays(),
    ) {
        let again = retried.iter().filter(|_| !first.is_empty()).map(|at| *at.get(&first));
        let rows: Vec<Row> = first.iter().copied().chain(again).collect();
        prop_assert_eq!(frozen(&rows, most, decay), by_definition(&rows, most, decay));
    }

    #[test]
    fn merge_is_union(
        a in rows(60, 6), b in rows(60, 6), c in rows(60, 6), most in 1usize..40, decay in decays(),
    ) {
        let sample = |rows: &[Row]| sampled(rows, most, decay);
        let merged = |left: &BottomK, right: &BottomK| {
            let mut left = left.clone();
            left.merge(right.clone());
            left
        };
        let (sa, sb, sc) = (sample(&a), sample(&b), sample(&c));
        let ab = merged(&sa, &sb);
        let union: Vec<Row> = a.iter().chain(&b).copied().collect();
        prop_assert_eq!(content(&ab.freeze()), frozen(&union, most, decay));
        prop_assert_eq!(content(&merged(&sb, &sa).freeze()), content(&ab.freeze()));
        let left = merged(&ab, &sc);
        let right = merged(&sa, &merged(&sb, &sc));
        prop_assert_eq!(content(&left.freeze()), content(&right.freeze()));
        prop_assert_eq!(content(&merged(&sa, &sa).freeze()), content(&sa.freeze()));
        prop_assert_eq!(content(&merged(&ab, &sb).freeze()), content(&ab.freeze()));
        prop_assert_eq!(left.rows_offered(), (a.len() + b.len() + c.len()) as u64);
    }

    #[test]
    fn chunks_offered_whole_are_their_rows_offered_one_by_one(
        chunks in prop::collection::vec(chunk(), 0..6), most in 1usize..80, decay in decays(),
    ) {
        let all: Vec<Row> = chunks.iter().flatten().copied().collect();
        let one_by_one = sampled(&all, most, decay);
        let mut together = BottomK::new(Sampling { rows: most, seed: 9 }, decay);
        let mut merged = together.clone();
        for chunk in &chunks {
            offer_chunk(&mut together, chunk);
            let mut staged = BottomK::new(Sampling { rows: most, seed: 9 }, decay);
            offer_chunk(&mut staged, chunk);
            merged.merge(staged);
        }
        for sampler in [together, merged] {
            let facts = |s: &BottomK| (s.rows_offered(), s.rows(), s.rows_changed(), s.is_full());
            prop_assert_eq!(facts(&sampler), facts(&one_by_one));
            prop_assert_eq!(content(&sampler.freeze()), content(&one_by_one.freeze()));
            prop_assert_eq!(content(&sampler.into_sample()), content(&one_by_one.freeze()));
        }
    }

    #[test]
    fn counts_are_exact_while_no_row_is_rejected(rows in rows(60, 1)) {
        let sampler = sampled(&rows, 100, 0.0);
        let distinct = rows.iter().map(|row| row.id).collect::<BTreeSet<_>>().len() as u64;
        prop_assert_eq!(sampler.distinct_rows(), distinct);
        prop_assert_eq!(sampler.rows() as u64, distinct);
        prop_assert_eq!(sampler.duplicates(), rows.len() as u64 - distinct);
        prop_assert_eq!(sampler.rows_offered(), rows.len() as u64);
    }
}

fn row(id: u64, step: u64) -> Row {
    Row { id, step, client: 0, sequence: 0 }
}

/// Σ (observed − expected)² / expected.
fn chi_square(observed: &[f64], expected: f64) -> f64 {
    observed.iter().map(|o| (o - expected).powi(2) / expected).sum()
}

#[test]
fn every_row_is_equally_likely_to_be_kept() {
    // 60 of 400 rows, over 1,500 seeds. Under uniform inclusion the statistic of fixed-size samples, with the variance
    // of one inclusion, is near a chi-square with 399 degrees of freedom: mean 399, standard deviation 28.2.
    for ids in [(0..400).collect::<Vec<u64>>(), (0..400).map(|i| i << 40).collect()] {
        let (most, seeds) = (60, 1500);
        let mut kept = vec![0.0; ids.len()];
        for seed in 0..seeds {
            let mut sampler = BottomK::new(Sampling { rows: most, seed }, 0.0);
            for &id in &ids {
                let origin = Origin { client: 0, sequence: 0, row: id };
                sampler.offer(Arrival { id, step: Step::default(), origin }, std::iter::empty(), 0, |_| false);
            }
            let sample = sampler.freeze();
            assert_eq!(sample.rows(), most);
            for id in sample.ids() {
                kept[ids.binary_search(id).unwrap()] += 1.0;
            }
        }
        let share = most as f64 / ids.len() as f64;
        let statistic = chi_square(&kept, seeds as f64 * share) / (1.0 - share);
        assert!((300.0..500.0).contains(&statistic), "chi-square {statistic}");
    }
}

#[test]
fn inclusion_decays_with_the_age_of_a_row() {
    // 40 rows at each of 8 steps, N = 1: the row kept is of step t with probability e^{λt} / Σ e^{λs}.
    let (decay, steps, seeds) = (0.4, 8, 6000);
    let mut kept = vec![0.0f64; steps];
    for seed in 0..seeds {
        let mut sampler = BottomK::new(Sampling { rows: 1, seed }, decay);
        for id in 0..(40 * steps as u64) {
            let origin = Origin { client: 0, sequence: 0, row: id };
            sampler.offer(Arrival { id, step: Step::new(id / 40).unwrap(), origin }, std::iter::empty(), 0, |_| false);
        }
        kept[(sampler.freeze().ids()[0] / 40) as usize] += 1.0;
    }
    let weights: Vec<f64> = (0..steps).map(|t| (decay * t as f64).exp()).collect();
    let total: f64 = weights.iter().sum();
    let expected = weights.iter().map(|w| seeds as f64 * w / total);
    let statistic: f64 = kept.iter().zip(expected).map(|(o, e)| (o - e).powi(2) / e).sum();
    // Chi-square with 7 degrees of freedom: 24.3 at 0.1 %.
    assert!(statistic < 24.3, "chi-square {statistic}: {kept:?}");
}

#[test]
fn steps_far_from_the_start_decay_equally() {
    let far = 3_000_000_000;
    let near: Vec<Row> = (0..500).map(|id| row(id, id / 10)).collect();
    let moved: Vec<Row> = near.iter().map(|r| Row { step: r.step + far, ..*r }).collect();
    assert_eq!(sampled(&near, 50, 0.01).freeze().ids(), sampled(&moved, 50, 0.01).freeze().ids());
}

#[test]
fn offers_return_their_outcome() {
    let mut sampler = BottomK::new(Sampling { rows: 2, seed: 0 }, 0.0);
    let mut by_priority: Vec<u64> = (0..10).collect();
    by_priority.sort_by_key(|&id| priority(0, id));
    let (first, second, third) = (by_priority[0], by_priority[1], by_priority[2]);
    assert_eq!(offer(&mut sampler, row(third, 5)), Offered::Kept);
    assert_eq!(offer(&mut sampler, row(second, 5)), Offered::Kept);
    assert_eq!(offer(&mut sampler, row(first, 5)), Offered::Kept);
    assert_eq!(offer(&mut sampler, row(third, 5)), Offered::Beyond);
    assert_eq!(offer(&mut sampler, row(first, 5)), Offered::Duplicate);
    assert_eq!(offer(&mut sampler, row(first, 4)), Offered::Older);
    assert_eq!(offer(&mut sampler, row(first, 6)), Offered::Kept);
    assert_eq!((sampler.rows_offered(), sampler.duplicates()), (7, 1));
}

#[test]
fn distinct_rows_of_a_data_set_seen_several_times_are_its_size() {
    let epochs: Vec<Row> = (0..5).flat_map(|step| (0..3000).map(move |id| row(id, step))).collect();
    assert_eq!(sampled(&epochs, 200, 0.0).distinct_rows(), 3000);
    // Ten rows of padding among 3,000: the relative error is at most their share of the sample.
    let padded: Vec<Row> = (0..3000).chain(0..10).map(|id| row(id, 0)).collect();
    let distinct = sampled(&padded, 200, 0.0).distinct_rows();
    assert!((2950..=3010).contains(&distinct), "{distinct}");
    let mut thinned = sampled(&(0..300).map(|id| row(id, 0)).collect::<Vec<_>>(), 200, 0.0);
    thinned.left_out(700);
    assert_eq!(thinned.distinct_rows(), 1000);
    assert_eq!(BottomK::new(Sampling::default(), 0.0).distinct_rows(), 0);
}

#[test]
fn memory_is_bounded_by_the_rows_kept() {
    let empty = BottomK::new(Sampling { rows: 256, seed: 1 }, 0.0);
    assert_eq!(empty.bytes(), 0);
    let values = |ids: std::ops::Range<u64>| ids.map(|id| row(id, 0)).collect::<Vec<_>>();
    let full = sampled(&values(0..256), 256, 0.0).bytes();
    let long_after = sampled(&values(0..20_000), 256, 0.0).bytes();
    // The lengths of texts differ by a few digits; nothing else may grow.
    assert!(long_after <= full + 257 * 32, "{full} then {long_after}");
    // 24 bytes of values, about 50 of text, and the sampler's overhead per row.
    assert!(full > 256 * 74 && full < 257 * 400, "{full}");
}

#[test]
fn the_bound_is_the_largest_priority_held_once_the_sample_is_full() {
    let mut sampler = BottomK::new(Sampling { rows: 16, seed: 9 }, 0.0);
    for id in 0..200 {
        offer(&mut sampler, row(id % 150, 0));
        let held = sampler.freeze();
        let largest = held.ids().iter().map(|&id| priority(9, id)).max();
        assert_eq!(sampler.bound(), largest.filter(|_| held.ids().len() == 16));
    }
    // With decay a row of a later step may enter whatever its priority.
    assert_eq!(sampled(&(0..50).map(|id| row(id, 0)).collect::<Vec<_>>(), 16, 0.1).bound(), None);
}

#[test]
fn maps_are_resized_to_the_image_whether_rows_come_at_once_or_one_by_one() {
    let values: Vec<u8> = (0..12u32).flat_map(|at| ((at * 7 % 5) as f32).to_le_bytes()).collect();
    let maps = Tensor::numbers(TensorName::LocalizationMaps, DataType::Float32, &[3, 1, 2, 2], values.into()).unwrap();
    let rows: Vec<Arrival> = (0..3).map(|id| Row { id, step: 1, client: 0, sequence: 1 }.arrival()).collect();
    let empty = || BottomK::new(Sampling::default(), 0.0).at_image_size(Some((20, 30)));
    let (mut at_once, mut one_by_one) = (empty(), empty());
    assert!(at_once.offer_all(&rows, [&maps].into_iter(), |_| false));
    for (row, arrival) in rows.iter().enumerate() {
        one_by_one.offer(*arrival, [&maps].into_iter(), row, |_| false);
    }
    let column = |sampler: &BottomK| sampler.freeze().column(TensorName::LocalizationMaps).unwrap().clone();
    assert_eq!(column(&at_once), column(&one_by_one));
    assert!(column(&at_once).block(0..2).iter().any(|&place| place > 2.0), "in pixels of the image");
}
