//! The structure that ARCHITECTURE.md draws is the one of the code. The compiler holds crates to it, and these tests the files
//! within each.
//!
//! Imports are read from `use` declarations and from paths written out in the code, without unit tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A module by its path, such as `["sample", "split"]`.
type Module = Vec<String>;

/// The imports of a module: each name that it has there, with its path.
type Names = Vec<(String, Vec<String>)>;

/// The source folder of each crate.
const CRATES: [&str; 3] = ["crates/information/src", "crates/leakage/src", "src"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns every module of a crate with the modules of the crate that it imports from.
fn imports(source: &str) -> BTreeMap<Module, BTreeSet<Module>> {
    let source = root().join(source);
    let mut files = Vec::new();
    rust_files(&source, &mut files);
    let code: BTreeMap<Module, String> = files
        .iter()
        .filter_map(|file| Some((module_of(file.strip_prefix(&source).ok()?)?, std::fs::read_to_string(file).ok()?)))
        .map(|(module, text)| (module, code_of(&text)))
        .collect();
    let declared = |code: &String| declarations(code).iter().flat_map(|declared| expanded(declared)).collect();
    let modules: BTreeMap<Module, Names> = code.iter().map(|(module, code)| (module.clone(), declared(code))).collect();
    let of = |(module, code): (&Module, &String)| {
        let paths = modules[module].iter().map(|(_, path)| path.clone()).chain(written_out(code));
        let found = paths.flat_map(|path| resolved(module, &path, &modules));
        (module.clone(), found.filter(|other| other != module).collect())
    };
    code.iter().map(of).collect()
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

/// Returns the text up to the unit tests, without comments and without the modules of `pub(in …)`.
fn code_of(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    let code = lines.collect::<Vec<_>>().join(" ");
    let mut parts = code.split("pub(in ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |code, part| code + "pub" + part.split_once(')').map_or("", |(_, after)| after))
}

/// Returns the text between each `use` and its `;`.
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

/// The names that a declaration imports, with their paths: `a::{b, c::d as e}` is b, `a::b`, and e, `a::c::d`.
fn expanded(declared: &str) -> Names {
    let split = |path: &str| -> Vec<String> {
        path.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
    };
    let declared = declared.trim();
    let Some((before, group)) = declared.split_once('{') else {
        let (path, alias) = declared.split_once(" as ").unwrap_or((declared, ""));
        let path = split(path);
        let last = path.last().cloned().unwrap_or_default();
        return vec![(if alias.is_empty() { last } else { alias.trim().to_owned() }, path)];
    };
    let prefix = split(before);
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
    let whole = |(name, path): (String, Vec<String>)| match (name.as_str(), prefix.last()) {
        ("self", Some(last)) => (last.clone(), prefix.clone()),
        _ => (name, prefix.iter().cloned().chain(path).collect()),
    };
    inner.map(whole).collect()
}

/// The modules of this crate through which a path goes: the one that it names something of and, where that one only
/// imports the name, the one that has it.
fn resolved(module: &Module, path: &[String], modules: &BTreeMap<Module, Names>) -> Vec<Module> {
    let mut found = Vec::new();
    let mut at = absolute(module, path, modules);
    // A name that stands for itself leads nowhere.
    while let Some(path) = at.take().filter(|_| found.len() < 10) {
        let lengths = (0..=path.len()).rev();
        let Some(length) = lengths.into_iter().find(|length| modules.contains_key(&path[..*length])) else { break };
        let (owner, rest) = (path[..length].to_vec(), &path[length..]);
        if let Some((first, rest)) = rest.split_first()
            && let Some(imported) = imported(&modules[&owner], first)
        {
            at = absolute(&owner, &[imported, rest].concat(), modules);
        }
        found.push(owner);
    }
    found
}

/// A path from the root of this crate; `None` if it leads out of it.
fn absolute(module: &Module, path: &[String], modules: &BTreeMap<Module, Names>) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([module, rest].concat()),
        "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            Some([&module[..module.len().saturating_sub(ups)], &path[ups..]].concat())
        }
        first => {
            let child = [&module[..], &[first.to_owned()]].concat();
            if modules.contains_key(&child) {
                return Some([child, rest.to_vec()].concat());
            }
            // A path that begins with its own name, such as a crate's, leads to no module here.
            let imported = imported(&modules[module], first).filter(|imported| imported[0] != first)?;
            absolute(module, &[imported, rest].concat(), modules)
        }
    }
}

