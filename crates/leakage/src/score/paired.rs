//! The standard error of a change between two samples of a curve, with the rows that both have paired.

use crate::prepare::Prepared;

use super::catalogue::{self, Cost};
use super::guard::guarded;
use super::left_out::Over;
use super::tasks::reads_task;
use super::term::{Sum, Term, sum_of};
use super::{conditional, leakage};

/// The influence of each row of a sample on the scores that trends are read from: `ctl_excess`, `icl_excess`,
/// `icl_label_excess`, `ctl_conditional` and `icl_conditional`. Some 8 bytes for each row and score.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Influences {
    ids: Vec<u64>,
    scores: Vec<(&'static str, (Sum, Over))>,
}

impl Influences {
    /// Computes the influences on the scores of these costs that have a value. Cheap after the scores themselves, which
    /// share its parts.
    pub fn of(p: &Prepared, ids: &[u64], costs: &[Cost]) -> Self {
        type Influence = fn(&Prepared) -> Option<(Sum, Over)>;
        let scores: [(&'static str, Influence); 5] = [
            ("ctl_excess", |p| over_concepts(p, &leakage::concepts_task_terms(p).ok()?)),
            ("icl_excess", |p| leakage::interconcept(p).ok()?.influence()),
            ("icl_label_excess", |p| leakage::against_labels(p).ok()?.influence()),
            ("ctl_conditional", |p| over_concepts(p, &conditional::concepts_task_terms(p).ok()?.terms)),
            ("icl_conditional", |p| conditional::about_other_concepts(p).ok()?.influence()),
        ];
        // A mean over tasks has no influences of its own: the error of its change is that of its two values.
        let is_whole = |id: &str| !p.has_task_views() || catalogue::find(id).is_some_and(|score| !reads_task(score));
        let wanted = |id: &str| is_whole(id) && cost_of(id).is_some_and(|cost| costs.contains(&cost));
        let of_score = |(id, influence): (&'static str, Influence)| {
            let sum = guarded(p, &format!("the influences on {id}"), || influence(p));
            Some((id, sum.ok().flatten()?))
        };
        let scores = scores.into_iter().filter(|(id, _)| wanted(id)).filter_map(of_score).collect();
        Self { ids: ids.to_vec(), scores }
    }

    /// The influences on the scores of each cost that any of them has.
    pub fn by_cost(&self) -> impl Iterator<Item = (Cost, Self)> + '_ {
        Cost::AT_ONCE.iter().filter_map(|&cost| {
            let of_cost = self.scores.iter().filter(|(id, _)| cost_of(id) == Some(cost));
            let scores: Vec<_> = of_cost.cloned().collect();
            (!scores.is_empty()).then(|| (cost, Self { ids: self.ids.clone(), scores }))
        })
    }

    /// Standard error of each score's change from an `earlier` sample to this one, by catalogue id, in the score's
    /// unit: the error that sampling rows makes, with the models of both taken as they are. Absent where the two means
    /// leave out other concepts or pairs.
    pub fn change_errors(&self, earlier: &Self) -> Vec<(String, f64)> {
        let change = |(id, (sum, over)): &(&'static str, (Sum, Over))| {
            let (_, (before, over_before)) = earlier.scores.iter().find(|(other, _)| other == id)?;
            if !over.is_same_set(over_before) {
                return None;
            }
            Some(((*id).to_owned(), sum.difference_error(&self.ids, before, &earlier.ids)))
        };
        self.scores.iter().filter_map(change).collect()
    }
}

/// The influence of each row on the mean over concepts, and the set that it is a mean over; `None` where it has no value.
fn over_concepts(p: &Prepared, terms: &[Result<Term, String>]) -> Option<(Sum, Over)> {
    let (weights, over) =
        Over::concepts(p.concepts(), &p.concept_weights(), terms.iter().map(|term| term.as_ref().err()));
    over.undefined.is_none().then(|| (sum_of(p, &weights, terms), over))
}

fn cost_of(id: &str) -> Option<Cost> {
    catalogue::find(id).map(|score| score.cost)
}
