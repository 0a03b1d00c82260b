use super::*;
use crate::nn::tabular_toy::TabularToy;

fn toy(rows: usize, seed: u64) -> Rows {
    TabularToy::new(0.25).unwrap().rows(rows, seed)
}

fn flipped(rows: &Rows) -> Rows {
    Rows::new(rows.inputs().to_owned(), 1.0 - &rows.concepts(), rows.tasks().to_owned())
}

#[test]
fn the_joint_gradient_agrees_with_central_differences_of_the_joint_loss() {
    const STEP: f32 = 2e-3;
    let rows = toy(16, 1);
    for lambda in [0.0, 0.5, 5.0] {
        let model = Bottleneck::new(lambda, 2);
        let (_, encoder, head) = model.gradient(&rows);
        // A few parameters of each layer: the layers themselves are checked in full elsewhere.
        let compare = |name: &str, analytic: f32, shift: &dyn Fn(&mut Bottleneck, f32)| {
            let shifted = |by: f32| {
                let mut model = model.clone();
                shift(&mut model, by);
                model.gradient(&rows).0
            };
            let numeric = (shifted(STEP) - shifted(-STEP)) / (2.0 * STEP);
            let gap = (analytic - numeric).abs() / (1.0 + analytic.abs());
            assert!(gap < 1e-3, "λ {lambda}, {name}: {analytic} and {numeric}");
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

#[test]
fn a_model_follows_from_its_seed_and_without_concept_weight_from_no_concept() {
    let rows = toy(600, 3);
    let trained = |lambda: f32, data: &Rows, seed: u64| {
        let mut model = Bottleneck::new(lambda, seed);
        model.train_epoch(data);
        model.concepts(&rows).iter().map(|x| x.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(trained(0.0, &rows, 4), trained(0.0, &flipped(&rows), 4));
    assert_ne!(trained(1.0, &rows, 4), trained(1.0, &flipped(&rows), 4));
    assert_ne!(trained(1.0, &rows, 4), trained(1.0, &rows, 5));
}

#[test]
fn intervention_curves_lead_from_the_model_to_its_concepts() {
    let rows = toy(60, 11);
    let model = Bottleneck::new(1.0, 13);
    let [right, wrong] = model.intervention_curves(&rows);
    let column = |curve: &[i32], at: usize| curve.iter().skip(at).step_by(4).copied().collect::<Vec<i32>>();
    let untouched = model.tasks(model.concepts(&rows).view());
    assert_eq!((column(&right, 0), column(&wrong, 0)), (untouched.clone(), untouched));
    assert_eq!(column(&right, 3), model.tasks(rows.concepts()));
    assert_eq!(column(&wrong, 3), model.tasks(flipped(&rows).concepts()));
}
