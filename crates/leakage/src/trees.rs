//! Gradient-boosted trees: the classifiers and regressors that DCI and R4 are defined by.
//!
//! Friedman 2001, doi:10.1214/aos/1013203451, with the defaults of scikit-learn's GradientBoostingClassifier and
//! GradientBoostingRegressor: 100 trees of depth 3, learning rate 0.1. Inputs are cut into at most 64 bins; on inputs with no
//! more distinct values the trees are those of scikit-learn. A tree costs three passes over the columns at most, for a
//! node's histogram is its parent's less its sibling's.

/// Trees of a model.
const TREES: usize = 100;
const LEARNING_RATE: f64 = 0.1;
const DEPTH: usize = 3;
/// Bins of a column.
const BINS: usize = 64;
/// A node whose targets vary less is not split.
const PURE: f64 = f64::EPSILON;

/// A column and the order of its values.
pub struct Ordered {
    values: Vec<f64>,
    /// Row numbers, by ascending value.
    order: Vec<u32>,
}

impl Ordered {
    pub fn new(values: Vec<f64>) -> Self {
        let mut order: Vec<u32> = (0..values.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| values[a as usize].total_cmp(&values[b as usize]));
        Self { values, order }
    }

    /// Cuts the column into bins for predicting `targets`: a bin for each value of at most 64, else at most 32 of about
    /// equally many rows, cut further where a tree of depth 5 that reads this column alone would split it. A threshold
    /// that separates two classes is so found exactly.
    pub fn cut(&self, targets: &[f64]) -> Column {
        let n = self.order.len();
        let value = |at: usize| self.values[self.order[at] as usize];
        // Positions at which a larger value begins.
        let starts: Vec<usize> = (1..n).filter(|&at| value(at - 1) < value(at)).collect();
        let mut cuts = starts.clone();
        if starts.len() >= BINS {
            let mut full = 0;
            cuts.retain(|at| {
                let bin = at * (BINS / 2) / n;
                std::mem::replace(&mut full, bin) < bin
            });
            let mut sums = vec![0.0; n + 1];
            for at in 0..n {
                sums[at + 1] = sums[at] + targets[self.order[at] as usize];
            }
            split(&sums, &starts, 0..n, 5, &mut cuts);
            cuts.sort_unstable();
            cuts.dedup();
        }
        let edge = |&at: &usize| {
            let (below, above) = (value(at - 1), value(at));
            let middle = below / 2.0 + above / 2.0;
            if middle < above { middle } else { below }
        };
        let mut bins = vec![0; n];
        let mut at = 0;
        for (bin, end) in cuts.iter().copied().chain([n]).enumerate() {
            self.order[at..end].iter().for_each(|&row| bins[row as usize] = bin as u8);
            at = end;
        }
        Column { bins, count: cuts.len() + 1, edges: cuts.iter().map(edge).collect() }
    }
}

/// Adds the positions at which a tree of this depth splits the targets of `range`, whose sums up to each position are
/// given; it may split at `starts`.
fn split(sums: &[f64], starts: &[usize], range: std::ops::Range<usize>, depth: usize, cuts: &mut Vec<usize>) {
    let own = starts.partition_point(|at| *at <= range.start)..starts.partition_point(|at| *at < range.end);
    let sum = |from: usize, to: usize| ((to - from) as f64, sums[to] - sums[from]);
    let mut best = (0.0, 0);
    for &at in &starts[own] {
        let gain = gain(sum(range.start, at), sum(at, range.end));
        if gain > best.0 {
            best = (gain, at);
        }
    }
    // Below rounding, nothing is left to separate.
    if best.0 > 1e-9 {
        cuts.push(best.1);
        if depth > 1 {
            split(sums, starts, range.start..best.1, depth - 1, cuts);
            split(sums, starts, best.1..range.end, depth - 1, cuts);
        }
    }
}

/// A column cut into bins, ascending.
pub struct Column {
    bins: Vec<u8>,
    /// Number of bins, at least 1.
    count: usize,
    /// The largest number that belongs to each bin but the last: half way to the next bin's first value.
    edges: Vec<f64>,
}

impl Column {
    /// The bins of other values of the same variable.
    pub fn bins_of(&self, values: &[f64]) -> Vec<u8> {
        values.iter().map(|value| bin_of(&self.edges, *value)).collect()
    }

