//! Dead latents, and concepts that are absorbed by the latents of others, where both are planted.

use rand::seq::SliceRandom;

use super::*;

/// Latents [n, width] of concepts with these labels [n, k].
fn latents(labels: &[Vec<f64>], rows: &[Vec<f64>]) -> Columns {
    let (k, width) = (labels[0].len(), rows[0].len());
    let mut columns = Columns::new(rows.len(), k).with(TensorName::ConceptActivations, &[width], rows.concat()).with(
        TensorName::ConceptLabels,
        &[k],
        labels.concat(),
    );
    columns.fields.latents = Some(width as u32);
    columns
}

/// A parent concept in 40 % of the rows, a child in a tenth of these, and an independent concept. Each has a latent, beside
/// 20 that fire anywhere; the parent's is silent where `is_silent`, given whether the child is present and a random
/// number, says so.
pub fn hierarchy(rows: usize, seed: u64, is_silent: impl Fn(bool, f64) -> bool) -> Columns {
    let mut random = random(seed);
    let (mut labels, mut activations) = (Vec::new(), Vec::new());
    for _ in 0..rows {
        let parent = coin(0.4, &mut random);
        let child = parent * coin(0.1, &mut random);
        let other = coin(0.3, &mut random);
        let is_silent = is_silent(child == 1.0, rand::RngExt::random(&mut random));
        let mut latents = vec![if is_silent { 0.0 } else { 2.0 * parent }, 3.0 * child, 0.5 * other];
        latents.extend((0..20).map(|_| coin(0.1, &mut random)));
        labels.push(vec![parent, child, other]);
        activations.push(latents);
    }
    latents(&labels, &activations)
}

#[test]
fn latents_that_fire_in_no_row_are_dead() {
    // Latent 0 fires, 1 fires in one row, 2 is 0, 3 is below 0.
    let row = |row: usize| vec![1.0, if row == 99 { 1e-6 } else { 0.0 }, 0.0, -1.0];
    let columns = latents(&vec![vec![0.0]; 100], &(0..100).map(row).collect::<Vec<_>>());
    assert_eq!(columns.value("dead_latents"), 0.5);
    // A latent that fires in 3 / N of the rows is missed in 5 % of the samples.
    let missed = |seed: u64| {
        let mut random = random(seed);
        let rows: Vec<Vec<f64>> = (0..300).map(|_| (0..1_000).map(|_| coin(0.01, &mut random)).collect()).collect();
        latents(&vec![vec![0.0]; 300], &rows).value("dead_latents")
    };
    let missed = mean(&[1, 2, 3, 4].map(missed));
    let expected = 0.99_f64.powi(300);
    assert!((missed - expected).abs() < 3.0 * (expected / 4_000.0).sqrt(), "{missed} {expected}");
}

#[test]
fn values_that_never_switch_off_do_not_fire() {
    let sigmoids = hierarchy(100, 1, |_, _| false).changed(TensorName::ConceptActivations, |_, _, x| 0.5 + x);
    for id in ["dead_latents", "absorption"] {
        assert_eq!(sigmoids.why(id), "no latent is 0 or below in any row: values that never switch off do not fire");
    }
    let mut concepts = hierarchy(100, 1, |_, _| false).with(TensorName::ConceptActivations, &[3], vec![0.0; 300]);
    concepts.fields.latents = None;
    assert_eq!(concepts.why("dead_latents"), "needs latents, which was not given");
}

#[test]
fn latents_that_stand_for_a_concept_each_absorb_nothing() {
    let absorption = hierarchy(2_000, 2, |_, _| false).score("absorption");
    assert_eq!((value(&absorption), parts(&absorption)), (0.0, vec![0.0; 3]));
}

#[test]
fn a_child_s_latent_that_fires_instead_of_its_parent_s_absorbs_the_child_s_rows() {
    let columns = hierarchy(2_000, 3, |is_child, _| is_child);
    let absorption = columns.score("absorption");
    let [parent, child, other] = parts(&absorption)[..] else { panic!("three concepts") };
    let labels = columns.arrays[&TensorName::ConceptLabels].1.chunks(3);
    let [parents, children] = [0, 1].map(|i| labels.clone().filter(|row| row[i] == 1.0).count() as f64);
    assert_eq!((parent, child, other), (children / parents, 0.0, 0.0));
    assert!((value(&absorption) - 0.1 / 3.0).abs() < 3.0 * standard_error(&absorption), "{absorption:?}");
    let half = hierarchy(2_000, 4, |is_child, random| is_child && random < 0.5).score("absorption");
    assert!((value(&half) - 0.05 / 3.0).abs() < 3.0 * standard_error(&half), "{half:?}");
}

