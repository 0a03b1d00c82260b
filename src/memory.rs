//! How much memory the program holds, and how much freed memory the allocator keeps.

/// Bytes that the allocator may keep free at the end of an arena, and the size from which on an allocation is mapped on its
/// own. Samples of passes and the arrays of an estimate are allocated and freed again and again: by default each goes back to
/// the system and returns as pages that have to be zeroed, a quarter of the time of ingest and of estimates of some 10,000
/// rows.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT: libc::c_int = 32 << 20;

/// The most arenas. Each thread that finds none free gets one, up to eight for each core, and each keeps what its largest
/// answer took: with a thread for each reader of metrics, they held hundreds of MiB. Short-lived pieces also wander through
/// all free pages of an arena until these are given back: with thousands of short runs and four arenas, 50 MiB of heap were
/// resident of which 18 were allocated, with two arenas 31.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS: libc::c_int = 2;

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
