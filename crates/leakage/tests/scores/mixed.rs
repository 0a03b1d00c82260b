//! Binary, categorical and continuous concepts in one run.

use leakage::run::LabelKind;

use super::*;

/// The columns of [`mixed`]'s concepts: two binary ones (probabilities, logits), one of three classes, and two numbers.
const BLOCKS: [std::ops::Range<usize>; 5] = [0..1, 1..2, 2..5, 5..6, 6..7];
const CLASSES: [usize; 3] = [0, 1, 2];
const NUMBERS: [usize; 2] = [3, 4];

/// Concepts of every kind, activations of four kinds, and a task of three classes that all of them carry.
fn mixed(rows: usize, seed: u64) -> Columns {
    let mut random = random(seed);
    let (mut activations, mut labels, mut task) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..rows {
        let noise = gaussians(9, &mut random);
        let (a, b) = (coin(0.5, &mut random), coin(0.4, &mut random));
        let class = row % 3;
        let (size, weight) = (10.0 * noise[0], noise[1] + 0.5 * a);
        let y = (a as usize + class + usize::from(size > 0.0)) % 3;
        let leak = y as f64 - 1.0;
        let probability = 1.0 / (1.0 + (-(3.0 * a - 1.5 + noise[2] + leak)).exp());
        activations.extend([probability, 3.0 * b - 1.5 + noise[3] + 0.3 * leak]);
        activations.extend((0..3).map(|of| 1.5 * f64::from(u8::from(of == class)) + noise[4 + of]));
        activations.extend([size + 2.0 * noise[7] + leak, weight + 0.5 * noise[8]]);
        labels.extend([a, b, class as f64, size, weight]);
        task.push(y as f64);
    }
    let mut columns = Columns::new(rows, 5)
        .cardinalities(&[0, 0, 3, 0, 0])
        .with(TensorName::ConceptActivations, &[7], activations)
        .with(TensorName::ConceptLabels, &[5], labels)
        .with(TensorName::TaskLabels, &[], task);
    let concepts = &mut columns.fields.concepts;
    concepts[0].activation_kind = Some(ActivationKind::Probability);
    for i in NUMBERS {
        concepts[i].activation_kind = Some(ActivationKind::Continuous);
        concepts[i].label_kind = Some(LabelKind::Continuous);
    }
    columns
}

/// The concepts `kept` alone, in a run of one kind where `kind` is given.
fn of_concepts(columns: &Columns, kept: &[usize], kind: Option<(ActivationKind, LabelKind)>) -> Columns {
    let mut part = columns.clone();
    part.fields.concepts = kept.iter().map(|&i| columns.fields.concepts[i].clone()).collect();
    if let Some((activation_kind, label_kind)) = kind {
        (part.fields.activation_kind, part.fields.concept_label_kind) = (activation_kind, label_kind);
        part.fields.concepts.iter_mut().for_each(|of| (of.activation_kind, of.label_kind) = (None, None));
    }
    let take = |name, blocks: &[std::ops::Range<usize>]| {
        let (dims, values) = &columns.arrays[&name];
        values.chunks(dims[0]).flat_map(|row| blocks.iter().flat_map(|at| row[at.clone()].to_vec())).collect::<Vec<_>>()
    };
    let blocks: Vec<_> = kept.iter().map(|&i| BLOCKS[i].clone()).collect();
    let singles: Vec<_> = kept.iter().map(|&i| i..i + 1).collect();
    let width = blocks.iter().map(ExactSizeIterator::len).sum();
    let (activations, labels) =
        (take(TensorName::ConceptActivations, &blocks), take(TensorName::ConceptLabels, &singles));
    part.with(TensorName::ConceptActivations, &[width], activations).with(
        TensorName::ConceptLabels,
        &[kept.len()],
        labels,
    )
}

fn per_concept(outcome: &Outcome) -> &[Option<f64>] {
    outcome.per_concept().unwrap_or_else(|| panic!("no values of concepts: {outcome:?}"))
}

