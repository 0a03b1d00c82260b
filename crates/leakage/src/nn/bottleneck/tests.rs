use ndarray::{Axis, array};

use super::*;
use crate::nn::tabular_toy::TabularToy;

const KINDS: [BottleneckKind; 2] = [BottleneckKind::Soft, BottleneckKind::Logit];

fn toy(rows: usize, seed: u64) -> Rows {
    TabularToy::new(0.25).unwrap().rows(rows, seed)
}

fn bits(evaluation: &Evaluation) -> Vec<u32> {
    let Evaluation { concept_activations, concept_logits, task_logits } = evaluation;
    concept_activations.iter().chain(concept_logits).chain(task_logits).map(|x| x.to_bits()).collect()
}

#[test]
fn the_joint_gradient_agrees_with_central_differences_of_the_joint_loss() {
    const STEP: f32 = 2e-3;
    let rows = toy(16, 1);
    for kind in KINDS {
        for lambda in [0.0, 0.5, 5.0] {
            let model = Bottleneck::new(kind, lambda, 2);
            let (_, encoder, head) = model.gradient(&rows);
            let loss = |model: &Bottleneck| {
                let (losses, ..) = model.gradient(&rows);
                losses.task + lambda * losses.concept
            };
            // A few parameters of each layer: the layers themselves are checked in full elsewhere.
            let compare = |name: &str, analytic: f32, shift: &dyn Fn(&mut Bottleneck, f32)| {
                let shifted = |by: f32| {
                    let mut model = model.clone();
                    shift(&mut model, by);
                    loss(&model)
                };
                let numeric = (shifted(STEP) - shifted(-STEP)) / (2.0 * STEP);
                let gap = (analytic - numeric).abs() / (1.0 + analytic.abs());
                assert!(gap < 1e-3, "{kind:?}, λ {lambda}, {name}: {analytic} and {numeric}");
            };
            for (layer, gradient) in encoder.iter().enumerate() {
                for at in 0..3 {
                    compare(&format!("encoder {layer}, bias {at}"), gradient.bias[at], &|model, by| {
                        model.encoder.parameters_mut().nth(layer).unwrap().bias[at] += by;
                    });
                }
            }
            for at in 0..3 {
                compare(&format!("head weight {at}"), head[0].weights[[at, 0]], &|model, by| {
                    model.head.parameters_mut().next().unwrap().weights[[at, 0]] += by;
                });
            }
        }
    }
}

#[test]
fn without_concept_weight_the_concepts_do_not_affect_the_model() {
    let rows = toy(600, 3);
    let flipped = Rows::new(rows.inputs().to_owned(), 1.0 - &rows.concepts(), rows.tasks().to_owned());
    let trained = |lambda: f32, data: &Rows| {
        let mut model = Bottleneck::new(BottleneckKind::Soft, lambda, 4);
        model.train_epoch(data);
        bits(&model.evaluate(&rows))
    };
    assert_eq!(trained(0.0, &rows), trained(0.0, &flipped));
    assert_ne!(trained(1.0, &rows), trained(1.0, &flipped));
}

#[test]
fn the_same_seed_gives_the_same_bits_on_any_number_of_threads() {
    let rows = toy(1_100, 5);
    for kind in KINDS {
        let trained = |seed: u64| {
            let mut model = Bottleneck::new(kind, 1.0, seed);
            let losses: Vec<u32> = (0..2)
                .map(|_| model.train_epoch(&rows))
                .flat_map(|losses| [losses.task.to_bits(), losses.concept.to_bits()])
                .collect();
            (losses, bits(&model.evaluate(&rows)), model.intervened(&rows, &rows))
        };
        let alone = trained(6);
        std::thread::scope(|scope| {
            let side_by_side: Vec<_> = (0..4).map(|_| scope.spawn(|| trained(6))).collect();
            for thread in side_by_side {
                assert!(thread.join().unwrap() == alone);
            }
        });
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert!(pool.install(|| trained(6)) == alone);
        }
        assert!(trained(7) != alone);
    }
}

