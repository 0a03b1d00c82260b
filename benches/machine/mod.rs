//! The machine of a measurement, and the median of repeated ones.

#[allow(dead_code, unused_imports, reason = "of the allocator's settings most benchmarks choose one, some none")]
#[path = "../../src/memory.rs"]
pub mod memory;

use std::process::Command;

/// Program, compiler and processor, in one line.
pub fn facts() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("unknown processor", |(_, name)| name.trim());
    let rustc = Command::new("rustc").arg("--version").output().ok();
    let rustc = rustc.and_then(|output| String::from_utf8(output.stdout).ok());
    let rustc = rustc.as_deref().map_or("unknown rustc", str::trim);
    format!("conceptwatch {}, {rustc}, {cores} cores of {model}", env!("CARGO_PKG_VERSION"))
}

/// The median, of at least one value.
#[allow(dead_code, reason = "not every benchmark repeats what it measures")]
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}