#[test]
fn each_concept_has_the_value_that_it_has_in_a_run_of_its_own_kind() {
    let columns = mixed(300, 1);
    let both = ["ctl", "ctl_excess", "ctl_conditional", "concept_auc"];
    let of_classes = [
        "concept_accuracy",
        "concept_balanced_accuracy",
        "concept_f1",
        "concept_average_precision",
        "concept_alignment_score",
    ];
    let all = columns.scores(&[&both[..], &of_classes, &["concept_r2"]].concat(), TIE_AWARE);
    let compare = |ids: &[&str], kept: &[usize], kind| {
        let alone = of_concepts(&columns, kept, Some(kind)).scores(ids, TIE_AWARE);
        for id in ids {
            for (at, &i) in kept.iter().enumerate() {
                let expected = per_concept(&alone[*id])[at];
                assert!(expected.is_some(), "{id} of {i}");
                // The noise that breaks ties of numbers depends on the column's place.
                let (found, expected) = (per_concept(&all[*id])[i].unwrap(), expected.unwrap());
                assert_eq!(found.to_bits(), expected.to_bits(), "{id} of {i}: {found}, alone {expected}");
            }
        }
    };
    let with_classes = [&both[..], &of_classes].concat();
    compare(&with_classes, &[0], (ActivationKind::Probability, LabelKind::Class));
    compare(&with_classes, &[1, 2], (ActivationKind::Logit, LabelKind::Class));
    compare(&[&both[..], &["concept_r2"]].concat(), &NUMBERS, (ActivationKind::Continuous, LabelKind::Continuous));
}

#[test]
fn pairs_have_the_values_that_they_have_in_a_run_of_their_kind() {
    let columns = mixed(300, 2);
    let ids = ["icl_excess", "icl_label_excess", "icl_conditional"];
    let all = columns.scores(&ids, TIE_AWARE);
    for (kept, kind) in [
        (vec![1, 2], (ActivationKind::Logit, LabelKind::Class)),
        (NUMBERS.to_vec(), (ActivationKind::Continuous, LabelKind::Continuous)),
    ] {
        let alone = of_concepts(&columns, &kept, Some(kind)).scores(&ids, TIE_AWARE);
        for id in ids {
            let (all, alone) = (all[id].matrix().unwrap(), alone[id].matrix().unwrap());
            assert!(all.iter().flatten().all(Option::is_some), "{id}: pairs of two kinds have values");
            assert_eq!(all[kept[0]][kept[1]], alone[0][1], "{id}");
            assert_eq!(all[kept[1]][kept[0]], alone[1][0], "{id}");
        }
    }
}

#[test]
fn a_score_of_classes_is_the_mean_over_the_concepts_that_have_some() {
    let columns = mixed(200, 3);
    let classes = of_concepts(&columns, &CLASSES, None);
    let ids =
        ["concept_accuracy", "concept_alignment_score", "purity", "ois", "oracle_purity", "alignment", "aligned_ois"];
    let (all, alone) = (columns.scores(&ids, TIE_AWARE), classes.scores(&ids, TIE_AWARE));
    for id in ids {
        let (all, alone) = (all[id].value().unwrap_or_else(|| panic!("{id}: {}", why(&all[id]))), &alone[id]);
        assert!((all.value - value(alone)).abs() < 1e-15, "{id}: {} {}", all.value, value(alone));
        assert_eq!(all.standard_error.is_some(), alone.value().unwrap().standard_error.is_some(), "{id}");
        let left_out = all.left_out.as_ref().unwrap_or_else(|| panic!("{id} leaves out the numbers"));
        assert_eq!(left_out.concepts, [3, 4], "{id}");
        assert!(left_out.why.contains("not classes") || left_out.why.contains("predicts no class"), "{}", left_out.why);
    }
    // Two of five concepts are numbers, which is enough for the only scores of numbers.
    let r2 = columns.score("concept_r2");
    assert_eq!(r2.value().unwrap().left_out.as_ref().unwrap().concepts, [0, 1, 2]);
    let alone = of_concepts(&columns, &NUMBERS, None).value("concept_r2");
    assert!((value(&r2) - alone).abs() < 1e-15);
}

/// Predictions of the task, of which one in five is wrong, and flags of active concepts.
fn with_activity(columns: Columns) -> Columns {
    let rows = columns.rows;
    let task = columns.arrays[&TensorName::TaskLabels].1.clone();
    let predicted = (0..rows).map(|row| if row % 5 == 0 { (task[row] + 1.0) % 3.0 } else { task[row] }).collect();
    let flags = (0..5 * rows).map(|at| f64::from(u8::from(at * at % 7 < 3))).collect();
    columns.with(TensorName::TaskPredictions, &[], predicted).with(TensorName::ActiveConcepts, &[5], flags)
}

