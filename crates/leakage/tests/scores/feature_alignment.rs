//! Cross-layer and cross-image alignment: by hand, and by the formula on random maps.

use super::*;

/// Deep and shallow maps of 2 rows, 2 channels and 2 x 2 cells.
fn maps() -> Columns {
    // Row 0: the deep map is the shallow one, scaled. Row 1: all cells of the deep map are alike.
    let shallow = [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0];
    let deep = shallow.map(|x| 3.0 * x);
    Columns::new(2, 1).with(TensorName::DeepFeatures, &[2, 2, 2], [deep, [1.0; 8]].concat()).with(
        TensorName::ShallowFeatures,
        &[2, 2, 2],
        [shallow, shallow].concat(),
    )
}

#[test]
fn maps_of_the_same_layout_are_aligned_whatever_their_scale() {
    // Row 1: cells 0 and 3 are alike and so are 1 and 2; the other four of six pairs differ by 1. One 2 x 2 window.
    let row = 2.0 * 4.0;
    assert!((maps().value("cross_layer_alignment") - row / 2.0 / 2.0).abs() < 1e-6);
    let authors = 2.0 * 4.0 * 0.8 / 16.0;
    assert!((maps().value("cross_layer_alignment_authors") - authors / 2.0).abs() < 1e-6);
}

#[test]
fn a_map_that_is_0_in_a_cell_has_no_similarity_there() {
    let zero = maps().changed(TensorName::DeepFeatures, |_, _, _| 0.0);
    // Two of six pairs of cells are alike in the shallow map alone.
    assert!((zero.value("cross_layer_alignment") - 2.0 * 2.0 / 2.0).abs() < 1e-6);
}

/// Eq. 4 as it stands, on windows cut out one by one.
#[test]
fn cross_layer_alignment_is_its_formula() {
    let (rows, height, width) = (5, 3, 4);
    let mut random = random(21);
    let map = |channels: usize, random: &mut _| gaussians(rows * channels * height * width, random);
    let (deep, shallow) = (map(3, &mut random), map(6, &mut random));
    let columns = Columns::new(rows, 1).with(TensorName::DeepFeatures, &[3, height, width], deep.clone()).with(
        TensorName::ShallowFeatures,
        &[6, height, width],
        shallow.clone(),
    );
    let window = |map: &[f64], channels: usize, row: usize, scale: usize, at: (usize, usize)| -> Vec<f64> {
        let cell = |channel: usize, y: usize, x: usize| map[((row * channels + channel) * height + y) * width + x];
        let cells = (0..scale).flat_map(|y| (0..scale).map(move |x| (at.0 + y, at.1 + x)));
        cells
            .flat_map(|(y, x)| (0..channels).map(move |channel| (channel, y, x)))
            .map(|(c, y, x)| cell(c, y, x))
            .collect()
    };
    let cosine = |a: &[f64], b: &[f64]| {
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        product(a, b) / (product(a, a) * product(b, b)).sqrt()
    };
    let (mut sums, mut means) = (0.0, 0.0);
    for row in 0..rows {
        for scale in [1, 2] {
            let places: Vec<(usize, usize)> =
                (0..=height - scale).flat_map(|y| (0..=width - scale).map(move |x| (y, x))).collect();
            let mut cut = 0.0;
            for &a in &places {
                for &b in &places {
                    let of = |map: &[f64], channels| {
                        cosine(&window(map, channels, row, scale, a), &window(map, channels, row, scale, b))
                    };
                    let difference = of(&deep, 3) - of(&shallow, 6);
                    sums += difference * difference / 2.0 / rows as f64;
                    cut += (difference.abs() - 0.2).max(0.0);
                }
            }
            means += cut / (places.len() * places.len()) as f64 / rows as f64;
        }
    }
    assert!((columns.value("cross_layer_alignment") - sums).abs() < 1e-9);
    assert!((columns.value("cross_layer_alignment_authors") - means).abs() < 1e-9);
}

#[test]
fn cross_image_alignment_is_the_squared_length_of_the_difference_or_its_mean() {
    let difference = vec![1.0, -2.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0];
    let columns = Columns::new(2, 1).with(TensorName::CrossImageDifference, &[1, 2, 2], difference);
    assert_eq!(columns.value("cross_image_alignment"), 4.5);
    assert_eq!(columns.value("cross_image_alignment_authors"), 4.5 / 4.0);
}
