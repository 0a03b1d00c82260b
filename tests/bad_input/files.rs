//! `conceptwatch score` with tables, arrays and tensors that are cut off, lie about their size or contradict each other.

use std::path::Path;

use super::Faults;
use crate::common::npy::{f32s, i64s};
use crate::common::{program, text};

/// The name of the file, what the one line on standard error begins with, where `FILE` stands for the path, and a part of
/// the rest.
type Case = (&'static str, &'static str, &'static str, &'static str, Vec<u8>);

/// A file of tensors with this header, and so many bytes of content.
fn tensors(header: &str, content: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.resize(bytes.len() + content, 0);
    bytes
}

fn one(dtype: &str, shape: &str, from: u64, to: u64) -> String {
    format!(r#"{{"concept_labels":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{from},{to}]}}}}"#)
}

fn cases() -> Vec<Case> {
    let (csv, st, npy) = ("t.csv", "t.safetensors", "concept_labels.npy");
    let table = |text: &str| text.as_bytes().to_vec();
    let good = one("I64", "[4,2]", 0, 64);
    let mut cut = tensors(&good, 64);
    cut.truncate(cut.len() - 1);
    let mut unending = b"concept_labels.a,task_labels\n1,\"".to_vec();
    unending.resize(9 << 20, b'x');
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let bomb = one("F32", "[4294967296,4294967296]", 0, 64);
    let large = one("F32", "[1073741824,1024]", 0, 1 << 42);
    vec![
        ("an empty table", csv, "FILE", "holds no array", vec![]),
        (
            "a header alone",
            csv,
            "concept_labels",
            "expected every dimension to be at least 1",
            table("concept_labels.a,concept_labels.b\n"),
        ),
        (
            "no score in it",
            csv,
            "FILE",
            "--map \"concept_labels=concept_labels*\"",
            table("concept_labels_0,task_labels\n1,2\n0,1\n"),
        ),
        ("of another kind", "notes.txt", "FILE", "is no file of arrays, expected .npz, .npy", table("hello")),
        ("no known column", csv, "FILE", "holds no known array, got a, b", table("a,b\n1,2\n")),
        ("a word for a number", csv, "task_labels", "got 'cat' in row 1, expected a number", {
            table("task_labels,concept_labels.a\n1,0\ncat,1\n")
        }),
        ("a number for a class's name", csv, "task_labels", "got '1' in row 1, expected the name of a class", {
            table("task_labels,concept_labels.a\ncat,0\n1,1\n")
        }),
        (
            "a decimal comma",
            csv,
            "concept_labels.a",
            "got '0,5' in row 0, expected a number, true or false; cells are",
            { table("task_labels;concept_labels.a\n1;0,5\n") },
        ),
        ("a row too short", csv, "FILE", "line 3 has 1 fields, expected 2", table("task_labels,c\n1,0\n1\n")),
        ("a row too short, of Windows", csv, "FILE", "line 3 has 1 fields", table("task_labels,c\r\n1,0\r\n1\r\n")),
        ("names and numbers of classes", csv, "task_predictions", "holds numbers, but task_labels names of classes", {
            table("concept_labels.a,task_labels,task_predictions\n1,owl,0\n0,elk,1\n")
        }),
        ("tasks in another order", csv, "task_predictions", "got 'b' as column 0, expected 'a' as of task_labels", {
            table("task_labels.a,task_labels.b,task_predictions.b,task_predictions.a\n1,0,1,0\n")
        }),
        ("no text", csv, "FILE", "is not valid UTF-8", b"task_labels,c\n1,\xff\n".to_vec()),
        ("a line without end", csv, "FILE", "a line is longer than 4 MiB", unending),
        ("a column twice", csv, "task_labels", "is in", table("task_labels,task_labels\n1,1\n")),
        ("a part of an array twice", csv, "concept_labels.a", "is given twice", {
            table("concept_labels.a,concept_labels[a]\n1,1\n")
        }),
        ("concepts in another order", csv, "concept_labels", "got 'b' as column 0, expected 'a'", {
            table("concept_activations.a,concept_activations.b,concept_labels.b,concept_labels.a\n.5,.5,1,0\n")
        }),
        ("labels of -1 and 1", csv, "concept_labels", "recode it to 0 or pass --signed-labels", {
            table("concept_labels.a,concept_labels.b,task_labels\n-1,0,1\n1,1,0\n")
        }),
        ("an escape in a column", csv, "FILE", "got \\u{1b}[2J", table("\u{1b}[2J\n1\n")),
        ("an empty file", st, "FILE", "is not a safetensors file", vec![]),
        ("a header beyond the file", st, "FILE", "is not a safetensors file", vec![0xff; 64]),
        ("a header that is no JSON", st, "FILE", "no readable safetensors header", tensors("hello", 0)),
        ("a header of brackets", st, "FILE", "no readable safetensors header", tensors(&deep, 0)),
        ("no tensor", st, "FILE", "holds no array", tensors("{}", 0)),
        ("a file cut off", st, "FILE", "expected", cut),
        ("bytes behind the last tensor", st, "FILE", "expected", tensors(&good, 65)),
        (
            "fewer bytes than its shape",
            st,
            "FILE",
            "no readable safetensors header",
            tensors(&one("I64", "[4,3]", 0, 64), 64),
        ),
        ("offsets backwards", st, "FILE", "no readable safetensors header", tensors(&one("I64", "[4,2]", 64, 0), 64)),
        ("2^64 elements", st, "FILE", "no readable safetensors header", tensors(&bomb, 64)),
        ("4 TiB without bytes", st, "FILE", "expected 4398", tensors(&large, 64)),
        ("8-bit floats", st, "concept_labels", "expected float, int, uint or bool", {
            tensors(&one("F8_E4M3", "[4,2]", 0, 8), 8)
        }),
        ("an array that is text", npy, "concept_labels", "no readable npy header", table("hello")),
        ("an array cut off", npy, "concept_labels", "got 60 bytes, expected 64", {
            i64s("(4, 2)", &[0; 8]).into_iter().rev().skip(4).rev().collect()
        }),
        ("2^40 rows", npy, "concept_labels", "see --memory-mib", f32s("(1073741824, 2)", &[])),
        ("no name of scores", "outputs.npy", "FILE", "holds no known array, got outputs", f32s("(1, 1)", &[0.0])),
        ("Parquet", "t.parquet", "FILE", "python -m conceptwatch score", table("PAR1")),
        ("PyTorch", "t.pt", "FILE", "python -m conceptwatch score", table("PK")),
    ]
}

fn check(faults: &mut Faults, name: &str, arguments: &[&str], field: &str, says: &str) {
    let output = program().arg("score").args(arguments).args(["--memory-mib", "64"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    faults.check(name, output.status.code() == Some(2), format!("ended with {}: {error}", output.status));
    faults.check(name, output.stdout.is_empty(), "wrote to standard output");
    faults.check(name, error.ends_with('\n') && error.lines().count() == 1, format!("wrote {error:?}"));
    faults.check(name, error.starts_with(field), format!("does not begin with '{field}': {error}"));
    faults.check(name, error.contains(says), format!("does not say '{says}': {error}"));
}

#[test]
fn names_the_file_or_the_array_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let mut faults = Faults::default();
    for (name, file, field, says, bytes) in cases() {
        let path = directory.path().join(file);
        std::fs::write(&path, bytes).unwrap();
        let field = if field == "FILE" { text(&path) } else { field };
        check(&mut faults, &format!("file: {name}"), &[text(&path)], field, says);
        std::fs::remove_file(path).unwrap();
    }
    faults.report();
}

#[test]
fn memory_is_bounded_over_all_files() {
    let directory = tempfile::tempdir().unwrap();
    let mut faults = Faults::default();
    // 40 MB of digits become 320 MB.
    let wide = |path: &Path| {
        let header: Vec<String> = (0..100).map(|i| format!("concept_labels.{i}")).collect();
        let row = "1,".repeat(99) + "1\n";
        std::fs::write(path, header.join(",") + "\n" + &row.repeat(200_000)).unwrap();
    };
    let path = directory.path().join("t.csv");
    wide(&path);
    check(&mut faults, "a long table", &[text(&path)], text(&path), "expected at most 64: see --memory-mib");
    let [first, second] = ["concept_labels.npy", "task_logits.npy"].map(|name| directory.path().join(name));
    std::fs::write(&first, f32s("(1000000, 4)", &vec![0.0; 4_000_000])).unwrap();
    std::fs::write(&second, f32s("(1000000, 4)", &vec![0.0; 4_000_000])).unwrap();
    let both = [text(&first), text(&second)];
    check(&mut faults, "two arrays", &both, "task_logits", "with the arrays before it, expected at most 64");
    let twice = [text(&first), text(&first)];
    let one = directory.path().join("one/concept_labels.npy");
    std::fs::create_dir(one.parent().unwrap()).unwrap();
    std::fs::write(&one, i64s("(2, 2)", &[0; 4])).unwrap();
    check(&mut faults, "an array twice", &[text(&one), text(&one)], "concept_labels", "is in ");
    check(&mut faults, "a large array twice", &twice, "concept_labels", "is in ");
    faults.report();
}
