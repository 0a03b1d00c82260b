//! Scores of a whole sample, as the sidecar computes them.

use std::ops::ControlFlow;

use information::Settings;
use leakage::batch::{Batch, NonFinite};
use leakage::prepare::Prepared;
use leakage::run::{Concept, Run, RunFields};
use leakage::sample::Sample;
use leakage::score::{Wanted, catalogue};
use leakage::tensor::{DataType, Tensor, TensorName};
use serde::Deserialize;

use crate::columns::bytes;

/// Files of the tensors, of type float32, uint8 and int32 as in `peers.py`.
#[derive(Deserialize)]
pub struct Files {
    concepts: usize,
    rows: u64,
    activations: String,
    labels: String,
    task: String,
    /// Values of one vector, and the files of the mixed, the positive and the negative ones.
    #[serde(default)]
    width: u64,
    #[serde(default)]
    embeddings: Vec<String>,
}

impl Files {
    pub fn load(&self) -> (Run, Sample) {
        let concepts = (0..self.concepts).map(|i| Concept { name: format!("concept {i}"), cardinality: 2, ..Concept::default() }).collect();
        let fields = RunFields { name: "peers".into(), concepts, ..RunFields::default() };
        let run = Run::try_from(fields).expect("a valid declaration");
        let (n, k) = (self.rows, self.concepts as u64);
        let tensor = |name, kind, shape: &[u64], file: &str| {
            Tensor::numbers(name, kind, shape, bytes(file).into()).expect("bytes that fit the shape")
        };
        let mut tensors = vec![
            tensor(TensorName::ConceptActivations, DataType::Float32, &[n, k], &self.activations),
            tensor(TensorName::ConceptLabels, DataType::UInt8, &[n, k], &self.labels),
            tensor(TensorName::TaskLabels, DataType::Int32, &[n], &self.task),
        ];
        let names = [TensorName::ConceptEmbeddings, TensorName::PositiveEmbeddings, TensorName::NegativeEmbeddings];
        for (name, file) in names.into_iter().zip(&self.embeddings) {
            tensors.push(tensor(name, DataType::Float32, &[n, k, self.width], file));
        }
        let batch = Batch::new(tensors, &run, NonFinite::Reject).expect("a valid batch");
        let sample = Sample::of_batch(&batch, &run);
        (run, sample)
    }
}

/// The sum of the scores' values.
pub fn evaluate(ids: &[String], run: &Run, sample: &Sample) -> f64 {
    let prepared = Prepared::new(sample, run, Settings::default());
    let named: Vec<_> = ids.iter().map(|id| catalogue::find(id).expect("a score of the catalogue")).collect();
    let scores = leakage::score::evaluate(&prepared, Wanted::Named(&named), |_, _, _| ControlFlow::Continue(()));
    let scores = scores.expect("nothing breaks it off");
    scores
        .iter()
        .map(|(score, outcome)| outcome.value().unwrap_or_else(|| panic!("{} is undefined", score.id)).value)
        .sum()
}
