//! The thread pools that score, and their options.

use information::Settings;
use leakage::score::catalogue::Cost;

use super::priority;

/// How scores are computed.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    pub settings: Settings,
    pub threads: usize,
    /// Added to the threads' niceness, 0 to 19, so that training has priority.
    pub niceness: i32,
    /// Bytes that scoring may take: one half for slow scores, the other for the first points of passes and for fast scores,
    /// a quarter each.
    pub memory: usize,
}

impl WorkerOptions {
    /// Bytes that the scores computed with those of this cost may take.
    pub fn memory_of(&self, cost: Cost) -> usize {
        self.memory / if cost == Cost::Slow { 2 } else { 4 }
    }
}

/// Starts a pool of scoring threads. Errors when a thread cannot be started.
pub fn pool(name: &'static str, threads: usize, niceness: i32) -> std::io::Result<rayon::ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(move |at| format!("{name}-{at}"))
        .start_handler(move |_| priority::lower(niceness));
    pool.build().map_err(std::io::Error::other)
}
