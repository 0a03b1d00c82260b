//! Oracle and niche impurity: the published table, and their properties.

use rand::RngExt;

use super::*;

/// The data of the paper's Table 1: 3,000 rows, 5 independent concepts; activations near 0 or 1 that predict their
/// concept and nothing more, or, `impure`, the state of the other four by the part of the interval they fall in.
pub fn table_1(impure: bool, seed: u64) -> Columns {
    const K: usize = 5;
    let mut random = random(seed);
    let (mut activations, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..3_000 {
        let concepts: Vec<f64> = (0..K).map(|_| coin(0.5, &mut random)).collect();
        for i in 0..K {
            let others = concepts.iter().enumerate().filter(|(j, _)| *j != i).fold(0.0, |sum, (_, c)| 2.0 * sum + c);
            let within = if impure { (others + random.random::<f64>()) / 16.0 } else { random.random() };
            activations.push(0.05 * within + if concepts[i] == 1.0 { 0.95 } else { 0.0 });
        }
        labels.extend(concepts);
    }
    Columns::new(3_000, K)
        .kind(ActivationKind::Probability)
        .with(TensorName::ConceptActivations, &[K], activations)
        .with(TensorName::ConceptLabels, &[K], labels)
}

/// Table 1 states mean ± standard deviation over 5 seeds, in percent.
#[test]
fn the_published_table_is_reproduced() {
    for (impure, published) in
        [(false, [("ois", 4.69, 0.43), ("nis", 66.25, 2.31)]), (true, [("ois", 22.58, 2.34), ("nis", 72.36, 1.26)])]
    {
        let scores: Vec<_> =
            (0..5).map(|seed| table_1(impure, 500 + seed).scores(&["ois", "nis"], TIE_AWARE)).collect();
        for (id, expected, deviation) in published {
            let values: Vec<f64> = scores.iter().map(|scores| 100.0 * value(&scores[id])).collect();
            let error = ((deviation * deviation + standard_deviation(&values).powi(2)) / 5.0).sqrt();
            let gap = (mean(&values) - expected).abs();
            assert!(gap < 3.0 * error, "{id}, impure {impure}: {values:?}, published {expected} ± {deviation}");
        }
    }
}

#[test]
fn pure_concepts_have_the_purity_of_the_oracle() {
    let pure = table_1(false, 1).scores(&["purity", "oracle_purity", "ois", "alignment"], TIE_AWARE);
    assert!(value(&pure["purity"]) > 0.999);
    // Independent concepts do not predict each other.
    assert!((value(&pure["oracle_purity"]) - 0.5).abs() < 0.03);
    let oracle = pure["oracle_purity"].matrix().unwrap();
    assert!((0..5).all(|i| oracle[i][i] == Some(1.0)));
    let (learnt, difference) = (pure["purity"].matrix().unwrap(), pure["ois"].matrix().unwrap());
    let mut squares = 0.0;
    for i in 0..5 {
        for j in 0..5 {
            let expected = learnt[i][j].unwrap() - oracle[i][j].unwrap();
            assert_eq!(difference[i][j].unwrap(), expected);
            squares += expected * expected;
        }
    }
    assert!((value(&pure["ois"]) - 2.0 / 5.0 * squares.sqrt()).abs() < 1e-12);
    let per_concept = pure["ois"].per_concept().unwrap().iter().map(|x| x.unwrap().powi(2));
    assert!((mean(&per_concept.collect::<Vec<_>>()).sqrt() - value(&pure["ois"])).abs() < 1e-12);
    assert!(value(&pure["alignment"]) > 0.999);
}

#[test]
fn shuffled_concepts_are_matched_back() {
    let order = [3, 0, 4, 1, 2];
    let columns = table_1(false, 2);
    let mut shuffled = columns.clone();
    let (_, values) = shuffled.arrays.get_mut(&TensorName::ConceptActivations).unwrap();
    *values = values.chunks(5).flat_map(|row| order.map(|i| row[i])).collect();
    assert!(shuffled.value("ois") > 0.5, "{}", shuffled.value("ois"));
    assert!(shuffled.value("aligned_ois") < 0.08, "{}", shuffled.value("aligned_ois"));
    let outcome = shuffled.score("alignment");
    for (learnt, row) in outcome.matrix().unwrap().iter().enumerate() {
        let matched: Vec<usize> = (0..5).filter(|&j| row[j] == Some(1.0)).collect();
        assert_eq!(matched, [order[learnt]]);
    }
}

#[test]
fn the_seed_and_no_other_score_changes_a_network() {
    let columns = model(300, 4, 0.5, 71);
    let ids = ["ois", "purity", "nis", "sap", "aligned_ois", "joint_leakage", "joint_leakage_baseline"];
    let all = columns.scores(&ids, TIE_AWARE);
    assert_eq!(all["nis"], columns.score("nis"));
    let other = columns.scores(&ids, Settings { seed: 1, ..TIE_AWARE });
    assert!(ids.iter().all(|id| all[*id] != other[*id]), "the split and the networks follow from the seed");
}

#[test]
fn categorical_concepts_and_vectors_have_impurities() {
    let mut random = random(73);
    let (rows, mut activations, mut labels, mut embeddings) = (600, Vec::new(), Vec::new(), Vec::new());
    for row in 0..rows {
        let classes = [(row % 3) as f64, coin(0.5, &mut random)];
        let noise = gaussians(8, &mut random);
        activations.extend((0..3).map(|class| 3.0 * f64::from(u8::from(classes[0] == class as f64)) + noise[class]));
        activations.push(4.0 * classes[1] - 2.0 + noise[3]);
        embeddings.extend([classes[0] + 0.3 * noise[4], noise[5], 2.0 * classes[1] + 0.3 * noise[6], noise[7]]);
        labels.extend(classes);
    }
    let columns = Columns::new(rows, 2).cardinalities(&[3, 2]).with(TensorName::ConceptLabels, &[2], labels);
    let scalar = columns.clone().with(TensorName::ConceptActivations, &[4], activations);
    let vector = columns.with(TensorName::ConceptEmbeddings, &[2, 2], embeddings);
    for columns in [scalar, vector] {
        let scores = columns.scores(&["ois", "purity", "nis", "alignment"], TIE_AWARE);
        assert!(value(&scores["purity"]) > 0.9, "{}", value(&scores["purity"]));
        let off = scores["purity"].matrix().unwrap()[0][1].unwrap();
        assert!((off - 0.5).abs() < 0.15, "independent concepts: {off}");
        assert!((0.0..0.3).contains(&value(&scores["ois"])), "{}", value(&scores["ois"]));
        assert!((0.3..0.8).contains(&value(&scores["nis"])), "{}", value(&scores["nis"]));
        assert!(value(&scores["alignment"]) > 0.9);
    }
}

#[test]
fn embeddings_are_scored_beside_activations() {
    let whole = model(300, 3, 0.5, 79);
    let alone = whole.clone().without(TensorName::ConceptActivations);
    let (both, alone) = (|id: &str| whole.score(id), |id: &str| alone.score(id));
    for (of_embeddings, first) in [("embedding_ois", "ois"), ("embedding_nis", "nis")] {
        assert_eq!(both(of_embeddings), alone(first), "{first}");
        assert_ne!(both(of_embeddings), both(first), "{first}");
    }
}

#[test]
fn embeddings_of_many_concepts_are_not_scored_beside_activations() {
    let many = model(60, 41, 0.5, 81);
    assert!(many.why("embedding_ois").starts_with("41 concepts are more than 40"), "{}", many.why("embedding_ois"));
    assert!(many.without(TensorName::ConceptActivations).score("embedding_ois").value().is_some());
}

#[test]
fn positive_and_negative_embeddings_have_the_scores_of_weighted_ones() {
    let columns = model(300, 3, 0.5, 80);
    let embeddings = columns.arrays[&TensorName::ConceptEmbeddings].clone();
    for (kind, name) in [("positive", TensorName::PositiveEmbeddings), ("negative", TensorName::NegativeEmbeddings)] {
        let copied = columns.clone().with(name, &embeddings.0, embeddings.1.clone());
        for id in ["embedding_ic", "embedding_self"] {
            let id_of_kind = format!("{id}_{kind}");
            assert_eq!(copied.value(&id_of_kind), columns.value(id), "{id_of_kind}");
            assert_ne!(columns.value(&id_of_kind), columns.value(id), "{id_of_kind}");
        }
    }
}

#[test]
fn the_niche_curve_integrates_to_the_score() {
    let Outcome::Value(nis) = table_1(true, 3).score("nis") else { panic!("it is defined") };
    let curve = nis.curve.unwrap();
    assert_eq!(curve.len(), 20);
    let integral: f64 =
        curve.windows(2).map(|pair| (pair[0].1.unwrap() + pair[1].1.unwrap()) / 2.0 * (pair[1].0 - pair[0].0)).sum();
    assert!((integral - nis.value).abs() < 1e-12, "{integral} {}", nis.value);
    // With every concept masked nothing can be predicted; with none, everything.
    assert!((curve[0].1.unwrap() - 0.5).abs() < 0.1, "{:?}", curve[0]);
    let scaled = table_1(true, 3).value("nis_scaled");
    assert!((scaled - 2.0 * (nis.value - 0.5)).abs() < 1e-12);
}

#[test]
fn a_concept_that_no_network_can_be_tested_on_is_left_out() {
    let columns = model(150, 3, 0.5, 74).changed(TensorName::ConceptLabels, |_, i, c| if i == 1 { 0.0 } else { c });
    let outcome = columns.score("ois");
    let of_test = "there is one class only among the 30 rows to test on";
    let left_out = |id: &str| columns.score(id).left_out().unwrap_or_else(|| panic!("{id}")).why.clone();
    assert_eq!(left_out("ois"), format!("labels of concept 'c1': {of_test}"));
    assert!(why(&outcome).ends_with("; 2 of 6 pairs have a value, too little for a mean"), "{}", why(&outcome));
    let matrix = outcome.matrix().unwrap();
    assert!(matrix[0][2].is_some() && matrix[0][1].is_none());
    assert_eq!(left_out("nis"), format!("concept 'c1': labels: {of_test}"));
    assert!(left_out("sap").contains("labels: there is one class only among the 120 rows to train on"));
    assert_eq!(left_out("mig"), "concept 'c1': there is one class only");
    assert!(left_out("alignment").contains("concept 'c1'"));
    for id in ["nis", "sap", "mig", "alignment"] {
        assert!(columns.value(id).is_finite(), "{id} is the mean of two of three");
    }
    let one = model(1, 2, 0.5, 75);
    assert_eq!(one.why("ois"), "1 rows are too few to train on some and test on others");
    let huge = model(100, 2, 0.5, 76).changed(TensorName::ConceptActivations, |_, _, a| a * 1e300);
    assert!(huge.why("ois").contains("a network's outputs left the range of numbers"), "{}", huge.why("ois"));
    assert_eq!(huge.why("nis"), "an activation is outside the range of single precision");
    assert!(huge.why("sap").contains("an activation is too large for a linear classifier"));
    let continuous = model(100, 2, 0.5, 77).continuous_labels(true, false);
    for id in ["ois", "nis", "mig", "sap", "dci_disentanglement", "r4", "concept_alignment_score"] {
        assert!(continuous.why(id).starts_with("the concepts are continuous and have no classes"), "{id}");
    }
    let single = model(100, 1, 0.5, 78);
    assert_eq!(single.why("mig"), "there is one concept, a gap needs at least two");
    assert!(single.value("ois") >= 0.0);
}
