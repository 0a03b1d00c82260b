//! An archive of any bytes: refused with a fault that names an array, or a declared run and its rows.

#![no_main]

use conceptwatch::cli::npz::{self, Layout, Memory};
use libfuzzer_sys::fuzz_target;

#[path = "file.rs"]
mod file;

fuzz_target!(|bytes: &[u8]| {
    match npz::read(&file::with(bytes), Layout::default(), &mut Memory { limit: 256 << 20, used: 0 }) {
        Err(fault) => assert!(!fault.field.is_empty() && !fault.message.contains('\n'), "{fault:?}"),
        Ok((run, batch)) => assert!(run.concept_count() > 0 && batch.rows() > 0),
    }
});
