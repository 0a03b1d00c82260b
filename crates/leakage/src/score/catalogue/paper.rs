//! The papers that define scores.

use serde::Serialize;

/// The paper that defines a score, with its citation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[serde(into = "&'static str")]
pub enum Paper {
    #[strum(serialize = "Leakage and Interpretability in Concept-Based Models, doi:10.48550/arXiv.2504.14094")]
    Leakage,
    #[strum(serialize = "Towards Robust Metrics for Concept Representation Evaluation, \
                         doi:10.1609/aaai.v37i10.26392")]
    Impurity,
    #[strum(serialize = "Clarity: The Flexibility-Interpretability Trade-Off in Sparsity-aware Concept Bottleneck \
                         Models, under review")]
    Clarity,
    #[strum(serialize = "On the Concept Trustworthiness in Concept Bottleneck Models, AAAI 2024, volume 38, \
                         pages 21161-21168")]
    Trustworthiness,
    #[strum(
        serialize = "Evaluating the Unseen: A Novel Framework for Assessing Unsupervised Concept Bottleneck Models, \
                         under review"
    )]
    TextImage,
    #[strum(serialize = "A Framework for the Quantitative Evaluation of Disentangled Representations, ICLR 2018, \
                         openreview.net/forum?id=By-7dz-AZ")]
    Disentanglement,
    #[strum(serialize = "Benchmarks, Algorithms, and Metrics for Hierarchical Disentanglement, ICML 2021, \
                         doi:10.48550/arXiv.2106.05241")]
    Hierarchical,
    #[strum(serialize = "Concept Embedding Models: Beyond the Accuracy-Explainability Trade-Off, NeurIPS 2022, \
                         doi:10.48550/arXiv.2209.09056")]
    Embeddings,
    #[strum(serialize = "On Completeness-aware Concept-Based Explanations in Deep Neural Networks, NeurIPS 2020, \
                         doi:10.48550/arXiv.1910.07969")]
    Completeness,
    #[strum(serialize = "VLG-CBM: Training Concept Bottleneck Models with Vision-Language Guidance, NeurIPS 2024, \
                         doi:10.48550/arXiv.2408.01432")]
    Guidance,
    #[strum(serialize = "Learning Concept Bottleneck Models from Mechanistic Explanations, ICLR 2026, \
                         doi:10.48550/arXiv.2603.07343")]
    Mechanistic,
    #[strum(serialize = "A is for Absorption: Studying Feature Splitting and Absorption in Sparse Autoencoders, \
                         doi:10.48550/arXiv.2409.14507")]
    Absorption,
    /// Defined by this project.
    #[strum(serialize = "this project")]
    Own,
    /// Textbook statistics.
    #[strum(serialize = "")]
    Common,
}

impl Paper {
    pub fn citation(self) -> &'static str {
        self.into()
    }
}
