//! Keeps a bug in one score from the others.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::field_error::in_short;
use crate::prepare::Prepared;

/// Computes a part of a score. If it panics, returns an error and notifies the [listener](Prepared::with_failures).
///
/// A value that scores of a sample share is either built or not, so a panic leaves it usable. An unwind without a text
/// is no panic, but a caller's way to halt.
pub fn guarded<T>(p: &Prepared, what: &str, part: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(part)).map_err(|panic| {
        let Some(text) = panic_text(&*panic) else { resume_unwind(panic) };
        // In a computation that is to halt, others may fail at what halted threads left behind: this halts as well.
        p.pause();
        p.failed(what, text);
        format!(
            "internal error ({}): this is a bug in conceptwatch, and other scores are not affected; please report it with \
             the data at {}/issues",
            in_short(text),
            env!("CARGO_PKG_REPOSITORY")
        )
    })
}

/// Returns the text of a panic; `None` for any other unwind.
pub fn panic_text(panic: &(dyn Any + Send)) -> Option<&str> {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}
