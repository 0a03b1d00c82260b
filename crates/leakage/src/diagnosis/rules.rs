//! The table of rules.

use super::causes;
use super::curve::Curve;
use super::heads;
use super::judgement::Judgement;
use super::sample;
use crate::limits::{
    ALIGNMENT, CONCEPT_ACCURACY, CTL_CONDITIONAL, CTL_EXCESS, CTL_R2, HEAD_GAP, ICL_CONDITIONAL, ICL_EXCESS,
    INCOMPLETE, INTERVENTION_HARM, JOINT_LEAKAGE, REFERENCE_ACCURACY, ROWS, TASK_EXCESS, TIES,
};

/// One thing that may be wrong with a run.
pub struct Rule {
    /// `[a-z_]+`.
    pub id: &'static str,
    /// The problem.
    pub title: &'static str,
    /// The subject that is examined, in two words.
    pub subject: &'static str,
    /// The origin of the rule: a section of the paper, or this project.
    pub source: &'static str,
    /// The advice where it is found, in a few words.
    pub action: &'static str,
    /// When it holds, and where its limits come from.
    pub help: fn() -> String,
    pub judge: fn(&Curve) -> Judgement,
}

/// The rule whose finding leaves nothing to conclude from scores of concepts.
pub(super) const LABEL_ORDER: &str = "labels_in_another_order";

