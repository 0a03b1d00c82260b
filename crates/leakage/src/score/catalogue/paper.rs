//! The papers that define scores.

use serde::{Serialize, Serializer};

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
    /// Learning Concept Bottleneck Models from Mechanistic Explanations, ICLR 2026.
    Mechanistic,
    /// A is for Absorption: Studying Feature Splitting and Absorption in Sparse Autoencoders, arXiv:2409.14507.
    Absorption,
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
            Self::Mechanistic => {
                "Learning Concept Bottleneck Models from Mechanistic Explanations, ICLR 2026, \
                 doi:10.48550/arXiv.2603.07343"
            }
            Self::Absorption => {
                "A is for Absorption: Studying Feature Splitting and Absorption in Sparse Autoencoders, \
                 doi:10.48550/arXiv.2409.14507"
            }
            Self::Own => "this project",
            Self::Common => "",
        }
    }
}

impl Serialize for Paper {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.citation())
    }
}