/// [`of_concepts`] with their flags and weights of the head.
fn of_active(columns: &Columns, kept: &[usize]) -> Columns {
    let chosen = |all: &[f64]| all.chunks(5).flat_map(|of| kept.iter().map(|&i| of[i])).collect::<Vec<f64>>();
    let mut part = of_concepts(columns, kept, None);
    part.fields.constants.head_weights = chosen(&columns.fields.constants.head_weights);
    match columns.arrays.get(&TensorName::ActiveConcepts) {
        Some((_, flags)) => part.with(TensorName::ActiveConcepts, &[kept.len()], chosen(flags)),
        None => part,
    }
}

/// The score is as without the concepts `left`, which it names.
fn assert_is_without(id: &str, found: &Outcome, without: &Outcome, left: &[u32]) {
    let found = found.value().unwrap_or_else(|| panic!("{id}: {}", why(found)));
    let expected = without.value().unwrap_or_else(|| panic!("{id} without them: {}", why(without)));
    let numbers = |value: &leakage::point::ScoreValue| (value.value, value.standard_error, value.curve.clone());
    assert_eq!(numbers(found), numbers(expected), "{id}");
    let left_out = found.left_out.as_ref().unwrap_or_else(|| panic!("{id} leaves nothing out"));
    assert_eq!((&left_out.concepts[..], left_out.of), (left, 5), "{id}");
    assert!(left_out.why.starts_with("concept '"), "{id}: {}", left_out.why);
}

#[test]
fn activity_is_that_of_the_concepts_that_are_on_or_off() {
    const OF_ACTIVE: [&str; 6] =
        ["sparsity", "precision", "rows_without_active", "binary_accuracy", "clarity", "clarity_dense"];
    const SWEPT: [&str; 2] = ["clarity_best", "clarity_best_threshold"];
    let stated = with_activity(mixed(200, 6));
    let compared = stated.clone().without(TensorName::ActiveConcepts);
    let with = |change: &dyn Fn(&mut RunConstants)| {
        let mut columns = compared.clone();
        change(&mut columns.fields.constants);
        columns
    };
    let head = || (0..15).map(|at| f64::from(at * 7 % 5) - 1.5).collect::<Vec<f64>>();
    let ways = [
        stated.clone(),
        compared.clone(),
        with(&|constants| constants.active_top_k = Some(1)),
        with(&|constants| constants.head_weights = head()),
        with(&|constants| {
            (constants.head_weights, constants.activity_threshold) = (head(), Some(0.3));
        }),
    ];
    for columns in &ways {
        let ids = [&OF_ACTIVE[..], &SWEPT].concat();
        let (found, without) = (columns.scores(&ids, TIE_AWARE), of_active(columns, &[0, 1]).scores(&ids, TIE_AWARE));
        for id in ids {
            assert_is_without(id, &found[id], &without[id], &[2, 3, 4]);
        }
        for id in ["sparsity", "binary_accuracy"] {
            assert_eq!(&per_concept(&found[id])[..2], per_concept(&without[id]), "{id}");
            assert_eq!(per_concept(&found[id])[2..], [None; 3], "{id}");
        }
    }
    // An activation that is a number has no threshold.
    let number = |mut columns: Columns| {
        columns.fields.concepts[1].activation_kind = Some(ActivationKind::Continuous);
        columns
    };
    let (found, without) = (number(compared.clone()), of_active(&compared, &[0]));
    for id in OF_ACTIVE {
        assert_is_without(id, &found.score(id), &without.score(id), &[1, 2, 3, 4]);
    }
    let of_flags = number(stated).score("sparsity");
    assert_eq!(of_flags.left_out().unwrap().concepts, [2, 3, 4], "flags are compared with nothing");
    let none = of_active(&compared, &[2, 3]);
    assert_eq!(none.why("sparsity"), "concept 'c2': it has 3 classes, expected two");
}