/// All rules, in the order in which their findings are read.
pub const RULES: &[Rule] = &[
    Rule {
        id: LABEL_ORDER,
        title: "Labels in another order",
        subject: "Label columns",
        source: "this project",
        action: "Put concept_labels and concept_activations in one order, and number classes of the task alike",
        help: || {
            "Activations of some concepts predict the labels of others far better than their own: AUC at least 0.8 and \
             higher by at least 0.15, and no more than chance for their own beyond that. Or a binary concept has an AUC \
             of at most 0.2, also within the classes of the task; or the classes of a categorical one, or of the \
             task, are mostly right under other numbers, and by less than chance under their own. Then nothing else is concluded."
                .to_owned()
        },
        judge: sample::labels_in_another_order,
    },
    Rule {
        id: "interventions_fail",
        title: "Interventions fail",
        subject: "Interventions",
        source: "arXiv:2504.14094, Section 4",
        action: "Do not rely on its interventions",
        help: || {
            format!(
                "`intervention_drop` is above {INTERVENTION_HARM}, and `intervention_score` is not below it: the \
                 accuracy falls below what heads on the true concepts reach."
            )
        },
        judge: causes::interventions_fail,
    },
    Rule {
        id: "concepts_ignored",
        title: "Concepts ignored",
        subject: "Wrong interventions",
        source: "this project",
        action: "Do not use its concepts as explanations",
        help: || {
            format!(
                "`wrong_intervention_drop`, else `concept_ablation_drop`, is below {INTERVENTION_HARM}, or no further above \
                 `intervention_drop` where that is above {INTERVENTION_HARM}."
            )
        },
        judge: causes::concepts_ignored,
    },
    Rule {
        id: "insufficient_supervision",
        title: "Insufficient concept supervision",
        subject: "Concept supervision",
        source: "arXiv:2504.14094, Section 7",
        action: "Raise the weight of the concept loss",
        help: || {
            format!(
                "Leakage is shown and concepts are poorly learnt (`concept_accuracy` or `concept_auc` below \
                 {CONCEPT_ACCURACY}, at thresholds that fit). Leakage is shown by `ctl_conditional` above {CTL_CONDITIONAL}, \
                 of a task that is a number `ctl_conditional_r2` above {CTL_R2}, \
                 `icl_conditional` above {ICL_CONDITIONAL} or `joint_leakage` above {JOINT_LEAKAGE}, by \
                 `ctl_excess` above {CTL_EXCESS} or `icl_excess` above {ICL_EXCESS}, or by interventions that \
                 fail."
            )
        },
        judge: causes::insufficient_supervision,
    },
    Rule {
        id: "poorly_learnt_concepts",
        title: "Poorly learnt concepts",
        subject: "Concepts",
        source: "this project",
        action: "Train longer, or raise the weight of the concept loss",
        help: || "Concepts are poorly learnt, as above, and leakage is not shown.".to_owned(),
        judge: causes::poorly_learnt_concepts,
    },
    Rule {
        id: "over_expressive_encoding",
        title: "Over-expressive concept encoding",
        subject: "Concept encoding",
        source: "arXiv:2504.14094, Sections 7 and 9",
        action: "Reduce the capacity of the concept encoding",
        help: || {
            format!(
                "A leakage score is above its limit although concepts are well learnt, the concept set is \
                 complete, the head is not misspecified and interventions do not show that the information is \
                 harmless; or embeddings have an `embedding_ct_conditional` above {CTL_CONDITIONAL} and above the \
                 `ctl_conditional` of the activations."
            )
        },
        judge: causes::over_expressive_encoding,
    },
    Rule {
        id: "removable_information",
        title: "Harmless leakage",
        subject: "Harmless leakage",
        source: "this project",
        action: "Do not read an activation as the degree of its concept",
        help: || {
            format!(
                "A leakage score is above its limit, `intervention_drop` is below {INTERVENTION_HARM}, and concepts are \
                 not ignored. Embedding models are not judged."
            )
        },
        judge: causes::removable_information,
    },
    Rule {
        id: "incomplete_concept_set",
        title: "Incomplete concept set",
        subject: "Concept set",
        source: "arXiv:2504.14094, Sections 7 and 9",
        action: "Add the concepts that the task needs",
        help: || {
            format!(
                "No head on the true concepts reaches an accuracy of {REFERENCE_ACCURACY} \
                 (`reference_accuracy_linear`, `reference_accuracy_mlp`, or the run's `reference_task_accuracy`): \
                 halfway between the incomplete and the complete sets of Table 3. Or their balanced accuracy is below \
                 {INCOMPLETE}, the highest of the incomplete: where one class is frequent, any head is accurate. A task \
                 whose labels are noisy looks the same, and so do too few rows for a head."
            )
        },
        judge: causes::incomplete_concept_set,
    },
    Rule {
        id: "beyond_true_concepts",
        title: "Task beyond the true concepts",
        subject: "Task accuracy",
        source: "arXiv:2606.10669",
        action: "Annotate what the task uses beyond the concepts",
        help: || {
            format!(
                "`task_excess` is above {TASK_EXCESS}. The leakage of an incomplete concept set is called benign \
                 where interventions still reach what the true concepts allow."
            )
        },
        judge: causes::beyond_true_concepts,
    },
    Rule {
        id: "misspecified_head",
        title: "Misspecified head",
        subject: "Task head",
        source: "arXiv:2504.14094, Sections 7 and 9",
        action: "Give the head a hidden layer",
        help: || {
            format!(
                "On the true concepts an MLP head is more accurate than the run's own by more than {HEAD_GAP}: \
                 half of the least drop in Table 3. Its own is known by its `reference_task_accuracy`, or is \
                 linear where the run states `head_weights` or has a linear layer for `head`."
            )
        },
        judge: heads::misspecified_head,
    },
    Rule {
        id: "alignment_leakage",
        title: "Alignment leakage",
        subject: "Alignment",
        source: "arXiv:2504.14094, Section 8",
        action: "Do not conclude from an embedding's agreement with its concept that the model uses the concept",
        help: || format!("`alignment_leakage` is above {ALIGNMENT}; without alignment leakage it is 0."),
        judge: causes::alignment_leakage,
    },
    Rule {
        id: "saturation",
        title: "Saturation instead of leakage",
        subject: "Saturation",
        source: "this project",
        action: "Compare only evaluations with the same tie fraction",
        help: || {
            format!(
                "`icl_excess` has risen since its lowest evaluation while the tie fraction moved by more than \
                 {TIES} and neither `ctl_excess` nor `icl_label_excess`, whose normalisers ties do not move, has \
                 risen. The limit is that of the default alert."
            )
        },
        judge: sample::saturation,
    },
    Rule {
        id: "too_few_rows",
        title: "Sample too small",
        subject: "Sample size",
        source: "this project",
        action: "Evaluate more rows",
        help: || {
            format!(
                "Fewer than {ROWS} rows with concept labels, and no leakage shown; or the interval of `ctl_conditional`, \
                 `icl_conditional`, `intervention_drop`, `ctl_excess` or `icl_excess` reaches at least as far to \
                 each side as the limit of the score."
            )
        },
        judge: sample::too_few_rows,
    },
];
