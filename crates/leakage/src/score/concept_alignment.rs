//! Concept alignment score: whether rows that are alike in a concept's representation are alike in its label.
//!
//! Source: Concept Embedding Models: Beyond the Accuracy-Explainability Trade-Off (Espinosa Zarlenga et al. 2022, arXiv
//! 2209.09056), Section 4: k-medoids of the representation for numbers of clusters from 2 to the number of rows, and the
//! mean homogeneity of the label in them (Rosenberg & Hirschberg 2007). k-medoids is that of the authors' code: it starts
//! from the rows of least total distance and alternates between assigning rows and moving medoids. It needs all
//! distances, so it runs on at most 400 rows.

use crate::parallel;
use crate::point::{Outcome, ScoreValue};
use crate::prepare::Prepared;
use crate::sample::priority::priority;
use crate::tensor::TensorName;

use super::concept_rows::NO_CLASSES;
use super::representation::Representation;
use super::term::{Term, mean_over_concepts};

/// Rows that are clustered: of more, those first by a hash of their ids.
const MOST_ROWS: usize = 400;
/// Numbers of clusters, from 2 to the number of rows.
const STEPS: usize = 50;
/// As in the authors' library.
const MOST_ROUNDS: usize = 300;
/// Makes the choice of rows independent of others.
const STREAM: u64 = 0x636c_7573_7465_7200;

/// Mean over concepts.
pub fn concept_alignment(p: &Prepared) -> Result<Outcome, String> {
    if p.run().is_all_continuous() {
        return Err("the concepts are continuous and have no classes that clusters could share".to_owned());
    }
    p.column(TensorName::ConceptLabels).ok_or("there are no concept labels")?;
    let concept = |i: usize| {
        p.pause();
        let known = p.known(&[i]).map_err(|why| format!("labels: {why}"))?;
        let rows = clustered_rows(p, known.numbers());
        let labels = p.concept_classes(i).ok_or(NO_CLASSES)?;
        let labels: Vec<i32> = rows.iter().map(|&row| labels[row]).collect();
        let points = representation(p, i, &rows)?;
        let value = mean_homogeneity(&Distances::new(&points, rows.len()), &labels)?;
        Ok(Term { value, excess: value, influence: vec![0.0; p.rows()], draw_variance: 0.0 })
    };
    let terms: Vec<Result<Term, String>> = parallel::map(p.concepts(), &concept);
    let mean = mean_over_concepts(p, &p.class_weights(), &terms, |term| term.value);
    Ok(mean.map(|value| ScoreValue { standard_error: None, ..value }))
}

/// At most [`MOST_ROWS`] of these rows, ascending.
fn clustered_rows(p: &Prepared, mut rows: Vec<usize>) -> Vec<usize> {
    rows.sort_unstable_by_key(|&row| (priority(p.settings().seed ^ STREAM, p.ids()[row]), row));
    rows.truncate(MOST_ROWS);
    rows.sort_unstable();
    rows
}

/// The embedding of concept `i` in these rows, [rows, d], or its activations where there are no embeddings.
fn representation(p: &Prepared, i: usize, rows: &[usize]) -> Result<Vec<f64>, String> {
    let (column, block) = match p.column(TensorName::ConceptEmbeddings) {
        Some(column) => {
            let width = column.dims()[1];
            (column, i * width..(i + 1) * width)
        }
        None => Representation::first(p).columns(p, i)?,
    };
    let width = block.len();
    let values = column.block(block);
    Ok(rows.iter().flat_map(|&row| &values[row * width..(row + 1) * width]).copied().collect())
}

/// Euclidean distances between all rows.
struct Distances {
    rows: usize,
    cells: Vec<f64>,
}

impl Distances {
    fn new(points: &[f64], rows: usize) -> Self {
        let width = points.len() / rows;
        let point = |row: usize| &points[row * width..(row + 1) * width];
        let mut cells = vec![0.0; rows * rows];
        for a in 0..rows {
            for b in 0..a {
                let squares: f64 = point(a).iter().zip(point(b)).map(|(x, y)| (x - y).powi(2)).sum();
                cells[a * rows + b] = squares.sqrt();
                cells[b * rows + a] = squares.sqrt();
            }
        }
        Self { rows, cells }
    }

    fn from(&self, row: usize) -> &[f64] {
        &self.cells[row * self.rows..(row + 1) * self.rows]
    }

    /// Rows by their distance to all others, the least first.
    fn central(&self) -> Vec<usize> {
        let total: Vec<f64> = (0..self.rows).map(|row| self.from(row).iter().sum()).collect();
        let mut order: Vec<usize> = (0..self.rows).collect();
        order.sort_by(|&a, &b| total[a].total_cmp(&total[b]));
        order
    }
}

/// Homogeneity over the numbers of clusters by trapezoids, over its largest possible value. Errors when the labels have
/// one class or the rows are too few.
fn mean_homogeneity(distances: &Distances, labels: &[i32]) -> Result<f64, String> {
    let n = distances.rows;
    let entropy = entropy_of(counts(labels.iter().copied()).values().copied(), n);
    if n < 3 {
        return Err(format!("{n} rows are too few to cluster"));
    }
    if entropy == 0.0 {
        return Err(format!("labels: there is one class only among the {n} rows that are clustered"));
    }
    let central = distances.central();
    let homogeneity = |step: usize| {
        // numpy.linspace, cut to whole numbers.
        let clusters = (2.0 + step as f64 * (n - 2) as f64 / (STEPS - 1) as f64) as usize;
        let clusters = clusters_of(distances, central[..clusters.min(n)].to_vec());
        let mut within = 0.0;
        let pairs = counts(clusters.iter().copied().zip(labels.iter().copied()));
        let sizes = counts(clusters.iter().copied());
        for ((cluster, _), count) in pairs {
            within -= count as f64 / n as f64 * (count as f64 / sizes[&cluster] as f64).ln();
        }
        1.0 - within / entropy
    };
    let weight = |step: usize| if step == 0 || step == STEPS - 1 { 0.5 } else { 1.0 };
    Ok((0..STEPS).map(|step| weight(step) * homogeneity(step)).sum::<f64>() / (STEPS - 1) as f64)
}

