//! Invalid batches of one chunk: what the port itself checks, and faults of tensors that users make. The library names the
//! others, see `declarations.rs` in the tests of its crate.

use conceptwatch::server::proto::{BatchChunk, Tensor};

use super::messages::Case;
use super::{NO_NAME, NOT_SHOWN};
use crate::common::chunk;
use crate::common::rows::{floats, integers, strings};

/// Rows of the valid batch that each case invalidates. Tensors: activations, concept labels, task labels, ids.
const N: u64 = 16;

type Spoil = fn(&mut BatchChunk);

pub fn cases() -> impl Iterator<Item = Case> {
    TABLE.iter().map(|&(name, field, says, spoil)| {
        let messages = move |run: &str| {
            let mut bad = chunk(run, 1, 0..N);
            spoil(&mut bad);
            vec![crate::common::Sent::message(bad)]
        };
        Case::new(&format!("batch: {name}"), field, says, messages)
    })
}

fn set(chunk: &mut BatchChunk, tensor: Tensor) {
    chunk.tensors.retain(|t| t.name != tensor.name);
    chunk.tensors.push(tensor);
}

#[rustfmt::skip]
const TABLE: &[(&str, &str, &str, Spoil)] = &[
    // Names and types of tensors.
    ("an unknown tensor", "tensors.name", "expected one of concept_activations", |c| c.tensors[0].name = "activations".into()),
    ("a tensor name of control characters", "tensors.name", "expected one of", |c| c.tensors[2].name = "a\n\u{1b}[2J".into()),
    ("an enormous tensor name", "tensors.name", "expected one of", |c| c.tensors[2].name = "x".repeat(1 << 20)),
    ("one tensor too many", "tensors", "expected at most 26", |c| { let t = c.tensors[2].clone(); c.tensors = vec![t; 27] }),
    ("a million empty tensors", "tensors", "expected at most 26", |c| c.tensors = vec![Tensor::default(); 1_000_000]),
    ("no data type", "tensors.task_labels.dtype", "expected a data type from 1 to 14", |c| c.tensors[2].dtype = 0),
    ("data type 15", "tensors.task_labels.dtype", "got 15", |c| c.tensors[2].dtype = 15),
    ("strings beside numbers", "tensors.task_labels.texts", "expected none", |c| c.tensors[2].texts = vec!["a".into()]),
    ("numbers beside strings", "tensors.predicted_text.data", "expected none", |c| { let mut t = strings("predicted_text", &[N], &["a"; 16]); t.data = vec![0; 8].into(); set(c, t) }),
    // Shapes and lengths.
    ("2^40 rows declared", "tensors.task_labels.data", "got 128 bytes", |c| c.tensors[2].shape = vec![1 << 40]),
    ("data cut off", "tensors.concept_activations.data", "got 127 bytes", |c| { let cut = c.tensors[0].data.slice(..127); c.tensors[0].data = cut }),
    ("one-hot task labels", "tensors.task_labels.shape", "of one-hot labels send the class numbers", |c| c.tensors[2] = integers("task_labels", &[N, 2], &[0; 32])),
    // Values.
    ("a NaN label", "tensors.concept_labels", "row 0 has a NaN or an infinity, expected finite values; for unknown labels declare missing_concept_labels", |c| set(c, floats("concept_labels", &[N, 2], &[f32::NAN; 32]))),
    ("concept labels of -1 and 1", "tensors.concept_labels", "if -1 means absent, recode it to 0 or pass signed_labels=True", |c| set(c, integers("concept_labels", &[N, 2], &[-1, 1].repeat(16)))),
    // The chunk around them.
    ("a run that is no name", "run", NOT_SHOWN, |c| c.run = NO_NAME.into()),
    ("a split that is no name", "split", NOT_SHOWN, |c| c.split = NO_NAME.into()),
    ("a client that is no name", "client", NOT_SHOWN, |c| c.client = NO_NAME.into()),
    ("sequence 0", "sequence", "expected at least 1", |c| c.sequence = 0),
    ("a NaN epoch", "epoch", "expected a finite number", |c| c.epoch = Some(f64::NAN)),
    ("a negative epoch", "epoch", "got -1", |c| c.epoch = Some(-1.0)),
    ("a step of 2^63", "step", "expected at most 9223372036854775807", |c| c.step = 1 << 63),
    ("rank 1 of 1", "rank", "got 1, expected 0 to 0", |c| c.rank = 1),
    ("a first chunk numbered 1", "chunk", "got 1, expected 0", |c| c.chunk = 1),
    ("a row number too few", "row_numbers", "got 15 numbers, expected one for each of 16", |c| c.row_numbers = (0..15).collect()),
    ("a row number too many", "row_numbers", "got 17", |c| c.row_numbers = (0..17).collect()),
    ("a million row numbers", "row_numbers", "got 1000000", |c| c.row_numbers = vec![1; 1_000_000]),
    ("a first row of 2^64 - 1", "first_row", "to which all rows can be added", |c| c.first_row = u64::MAX),
];
