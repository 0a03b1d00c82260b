//! `conceptwatch score` with invalid files and flags.

use std::path::Path;

use super::Faults;
use crate::common::npy::{archive, f32s, f64s, header, i64s, npy, texts};
use crate::common::{Done, conceptwatch, text};

struct Case {
    name: String,
    /// The beginning of the one line on standard error; `FILE` stands for the file.
    field: &'static str,
    says: &'static str,
    file: Vec<u8>,
}

const N: usize = 32;

type Entries = Vec<(String, Vec<u8>)>;

/// A valid archive of two concepts.
fn good() -> Entries {
    let activations: Vec<f32> = (0..2 * N).map(|i| (i * 37 % 64) as f32 / 64.0).collect();
    let labels: Vec<i64> = (0..2 * N).map(|i| (i * 5 % 7 > 3) as i64).collect();
    let task: Vec<i64> = (0..N).map(|i| (i % 3) as i64).collect();
    vec![
        ("concept_activations.npy".into(), f32s("(32, 2)", &activations)),
        ("concept_labels.npy".into(), i64s("(32, 2)", &labels)),
        ("task_labels.npy".into(), i64s("(32,)", &task)),
    ]
}

/// The valid archive with an array replaced or added, which is named.
fn array(name: &str, array: &'static str, says: &'static str, bytes: Vec<u8>) -> Case {
    let mut entries = good();
    let entry = format!("{array}.npy");
    entries.retain(|(name, _)| *name != entry);
    entries.push((entry, bytes));
    file(name, array, says, archive(&entries))
}

fn file(name: &str, field: &'static str, says: &'static str, file: Vec<u8>) -> Case {
    Case { name: format!("npz: {name}"), field, says, file }
}

