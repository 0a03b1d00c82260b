//! Trustworthiness: hand-computed boxes, parts and maps, and inputs that leave it undefined.

use super::*;

/// Three rows of two concepts: concept 0 is about part 0, concept 1 about parts 1 and 2. Peaks, in a 100 × 100 image.
fn columns() -> Columns {
    let peaks = vec![50., 50., 10., 10., 50., 50., 90., 90., 50., 50., 20., 80.];
    let none = f64::NAN;
    #[rustfmt::skip]
    let parts = vec![
        60., 40., none, none, 21., 10.,
        61., 50., 95., 95., 10., 10.,
        60., 60., none, none, none, none,
    ];
    Columns::new(3, 2)
        .with(TensorName::LocalizationPeaks, &[2, 2], peaks)
        .with(TensorName::PartLocations, &[3, 2], parts)
        .with(TensorName::ConceptLabels, &[2], vec![1., 1., 1., 1., 0., 1.])
        .constants(constants(vec![vec![0], vec![1, 2]]))
}

fn constants(concept_parts: Vec<Vec<u32>>) -> RunConstants {
    RunConstants { concept_parts, image_size: Some((100, 100)), box_size: Some((20, 20)), ..RunConstants::default() }
}

#[test]
fn a_box_contains_parts_up_to_its_boundary() {
    // Concept 0: (60, 40) is on the boundary of 40 to 60; (61, 50) is outside; row 2 lacks the concept.
    // Concept 1: (21, 10) is outside 0 to 20; (95, 95) is inside; row 2 has no visible part.
    assert_eq!(columns().score("concept_trustworthiness").per_concept().unwrap(), [Some(0.5), Some(0.5)]);
    assert_eq!(columns().value("concept_trustworthiness"), 0.5);
    // The published box has sides of 90.
    let published = columns().constants(RunConstants { box_size: None, ..constants(vec![vec![0], vec![1, 2]]) });
    assert_eq!(published.value("concept_trustworthiness"), 1.0);
    // A part outside the image is in no box.
    let beyond = columns().changed(TensorName::PartLocations, |_, _, x| if x == 95.0 { 100.5 } else { x });
    let beyond = beyond.changed(TensorName::LocalizationPeaks, |_, _, x| if x == 90.0 { 99.0 } else { x });
    assert_eq!(beyond.score("concept_trustworthiness").per_concept().unwrap()[1], Some(0.0));
}

#[test]
fn concepts_without_parts_are_not_judged() {
    let unrelated = columns().constants(constants(vec![vec![], vec![1, 2]]));
    let outcome = unrelated.score("concept_trustworthiness");
    assert_eq!((value(&outcome), outcome.per_concept().unwrap()), (0.5, &[None, Some(0.5)][..]));
    let none = columns().constants(constants(vec![vec![], vec![]]));
    assert_eq!(none.why("concept_trustworthiness"), "concept_parts: no concept has a part");
    let wrong = columns().constants(constants(vec![vec![0], vec![3]]));
    assert_eq!(wrong.why("concept_trustworthiness"), "concept_parts names part 3, part_locations has 3");
    let hidden = columns().changed(TensorName::PartLocations, |_, at, x| if at < 2 { f64::NAN } else { x });
    let outcome = hidden.score("concept_trustworthiness");
    assert_eq!((value(&outcome), outcome.per_concept().unwrap()), (0.5, &[None, Some(0.5)][..]));
    let left_out = outcome.left_out().unwrap();
    assert_eq!((&left_out.concepts[..], left_out.of), (&[0][..], 2));
    assert_eq!(left_out.why, "concept 'c0': no row has it with a visible part");
}

#[test]
fn maps_are_resized_to_the_image() {
    // Each map has one high cell, (0, 0) and (1, 1) of 2 × 2, near the corners of the image.
    let maps = (0..3).flat_map(|_| [1., 0., 0., 0., 0., 0., 0., 1.]).collect();
    let parts = (0..3).flat_map(|_| [5.0, 5.0, 95.0, 95.0, f64::NAN, f64::NAN]).collect();
    let columns = columns()
        .without(TensorName::LocalizationPeaks)
        .with(TensorName::LocalizationMaps, &[2, 2, 2], maps)
        .with(TensorName::PartLocations, &[3, 2], parts)
        .constants(RunConstants { box_size: Some((50, 50)), ..constants(vec![vec![0], vec![1, 2]]) });
    assert_eq!(columns.value("concept_trustworthiness"), 1.0);
    let unsized_image = columns.constants(RunConstants { image_size: None, ..constants(vec![vec![0], vec![1]]) });
    assert_eq!(
        unsized_image.why("concept_trustworthiness"),
        "needs image_size: the maximum of localization_maps has no place in the image"
    );
}

#[test]
fn prediction_alignment_is_the_spread_within_and_between_groups() {
    // Centres (0, 0), (0, 2), (3, 0) of three maps of 4 × 3; the first two concepts share a part.
    let centres = [(0, 0), (0, 2), (3, 0)];
    let map = |(row, column): (usize, usize)| (0..12).map(move |at| f64::from(u8::from(at == 3 * row + column)));
    let maps: Vec<f64> = (0..2).flat_map(|_| centres.into_iter().flat_map(map)).collect();
    let columns = Columns::new(2, 3).with(TensorName::LocalizationMaps, &[3, 4, 3], maps).constants(constants(vec![
        vec![1, 0],
        vec![0, 1, 1],
        vec![2],
    ]));
    // T = 2; within: 2 · 4; between: 2 · (9 + 13).
    assert!((columns.value("prediction_alignment_group") - 8.0 / 2.0).abs() < 1e-12);
    assert!((columns.value("prediction_alignment_division") + 44.0 / 4.0).abs() < 1e-12);
    let alone = columns.constants(constants(vec![vec![], vec![], vec![]]));
    assert_eq!(alone.why("prediction_alignment_group"), "concept_parts: no concept has a part");
}
