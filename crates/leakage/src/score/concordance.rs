//! How well activations predict a concept that is a number.
//!
//! Concordance: the probability that of two rows with different labels the one with the higher label has the higher activation, ties of
//! activations counting one half: the AUC of ordered values (Harrell's C, doi:10.1001/jama.1982.03320430047030). 0.5 is
//! chance. It asks for an order alone, so activations may have any unit.

use crate::parallel;
use crate::point::Outcome;
use crate::prepare::{KnownRows, Prepared};
use crate::tensor::TensorName;

use super::concept_rows::ascending;
use super::numbers::Numbers;
use super::term::{Term, mean_over_concepts};

/// The term of a concept that is a number.
pub fn of_concept(p: &Prepared, i: usize) -> Result<Term, String> {
    let (activations, labels, rows) = numbers(p, i)?;
    Ok(concordance(&activations, &labels)?.spread(&rows))
}

/// 1 − Σ(ĉ − c)² / Σ(c − mean c)², mean over concepts that are numbers: how well activations are the numbers, in their unit.
pub fn r2(p: &Prepared) -> Result<Outcome, String> {
    let term = |i: usize| {
        if !p.run().is_continuous(i) {
            return Err("its labels are classes".into());
        }
        let (activations, labels, rows) = numbers(p, i)?;
        Ok::<_, String>(Numbers::new(labels)?.r2(&activations).spread(&rows))
    };
    let terms: Vec<Result<Term, String>> = parallel::map(p.concepts(), &term);
    Ok(mean_over_concepts(p, &p.weights_where(|i| p.run().is_continuous(i)), &terms, |term| term.value))
}

/// A concept's activations and labels, in the rows in which the label is known.
fn numbers(p: &Prepared, i: usize) -> Result<(Vec<f64>, Vec<f64>, KnownRows), String> {
    let rows = p.known(&[i]).map_err(|why| format!("labels: {why}"))?;
    let column = p.column(TensorName::ConceptActivations).ok_or("there are no concept activations")?;
    let blocks = p.run().activation_blocks(column.width()).ok_or("its activations fit no layout")?;
    if blocks[i].len() != 1 {
        return Err("it has several activations".into());
    }
    let labels = p.column(TensorName::ConceptLabels).ok_or("there are no concept labels")?;
    Ok((rows.of(column.floats(blocks[i].start), 1), rows.of(labels.floats(i), 1), rows))
}

/// The concordance, with the influence of each row: its own share of ordered pairs (Hájek projection).
fn concordance(activations: &[f64], labels: &[f64]) -> Result<Term, String> {
    let n = labels.len();
    let (ranks, distinct) = ranks(activations);
    let by_label = ascending(labels);
    // For each row: twice the number of pairs that are ordered alike, and the number of pairs whose labels differ.
    let (mut alike, mut pairs) = (vec![0_u64; n], vec![0_u64; n]);
    let mut ties: Vec<&[u32]> = by_label.chunk_by(|&a, &b| labels[a as usize] == labels[b as usize]).collect();
    for is_higher in [true, false] {
        // Rows of lower labels, then, from the other end, of higher ones.
        let mut seen = Counts::new(distinct);
        for tie in &ties {
            for &row in *tie {
                let (row, rank) = (row as usize, ranks[row as usize]);
                let (below, equal) = (seen.below(rank), seen.at(rank));
                let beyond = if is_higher { below } else { seen.total - below - equal };
                alike[row] += 2 * beyond + equal;
                pairs[row] += seen.total;
            }
            tie.iter().for_each(|&row| seen.add(ranks[row as usize]));
        }
        ties.reverse();
    }
    let all: u64 = pairs.iter().sum();
    if all == 0 {
        return Err("its label is constant".into());
    }
    let value = alike.iter().sum::<u64>() as f64 / (2 * all) as f64;
    let influence =
        |(alike, pairs): (&u64, &u64)| 2.0 * n as f64 * (0.5 * *alike as f64 - value * *pairs as f64) / all as f64;
    let influence = alike.iter().zip(&pairs).map(influence).collect();
    Ok(Term { value, excess: value, influence, draw_variance: 0.0 })
}

/// The rank of each value among the distinct ones, and how many there are.
fn ranks(values: &[f64]) -> (Vec<usize>, usize) {
    let (mut ranks, mut next) = (vec![0; values.len()], 0);
    for tie in ascending(values).chunk_by(|&a, &b| values[a as usize] == values[b as usize]) {
        tie.iter().for_each(|&row| ranks[row as usize] = next);
        next += 1;
    }
    (ranks, next)
}

/// Counts by rank, with their running sums in logarithmic time (Fenwick 1994, doi:10.1002/spe.4380240306).
struct Counts {
    sums: Vec<u64>,
    counts: Vec<u64>,
    total: u64,
}

impl Counts {
    fn new(ranks: usize) -> Self {
        Self { sums: vec![0; ranks + 1], counts: vec![0; ranks], total: 0 }
    }

    fn add(&mut self, rank: usize) {
        self.counts[rank] += 1;
        self.total += 1;
        let mut at = rank + 1;
        while at < self.sums.len() {
            self.sums[at] += 1;
            at += at & at.wrapping_neg();
        }
    }

    fn at(&self, rank: usize) -> u64 {
        self.counts[rank]
    }

    /// How many have a lower rank.
    fn below(&self, rank: usize) -> u64 {
        let (mut at, mut sum) = (rank, 0);
        while at > 0 {
            sum += self.sums[at];
            at &= at - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// By its definition.
    fn of_pairs(activations: &[f64], labels: &[f64]) -> f64 {
        let (mut alike, mut pairs) = (0.0, 0.0);
        for (a, la) in activations.iter().zip(labels) {
            for (b, _) in activations.iter().zip(labels).filter(|(_, lb)| la > lb) {
                alike += if a > b { 1.0 } else { 0.5 * f64::from(u8::from(a == b)) };
                pairs += 1.0;
            }
        }
        alike / pairs
    }

    #[test]
    fn it_is_its_definition_with_ties_too() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for levels in [3, 10, 1_000_000] {
            let mut draw = || f64::from(random.random_range(0..levels));
            let activations: Vec<f64> = (0..200).map(|_| draw()).collect();
            let labels: Vec<f64> = activations.iter().map(|x| x + 2.0 * draw()).collect();
            let term = concordance(&activations, &labels).unwrap();
            assert!((term.value - of_pairs(&activations, &labels)).abs() < 1e-12, "{levels}");
            assert!(term.influence.iter().sum::<f64>().abs() < 1e-9);
        }
    }

    #[test]
    fn of_two_labels_it_is_the_auc_with_its_error() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        let labels: Vec<f64> = (0..400).map(|row| f64::from(u8::from(row % 3 == 0))).collect();
        let activations: Vec<f64> =
            labels.iter().map(|label| label + f64::from(random.random_range(0..40)) / 20.0).collect();
        let present: Vec<Option<bool>> = labels.iter().map(|label| Some(*label > 0.5)).collect();
        let auc = crate::score::accuracy::auc(&activations, &present).unwrap();
        let own = concordance(&activations, &labels).unwrap();
        assert!((own.value - auc.value).abs() < 1e-12);
        assert!((own.standard_error() / auc.standard_error() - 1.0).abs() < 0.2);
    }

    #[test]
    fn a_constant_label_orders_nothing_and_a_constant_activation_is_chance() {
        assert!(concordance(&[1.0, 2.0], &[3.0, 3.0]).is_err());
        assert_eq!(concordance(&[1.0; 5], &[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap().value, 0.5);
    }
}
