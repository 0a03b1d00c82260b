//! The concept alignment score: separate and unrelated labels, invariances, and what it leaves out.

use rand::RngExt;

use super::*;

/// `k` independent concepts, and an activation for each column of `mixing` that is the sum of these weights times the
/// concepts, and noise.
pub fn mixed(rows: usize, k: usize, mixing: &[&[f64]], noise: f64, seed: u64) -> Columns {
    let mut random = random(seed);
    let (mut activations, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..rows {
        let concepts: Vec<f64> = (0..k).map(|_| coin(0.5, &mut random)).collect();
        for weights in mixing {
            let sum: f64 = weights.iter().zip(&concepts).map(|(weight, c)| weight * c).sum();
            activations.push(sum + noise * random.random::<f64>());
        }
        labels.extend(concepts);
    }
    let mut columns = Columns::new(rows, k).with(TensorName::ConceptLabels, &[k], labels).with(
        TensorName::ConceptActivations,
        &[mixing.len()],
        activations,
    );
    columns.fields.latents = (mixing.len() != k).then_some(mixing.len() as u32);
    columns
}

pub const OWN: &[&[f64]] = &[&[1.0, 0.0, 0.0], &[0.0, 1.0, 0.0], &[0.0, 0.0, 1.0]];

#[test]
fn clusters_of_separate_labels_are_homogeneous() {
    let separate = mixed(300, 3, OWN, 0.3, 9).value("concept_alignment_score");
    assert!((separate - 1.0).abs() < 1e-12, "{separate}");
    let noise = mixed(300, 3, &[&[0.0; 3], &[0.0; 3], &[0.0; 3]], 1.0, 9).value("concept_alignment_score");
    // Homogeneity rises to 1 with the number of clusters, whatever the labels.
    assert!((0.5..0.85).contains(&noise), "{noise}");
    let rotated = model(300, 3, 0.5, 10);
    let turned = rotated.clone().changed(TensorName::ConceptEmbeddings, |_, _, x| 100.0 - 4.0 * x);
    let (a, b) = (rotated.value("concept_alignment_score"), turned.value("concept_alignment_score"));
    assert!((a - b).abs() < 1e-3, "scaling and mirroring change nothing but rounding: {a} {b}");
    let without = rotated.clone().without(TensorName::ConceptEmbeddings).value("concept_alignment_score");
    assert_ne!(a, without, "embeddings are scored where there are any");
}
