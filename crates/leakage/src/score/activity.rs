//! The concepts that count as active in a row.
//!
//! Source: Clarity: The Flexibility-Interpretability Trade-Off in Sparsity-aware Concept Bottleneck Models, Sections
//! 4.1 and A.3. In this order:
//!
//! 1. `active_concepts`, where the model selects them itself;
//! 2. the K largest activations, where the run states `active_top_k`;
//! 3. with `head_weights`, concepts whose contribution |w_yj · ĉ_j| to the predicted class y is above a threshold;
//! 4. concepts whose activation is above a threshold.
//!
//! The threshold is the run's `activity_threshold`; without it the decision threshold of the activations, and for
//! contributions, which have none, the one of highest Clarity. Logits are taken through the sigmoid before they are
//! compared with a threshold in (0, 1).
//!
//! Only a concept of two classes is active or not. Others are in no row, as if the run did not have them.

use std::sync::Arc;

use crate::point::LeftOut;
use crate::prepare::Prepared;
use crate::run::ActivationKind;
use crate::tensor::TensorName;

use super::accuracy::predicted_task;
use super::left_out::Over;

/// Thresholds the paper evaluates (Appendix A).
pub const THRESHOLDS: [f64; 17] =
    [1e-4, 1e-3, 5e-3, 1e-2, 2e-2, 3e-2, 4e-2, 5e-2, 7e-2, 0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9];

/// Flags [n, k], row-major.
pub struct Flags {
    pub flags: Vec<bool>,
    pub concepts: usize,
}

impl Flags {
    pub fn rows(&self) -> impl Iterator<Item = &[bool]> {
        self.flags.chunks(self.concepts)
    }
}

/// The concepts that may be active.
#[derive(Clone)]
pub struct Counted {
    /// Why a concept never is; `None` for those that may be.
    pub whys: Vec<Option<String>>,
    /// Absent where all concepts may be.
    pub left_out: Option<LeftOut>,
}

impl Counted {
    /// Errors where no concept may be. The kind of an activation matters where it is compared with a threshold or with
    /// others.
    fn new(p: &Prepared, compares_activations: bool) -> Result<Self, String> {
        let run = p.run();
        let why = |i: usize| {
            let concept = &run.concepts[i];
            let is_number = compares_activations && run.activation_kind(i) == ActivationKind::Continuous;
            match concept.is_categorical() {
                _ if run.is_continuous(i) => Some("it is continuous, neither present nor absent".to_owned()),
                true => Some(format!("it has {} classes, expected two", concept.cardinality)),
                false if is_number => Some("its activation is continuous, neither on nor off".to_owned()),
                false => None,
            }
        };
        let whys: Vec<Option<String>> = (0..p.concepts()).map(why).collect();
        let named =
            |(why, i): (&Option<String>, usize)| Some(format!("concept '{}': {}", run.concepts[i].name, why.as_ref()?));
        let weights = p.weights_where(|i| whys[i].is_none());
        let (_, Over { left_out, undefined }) = Over::concepts(p.concepts(), &weights, whys.iter().zip(0..).map(named));
        undefined.map_or(Ok(Self { whys, left_out }), Err)
    }

    pub fn holds(&self, i: usize) -> bool {
        self.whys[i].is_none()
    }

    pub fn number(&self) -> usize {
        self.whys.iter().filter(|why| why.is_none()).count()
    }
}

/// The active concepts of each row.
pub struct Active {
    pub flags: Flags,
    pub counted: Counted,
}

/// Numbers [n, k] that a threshold turns into activity.
pub struct Strength {
    values: Vec<f64>,
    concepts: usize,
    pub counted: Counted,
    /// The threshold to use unless the run states one; `None` where nothing suggests one.
    pub natural_threshold: Option<f64>,
}

impl Strength {
    pub fn above(&self, threshold: f64) -> Active {
        let is_above = |row: &[f64]| -> Vec<bool> {
            row.iter().enumerate().map(|(i, &x)| x > threshold && self.counted.holds(i)).collect()
        };
        self.active(self.values.chunks(self.concepts).flat_map(is_above).collect())
    }

    /// The `k` largest of each row, the first of equals.
    fn largest(&self, k: usize) -> Active {
        let mut flags = vec![false; self.values.len()];
        let mut order: Vec<usize> = Vec::with_capacity(self.concepts);
        for (row, flags) in self.values.chunks(self.concepts).zip(flags.chunks_mut(self.concepts)) {
            order.clear();
            order.extend((0..self.concepts).filter(|&i| self.counted.holds(i)));
            order.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
            order.iter().take(k).for_each(|&i| flags[i] = true);
        }
        self.active(flags)
    }