/// The cluster of each row, from these medoids on.
fn clusters_of(distances: &Distances, mut medoids: Vec<usize>) -> Vec<usize> {
    let mut clusters = nearest(distances, &medoids);
    for _ in 0..MOST_ROUNDS {
        let mut members = vec![Vec::new(); medoids.len()];
        clusters.iter().enumerate().for_each(|(row, &cluster)| members[cluster].push(row));
        let mut moved = false;
        for (medoid, members) in medoids.iter_mut().zip(&members) {
            let cost = |row: usize| members.iter().map(|&member| distances.from(row)[member]).sum::<f64>();
            // The first member of least cost; a medoid moves only where that is less than its own.
            let mut best = (f64::INFINITY, *medoid);
            for &row in members {
                let cost = cost(row);
                if cost < best.0 {
                    best = (cost, row);
                }
            }
            // A medoid at the place of another may be assigned to that one's cluster.
            let own =
                if members.contains(medoid) { cost(*medoid) } else { members.first().map_or(0.0, |&row| cost(row)) };
            if best.0 < own {
                *medoid = best.1;
                moved = true;
            }
        }
        if !moved {
            break;
        }
        clusters = nearest(distances, &medoids);
    }
    clusters
}

/// For each row which medoid is nearest, the first of equals.
fn nearest(distances: &Distances, medoids: &[usize]) -> Vec<usize> {
    let mut best = vec![(f64::INFINITY, 0); distances.rows];
    for (cluster, &medoid) in medoids.iter().enumerate() {
        for (best, &distance) in best.iter_mut().zip(distances.from(medoid)) {
            if distance < best.0 {
                *best = (distance, cluster);
            }
        }
    }
    best.into_iter().map(|(_, cluster)| cluster).collect()
}

fn counts<T: Ord>(values: impl Iterator<Item = T>) -> std::collections::BTreeMap<T, usize> {
    let mut counts = std::collections::BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_insert(0) += 1);
    counts
}

fn entropy_of(counts: impl Iterator<Item = usize>, n: usize) -> f64 {
    counts.map(|count| -(count as f64 / n as f64) * (count as f64 / n as f64).ln()).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// `tests/golden/clusters.py` clusters the same rows with scikit-learn-extra, from exact distances: it rounds those it
    /// computes itself, which moves the medoids of pairs and the score by some 0.01.
    #[test]
    fn the_score_is_that_of_the_authors_libraries() {
        let golden: Value = serde_json::from_str(include_str!("../../tests/golden/clusters.json")).unwrap();
        let part = |row: usize, prime: f64| ((row + 1) as f64 * prime.sqrt()) % 1.0;
        for case in golden["cases"].as_array().unwrap() {
            let (classes, width) = (case["classes"].as_u64().unwrap(), case["width"].as_u64().unwrap());
            let label = |row: usize| match classes {
                2 => i32::from(part(row, 2.0) < 0.4),
                _ => (3.0 * part(row, 3.0)).floor() as i32,
            };
            let scale = if width == 1 { 1.5 } else { 1.2 };
            let primes = [5.0, 7.0, 11.0];
            let point = |row: usize| primes[..width as usize].iter().map(move |&prime| (row, prime));
            let points: Vec<f64> =
                (0..60).flat_map(point).map(|(row, prime)| f64::from(label(row)) + scale * part(row, prime)).collect();
            let labels: Vec<i32> = (0..60).map(label).collect();
            let got = mean_homogeneity(&Distances::new(&points, 60), &labels).unwrap();
            let expected = case["score"].as_f64().unwrap();
            // With an even number of values both middle ones are medoids, and the rounding of sums decides.
            let tolerance = if width == 1 { 2e-3 } else { 1e-9 };
            assert!((got - expected).abs() < tolerance, "{classes} classes, width {width}: {got}, {expected}");
        }
    }

    #[test]
    fn medoids_move_to_the_middle_of_their_cluster() {
        let points = [0.0, 1.0, 2.0, 10.0, 11.0, 12.0, 13.0, 14.0];
        let distances = Distances::new(&points, points.len());
        assert_eq!(distances.central()[0], 3, "10 is nearest to all others, with 11");
        let clusters = clusters_of(&distances, vec![3, 4]);
        assert_eq!(clusters, [0, 0, 0, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn separate_labels_are_homogeneous_in_every_clustering() {
        let points: Vec<f64> = (0..40).map(|i| if i % 2 == 0 { i as f64 } else { 1000.0 + i as f64 }).collect();
        let labels: Vec<i32> = (0..40).map(|i| i % 2).collect();
        let value = mean_homogeneity(&Distances::new(&points, 40), &labels).unwrap();
        assert!((value - 1.0).abs() < 1e-12, "{value}");
        let error = mean_homogeneity(&Distances::new(&points, 40), &[1; 40]).unwrap_err();
        assert_eq!(error, "labels: there is one class only among the 40 rows that are clustered");
    }

    #[test]
    fn rows_at_one_place_share_a_cluster_and_no_label() {
        let labels: Vec<i32> = (0..40).map(|i| i % 2).collect();
        let value = mean_homogeneity(&Distances::new(&[0.5; 40], 40), &labels).unwrap();
        assert!(value.abs() < 1e-12, "{value}");
    }
}