fn cases() -> Vec<Case> {
    let whole = archive(&good());
    let mut damaged = whole.clone();
    damaged[200] ^= 0xff;
    let mut twice = good();
    twice[1].0 = "concept_activations.npz".into();
    let (act, labels, task, text) = ("concept_activations", "concept_labels", "task_labels", "predicted_text");
    let zeros = |n: usize| vec![0.0f32; n];
    let mut with_nan = zeros(64);
    with_nan[7] = f32::NAN;
    let mut unknown = [0; 64];
    unknown[5] = -1;
    let one_hot: Vec<i64> = (0..64).map(|i| i % 2).collect();
    let mut cut = f32s("(32, 2)", &zeros(64));
    cut.truncate(cut.len() - 3);
    let mut longer = f32s("(32, 2)", &zeros(64));
    longer.extend([0; 9]);
    let nested =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {}6{}, }}", "(".repeat(16), ",)".repeat(16));
    vec![
        file("an empty file", "FILE", "is not an npz archive", vec![]),
        file("a text", "FILE", "is not an npz archive", b"epoch,loss\n1,0.5\n".to_vec()),
        file("a single array", "FILE", "is not an npz archive", f32s("(2,)", &[0.0, 1.0])),
        file("cut in half", "FILE", "is not an npz archive", whole[..whole.len() / 2].to_vec()),
        file("without its last byte", "FILE", "is not an npz archive", whole[..whole.len() - 1].to_vec()),
        file("a damaged array", act, "cannot be read", damaged),
        file("an empty archive", "FILE", "no array", archive(&[])),
        file("an entry without a name", "FILE", "entry 3 has no name", {
            let mut entries = good();
            entries.push((String::new(), b"hello".to_vec()));
            archive(&entries)
        }),
        file("an entry with a new line in its name", "FILE", "no known array, got a\\nb\\u{1b}[2J", {
            archive(&[("a\nb\u{1b}[2J.npy".into(), i64s("(1,)", &[1]))])
        }),
        file("an array without a name", "FILE", "no known array", archive(&[(".npy".into(), i64s("(1,)", &[1]))])),
        file("an enormous entry name", "FILE", "no known array, got xxx", {
            archive(&[("x".repeat(60_000) + ".npy", i64s("(1,)", &[1]))])
        }),
        file("ids alone", "sample_ids", "something to score", {
            archive(&[("sample_ids.npy".into(), i64s("(1,)", &[1]))])
        }),
        array("an array that is text", act, "no readable npy header", b"not an array".to_vec()),
        array("an empty entry", act, "no readable npy header", vec![]),
        array("a header that is no dictionary", act, "no readable npy header", header("[1, 2, 3]", &[])),
        array("a header cut off", act, "no readable npy header", b"\x93NUMPY\x01\x00\xff\xff{'descr'".to_vec()),
        array("a header of 4 GiB", act, "no readable npy header", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}".to_vec()),
        array("a header of brackets", act, "no readable npy header", header(&nested, &[])),
        array("a version 9 header", act, "no readable npy header", b"\x93NUMPY\x09\x00\x02\x00{}".to_vec()),
        array("data cut off", act, "got 253 bytes, expected 256 for shape [32, 2]", cut),
        array("data too long", act, "got more bytes", longer),
        array("2^62 rows declared", act, "too large", f32s("(4611686018427387904, 2)", &[])),
        array("2^64 numbers declared", act, "too large", f32s("(9223372036854775808, 2)", &[])),
        array("2^40 rows without bytes", act, "see --memory-mib", f32s("(1073741824, 2)", &[])),
        array("big-endian numbers", act, "big-endian", npy("'>f4'", false, "(32, 2)", &[0; 256])),
        array("objects", act, "Python objects, expected numbers or strings", npy("'|O'", false, "(32, 2)", &[0; 64])),
        array("records", act, "structured array", npy("[('a', '<f4'), ('b', '<i4')]", false, "(32,)", &[0; 256])),
        array("complex numbers", act, "expected float, int, uint or bool", npy("'<c8'", false, "(32, 2)", &[0; 512])),
        array("an unknown label", labels, "for unknown labels pass --missing-labels", i64s("(32, 2)", &unknown)),
        array("an unknown label of floats", labels, "pass --missing-labels", f32s("(32, 2)", &with_nan)),
        array("one-hot task labels", task, "of one-hot labels send the class numbers", i64s("(32, 2)", &one_hot)),
        array("dates", task, "expected", npy("'<M8[s]'", false, "(32,)", &[0; 256])),
        array("extended floats", act, "expected", npy("'<f16'", false, "(32, 2)", &[0; 1024])),
        array("strings for labels", labels, "expected", texts(3, "(32, 2)", &["a"; 64])),
        array("labels without a name", task, "pass --missing-labels", texts(3, "(32,)", &["NA"; 32])),
        array("strings for activations", act, "expected", texts(3, "(32,)", &["a"; 32])),
        array("strings of no width", text, "expected", npy("'<U0'", false, "(1099511627776,)", &[])),
        array("text that is no Unicode", text, "is not valid text", npy("'<U1'", false, "(32,)", &[0xff; 128])),
        array("bytes that are no UTF-8", text, "is not valid UTF-8", npy("'|S1'", false, "(32,)", &[0xff; 32])),
        array("numbers for text", text, "expected string", i64s("(32,)", &[0; 32])),
        array("a single number", act, "expected 1 to 8", f32s("()", &[1.0])),
        array("two activations a concept", act, "declare activation_columns two_per_", f32s("(32, 4)", &zeros(128))),
        array("activations of others", act, "declare latents 5; concept_labels has 2", f32s("(32, 5)", &zeros(160))),
        array("another layout", "activation_columns", "got 'both', expected one_per_", texts(4, "()", &["both"])),
        array("a latent for two concepts", "latents", "got 1, expected at least one for each", i64s("()", &[1])),
        Case { field: act, ..array("latents that are not there", "latents", "[n, 3, m] with 3", i64s("()", &[3])) },
        array("half a latent", "latents", "got 2.5, expected whole numbers", f64s("()", &[2.5])),
        array("two numbers of latents", "latents", "got 2 numbers, expected one", i64s("(2,)", &[3, 3])),
        array("a NaN", act, "row 3 has a NaN or an infinity", f32s("(32, 2)", &with_nan)),
        array("5000 concepts", labels, "expected 1 to 4096", i64s("(32, 5000)", &vec![0; 160_000])),
        array("a name too few", "concept_names", "got 1 values", texts(4, "(1,)", &["wing"])),
        array("a name with an escape", "concept_names", "expected text", texts(4, "(2,)", &["\u{1b}[m", "a"])),
        array("numbers for names", "concept_names", "expected strings", i64s("(2,)", &[1, 2])),
        array("a cardinality too few", "cardinalities", "got 1 values", i64s("(1,)", &[2])),
        array("a negative cardinality", "cardinalities", "got -3", i64s("(2,)", &[2, -3])),
        array("half a cardinality", "cardinalities", "got 2.5", f64s("(2,)", &[2.0, 2.5])),
        array("a NaN cardinality", "cardinalities", "got NaN", f64s("(2,)", &[2.0, f64::NAN])),
        array("an enormous cardinality", "cardinalities", "expected", i64s("(2,)", &[2, 1 << 40])),
        array("strings for cardinalities", "cardinalities", "expected numbers", texts(1, "(2,)", &["a"; 2])),
        array("an unknown activation kind", "activation_kind", "got 'soft'", texts(4, "()", &["soft"])),
        array("a number for the kind", "activation_kind", "expected strings", i64s("(1,)", &[1])),
        array("two accuracies", "reference_task_accuracy", "got 2 numbers", f64s("(2,)", &[0.5; 2])),
        array("an accuracy of 2", "reference_task_accuracy", "expected 0 to 1", f64s("()", &[2.0])),
        array("no weights", "concept_weights", "expected", f64s("(0,)", &[])),
        array("a weight too many", "concept_weights", "got 3 weights", f64s("(3,)", &[1.0; 3])),
        array("biases without a head", "head_bias", "got 2 biases, expected 0", f64s("(2,)", &[0.5; 2])),
        array("a kernel of Keras", "head_weights", "has shape [2, 3], expected [l, 2]", f64s("(2, 3)", &[0.5; 6])),
        array("half an image", "image_size", "expected height and width", i64s("(1,)", &[9])),
        array("a negative image", "image_size", "expected", i64s("(2,)", &[-9, 9])),
        array("a fractional box", "box_size", "expected", f64s("(2,)", &[9.5, 9.0])),
    ]
}