    fn active(&self, flags: Vec<bool>) -> Active {
        Active { flags: Flags { flags, concepts: self.concepts }, counted: self.counted.clone() }
    }
}

/// Activity that needs no threshold, or the numbers to compare with one.
pub enum Activity {
    Known(Active),
    Compared(Strength),
}

/// Returns the activity that the run and its tensors state, by the order above.
pub fn activity(p: &Prepared) -> Result<Activity, String> {
    if let Some(column) = p.column(TensorName::ActiveConcepts) {
        let (counted, k) = (Counted::new(p, false)?, p.concepts());
        let stated = column.block(0..k);
        let flags = stated.iter().enumerate().map(|(at, &flag)| flag != 0.0 && counted.holds(at % k)).collect();
        return Ok(Activity::Known(Active { flags: Flags { flags, concepts: k }, counted }));
    }
    if let Some(k) = p.run().constants.active_top_k {
        return Ok(Activity::Known(activations(p)?.largest(k as usize)));
    }
    Ok(Activity::Compared(strength(p)?))
}

/// Returns the strengths that the threshold sweep compares: contributions where the run has `head_weights`, else
/// activations.
pub fn strength(p: &Prepared) -> Result<Strength, String> {
    if p.run().constants.head_weights.is_empty() { activations(p) } else { contributions(p) }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Whether each concept is present, by its label.
///
/// Unknown labels count as absent: see [`known`].
pub fn present(p: &Prepared) -> Result<Arc<Flags>, String> {
    p.try_shared("concepts present", || {
        let column = p.column(TensorName::ConceptLabels).ok_or("there are no concept labels")?;
        let flags = column.block(0..column.width()).iter().map(|&label| label > 0.0).collect();
        Ok(Flags { flags, concepts: p.concepts() })
    })
}

/// Whether the label of each concept is known.
pub fn known(p: &Prepared) -> Arc<Flags> {
    p.shared("concepts known", || {
        let column = p.column(TensorName::ConceptLabels).filter(|_| p.has_unknown_labels());
        let flags = match column {
            Some(column) => column.block(0..column.width()).iter().map(|&label| label >= 0.0).collect(),
            None => vec![true; p.rows() * p.concepts()],
        };
        Flags { flags, concepts: p.concepts() }
    })
}

/// Probabilities of presence, or the activations themselves where they are none.
fn activations(p: &Prepared) -> Result<Strength, String> {
    let counted = Counted::new(p, true)?;
    let is_logit: Vec<bool> = (0..p.concepts()).map(|i| p.run().activation_kind(i) == ActivationKind::Logit).collect();
    let values = p.activation_rows(|i, columns| match columns {
        [activation] if is_logit[i] => sigmoid(*activation),
        [activation] => *activation,
        [absent, present, ..] if is_logit[i] => sigmoid(present - absent),
        [_, present, ..] => *present,
        [] => f64::NAN,
    });
    let values = values.ok_or("its activations fit no layout")?;
    Ok(Strength { values, concepts: p.concepts(), counted, natural_threshold: Some(0.5) })
}

/// |w_yj · ĉ_j| with ĉ as the head receives it and y the predicted class.
fn contributions(p: &Prepared) -> Result<Strength, String> {
    let k = p.concepts();
    let weights = &p.run().constants.head_weights;
    let classes = weights.len() / k;
    let counted = Counted::new(p, false)?;
    let column = p.column(TensorName::ConceptActivations).ok_or("there are no concept activations")?;
    let blocks = p.run().activation_blocks(column.width()).ok_or("its activations fit no layout")?;
    if blocks.iter().enumerate().any(|(i, block)| counted.holds(i) && block.len() != 1) {
        return Err(format!(
            "head_weights has a weight a concept, but there are {} activation columns",
            column.width()
        ));
    }
    let predicted = predicted_task(p).map_err(|why| format!("contributions to the predicted class: {why}"))?;
    let mut values = p.activation_rows(|_, columns| columns[0]).ok_or("its activations fit no layout")?;
    for (row, &class) in values.chunks_mut(k).zip(&predicted) {
        // A head with one output has one row of weights for both classes.
        let class = if classes == 1 { 0 } else { usize::try_from(class).unwrap_or(usize::MAX) };
        let weights = class.checked_mul(k).and_then(|start| weights.get(start..start + k));
        let weights = weights.ok_or_else(|| format!("class {class} is predicted, head_weights has {classes}"))?;
        row.iter_mut().zip(weights).for_each(|(value, weight)| *value = (*value * weight).abs());
    }
    Ok(Strength { values, concepts: k, counted, natural_threshold: None })
}
