//! How many connections the system's limit on open files leaves room for.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files that are no connections: the history, logs, receivers of alerts, the runtime.
const OTHERS: u64 = 64;

/// Raises this process's limit on open files as far as the system allows, and returns it.
pub fn raise_file_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let current = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    current.unwrap_or(u64::MAX)
}

/// Connections of the gRPC and the HTTP port that fit into a limit on open files, at most as many as `wanted`. Two thirds
/// are for gRPC where not all fit.
pub fn fitting(wanted: [usize; 2], files: u64) -> [usize; 2] {
    let room = usize::try_from(files.saturating_sub(OTHERS)).unwrap_or(usize::MAX);
    if wanted[0].saturating_add(wanted[1]) <= room {
        return wanted;
    }
    let http = wanted[1].min(room / 3).max(8);
    [wanted[0].min(room.saturating_sub(http)).max(8), http]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_fit_into_the_limit_on_files() {
        assert_eq!(fitting([256, 128], 1024), [256, 128]);
        assert_eq!(fitting([256, 128], 448), [256, 128]);
        assert_eq!(fitting([256, 128], 256), [128, 64]);
        assert_eq!(fitting([16, 128], 160), [16, 32]);
        assert_eq!(fitting([256, 128], 10), [8, 8]);
        assert_eq!(fitting([10_000, 128], u64::MAX), [10_000, 128]);
    }
}
