//! The rows in which the labels of some concepts are known.

use std::sync::Arc;

/// Rows of a sample, ascending: all of them, or those with known labels. What is computed on them is turned into terms of
/// all rows by [`influence`](Self::influence), so that errors of sums over different concepts can be taken row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownRows {
    all: usize,
    /// `None`: all.
    some: Option<Arc<[usize]>>,
}

impl KnownRows {
    pub fn all(rows: usize) -> Self {
        Self { all: rows, some: None }
    }

    /// The rows that are set.
    pub fn those(known: &[bool]) -> Self {
        let rows: Vec<usize> = known.iter().enumerate().filter(|(_, known)| **known).map(|(row, _)| row).collect();
        Self::these(&rows, known.len())
    }

    /// These of `all` rows, ascending.
    pub fn these(rows: &[usize], all: usize) -> Self {
        Self { all, some: (rows.len() < all).then(|| rows.into()) }
    }

    pub fn are_all(&self) -> bool {
        self.some.is_none()
    }

    pub fn count(&self) -> usize {
        self.some.as_ref().map_or(self.all, |some| some.len())
    }

    /// Row numbers.
    pub fn numbers(&self) -> Vec<usize> {
        self.some.as_ref().map_or_else(|| (0..self.all).collect(), |some| some.to_vec())
    }

    /// These rows of an array of `width` values a row.
    pub fn of<T: Copy>(&self, values: Vec<T>, width: usize) -> Vec<T> {
        match &self.some {
            None => values,
            Some(some) => some.iter().flat_map(|&row| &values[row * width..(row + 1) * width]).copied().collect(),
        }
    }

    /// Returns the influence of each row of the sample, given that of each of these rows on a mean over them: each
    /// weighs N / count.
    pub fn influence(&self, influence: Vec<f64>) -> Vec<f64> {
        let Some(some) = &self.some else { return influence };
        let scale = self.all as f64 / some.len() as f64;
        let mut of_all = vec![0.0; self.all];
        some.iter().zip(influence).for_each(|(&row, x)| of_all[row] = scale * x);
        of_all
    }
}
