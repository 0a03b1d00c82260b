//! The structure that ARCHITECTURE.md draws is the one of the code.
//!
//! Read from `use` declarations and from paths written out in the code, without unit tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A module by its path, such as `["sample", "split"]`.
type Module = Vec<String>;

/// Every module of the library with the modules that it imports from.
fn imports() -> BTreeMap<Module, BTreeSet<Module>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&source, &mut files);
    let modules: BTreeMap<Module, String> = files
        .iter()
        .filter_map(|file| Some((module_of(file.strip_prefix(&source).ok()?)?, std::fs::read_to_string(file).ok()?)))
        .collect();
    let known: BTreeSet<Module> = modules.keys().cloned().collect();
    let of = |(module, text): (&Module, &String)| {
        let code = code_of(text);
        let declared = declarations(&code).into_iter().flat_map(|declared| expanded(&declared));
        let found = declared.chain(written_out(&code)).filter_map(|path| resolved(module, &path, &known));
        (module.clone(), found.filter(|other| other != module).collect())
    };
    modules.iter().map(of).collect()
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// `None` for the program and for files of tests.
fn module_of(file: &Path) -> Option<Module> {
    let mut parts: Module = file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod" || last == "lib") {
        parts.pop();
    }
    let outside = parts.iter().any(|part| part == "tests" || part == "main");
    (!outside).then_some(parts)
}

/// The text without comments, up to the unit tests.
fn code_of(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join(" ")
}

/// What stands between `use` and `;`.
fn declarations(code: &str) -> Vec<String> {
    let starts = code.match_indices("use ").filter(|(at, _)| {
        let before = code[..*at].trim_end();
        before.is_empty() || before.ends_with([';', '}', '{', ']']) || before.ends_with("pub") || before.ends_with(')')
    });
    starts.filter_map(|(at, _)| code[at + 4..].split(';').next().map(str::to_owned)).collect()
}

/// Paths such as `crate::a::B` and `child::f`, wherever they stand.
fn written_out(code: &str) -> Vec<Vec<String>> {
    let is_path = |character: char| character.is_alphanumeric() || character == '_' || character == ':';
    let words = code.split(|character| !is_path(character)).filter(|word| word.contains("::"));
    let parts = |word: &str| word.split("::").map(str::to_owned).collect::<Vec<_>>();
    words.map(parts).filter(|path| path.iter().all(|part| !part.is_empty() && !part.contains(':'))).collect()
}

/// The paths of a declaration: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expanded(declared: &str) -> Vec<Vec<String>> {
    let declared = declared.trim();
    let Some((before, group)) = declared.split_once('{') else {
        let path = declared.split(" as ").next().unwrap_or_default();
        return vec![path.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()];
    };
    let prefix: Vec<String> =
        before.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect();
    let group = group.trim_end().trim_end_matches('}');
    let (mut depth, mut start, mut items) = (0, 0, Vec::new());
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(&group[start..]);
    let inner = items.into_iter().filter(|item| !item.trim().is_empty()).flat_map(expanded);
    inner.map(|path| prefix.iter().cloned().chain(path).collect()).collect()
}

/// The module of this crate that a path names something of.
fn resolved(module: &Module, path: &[String], known: &BTreeSet<Module>) -> Option<Module> {
    let mut base = module.clone();
    let mut rest = path;
    match rest.first()?.as_str() {
        "crate" => (base, rest) = (Vec::new(), &rest[1..]),
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        first => {
            let child = [&base[..], &[first.to_owned()]].concat();
            if !known.contains(&child) {
                return None;
            }
        }
    }
    let longest = (0..=rest.len()).rev().map(|length| [&base[..], &rest[..length]].concat());
    longest.into_iter().find(|candidate| known.contains(candidate)).filter(|found| !found.is_empty())
}

/// The modules of the library in the order of `lib.rs`, which is the order in which data goes.
fn order() -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let module = |line: &str| line.strip_prefix("pub mod ")?.strip_suffix(';').map(str::to_owned);
    text.lines().filter_map(module).collect()
}

#[test]
fn a_module_imports_only_what_stands_above_it() {
    let order = order();
    assert!(order.len() > 10, "{order:?}");
    let place = |module: &Module| order.iter().position(|name| *name == module[0]);
    let mut wrong = Vec::new();
    for (module, others) in imports().iter().filter(|(module, _)| !module.is_empty()) {
        for other in others.iter().filter(|other| other[0] != module[0]) {
            if place(other) > place(module) {
                wrong.push(format!("{} imports {}", module.join("::"), other.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn no_two_files_import_each_other() {
    let imports = imports();
    let mut wrong = Vec::new();
    for (module, others) in &imports {
        for other in others.iter().filter(|other| *other > module) {
            if imports.get(other).is_some_and(|back| back.contains(module)) {
                wrong.push(format!("{} and {}", module.join("::"), other.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn only_its_folder_names_the_types_of_grpc() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&source, &mut files);
    // The errors of a port that fails are those of its library.
    let outside =
        |file: &&PathBuf| !file.starts_with(source.join("server/grpc")) && !file.ends_with("server/options.rs");
    let names = |file: &&PathBuf| std::fs::read_to_string(file).unwrap().contains("tonic::");
    let wrong: Vec<_> = files.iter().filter(outside).filter(names).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}
