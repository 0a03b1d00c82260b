//! Reduces a localisation map to the position of its maximum, after resizing to the image, and its centre of mass.
//!
//! The resize is bicubic with a = −0.75, as in PyTorch's `interpolate(mode="bicubic", align_corners=False)`. The
//! resized image is never built: the sixteen map values that a block of pixels interpolates bound these pixels, and
//! only blocks whose bound reaches the largest value so far are evaluated.

/// Numbers kept of a localisation map: row and column of its maximum in pixels of the image (of the map where the run
/// has no image size), row and column of its centre of mass in pixels of the map. In single precision they take 16
/// bytes for any size of map: 4,096 rows of 112 maps take 7 MiB, where maps of 14 × 14 would take 360 MiB.
pub const MAP_SUMMARY: usize = 4;

/// Largest sum of the absolute values of the four weights of one axis, reached midway between two values.
const WEIGHTS: f64 = 1.375;

/// Row and column of the first maximum, in pixels of the image or, without an image size, of the map; then row and
/// column of the centre of mass of the values above 0 (the middle if there are none), in pixels of the map. `map` is
/// row-major with rows of `width` values.
pub fn summarise(map: &[f64], width: usize, image: Option<(u32, u32)>) -> [f64; MAP_SUMMARY] {
    let peak = match image {
        Some((height, columns)) => resized_peak(map, width, height as usize, columns as usize),
        None => {
            let peak = (0..map.len()).fold(0, |peak, at| if map[at] > map[peak] { at } else { peak });
            (peak / width, peak % width)
        }
    };
    let [row, column] = centre(map, width);
    [peak.0 as f64, peak.1 as f64, row, column]
}

fn centre(map: &[f64], width: usize) -> [f64; 2] {
    let (mut mass, mut row_moment, mut column_moment) = (0.0, 0.0, 0.0);
    for (at, &value) in map.iter().enumerate() {
        let weight = value.max(0.0);
        mass += weight;
        row_moment += weight * (at / width) as f64;
        column_moment += weight * (at % width) as f64;
    }
    if mass > 0.0 {
        [row_moment / mass, column_moment / mass]
    } else {
        [(map.len() / width - 1) as f64 / 2.0, (width - 1) as f64 / 2.0]
    }
}

/// Pixels along one axis of the image that interpolate the same four values.
struct Span {
    /// Positions of the four values in the map, with boundary positions repeated.
    from: [usize; 4],
    /// (pixel, weights).
    pixels: Vec<(usize, [f64; 4])>,
}

fn spans(from: usize, to: usize) -> Vec<Span> {
    let mut spans: Vec<(isize, Span)> = Vec::new();
    for pixel in 0..to {
        let at = (pixel as f64 + 0.5) * (from as f64 / to as f64) - 0.5;
        let first = at.floor();
        let weights = weights(at - first);
        let first = first as isize;
        if spans.last().is_none_or(|(last, _)| *last != first) {
            let clamped = |offset: isize| (first + offset).clamp(0, from as isize - 1) as usize;
            spans.push((first, Span { from: [-1, 0, 1, 2].map(clamped), pixels: Vec::new() }));
        }
        spans.last_mut().expect("one was pushed").1.pixels.push((pixel, weights));
    }
    spans.into_iter().map(|(_, span)| span).collect()
}

/// Weights of four consecutive values at a position `t` past the second one, in [0, 1) (Keys 1981, a = −0.75).
fn weights(t: f64) -> [f64; 4] {
    const A: f64 = -0.75;
    let near = |x: f64| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}

/// Row and column of the first maximum of the resized map.
fn resized_peak(map: &[f64], width: usize, height: usize, columns: usize) -> (usize, usize) {
    let rows = spans(map.len() / width, height);
    let columns = spans(width, columns);
    // (upper bound on the pixels of a block, its spans).
    let mut places = Vec::with_capacity(rows.len() * columns.len());
    for (down, row) in rows.iter().enumerate() {
        for (across, column) in columns.iter().enumerate() {
            let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
            for value in row.from.iter().flat_map(|r| column.from.iter().map(move |c| map[r * width + c])) {
                (low, high) = (low.min(value), high.max(value));
            }
            // The weights sum to 1, so the sum of their absolute values bounds a pixel's distance from the mid-range.
            let (middle, half) = (low / 2.0 + high / 2.0, high / 2.0 - low / 2.0);
            places.push((middle + WEIGHTS * WEIGHTS * half, down, across));
        }
    }
    places.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut best = (f64::NEG_INFINITY, (0, 0));
    for (bound, down, across) in places {
        // The margin allows for rounding.
        if bound + 1e-9 * bound.abs() < best.0 {
            break;
        }
        let (row, column) = (&rows[down], &columns[across]);
        let first = map[row.from[0] * width + column.from[0]];
        let level = row.from.iter().all(|r| column.from.iter().all(|c| map[r * width + c] == first));
        for (y, vertical) in &row.pixels {
            let mixed = column
                .from
                .map(|c| row.from.iter().zip(vertical).map(|(r, weight)| weight * map[r * width + c]).sum::<f64>());
            for (x, horizontal) in &column.pixels {
                // Rounding must not produce a maximum on a plateau.
                let mixed: f64 = mixed.iter().zip(horizontal).map(|(value, weight)| value * weight).sum();
                let value = if level { first } else { mixed };
                if value > best.0 || (value == best.0 && (*y, *x) < best.1) {
                    best = (value, (*y, *x));
                }
            }
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn numbers(value: &Value) -> Vec<f64> {
        value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    }

    /// `tests/golden/maps.py` resizes with PyTorch.
    #[test]
    fn peaks_equal_those_of_maps_resized_by_pytorch() {
        let golden: Value = serde_json::from_str(include_str!("../../tests/golden/maps.json")).unwrap();
        let cases = golden["cases"].as_array().unwrap();
        assert!(cases.len() >= 20);
        for case in cases {
            let size = |key: &str| numbers(&case[key]).iter().map(|&x| x as usize).collect::<Vec<_>>();
            let (shape, image, map) = (size("shape"), size("image"), numbers(&case["map"]));
            let peak = resized_peak(&map, shape[1], image[0], image[1]);
            assert_eq!([peak.0, peak.1], size("peak")[..], "{shape:?} to {image:?}");
            // The value there, by all sixteen weights.
            let (rows, columns) = (spans(shape[0], image[0]), spans(shape[1], image[1]));
            let find = |spans: &[Span], pixel: usize| {
                let found =
                    spans.iter().find_map(|span| Some((span.from, span.pixels.iter().find(|p| p.0 == pixel)?.1)));
                found.unwrap()
            };
            let ((from_rows, down), (from_columns, across)) = (find(&rows, peak.0), find(&columns, peak.1));
            let mut value = 0.0;
            for (r, weight) in from_rows.iter().zip(down) {
                for (c, other) in from_columns.iter().zip(across) {
                    value += weight * other * map[r * shape[1] + c];
                }
            }
            let expected = case["value"].as_f64().unwrap();
            assert!((value - expected).abs() < 1e-12, "{value} {expected}");
        }
    }

    #[test]
    fn a_map_of_the_size_of_the_image_keeps_its_peak() {
        let map: Vec<f64> = (0..12).map(|at| f64::from(at == 7)).collect();
        assert_eq!(summarise(&map, 4, Some((3, 4)))[..2], [1.0, 3.0]);
        assert_eq!(summarise(&map, 4, None)[..2], [1.0, 3.0]);
        // One value is the whole image.
        assert_eq!(summarise(&[2.0], 1, Some((5, 7)))[..2], [0.0, 0.0]);
    }
}
