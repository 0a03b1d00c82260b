//! How many connections the system's limit on open files leaves room for.

/// Open files that are no connections: the history, logs, receivers of alerts, the runtime.
const OTHERS: u64 = 64;

/// Raises this process's limit on open files as far as the system allows, and returns it.
pub fn raise_file_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls read or write the one structure they are given.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) != 0 {
            return u64::MAX;
        }
        let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raised) == 0 { raised.rlim_cur } else { limit.rlim_cur }
    }
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
