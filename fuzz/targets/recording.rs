//! A recording of any bytes: read to its end, in no more items than it has bytes.

#![no_main]

use conceptwatch::server::recording::Recording;
use libfuzzer_sys::fuzz_target;

#[path = "file.rs"]
mod file;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut recording) = Recording::open(&file::with(bytes)) else { return };
    let mut items = 0;
    while let Ok(Some(item)) = recording.next_item() {
        item.ends();
        items += 1;
        assert!(items <= bytes.len(), "more items than bytes");
    }
    assert!(recording.cut_off() <= bytes.len() as u64);
});
