//! The rows a helper model trains on, and those it is tested on: 80 and 20 %, chosen by a hash of the row's id. A fixed
//! panel of rows so keeps its split from pass to pass.
//!
//! Where that choice leaves a class of at least two rows out of either part, rows are exchanged until both have it: a rare
//! class could otherwise not be learnt, or not be tested. Where no class is rare nothing is exchanged, and the choice is
//! the plain one of the published procedures.

use crate::prepare::{KnownRows, Prepared};
use crate::sample::priority::priority;
use crate::tensor::TensorName;

use super::concept_rows::distinct;
use super::term::Term;

/// Makes this choice of rows independent of the sample's own.
const STREAM: u64 = 0x686f_6c64_6f75_7400;

/// Row numbers, ascending.
pub struct Holdout {
    pub train: Vec<usize>,
    pub test: Vec<usize>,
    /// The number of rows of the sample, N.
    rows: usize,
}

impl Holdout {
    /// A fifth of the rows, rounded up, for testing, with the classes of every concept in both parts; `draw` distinguishes
    /// independent choices. Errors when either part is empty.
    pub fn of(p: &Prepared, draw: u64) -> Result<Self, String> {
        Self::of_concepts(p, draw, &(0..p.concepts()).collect::<Vec<_>>(), &KnownRows::all(p.rows()))
    }

    /// The same of some rows, with the classes of these concepts in both parts.
    pub fn of_concepts(p: &Prepared, draw: u64, concepts: &[usize], rows: &KnownRows) -> Result<Self, String> {
        let labels = concepts.iter().filter_map(|&i| p.concept_classes(i)).collect();
        Self::stratified(p, draw, rows.numbers(), labels)
    }

    /// The same of some rows, with the classes of the task in both parts.
    pub fn by_task(p: &Prepared, draw: u64, rows: &KnownRows) -> Result<Self, String> {
        let labels = p.column(TensorName::TaskLabels).and_then(|labels| labels.integers(0));
        Self::stratified(p, draw, rows.numbers(), labels.into_iter().collect())
    }

    fn stratified(p: &Prepared, draw: u64, rows: Vec<usize>, labels: Vec<Vec<i32>>) -> Result<Self, String> {
        let n = rows.len();
        let mut train = rows;
        train.sort_unstable_by_key(|&row| (priority(p.settings().seed ^ (STREAM + draw), p.ids()[row]), row));
        let mut test: Vec<usize> = train.drain(..n.div_ceil(5)).collect();
        if train.is_empty() || test.is_empty() {
            return Err(format!("{n} rows are too few to train on some and test on others"));
        }
        Classes::new(labels, &train, &test).share(&mut train, &mut test);
        test.sort_unstable();
        train.sort_unstable();
        Ok(Self { train, test, rows: p.rows() })
    }

    /// A term of the test rows as one of all rows.
    pub fn spread(&self, term: &Term) -> Term {
        let scale = self.rows as f64 / self.test.len() as f64;
        let mut influence = vec![0.0; self.rows];
        self.test.iter().zip(&term.influence).for_each(|(&row, x)| influence[row] = scale * x);
        Term { influence, ..term.clone() }
    }
}

const TRAIN: usize = 0;
const TEST: usize = 1;

/// The classes of several labels, and how many rows each part has of them.
struct Classes {
    /// For each label, the class of each row, numbered from 0 among those that occur; negative: unknown.
    labels: Vec<Vec<i32>>,
    /// For each label and class, rows in train and in test.
    counts: Vec<Vec<[usize; 2]>>,
}

impl Classes {
    fn new(mut labels: Vec<Vec<i32>>, train: &[usize], test: &[usize]) -> Self {
        let numbered = |labels: &mut Vec<i32>| {
            let classes = distinct(labels.iter().copied().filter(|&class| class >= 0), i32::cmp);
            let number = |class: &i32| classes.binary_search(class).map_or(-1, |number| number as i32);
            labels.iter_mut().for_each(|class| *class = number(class));
            vec![[0; 2]; classes.len()]
        };
        let counts = labels.iter_mut().map(numbered).collect();
        let mut this = Self { labels, counts };
        for (part, rows) in [(TRAIN, train), (TEST, test)] {
            for &row in rows {
                this.each_class(row, |count| count[part] += 1);
            }
        }
        this
    }

    fn each_class(&mut self, row: usize, mut change: impl FnMut(&mut [usize; 2])) {
        for (labels, counts) in self.labels.iter().zip(&mut self.counts) {
            if let Ok(class) = usize::try_from(labels[row]) {
                change(&mut counts[class]);
            }
        }
    }

