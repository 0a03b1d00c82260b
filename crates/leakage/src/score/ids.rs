//! Rows of two samples, by their identities.

use std::cmp::Ordering;

/// Calls once for each identity that either sample has, ascending, with its row in `before` and in `now`; both ascend.
pub fn side_by_side(before: &[u64], now: &[u64], mut call: impl FnMut(Option<usize>, Option<usize>)) {
    let (mut old, mut new) = (0, 0);
    while old < before.len() || new < now.len() {
        let order = match (before.get(old), now.get(new)) {
            (Some(old), Some(new)) => old.cmp(new),
            (Some(_), None) => Ordering::Less,
            _ => Ordering::Greater,
        };
        call(order.is_le().then_some(old), order.is_ge().then_some(new));
        old += usize::from(order.is_le());
        new += usize::from(order.is_ge());
    }
}
