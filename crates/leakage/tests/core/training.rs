//! Concept bottleneck models leak as the literature describes. With strong concept supervision, concepts and task are
//! both learned, and true concepts help the head. With almost none, the task is learned through concepts that encode
//! something else, and true concepts mislead the head (arXiv 2504.14094, Section 4 and Figure 3).

use leakage::nn::bottleneck::{Bottleneck, task_accuracy};
use leakage::nn::tabular_toy::TabularToy;

/// Accuracies on validation rows, in [0, 1].
#[derive(Debug)]
struct Accuracies {
    task: f64,
    concept: f64,
    intervened_task: f64,
}

/// Trains on TabularToy(0.25) with the paper's sizes.
fn train(lambda: f32, epochs: usize) -> Accuracies {
    let split = TabularToy::new(0.25).unwrap().split(0);
    let mut model = Bottleneck::new(lambda, 0);
    for _ in 0..epochs {
        model.train_epoch(&split.training);
    }
    let rows = &split.validation;
    let (concepts, truth) = (model.concepts(rows), rows.concepts());
    let right = concepts.iter().zip(&truth).filter(|&(&p, &c)| (p > 0.5) == (c > 0.5)).count();
    Accuracies {
        task: task_accuracy(&model.tasks(concepts.view()), rows),
        concept: right as f64 / truth.len() as f64,
        intervened_task: task_accuracy(&model.tasks(truth), rows),
    }
}

#[test]
fn a_well_supervised_bottleneck_learns_concepts_and_task_and_gains_from_interventions() {
    // The encoder is done after 10 epochs; at this learning rate the weights of the head need most of 100.
    let found = train(5.0, 100);
    assert!(found.concept > 0.98 && found.task > 0.95, "{found:?}");
    assert!(found.intervened_task > 0.999, "the task is a threshold of the true concepts: {found:?}");
}

#[test]
fn a_poorly_supervised_bottleneck_learns_the_task_through_other_concepts() {
    let found = train(0.01, 30);
    assert!(found.task > 0.95 && found.concept < 0.6, "{found:?}");
    assert!(found.intervened_task < found.task - 0.3, "{found:?}");
}
