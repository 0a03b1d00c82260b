//! How long scores take on this machine.

use std::ops::ControlFlow;
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use information::{Kind, Settings};
use leakage::batch::{Batch, NonFinite};
use leakage::prepare::Prepared;
use leakage::run::{Concept, Run, RunFields};
use leakage::sample::Sample;
use leakage::score::catalogue::find;
use leakage::score::{Wanted, evaluate};
use leakage::tensor::{DataType, Tensor, TensorName};

const ROWS: usize = 2048;
const CLASSES: u32 = 10;
const SCORES: [&str; 5] = ["ctl", "icl", "ctl_conditional", "icl_conditional", "concept_accuracy"];
/// Concepts of a small set, and of CUB's.
const SIZES: [usize; 2] = [8, 112];

/// A line for each number of concepts.
pub fn lines() -> Vec<String> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    SIZES
        .iter()
        .filter_map(|&k| {
            let pool = pool.as_ref().ok()?;
            pool.install(|| line(k))
        })
        .collect()
}

fn line(k: usize) -> Option<String> {
    let (run, sample) = drawn(k)?;
    let settings = Settings { kind: Kind::TieAware, neighbours: 3, repeats: 5, seed: 0 };
    let prepared = Prepared::new(&sample, &run, settings);
    let times: Vec<String> = SCORES
        .iter()
        .filter_map(|id| {
            let began = Instant::now();
            evaluate(&prepared, Wanted::Named(&[find(id)?]), |_, _, _| ControlFlow::Continue(()))?;
            Some(format!("{id} {:.3} s", began.elapsed().as_secs_f64()))
        })
        .collect();
    Some(format!("{k} concepts: {}", times.join(", ")))
}

/// Labels that are fair coins, and activations that follow them.
fn drawn(k: usize) -> Option<(Run, Sample)> {
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let concepts = (0..k).map(|i| Concept { name: format!("c{i}"), cardinality: 2, ..Concept::default() }).collect();
    let run = Run::try_from(RunFields { name: "doctor".into(), concepts, ..RunFields::default() }).ok()?;
    let labels: Vec<bool> = (0..ROWS * k).map(|_| random.random()).collect();
    let activation = |&label: &bool| f32::from(u8::from(label)) * 0.6 + random.random::<f32>() * 0.4;
    let activations = labels.iter().map(activation).flat_map(f32::to_le_bytes).collect::<Vec<u8>>();
    let tasks: Vec<u8> = (0..ROWS).map(|_| random.random_range(0..CLASSES as u8)).collect();
    let labels: Vec<u8> = labels.into_iter().map(u8::from).collect();
    let (rows, columns) = (ROWS as u64, k as u64);
    let tensors = vec![
        Tensor::numbers(TensorName::ConceptActivations, DataType::Float32, &[rows, columns], activations.into())
            .ok()?,
        Tensor::numbers(TensorName::ConceptLabels, DataType::UInt8, &[rows, columns], labels.into()).ok()?,
        Tensor::numbers(TensorName::TaskLabels, DataType::UInt8, &[rows], tasks.into()).ok()?,
    ];
    let batch = Batch::new(tensors, &run, NonFinite::Reject).ok()?;
    Some((run.clone(), Sample::of_batch(&batch, &run)))
}