    /// The bin of each row.
    pub fn bins(&self) -> &[u8] {
        &self.bins
    }

    pub fn count(&self) -> usize {
        self.count
    }
}

fn bin_of(edges: &[f64], value: f64) -> u8 {
    edges.partition_point(|edge| *edge < value) as u8
}

/// The target of a model, and its loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// 0 or 1, by the deviance; the model's outputs are log-odds.
    Logistic,
    /// A number, by the squared error.
    Squared,
}

impl Loss {
    /// The output from which boosting starts: the best constant.
    fn start(self, mean: f64) -> f64 {
        match self {
            Self::Squared => mean,
            Self::Logistic => (mean / (1.0 - mean)).ln(),
        }
    }

    /// Returns the residual of a row with this output, and its weight in a leaf's value.
    fn residual(self, target: f64, output: f64) -> (f64, f64) {
        match self {
            Self::Squared => (target - output, 1.0),
            Self::Logistic => {
                let probability = 1.0 / (1.0 + (-output).exp());
                (target - probability, probability * (1.0 - probability))
            }
        }
    }

    fn leaf(residuals: f64, weights: f64) -> f64 {
        // As scikit-learn: where every probability is 0 or 1, nothing moves.
        if weights.abs() < 1e-150 { 0.0 } else { residuals / weights }
    }
}

/// The model of one column, as its output in each bin. `targets` of a [`Loss::Logistic`] are 0 and 1, and not all equal.
pub fn fit_column(column: &Column, targets: &[f64], loss: Loss) -> Vec<f64> {
    let mut rows = vec![0.0; column.count];
    let (mut sums, mut squares) = (rows.clone(), rows.clone());
    for (bin, target) in column.bins.iter().zip(targets) {
        rows[*bin as usize] += 1.0;
        sums[*bin as usize] += target;
        squares[*bin as usize] += target * target;
    }
    let n = targets.len() as f64;
    let mut outputs = vec![loss.start(sums.iter().sum::<f64>() / n); column.count];
    let (mut residuals, mut weights, mut spread) = (rows.clone(), rows.clone(), rows.clone());
    for _ in 0..TREES {
        for bin in 0..column.count {
            let (left, weight) = loss.residual(sums[bin] / rows[bin].max(1.0), outputs[bin]);
            residuals[bin] = rows[bin] * left;
            weights[bin] = rows[bin] * weight;
            // Σ (target − prediction)² over the rows of the bin.
            let mean = sums[bin] / rows[bin].max(1.0);
            spread[bin] = (squares[bin] - rows[bin] * mean * mean).max(0.0) + rows[bin] * left * left;
        }
        let bins = Bins { rows: &rows, residuals: &residuals, weights: &weights, spread: &spread };
        bins.grow(0..column.count, DEPTH, &mut |range, value| {
            outputs[range].iter_mut().for_each(|output| *output += LEARNING_RATE * value);
        });
    }
    outputs
}

/// Sums over the rows of each bin.
struct Bins<'b> {
    rows: &'b [f64],
    residuals: &'b [f64],
    weights: &'b [f64],
    /// Σ residual².
    spread: &'b [f64],
}

impl Bins<'_> {
    /// Splits a range of bins down to `depth`; `leaf` gets each final range with its value.
    fn grow(&self, range: std::ops::Range<usize>, depth: usize, leaf: &mut impl FnMut(std::ops::Range<usize>, f64)) {
        let over = |values: &[f64]| values[range.clone()].iter().sum::<f64>();
        let (rows, residuals) = (over(self.rows), over(self.residuals));
        if depth > 0 && impurity(rows, residuals, over(self.spread)) > PURE {
            let mut best = (0.0, range.start);
            let (mut left_rows, mut left) = (0.0, 0.0);
            for bin in range.start..range.end - 1 {
                left_rows += self.rows[bin];
                left += self.residuals[bin];
                let gain = gain((left_rows, left), (rows - left_rows, residuals - left));
                if gain > best.0 {
                    best = (gain, bin + 1);
                }
            }
            if best.0 > 0.0 {
                self.grow(range.start..best.1, depth - 1, leaf);
                self.grow(best.1..range.end, depth - 1, leaf);
                return;
            }
        }
        let value = Loss::leaf(residuals, over(self.weights));
        leaf(range, value);
    }
}

/// Mean squared deviation from the mean.
fn impurity(rows: f64, sum: f64, squares: f64) -> f64 {
    if rows > 0.0 { squares / rows - (sum / rows).powi(2) } else { 0.0 }
}

