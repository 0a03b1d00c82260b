//! Lists the page's files, so that a new one needs no other change.

use std::path::{Path, PathBuf};

fn main() {
    // Without any such line every file of the package would be watched, and a changed document recompile the crate.
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=web");
    let place = |name| PathBuf::from(std::env::var_os(name).expect("cargo sets it"));
    let web = place("CARGO_MANIFEST_DIR").join("web");
    let mut files = files_in(&web);
    files.sort();
    // Each is named by its path in web/.
    let rows = files.iter().filter_map(|path| {
        let served = ["html", "js", "css", "svg", "png"].contains(&path.extension()?.to_str()?);
        let parts = path.strip_prefix(&web).ok()?.iter().map(|part| part.to_str().expect("a UTF-8 path"));
        let name = parts.collect::<Vec<_>>().join("/");
        served.then(|| format!("    ({name:?}, include_bytes!({:?})),\n", path.to_str().expect("a UTF-8 path")))
    });
    let list = format!("&[\n{}]\n", rows.collect::<String>());
    std::fs::write(place("OUT_DIR").join("page_files.rs"), list).expect("OUT_DIR is writable");
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("web/ is part of the package");
    let paths = entries.map(|entry| entry.expect("web/ can be listed").path());
    paths.flat_map(|path| if path.is_dir() { files_in(&path) } else { vec![path] }).collect()
}
