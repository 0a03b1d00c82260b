//! Lists the page's files, so that a new one needs no other change.

use std::path::PathBuf;

fn main() {
    // Without any such line every file of the package would be watched, and a changed document recompile the crate.
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=web");
    let place = |name| PathBuf::from(std::env::var_os(name).expect("cargo sets it"));
    let entries = std::fs::read_dir(place("CARGO_MANIFEST_DIR").join("web")).expect("web/ is part of the package");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("web/ can be listed").path()).collect();
    files.sort();
    let rows = files.iter().filter_map(|path| {
        let served = ["html", "js", "css", "svg", "png"].contains(&path.extension()?.to_str()?);
        let name = path.file_name()?.to_str()?;
        served.then(|| format!("    ({name:?}, include_bytes!({:?})),\n", path.to_str().expect("a UTF-8 path")))
    });
    let list = format!("&[\n{}]\n", rows.collect::<String>());
    std::fs::write(place("OUT_DIR").join("page_files.rs"), list).expect("OUT_DIR is writable");
}
