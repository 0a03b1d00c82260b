//! Concept completeness: how much of the model's accuracy the concepts alone can reach.
//!
//! Source: On Completeness-aware Concept-Based Explanations in Deep Neural Networks (Yeh et al. 2020, arXiv 1910.07969),
//! definition 3.1: (a_c − a_r) / (a_f − a_r), with a_c the accuracy of the best predictor of the task from the concepts, a_f
//! that of the model and a_r that of a predictor without input. All three are on held-out rows; the best predictor is the
//! better of a linear head and one with a hidden layer, and a_r the share of the class most frequent in training. The
//! ratio is not clipped: a head trained on the concepts may be better than the model's.

use crate::point::Outcome;
use crate::prepare::Prepared;

use super::accuracy::task_hits;
use super::reference::{Heads, on_activations, on_true_concepts};
use super::term::Term;

/// Returns the completeness of the activations, as the model predicts them.
pub fn of_activations(p: &Prepared) -> Result<Outcome, String> {
    completeness(p, &*on_activations(p)?)
}

/// Returns the completeness of the true concepts.
pub fn of_labels(p: &Prepared) -> Result<Outcome, String> {
    completeness(p, &*on_true_concepts(p)?)
}

fn completeness(p: &Prepared, heads: &Heads) -> Result<Outcome, String> {
    let hits = task_hits(p)?;
    let of_test: Vec<f64> = heads.holdout.test.iter().map(|&row| hits[row]).collect();
    let model = heads.holdout.spread(&Term::mean_of_rows(&of_test));
    Ok(ratio(heads.accuracy.better(), &model, &heads.constant)?.outcome())
}

/// (a − r) / (f − r), with each row's influence by the delta method.
fn ratio(concepts: &Term, model: &Term, constant: &Term) -> Result<Term, String> {
    let (above, whole) = (concepts.value - constant.value, model.value - constant.value);
    if whole <= 2.0 * model.less(constant).standard_error() {
        return Err(format!(
            "the model's accuracy of {:.3} is not above that of the most frequent class, {:.3}, by two standard errors",
            model.value, constant.value
        ));
    }
    let value = above / whole;
    let rows = concepts.influence.iter().zip(&model.influence).zip(&constant.influence);
    let influence = rows.map(|((a, f), r)| (a - r - value * (f - r)) / whole).collect();
    Ok(Term { value, excess: value, influence, draw_variance: 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completeness_is_what_concepts_gain_over_what_the_model_gains() {
        let of = |hits: &[f64]| Term::mean_of_rows(hits);
        let constant = of(&[1.0, 0.0].repeat(20));
        let ratio =
            |concepts: &[f64], model: &[f64]| ratio(&of(&concepts.repeat(10)), &of(&model.repeat(10)), &constant);
        assert_eq!(ratio(&[1.0, 1.0, 1.0, 0.0], &[1.0; 4]).unwrap().value, 0.5);
        assert_eq!(ratio(&[1.0, 0.0, 1.0, 0.0], &[1.0; 4]).unwrap().value, 0.0);
        let same = ratio(&[1.0, 1.0, 1.0, 0.0], &[1.0, 1.0, 1.0, 0.0]).unwrap();
        assert_eq!((same.value, same.standard_error()), (1.0, 0.0), "equal hits have no error");
        assert!(ratio(&[1.0; 4], &[0.0, 1.0, 0.0, 1.0]).unwrap_err().contains("0.500 is not above"));
        // One row of forty better than the constant is chance.
        let mut lucky = [1.0, 0.0].repeat(20);
        lucky[1] = 1.0;
        assert!(super::ratio(&of(&lucky), &of(&lucky), &constant).unwrap_err().contains("by two standard errors"));
    }
}
