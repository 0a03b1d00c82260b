//! The byte budget of the gRPC port: what messages and unfinished batches may hold, over all connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prometheus::IntGauge;

use crate::server::metrics::Metrics;

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

    /// Returns a reservation of no bytes, to be resized.
    pub fn nothing(&self) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0 }
    }

    /// Reserves `bytes` until the reservation is dropped; `None` if they would exceed the limit.
    pub fn reserve(&self, bytes: usize) -> Option<Reservation> {
        let mut reservation = self.nothing();
        reservation.resize(bytes).then_some(reservation)
    }
}

/// Bytes taken from a [`Budget`].
pub struct Reservation {
    budget: Budget,
    bytes: usize,
}

impl Reservation {
    /// Grows or shrinks the reservation to `bytes`. Returns `false`, and changes nothing, if it would exceed the limit.
    pub fn resize(&mut self, bytes: usize) -> bool {
        let Inner { limit, used, gauge } = &*self.budget.0;
        let changed = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            let used = used - self.bytes + bytes;
            (bytes <= self.bytes || used <= *limit).then_some(used)
        });
        if changed.is_ok() {
            gauge.add(bytes as i64 - self.bytes as i64);
            self.bytes = bytes;
        }
        changed.is_ok()
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
}
