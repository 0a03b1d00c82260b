//! `conceptwatch score` with archives that unfold to more than the memory it may take.

use std::process::Command;

use crate::common::Done;
use crate::common::npy::{archive, compressed, f32s, i64s, npy, zeros};

/// Scores a file within an address space of 400 MB, so that what it must not take cannot be had.
fn score(file: &[u8], arguments: &[&str]) -> Done {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file.npz");
    std::fs::write(&path, file).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 400000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_conceptwatch"), "score"]);
    Done::of(command.arg(&path).args(["--threads", "1"]).args(arguments))
}

fn refused(file: &[u8], arguments: &[&str], field: &str, says: &str) {
    let error = score(file, arguments).refused(2);
    assert!(error.contains(field) && error.contains(says), "{error}");
}

#[test]
fn an_array_that_unfolds_to_too_much_is_refused_before_it_is_read() {
    // 512 MiB in half a megabyte.
    let bomb = zeros("concept_activations", 1 << 21, 64);
    assert!(bomb.len() < 1 << 20, "{} bytes", bomb.len());
    refused(&bomb, &["--memory-mib", "256"], "concept_activations", "needs 1536 MiB, expected at most 256");
}

#[test]
fn arrays_that_fit_one_by_one_are_refused_together() {
    let array = |name: &str| (format!("{name}.npy"), npy("'<f4'", false, "(1048576, 4)", &vec![0; 16 << 20]));
    let both = compressed(&[array("image_embeddings"), array("reference_text_embeddings")]);
    refused(&both, &["--memory-mib", "64"], "reference_text_embeddings", "needs 96 MiB with the arrays before it");
}

#[test]
fn an_archive_that_lies_about_its_sizes_is_refused() {
    // The directory says 512 bytes of an entry that unfolds to 512 MiB.
    let mut lying = zeros("concept_activations", 1 << 21, 64);
    let size = ((1u32 << 29) + 128).to_le_bytes();
    let places: Vec<usize> = (0..lying.len() - 4).filter(|at| lying[*at..*at + 4] == size).collect();
    assert!(!places.is_empty());
    for place in places {
        lying[place..place + 4].copy_from_slice(&512u32.to_le_bytes());
    }
    refused(&lying, &["--memory-mib", "2048"], "concept_activations", "got 384 bytes");
    // The array says 32 rows of an entry that has more.
    let header = npy("'<f4'", false, "(32, 2)", &vec![0; 64 << 20]);
    let longer = compressed(&[("concept_activations.npy".into(), header)]);
    refused(&longer, &["--memory-mib", "2048"], "concept_activations", "got more bytes, expected 256");
}

#[test]
fn an_archive_of_many_entries_is_refused() {
    let entry = |at: usize| (format!("a{at}.npy"), f32s("(1,)", &[0.0]));
    let many: Vec<_> = (0..1025).map(entry).collect();
    refused(&archive(&many), &[], "file.npz", "has 1025 entries, expected at most 1024");
    // One that only says so.
    let mut liar = archive(&[entry(0)]);
    let end = liar.len() - 22;
    liar[end + 8..end + 12].fill(0xff);
    refused(&liar, &[], "file.npz", "is not an npz archive");
}

#[test]
fn a_score_that_needs_more_than_the_rest_is_undefined_and_the_others_are_scored() {
    let (rows, concepts) = (64usize, 1000usize);
    let activations: Vec<f32> = (0..rows * concepts).map(|at| (at * 37 % 101) as f32 / 101.0).collect();
    let labels: Vec<i64> = (0..rows * concepts).map(|at| (at * 7 % 13 > 6) as i64).collect();
    let task: Vec<i64> = (0..rows).map(|at| (at % 3) as i64).collect();
    let file = compressed(&[
        ("concept_activations.npy".into(), f32s("(64, 1000)", &activations)),
        ("concept_labels.npy".into(), i64s("(64, 1000)", &labels)),
        ("task_labels.npy".into(), i64s("(64,)", &task)),
    ]);
    let options = ["--memory-mib", "96", "--scores", "ctl,icl,concept_accuracy", "--json", "--no-tests"];
    let answer = score(&file, &options).json();
    let why = answer["scores"]["icl"]["undefined"].as_str().unwrap();
    assert!(why.starts_with("needs ") && why.contains("64 rows of 1000 concepts"), "{why}");
    assert!(answer["scores"]["ctl"]["value"].is_number() && answer["scores"]["concept_accuracy"]["value"].is_number());
}
