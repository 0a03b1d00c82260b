//! The choice of the parts of an evaluation to recompute when there is no time for all of them.
//!
//! A unit is the part computed in one go: a pair of concepts, or all pairs of one concept. Units are taken alternately
//! from two orders: the stalest, and the most uncertain of the rest. The first bounds every age; the second spends the
//! other half of the time on the least certain values.
//!
//! **Bound.** Let each tick compute at least L of P units. ⌈L/2⌉ of them are the stalest, and a computed unit moves
//! behind all others. So a unit with P − 1 units ahead of it has at most P − 1 − t·⌈L/2⌉ ahead after t ticks and is
//! computed by tick ⌈P / ⌈L/2⌉⌉, for any errors and any ticks that compute more than L.

/// When a unit was last computed, and the uncertainty of its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visited {
    /// Number of the evaluation, which increases by 1 each time.
    pub evaluation: u64,
    /// Standard error of the value; infinite if there is no value.
    pub error: f64,
}

/// A tick refreshes at least this fraction of the units (1 in 16), however little time there is.
const LEAST_SHARE: usize = 16;

/// Number of units that every tick refreshes.
pub fn least(units: usize) -> usize {
    units.div_ceil(LEAST_SHARE)
}

/// Number of ticks within which every one of `units` is visited if each tick visits at least `least` (not 0) of them:
/// at most 32 with [`least`] of the units.
pub fn most_ticks(units: usize, least: usize) -> usize {
    units.div_ceil(least.div_ceil(2))
}

/// The order in which to refresh units in evaluation `now`: the stalest, the most uncertain of the rest, the stalest of
/// the rest, and so on. Ties are spread over the list: while a model changes fast, some pairs of every concept are
/// recent rather than all pairs of the first concepts.
///
/// As the model keeps training, a value is assumed to move by about its error from tick to tick: its variance is taken
/// as error² · (1 + age).
pub fn order(units: &[Visited], now: u64) -> Vec<usize> {
    let variance = |unit: &Visited| {
        let age = now.saturating_sub(unit.evaluation) as f64;
        // A NaN error is treated as no value.
        let variance = unit.error * unit.error * (1.0 + age);
        if variance.is_nan() { f64::INFINITY } else { variance }
    };
    let variances: Vec<f64> = units.iter().map(variance).collect();
    let mut stalest = spread(units.len());
    let mut uncertain = stalest.clone();
    stalest.sort_by_key(|&unit| units[unit].evaluation);
    uncertain.sort_by(|&a, &b| variances[b].total_cmp(&variances[a]));

    let mut taken = vec![false; units.len()];
    let mut queues = [stalest.into_iter(), uncertain.into_iter()];
    let mut order = Vec::with_capacity(units.len());
    while order.len() < units.len() {
        let queue = &mut queues[order.len() % 2];
        // Each queue holds every unit, so an untaken unit always exists.
        if let Some(next) = queue.find(|&unit| !taken[unit]) {
            taken[next] = true;
            order.push(next);
        }
    }
    order
}

/// The numbers below `count`, ordered by the fractional part of their product with the golden ratio, so that the first
/// ones are evenly spread: the first 1/16 are 13, 21 or 34 apart.
fn spread(count: usize) -> Vec<usize> {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut numbers: Vec<usize> = (0..count).collect();
    numbers.sort_by_key(|&number| (number as u64).wrapping_mul(GOLDEN));
    numbers
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn visited(evaluation: u64, error: f64) -> Visited {
        Visited { evaluation, error }
    }

    #[test]
    fn the_stalest_and_the_most_uncertain_alternate() {
        let units = [visited(5, 0.1), visited(3, 0.1), visited(5, 0.4), visited(4, 0.2), visited(3, 0.01)];
        // Stalest: 1 and 4, 3, 0 and 2. Variances at 6: 0.02, 0.04, 0.32, 0.12, 0.0004.
        assert_eq!(order(&units, 6), [4, 2, 1, 3, 0]);
        assert_eq!(order(&[], 2), Vec::<usize>::new());
    }

    #[test]
    fn ties_are_spread_over_the_list() {
        for count in [1, 2, 7, 64, 276, 6216] {
            let order = order(&vec![visited(1, 0.5); count], 2);
            let some = least(count);
            let mut first: Vec<usize> = order[..some].to_vec();
            first.sort_unstable();
            let ends = [0, count];
            let gaps = first.iter().chain(&ends[1..]).zip(ends[..1].iter().chain(&first)).map(|(b, a)| b - a);
            assert!(gaps.max().unwrap() <= 34, "{count}: {first:?}");
        }
    }

    #[test]
    fn an_error_counts_more_with_age_and_a_unit_without_a_value_most() {
        let aged = [visited(9, 0.0), visited(9, 0.1), visited(10, 0.12), visited(8, 0.01)];
        // Stalest: 3. Then 0.1² · 3 is more than 0.12² · 2.
        assert_eq!(order(&aged, 11)[..2], [3, 1]);
        for none in [f64::INFINITY, f64::NAN] {
            assert_eq!(order(&[visited(1, 0.1), visited(2, 1e6), visited(2, none)], 3)[..2], [0, 2]);
        }
    }

    #[test]
    fn a_sixteenth_is_always_refreshed_and_everything_within_32_ticks() {
        assert_eq!([0, 1, 16, 17, 6216].map(least), [0, 1, 1, 2, 389]);
        assert_eq!(most_ticks(6216, 389), 32);
        assert!((1..20_000).all(|units| most_ticks(units, least(units)) <= 32));
    }

    proptest! {
        #[test]
        fn every_unit_is_visited_within_the_stated_number_of_ticks(
            units in 1usize..80,
            share in 0.0f64..1.0,
            more in prop::collection::vec(0usize..20, 1..12),
            errors in prop::collection::vec(prop_oneof![
                4 => 0.0f64..1.0, 1 => Just(0.0), 1 => Just(f64::INFINITY), 1 => Just(f64::NAN)
            ], 1..200),
        ) {
            let least = ((units as f64 * share) as usize).max(1);
            let bound = most_ticks(units, least) as u64;
            let mut errors = errors.into_iter().cycle();
            // All units are computed at first, and every computed value gets a new error.
            let mut state: Vec<Visited> = (0..units).map(|_| visited(0, errors.next().unwrap())).collect();
            for now in 1..=4 * bound {
                let order = order(&state, now);
                let mut sorted = order.clone();
                sorted.sort_unstable();
                prop_assert!(sorted.into_iter().eq(0..units), "every unit occurs once");
                let done = (least + more[now as usize % more.len()]).min(units);
                for &unit in &order[..done] {
                    state[unit] = visited(now, errors.next().unwrap());
                }
                for (unit, visited) in state.iter().enumerate() {
                    let age = now - visited.evaluation;
                    prop_assert!(age < bound, "unit {} is {} ticks old, expected fewer than {}", unit, age, bound);
                }
            }
        }
    }
}
