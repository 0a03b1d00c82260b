//! An archive, a table or a file of tensors of any bytes: refused with a fault that names an array, or a declared run and
//! its rows. The last byte chooses the kind.

#![no_main]

use conceptwatch::cli::outputs::{self, Layout, Memory, Names};
use libfuzzer_sys::fuzz_target;

#[path = "file.rs"]
mod file;

fuzz_target!(|bytes: &[u8]| {
    let kind = ["npz", "csv", "safetensors", "npy"][bytes.last().map_or(0, |last| usize::from(last % 4))];
    let path = file::with(bytes).with_extension(kind);
    std::fs::write(&path, bytes).expect("a temporary file can be written");
    let mut memory = Memory { limit: 256 << 20, used: 0 };
    match outputs::read(&[path], &Names::default(), &Layout::default(), &mut memory, &|_| ()) {
        Err(fault) => assert!(!fault.field.is_empty() && !fault.message.contains('\n'), "{fault:?}"),
        Ok((run, batch, _)) => assert!(run.concept_count() > 0 && batch.rows() > 0),
    }
});
