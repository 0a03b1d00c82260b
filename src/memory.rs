//! How much freed memory the allocator keeps.

/// Bytes that the allocator may keep free at the end of an arena, and the size from which on an allocation is mapped on its
/// own. Samples of passes and the arrays of an estimate are allocated and freed again and again: by default each goes back to
/// the system and returns as pages that have to be zeroed, a quarter of the time of ingest and of estimates of some 10,000
/// rows.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT: libc::c_int = 32 << 20;

/// The most arenas. Each thread that finds none free gets one, up to eight for each core, and each keeps what its largest
/// answer took: with a thread for each reader of metrics, they held hundreds of MiB. Four serve the threads that allocate
/// at the same time: two that receive, one that scores and one that answers.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS: libc::c_int = 4;

/// Lets the allocator keep freed memory until [`give_back`]: a setting of the whole process, for programs to choose.
pub fn keep_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt takes any numbers and ignores those it does not accept.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
        libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT);
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
    }
}

/// Returns free pages to the system. Takes milliseconds.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: glibc's malloc_trim takes any number and locks the arenas it visits.
    unsafe {
        libc::malloc_trim(0);
    }
}