fn imported<'a>(names: &'a Names, name: &str) -> Option<&'a [String]> {
    names.iter().find(|(own, _)| own == name).map(|(_, path)| path.as_slice())
}

/// Returns the modules of a crate in the order of its `lib.rs`, which is the order in which data goes.
fn order(source: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(source).join("lib.rs")).unwrap();
    let module = |line: &str| {
        let name = ["pub mod ", "pub(crate) mod ", "mod "].iter().find_map(|start| line.strip_prefix(start))?;
        name.strip_suffix(';').map(str::to_owned)
    };
    text.lines().filter_map(module).collect()
}

#[test]
fn a_module_imports_only_what_stands_above_it() {
    let mut wrong = Vec::new();
    for source in CRATES {
        let order = order(source);
        assert!(order.len() > 5, "{source}: {order:?}");
        let place = |module: &Module| order.iter().position(|name| *name == module[0]);
        for (module, others) in imports(source).iter().filter(|(module, _)| !module.is_empty()) {
            for other in others.iter().filter(|other| !other.is_empty() && other[0] != module[0]) {
                if place(other) > place(module) {
                    wrong.push(format!("{source}: {} imports {}", module.join("::"), other.join("::")));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn no_file_imports_itself_by_way_of_others() {
    let mut wrong = Vec::new();
    for source in CRATES {
        for circle in circles(&imports(source)) {
            let named = |module: &&Module| if module.is_empty() { "lib".to_owned() } else { module.join("::") };
            wrong.push(format!("{source}: {}", circle.iter().map(named).collect::<Vec<_>>().join(", ")));
        }
    }
    assert!(
        wrong.is_empty(),
        "files that each import all the others, at least by way of others:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn a_circle_of_three_is_found_with_nothing_beside_it() {
    let module = |name: &str| vec![name.to_owned()];
    let graph = [("a", "b"), ("b", "c"), ("c", "a"), ("before", "a"), ("c", "behind"), ("before", "behind")];
    let mut imports: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for (from, to) in graph {
        imports.entry(module(from)).or_default().insert(module(to));
    }
    let circle = ["a", "b", "c"].map(module);
    assert_eq!(circles(&imports), BTreeSet::from([circle.iter().collect()]));
}

/// Returns the strongly connected components of more than one module.
fn circles(imports: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<Vec<&Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        imports.keys().map(|module| (module, reached(module, imports))).collect();
    let all = reached.iter().map(|(from, others)| -> Vec<&Module> {
        others.iter().copied().filter(|other| reached.get(other).is_some_and(|back| back.contains(from))).collect()
    });
    // Each module of a circle has the same one.
    all.filter(|circle| circle.len() > 1).collect()
}

/// Returns a module and all that paths of edges lead to from it.
fn reached<'a>(first: &'a Module, edges: &'a BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<&'a Module> {
    let (mut found, mut open) = (BTreeSet::from([first]), vec![first]);
    while let Some(module) = open.pop() {
        open.extend(edges.get(module).into_iter().flatten().filter(|other| found.insert(other)));
    }
    found
}

#[test]
fn only_its_folder_names_the_types_of_grpc() {
    let source = root().join("src");
    let mut files = Vec::new();
    rust_files(&source, &mut files);
    let outside = |file: &&PathBuf| !file.starts_with(source.join("server/grpc"));
    let names = |file: &&PathBuf| std::fs::read_to_string(file).unwrap().contains("tonic::");
    let wrong: Vec<_> = files.iter().filter(outside).filter(names).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// ARCHITECTURE.md names each folder of the sources and of the server, and no file that is not there.
#[test]
fn the_maps_name_what_is_there() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let quoted: BTreeSet<&str> = text.split('`').skip(1).step_by(2).collect();
    let words: BTreeSet<&str> = text.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
    for folder in ["crates", "crates/leakage/src", "src", "src/server"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.file_name().unwrap().to_str().unwrap();
            assert!(!entry.is_dir() || words.contains(name), "{folder}/{name} is not on the maps");
        }
    }
    let places = [
        "crates/information/src",
        "crates/leakage/src",
        "",
        "src",
        "src/server",
        "web",
        "python",
        "python/conceptwatch",
    ];
    let is_there = |path: &str| places.iter().any(|place| root().join(place).join(path).exists());
    for path in quoted
        .iter()
        .filter(|path| path.ends_with(".rs") || path.ends_with(".py") || path.ends_with(".js") || path.ends_with('/'))
    {
        assert!(is_there(path), "`{path}` is not there");
    }
    assert!(text.split_whitespace().count() <= 1500, "{} words", text.split_whitespace().count());
}
