//! Samples to evaluate.

use leakage::batch::{Batch, NonFinite};
use leakage::run::{Concept, Run, RunConstants, RunFields};
use leakage::sample::Sample;
use leakage::tensor::{DataType, Tensor, TensorName};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub fn declaration(k: usize) -> Run {
    Run::try_from(RunFields {
        name: "benchmark".into(),
        concepts: (0..k)
            .map(|i| Concept { name: format!("concept {i}"), cardinality: 2, ..Concept::default() })
            .collect(),
        constants: RunConstants { reference_task_accuracy: Some(0.9), ..RunConstants::default() },
        ..RunFields::default()
    })
    .expect("a valid declaration")
}

/// A model that leaks slightly: each activation carries its own label, and weakly its neighbour's. The task is derived
/// from the first concepts; it has `task_classes`, at least 4. `width` is that of a CEM's embeddings.
pub fn sample(run: &Run, rows: usize, task_classes: u8, width: Option<usize>) -> Sample {
    let k = run.concept_count();
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let mut noise = || random.random::<f32>() + random.random::<f32>() - 1.0;
    let labels: Vec<u8> = (0..rows * k).map(|_| u8::from(noise() > 0.0)).collect();
    let signed = |row: usize, i: usize| f32::from(labels[row * k + i]) * 2.0 - 1.0;
    let logit = |row: usize, i: usize, noise: f32| signed(row, i) + 0.3 * signed(row, (i + 1) % k) + 2.0 * noise;
    let cells = || (0..rows).flat_map(|row| (0..k).map(move |i| (row, i)));
    let activations: Vec<f32> = cells().map(|(row, i)| 1.0 / (1.0 + (-logit(row, i, noise())).exp())).collect();
    let read = if task_classes <= 4 { 3.min(k) } else { 8.min(k) };
    let number = |row: &[u8]| row[..read].iter().fold(0_u8, |number, bit| number << 1 | bit);
    let class = |row: &[u8]| if task_classes <= 4 { row[..read].iter().sum() } else { number(row) % task_classes };
    let task: Vec<u8> = labels.chunks(k).map(class).collect();
    let mut mostly_right =
        || -> Vec<u8> { task.iter().map(|&y| if noise() > 0.6 { (y + 1) % task_classes } else { y }).collect() };
    let (predictions, intervened) = (mostly_right(), mostly_right());
    let (n, c) = (rows as u64, k as u64);
    let mut tensors = vec![
        floats(TensorName::ConceptActivations, &[n, c], &activations),
        classes(TensorName::ConceptLabels, &[n, c], labels.clone()),
        classes(TensorName::TaskLabels, &[n], task),
        classes(TensorName::TaskPredictions, &[n], predictions),
        classes(TensorName::IntervenedTaskPredictions, &[n], intervened),
    ];
    if let Some(width) = width {
        let shape = [n, c, width as u64];
        let mut embedding = |which: fn(f32, f32) -> f32| -> Vec<f32> {
            let values = |(row, i): (usize, usize)| (0..width).map(move |_| (row, i));
            let cells: Vec<(usize, usize)> = cells().flat_map(values).collect();
            cells.into_iter().map(|(row, i)| which(signed(row, i), activations[row * k + i]) + 2.0 * noise()).collect()
        };
        // The mixed embedding, and the two embeddings that it mixes.
        let mixed = embedding(|label, p| label * p);
        let (positive, negative) = (embedding(|label, _| label), embedding(|label, _| -label));
        tensors.push(floats(TensorName::ConceptEmbeddings, &shape, &mixed));
        tensors.push(floats(TensorName::PositiveEmbeddings, &shape, &positive));
        tensors.push(floats(TensorName::NegativeEmbeddings, &shape, &negative));
    }
    let batch = Batch::new(tensors, run, NonFinite::Reject).expect("a valid batch");
    Sample::of_batch(&batch, run)
}

fn floats(name: TensorName, shape: &[u64], values: &[f32]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::numbers(name, DataType::Float32, shape, bytes.into()).expect("a valid tensor")
}

fn classes(name: TensorName, shape: &[u64], values: Vec<u8>) -> Tensor {
    Tensor::numbers(name, DataType::UInt8, shape, values.into()).expect("a valid tensor")
}