#[test]
fn activations_are_what_the_head_receives() {
    let rows = toy(50, 8);
    for kind in KINDS {
        let model = Bottleneck::new(kind, 1.0, 9);
        let evaluation = model.evaluate(&rows);
        assert_eq!(evaluation.concept_activations.dim(), (50, 3));
        let head = model.head.parameters().next().unwrap();
        let by_hand = evaluation.concept_activations.dot(&head.weights) + &head.bias;
        let logits = evaluation.task_logits.view().insert_axis(Axis(1));
        assert!(by_hand.iter().zip(&logits).all(|(a, b)| (a - b).abs() < 1e-5));
        for (&activation, &logit) in evaluation.concept_activations.iter().zip(&evaluation.concept_logits) {
            let expected = if kind == BottleneckKind::Soft { 1.0 / (1.0 + (-logit).exp()) } else { logit };
            assert!((activation - expected).abs() < 1e-6);
        }
    }
}

#[test]
fn an_intervention_hands_the_head_true_values_or_percentiles_of_the_training_logits() {
    let (training, rows) = (toy(300, 10), toy(40, 11));
    for kind in KINDS {
        let mut model = Bottleneck::new(kind, 1.0, 12);
        // Weights that differ between the concepts, so that a swapped or misplaced value changes a prediction.
        let head = model.head.parameters_mut().next().unwrap();
        head.weights = array![[4.0], [-2.0], [1.0]];
        let logits = model.evaluate(&training).concept_logits;
        let given = |i: usize, present: bool| match kind {
            BottleneckKind::Soft => f32::from(u8::from(present)),
            // With 300 values, the 5th percentile lies 0.95 of the way from the 15th to the 16th.
            BottleneckKind::Logit => {
                let mut sorted = logits.column(i).to_vec();
                sorted.sort_by(f32::total_cmp);
                let (a, b, t) = if present { (284, 285, 0.05) } else { (14, 15, 0.95) };
                sorted[a] + t * (sorted[b] - sorted[a])
            }
        };
        // The bias puts the threshold where rows with c = (1, 1, 0) and (1, 1, 1) differ.
        let head = model.head.parameters_mut().next().unwrap();
        let score = |c: [bool; 3]| 4.0 * given(0, c[0]) - 2.0 * given(1, c[1]) + given(2, c[2]);
        head.bias[0] = -(score([true, true, false]) + score([true, true, true])) / 2.0;
        let bias = head.bias[0];
        let expected: Vec<i32> = (rows.concepts().rows().into_iter())
            .map(|c| i32::from(score([c[0] > 0.5, c[1] > 0.5, c[2] > 0.5]) + bias > 0.0))
            .collect();
        assert!(expected.contains(&0) && expected.contains(&1));
        assert_eq!(model.intervened(&training, &rows), expected, "{kind:?}");
    }
}

#[test]
fn intervention_curves_lead_from_the_model_to_its_concepts() {
    let (training, rows) = (toy(300, 10), toy(60, 11));
    let flipped = Rows::new(rows.inputs().to_owned(), 1.0 - &rows.concepts(), rows.tasks().to_owned());
    for kind in KINDS {
        let model = Bottleneck::new(kind, 1.0, 13);
        let [right, wrong] = model.intervention_curves(&training, &rows);
        let column = |curve: &[i32], at: usize| curve.iter().skip(at).step_by(4).copied().collect::<Vec<i32>>();
        let untouched = model.evaluate(&rows).task_predictions();
        assert_eq!((column(&right, 0), column(&wrong, 0)), (untouched.clone(), untouched));
        assert_eq!(column(&right, 3), model.intervened(&training, &rows));
        assert_eq!(column(&wrong, 3), model.intervened(&training, &flipped));
    }
}

#[test]
fn quantiles_interpolate_between_order_statistics() {
    let values = vec![3.0, 1.0, 2.0, 5.0, 4.0];
    assert_eq!(quantile(values.clone(), 0.5), 3.0);
    assert_eq!((quantile(values.clone(), 0.0), quantile(values.clone(), 1.0)), (1.0, 5.0));
    assert!((quantile(values, 0.05) - 1.2).abs() < 1e-6);
    assert_eq!(quantile(vec![7.0], 0.95), 7.0);
}
