//! The table of all scores. A row is everything the rest of the program knows about a score: its JSON key, metric
//! families, page entry, documentation and the text of its refusal follow from here.

use std::fmt;

use crate::point::{CurveDescription, Outcome, ScoreDescription, Significance};
use crate::prepare::Prepared;
use crate::run::MAX_LATENTS;
use crate::tensor::TensorName;

use super::{
    accuracy, cas, clarity, completeness, conditional, conditional_embedding, conditional_null, dci, disentanglement,
    embedding, feature_alignment, head, impurity, intervention, joint, leakage, niche, r4, reference, task, text,
    trust,
};

/// Goes up when a score's definition changes, which distinguishes its old points from new ones.
pub const CATALOGUE_VERSION: u32 = 2;

/// One score.
pub struct Score {
    pub id: &'static str,
    pub title: &'static str,
    pub family: &'static str,
    pub paper: Paper,
    /// Number in the paper; empty for this project's own.
    pub equation: &'static str,
    pub unit: &'static str,
    /// Least and largest value the definition allows, estimation noise aside.
    pub range: (f64, f64),
    /// Gives a value for each concept.
    pub per_concept: bool,
    /// Gives a value for each pair of concepts.
    pub matrix: bool,
    /// Comes with a curve, over this.
    pub curve: Option<CurveDescription>,
    pub inputs: &'static [Input],
    /// Whether it is defined for activations that were learnt without labels, of which none belongs to a concept.
    pub latents: bool,
    pub cost: Cost,
    /// Why its values come without a standard error; `None` where they have one.
    pub no_standard_error: Option<&'static str>,
    /// What it shows, and what it does not.
    pub help: &'static str,
    /// When to trust it: rows, classes and widths for which it was measured, and what it does not see.
    pub trust: &'static str,
    pub compute: fn(&Prepared) -> Outcome,
    /// The permutation test of its values, if it has one. Slow, whatever the cost of the score.
    pub test: Option<fn(&Prepared) -> Significance>,
}

/// What a row need not state.
const ROW: Score = Score {
    id: "",
    title: "",
    family: "",
    paper: Paper::Common,
    equation: "",
    unit: "",
    range: (0.0, 1.0),
    per_concept: false,
    matrix: false,
    curve: None,
    inputs: &[],
    latents: false,
    cost: Cost::Fast,
    no_standard_error: None,
    help: "",
    trust: "",
    compute: |_| Outcome::undefined("nothing computes it"),
    test: None,
};

/// How long a score takes, which decides how often it is computed while a model trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Seconds at most: with every point of the curve.
    Fast,
    /// Trains networks, up to a minute: on a slower cadence of its own, which the fast scores never wait for.
    Slow,
}

impl Score {
    /// The row without its function and inputs, for those who only show scores.
    pub fn describe(&self) -> ScoreDescription {
        ScoreDescription {
            id: self.id,
            title: self.title,
            family: self.family,
            paper: self.paper.citation(),
            equation: self.equation,
            unit: self.unit,
            range: self.range,
            per_concept: self.per_concept,
            matrix: self.matrix,
            curve: self.curve,
            help: self.help,
        }
    }
}

/// Something a score cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Tensor(TensorName),
    EitherTensor(TensorName, TensorName),
    ReferenceTaskAccuracy,
    HeadWeights,
    ConceptParts,
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(name) => write!(f, "{name}"),
            Self::EitherTensor(a, b) => write!(f, "{a} or {b}"),
            Self::ReferenceTaskAccuracy => f.write_str("reference_task_accuracy"),
            Self::HeadWeights => f.write_str("head_weights"),
            Self::ConceptParts => f.write_str("concept_parts"),
        }
    }
}

/// Where a score is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paper {
    /// Leakage and Interpretability in Concept-Based Models, arXiv:2504.14094.
    Leakage,
    /// Towards Robust Metrics for Concept Representation Evaluation, doi:10.1609/aaai.v37i10.26392.
    Impurity,
    /// Clarity: The Flexibility-Interpretability Trade-Off in Sparsity-aware Concept Bottleneck Models.
    Clarity,
    /// On the Concept Trustworthiness in Concept Bottleneck Models, AAAI 2024.
    Trustworthiness,
    /// Evaluating the Unseen: A Novel Framework for Assessing Unsupervised Concept Bottleneck Models.
    TextImage,
    /// A Framework for the Quantitative Evaluation of Disentangled Representations, ICLR 2018.
    Disentanglement,
    /// Benchmarks, Algorithms, and Metrics for Hierarchical Disentanglement, ICML 2021.
    Hierarchical,
    /// Concept Embedding Models: Beyond the Accuracy-Explainability Trade-Off, NeurIPS 2022.
    Embeddings,
    /// On Completeness-aware Concept-Based Explanations in Deep Neural Networks, NeurIPS 2020.
    Completeness,
    /// VLG-CBM: Training Concept Bottleneck Models with Vision-Language Guidance, NeurIPS 2024.
    Guidance,
    /// Defined by this project.
    Own,
    /// Textbook statistics.
    Common,
}

impl Paper {
    pub const fn citation(self) -> &'static str {
        match self {
            Self::Leakage => "Leakage and Interpretability in Concept-Based Models, doi:10.48550/arXiv.2504.14094",
            Self::Impurity => {
                "Towards Robust Metrics for Concept Representation Evaluation, doi:10.1609/aaai.v37i10.26392"
            }
            Self::Clarity => {
                "Clarity: The Flexibility-Interpretability Trade-Off in Sparsity-aware Concept Bottleneck Models, \
                 under review"
            }
            Self::Trustworthiness => {
                "On the Concept Trustworthiness in Concept Bottleneck Models, AAAI 2024, volume 38, pages 21161-21168"
            }
            Self::TextImage => {
                "Evaluating the Unseen: A Novel Framework for Assessing Unsupervised Concept Bottleneck Models, \
                 under review"
            }
            Self::Disentanglement => {
                "A Framework for the Quantitative Evaluation of Disentangled Representations, ICLR 2018, \
                 openreview.net/forum?id=By-7dz-AZ"
            }
            Self::Hierarchical => {
                "Benchmarks, Algorithms, and Metrics for Hierarchical Disentanglement, ICML 2021, \
                 doi:10.48550/arXiv.2106.05241"
            }
            Self::Embeddings => {
                "Concept Embedding Models: Beyond the Accuracy-Explainability Trade-Off, NeurIPS 2022, \
                 doi:10.48550/arXiv.2209.09056"
            }
            Self::Completeness => {
                "On Completeness-aware Concept-Based Explanations in Deep Neural Networks, NeurIPS 2020, \
                 doi:10.48550/arXiv.1910.07969"
            }
            Self::Guidance => {
                "VLG-CBM: Training Concept Bottleneck Models with Vision-Language Guidance, NeurIPS 2024, \
                 doi:10.48550/arXiv.2408.01432"
            }
            Self::Own => "this project",
            Self::Common => "",
        }
    }
}

pub fn find(id: &str) -> Option<&'static Score> {
    CATALOGUE.iter().find(|score| score.id == id)
}

use TensorName::{
    ActiveConcepts, ConceptActivations, ConceptEmbeddings, ConceptLabels, CrossImageDifference, DeepFeatures,
    ImageEmbeddings, IntervenedTaskPredictions, InterventionPredictions, LocalizationMaps, LocalizationPeaks,
    NegativeEmbeddings, PartLocations, PositiveEmbeddings, PredictedText, PredictedTextEmbeddings, ReferenceText,
    ReferenceTextEmbeddings, ShallowFeatures, TaskLabels, TaskLogits, TaskPredictions, WrongInterventionPredictions,
};

const LEAKAGE: &str = "leakage";
const EMBEDDING: &str = "embedding leakage";
const ACCURACY: &str = "accuracy";
const CLARITY: &str = "clarity";
const TRUST: &str = "trustworthiness";
const TEXT: &str = "text and image";
const IMPURITY: &str = "impurity";

const ACTIVATIONS_AND_LABELS: &[Input] = &[Input::Tensor(ConceptActivations), Input::Tensor(ConceptLabels)];
const ACTIVATIONS_AND_ALL_LABELS: &[Input] =
    &[Input::Tensor(ConceptActivations), Input::Tensor(ConceptLabels), Input::Tensor(TaskLabels)];
const ACTIVITY: Input = Input::EitherTensor(ActiveConcepts, ConceptActivations);
const TASK_PREDICTED: Input = Input::EitherTensor(TaskPredictions, TaskLogits);
const ACTIVITY_AND_ALL_LABELS: &[Input] =
    &[ACTIVITY, Input::Tensor(ConceptLabels), TASK_PREDICTED, Input::Tensor(TaskLabels)];
const SWEPT: &[Input] =
    &[Input::Tensor(ConceptActivations), Input::Tensor(ConceptLabels), TASK_PREDICTED, Input::Tensor(TaskLabels)];
