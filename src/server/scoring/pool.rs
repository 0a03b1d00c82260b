//! The thread pools that score, and their options.

use crate::estimate::Settings;

use super::priority;

/// How scores are computed.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    pub settings: Settings,
    pub threads: usize,
    /// Added to the threads' niceness, 0 to 19, so that training has priority.
    pub niceness: i32,
    /// Bytes that scoring may take: one half for fast scores and one for slow ones.
    pub memory: usize,
}

/// Starts a pool of scoring threads. Errors when a thread cannot be started.
pub fn pool(name: &'static str, threads: usize, niceness: i32) -> std::io::Result<rayon::ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(move |at| format!("{name}-{at}"))
        .start_handler(move |_| priority::lower(niceness));
    pool.build().map_err(std::io::Error::other)
}
