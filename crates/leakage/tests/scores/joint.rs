//! Joint leakage: laws of known truth, its null, and what it does with rare classes and other kinds of labels.

use rand::RngExt;

use super::*;

/// Six binary concepts with logits ±4 plus noise. `task` gets the concepts and the noise of a row.
fn law(rows: usize, seed: u64, mut task: impl FnMut(&[f64], &[f64], &mut rand_chacha::ChaCha8Rng) -> f64) -> Columns {
    const K: usize = 6;
    let mut random = random(seed);
    let (mut activations, mut concepts, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rows {
        let row: Vec<f64> = (0..K).map(|_| coin(0.5, &mut random)).collect();
        let noise = gaussians(K, &mut random);
        activations.extend(row.iter().zip(&noise).map(|(c, noise)| 8.0 * c - 4.0 + noise));
        tasks.push(task(&row, &noise, &mut random));
        concepts.extend(row);
    }
    Columns::new(rows, K)
        .with(TensorName::ConceptActivations, &[K], activations)
        .with(TensorName::ConceptLabels, &[K], concepts)
        .with(TensorName::TaskLabels, &[], tasks)
}

fn exclusive_or(a: bool, b: bool, random: &mut rand_chacha::ChaCha8Rng) -> f64 {
    f64::from(u8::from(a ^ b ^ (random.random::<f64>() < 0.02)))
}

fn p_value(outcome: &Outcome) -> f64 {
    outcome.value().and_then(|value| value.p_value).expect("it has a p-value")
}

#[test]
fn a_task_that_the_concepts_determine_leaves_nothing_to_leak() {
    let parity = |c: &[f64], _: &[f64], _: &mut rand_chacha::ChaCha8Rng| (c[0] + c[1] + c[2]) % 2.0;
    let scores = law(2_048, 1, parity).scores(&["joint_leakage", "joint_leakage_baseline"], TIE_AWARE);
    assert!(value(&scores["joint_leakage_baseline"]) < 0.02, "{}", value(&scores["joint_leakage_baseline"]));
    assert!(value(&scores["joint_leakage"]).abs() < 0.01, "{}", value(&scores["joint_leakage"]));
}

#[test]
fn an_exclusive_or_of_two_logits_is_seen() {
    // 1 − H(0.02)/ln 2 = 0.859.
    for (name, columns) in [
        ("two logits", law(2_048, 2, |_, noise, random| exclusive_or(noise[0] > 0.0, noise[1] > 0.0, random))),
        ("a logit and a concept", law(2_048, 3, |c, noise, random| exclusive_or(noise[0] > 0.0, c[1] > 0.0, random))),
        ("a distance", law(2_048, 4, |_, noise, random| exclusive_or(noise[0].abs() > 0.6745, false, random))),
    ] {
        let scores = columns.scores(&["joint_leakage", "joint_leakage_baseline", "ctl"], TIE_AWARE);
        let found = value(&scores["joint_leakage"]);
        assert!((0.6..0.9).contains(&found), "{name}: {found}");
        assert_eq!(p_value(&scores["joint_leakage"]), 0.001, "{name}");
        assert!((value(&scores["joint_leakage_baseline"]) - 1.0).abs() < 0.03, "{name}: the concepts say nothing");
        assert!(name != "two logits" || value(&scores["ctl"]) < 0.05, "no concept says anything alone");
    }
}

/// One logit of variance 1 shifted by the task: I = ln 2 − E ln(1 + exp(−(½ + g))), g standard normal, which is
/// 0.161 ln 2.
#[test]
fn a_shift_has_the_information_of_its_closed_form() {
    let mut columns = law(2_048, 5, |_, _, random| coin(0.5, random));
    let task = columns.arrays[&TensorName::TaskLabels].1.clone();
    columns = columns.changed(TensorName::ConceptActivations, |row, i, a| if i == 0 { a + task[row] } else { a });
    let outcome = columns.score("joint_leakage");
    let (found, error) = (value(&outcome), standard_error(&outcome));
    assert!((found - 0.161).abs() < 0.02 + 3.0 * error, "{found} ± {error}");
}

#[test]
fn activations_that_follow_from_the_concepts_do_not_leak() {
    let mut low = 0;
    for seed in 0..12 {
        // The task is noisy, and activations depend on other concepts than their own as well.
        let columns =
            law(600, 20 + seed, |c, _, random| exclusive_or(c[0] + c[1] > 0.5, random.random::<f64>() < 0.15, random));
        let labels = columns.arrays[&TensorName::ConceptLabels].1.clone();
        let columns =
            columns.changed(TensorName::ConceptActivations, |row, i, a| a + 2.0 * labels[6 * row + (i + 1) % 6]);
        let outcome = columns.score("joint_leakage");
        // Where a model that does not help is chosen by chance, it costs a little.
        assert!((-0.08..0.03).contains(&value(&outcome)), "{seed}: {}", value(&outcome));
        low += usize::from(p_value(&outcome) < 0.05);
    }
    assert!(low <= 2, "{low} of 12 below 5 %");
}

#[test]
fn a_task_that_its_concepts_determine_gives_no_significance_to_longer_training() {
    let columns = law(600, 60, |c, _, _| f64::from(c[0] + c[1] > 0.5));
    let outcome = columns.score("joint_leakage");
    assert!(value(&outcome).abs() < 1e-3 && p_value(&outcome) > 0.5, "{}, {}", value(&outcome), p_value(&outcome));
}

#[test]
fn hard_categorical_and_continuous_columns_are_taken() {
    // Wrong predictions name the task.
    let mut hard = law(1_200, 40, |_, _, random| coin(0.5, random)).kind(ActivationKind::Hard);
    let (labels, task) =
        (hard.arrays[&TensorName::ConceptLabels].1.clone(), hard.arrays[&TensorName::TaskLabels].1.clone());
    hard = hard.changed(TensorName::ConceptActivations, |row, i, _| {
        let wrong = i == 0 && row % 2 == 0 && task[row] == 1.0;
        if wrong { 1.0 - labels[6 * row + i] } else { labels[6 * row + i] }
    });
    // A wrong first concept says y = 1: I = ln 2 − ¾ H(⅓).
    assert!((hard.value("joint_leakage") - 0.311).abs() < 0.06, "{}", hard.value("joint_leakage"));

    let mut random = random(41);
    let rows = 1_200;
    let (mut activations, mut concepts, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rows {
        let noise = gaussians(4, &mut random);
        concepts.extend([noise[0], noise[1]]);
        activations.extend([noise[0] + 0.5 * noise[2], noise[1] + 0.5 * noise[3]]);
        tasks.push(noise[2]);
    }
    let continuous = Columns::new(rows, 2)
        .kind(ActivationKind::Continuous)
        .continuous_labels(true, true)
        .with(TensorName::ConceptActivations, &[2], activations)
        .with(TensorName::ConceptLabels, &[2], concepts);
    // The first activation less its concept is the task itself: its eighths are known but for their borders.
    let leaking = continuous.clone().with(TensorName::TaskLabels, &[], tasks);
    assert!(leaking.value("joint_leakage") > 0.5, "{}", leaking.value("joint_leakage"));
    let own = continuous.arrays[&TensorName::ConceptLabels].1.chunks(2).map(|c| c[0] + c[1]).collect();
    let clean = continuous.with(TensorName::TaskLabels, &[], own);
    assert!(clean.value("joint_leakage").abs() < 0.03, "{}", clean.value("joint_leakage"));
}

#[test]
fn rare_classes_are_left_out_and_one_class_is_undefined() {
    let law = law(600, 50, |c, _, _| c[0]);
    let rare = law.clone().changed(TensorName::TaskLabels, |row, _, y| if row < 3 { 7.0 } else { y });
    assert!(rare.value("joint_leakage").abs() < 0.02);
    let one = law.changed(TensorName::TaskLabels, |row, _, _| if row < 3 { 1.0 } else { 0.0 });
    assert_eq!(one.why("joint_leakage"), "task_labels: fewer than two classes have 4 rows");
    assert_eq!(one.why("joint_leakage_baseline"), one.why("joint_leakage"));
}
