//! Keeps a lease while its job is computed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use super::jobs::{Claim, Jobs};
use super::stop::Stop;

/// Time without renewal after which another worker takes the job over. A worker that was only cut off has then computed in
/// vain, so a slow machine must not pass for a dead one: four renewals in a row have to fail.
pub const LEASE: Duration = Duration::from_secs(15);

/// The share of a lease after which it is renewed.
const RENEWALS: u32 = 5;

/// How soon a renewal that failed is tried again: before another worker that waits for the store.
const AGAIN: Duration = Duration::from_millis(250);

/// A lease that a thread renews until [`end`](Self::end).
pub struct Lease<'scope> {
    done: Stop,
    thread: ScopedJoinHandle<'scope, ()>,
}

impl<'scope> Lease<'scope> {
    /// Sets `lost` when another worker may have the job.
    pub fn keep<'env>(
        scope: &'scope Scope<'scope, 'env>,
        jobs: &'env dyn Jobs,
        claim: &'env Claim,
        lease: Duration,
        lost: &'env AtomicBool,
    ) -> std::io::Result<Self> {
        let done = Stop::default();
        let until = done.clone();
        let renew = move || {
            let mut pause = lease / RENEWALS;
            while !until.wait(pause) {
                pause = lease / RENEWALS;
                match jobs.renew(claim, lease) {
                    Ok(true) => {}
                    Ok(false) => {
                        lost.store(true, Ordering::Release);
                        return;
                    }
                    // While the store cannot be reached, no other worker can lease the job either.
                    Err(error) => {
                        tracing::warn!(job = %claim, %error, "the lease could not be renewed");
                        pause = pause.min(AGAIN);
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("lease".into()).spawn_scoped(scope, renew)?;
        Ok(Self { done, thread })
    }

    pub fn end(self) {
        self.done.stop();
        // It only ends early by returning.
        let _ = self.thread.join();
    }
}
