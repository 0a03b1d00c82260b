//! Tensors of any name, type, shape and bytes, as one batch of a small run.
//!
//! A batch is refused with a fault that names a field, or every row it keeps has labels and activations as declared.

#![no_main]

use std::sync::LazyLock;

use arbitrary::Arbitrary;
use bytes::Bytes;
use leakage::batch::{Batch, NonFinite};
use leakage::run::{ActivationKind, Concept, LabelKind, Run, RunFields};
use leakage::tensor::{DataType, Tensor, TensorName};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    run: u8,
    drops: bool,
    tensors: Vec<Made>,
}

#[derive(Arbitrary, Debug)]
struct Made {
    name: u8,
    dtype: u8,
    /// Dimensions; the data are as long as these need where that is little.
    shape: Vec<u8>,
    fits: bool,
    data: Vec<u8>,
    texts: Vec<String>,
}

/// Declarations that differ in what their activations and labels are.
static RUNS: LazyLock<Vec<Run>> = LazyLock::new(|| {
    let concepts = |classes: &[u32]| {
        let concept = |(at, cardinality): (usize, &u32)| Concept { name: format!("c{at}"), cardinality: *cardinality, ..Concept::default() };
        classes.iter().enumerate().map(concept).collect::<Vec<_>>()
    };
    let run = |kind, labels, classes: &[u32], missing| {
        let fields = RunFields {
            name: "fuzzed".into(),
            activation_kind: kind,
            concept_label_kind: labels,
            concepts: concepts(classes),
            missing_concept_labels: missing,
            ..RunFields::default()
        };
        Run::try_from(fields).expect("a declaration that is right")
    };
    vec![
        run(ActivationKind::Probability, LabelKind::Class, &[2, 2], false),
        run(ActivationKind::Hard, LabelKind::Class, &[2, 3], true),
        run(ActivationKind::Logit, LabelKind::Class, &[1], true),
        run(ActivationKind::Continuous, LabelKind::Continuous, &[0, 0, 0], true),
    ]
});

const LONGEST: usize = 1 << 12;

fn tensor(made: Made) -> Option<Tensor> {
    let name = TensorName::ALL[made.name as usize % TensorName::ALL.len()];
    let dtype = DataType::ALL[made.dtype as usize % DataType::ALL.len()];
    let shape: Vec<u64> = made.shape.iter().map(|dim| u64::from(*dim)).collect();
    if dtype == DataType::String {
        return Tensor::texts(name, &shape, made.texts).ok();
    }
    let mut data = made.data;
    let needed = shape.iter().try_fold(dtype.size() as u64, |bytes, dim| bytes.checked_mul(*dim));
    if let Some(needed) = needed.map(|needed| needed as usize).filter(|needed| made.fits && *needed <= LONGEST) {
        let pattern = data.clone();
        data.resize(needed, 0);
        if !pattern.is_empty() {
            data.iter_mut().zip(pattern.iter().cycle()).for_each(|(byte, with)| *byte = *with);
        }
    }
    Tensor::numbers(name, dtype, &shape, Bytes::from(data)).ok()
}

fuzz_target!(|input: Input| {
    let run = &RUNS[input.run as usize % RUNS.len()];
    let policy = if input.drops { NonFinite::DropRow } else { NonFinite::Reject };
    let tensors: Vec<Tensor> = input.tensors.into_iter().take(8).filter_map(tensor).collect();
    match Batch::new(tensors, run, policy) {
        Err(fault) => {
            assert!(!fault.field.is_empty() && !fault.message.is_empty(), "a fault without a field: {fault:?}")
        }
        Ok(batch) => {
            assert!(batch.kept_rows().count() + batch.dropped_rows() == batch.rows());
            assert!(batch.columns().all(|tensor| tensor.rows() == batch.rows()));
        }
    }
});
