//! The byte budget of ingest: what may be held of batches that are on their way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prometheus::IntGauge;

use crate::server::metrics::Metrics;

/// Bytes that may be in flight at once, over all connections.
#[derive(Clone)]
pub struct Budget(Arc<Inner>);

struct Inner {
    limit: usize,
    used: AtomicUsize,
    gauge: IntGauge,
}

impl Budget {
    /// The metrics show the limit and the bytes in use.
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

    /// Room for `bytes`, given back when the reservation is dropped; `None` when there is not enough.
    pub fn reserve(&self, bytes: usize) -> Option<Reservation> {
        let mut reservation = Reservation { budget: self.clone(), bytes: 0 };
        reservation.resize(bytes).then_some(reservation)
    }
}

/// Bytes taken from a [`Budget`].
pub struct Reservation {
    budget: Budget,
    bytes: usize,
}

impl Reservation {
    /// Grows or shrinks to `bytes`; `false`, changing nothing, when there is not enough room.
    pub fn resize(&mut self, bytes: usize) -> bool {
        let Inner { limit, used, gauge } = &*self.budget.0;
        let held = self.bytes;
        let changed = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            let used = used - held + bytes;
            (bytes <= held || used <= *limit).then_some(used)
        });
        if changed.is_err() {
            return false;
        }
        gauge.add(bytes as i64 - held as i64);
        self.bytes = bytes;
        true
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

    #[test]
    fn gives_back_what_is_dropped_and_never_exceeds_its_limit() {
        let gauge = IntGauge::new("used", "bytes").unwrap();
        let budget = Budget::shown_by(100, gauge.clone());
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
