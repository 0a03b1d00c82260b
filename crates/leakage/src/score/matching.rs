//! The activation learnt without labels that stands for each concept: a greedy matching by AUC.
//!
//! Source: Towards Robust Metrics for Concept Representation Evaluation, Appendix A.5, doi:10.1609/aaai.v37i10.26392. The
//! paper takes the AUC of a network for each pair of latent and concept. Latents number thousands, so here it is the AUC
//! of the latent's ranks, in the better direction: one sort a latent, and a sum of ranks for each concept.

use crate::parallel;
use crate::prepare::Prepared;
use crate::sample::Column;

/// Latents whose AUCs are held at once.
const CHUNK: usize = 256;
/// The most columns that scores of every pair of column and concept read for a concept.
pub const MOST_COLUMNS: usize = 256;

/// Matches pairs (AUC, learnt, concept) one by one: next is the pair of highest AUC whose learnt activation and concept
/// are both unmatched, the first of equals. Returns the learnt activation of each concept; `None` where no pair is
/// left.
pub fn greedy(mut pairs: Vec<(f64, usize, usize)>, concepts: usize) -> Vec<Option<usize>> {
    pairs.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let mut matched = vec![None; concepts];
    let mut used = std::collections::HashSet::new();
    for (_, learnt, concept) in pairs {
        if matched[concept].is_none() && used.insert(learnt) {
            matched[concept] = Some(learnt);
        }
    }
    matched
}

/// The latent matched to each concept by the AUC of its ranks among `rows`; `None` for a concept that has one class
/// there. `labels` has the classes of these rows for each concept, negative where they are not known.
pub fn of_latents(p: &Prepared, latents: &Column, rows: &[usize], labels: &[&[i32]]) -> Vec<Option<usize>> {
    let k = labels.len();
    let groups: Vec<Vec<Vec<usize>>> = labels.iter().map(|labels| rows_by_class(labels)).collect();
    // Other concepts take k − 1 latents at most, so a concept is matched to one of its k best.
    let mut best: Vec<Vec<(f64, usize)>> = vec![Vec::new(); k];
    for start in (0..latents.width()).step_by(CHUNK) {
        p.pause();
        let chunk = start..latents.width().min(start + CHUNK);
        let aucs: Vec<Vec<f64>> = parallel::map(chunk.len(), &|at| {
            let column = latents.floats(start + at);
            let ranks = midranks(&rows.iter().map(|&row| column[row]).collect::<Vec<f64>>());
            groups.iter().map(|classes| auc_either_way(&ranks, classes)).collect()
        });
        for (concept, best) in best.iter_mut().enumerate().filter(|(concept, _)| groups[*concept].len() > 1) {
            best.extend(chunk.clone().zip(&aucs).map(|(latent, aucs)| (aucs[concept], latent)));
            best.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            best.truncate(k);
        }
    }
    let pairs =
        best.iter().enumerate().flat_map(|(concept, best)| best.iter().map(move |(auc, i)| (*auc, *i, concept)));
    greedy(pairs.collect(), k)
}

/// The columns whose ranks predict `labels` best, at most [`MOST_COLUMNS`], ascending. `ranks` has those of every column.
pub fn most_predictive(ranks: &[Vec<f64>], labels: &[i32]) -> Vec<usize> {
    let mut columns: Vec<usize> = (0..ranks.len()).collect();
    if ranks.len() > MOST_COLUMNS {
        let classes = rows_by_class(labels);
        let aucs: Vec<f64> = ranks.iter().map(|ranks| auc_either_way(ranks, &classes)).collect();
        columns.sort_by(|&a, &b| aucs[b].total_cmp(&aucs[a]).then(a.cmp(&b)));
        columns.truncate(MOST_COLUMNS);
        columns.sort_unstable();
    }
    columns
}

/// The rows of each class that occurs, in ascending order of classes; without rows whose class is negative, not known.
pub fn rows_by_class(labels: &[i32]) -> Vec<Vec<usize>> {
    let mut classes = std::collections::BTreeMap::<i32, Vec<usize>>::new();
    let known = labels.iter().enumerate().filter(|(_, class)| **class >= 0);
    known.for_each(|(row, &class)| classes.entry(class).or_default().push(row));
    classes.into_values().collect()
}