const REPRESENTATION_AND_LABELS: &[Input] =
    &[Input::EitherTensor(ConceptActivations, ConceptEmbeddings), Input::Tensor(ConceptLabels)];
const TEXTS: &[Input] = &[Input::Tensor(PredictedText), Input::Tensor(ReferenceText)];
const EMBEDDINGS_AND_ALL_LABELS: &[Input] =
    &[Input::Tensor(ConceptEmbeddings), Input::Tensor(ConceptLabels), Input::Tensor(TaskLabels)];
const EMBEDDINGS_AND_LABELS: &[Input] = &[Input::Tensor(ConceptEmbeddings), Input::Tensor(ConceptLabels)];

const INTERVENED: Input = Input::EitherTensor(IntervenedTaskPredictions, InterventionPredictions);

const OVER_INTERVENTIONS: CurveDescription = CurveDescription {
    x: "share of concepts set to their true values",
    y: "Task accuracy",
    best: None,
    beside: Some("wrong_intervention_drop"),
};
const OVER_WRONG_INTERVENTIONS: CurveDescription =
    CurveDescription { x: "share of concepts set to wrong values", y: "Task accuracy", best: None, beside: None };
/// Of scores that are means of rows.
const MEANS: &str = "Accuracies, F1, AUC and other functions of means of rows: intervals of ±1.96 standard errors hold the \
    expected value in 93 to 96 % of 500 synthetic data sets.";
/// Of scores from neighbours in vectors.
const WIDTH: &str = "Compare models of one width only: Gaussian embeddings with a truth of 0.913 read 0.908 at d = 16 and 0.804 \
    at d = 64; the published estimator reads 0.751 at d = 16, for its rounding.";
/// Of heads that the score trains.
const FIFTH: &str = "Tested on a fifth of the rows: at N = 2,000 the standard error of an accuracy of 0.9 is 0.015.";

const OVER_NICHES: CurveDescription =
    CurveDescription { x: "niche threshold β", y: "Mean AUC", best: None, beside: None };
const REPRESENTATION_OF_CAS: &[Input] =
    &[Input::EitherTensor(ConceptEmbeddings, ConceptActivations), Input::Tensor(ConceptLabels)];

const FEATURES: &[Input] = &[Input::Tensor(DeepFeatures), Input::Tensor(ShallowFeatures)];

/// Of a ratio whose divisor may be small.
const UNBOUNDED: (f64, f64) = (-1e6, 1e6);

