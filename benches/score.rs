//! Time of a full evaluation: all available scores, fast ones and slow ones apart, the tie-aware estimator, one thread. Beside the time on the clock
//! stands that on the processor, which other programs on the machine disturb less.

#[path = "machine/mod.rs"]
mod machine;

use std::ops::ControlFlow;
use std::time::Instant;

use conceptwatch::batch::{Batch, NonFinite};
use conceptwatch::estimate::Settings;
use conceptwatch::prepare::Prepared;
use conceptwatch::run::{Concept, Run, RunConstants, RunFields};
use conceptwatch::sample::Sample;
use conceptwatch::score::catalogue::Cost;
use conceptwatch::score::{Wanted, evaluate};
use conceptwatch::tensor::{DataType, Tensor, TensorName};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use machine::median;

/// Seconds after which a case is not repeated once more.
const ENOUGH: f64 = 8.0;
const MOST_REPEATS: usize = 5;

fn main() {
    println!("a full evaluation on one thread, tie_aware: {}\n", machine::facts());
    println!("{:40} {:>6} {:>7} {:>9} {:>9}  most of it", "case", "N", "scores", "seconds", "on CPU");
    let scalar = |k| (format!("{k} scalar concepts"), k, 2048, None);
    let cem = ("3 concepts of 16 dimensions (CEM)".to_owned(), 3, 2000, Some(16));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread can be started");
    let cases = [scalar(3), cem, scalar(16), scalar(112)];
    let cases =
        [Cost::Fast, Cost::Slow].into_iter().flat_map(|cost| cases.iter().cloned().map(move |case| (cost, case)));
    for (cost, (name, k, rows, width)) in cases {
        let run = declaration(k);
        let sample = sample(&run, rows, width);
        let (mut times, mut on_cpu) = (Vec::new(), Vec::new());
        let mut costs = Vec::new();
        while times.len() < MOST_REPEATS && times.iter().sum::<f64>() < ENOUGH {
            let (started, cpu) = (Instant::now(), cpu_seconds());
            costs = pool.install(|| measure(&sample, &run, cost));
            times.push(started.elapsed().as_secs_f64());
            on_cpu.push(cpu_seconds() - cpu);
        }
        let scores = costs.len();
        costs.sort_by(|a, b| b.1.total_cmp(&a.1));
        let most: Vec<String> = costs.iter().take(3).map(|(id, seconds)| format!("{id} {seconds:.2}")).collect();
        let name = if cost == Cost::Slow { format!("{name}, slow") } else { name };
        println!("{name:40} {rows:>6} {scores:>7} {:>9.2} {:>9.2}  {}", median(times), median(on_cpu), most.join(", "));
    }
    println!(
        "\nmedian of up to {MOST_REPEATS} evaluations; a score's own time is from the last, without what it shares"
    );
    println!("with those before it");
}

/// Processor time of this process so far, in steps of a hundredth of a second.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    // Behind the name, which may hold spaces: state is field 3, user and system time are fields 14 and 15.
    let fields = stat.rsplit(") ").next().expect("a name in parentheses").split(' ');
    fields.skip(11).take(2).map(|ticks| ticks.parse::<f64>().expect("a number of ticks")).sum::<f64>() / 100.0
}

/// Evaluates all available scores of a cost; the time of each.
fn measure(sample: &Sample, run: &Run, cost: Cost) -> Vec<(&'static str, f64)> {
    let prepared = Prepared::new(sample, run, Settings::default());
    let mut starts = Vec::new();
    let scores = evaluate(&prepared, Wanted::AvailableAt(cost), |_, _, _| {
        starts.push(Instant::now());
        ControlFlow::Continue(())
    });
    starts.push(Instant::now());
    let scores = scores.expect("nothing breaks it off");
    for (score, outcome) in &scores {
        assert!(outcome.value().is_some(), "{} is undefined", score.id);
    }
    let spans = starts.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64());
    scores.iter().map(|(score, _)| score.id).zip(spans).collect()
}

fn declaration(k: usize) -> Run {
    Run::try_from(RunFields {
        name: "benchmark".into(),
        concepts: (0..k).map(|i| Concept { name: format!("concept {i}"), cardinality: 2 }).collect(),
        constants: RunConstants { reference_task_accuracy: Some(0.9), ..RunConstants::default() },
        ..RunFields::default()
    })
    .expect("a valid declaration")
}

/// A model that leaks a little: each activation carries its own label, and weakly its neighbour's.
fn sample(run: &Run, rows: usize, width: Option<usize>) -> Sample {
    let k = run.concept_count();
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let mut noise = || random.random::<f32>() + random.random::<f32>() - 1.0;
    let labels: Vec<u8> = (0..rows * k).map(|_| u8::from(noise() > 0.0)).collect();
    let signed = |row: usize, i: usize| f32::from(labels[row * k + i]) * 2.0 - 1.0;
    let logit = |row: usize, i: usize, noise: f32| signed(row, i) + 0.3 * signed(row, (i + 1) % k) + 2.0 * noise;
    let cells = || (0..rows).flat_map(|row| (0..k).map(move |i| (row, i)));
    let activations: Vec<f32> = cells().map(|(row, i)| 1.0 / (1.0 + (-logit(row, i, noise())).exp())).collect();
    let task: Vec<u8> = labels.chunks(k).map(|row| row[..3].iter().sum()).collect();
    let mut mostly_right =
        || -> Vec<u8> { task.iter().map(|&y| if noise() > 0.6 { (y + 1) % 4 } else { y }).collect() };
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
        // The mixture that is passed on, and the two it is mixed of.
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