fn score(file: &Path, flags: &[&str]) -> Done {
    conceptwatch(&[&["score", text(file)], flags].concat())
}

/// Status 2, nothing on standard output, one line on standard error that begins with `field`.
pub fn check(faults: &mut Faults, case: &str, done: &Done, field: &str, says: &str) {
    let error = &done.err;
    faults.check(case, done.status == Some(2), format!("ended with {:?}: {error}", done.status));
    faults.check(case, done.out.is_empty(), "wrote to standard output");
    faults.check(case, error.ends_with('\n') && error.lines().count() == 1, format!("wrote {error:?}"));
    faults.check(case, error.starts_with(field), format!("does not begin with '{field}': {error}"));
    faults.check_message(case, error.trim_end_matches('\n'), says);
}

#[test]
fn names_the_array_of_a_bad_file_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file.npz");
    let mut faults = Faults::default();
    for case in cases() {
        std::fs::write(&path, &case.file).unwrap();
        let field = if case.field == "FILE" { text(&path) } else { case.field };
        check(&mut faults, &case.name, &score(&path, &["--json"]), field, case.says);
    }
    let missing = directory.path().join("missing.npz");
    check(&mut faults, "a missing file", &score(&missing, &[]), text(&missing), "cannot be opened");
    let itself = directory.path();
    let empty = tempfile::tempdir().unwrap();
    let folder = text(empty.path());
    check(&mut faults, "a folder", &score(empty.path(), &[]), folder, "is a folder without .npy files");
    check(&mut faults, "a folder of others", &score(itself, &[]), text(itself), "is a folder without");
    faults.report();
}

#[test]
fn names_the_invalid_flag() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file.npz");
    std::fs::write(&path, archive(&good())).unwrap();
    let mut faults = Faults::default();
    for id in ["leak", "", "a\nb", "ctl,leak", "CTL"] {
        let output = score(&path, &["--scores", id]);
        check(&mut faults, &format!("--scores {id:?}"), &output, "--scores: ", "expected a score of");
    }
    let similar = score(&path, &["--scores", "ctl,ctl_conditonal"]);
    let says = "got 'ctl_conditonal', expected a score of docs/scores.md, such as ctl_conditional, ";
    check(&mut faults, "--scores with a typing error", &similar, "--scores: ", says);
    for map in ["c=concept_labels", "concept_labels", "=c", "concept_labels=", "wing=c", "a\nb=c"] {
        let (name, done) = (format!("--map {map:?}"), score(&path, &["--map", map]));
        faults.check(&name, done.status == Some(2), format!("ended with {:?}", done.status));
        faults.check(&name, done.err.contains("--map") && done.err.contains("expected"), format!("{done:?}"));
    }
    let maps: [(&[&str], &str); 3] = [
        (&["--map", "task_labels=a", "--map", "task_labels=b"], "'task_labels' is given twice"),
        (&["--map", "task_labels=a", "--map", "concept_labels=a"], "'a' is given twice"),
        (
            &["--map", "task_labels=absent"],
            "no file has an array 'absent', expected one of concept_activations, concept_labels, task_labels",
        ),
    ];
    for (flags, says) in maps {
        check(&mut faults, &format!("{flags:?}"), &score(&path, flags), "--map", says);
    }
    let nowhere = directory.path().join("nowhere/report.html");
    for place in [nowhere.as_path(), directory.path(), Path::new("/proc/report.html")] {
        let output = score(&path, &["--html", text(place)]);
        check(&mut faults, "a report that cannot be written", &output, "--html", "cannot be written");
    }
    let flags: [(&[&str], &str); 11] = [
        (&["--activation-columns", "2"], "--activation-columns"),
        (&["--latents", "--activation-columns", "two_per_concept"], "--activation-columns"),
        (&["--estimator", "exact"], "--estimator"),
        (&["--neighbours", "0"], "--neighbours"),
        (&["--neighbours", "1001"], "--neighbours"),
        (&["--neighbours", "three"], "--neighbours"),
        (&["--repeats", "0"], "--repeats"),
        (&["--seed", "-1"], "-1"),
        (&["--threads", "0"], "--threads"),
        (&["--colour"], "--colour"),
        (&["second.npz"], "second.npz"),
    ];
    for (flags, named) in flags {
        let (name, done) = (format!("{flags:?}"), score(&path, flags));
        let first = done.err.lines().next().unwrap_or_default();
        faults.check(&name, done.status == Some(2), format!("ended with {:?}", done.status));
        faults.check(&name, first.contains(named), format!("its first line is {first:?}"));
        faults.check(&name, done.out.is_empty(), "wrote to standard output");
    }
    faults.report();
}