pub static CATALOGUE: &[Score] = &[
    Score {
        id: "ctl",
        title: "Concepts-task leakage (CTL)",
        family: LEAKAGE,
        paper: Paper::Leakage,
        equation: "6-7",
        unit: "share of H(y)",
        per_concept: true,
        inputs: ACTIVATIONS_AND_ALL_LABELS,
        help: "Information about the task in each learnt concept beyond what the true concept has, clipped at 0.",
        trust: "From 500 rows on; below, errors are as large as the default limits. With two classes it follows what \
                an intervention costs (r = 0.88 and 0.85 over 24 models each of TabularToy(0.25) and (0.75)); with \
                ten it does not: r = 0.44 over 60 bottlenecks on digits with 7 concepts, where ctl_conditional has \
                0.96. It is leakage less what was not learnt, so a model with a concept accuracy of 0.54 that loses \
                0.88 of accuracy reads 0.11. Blind to what several concepts say together: 0.013 for an exclusive or \
                of two logits, of which joint_leakage finds 0.72 or more.",
        compute: leakage::ctl,
        ..ROW
    },
    Score {
        id: "ctl_excess",
        title: "Concepts-task leakage, unclipped",
        family: LEAKAGE,
        paper: Paper::Own,
        equation: "6-7 unclipped",
        unit: "share of H(y)",
        range: (-1.0, 1.0),
        per_concept: true,
        inputs: ACTIVATIONS_AND_ALL_LABELS,
        help: "CTL without clipping: negative when concepts are badly learnt, and free of the upward bias that \
               clipping gives to noise. Trends and tests run on it.",
        trust: "As ctl: r = 0.44 with the loss under intervention on digits, and 0.11 for a model that loses 0.88. \
                Intervals of ±1.96 errors cover the expected value in 91 to 92 % of data sets (N = 400 and 600).",
        compute: leakage::ctl_excess,
        ..ROW
    },
    Score {
        id: "icl",
        title: "Interconcept leakage (ICL)",
        family: LEAKAGE,
        paper: Paper::Leakage,
        equation: "8-9",
        unit: "normalised MI",
        per_concept: true,
        matrix: true,
        inputs: ACTIVATIONS_AND_LABELS,
        help: "Normalised information between learnt concepts beyond that between the true ones, clipped at 0 per \
               pair. Comparable only at equal N: its normaliser grows with the number of rows.",
        trust: "Only at equal N: it is 29 % lower at 10,000 rows than at 1,000 with the information unchanged. Where \
                true concepts are correlated it reads 0 whatever leaks: 0.0007 for a model of TabularToy(0.75) whose \
                accuracy fell from 0.94 to 0.11 under intervention. r with that loss is 0.10 on digits with 7 \
                concepts, 0.83 on TabularToy(0.25). Activations in half precision raise it from 0.25 to 0.28. An \
                exclusive or of two logits reads 0.001.",
        compute: leakage::icl,
        ..ROW
    },
    Score {
        id: "icl_excess",
        title: "Interconcept leakage, unclipped",
        family: LEAKAGE,
        paper: Paper::Own,
        equation: "8-9 unclipped",
        unit: "normalised MI",
        range: (-1.0, 1.0),
        per_concept: true,
        matrix: true,
        inputs: ACTIVATIONS_AND_LABELS,
        help: "ICL without clipping. Trends and tests run on it. Comparable only at equal N.",
        trust: "As icl. On digits with 7 concepts its mean is −0.12 for models that lose 0.88 under intervention and \
                −0.11 for sound ones. Intervals of ±1.96 errors cover the expected value in 90 to 92 % of data sets \
                (N = 400 and 600).",
        compute: leakage::icl_excess,
        ..ROW
    },
    Score {
        id: "icl_label",
        title: "Interconcept leakage against labels",
        family: LEAKAGE,
        paper: Paper::Own,
        unit: "share of H(c_j)",
        per_concept: true,
        matrix: true,
        inputs: ACTIVATIONS_AND_LABELS,
        help: "Information about the other true concepts in each learnt concept beyond what the true concept has, \
               clipped at 0 per pair. This project's own score: it stays sensitive where concepts are correlated and \
               ICL reads 0, and is less specific, for most clean models show a little. It stands beside ICL, never \
               in its place.",
        trust: "More sensitive and less specific than icl: over 48 models of TabularToy at N = 1,000 its area under \
                the curve for S_int above 0.05 is 0.82 and 0.75 (δ = 0.25 and 0.75) where icl has 0.74 and 0.58, and \
                most clean checkpoints read more than 0.005. On digits with 7 concepts it does not follow \
                interventions either: r = 0.13, where icl_conditional has 0.92.",
        compute: leakage::icl_label,
        ..ROW
    },
    Score {
        id: "icl_label_excess",
        title: "Interconcept leakage against labels, unclipped",
        family: LEAKAGE,
        paper: Paper::Own,
        unit: "share of H(c_j)",
        range: (-1.0, 1.0),
        per_concept: true,
        matrix: true,
        inputs: ACTIVATIONS_AND_LABELS,
        help: "icl_label without clipping. Trends and tests run on it.",
        trust: "As icl_label. Intervals of ±1.96 errors cover the expected value in 89 to 92 % of data sets (N = 400 \
                and 600).",
        compute: leakage::icl_label_excess,
        ..ROW
    },
    Score {
        id: "ctl_conditional",
        title: "Conditional concepts-task leakage",
        family: LEAKAGE,
        paper: Paper::Own,
        unit: "share of H(y)",
        per_concept: true,
        inputs: ACTIVATIONS_AND_ALL_LABELS,
        help: "I(ĉ_i; y | c_i) / H(y): information about the task in each learnt concept beyond its own true \
               concept, unclipped. CTL subtracts from it what was not learnt, so badly learnt models look clean \
               there and not here. Also positive for an honest soft predictor and for noisy concept labels: compare \
               with a bottleneck that was trained without the task. Blind to information that only several concepts \
               have together.",
        trust: "Over 60 bottlenecks on digits r with the loss of accuracy under intervention is 0.96 (7 concepts) \
                and 0.95 (4); the 40 that lose more than 0.3 read at least 0.16, the 12 sound ones at most 0.12. \
                Early epochs pass through 0.16. Logit models of TabularToy that lose nothing read 0.2: information \
                that an intervention removes without harm. The scale depends on classes and concepts: at 200 \
                classes, 112 concepts and 2,048 rows independent noise reads 0.000 and a class shift of one standard \
                deviation 0.07 for each concept, which is severe.",
        compute: conditional::concepts_task,
        test: Some(conditional_null::concepts_task),
        ..ROW
    },
    Score {
        id: "icl_conditional",
        title: "Conditional interconcept leakage",
        family: LEAKAGE,
        paper: Paper::Own,
        unit: "share of H(c_j)",
        per_concept: true,
        matrix: true,
        inputs: ACTIVATIONS_AND_LABELS,
        help: "I(ĉ_i; c_j | c_i) / H(c_j): information about every other true concept in each learnt concept beyond \
               its own true concept, unclipped, mean over ordered pairs. Blind to information about the task that no \
               annotated concept has, and to information that only several concepts have together.",
        trust: "Over 60 bottlenecks on digits r with the loss of accuracy under intervention is 0.92 (7 concepts) \
                and 0.88 (4); 0.86 and 0.63 on TabularToy(0.25) and (0.75). Models with λ = 0.01 read 0.27, sound \
                ones 0.01 to 0.05.",
        compute: conditional::interconcept,
        test: Some(conditional_null::interconcept),
        ..ROW
    },
    Score {
        id: "concept_gap",
        title: "Task information not learnt",
        family: LEAKAGE,
        paper: Paper::Own,
        unit: "share of H(y)",
        range: (-1.0, 1.0),
        per_concept: true,
        inputs: ACTIVATIONS_AND_ALL_LABELS,
        help: "ctl_conditional less ctl_excess of each concept, which estimates I(c_i; y | ĉ_i) / H(y): information \
               about the task in the true concept and not in the learnt one. CTL subtracts it from leakage. High \
               where concepts are badly learnt; it shows no leakage.",
        trust: "Says how much CTL hides. On digits it is 0.22 at λ = 0.01, where ctl_conditional is 0.33 and \
                ctl_excess 0.11, and 0.01 at λ = 5.",
        compute: conditional::gap,
        ..ROW
    },
    Score {
        id: "joint_leakage",
        title: "Joint leakage",
        family: LEAKAGE,
        paper: Paper::Own,
        unit: "share of H(y)",
        inputs: ACTIVATIONS_AND_ALL_LABELS,
        cost: Cost::Slow,
        help: "I(y; ĉ | c) / H(y) of all concepts at once: the held-out log loss of a predictor of the task from the true \
               concepts less that of one from both, cross-fitted over four parts of at most 4,096 rows. Sees what only two \
               concepts together tell, such as an exclusive or. Neither bound of the truth: what its predictors do not learn \
               from these rows is missing, such as effects of three and more activations among many and structure finer \
               than quarters of a stratum. joint_leakage_baseline says what there is to explain. A regression task counts \
               by the eighth of the rows it is in; rows of classes with fewer than four rows are left out. p_value: sign \
               flips of the differences of the rows' losses, less 0.001 of H(y).",
        trust: "At 2,048 rows, for a truth of 0.86: 0.74 for an exclusive or of two logits among 6 and 0.72 among \
                112; 0.80 for one of a logit and a concept; 0.77 for the distance of a logit from its mean; 0.53 for \
                the parity of three logits among 6. 20 weak shifts with a truth of 0.20 read 0.17. Honest \
                activations read −0.003 to 0.000, also with 112 concepts and 200 classes, and where the task is the \
                parity of 3 of 6 concepts. Missed: the parity of three logits among 112 (0.000 of 0.86) and a task \
                that changes with every half standard deviation of a logit (0.38 among 6, 0.02 among 112). At 600 \
                rows models chosen by chance can take it to −0.05. docs/peers.md has the laws and gradient boosting \
                beside it.",
        compute: joint::joint,
        ..ROW
    },
    Score {
        id: "joint_leakage_baseline",
        title: "Task uncertainty left by the true concepts",
        family: LEAKAGE,
        paper: Paper::Own,
        unit: "share of H(y)",
        inputs: ACTIVATIONS_AND_ALL_LABELS,
        cost: Cost::Slow,
        help: "The first of the two losses of joint_leakage over H(y): the held-out log loss of the best of a linear model, a \
               network and a table of concept patterns. Near 0: the true concepts determine the task, and nothing can leak \
               about it. Near 1: they say nothing of it. Above 1: too few rows to learn from.",
        trust: "0.00 where the task is the parity of 3 of 6 concepts, 0.01 with 200 classes of 112 noisy concepts at \
                2,048 rows, 1.00 where concepts are unrelated to the task.",
        compute: joint::joint_baseline,
        ..ROW
    },
    Score {
        id: "embedding_ct",
        title: "Task information in embeddings, Ĩ(CT)",
        family: EMBEDDING,
        paper: Paper::Leakage,
        equation: "10",
        unit: "share of H(y)",
        per_concept: true,
        inputs: &[Input::Tensor(ConceptEmbeddings), Input::Tensor(TaskLabels)],
        help: "Normalised information between each concept's weighted embedding and the task.",
        trust: "Compare models of one width only: Gaussian embeddings with a truth of 0.913 read 0.908 at d = 16 and \
                0.804 at d = 64; the published estimator reads 0.751 at d = 16, for its rounding. Intervals of ±1.96 \
                errors cover the expected value in 92 to 94 % of data sets (N = 400 and 600).",
        compute: embedding::concepts_task,
        ..ROW
    },
    Score {
        id: "embedding_ct_positive",
        title: "Task information in positive embeddings",
        family: EMBEDDING,
        paper: Paper::Leakage,
        equation: "10",
        unit: "share of H(y)",
        per_concept: true,
        inputs: &[Input::Tensor(PositiveEmbeddings), Input::Tensor(TaskLabels)],
        help: "Ĩ(CT) of the positive embeddings.",
        trust: WIDTH,
        compute: embedding::concepts_task_positive,
        ..ROW
    },
    Score {
        id: "embedding_ct_negative",
        title: "Task information in negative embeddings",
        family: EMBEDDING,
        paper: Paper::Leakage,
        equation: "10",
        unit: "share of H(y)",
        per_concept: true,
        inputs: &[Input::Tensor(NegativeEmbeddings), Input::Tensor(TaskLabels)],
        help: "Ĩ(CT) of the negative embeddings.",
        trust: WIDTH,
        compute: embedding::concepts_task_negative,
        ..ROW
    },
    Score {
        id: "embedding_ic",
        title: "Interconcept information in embeddings, Ĩ(IC)",
        family: EMBEDDING,
        paper: Paper::Leakage,
        equation: "11",
        unit: "share of H(c_j)",
        per_concept: true,
        matrix: true,
        inputs: EMBEDDINGS_AND_LABELS,
        help: "Normalised information between each concept's weighted embedding and every other true concept. The \
               paper's sum runs over j < i; as in its authors' code, all ordered pairs are averaged.",
        trust: WIDTH,
        compute: embedding::interconcept,
        ..ROW
    },
    Score {
        id: "embedding_ic_positive",
        title: "Interconcept information in positive embeddings",
        family: EMBEDDING,
        paper: Paper::Leakage,
        equation: "11",
        unit: "share of H(c_j)",
        per_concept: true,
        matrix: true,
        inputs: &[Input::Tensor(PositiveEmbeddings), Input::Tensor(ConceptLabels)],
        help: "Ĩ(IC) of the positive embeddings.",
        trust: WIDTH,
        compute: embedding::interconcept_positive,
        ..ROW
    },
    Score {
        id: "embedding_ic_negative",
        title: "Interconcept information in negative embeddings",
        family: EMBEDDING,
        paper: Paper::Leakage,
        equation: "11",
        unit: "share of H(c_j)",
        per_concept: true,
        matrix: true,
        inputs: &[Input::Tensor(NegativeEmbeddings), Input::Tensor(ConceptLabels)],
        help: "Ĩ(IC) of the negative embeddings.",
        trust: WIDTH,
        compute: embedding::interconcept_negative,
        ..ROW
    },
    Score {
        id: "embedding_ct_conditional",
        title: "Conditional task information in embeddings",
        family: EMBEDDING,
        paper: Paper::Own,
        unit: "share of H(y)",
        per_concept: true,
        inputs: EMBEDDINGS_AND_ALL_LABELS,
        help: "I(ĉ^w_i; y | c_i) / H(y): information about the task in each concept's weighted embedding beyond its \
               own true concept, unclipped. Vectors of many dimensions are estimated too low: compare models of one \
               dimension.",
        trust: WIDTH,
        compute: conditional_embedding::concepts_task,
        test: Some(conditional_null::embeddings_task),
        ..ROW
    },
    Score {
        id: "embedding_ct_conditional_positive",
        title: "Conditional task information in positive embeddings",
        family: EMBEDDING,
        paper: Paper::Own,
        unit: "share of H(y)",
        per_concept: true,
        inputs: &[Input::Tensor(PositiveEmbeddings), Input::Tensor(ConceptLabels), Input::Tensor(TaskLabels)],
        help: "embedding_ct_conditional of the positive embeddings.",
        trust: WIDTH,
        compute: conditional_embedding::concepts_task_positive,
        test: Some(conditional_null::positive_embeddings_task),
        ..ROW
    },
    Score {
        id: "embedding_ct_conditional_negative",
        title: "Conditional task information in negative embeddings",
        family: EMBEDDING,
        paper: Paper::Own,
        unit: "share of H(y)",
        per_concept: true,
        inputs: &[Input::Tensor(NegativeEmbeddings), Input::Tensor(ConceptLabels), Input::Tensor(TaskLabels)],
        help: "embedding_ct_conditional of the negative embeddings.",
        trust: WIDTH,
        compute: conditional_embedding::concepts_task_negative,
        test: Some(conditional_null::negative_embeddings_task),
        ..ROW
    },
    Score {
        id: "embedding_ic_conditional",
        title: "Conditional interconcept information in embeddings",
        family: EMBEDDING,
        paper: Paper::Own,
        unit: "share of H(c_j)",
        per_concept: true,
        matrix: true,
        inputs: EMBEDDINGS_AND_LABELS,
        help: "I(ĉ^w_i; c_j | c_i) / H(c_j): information about every other true concept in each concept's weighted \
               embedding beyond its own true concept, unclipped, mean over ordered pairs. Compare models of one \
               dimension.",
        trust: WIDTH,
        compute: conditional_embedding::interconcept,
        test: Some(conditional_null::embeddings_interconcept),
        ..ROW
    },
    Score {
        id: "embedding_self",
        title: "Information of embeddings about their own concept, Ĩ(self)",
        family: EMBEDDING,
        paper: Paper::Leakage,
        equation: "12",
        unit: "share of H(c_i)",
        per_concept: true,
        inputs: EMBEDDINGS_AND_LABELS,
        help: "Normalised information between each concept's weighted embedding and its own true concept.",
        trust: WIDTH,
        compute: embedding::own_concept,
        ..ROW
    },
    Score {
        id: "embedding_self_positive",
        title: "Information of positive embeddings about their own concept",
        family: EMBEDDING,
        paper: Paper::Leakage,
        equation: "12",
        unit: "share of H(c_i)",
        per_concept: true,
        inputs: &[Input::Tensor(PositiveEmbeddings), Input::Tensor(ConceptLabels)],
        help: "Ĩ(self) of the positive embeddings.",
        trust: WIDTH,
        compute: embedding::own_concept_positive,
        ..ROW
    },
    Score {
        id: "embedding_self_negative",
        title: "Information of negative embeddings about their own concept",
        family: EMBEDDING,
        paper: Paper::Leakage,
        equation: "12",
        unit: "share of H(c_i)",
        per_concept: true,
        inputs: &[Input::Tensor(NegativeEmbeddings), Input::Tensor(ConceptLabels)],
        help: "Ĩ(self) of the negative embeddings.",
        trust: WIDTH,
        compute: embedding::own_concept_negative,
        ..ROW
    },
    Score {
        id: "alignment_leakage",
        title: "Alignment leakage, Ĩ(align)",
        family: EMBEDDING,
        paper: Paper::Leakage,
        equation: "13",
        unit: "share of H(y)",
        range: (-2.0, 2.0),
        per_concept: true,
        inputs: &[
            Input::Tensor(PositiveEmbeddings),
            Input::Tensor(NegativeEmbeddings),
            Input::Tensor(ConceptLabels),
            Input::Tensor(TaskLabels),
        ],
        help: "How much more information about the task embeddings that agree with the true concept carry than those that \
               do not. \
               For each concept both groups are cut to the smaller one's size, so that N is equal in the subtraction.",
        trust: "Needs rows of both classes of each concept. Intervals of ±1.96 errors cover the expected value in 92 \
                to 94 % of data sets (N = 400 and 600). Compare models of one width only: Gaussian embeddings with a \
                truth of 0.913 read 0.908 at d = 16 and 0.804 at d = 64; the published estimator reads 0.751 at d = \
                16, for its rounding.",
        compute: embedding::alignment,
        ..ROW
    },
    Score {
        id: "intervention_score",
        title: "Intervention score, S_int",
        family: ACCURACY,
        paper: Paper::Leakage,
        equation: "5",
        unit: "accuracy",
        range: (-1.0, 1.0),
        inputs: &[INTERVENED, Input::Tensor(TaskLabels), Input::ReferenceTaskAccuracy],
        help: "Accuracy a head reaches on true concepts, minus the accuracy of this head after all concepts were \
               replaced by their true values. Where the run does not state reference_task_accuracy, it is that of \
               heads trained on the true concepts: the linear one's for a run with head_weights, else the better one's; \
               the score is then slow.",
        trust: "As good as the predictions it is given: logits set to 0 and 1 in place of their 5th and 95th \
                percentiles gave an accuracy of 0.69 where the percentiles gave 0.89. With trained reference heads: \
                tested on a fifth of the rows: at N = 2,000 the standard error of an accuracy of 0.9 is 0.015.",
        compute: intervention::intervention_score,
        ..ROW
    },
    Score {
        id: "reference_accuracy_linear",
        title: "Reference accuracy, linear head",
        family: ACCURACY,
        paper: Paper::Leakage,
        equation: "5",
        unit: "accuracy",
        inputs: &[Input::Tensor(ConceptLabels), Input::Tensor(TaskLabels)],
        cost: Cost::Slow,
        help: "Test accuracy of a linear head trained on the true concepts (Section 9 of P0). Low where the MLP's is high: a \
               linear head is misspecified. Low like the MLP's: the concept set is incomplete. The standard error is \
               that of the fifth of the rows it is tested on.",
        trust: FIFTH,
        compute: reference::linear,
        ..ROW
    },
    Score {
        id: "reference_accuracy_mlp",
        title: "Reference accuracy, MLP head",
        family: ACCURACY,
        paper: Paper::Leakage,
        equation: "5",
        unit: "accuracy",
        inputs: &[Input::Tensor(ConceptLabels), Input::Tensor(TaskLabels)],
        cost: Cost::Slow,
        help: "The same for a head with one hidden layer of 64 units.",
        trust: FIFTH,
        compute: reference::mlp,
        ..ROW
    },
    Score {
        id: "concept_completeness",
        title: "Concept completeness",
        family: ACCURACY,
        paper: Paper::Completeness,
        equation: "Definition 3.1",
        unit: "share of the model's accuracy",
        range: UNBOUNDED,
        inputs: &[Input::Tensor(ConceptActivations), TASK_PREDICTED, Input::Tensor(TaskLabels)],
        latents: true,
        cost: Cost::Slow,
        help: "(a_c - a_r) / (a_f - a_r): accuracy of the better of a linear and an MLP head trained on the activations, over \
               that of the model, both above the share of the most frequent class, on a fifth of the rows. Near 1 where the \
               bottleneck holds all that the model knows of the task, leaked or not; above 1 where a new head is better.",
        trust: "As the heads it trains: tested on a fifth of the rows: at N = 2,000 the standard error of an \
                accuracy of 0.9 is 0.015.",
        compute: completeness::of_activations,
        ..ROW
    },
    Score {
        id: "label_completeness",
        title: "Completeness of the true concepts",
        family: ACCURACY,
        paper: Paper::Own,
        unit: "share of the model's accuracy",
        range: UNBOUNDED,
        inputs: &[Input::Tensor(ConceptLabels), TASK_PREDICTED, Input::Tensor(TaskLabels)],
        cost: Cost::Slow,
        help: "Concept completeness with the true concepts in place of the activations. Below 1 the model is better at the \
               task than its concepts allow: the concept set is incomplete, or the model uses leaked information.",
        trust: "As the heads it trains: tested on a fifth of the rows: at N = 2,000 the standard error of an \
                accuracy of 0.9 is 0.015.",
        compute: completeness::of_labels,
        ..ROW
    },
    Score {
        id: "task_excess",
        title: "Task accuracy beyond the true concepts",
        family: ACCURACY,
        paper: Paper::Own,
        unit: "accuracy",
        range: (-1.0, 1.0),
        inputs: &[TASK_PREDICTED, Input::Tensor(TaskLabels), Input::ReferenceTaskAccuracy],
        help: "Task accuracy minus the accuracy that a head reaches on the true concepts. Above 0 the model predicts what \
               the concepts do not determine, and loses that much when all are set to their true values. Where the run \
               does not state reference_task_accuracy, heads are trained as for intervention_score, and the score is slow; \
               undefined then with fewer than 10 rows a class.",
        trust: "Of 173 sound models of nine data sets none ended above 0.02, and of 254 that collapse under intervention one \
                in twenty above 0.29: it sees only what no concept of the set determines. The heads are tested on a fifth \
                of the rows: at N = 2,000 the standard error of an accuracy of 0.9 is 0.015.",
        compute: reference::task_excess,
        ..ROW
    },
    Score {
        id: "intervened_task_accuracy",
        title: "Task accuracy after intervention",
        family: ACCURACY,
        paper: Paper::Leakage,
        equation: "5",
        unit: "accuracy",
        inputs: &[INTERVENED, Input::Tensor(TaskLabels)],
        help: "Share of rows whose task is right after all concepts were replaced by their true values.",
        trust: "As good as the predictions it is given: logits set to 0 and 1 in place of their 5th and 95th \
                percentiles gave 0.69 where the percentiles gave 0.89. Accuracies, F1, AUC and other functions of \
                means of rows: intervals of ±1.96 standard errors hold the expected value in 93 to 96 % of 500 \
                synthetic data sets.",
        compute: intervention::intervened_task_accuracy,
        ..ROW
    },
    Score {
        id: "intervention_drop",
        title: "Accuracy lost by intervention",
        family: ACCURACY,
        paper: Paper::Own,
        unit: "accuracy",
        range: (-1.0, 1.0),
        curve: Some(OVER_INTERVENTIONS),
        inputs: &[INTERVENED, Input::Tensor(TaskLabels)],
        help: "Task accuracy less task accuracy after all concepts were set to their true values. Near 0 or below where \
               the head reads concepts as concepts; large where it reads what leaked into them. Where concepts are badly \
               predicted, true ones help and can hide a loss: see the curve.",
        trust: "The outcome that leakage scores are judged by: 0.88 at λ = 0.01 and −0.03 at λ = 5 on digits with 7 \
                concepts. It needs the job's own head, and sees no leakage that an intervention removes without \
                harm.",
        compute: intervention::intervention_drop,
        ..ROW
    },
    Score {
        id: "intervention_area",
        title: "Area under the intervention curve",
        family: ACCURACY,
        paper: Paper::Own,
        unit: "accuracy",
        curve: Some(OVER_INTERVENTIONS),
        inputs: &[Input::Tensor(InterventionPredictions), Input::Tensor(TaskLabels)],
        help: "Mean task accuracy over the share of concepts set to their true values, from none to all. The order in \
               which concepts are set decides the curve between its ends: compare runs of one policy.",
        trust: MEANS,
        compute: intervention::intervention_area,
        ..ROW
    },
    Score {
        id: "wrong_intervention_drop",
        title: "Accuracy lost by wrong interventions",
        family: ACCURACY,
        paper: Paper::Own,
        unit: "accuracy",
        range: (-1.0, 1.0),
        curve: Some(OVER_WRONG_INTERVENTIONS),
        inputs: &[Input::Tensor(WrongInterventionPredictions), Input::Tensor(TaskLabels)],
        help: "Task accuracy less task accuracy after all concepts were set to wrong values. High in a model that \
               predicts through its concepts; near 0 in one that ignores them.",
        trust: MEANS,
        compute: intervention::wrong_intervention_drop,
        ..ROW
    },
    Score {
        id: "task_accuracy",
        title: "Task accuracy",
        family: ACCURACY,
        unit: "accuracy",
        inputs: &[TASK_PREDICTED, Input::Tensor(TaskLabels)],
        help: "Share of rows whose predicted class is the true one.",
        trust: MEANS,
        compute: accuracy::task_accuracy,
        ..ROW
    },
    Score {
        id: "task_f1",
        title: "Task F1 (macro)",
        family: ACCURACY,
        unit: "F1",
        inputs: &[TASK_PREDICTED, Input::Tensor(TaskLabels)],
        help: "F1 of class 1 of a task of two classes; with more, the mean over classes that occur or are predicted.",
        trust: MEANS,
        compute: task::task_f1,
        ..ROW
    },
    Score {
        id: "task_auc",
        title: "Task AUC (one class against the rest)",
        family: ACCURACY,
        unit: "AUC",
        inputs: &[Input::Tensor(TaskLogits), Input::Tensor(TaskLabels)],
        help: "Probability that a row of class 1 has the higher logit, ties counting one half; with more than two \
               classes the mean over classes that occur of each against the rest, by the softmax of the logits.",
        trust: MEANS,
        compute: task::task_auc,
        ..ROW
    },
    Score {
        id: "concept_accuracy",
        title: "Concept accuracy",
        family: ACCURACY,
        unit: "accuracy",
        per_concept: true,
        inputs: ACTIVATIONS_AND_LABELS,
        help: "Share of rows whose predicted concept is the true one, mean over concepts. It does not show leakage.",
        trust: "Follows collapse better than any published leakage score: r with the loss of accuracy under \
                intervention is −0.88 and −0.82 on digits, −0.94 and −0.85 on TabularToy. It says nothing of leakage \
                through concepts that are learnt well. Accuracies, F1, AUC and other functions of means of rows: \
                intervals of ±1.96 standard errors hold the expected value in 93 to 96 % of 500 synthetic data sets.",
        compute: accuracy::concept_accuracy,
        ..ROW
    },
    Score {
        id: "concept_f1",
        title: "Concept F1 (macro)",
        family: ACCURACY,
        unit: "F1",
        per_concept: true,
        inputs: ACTIVATIONS_AND_LABELS,
        help: "F1 of each concept's presence, mean over concepts; for categorical concepts the mean over classes.",
        trust: MEANS,
        compute: accuracy::concept_f1,
        ..ROW
    },
    Score {
        id: "concept_auc",
        title: "Concept AUC",
        family: ACCURACY,
        unit: "AUC",
        per_concept: true,
        inputs: ACTIVATIONS_AND_LABELS,
        help: "Probability that a row with the concept has a higher activation than one without, mean over concepts; \
               for categorical concepts the mean over pairs of classes.",
        trust: MEANS,
        compute: accuracy::concept_auc,
        ..ROW
    },
    Score {
        id: "concept_average_precision",
        title: "Concept mean average precision (mAP)",
        family: ACCURACY,
        unit: "average precision",
        per_concept: true,
        inputs: ACTIVATIONS_AND_LABELS,
        help: "Precision averaged over the rows with the concept, each at its own activation's rank, mean over \
               concepts; for categorical concepts the mean over classes.",
        trust: MEANS,
        compute: accuracy::concept_average_precision,
        ..ROW
    },
    Score {
        id: "sparsity",
        title: "Sparsity",
        family: CLARITY,
        paper: Paper::Clarity,
        unit: "share of concepts",
        per_concept: true,
        inputs: &[ACTIVITY],
        help: "Mean share of inactive concepts in a row. Active are active_concepts; without them the active_top_k \
               largest activations, or contributions |w_yj ĉ_j| of head_weights above activity_threshold (without it \
               the threshold of highest Clarity), or activations above activity_threshold (without it the decision \
               threshold). Logits are compared as probabilities.",
        trust: MEANS,
        compute: clarity::sparsity,
        ..ROW
    },
    Score {
        id: "precision",
        title: "Precision of active concepts",
        family: CLARITY,
        paper: Paper::Clarity,
        unit: "share of active concepts",
        inputs: &[ACTIVITY, Input::Tensor(ConceptLabels)],
        help: "Mean over rows of the share of active concepts that are present. Rows without an active concept are \
               left out: rows_without_active says how many.",
        trust: MEANS,
        compute: clarity::precision,
        ..ROW
    },
    Score {
        id: "rows_without_active",
        title: "Rows without an active concept",
        family: CLARITY,
        paper: Paper::Own,
        unit: "share of rows",
        inputs: &[ACTIVITY],
        help: "Share of rows that have no active concept and so no precision.",
        trust: MEANS,
        compute: clarity::rows_without_active,
        ..ROW
    },
    Score {
        id: "binary_accuracy",
        title: "Binary accuracy of active concepts",
        family: CLARITY,
        paper: Paper::Clarity,
        unit: "accuracy",
        per_concept: true,
        inputs: &[ACTIVITY, Input::Tensor(ConceptLabels)],
        help: "Share of rows in which a concept is active if and only if it is present, mean over concepts. High \
               wherever most concepts are absent and few are active.",
        trust: MEANS,
        compute: clarity::binary_accuracy,
        ..ROW
    },
    Score {
        id: "clarity",
        title: "Clarity",
        family: CLARITY,
        paper: Paper::Clarity,
        equation: "23",
        unit: "harmonic mean",
        inputs: ACTIVITY_AND_ALL_LABELS,
        help: "Harmonic mean of sparsity, precision and task accuracy, weighted by clarity_weights. docs/clarity.md \
               says which of the paper's rows are this form.",
        trust: MEANS,
        compute: clarity::clarity,
        ..ROW
    },
    Score {
        id: "clarity_dense",
        title: "Clarity without sparsity",
        family: CLARITY,
        paper: Paper::Clarity,
        equation: "23 without sparsity",
        unit: "harmonic mean",
        inputs: ACTIVITY_AND_ALL_LABELS,
        help: "Harmonic mean of precision and task accuracy, for models that do not aim at sparsity.",
        trust: MEANS,
        compute: clarity::clarity_dense,
        ..ROW
    },
    Score {
        id: "clarity_best",
        title: "Highest Clarity over thresholds",
        family: CLARITY,
        paper: Paper::Clarity,
        equation: "23",
        unit: "harmonic mean",
        curve: Some(CurveDescription {
            x: "activity threshold τ",
            y: "Clarity",
            best: Some("clarity_best_threshold"),
            beside: None,
        }),
        inputs: SWEPT,
        help: "Clarity at the best of the paper's 17 thresholds on contributions |w_yj ĉ_j|, or on activations where \
               the run has no head_weights, with the curve over all of them. Task accuracy is that of the model as it \
               is; the paper retrains its head at each threshold. The standard error takes the threshold as given.",
        trust: "The highest of 17 values on the same rows, so it is biased upwards; the standard error leaves that \
                out.",
        compute: clarity::clarity_best,
        ..ROW
    },
    Score {
        id: "clarity_best_threshold",
        title: "Threshold of highest Clarity",
        family: CLARITY,
        paper: Paper::Clarity,
        unit: "threshold",
        range: (1e-4, 0.9),
        inputs: SWEPT,
        no_standard_error: Some("it is one of 17 values"),
        help: "Where clarity_best was found, the lowest of equals.",
        trust: "One of 17 values, so it jumps; its error is not known.",
        compute: clarity::clarity_best_threshold,
        ..ROW
    },
    Score {
        id: "nec",
        title: "Number of effective concepts (NEC)",
        family: CLARITY,
        paper: Paper::Guidance,
        equation: "Section 4, NEC",
        unit: "concepts a class",
        range: (0.0, MAX_LATENTS as f64),
        inputs: &[Input::HeadWeights],
        latents: true,
        no_standard_error: Some("it counts weights"),
        help: "Weights of head_weights above 1e-5, over the number of classes: how many concepts a person reads to follow one \
               decision.",
        trust: "A count of the head's weights: no row enters it, so it is exact for every sample.",
        compute: head::effective_concepts,
        ..ROW
    },
    Score {
        id: "anec",
        title: "Accuracy at few effective concepts (ANEC)",
        family: CLARITY,
        paper: Paper::Guidance,
        equation: "Section 4, ANEC-avg",
        unit: "accuracy",
        curve: Some(CurveDescription { x: "effective concepts (NEC)", y: "Task accuracy", best: None, beside: None }),
        inputs: &[Input::HeadWeights, Input::Tensor(ConceptActivations), Input::Tensor(TaskLabels)],
        latents: true,
        help: "Task accuracy of the head cut to its largest weights, mean over 5, 10, 15, 20, 25 and 30 effective concepts; the \
               curve has each. Heads of many concepts do well on concepts without meaning, which this does not reward. The \
               authors fit a sparse head for each level before they cut, which is at least as accurate. Biases are head_bias, \
               or 0.",
        trust: MEANS,
        compute: head::accuracy_at_effective_concepts,
        ..ROW
    },
    Score {
        id: "mig",
        title: "Mutual information gap (MIG)",
        family: IMPURITY,
        paper: Paper::Impurity,
        unit: "share of H(c_j)",
        per_concept: true,
        inputs: ACTIVATIONS_AND_LABELS,
        latents: true,
        help: "For each true concept, the gap between the two largest informations that activations in 20 bins have \
               about it, over its entropy (Chen et al. 2018). The standard error takes the two as given.",
        trust: "Hardly moves between the pure and the impure rows of the impurity paper's Table 1, whose OIS are 4.7 \
                and 22.6 %: use ois.",
        compute: disentanglement::mig,
        ..ROW
    },
    Score {
        id: "sap",
        title: "Separated attribute predictability (SAP)",
        family: IMPURITY,
        paper: Paper::Impurity,
        unit: "accuracy",
        per_concept: true,
        inputs: ACTIVATIONS_AND_LABELS,
        cost: Cost::Slow,
        latents: true,
        help: "For each true concept, the gap between the two highest accuracies of balanced linear classifiers that \
               read one activation each (Kumar et al. 2018), on the fifth of the rows they were not trained on; of latents \
               the 256 whose ranks predict the concept best. The standard error is that of those rows and takes the \
               classifiers as given.",
        trust: "Hardly moves between the pure and the impure rows of the impurity paper's Table 1, whose OIS are 4.7 \
                and 22.6 %: use ois.",
        compute: disentanglement::sap,
        ..ROW
    },
    Score {
        id: "dci_disentanglement",
        title: "Disentanglement (DCI)",
        family: IMPURITY,
        paper: Paper::Disentanglement,
        equation: "Section 2, D",
        unit: "1 - entropy / ln k",
        matrix: true,
        inputs: ACTIVATIONS_AND_LABELS,
        latents: true,
        cost: Cost::Slow,
        no_standard_error: Some("the importances come from one fit"),
        help: "Whether each activation matters for one true concept only: 1 less the entropy of its importances, mean over \
               activations by their share of all importance. Importances are those of gradient-boosted trees (100 of depth \
               3, learning rate 0.1) that predict each concept from all activations, and the matrix; of more than 256 \
               columns trees read the 256 whose ranks predict the concept best.",
        trust: "Hardly moves between the pure and the impure rows of the impurity paper's Table 1, whose OIS are 4.7 \
                and 22.6 %: use ois.",
        compute: dci::disentanglement,
        ..ROW
    },
    Score {
        id: "dci_completeness",
        title: "Completeness (DCI)",
        family: IMPURITY,
        paper: Paper::Disentanglement,
        equation: "Section 2, C",
        unit: "1 - entropy / ln columns",
        per_concept: true,
        inputs: ACTIVATIONS_AND_LABELS,
        latents: true,
        cost: Cost::Slow,
        no_standard_error: Some("the importances come from one fit"),
        help: "Whether each true concept is captured by one activation: 1 less the entropy of the importances for it. It \
               does not say whether that is its own activation.",
        trust: "Hardly moves between the pure and the impure rows of the impurity paper's Table 1, whose OIS are 4.7 \
                and 22.6 %: use ois.",
        compute: dci::completeness,
        ..ROW
    },
    Score {
        id: "dci_informativeness",
        title: "Informativeness (DCI)",
        family: IMPURITY,
        paper: Paper::Disentanglement,
        equation: "Section 2, I",
        unit: "accuracy",
        per_concept: true,
        inputs: ACTIVATIONS_AND_LABELS,
        latents: true,
        cost: Cost::Slow,
        help: "How well all activations together predict each true concept: accuracy of the same trees on the fifth of the \
               rows they were not trained on. The standard error is that of these rows and takes the trees as given.",
        trust: "Hardly moves between the pure and the impure rows of the impurity paper's Table 1, whose OIS are 4.7 \
                and 22.6 %: use ois.",
        compute: dci::informativeness,
        ..ROW
    },
    Score {
        id: "r4",
        title: "R⁴: concept and activation determine each other",
        family: IMPURITY,
        paper: Paper::Hierarchical,
        equation: "Section 5",
        unit: "√(R² · R²)",
        per_concept: true,
        inputs: ACTIVATIONS_AND_LABELS,
        latents: true,
        cost: Cost::Slow,
        no_standard_error: Some("it is the largest of several"),
        help: "For each true concept the largest √(R²(activation → concept) · R²(concept → activation)) over the activations, \
               of gradient-boosted trees on held-out rows, mean over five choices of these. As in the authors' code the R² of \
               classes is an accuracy, so it does not fall to 0 where nothing is known.",
        trust: "Hardly moves between the pure and the impure rows of the impurity paper's Table 1, whose OIS are 4.7 \
                and 22.6 %: use ois.",
        compute: r4::r4,
        ..ROW
    },
    Score {
        id: "concept_alignment_score",
        title: "Concept alignment score (CAS)",
        family: IMPURITY,
        paper: Paper::Embeddings,
        equation: "Section 4, CAS",
        unit: "homogeneity",
        per_concept: true,
        inputs: REPRESENTATION_OF_CAS,
        cost: Cost::Slow,
        no_standard_error: Some("clusters change with the rows"),
        help: "Whether rows that are near each other in a concept's embedding, or activation where there are no embeddings, \
               share its label: homogeneity of k-medoids clusters, mean over 50 numbers of clusters from 2 to N. It is 1 at N \
               clusters whatever the embedding, so values are high, and comparable at equal N only; at most 400 rows are \
               clustered.",
        trust: "Compare at equal N only: it is 1 at N clusters whatever the embedding. At most 400 rows are looked \
                at.",
        compute: cas::concept_alignment,
        ..ROW
    },
    Score {
        id: "ois",
        title: "Oracle impurity (OIS)",
        family: IMPURITY,
        paper: Paper::Impurity,
        equation: "3.2",
        unit: "AUC, normalised",
        per_concept: true,
        matrix: true,
        inputs: REPRESENTATION_AND_LABELS,
        cost: Cost::Slow,
        help: "How far what small networks learn about each true concept from each activation deviates from what they \
               learn from the true concepts: 2/k times the Frobenius norm of the purity matrix minus the oracle's, which \
               is the matrix given. The score is the root mean square of its concepts. Activations, or embeddings where \
               there are none. The standard error is that of the fifth of the rows the networks are tested on and \
               takes the networks as given.",
        trust: "On the paper's Table 1 (3,000 rows, 5 concepts) pure rows read 4.5 to 5.9 % and impure ones 18.0 to \
                23.6 % (published 4.69 ± 0.43 and 22.58 ± 2.34 %). Its budget of 25 epochs is part of its \
                definition: it does not fit all fine structure, and an exclusive or of two logits reads 0.05. r with \
                the loss of accuracy under intervention is 0.84 and 0.71 on digits, 0.90 and 0.63 on TabularToy.",
        compute: impurity::ois,
        ..ROW
    },
    Score {
        id: "purity",
        title: "Purity",
        family: IMPURITY,
        paper: Paper::Impurity,
        equation: "3.1",
        unit: "AUC",
        per_concept: true,
        matrix: true,
        inputs: REPRESENTATION_AND_LABELS,
        cost: Cost::Slow,
        help: "How well small networks predict each true concept from its own activation, mean over concepts; the matrix \
               has every true concept (column) from every activation (row).",
        trust: "Above 0.999 on the pure rows of the impurity paper's Table 1.",
        compute: impurity::purity,
        ..ROW
    },
    Score {
        id: "oracle_purity",
        title: "Oracle purity",
        family: IMPURITY,
        paper: Paper::Impurity,
        equation: "3.1",
        unit: "AUC",
        per_concept: true,
        matrix: true,
        inputs: REPRESENTATION_AND_LABELS,
        cost: Cost::Slow,
        latents: true,
        help: "How well small networks predict each true concept from another true one, mean over pairs: the information \
               that true concepts carry about each other. The matrix has 1 on its diagonal.",
        trust: "0.50 ± 0.03 for five independent concepts in 3,000 rows.",
        compute: impurity::oracle_purity,
        ..ROW
    },
    Score {
        id: "alignment",
        title: "Alignment of unsupervised concepts",
        family: IMPURITY,
        paper: Paper::Impurity,
        equation: "A.5",
        unit: "AUC",
        per_concept: true,
        matrix: true,
        curve: Some(CurveDescription {
            x: "concept, from 0",
            y: "Column matched to it, from 0",
            best: None,
            beside: None,
        }),
        inputs: REPRESENTATION_AND_LABELS,
        cost: Cost::Slow,
        no_standard_error: Some("the matching itself changes with the rows"),
        latents: true,
        help: "AUC of predicting each true concept from the learnt one matched to it, greedily by AUC; the curve has the \
               number of the matched column. The matrix has 1 where the learnt concept of the row is matched to the true \
               one of the column. Latents are matched by the AUC of their ranks on the rows that networks train on, and \
               row j of the matrix is the AUC with which the latent matched to concept j predicts each concept.",
        trust: "Five shuffled concepts in 3,000 rows are all matched back, with an AUC above 0.999.",
        compute: impurity::alignment,
        ..ROW
    },
    Score {
        id: "aligned_ois",
        title: "Oracle impurity after alignment",
        family: IMPURITY,
        paper: Paper::Impurity,
        equation: "3.2, A.5",
        unit: "AUC, normalised",
        per_concept: true,
        matrix: true,
        inputs: REPRESENTATION_AND_LABELS,
        cost: Cost::Slow,
        no_standard_error: Some("the matching itself changes with the rows"),
        latents: true,
        help: "OIS with each learnt concept in place of the true one it is matched to: for concepts learnt without \
               labels.",
        trust: "Below 8 % for shuffled pure concepts that read above 50 % unaligned (3,000 rows, 5 concepts).",
        compute: impurity::aligned_ois,
        ..ROW
    },
    Score {
        id: "embedding_ois",
        title: "Oracle impurity of embeddings",
        family: IMPURITY,
        paper: Paper::Impurity,
        equation: "3.2",
        unit: "AUC, normalised",
        per_concept: true,
        matrix: true,
        inputs: EMBEDDINGS_AND_LABELS,
        cost: Cost::Slow,
        help: "OIS of the weighted embeddings, beside that of the activations. It trains k² networks that read vectors.",
        trust: "As ois. 784 networks of 16 dimensions take 18 s of one core at 2,048 rows; with activations beside \
                them more than 40 concepts are refused.",
        compute: impurity::embedding_ois,
        ..ROW
    },
    Score {
        id: "nis",
        title: "Niche impurity (NIS)",
        family: IMPURITY,
        paper: Paper::Impurity,
        equation: "3.6",
        unit: "AUC, integrated over [0, 0.95]",
        range: (0.0, 0.95),
        per_concept: true,
        curve: Some(OVER_NICHES),
        inputs: REPRESENTATION_AND_LABELS,
        cost: Cost::Slow,
        latents: true,
        help: "How well a classifier of all concepts predicts each one once the activations correlated with it by more \
               than β are masked, integrated over β; the curve has the AUC at each β. The classifier is the authors', \
               scikit-learn's MLPClassifier with random_state 1 (for seed 0). Other seeds start elsewhere: values of the \
               same rows then lie up to 0.1 apart, so compare points of one seed. Of an embedding the largest absolute \
               correlation over coordinates counts, as in the paper (its authors' code takes the absolute value of the \
               largest signed one). The standard error is that of the fifth of the rows it is tested on and takes the \
               classifier as given.",
        trust: "Compare at one seed: the start of its classifier moves it more than the rows do. The pure rows of \
                Table 1 read 67.0 ± 2.2 % over 8 data sets at seed 0 and 74.6 ± 1.3 % at seed 2; scikit-learn reads \
                66.4 ± 2.9 %, the paper 66.25 ± 2.31 % and 72.36 ± 1.26 % for impure rows.",
        compute: niche::nis,
        ..ROW
    },
    Score {
        id: "nis_scaled",
        title: "Niche impurity, 2(NIS - 1/2)",
        family: IMPURITY,
        paper: Paper::Leakage,
        unit: "AUC, scaled",
        range: (-1.0, 0.9),
        per_concept: true,
        curve: Some(OVER_NICHES),
        inputs: REPRESENTATION_AND_LABELS,
        cost: Cost::Slow,
        latents: true,
        help: "NIS on the scale on which P0 plots it: near 0 where masked concepts cannot be predicted.",
        trust: "As nis. Values near 0.34 are those of pure rows, not of impure ones.",
        compute: niche::nis_scaled,
        ..ROW
    },
    Score {
        id: "embedding_nis",
        title: "Niche impurity of embeddings",
        family: IMPURITY,
        paper: Paper::Impurity,
        equation: "3.6",
        unit: "AUC, integrated over [0, 0.95]",
        range: (0.0, 0.95),
        per_concept: true,
        curve: Some(OVER_NICHES),
        inputs: EMBEDDINGS_AND_LABELS,
        cost: Cost::Slow,
        help: "NIS of the weighted embeddings, beside that of the activations.",
        trust: "As nis.",
        compute: niche::embedding_nis,
        ..ROW
    },
    Score {
        id: "concept_score",
        title: "ConceptScore",
        family: TEXT,
        paper: Paper::TextImage,
        equation: "1",
        unit: "cosine times ω",
        // At most ω, a constant of the run.
        range: (0.0, f64::INFINITY),
        inputs: &[Input::Tensor(ImageEmbeddings), Input::Tensor(PredictedTextEmbeddings)],
        help: "Mean of ω max(cos(image, prompt of the predicted concepts), 0); ω is concept_score_weight, by \
               default 1. At most ω.",
        trust: "Compare models by one encoder: cosines of two encoders have different scales. Accuracies, F1, AUC \
                and other functions of means of rows: intervals of ±1.96 standard errors hold the expected value in \
                93 to 96 % of 500 synthetic data sets.",
        compute: text::concept_score,
        ..ROW
    },
    Score {
        id: "ref_concept_score",
        title: "Ref-ConceptScore",
        family: TEXT,
        paper: Paper::TextImage,
        equation: "3",
        unit: "harmonic mean of cosines",
        range: (0.0, 2.0),
        inputs: &[
            Input::Tensor(ImageEmbeddings),
            Input::Tensor(PredictedTextEmbeddings),
            Input::Tensor(ReferenceTextEmbeddings),
        ],
        help: "Mean harmonic mean of ConceptScore and max(cos(prompt of the predicted concepts, prompt of the annotated \
               ones), 0). At most 2ω/(1 + ω): 1 for ω = 1.",
        trust: "Compare models by one encoder: cosines of two encoders have different scales. Accuracies, F1, AUC \
                and other functions of means of rows: intervals of ±1.96 standard errors hold the expected value in \
                93 to 96 % of 500 synthetic data sets.",
        compute: text::ref_concept_score,
        ..ROW
    },
    Score {
        id: "bleu",
        title: "BLEU of predicted concepts",
        family: TEXT,
        paper: Paper::TextImage,
        equation: "4-6",
        unit: "BLEU",
        inputs: TEXTS,
        help: "Mean sentence BLEU of predicted_text against reference_text, as sacrebleu 2 computes it: 13a tokens, \
               4-grams, exponential smoothing, effective order.",
        trust: "Equal to sacrebleu 2.6 on the pairs of texts that the tests hold.",
        compute: text::bleu,
        ..ROW
    },
    Score {
        id: "meteor",
        title: "METEOR of predicted concepts",
        family: TEXT,
        paper: Paper::TextImage,
        equation: "7-10",
        unit: "METEOR",
        inputs: TEXTS,
        help: "Mean METEOR of predicted_text against reference_text, as NLTK 3 computes it on 13a tokens, by equal words \
               and equal English Snowball stems. Synonyms do not match: that takes WordNet, which is not part of this \
               program.",
        trust: "Equal to NLTK 3.10 without synonyms on the pairs of texts that the tests hold.",
        compute: text::meteor,
        ..ROW
    },
    Score {
        id: "meteor_eq9",
        title: "METEOR by equation 9",
        family: TEXT,
        paper: Paper::TextImage,
        equation: "7-10",
        unit: "METEOR",
        inputs: TEXTS,
        help: "METEOR with the harmonic mean 2PR / (P + R) of equation 9, where NLTK's default weighs recall nine times as \
               much: NLTK 3 with alpha = 0.5. Otherwise as meteor.",
        trust: "Equal to NLTK 3.10 with alpha 1/2 and without synonyms on the pairs of texts that the tests hold.",
        compute: text::meteor_of_equation_9,
        ..ROW
    },
    Score {
        id: "rouge_1",
        title: "ROUGE-1 of predicted concepts",
        family: TEXT,
        paper: Paper::TextImage,
        equation: "11, n = 1",
        unit: "F-measure",
        inputs: TEXTS,
        help: "Mean F-measure of the words that predicted_text and reference_text share, as the rouge-score package computes \
               it, without stemming. Equation 11 has the recall alone.",
        trust: "Equal to rouge-score 0.1.2 on the pairs of texts that the tests hold.",
        compute: text::rouge_1,
        ..ROW
    },
    Score {
        id: "rouge_2",
        title: "ROUGE-2 of predicted concepts",
        family: TEXT,
        paper: Paper::TextImage,
        equation: "11, n = 2",
        unit: "F-measure",
        inputs: TEXTS,
        help: "The same of pairs of neighbouring words; 0 where a text has one word.",
        trust: "Equal to rouge-score 0.1.2 on the pairs of texts that the tests hold.",
        compute: text::rouge_2,
        ..ROW
    },
    Score {
        id: "rouge_l",
        title: "ROUGE-L of predicted concepts",
        family: TEXT,
        paper: Paper::TextImage,
        equation: "12",
        unit: "F-measure",
        inputs: TEXTS,
        help: "Mean F-measure of the longest common subsequence of predicted_text and reference_text, as the rouge-score \
               package computes it, without stemming. Equation 12 has the recall alone.",
        trust: "Equal to rouge-score 0.1.2 on the pairs of texts that the tests hold.",
        compute: text::rouge_l,
        ..ROW
    },
    Score {
        id: "concept_trustworthiness",
        title: "Concept trustworthiness",
        family: TRUST,
        paper: Paper::Trustworthiness,
        equation: "1",
        unit: "share of rows",
        per_concept: true,
        inputs: &[
            Input::EitherTensor(LocalizationMaps, LocalizationPeaks),
            Input::Tensor(PartLocations),
            Input::Tensor(ConceptLabels),
            Input::ConceptParts,
        ],
        help: "Share of rows with the concept in which the box around its localisation map's maximum contains an annotated \
               part of the concept, mean over concepts that have parts; rows without a visible part are left out. Maps \
               are resized to image_size (bicubic); the box is box_size, by default 90 x 90 pixels.",
        trust: "Maxima of resized maps are those of PyTorch's bicubic interpolation on the maps that the tests hold. \
                Accuracies, F1, AUC and other functions of means of rows: intervals of ±1.96 standard errors hold \
                the expected value in 93 to 96 % of 500 synthetic data sets.",
        compute: trust::concept_trustworthiness,
        ..ROW
    },
    Score {
        id: "prediction_alignment_group",
        title: "Prediction alignment, group term",
        family: TRUST,
        paper: Paper::Trustworthiness,
        equation: "L_grp",
        unit: "squared map pixels",
        range: (0.0, 1e12),
        inputs: &[Input::Tensor(LocalizationMaps), Input::ConceptParts],
        help: "Squared distances between the centres of mass of maps of concepts with the same parts, summed over ordered \
               pairs, over the number of groups; mean over rows. Low where related concepts look at the same place.",
        trust: "Compare maps of one size: distances are in map pixels. Accuracies, F1, AUC and other functions of \
                means of rows: intervals of ±1.96 standard errors hold the expected value in 93 to 96 % of 500 \
                synthetic data sets.",
        compute: trust::group,
        ..ROW
    },
    Score {
        id: "prediction_alignment_division",
        title: "Prediction alignment, division term",
        family: TRUST,
        paper: Paper::Trustworthiness,
        equation: "L_div",
        unit: "squared map pixels",
        range: (-1e12, 0.0),
        inputs: &[Input::Tensor(LocalizationMaps), Input::ConceptParts],
        help: "The negative of the same between concepts of different groups, over the square of their number. Low where \
               unrelated concepts look at different places.",
        trust: "Compare maps of one size: distances are in map pixels. Accuracies, F1, AUC and other functions of \
                means of rows: intervals of ±1.96 standard errors hold the expected value in 93 to 96 % of 500 \
                synthetic data sets.",
        compute: trust::division,
        ..ROW
    },
    Score {
        id: "cross_layer_alignment",
        title: "Cross-layer alignment",
        family: TRUST,
        paper: Paper::Trustworthiness,
        equation: "4",
        unit: "squared similarity",
        range: (0.0, 1e12),
        inputs: FEATURES,
        help: "Squared differences between the cosine similarities of every two windows in the deep and in the shallow feature \
               map, summed over ordered pairs, mean over windows of 1 x 1 and 2 x 2 cells; mean over rows. Low where the deep \
               map keeps the layout of the image. Its size grows with the number of cells.",
        trust: "Compare runs of one network only: feature maps of two have different scales. Accuracies, F1, AUC and \
                other functions of means of rows: intervals of ±1.96 standard errors hold the expected value in 93 \
                to 96 % of 500 synthetic data sets.",
        compute: feature_alignment::cross_layer,
        ..ROW
    },
    Score {
        id: "cross_layer_alignment_authors",
        title: "Cross-layer alignment, as the authors' code has it",
        family: TRUST,
        paper: Paper::Trustworthiness,
        equation: "4, as trained",
        unit: "similarity",
        range: (0.0, 3.6),
        inputs: FEATURES,
        help: "The loss that the authors train on in place of equation 4: the mean over pairs of windows of how far the absolute \
               difference exceeds 0.2, summed over the two window sizes. It does not depend on the number of cells.",
        trust: "Compare runs of one network only: feature maps of two have different scales. Accuracies, F1, AUC and \
                other functions of means of rows: intervals of ±1.96 standard errors hold the expected value in 93 \
                to 96 % of 500 synthetic data sets.",
        compute: feature_alignment::cross_layer_of_authors,
        ..ROW
    },
    Score {
        id: "cross_image_alignment",
        title: "Cross-image alignment",
        family: TRUST,
        paper: Paper::Trustworthiness,
        equation: "5",
        unit: "squared features",
        range: (0.0, 1e12),
        inputs: &[Input::Tensor(CrossImageDifference)],
        help: "Squared length of the difference between the features of an augmented image and the augmented features of the \
               image; mean over rows. Low where features move with what they show.",
        trust: "Compare runs of one network only: feature maps of two have different scales. Accuracies, F1, AUC and \
                other functions of means of rows: intervals of ±1.96 standard errors hold the expected value in 93 \
                to 96 % of 500 synthetic data sets.",
        compute: feature_alignment::cross_image,
        ..ROW
    },
    Score {
        id: "cross_image_alignment_authors",
        title: "Cross-image alignment, as the authors' code has it",
        family: TRUST,
        paper: Paper::Trustworthiness,
        equation: "5, as trained",
        unit: "squared features",
        range: (0.0, 1e12),
        inputs: &[Input::Tensor(CrossImageDifference)],
        help: "The same over the number of values of the map: the mean squared error that the authors train on.",
        trust: "Compare runs of one network only: feature maps of two have different scales. Accuracies, F1, AUC and \
                other functions of means of rows: intervals of ±1.96 standard errors hold the expected value in 93 \
                to 96 % of 500 synthetic data sets.",
        compute: feature_alignment::cross_image_of_authors,
        ..ROW
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_metric_and_json_names() {
        for (at, score) in CATALOGUE.iter().enumerate() {
            assert!(score.id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'), "{}", score.id);
            assert!(CATALOGUE[..at].iter().all(|earlier| earlier.id != score.id), "{} stands twice", score.id);
            assert!(score.range.0 < score.range.1 && !score.help.is_empty() && !score.inputs.is_empty());
            assert!(!score.trust.is_empty(), "{} does not say when to trust it", score.id);
        }
    }
}
