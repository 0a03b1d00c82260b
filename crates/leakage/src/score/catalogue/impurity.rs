//! Impurity, disentanglement and alignment of representations.

use super::inputs::{ACTIVATIONS_AND_LABELS, EMBEDDINGS_AND_LABELS, Input};
use super::memory::{self, Memory};
use super::paper::Paper;
use super::row::{Cost, ROW, Score};
use crate::point::CurveDescription;
use crate::score::{concept_alignment, dci, disentanglement, firing, impurity, niche, r4};
use crate::tensor::TensorName::{ConceptActivations, ConceptEmbeddings, ConceptLabels};

const REPRESENTATION_AND_LABELS: &[Input] =
    &[Input::EitherTensor(ConceptActivations, ConceptEmbeddings), Input::Tensor(ConceptLabels)];

const OVER_NICHES: CurveDescription =
    CurveDescription { x: "niche threshold β", y: "Mean AUC", best: None, beside: None };

const REPRESENTATION_OF_CAS: &[Input] =
    &[Input::EitherTensor(ConceptEmbeddings, ConceptActivations), Input::Tensor(ConceptLabels)];

/// The trust remark of scores that ois replaces.
const PREFER_OIS: &str = "Hardly moves between the pure and the impure rows of the impurity paper's Table 1: use \
                          ois.";

/// The trust remark of the niche impurity scores.
const ONE_SEED: &str = "Compare only points with the same seed: the pure rows of the impurity paper's Table 1 read \
                        67.0 ± 2.2 % at seed 0 and 74.6 ± 1.3 % at seed 2 (published 66.25 ± 2.31 %).";

/// A score of the networks that read one representation each.
const PURITY: Score = Score {
    paper: Paper::Impurity,
    unit: "AUC",
    per_concept: true,
    matrix: true,
    inputs: REPRESENTATION_AND_LABELS,
    cost: Cost::Slow,
    memory: Memory { inputs: 5.0, pairs: 160, kept: 112, more: memory::purity },
    ..ROW
};

/// A score of the network that reads all representations.
const NICHES: Score = Score {
    paper: Paper::Impurity,
    unit: "AUC, integrated over [0, 0.95]",
    range: (0.0, 0.95),
    per_concept: true,
    curve: Some(OVER_NICHES),
    inputs: REPRESENTATION_AND_LABELS,
    cost: Cost::Slow,
    memory: Memory { inputs: 10.0, pairs: 160, kept: 0, more: memory::niches },
    ..ROW
};

/// A score of the boosted trees.
const TREES: Score = Score {
    paper: Paper::Disentanglement,
    inputs: ACTIVATIONS_AND_LABELS,
    latents: true,
    cost: Cost::Slow,
    trust: &[PREFER_OIS],
    memory: Memory { kept: 40, pairs: 64, ..Memory::LINEAR },
    ..ROW
};

/// A score of the gap between the two activations that tell most about a concept.
const GAPS: Score = Score {
    paper: Paper::Impurity,
    per_concept: true,
    inputs: ACTIVATIONS_AND_LABELS,
    latents: true,
    trust: &[PREFER_OIS],
    memory: Memory { pairs: 24, ..Memory::LINEAR },
    ..ROW
};

