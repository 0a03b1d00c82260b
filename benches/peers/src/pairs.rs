//! Mutual information of one pair of scalars, by each estimator.

use std::num::NonZero;
use std::sync::Arc;

use information::digamma::Digamma;
use information::{Key, Settings, Variable, mutual_information};
use kiddo::{Chebyshev, ImmutableKdTree};
use serde::Deserialize;

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Who {
    Conceptwatch,
    Kiddo,
    #[cfg(feature = "infomeasure-rs")]
    InfomeasureRs,
}

pub fn information(who: Who, x: &[f64], y: &[f64], neighbours: usize) -> f64 {
    match who {
        Who::Conceptwatch => {
            let ids: Arc<[u64]> = (0..x.len() as u64).collect();
            let column =
                |values: &[f64], tensor| Variable::scalar(values.to_vec(), &ids, Key { tensor, coordinate: 0 });
            pair(&column(x, 0), &column(y, 1), neighbours)
        }
        Who::Kiddo => by_tree(x, y, neighbours),
        #[cfg(feature = "infomeasure-rs")]
        Who::InfomeasureRs => {
            use infomeasure::estimators::mutual_information::MutualInformation;
            use infomeasure::estimators::traits::GlobalValue;
            // 0: no noise is added.
            let columns = [x.to_vec().into(), y.to_vec().into()];
            MutualInformation::new_ksg(&columns, neighbours, 0.0).global_value()
        }
    }
}

fn pair(x: &Variable, y: &Variable, neighbours: usize) -> f64 {
    let settings = Settings { neighbours, ..Settings::default() };
    mutual_information(x, y, &settings).expect("columns that vary").value
}

/// Columns of `rows` values each.
pub fn variables(columns: &[f64], rows: usize) -> Vec<Variable> {
    let ids: Arc<[u64]> = (0..rows as u64).collect();
    let variable = |(at, values): (usize, &[f64])| {
        Variable::scalar(values.to_vec(), &ids, Key { tensor: 0, coordinate: at as u64 })
    };
    columns.chunks(rows).enumerate().map(variable).collect()
}

/// The sum over all pairs.
pub fn all(variables: &[Variable]) -> f64 {
    let pairs = (0..variables.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
    pairs.map(|(i, j)| pair(&variables[i], &variables[j], 3)).sum()
}

pub fn sort(column: &[f64]) -> f64 {
    let mut column = column.to_vec();
    column.sort_unstable_by(f64::total_cmp);
    column[column.len() / 2]
}

/// The direct method: a tree of the points for the radii, sorted columns for the counts. Ties count strictly.
fn by_tree(x: &[f64], y: &[f64], neighbours: usize) -> f64 {
    let points: Vec<[f64; 2]> = x.iter().zip(y).map(|(&x, &y)| [x, y]).collect();
    let tree: ImmutableKdTree<f64, 2> = ImmutableKdTree::new_from_slice(&points).expect("finite points");
    let sorted = |column: &[f64]| {
        let mut column = column.to_vec();
        column.sort_unstable_by(f64::total_cmp);
        column
    };
    let (by_x, by_y) = (sorted(x), sorted(y));
    let digamma = Digamma::up_to(x.len() + 1);
    let wanted = NonZero::new(neighbours + 1).expect("at least 1");
    let near = |column: &[f64], centre: f64, radius: f64| {
        let start = column.partition_point(|&value| centre - value >= radius);
        let end = column.partition_point(|&value| value - centre < radius);
        end.saturating_sub(start).max(1)
    };
    let term = |point: &[f64; 2]| {
        let found = tree.query(point).nearest_n::<Chebyshev<f64>>(wanted).execute();
        let radius = found[neighbours].distance;
        digamma.at(near(&by_x, point[0], radius)) + digamma.at(near(&by_y, point[1], radius))
    };
    let mean = points.iter().map(term).sum::<f64>() / x.len() as f64;
    digamma.at(x.len()) + digamma.at(neighbours) - mean
}
