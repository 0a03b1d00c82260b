//! `conceptwatch score` with tables, arrays and tensors that are cut off, lie about their size or contradict each other.

use std::path::Path;

use super::Faults;
use crate::common::npy::{f32s, i64s};
use crate::common::{conceptwatch, text};

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
    let csv = |name, field, says, table: &str| (name, "t.csv", field, says, table.as_bytes().to_vec());
    let st = |name, says, bytes| (name, "t.safetensors", "FILE", says, bytes);
    let (labels, task, predictions, npy) = ("concept_labels", "task_labels", "task_predictions", "concept_labels.npy");
    let good = one("I64", "[4,2]", 0, 64);
    let mut cut = tensors(&good, 64);
    cut.truncate(cut.len() - 1);
    let unending = format!("concept_labels.a,task_labels\n1,\"{}", "x".repeat(9 << 20));
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let bomb = one("F32", "[4294967296,4294967296]", 0, 64);
    let large = one("F32", "[1073741824,1024]", 0, 1 << 42);
    let header = "no readable safetensors header";
    vec![
        csv("an empty table", "FILE", "holds no array", ""),
        csv("a header alone", "FILE", "has a header and no rows", "concept_labels.a,concept_labels.b\n"),
        csv("no score in it", "FILE", "--map \"concept_labels=concept_labels*\"", {
            "concept_labels_0,task_labels\n1,2\n0,1\n"
        }),
        ("of another kind", "notes.txt", "FILE", "is no file of arrays, expected .npz, .npy", b"hello".to_vec()),
        csv("no known column", "FILE", "holds no known array, got a, b", "a,b\n1,2\n"),
        csv("a word for a number", task, "got 'cat' in row 1, expected a number", {
            "task_labels,concept_labels.a\n1,0\ncat,1\n"
        }),
        csv("a number for a class's name", task, "got '1' in row 1, expected the name of a class", {
            "task_labels,concept_labels.a\ncat,0\n1,1\n"
        }),
        csv("a decimal comma", "concept_labels.a", "'0,5' in row 0, expected a number with a decimal point", {
            "task_labels;concept_labels.a\n1;0,5\n"
        }),
        csv("a row too short", "FILE", "line 3 has 1 fields, expected 2", "task_labels,c\n1,0\n1\n"),
        csv("a row too short, of Windows", "FILE", "line 3 has 1 fields", "task_labels,c\r\n1,0\r\n1\r\n"),
        csv("names and numbers of classes", predictions, "holds numbers, but task_labels names of classes", {
            "concept_labels.a,task_labels,task_predictions\n1,owl,0\n0,elk,1\n"
        }),
        csv("predictions of another task", predictions, "got 'b' as column 0, expected 'a' as of task_labels", {
            "task_labels.a,task_labels.b,task_predictions.b,task_predictions.c\n1,0,1,0\n"
        }),
        csv("a mark for a missing label", "concept_labels.a", "got '?' in row 0, expected a number, true, false", {
            "task_labels,concept_labels.a\n1,?\n"
        }),
        ("no text", "t.csv", "FILE", "is not valid UTF-8", b"task_labels,c\n1,\xff\n".to_vec()),
        csv("a line without end", "FILE", "a line is longer than 4 MiB", &unending),
        csv("a column twice", task, "is in", "task_labels,task_labels\n1,1\n"),
        csv("a part of an array twice", "concept_labels.a", "is given twice", {
            "concept_labels.a,concept_labels[a]\n1,1\n"
        }),
        csv("concepts of other names", labels, "got 'A' as column 0, expected 'a'", {
            "concept_activations.a,concept_activations.b,concept_labels.A,concept_labels.b\n.5,.5,1,0\n"
        }),
        csv("labels of -1 and 1", labels, "recode it to 0 or pass --signed-labels", {
            "concept_labels.a,concept_labels.b,task_labels\n-1,0,1\n1,1,0\n"
        }),
        csv("an escape in a column", "FILE", "got \\u{1b}[2J", "\u{1b}[2J\n1\n"),
        st("an empty file", "is not a safetensors file", vec![]),
        st("a header beyond the file", "is not a safetensors file", vec![0xff; 64]),
        st("a header that is no JSON", header, tensors("hello", 0)),
        st("a header of brackets", header, tensors(&deep, 0)),
        st("no tensor", "holds no array", tensors("{}", 0)),
        st("a file cut off", "expected", cut),
        st("bytes behind the last tensor", "expected", tensors(&good, 65)),
        st("fewer bytes than its shape", header, tensors(&one("I64", "[4,3]", 0, 64), 64)),
        st("offsets backwards", header, tensors(&one("I64", "[4,2]", 64, 0), 64)),
        st("2^64 elements", header, tensors(&bomb, 64)),
        st("4 TiB without bytes", "expected 4398", tensors(&large, 64)),
        ("8-bit floats", "t.safetensors", labels, "expected float, int, uint or bool", {
            tensors(&one("F8_E4M3", "[4,2]", 0, 8), 8)
        }),
        ("an array that is text", npy, labels, "no readable npy header", b"hello".to_vec()),
        ("an array cut off", npy, labels, "got 60 bytes, expected 64", {
            i64s("(4, 2)", &[0; 8]).into_iter().rev().skip(4).rev().collect()
        }),
        ("2^40 rows", npy, labels, "see --memory-mib", f32s("(1073741824, 2)", &[])),
        ("no name of scores", "outputs.npy", "FILE", "holds no known array, got outputs", f32s("(1, 1)", &[0.0])),
        ("Parquet", "t.parquet", "FILE", "python -m conceptwatch score", b"PAR1".to_vec()),
        ("PyTorch", "t.pt", "FILE", "python -m conceptwatch score", b"PK".to_vec()),
    ]
}

fn check(faults: &mut Faults, name: &str, arguments: &[&str], field: &str, says: &str) {
    let done = conceptwatch(&[&["score", "--memory-mib", "64"], arguments].concat());
    super::archives::check(faults, name, &done, field, says);
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
