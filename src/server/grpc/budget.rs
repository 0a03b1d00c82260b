//! The byte budget of the gRPC port: what messages may hold from their first byte on, over all connections and for each.
//!
//! Bytes are reserved before they are buffered. Each connection has an [`Account`]: it may hold a quarter of the budget, and
//! the last quarter is kept for connections that hold no more than one message, so that a few greedy ones shut nobody out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prometheus::IntGauge;

use crate::server::metrics::Metrics;

/// The bytes that any connection can hold while the last quarter lasts, whatever others do: the largest message, its
/// decoded form, and the connection's windows.
const MODEST: usize = 8 << 20;

/// A limit on the bytes in flight, over all connections.
#[derive(Clone)]
pub struct Budget(Arc<Inner>);

struct Inner {
    limit: usize,
    used: AtomicUsize,
    gauge: IntGauge,
}

impl Budget {
    /// A budget of `limit` bytes. The metrics export the limit and the bytes in use.
    pub fn new(limit: usize, metrics: &Metrics) -> Self {
        metrics.ingest_budget_limit.set(limit as i64);
        Self::shown_by(limit, metrics.ingest_budget_used.clone())
    }

    fn shown_by(limit: usize, gauge: IntGauge) -> Self {
        Self(Arc::new(Inner { limit, used: AtomicUsize::new(0), gauge }))
    }

    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// Reserves `bytes` until the reservation is dropped; `None` if they would exceed the limit.
    pub fn reserve(&self, bytes: usize) -> Option<Reservation> {
        Reservation { budget: self.clone(), account: None, bytes: 0 }.grown(bytes)
    }

    /// The account of a new connection.
    pub fn account(&self) -> Account {
        Account { budget: self.clone(), held: Arc::default() }
    }

    /// Changes what is used by `held` to `bytes`. Growth beyond `most` is refused, and changes nothing.
    fn change(&self, held: usize, bytes: usize, most: usize) -> bool {
        let changed = change(&self.0.used, held, bytes, most.min(self.0.limit));
        if changed {
            self.0.gauge.add(bytes as i64 - held as i64);
        }
        changed
    }
}

/// Replaces `held` by `bytes` in a sum that may not grow beyond `most`. Returns whether it did.
fn change(sum: &AtomicUsize, held: usize, bytes: usize, most: usize) -> bool {
    let changed = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sum| {
        let sum = sum - held + bytes;
        (bytes <= held || sum <= most).then_some(sum)
    });
    changed.is_ok()
}

/// The part of the budget that one connection holds.
#[derive(Clone)]
pub struct Account {
    budget: Budget,
    held: Arc<AtomicUsize>,
}

impl Account {
    /// Reserves `bytes` for this connection; `None` if they would exceed its share, or the budget.
    pub fn reserve(&self, bytes: usize) -> Option<Reservation> {
        Reservation { budget: self.budget.clone(), account: Some(self.clone()), bytes: 0 }.grown(bytes)
    }

    pub fn limit(&self) -> usize {
        self.budget.limit()
    }

    fn change(&self, held: usize, bytes: usize) -> bool {
        let limit = self.budget.limit();
        if !change(&self.held, held, bytes, (limit / 4).max(MODEST)) {
            return false;
        }
        let modest = self.held.load(Ordering::Relaxed) <= MODEST;
        let changed = self.budget.change(held, bytes, if modest { limit } else { limit - limit / 4 });
        if !changed {
            change(&self.held, bytes, held, usize::MAX);
        }
        changed
    }
}

/// Bytes taken from a [`Budget`].
pub struct Reservation {
    budget: Budget,
    account: Option<Account>,
    bytes: usize,
}

impl Reservation {
    fn grown(mut self, bytes: usize) -> Option<Self> {
        self.resize(bytes).then_some(self)
    }

    /// Grows or shrinks the reservation to `bytes`. Returns `false`, and changes nothing, if it would exceed the limit.
    pub fn resize(&mut self, bytes: usize) -> bool {
        let changed = match &self.account {
            Some(account) => account.change(self.bytes, bytes),
            None => self.budget.change(self.bytes, bytes, usize::MAX),
        };
        if changed {
            self.bytes = bytes;
        }
        changed
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(limit: usize) -> (Budget, IntGauge) {
        let gauge = IntGauge::new("used", "bytes").unwrap();
        (Budget::shown_by(limit, gauge.clone()), gauge)
    }

    #[test]
    fn releases_dropped_reservations_and_never_exceeds_its_limit() {
        let (budget, gauge) = budget(100);
        let mut first = budget.reserve(60).unwrap();
        assert!(budget.reserve(41).is_none());
        assert!(first.resize(100));
        assert!(!first.resize(101));
        assert_eq!(gauge.get(), 100);
        drop(first);
        assert_eq!(gauge.get(), 0);
        assert!(budget.reserve(100).is_some());
    }

    #[test]
    fn a_connection_holds_a_quarter_at_most_and_returns_what_was_refused() {
        let (budget, gauge) = budget(256 << 20);
        let account = budget.account();
        let mut held = account.reserve(60 << 20).unwrap();
        assert!(account.reserve(5 << 20).is_none());
        assert!(held.resize(64 << 20));
        assert!(!held.resize((64 << 20) + 1));
        assert_eq!(gauge.get(), 64 << 20);
        drop(held);
        assert_eq!((gauge.get(), account.held.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn the_last_quarter_is_for_connections_that_hold_little() {
        let (budget, gauge) = budget(256 << 20);
        let greedy: Vec<Account> = (0..4).map(|_| budget.account()).collect();
        let held: Vec<_> = greedy.iter().filter_map(|account| account.reserve(64 << 20)).collect();
        assert_eq!(held.len(), 3);
        let modest: Vec<_> = (0..9).map(|_| budget.account().reserve(MODEST)).collect();
        assert_eq!(modest.iter().flatten().count(), 8);
        assert_eq!(gauge.get(), 256 << 20);
    }
}