/// By how much splitting (rows, sum of residuals) lowers the sum of squared deviations; 0 where a side is empty.
fn gain((left_rows, left): (f64, f64), (right_rows, right): (f64, f64)) -> f64 {
    if left_rows < 1.0 || right_rows < 1.0 {
        return 0.0;
    }
    let difference = left / left_rows - right / right_rows;
    left_rows * right_rows / (left_rows + right_rows) * difference * difference
}

/// A classifier of 0 and 1 that reads several columns.
pub struct Classifier {
    start: f64,
    trees: Vec<Vec<Node>>,
    /// Each column's share of what the splits gained; of sum 1, or all 0 where nothing was split.
    pub importances: Vec<f64>,
}

enum Node {
    /// Rows whose bin in `column` is below `bin` go to the node `children`, others to the one after it.
    Split {
        column: usize,
        bin: u8,
        children: usize,
    },
    Leaf(f64),
}

impl Classifier {
    /// Fits all rows. `targets` are 0 and 1, and not all equal.
    pub fn fit(columns: &[&Column], targets: &[f64]) -> Self {
        let n = targets.len();
        let start = Loss::Logistic.start(targets.iter().sum::<f64>() / n as f64);
        let mut outputs = vec![start; n];
        let mut gains = vec![0.0; columns.len()];
        let mut rows: Vec<u32> = (0..n as u32).collect();
        let (mut residuals, mut weights) = (vec![0.0; n], vec![0.0; n]);
        let counts = Histogram::counts(columns, &rows);
        let mut trees = Vec::with_capacity(TREES);
        for _ in 0..TREES {
            for row in 0..n {
                (residuals[row], weights[row]) = Loss::Logistic.residual(targets[row], outputs[row]);
            }
            let mut tree =
                Tree { columns, residuals: &residuals, weights: &weights, nodes: Vec::new(), gains: &mut gains };
            rows.iter_mut().zip(0..).for_each(|(row, at)| *row = at);
            tree.nodes.push(Node::Leaf(0.0));
            let root = Histogram { counts: counts.clone(), sums: Histogram::sums(columns, &rows, &residuals) };
            tree.grow(0, &mut rows, root, DEPTH, &mut outputs);
            trees.push(tree.nodes);
        }
        let total: f64 = gains.iter().sum();
        if total > 0.0 {
            gains.iter_mut().for_each(|gain| *gain /= total);
        }
        Self { start, trees, importances: gains }
    }

    /// Log-odds of each row, from its bins in every column.
    pub fn outputs(&self, bins: &[Vec<u8>]) -> Vec<f64> {
        let rows = bins.first().map_or(0, Vec::len);
        let output = |row: usize| {
            self.trees.iter().fold(self.start, |sum, nodes| {
                let mut at = 0;
                loop {
                    match &nodes[at] {
                        Node::Leaf(value) => return sum + value,
                        Node::Split { column, bin, children } => {
                            at = children + usize::from(bins[*column][row] >= *bin);
                        }
                    }
                }
            })
        };
        (0..rows).map(output).collect()
    }
}

/// Rows and residuals in each bin of every column, [columns, BINS].
struct Histogram {
    counts: Vec<u32>,
    sums: Vec<f64>,
}

impl Histogram {
    fn counts(columns: &[&Column], rows: &[u32]) -> Vec<u32> {
        let mut counts = vec![0; columns.len() * BINS];
        for (counts, column) in counts.chunks_mut(BINS).zip(columns) {
            rows.iter().for_each(|&row| counts[column.bins[row as usize] as usize % BINS] += 1);
        }
        counts
    }

    fn sums(columns: &[&Column], rows: &[u32], residuals: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; columns.len() * BINS];
        for (sums, column) in sums.chunks_mut(BINS).zip(columns) {
            rows.iter().for_each(|&row| sums[column.bins[row as usize] as usize % BINS] += residuals[row as usize]);
        }
        sums
    }

    /// Returns this histogram without `part`.
    fn without(mut self, part: &Self) -> Self {
        self.counts.iter_mut().zip(&part.counts).for_each(|(all, part)| *all -= part);
        self.sums.iter_mut().zip(&part.sums).for_each(|(all, part)| *all -= part);
        self
    }
}

