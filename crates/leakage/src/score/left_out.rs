//! Means over the concepts or pairs that have a value, and what they leave out.
//!
//! A sample of a large concept set nearly always has a concept that does not occur or an activation that is constant. A
//! score is the mean over the others, with their weights renormalised, and says what it leaves out. With less than half
//! of the weight or of the pairs it would be the mean of something else, and is undefined. Concepts for which a score has
//! no meaning, such as continuous ones for an accuracy, are left out too, and have no weight to begin with.

use crate::point::LeftOut;

/// k × k cells, row i from concept i; `None` where a pair has no value.
pub type Matrix = Vec<Vec<Option<f64>>>;

/// The set of concepts or pairs that a mean is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Over {
    /// Absent where nothing is left out.
    pub left_out: Option<LeftOut>,
    /// Why the score as a whole has no value, where too little remains.
    pub undefined: Option<String>,
}

impl Over {
    /// Returns the weights of the concepts that have a value, which sum to 1, and 0 for the others, with the set that a
    /// score over `of` concepts is a mean over. `weights` sums to 1, and `whys` says why a concept has no value.
    pub fn concepts<W: Into<String>>(
        of: usize,
        weights: &[f64],
        whys: impl Iterator<Item = Option<W>>,
    ) -> (Vec<f64>, Self) {
        let mut weights = weights.to_vec();
        let (mut concepts, mut first) = (Vec::new(), None);
        for (i, why) in whys.enumerate() {
            if let Some(why) = why {
                concepts.push(i as u32);
                first.get_or_insert_with(|| why.into());
                weights[i] = 0.0;
            }
        }
        let Some(why) = first else { return (weights, Self { left_out: None, undefined: None }) };
        let remaining: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= remaining);
        let with_value = of.saturating_sub(concepts.len());
        let undefined = too_few(remaining, with_value, of, "concepts", &why);
        let left_out = Some(LeftOut { concepts, pairs: 0, of: of as u32, why });
        (weights, Self { left_out, undefined })
    }

    /// Returns the set that a score over the pairs i ≠ j of a k × k matrix is a mean over; `why` says why the first
    /// pair without a value has none.
    pub fn pairs(matrix: &Matrix, why: Option<&str>) -> Self {
        Self::pairs_among(matrix, matrix.len(), why)
    }

    /// The same of a score that has a meaning for `among` of the concepts: too little is left where less than half of
    /// their pairs have a value.
    pub fn pairs_among(matrix: &Matrix, among: usize, why: Option<&str>) -> Self {
        let k = matrix.len();
        let has = |i: usize, j: usize| i != j && matrix[i][j].is_some();
        let with_value = (0..k).map(|i| (0..k).filter(|&j| has(i, j)).count()).sum::<usize>();
        let all = k * k.saturating_sub(1);
        if with_value == all {
            return Self { left_out: None, undefined: None };
        }
        let why = why.unwrap_or("a pair has no value");
        let of = among * among.saturating_sub(1);
        let undefined = too_few(with_value as f64 / of as f64, with_value, of, "pairs", why);
        let concepts = (0..k).filter(|&i| (0..k).all(|j| !has(i, j) && !has(j, i))).map(|i| i as u32).collect();
        let left_out = LeftOut { concepts, pairs: (all - with_value) as u64, of: k as u32, why: why.to_owned() };
        Self { left_out: Some(left_out), undefined }
    }

    /// Whether `other` leaves out the same concepts and as many pairs.
    pub fn is_same_set(&self, other: &Self) -> bool {
        match (&self.left_out, &other.left_out) {
            (None, None) => true,
            (Some(a), Some(b)) => a.is_same_set(b),
            _ => false,
        }
    }
}

/// Why there is no mean, where less than half remains.
fn too_few(share: f64, with_value: usize, of: usize, what: &str, why: &str) -> Option<String> {
    /// Sums of weights are not exact.
    const ROUNDING: f64 = 1e-12;
    match share {
        _ if with_value == 0 || share == 0.0 => Some(why.to_owned()),
        share if share < 0.5 - ROUNDING => {
            Some(format!("{why}; {with_value} of {of} {what} have a value, too little for a mean"))
        }
        _ => None,
    }
}

/// The mean of a row's cells that have a value, without the diagonal; `None` where none has.
pub fn mean_of_row(i: usize, row: &[Option<f64>]) -> Option<f64> {
    let others = || row.iter().enumerate().filter(|(j, _)| *j != i).filter_map(|(_, cell)| *cell);
    let count = others().count();
    (count > 0).then(|| others().sum::<f64>() / count as f64)
}

/// The mean of all cells that have a value, without the diagonal. `per_concept`: [`mean_of_row`] of each row.
pub fn mean_of_pairs(matrix: &Matrix, per_concept: &[Option<f64>]) -> f64 {
    let k = matrix.len();
    let count = |i: usize| matrix[i].iter().enumerate().filter(|(j, cell)| *j != i && cell.is_some()).count();
    let counts: Vec<usize> = (0..k).map(count).collect();
    if counts.iter().all(|&count| count == k - 1) {
        return per_concept.iter().flatten().sum::<f64>() / k as f64;
    }
    let sum: f64 = per_concept.iter().zip(&counts).map(|(mean, &count)| mean.unwrap_or(0.0) * count as f64).sum();
    sum / counts.iter().sum::<usize>() as f64
}
