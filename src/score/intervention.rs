//! Task accuracy after all concepts were replaced by their true values.
//!
//! Source: Leakage and Interpretability in Concept-Based Models, eq. 5, doi:10.48550/arXiv.2504.14094.

use crate::point::Outcome;
use crate::prepare::Prepared;
use crate::tensor::TensorName;

use super::term::Term;

/// S_int = y_acc^(k) − y*_acc^(k). The reference accuracy is taken as known: the error is that of y*_acc^(k).
pub fn intervention_score(p: &Prepared) -> Outcome {
    let Some(reference) = p.run().constants.reference_task_accuracy else {
        return Outcome::undefined("there is no reference_task_accuracy");
    };
    match intervened(p) {
        Ok(accuracy) => Term { value: reference - accuracy.value, ..accuracy }.outcome(),
        Err(why) => Outcome::undefined(why),
    }
}

/// y*_acc^(k): the share of rows whose task is right after intervening on all concepts.
pub fn intervened_task_accuracy(p: &Prepared) -> Outcome {
    intervened(p).map_or_else(Outcome::undefined, |accuracy| accuracy.outcome())
}

fn intervened(p: &Prepared) -> Result<Term, String> {
    let classes = |name| p.column(name).and_then(|column| column.integers(0));
    let predictions = classes(TensorName::IntervenedTaskPredictions).ok_or("there are no intervened predictions")?;
    let labels = classes(TensorName::TaskLabels).ok_or("the task labels are not classes")?;
    let hits: Vec<f64> = predictions.iter().zip(&labels).map(|(a, b)| f64::from(a == b)).collect();
    Ok(Term::mean_of_rows(&hits))
}
