//! How well small networks predict concepts from the activations of others: the Oracle Impurity Score, and the matching
//! of unsupervised concepts.
//!
//! Source: Towards Robust Metrics for Concept Representation Evaluation, definitions 3.1-3.2, Appendices A.3 and A.5,
//! doi:10.1609/aaai.v37i10.26392. The training budget is part of the definition: 25 epochs do not fit everything.
//!
//! All scores here are made of the same two [matrices](purity).

mod purity;
mod row;

use crate::point::{Outcome, ScoreValue, Undefined};
use crate::prepare::Prepared;

use super::left_out::Over;
use super::pairs::{Matrix, mean};
use super::representation::Representation;
use super::term::mean_over_concepts;

use purity::{cells, first_error, purity_of};

/// Concepts whose embeddings are scored beside activations.
const MOST_BESIDE: usize = 40;

/// (2/k) · ‖π(ĉ) − π(c)‖_F, definition 3.2: twice the root mean square of the entries that have a value. A concept's
/// value is that of its row.
pub fn ois(p: &Prepared) -> Result<Outcome, String> {
    ois_of(p, Representation::first(p))
}

/// OIS of the embeddings. Beside activations it is undefined for many concepts, because k² more networks would delay the
/// other slow scores.
pub fn embedding_ois(p: &Prepared) -> Result<Outcome, String> {
    let k = p.concepts();
    if k > MOST_BESIDE && Representation::first(p) == Representation::Activations {
        return Err(format!(
            "{k} concepts are more than {MOST_BESIDE}: networks that read an embedding for each pair would hold up the other \
             slow scores; ois is of the embeddings in a run without concept_activations"
        ));
    }
    ois_of(p, Representation::Embeddings)
}

fn ois_of(p: &Prepared, representation: Representation) -> Result<Outcome, String> {
    let purity = purity_of(p, representation)?;
    Ok(purity.impurity(&(0..p.concepts()).map(Some).collect::<Vec<_>>(), true))
}

/// Mean over concepts of π_ii(ĉ): how well an activation predicts its own concept; the matrix π(ĉ).
pub fn purity(p: &Prepared) -> Result<Outcome, String> {
    let purity = purity_of(p, Representation::first(p))?;
    let matrix = Some(cells(&purity.learnt));
    Ok(match mean_over_concepts(p, &p.class_weights(), &purity.own, |term| term.value) {
        Outcome::Value(value) => Outcome::Value(ScoreValue { matrix, ..value }),
        Outcome::Undefined(undefined) => Outcome::Undefined(Undefined { matrix, ..undefined }),
    })
}

/// Mean over i ≠ j of π_ij(c): how well one true concept predicts another; the matrix π(c), whose diagonal is 1.
pub fn oracle_purity(p: &Prepared) -> Result<Outcome, String> {
    let (k, purity) = (p.concepts(), purity_of(p, Representation::first(p))?);
    if k < 2 {
        return Err("there is one concept, pairs need at least two".to_owned());
    }
    let matrix = cells(&purity.oracle);
    let over = purity.over_pairs(&matrix, first_error(&purity.oracle));
    let left_out = over.left_out.as_ref().map_or(0, |left_out| left_out.pairs as usize);
    Ok(mean(matrix, over, || purity.between.standard_error() / (k * (k - 1) - left_out) as f64))
}

/// Mean AUC of predicting true concepts from the learnt ones matched to them (Appendix A.5): of all pairs not yet
/// used, that of highest AUC is matched next. The matrix has 1 where learnt i is matched to true j; with latents, whose
/// rows are those matched to the concepts, it is π of these rows.
pub fn alignment(p: &Prepared) -> Result<Outcome, String> {
    let purity = purity_of(p, Representation::first(p))?;
    let matching = purity.matching()?;
    let k = matching.len();
    let auc = |(j, i): (usize, &Option<usize>)| purity.learnt[(*i)?][j].as_ref().ok().copied();
    let aucs: Vec<Option<f64>> = matching.iter().enumerate().map(auc).collect();
    let mut matrix: Matrix = vec![vec![Some(0.0); k]; k];
    for (j, i) in matching.iter().enumerate() {
        match i {
            Some(i) => matrix[*i][j] = Some(1.0),
            None => matrix.iter_mut().for_each(|row| row[j] = None),
        }
    }
    if purity.latents.is_some() {
        matrix = cells(&purity.learnt);
    }
    let columns = purity.latents.as_ref().unwrap_or(&matching).iter().enumerate();
    let curve = Some(columns.map(|(j, column)| (j as f64, column.map(|column| column as f64))).collect());
    let why = |auc: &Option<f64>| auc.is_none().then(|| first_error(&purity.learnt).unwrap_or_default());
    let (_, over) = Over::concepts(k, &p.class_weights(), aucs.iter().map(why));
    let count = aucs.iter().flatten().count();
    let value = aucs.iter().flatten().sum::<f64>() / count.max(1) as f64;
    let (per_concept, matrix, left_out) = (Some(aucs), Some(matrix), over.left_out);
    let value = ScoreValue { value, per_concept, matrix, curve, left_out, ..ScoreValue::default() };
    Ok(Outcome::of(over.undefined, value))
}

/// OIS of the learnt concepts in the order of the true ones they are matched to.
pub fn aligned_ois(p: &Prepared) -> Result<Outcome, String> {
    let purity = purity_of(p, Representation::first(p))?;
    Ok(purity.impurity(&purity.matching()?, false))
}
