//! How much memory the program holds, and how much freed memory the allocator keeps.

/// Bytes that the allocator may keep free at the end of an arena, and the size from which on an allocation is mapped on its
/// own. Samples of passes and the arrays of an estimate are allocated and freed again and again: by default each goes back to
/// the system and returns as pages that have to be zeroed, a quarter of the time of ingest and of estimates of some 10,000
/// rows.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT: libc::c_int = 32 << 20;

/// The most arenas of a program whose threads all have the same priority. By default each thread that finds none free gets
/// one, up to eight for each core, and each keeps what its largest answer took.
const ARENAS: usize = 2;

/// Lets the allocator keep freed memory until [`give_back`]: a setting of the whole process, for programs to choose.
pub fn keep_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt takes any numbers and ignores those it does not accept.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
        libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT);
    }
    limit_arenas(ARENAS);
}

/// Sets the most arenas. Has no effect once a second thread has allocated.
///
/// Threads that share an arena wait for each other. One that runs only on idle cores may lose its core while it holds the
/// lock, and get none for as long as other programs take them all: with shared arenas, answers of the ports took up to
/// 450 ms on such a machine, with one for each thread 15 ms. Arenas cost memory, though, because short-lived pieces wander
/// through all free pages of each until these are given back.
pub fn limit_arenas(most: usize) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt takes any numbers and ignores those it does not accept.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, libc::c_int::try_from(most).unwrap_or(libc::c_int::MAX));
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = most;
}

/// Returns free pages to the system. Takes milliseconds.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: glibc's malloc_trim takes any number and locks the arenas it visits.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Bytes that are allocated and not freed, over all arenas; a thread's cache of small freed pieces counts as allocated.
/// `None` where the C library does not report it: before glibc 2.33, and without glibc.
pub fn in_use() -> Option<u64> {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // Looked up at run time: a program linked with it does not start on older libraries.
        // SAFETY: the name ends with NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"mallinfo2".as_ptr()) };
        if found.is_null() {
            return None;
        }
        // SAFETY: the function of that name has this signature, takes the locks that it needs and cannot fail.
        let info = unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> libc::mallinfo2>(found)() };
        Some((info.uordblks + info.hblkhd) as u64)
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    None
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_allocated_is_counted_until_it_is_freed() {
        const SIZE: u64 = 256 << 20;
        let before = in_use().unwrap();
        let held = std::hint::black_box(vec![1_u8; SIZE as usize]);
        let during = in_use().unwrap();
        drop(held);
        let after = in_use().unwrap();
        // Other tests run beside this one.
        assert!(during > before + SIZE / 2 && after < during - SIZE / 2, "{before}, {during}, {after}");
    }
}
