//! The limits at which scores count as evidence, for alerts and the diagnosis alike, with the data that fixed each.
//!
//! A limit means the same for 2 and for 200 classes, and for 3 and for 112 concepts: conditional leakage is a share of
//! the task's entropy, the others are differences of accuracies.

/// `intervention_drop` above which the task rests on something else than the concepts. Sound models end below 0.02; a
/// model that loses 0.3 has collapsed.
pub const INTERVENTION_DROP: f64 = 0.15;

/// `ctl_conditional` above which a model holds more about the task than sound ones do: on handwritten digits, models that
/// collapse under intervention have at least 0.16, sound ones at most 0.12.
pub const CTL_CONDITIONAL: f64 = 0.16;

/// `concept_accuracy` below which concepts are not learnt. High conditional leakage with well learnt concepts is
/// information that an intervention removes without harm: logit bottlenecks have 0.2 at a drop near 0.
pub const CONCEPT_ACCURACY: f64 = 0.9;

/// `task_accuracy` less the better of `reference_accuracy_linear` and `reference_accuracy_mlp`, above which a model
/// predicts what the true concepts do not determine.
pub const TASK_EXCESS: f64 = 0.1;