#[test]
fn gaps_are_between_activations_that_are_one_number() {
    let columns = mixed(300, 7);
    // Numbers have no gap, but their activations may hold what belongs to a concept, as those of any other.
    let without = of_concepts(&columns, &[0, 1, 3, 4], None);
    for id in ["mig", "sap"] {
        let (found, without) = (columns.score(id), without.score(id));
        assert_is_without(id, &found, &without, &[2, 3, 4]);
        assert_eq!(per_concept(&found)[..2], per_concept(&without)[..2], "{id}");
        let one = of_concepts(&columns, &[0, 2], None);
        assert_eq!(one.why(id), "1 of 2 concepts have one activation column, a gap needs at least two of them");
    }
}

#[test]
fn a_score_of_probabilities_is_the_mean_over_the_concepts_that_have_some() {
    let mut columns = mixed(200, 8).changed(TensorName::ConceptActivations, |_, at, x| match at {
        0 | 1 => f64::from(u8::from(x > 0.4)),
        _ => x,
    });
    for i in [0, 1] {
        columns.fields.concepts[i].activation_kind = Some(ActivationKind::Hard);
    }
    let without = of_concepts(&columns, &[2], None);
    for id in ["concept_brier", "concept_ece"] {
        assert_is_without(id, &columns.score(id), &without.score(id), &[0, 1, 3, 4]);
    }
}

#[test]
fn every_score_of_a_mixed_run_has_a_value_or_a_reason() {
    let noise = |width: usize, seed: u64| gaussians(150 * width, &mut random(seed));
    let mut columns = with_activity(mixed(150, 4))
        .with(TensorName::ConceptEmbeddings, &[5, 2], noise(10, 1))
        .with(TensorName::PositiveEmbeddings, &[5, 2], noise(10, 2))
        .with(TensorName::NegativeEmbeddings, &[5, 2], noise(10, 3))
        .with(TensorName::TaskLogits, &[3], noise(3, 4))
        .with(TensorName::LocalizationPeaks, &[5, 2], vec![20.0; 1500])
        .with(TensorName::PartLocations, &[1, 2], noise(2, 5).into_iter().map(|x| 20.0 + 60.0 * x).collect())
        .with(TensorName::TaskPredictions, &[], vec![1.0; 150])
        .with(TensorName::InterventionPredictions, &[2], vec![1.0; 300]);
    columns.fields.constants.head_weights = vec![0.5; 15];
    columns.fields.constants.concept_parts = vec![vec![0]; 5];
    let outcomes = columns.available(TIE_AWARE);
    assert!(outcomes.len() > 60, "{}", outcomes.len());
    // A logit is a sum over all concepts, and the head has no weights for the classes of one.
    let of_logits = ["anec", "number_of_contributing_concepts", "side_channel_share"];
    // Reasons that have nothing to do with kinds: noise for predictions, and few rows.
    let of_task = ["is not above that of the most frequent class", "learn too little from so few rows"];
    for (id, outcome) in &outcomes {
        match outcome {
            Outcome::Value(value) => assert!(value.value.is_finite(), "{id}"),
            Outcome::Undefined(undefined) if of_logits.contains(&id.as_str()) => {
                assert_eq!(undefined.why, "head_weights has 5 weights a class, but there are 7 activation columns");
            }
            Outcome::Undefined(undefined) => {
                assert!(of_task.iter().any(|why| undefined.why.contains(why)), "{id}: {}", undefined.why);
            }
        }
    }
}

#[test]
fn unknown_labels_of_each_kind_are_left_out() {
    let mut columns = mixed(300, 5);
    columns.fields.missing_concept_labels = true;
    // Class labels are unknown as −1 or NaN, numbers as NaN alone.
    let hidden = columns.clone().changed(TensorName::ConceptLabels, |row, i, label| match (row % 4, i) {
        (0, 0 | 3) => f64::NAN,
        (0, 2) => -1.0,
        _ => label,
    });
    let known: Vec<usize> = (0..300).filter(|row| row % 4 > 0).collect();
    let kept = columns.reordered(&known);
    for id in ["concept_auc", "concept_accuracy"] {
        let (hidden, kept) = (hidden.score(id), kept.score(id));
        for i in [0, 2, 3] {
            let both = [&hidden, &kept].map(|outcome| per_concept(outcome)[i]);
            assert_eq!(both[0], both[1], "{id} of {i}");
        }
    }
    let negative = hidden.changed(TensorName::ConceptLabels, |_, i, label| if i == 3 { -label.abs() } else { label });
    assert!(per_concept(&negative.score("concept_auc"))[3].is_some(), "a number may be negative");
}
