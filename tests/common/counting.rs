//! An allocator that tells a program what it allocates and frees. A test includes this file and installs it:
//!
//! ```ignore
//! #[global_allocator]
//! static ALLOCATOR: Counting = Counting(add);
//! ```

use std::alloc::{GlobalAlloc, Layout, System};

/// Calls the function with the bytes of each allocation, and with those of each one that is freed as a negative number.
/// The function must not allocate, and must not panic: it is also called while a thread ends.
pub struct Counting(pub fn(isize));

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        (self.0)(layout.size() as isize);
        // SAFETY: as of the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        (self.0)(-(layout.size() as isize));
        // SAFETY: as of the caller.
        unsafe { System.dealloc(pointer, layout) }
    }

    // `realloc` by default allocates, copies and frees, which is the most that one takes.
}