pub(super) const ROWS: [Score; 18] = [
    Score {
        id: "mig",
        title: "Mutual information gap (MIG)",
        unit: "share of H(c_j)",
        help: "Gap between the two largest informations that activations in 20 bins have about each true concept, \
               over its entropy (Chen et al. 2018).",
        compute: disentanglement::mig,
        ..GAPS
    },
    Score {
        id: "sap",
        title: "Separated attribute predictability (SAP)",
        unit: "accuracy",
        cost: Cost::Slow,
        help: "Gap between the two highest held-out accuracies of balanced linear classifiers of each true concept \
               that read one activation each (Kumar et al. 2018); of latents, the 256 whose ranks predict the \
               concept best.",
        compute: disentanglement::sap,
        ..GAPS
    },
    Score {
        id: "dci_disentanglement",
        title: "Disentanglement (DCI)",
        equation: "Section 2, D",
        unit: "1 - entropy / ln k",
        matrix: true,
        no_standard_error: Some("the importances come from one fit"),
        help: "Whether each activation matters for one true concept only: 1 less the entropy of its importances (the \
               matrix), those of 100 gradient-boosted trees of depth 3 on at most 256 columns; mean weighted by \
               importance.",
        compute: dci::disentanglement,
        ..TREES
    },
    Score {
        id: "dci_completeness",
        title: "Completeness (DCI)",
        equation: "Section 2, C",
        unit: "1 - entropy / ln columns",
        per_concept: true,
        no_standard_error: Some("the importances come from one fit"),
        help: "Whether one activation captures each true concept: 1 less the entropy of the importances for it.",
        compute: dci::completeness,
        ..TREES
    },
    Score {
        id: "dci_informativeness",
        title: "Informativeness (DCI)",
        equation: "Section 2, I",
        unit: "accuracy",
        per_concept: true,
        help: "Accuracy at which the same trees predict each true concept, on the fifth of the rows that they were \
               not trained on.",
        compute: dci::informativeness,
        ..TREES
    },
    Score {
        id: "r4",
        title: "R⁴: concept and activation determine each other",
        paper: Paper::Hierarchical,
        equation: "Section 5",
        unit: "√(R² · R²)",
        per_concept: true,
        no_standard_error: Some("it is the largest of several"),
        help: "For each true concept the largest √(R²(activation → concept) · R²(concept → activation)) over \
               activations, of gradient-boosted trees on held-out rows, mean over five splits. As in the authors' \
               code the R² of classes is an accuracy.",
        memory: Memory { inputs: 12.0, pairs: 120, ..Memory::LINEAR },
        compute: r4::r4,
        ..TREES
    },
    Score {
        id: "concept_alignment_score",
        title: "Concept alignment score (CAS)",
        paper: Paper::Embeddings,
        equation: "Section 4, CAS",
        unit: "homogeneity",
        per_concept: true,
        inputs: REPRESENTATION_OF_CAS,
        cost: Cost::Slow,
        no_standard_error: Some("clusters change with the rows"),
        help: "Whether rows near each other in a concept's embedding, or activation without embeddings, share its \
               label: homogeneity of k-medoids clusters of at most 400 rows, mean over 50 numbers of clusters from 2 \
               to N.",
        trust: &["Compare at equal N only."],
        memory: Memory { pairs: 24, more: memory::distances, ..Memory::LINEAR },
        compute: concept_alignment::concept_alignment,
        ..ROW
    },
    Score {
        id: "ois",
        title: "Oracle impurity (OIS)",
        equation: "3.2",
        unit: "AUC, normalised",
        help: "How far what small networks learn about each true concept from each activation, or embedding without \
               activations, deviates from what they learn from the true concepts: 2/k times the Frobenius norm of \
               the purity matrix less the oracle's (the matrix given).",
        trust: &[
            "On the paper's Table 1 (3,000 rows, 5 concepts) pure rows read 4.5 to 5.9 % and impure ones 18.0 to \
             23.6 % (published 4.69 ± 0.43 and 22.58 ± 2.34 %). An exclusive or of two logits reads 0.05.",
        ],
        compute: impurity::ois,
        ..PURITY
    },
    Score {
        id: "purity",
        title: "Purity",
        equation: "3.1",
        help: "How well small networks predict each true concept from its own activation; the matrix has every true \
               concept (column) from every activation (row).",
        trust: &["Above 0.999 on the pure rows of the impurity paper's Table 1."],
        compute: impurity::purity,
        ..PURITY
    },
    Score {
        id: "oracle_purity",
        title: "Oracle purity",
        equation: "3.1",
        latents: true,
        help: "How well small networks predict each true concept from another, mean over pairs.",
        trust: &["0.50 ± 0.03 for five independent concepts in 3,000 rows."],
        compute: impurity::oracle_purity,
        ..PURITY
    },
    Score {
        id: "alignment",
        title: "Alignment of unsupervised concepts",
        equation: "A.5",
        curve: Some(CurveDescription {
            x: "concept, from 0",
            y: "Column matched to it, from 0",
            best: None,
            beside: None,
        }),
        no_standard_error: Some("the matching itself changes with the rows"),
        latents: true,
        help: "AUC of predicting each true concept from the learnt one matched to it, greedily by AUC; the curve has \
               the matched columns, the matrix 1 where they match (with latents, AUC).",
        trust: &["Five shuffled concepts in 3,000 rows are all matched back, with an AUC above 0.999."],
        compute: impurity::alignment,
        ..PURITY
    },
    Score {
        id: "aligned_ois",
        title: "Oracle impurity after alignment",
        equation: "3.2, A.5",
        unit: "AUC, normalised",
        no_standard_error: Some("the matching itself changes with the rows"),
        latents: true,
        help: "OIS with each learnt concept in place of the true one it is matched to, for concepts learnt without \
               labels.",
        trust: &["Below 8 % for shuffled pure concepts that read above 50 % unaligned (3,000 rows, 5 concepts)."],
        compute: impurity::aligned_ois,
        ..PURITY
    },
    Score {
        id: "embedding_ois",
        title: "Oracle impurity of embeddings",
        equation: "3.2",
        unit: "AUC, normalised",
        inputs: EMBEDDINGS_AND_LABELS,
        help: "OIS of the weighted embeddings. Trains k² networks that read vectors.",
        trust: &["784 networks of 16 dimensions take 18 s of one core at 2,048 rows."],
        compute: impurity::embedding_ois,
        ..PURITY
    },
    Score {
        id: "nis",
        title: "Niche impurity (NIS)",
        equation: "3.6",
        latents: true,
        help: "How well the authors' MLPClassifier predicts each concept once activations correlated with it by more \
               than β are masked, integrated over β; the curve has the AUC at each β. Of an embedding its most \
               correlated coordinate counts.",
        trust: &[ONE_SEED],
        compute: niche::nis,
        ..NICHES
    },
    Score {
        id: "nis_scaled",
        title: "Niche impurity, 2(NIS - 1/2)",
        paper: Paper::Leakage,
        unit: "AUC, scaled",
        range: (-1.0, 0.9),
        latents: true,
        help: "NIS on the scale of P0's plots: near 0 where masked concepts cannot be predicted.",
        trust: &[ONE_SEED, "Pure rows read near 0.34."],
        compute: niche::nis_scaled,
        ..NICHES
    },
    Score {
        id: "embedding_nis",
        title: "Niche impurity of embeddings",
        equation: "3.6",
        inputs: EMBEDDINGS_AND_LABELS,
        help: "NIS of the weighted embeddings.",
        trust: &[ONE_SEED],
        memory: Memory { inputs: 2.5, pairs: 200, kept: 0, more: memory::niches_of_embeddings },
        compute: niche::embedding_nis,
        ..NICHES
    },
    Score {
        id: "dead_latents",
        title: "Dead latents",
        unit: "share of latents",
        inputs: &[Input::Latents, Input::Tensor(ConceptActivations)],
        latents: true,
        no_standard_error: Some("it counts latents"),
        help: "Share of latents that are above 0 in no row. Undefined where none is ever 0 or below, as of sigmoids.",
        trust: &[
            "A latent that fires in a share p of rows is missed by N with probability (1 - p)^N: below 5 % for p \
             above 3/N.",
        ],
        compute: firing::dead,
        ..ROW
    },
    Score {
        id: "absorption",
        title: "Feature absorption",
        paper: Paper::Absorption,
        unit: "share of rows",
        per_concept: true,
        inputs: &[Input::Latents, Input::Tensor(ConceptActivations), Input::Tensor(ConceptLabels)],
        latents: true,
        help: "Share of a concept's rows on which its main latents are silent (0 or below) and a carrier fires. Main \
               latents, best first: each raises the firing rate of any of them, with the concept less without, by more \
               than 0.2. Carriers: at least nine tenths as precise, beyond chance (p < 0.01 for all). SAEBench projects \
               decoder directions on a probe instead and counts partial absorption.",
        trust: &[
            "A latent that takes over more than a fifth of the rows makes a split concept, not absorption; those of \
             correlated concepts may be carriers.",
        ],
        compute: firing::absorption,
        ..ROW
    },
];