    /// Whether the part keeps a row of each of the row's classes without it. A class of one row is in one part only.
    fn spares(&self, row: usize, part: usize) -> bool {
        self.labels.iter().zip(&self.counts).all(|(labels, counts)| match usize::try_from(labels[row]) {
            Ok(class) => counts[class][part] > 1 || counts[class][TRAIN] + counts[class][TEST] == 1,
            Err(_) => true,
        })
    }

    /// Exchanges rows until each class of two rows or more is in both parts, as far as classes of other labels allow. The
    /// rarest classes go first. `train` and `test` are in the order of the choice; rows next to its boundary move.
    fn share(mut self, train: &mut Vec<usize>, test: &mut Vec<usize>) {
        let mut lacking: Vec<(usize, usize, usize)> = Vec::new();
        for (label, counts) in self.counts.iter().enumerate() {
            for (class, [train, test]) in counts.iter().enumerate() {
                if train + test >= 2 && *train.min(test) == 0 {
                    lacking.push((train + test, label, class));
                }
            }
        }
        lacking.sort_unstable();
        for (_, label, class) in lacking {
            let [in_train, in_test] = self.counts[label][class];
            let of_class = |this: &Self, row: usize| this.labels[label][row] == class as i32;
            if in_test == 0 {
                let from = train.iter().position(|&row| of_class(&self, row) && self.spares(row, TRAIN));
                let Some(from) = from else { continue };
                self.change_part(train.remove(from), TEST, test);
                // The row that has just moved is the last one.
                let back = test[..test.len() - 1].iter().rposition(|&row| self.spares(row, TEST));
                if let Some(back) = back {
                    let row = test.remove(back);
                    self.change_part(row, TRAIN, train);
                }
            } else if in_train == 0 {
                let from = test.iter().rposition(|&row| of_class(&self, row) && self.spares(row, TEST));
                let Some(from) = from else { continue };
                self.change_part(test.remove(from), TRAIN, train);
                let back = train[..train.len() - 1].iter().position(|&row| self.spares(row, TRAIN));
                if let Some(back) = back {
                    let row = train.remove(back);
                    self.change_part(row, TEST, test);
                }
            }
        }
    }

    fn change_part(&mut self, row: usize, to: usize, rows: &mut Vec<usize>) {
        self.each_class(row, |count| {
            count[to] += 1;
            count[1 - to] -= 1;
        });
        rows.push(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(labels: &[Vec<i32>], tested: usize) -> (Vec<usize>, Vec<usize>) {
        let (mut test, mut train): (Vec<usize>, Vec<usize>) = (0..labels[0].len()).partition(|row| *row < tested);
        Classes::new(labels.to_vec(), &train, &test).share(&mut train, &mut test);
        test.sort_unstable();
        train.sort_unstable();
        (train, test)
    }

    #[test]
    fn a_choice_that_has_all_classes_is_left_as_it_is() {
        let labels = [(0..50).map(|row| row % 3).collect(), (0..50).map(|row| i32::from(row % 7 == 0)).collect()];
        assert_eq!(shared(&labels, 10), ((10..50).collect(), (0..10).collect()));
    }

    #[test]
    fn every_class_of_two_rows_gets_into_both_parts() {
        // Label i has its class 1 in rows 2 i and 2 i + 1; the first five labels in test rows only, the others in train
        // rows only. The last label has one row.
        let mut labels: Vec<Vec<i32>> = (0..25).map(|i| (0..50).map(|row| i32::from(row / 2 == i)).collect()).collect();
        labels.push((0..50).map(|row| i32::from(row == 30)).collect());
        let (train, test) = shared(&labels[..20], 10);
        for (i, label) in labels[..20].iter().enumerate() {
            let has = |rows: &[usize]| rows.iter().any(|&row| label[row] == 1);
            assert!(has(&train) && has(&test), "label {i}");
        }
        assert_eq!(train.len() + test.len(), 50);
        let alone = [labels[25].clone(), (0..50).map(|row| row % 2).collect()];
        assert_eq!(shared(&alone, 10), ((10..50).collect(), (0..10).collect()), "one row cannot be in both");
    }

    #[test]
    fn the_parts_keep_their_sizes_and_unknown_labels_count_as_no_class() {
        let rare: Vec<i32> = (0..40).map(|row| if row > 36 { 1 } else { 0 }).collect();
        let unknown: Vec<i32> = (0..40).map(|row| if row < 38 { -1 } else { row % 2 }).collect();
        let (train, test) = shared(&[rare.clone(), unknown], 8);
        assert_eq!((train.len(), test.len()), (32, 8));
        assert!(test.iter().any(|&row| rare[row] == 1) && train.iter().any(|&row| rare[row] == 1));
    }
}
