//! Reduces feature maps to what the alignment scores compare: the similarities between a map's windows, and the squared
//! length of a difference of maps.

/// Window sizes 1 and 2, those of the authors' training.
pub const SCALES: usize = 2;

/// Numbers kept of a difference of feature maps: the sum of its squares, and how many numbers it has.
pub const DIFFERENCE_SUMMARY: usize = 2;

/// Windows of size `scale` in a map of (height, width) cells; 0 where the map is smaller.
pub fn windows(scale: usize, height: usize, width: usize) -> usize {
    (height + 1).saturating_sub(scale) * (width + 1).saturating_sub(scale)
}

/// Numbers kept of a feature map: its height and width, and for each scale the similarities of every two windows.
pub fn similarity_count(height: usize, width: usize) -> usize {
    let pairs = |scale| {
        let windows = windows(scale, height, width);
        windows * windows.saturating_sub(1) / 2
    };
    2 + (1..=SCALES).map(pairs).sum::<usize>()
}

/// The height and width, and then, for windows of each scale, the cosine similarities of windows i < j in row-major order. A
/// window is the vector of all its cells; one that is 0 has no direction and the similarity 0 to every other. `map` is
/// [channels, height, width], row-major.
pub fn similarities(map: &[f64], height: usize, width: usize) -> Vec<f64> {
    let cells = height * width;
    // Products of every two cells: those of windows are sums of them.
    let mut products = vec![0.0; cells * cells];
    for channel in map.chunks(cells) {
        for (value, products) in channel.iter().zip(products.chunks_mut(cells)) {
            products.iter_mut().zip(channel).for_each(|(sum, other)| *sum += value * other);
        }
    }
    let mut kept = vec![height as f64, width as f64];
    for scale in 1..=SCALES {
        let across = (width + 1).saturating_sub(scale);
        let corner = |window: usize| (window / across) * width + window % across;
        let offsets: Vec<usize> = (0..scale * scale).map(|at| at / scale * width + at % scale).collect();
        let product = |a: usize, b: usize| {
            let (a, b) = (corner(a), corner(b));
            offsets.iter().map(|offset| products[(a + offset) * cells + b + offset]).sum::<f64>()
        };
        let count = windows(scale, height, width);
        let lengths: Vec<f64> = (0..count).map(|window| product(window, window).sqrt()).collect();
        for i in 0..count {
            for j in i + 1..count {
                let length = lengths[i] * lengths[j];
                kept.push(if length > 0.0 { (product(i, j) / length).clamp(-1.0, 1.0) } else { 0.0 });
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarities_are_cosines_of_windows() {
        // Two channels, two by three cells: (1, 0), (0, 1), (1, 1); (2, 0), (0, 0), (0, -3).
        let map = [1.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, -3.0];
        let kept = similarities(&map, 2, 3);
        assert_eq!(kept.len(), similarity_count(2, 3));
        assert_eq!(kept.len(), 2 + 15 + 1);
        let half = 0.5f64.sqrt();
        let cells = [0.0, half, 1.0, 0.0, 0.0, half, 0.0, 0.0, -1.0, half, 0.0, -half, 0.0, 0.0, 0.0];
        for (at, (got, expected)) in kept[2..17].iter().zip(cells).enumerate() {
            assert!((got - expected).abs() < 1e-15, "{at}: {got} {expected}");
        }
        // Windows (1,0 0,1 2,0 0,0) and (0,1 1,1 0,0 0,-3): 1 over √6 · √12.
        assert!((kept[17] - 1.0 / 72f64.sqrt()).abs() < 1e-15, "{kept:?}");
    }

    #[test]
    fn a_row_of_cells_has_no_larger_windows() {
        assert_eq!(similarity_count(1, 4), 2 + 6);
        assert_eq!(similarities(&[1.0, 2.0, 3.0, 4.0], 1, 4).len(), 8);
    }
}
