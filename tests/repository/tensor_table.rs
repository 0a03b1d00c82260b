//! The table of tensors in `crates/leakage/src/tensor.rs` stands in two other languages: the comment of `Tensor` in the protocol and
//! `SHAPES` of the Python package. `UPDATE_DOCS=1 cargo test --test repository tensor_table` writes both.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use leakage::tensor::{Content, TensorName};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Checks, or with `UPDATE_DOCS` writes, `expected` between `start` and `end` in a file.
fn check(file: &str, start: &str, end: &str, expected: &str) {
    let text = std::fs::read_to_string(path(file)).unwrap();
    let (head, rest) = text.split_once(start).unwrap_or_else(|| panic!("{file} has no {start:?}"));
    let (block, tail) = rest.split_once(end).unwrap_or_else(|| panic!("{file} has no {end:?}"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path(file), format!("{head}{start}{expected}{end}{tail}")).unwrap();
    } else {
        assert!(
            block == expected,
            "{file} differs from crates/leakage/src/tensor.rs: run UPDATE_DOCS=1 cargo test --test repository"
        );
    }
}

/// A name's shapes, each with `open`, its dimensions joined by `between`, and `close`.
fn shapes(name: TensorName, open: &str, between: &str, close: &str) -> Vec<String> {
    let dims = |dims: &[_]| dims.iter().map(ToString::to_string).collect::<Vec<_>>().join(between);
    name.shapes().iter().map(|shape| format!("{open}{}{close}", dims(shape))).collect()
}

#[test]
fn the_protocol_describes_every_tensor() {
    let mut table = String::new();
    for &name in TensorName::ALL {
        let shapes = shapes(name, "[", ",", "]").join(" or ");
        let remark = if name.remark().is_empty() { String::new() } else { format!(": {}", name.remark()) };
        writeln!(table, "//   {:28} {shapes:8} {}{remark}", name.text(), name.content().text()).unwrap();
    }
    let start = "Names, shapes and elements:\n";
    check("proto/conceptwatch/v1/conceptwatch.proto", start, "message Tensor {", &table);
}

#[test]
fn the_python_package_knows_every_tensor_and_its_shapes() {
    let mut table = String::new();
    for &name in TensorName::ALL {
        // One shape is a tuple of one, with its comma.
        let shapes = shapes(name, "\"", " ", "\"");
        let comma = if shapes.len() == 1 { "," } else { "" };
        writeln!(table, "    \"{name}\": ({}{comma}),", shapes.join(", ")).unwrap();
    }
    let file = "python/conceptwatch/_tensors.py";
    check(file, "SHAPES: Mapping[str, tuple[str, ...]] = {\n", "}\n", &table);
    let texts = TensorName::ALL.iter().filter(|name| name.content() == Content::Texts);
    let texts: Vec<String> = texts.map(|name| format!("\"{name}\"")).collect();
    check(file, "TEXTS = (", ")\n", &texts.join(", "));
}

#[test]
fn the_help_of_python_s_log_names_every_tensor() {
    let text = std::fs::read_to_string(path("python/conceptwatch/_run.py")).unwrap();
    for name in TensorName::ALL {
        assert!(text.contains(name.text()), "the help of `log` in python/conceptwatch/_run.py does not name {name}");
    }
}
