//! Task accuracy after all concepts were replaced by their true values.
//!
//! Source: Leakage and Interpretability in Concept-Based Models, eq. 5, doi:10.48550/arXiv.2504.14094.

use crate::point::Outcome;
use crate::prepare::Prepared;
use crate::tensor::TensorName;

use super::reference::reference;
use super::term::Term;

/// S_int = y_acc^(k) − y*_acc^(k). A reference accuracy that the run states is taken as known: the error is that of
/// y*_acc^(k). Without one, heads are trained on the true concepts: see [`super::reference`].
pub fn intervention_score(p: &Prepared) -> Outcome {
    let stated = p.run().constants.reference_task_accuracy;
    let score = intervened(p).and_then(|accuracy| {
        let reference = match stated {
            Some(value) => Term { value, excess: value, influence: vec![0.0; p.rows()], draw_variance: 0.0 },
            None => reference(p).map_err(|why| format!("reference_task_accuracy is not stated, and {why}"))?,
        };
        let rows = reference.influence.iter().zip(&accuracy.influence);
        let value = reference.value - accuracy.value;
        Ok(Term { value, excess: value, influence: rows.map(|(a, b)| a - b).collect(), draw_variance: 0.0 })
    });
    score.map_or_else(Outcome::undefined, |score| score.outcome())
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