struct Tree<'t> {
    columns: &'t [&'t Column],
    residuals: &'t [f64],
    weights: &'t [f64],
    nodes: Vec<Node>,
    /// The gain of each column, over all trees.
    gains: &'t mut [f64],
}

impl Tree<'_> {
    /// Splits node `at`, which has these rows, or makes it a leaf and adds its value to the outputs.
    fn grow(&mut self, at: usize, rows: &mut [u32], histogram: Histogram, depth: usize, outputs: &mut [f64]) {
        let total: f64 = rows.iter().map(|&row| self.residuals[row as usize]).sum();
        let split = if depth > 0 { self.best_split(rows, total, &histogram) } else { None };
        let Some((gain, column, bin)) = split else {
            let weights = rows.iter().map(|&row| self.weights[row as usize]).sum();
            let value = LEARNING_RATE * Loss::leaf(total, weights);
            rows.iter().for_each(|&row| outputs[row as usize] += value);
            self.nodes[at] = Node::Leaf(value);
            return;
        };
        self.gains[column] += gain;
        let children = self.nodes.len();
        self.nodes[at] = Node::Split { column, bin, children };
        self.nodes.extend([Node::Leaf(0.0), Node::Leaf(0.0)]);
        let bins = &self.columns[column].bins;
        rows.sort_by_key(|&row| bins[row as usize] >= bin);
        let middle = rows.partition_point(|&row| bins[row as usize] < bin);
        let (left, right) = rows.split_at_mut(middle);
        if depth == 1 {
            // Leaves need no histogram.
            let none = || Histogram { counts: Vec::new(), sums: Vec::new() };
            self.grow(children, left, none(), 0, outputs);
            self.grow(children + 1, right, none(), 0, outputs);
            return;
        }
        let of = |rows: &[u32]| Histogram {
            counts: Histogram::counts(self.columns, rows),
            sums: Histogram::sums(self.columns, rows, self.residuals),
        };
        let (of_left, of_right) = if left.len() <= right.len() {
            let smaller = of(left);
            let larger = histogram.without(&smaller);
            (smaller, larger)
        } else {
            let smaller = of(right);
            (histogram.without(&smaller), smaller)
        };
        self.grow(children, left, of_left, depth - 1, outputs);
        self.grow(children + 1, right, of_right, depth - 1, outputs);
    }

    /// The split of largest gain, its column, and the first bin on the right.
    fn best_split(&self, rows: &[u32], total: f64, histogram: &Histogram) -> Option<(f64, usize, u8)> {
        let squares: f64 = rows.iter().map(|&row| self.residuals[row as usize].powi(2)).sum();
        if impurity(rows.len() as f64, total, squares) <= PURE {
            return None;
        }
        let mut best = (0.0, 0, 0);
        for (at, column) in self.columns.iter().enumerate() {
            let (mut left_rows, mut left) = (0u32, 0.0);
            for bin in 0..column.count - 1 {
                let cell = at * BINS + bin;
                if histogram.counts[cell] == 0 {
                    continue;
                }
                left_rows += histogram.counts[cell];
                left += histogram.sums[cell];
                let right_rows = rows.len() as u32 - left_rows;
                let gain = gain((f64::from(left_rows), left), (f64::from(right_rows), total - left));
                if gain > best.0 {
                    best = (gain, at, bin + 1);
                }
            }
        }
        (best.0 > 0.0).then_some((best.0, best.1, best.2 as u8))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn close(what: &str, got: &[f64], expected: &Value, tolerance: f64) {
        let expected: Vec<f64> = expected.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
        assert_eq!(got.len(), expected.len(), "{what}");
        for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
            assert!((got - expected).abs() < tolerance, "{what} {at}: {got}, {expected}");
        }
    }

    /// `tests/golden/trees.py` fits the same rows with scikit-learn.
    #[test]
    fn trees_are_those_of_scikit_learn_where_every_value_has_a_bin() {
        let golden: Value = serde_json::from_str(include_str!("../tests/golden/trees.json")).unwrap();
        let part = |row: usize, prime: f64| ((row + 1) as f64 * prime.sqrt()) % 1.0;
        let column = |prime: f64| (0..500).map(|row| (part(row, prime) * 60.0).floor() / 60.0).collect::<Vec<f64>>();
        let columns = [2.0, 3.0, 5.0, 7.0].map(column);
        let noise = |row: usize| part(row, 11.0);
        let flag = |row: usize| {
            let sum = columns[0][row] + 0.8 * columns[1][row] * columns[2][row] + 0.6 * (noise(row) - 0.5);
            f64::from(u8::from(sum > 0.7))
        };
        let flags: Vec<f64> = (0..400).map(flag).collect();
        let values: Vec<f64> = (0..400).map(|row| (6.0 * columns[0][row]).sin() + 0.5 * noise(row)).collect();
        let binned = columns.each_ref().map(|column| Ordered::new(column[..400].to_vec()).cut(&flags));
        let test = [0, 1, 2, 3].map(|at| binned[at].bins_of(&columns[at][400..]));
        let classifier = Classifier::fit(&binned.each_ref(), &flags);
        // Where two columns split the few rows of a node alike, scikit-learn takes one at random.
        close("importances", &classifier.importances, &golden["importances"], 0.005);
        let (outputs, expected) = (classifier.outputs(&test), golden["log_odds"].as_array().unwrap());
        let gaps = outputs.iter().zip(expected).map(|(got, expected)| (got - expected.as_f64().unwrap()).abs());
        assert!(gaps.sum::<f64>() / 100.0 < 0.2, "{outputs:?}");
        let of_bins = |outputs: Vec<f64>| test[0].iter().map(|&bin| outputs[bin as usize]).collect::<Vec<f64>>();
        // With one column there is nothing to choose.
        let one = of_bins(fit_column(&binned[0], &flags, Loss::Logistic));
        close("log-odds of one column", &one, &golden["log_odds_of_one_column"], 1e-6);
        let number = of_bins(fit_column(&binned[0], &values, Loss::Squared));
        close("number of one column", &number, &golden["number_of_one_column"], 1e-6);
    }

    #[test]
    fn few_values_have_a_bin_each_and_many_are_cut_where_the_targets_change() {
        let few = Ordered::new(vec![3.0, 1.0, 3.0, 2.0]).cut(&[0.0; 4]);
        assert_eq!((few.bins(), few.count()), (&[2, 0, 2, 1][..], 3));
        assert_eq!(few.bins_of(&[-9.0, 1.5, 1.6, 2.4, 9.0]), [0, 0, 1, 1, 2], "a threshold is half way");
        let values: Vec<f64> = (0..3200).map(|row| f64::from(row * 37 % 3200)).collect();
        let even = Ordered::new(values.clone()).cut(&[0.0; 3200]);
        let mut rows = [0; 32];
        even.bins().iter().for_each(|&bin| rows[bin as usize] += 1);
        assert_eq!((even.count(), rows), (32, [100; 32]));
        // Targets of 1 from 1,234 to 2,789: two more thresholds, exactly there.
        let flags: Vec<f64> = values.iter().map(|x| f64::from(u8::from((1234.0..2789.0).contains(x)))).collect();
        let cut = Ordered::new(values).cut(&flags);
        assert_eq!(cut.count(), 34);
        let bins = cut.bins_of(&[1233.0, 1234.0, 2788.0, 2789.0]);
        assert!(bins[0] < bins[1] && bins[2] < bins[3], "{bins:?}");
        // However the targets change, there are 64 bins at most.
        let alternating: Vec<f64> = (0..3200).map(|row| f64::from(row * 7919 % 2)).collect();
        let cut = Ordered::new((0..3200).map(f64::from).collect()).cut(&alternating);
        assert!((32..=BINS).contains(&cut.count()), "{}", cut.count());
        assert_eq!(Ordered::new(vec![5.0; 9]).cut(&[0.0; 9]).count(), 1);
    }

    #[test]
    fn trees_read_the_order_of_values_alone() {
        let values: Vec<f64> = (0..300).map(|row| f64::from(row * 7 % 300) / 50.0 - 3.0).collect();
        let other: Vec<f64> = (0..300).map(|row| f64::from(row * 11 % 300)).collect();
        let flags: Vec<f64> = values.iter().map(|x| f64::from(u8::from(*x > 0.4))).collect();
        let fit = |values: &[f64]| {
            let columns = [values, &other].map(|values| Ordered::new(values.to_vec()).cut(&flags));
            Classifier::fit(&columns.each_ref(), &flags).importances
        };
        let sigmoid: Vec<f64> = values.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect();
        assert_eq!(fit(&values), fit(&sigmoid));
        assert!(fit(&values)[0] > 0.99);
    }
}
