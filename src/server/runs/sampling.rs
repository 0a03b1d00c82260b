//! How the splits of a run sample.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::sample::{Sampling, SplitOptions, WindowKind};

/// How splits sample.
#[derive(Clone, Debug)]
pub struct SamplingOptions {
    pub sampling: Sampling,
    /// Windows of splits that are configured.
    pub windows: BTreeMap<String, WindowKind>,
    pub half_life_steps: f64,
    pub pass_deadline: Duration,
    pub idle_deadline: Duration,
    pub open_passes: usize,
    /// Bytes that all samples together may hold.
    pub memory: usize,
    /// Time for which a finished run's series stay in /metrics.
    pub linger: Duration,
}

impl SamplingOptions {
    /// `train` is rolling unless configured, every other split is an evaluation set.
    pub fn window(&self, split: &str) -> WindowKind {
        let default = if split == "train" { WindowKind::Recent } else { WindowKind::Pass };
        self.windows.get(split).copied().unwrap_or(default)
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

pub fn window_name(window: WindowKind) -> &'static str {
    match window {
        WindowKind::Pass => "pass",
        WindowKind::Recent => "recent",
        WindowKind::All => "all",
    }
}