#[test]
fn rows_that_a_latent_misses_are_absorbed_only_where_another_carries_the_concept() {
    let columns = hierarchy(2_000, 5, |_, random| random < 0.3);
    let [parent, child, other] = parts(&columns.score("absorption"))[..] else { panic!("three concepts") };
    // Its latent is silent and its child present on 3 % of its rows.
    assert!((0.01..0.06).contains(&parent) && (child, other) == (0.0, 0.0), "{parent} {child} {other}");
}

#[test]
fn a_concept_that_two_latents_share_is_split_and_not_absorbed() {
    let split = |first: f64| {
        let mut random = random(6);
        let labels: Vec<Vec<f64>> = (0..1_000).map(|_| vec![coin(0.3, &mut random)]).collect();
        let rows: Vec<Vec<f64>> = labels
            .iter()
            .map(|label| {
                let of_first = coin(first, &mut random);
                vec![label[0] * of_first, label[0] * (1.0 - of_first), coin(0.5, &mut random)]
            })
            .collect();
        latents(&labels, &rows).value("absorption")
    };
    assert_eq!(split(0.6), 0.0);
    assert!((split(0.9) - 0.1).abs() < 0.05);
}

#[test]
fn each_class_of_a_categorical_concept_has_latents_of_its_own() {
    let mut random = random(7);
    let labels: Vec<Vec<f64>> = (0..900).map(|row| vec![(row % 3) as f64]).collect();
    let absorbed: Vec<bool> = labels.iter().map(|label| label[0] == 2.0 && coin(0.15, &mut random) == 1.0).collect();
    let row = |(label, absorbed): (&Vec<f64>, &bool)| {
        let mut row: Vec<f64> = (0..3).map(|class| f64::from(u8::from(label[0] == class as f64))).collect();
        row.push(f64::from(u8::from(*absorbed)));
        row[2] -= row[3];
        row
    };
    let columns = latents(&labels, &labels.iter().zip(&absorbed).map(row).collect::<Vec<_>>()).cardinalities(&[3]);
    let share = absorbed.iter().filter(|absorbed| **absorbed).count() as f64 / 900.0;
    assert!((columns.value("absorption") - share).abs() < 1e-12);
}

#[test]
fn a_concept_without_a_main_latent_or_with_one_class_is_left_out() {
    let columns = hierarchy(1_000, 8, |is_child, _| is_child);
    let silent = columns.clone().changed(TensorName::ConceptActivations, |_, i, x| if i == 2 { 0.0 } else { x });
    let left_out = silent.score("absorption").left_out().cloned().unwrap();
    assert_eq!(left_out.concepts, [2]);
    let why = "concept 'c2': no latent's firing rate is more than 0.2 higher with it than without";
    assert_eq!(left_out.why, why);
    let absent = columns.changed(TensorName::ConceptLabels, |_, i, c| if i == 2 { 0.0 } else { c });
    let left_out = absent.score("absorption").left_out().cloned().unwrap();
    assert_eq!(left_out.why, "concept 'c2': labels: there is one class only");
}

#[test]
fn the_order_of_rows_and_of_latents_changes_neither() {
    let columns = hierarchy(500, 9, |is_child, random| is_child || random < 0.1);
    let mut order: Vec<usize> = (0..500).collect();
    order.shuffle(&mut random(10));
    let reordered = columns.clone().reordered(&order);
    let values = columns.arrays[&TensorName::ConceptActivations].1.chunks(23);
    let reversed = values.flat_map(|row| row.iter().rev().copied()).collect();
    let reversed = columns.clone().with(TensorName::ConceptActivations, &[23], reversed);
    for id in ["dead_latents", "absorption"] {
        for other in [&reordered, &reversed] {
            assert!((columns.value(id) - other.value(id)).abs() < 1e-15, "{id}");
            assert_eq!(columns.score(id).per_concept(), other.score(id).per_concept(), "{id}");
        }
    }
}
