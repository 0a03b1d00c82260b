//! What the allocator keeps of memory that was freed.

/// Bytes that the allocator may keep free at the end of an arena, and from which on it asks the system for a piece of its
/// own. Samples of passes and the arrays of an estimate are made and freed again and again: by default each goes back to the
/// system and comes again as pages that have to be zeroed, which took a quarter of the time of ingest and of estimates from
/// some 10,000 rows.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT: libc::c_int = 32 << 20;

/// Lets the allocator keep what was freed until [`give_back`]: a setting of the whole process, for programs to choose.
pub fn keep_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt has no precondition; what it refuses stays as it was.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
        libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT);
    }
}

/// Gives free pages back. Takes milliseconds.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: glibc's malloc_trim has no precondition and locks the arenas it looks at.
    unsafe {
        libc::malloc_trim(0);
    }
}
