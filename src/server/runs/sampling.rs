//! The sampling options of splits.

use std::collections::BTreeMap;
use std::time::Duration;

use leakage::sample::{Sampling, SplitOptions, WindowKind};

/// How the splits of a run are sampled, and when their passes close.
#[derive(Clone, Debug)]
pub struct SamplingOptions {
    pub sampling: Sampling,
    /// Windows of the splits that have one configured.
    pub windows: BTreeMap<String, WindowKind>,
    pub half_life_steps: f64,
    pub pass_deadline: Duration,
    pub idle_deadline: Duration,
    pub open_passes: usize,
    /// Maximum bytes of all samples together. A fifth of them is for those that wait to be scored.
    pub memory: usize,
    /// Time without a message from any client after which an unfinished run is removed from memory.
    pub forget_after: Duration,
    /// How long the series of a finished run stay in /metrics.
    pub linger: Duration,
}

impl SamplingOptions {
    /// The window of a split. By default `train` is rolling and every other split is an evaluation set.
    pub fn window(&self, split: &str) -> WindowKind {
        let default = if split == "train" { WindowKind::Recent } else { WindowKind::Pass };
        self.windows.get(split).copied().unwrap_or(default)
    }

    /// Maximum bytes of the samples that receive rows.
    pub fn open_memory(&self) -> usize {
        self.memory - self.waiting_memory()
    }

    /// Bytes of the samples that wait to be scored, above which live passes are skipped.
    pub fn waiting_memory(&self) -> usize {
        self.memory / 5
    }

    pub fn split(&self, split: &str) -> SplitOptions {
        SplitOptions {
            window: self.window(split),
            sampling: self.sampling,
            half_life_steps: self.half_life_steps,
            pass_deadline: self.pass_deadline,
            idle_deadline: self.idle_deadline,
            open_passes: self.open_passes,
        }
    }
}