/// Rank of each value from 1, equal values sharing their mean rank.
pub fn midranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut below = 0;
    for tie in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = below as f64 + (tie.len() + 1) as f64 / 2.0;
        tie.iter().for_each(|&row| ranks[row] = rank);
        below += tie.len();
    }
    ranks
}

/// AUC of one class against the others, or of the reversed ranking where that is higher, mean over the classes; of two
/// classes both are the same.
pub fn auc_either_way(ranks: &[f64], classes: &[Vec<usize>]) -> f64 {
    let known: usize = classes.iter().map(Vec::len).sum();
    if known < ranks.len() {
        // Ranks among the rows whose class is known.
        let rows: Vec<usize> = classes.concat();
        let mut start = 0;
        let renumbered = classes.iter().map(|rows| {
            start += rows.len();
            (start - rows.len()..start).collect()
        });
        let renumbered: Vec<Vec<usize>> = renumbered.collect();
        return auc_either_way(&midranks(&rows.iter().map(|&row| ranks[row]).collect::<Vec<f64>>()), &renumbered);
    }
    let of_class = |rows: &Vec<usize>| {
        let (own, others) = (rows.len() as f64, (known - rows.len()) as f64);
        let sum: f64 = rows.iter().map(|&row| ranks[row]).sum();
        let auc = (sum - own * (own + 1.0) / 2.0) / (own * others);
        auc.max(1.0 - auc)
    };
    let classes = if classes.len() == 2 { &classes[1..] } else { classes };
    classes.iter().map(of_class).sum::<f64>() / classes.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pair_of_highest_auc_is_matched_first() {
        // Concept 0 would take learnt 0, which fits concept 1 better.
        let pairs = vec![(0.9, 0, 0), (0.95, 0, 1), (0.6, 1, 0), (0.94, 1, 1), (0.7, 2, 0), (0.5, 2, 1)];
        assert_eq!(greedy(pairs, 2), [Some(2), Some(0)]);
        assert_eq!(greedy(vec![(0.5, 3, 0), (0.5, 1, 0)], 1), [Some(1)], "the first of equals");
        assert_eq!(greedy(Vec::new(), 1), [None]);
    }

    #[test]
    fn of_many_columns_the_most_predictive_are_read() {
        let labels: Vec<i32> = (0..20).map(|row| i32::from(row >= 10)).collect();
        // Column i has its first i rows exchanged with the last.
        let column = |i: usize| -> Vec<f64> {
            (0..20).map(|row| if row < i % 10 || row >= 20 - i % 10 { 19 - row } else { row } as f64).collect()
        };
        let few: Vec<Vec<f64>> = (0..3).map(|i| midranks(&column(i))).collect();
        assert_eq!(most_predictive(&few, &labels), [0, 1, 2]);
        let many: Vec<Vec<f64>> = (0..MOST_COLUMNS + 10).map(|i| midranks(&column(i))).collect();
        let read = most_predictive(&many, &labels);
        assert_eq!(read.len(), MOST_COLUMNS);
        assert!(read.contains(&0) && read.is_sorted());
    }

    #[test]
    fn ranks_share_ties_and_give_the_auc_in_its_better_direction() {
        assert_eq!(midranks(&[0.5, -1.0, 0.5, 2.0]), [2.5, 1.0, 2.5, 4.0]);
        let of = |values: &[f64], labels: &[i32]| auc_either_way(&midranks(values), &rows_by_class(labels));
        assert_eq!(of(&[1.0, 2.0, 3.0, 4.0], &[0, 0, 1, 1]), 1.0);
        assert_eq!(of(&[4.0, 3.0, 2.0, 1.0], &[0, 0, 1, 1]), 1.0);
        assert_eq!(of(&[1.0, 3.0, 2.0, 4.0], &[0, 0, 1, 1]), 0.75);
        assert_eq!(of(&[0.0; 4], &[0, 1, 0, 1]), 0.5);
        assert_eq!(of(&[1.0, 9.0, 3.0, 2.0, 4.0], &[0, -1, 0, 1, 1]), 0.75, "unknown labels do not count");
        // Among three classes the middle one is above one and below another.
        assert_eq!(of(&[1.0, 2.0, 3.0], &[0, 1, 2]), (1.0 + 0.5 + 1.0) / 3.0);
    }
}
