//! Trustworthiness: whether concepts look where they should.

use super::inputs::Input;
use super::paper::Paper;
use super::row::{MEANS, ROW, Score};
use crate::score::{feature_alignment, trust};
use crate::tensor::TensorName::{
    ConceptLabels, CrossImageDifference, DeepFeatures, LocalizationMaps, LocalizationPeaks, PartLocations,
    ShallowFeatures,
};

const FEATURES: &[Input] = &[Input::Tensor(DeepFeatures), Input::Tensor(ShallowFeatures)];

/// The trust remark of scores in the units of feature maps.
const ONE_NETWORK: &str = "Compare only runs of the same network.";

/// The trust remark of scores in pixels of maps.
const ONE_MAP_SIZE: &str = "Compare only maps of the same size.";

/// A score of feature maps.
const OF_FEATURES: Score = Score {
    paper: Paper::Trustworthiness,
    unit: "squared features",
    range: (0.0, 1e12),
    inputs: FEATURES,
    trust: &[ONE_NETWORK, MEANS],
    ..ROW
};

pub(super) const ROWS: [Score; 7] = [
    Score {
        id: "concept_trustworthiness",
        title: "Concept trustworthiness",
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
        help: "Share of rows with the concept in which the box around its localisation map's maximum contains an \
               annotated part of it, mean over concepts with parts; rows without a visible part are left out. Maps \
               are resized to image_size (bicubic); the box is box_size, by default 90 x 90 pixels.",
        trust: &["Resized maps have the same maxima as by PyTorch's bicubic interpolation.", MEANS],
        compute: trust::concept_trustworthiness,
        ..ROW
    },
    Score {
        id: "prediction_alignment_group",
        title: "Prediction alignment, group term",
        paper: Paper::Trustworthiness,
        equation: "L_grp",
        unit: "squared map pixels",
        range: (0.0, 1e12),
        inputs: &[Input::Tensor(LocalizationMaps), Input::ConceptParts],
        help: "Squared distances between the centres of mass of maps of concepts with the same parts, summed over \
               ordered pairs, over the number of groups; mean over rows. Low where related concepts look at the same \
               place.",
        trust: &[ONE_MAP_SIZE, MEANS],
        compute: trust::group,
        ..ROW
    },
    Score {
        id: "prediction_alignment_division",
        title: "Prediction alignment, division term",
        paper: Paper::Trustworthiness,
        equation: "L_div",
        unit: "squared map pixels",
        range: (-1e12, 0.0),
        inputs: &[Input::Tensor(LocalizationMaps), Input::ConceptParts],
        help: "The negative of the same between concepts of different groups, over the square of their number. Low \
               where unrelated concepts look at different places.",
        trust: &[ONE_MAP_SIZE, MEANS],
        compute: trust::division,
        ..ROW
    },
    Score {
        id: "cross_layer_alignment",
        title: "Cross-layer alignment",
        equation: "4",
        unit: "squared similarity",
        help: "Squared differences between the cosine similarities of two windows in the deep and in the shallow \
               feature map, summed over ordered pairs; mean over windows of 1 x 1 and 2 x 2 cells and over rows. Low \
               where the deep map keeps the image's layout.",
        compute: feature_alignment::cross_layer,
        ..OF_FEATURES
    },
    Score {
        id: "cross_layer_alignment_authors",
        title: "Cross-layer alignment, as the authors' code has it",
        equation: "4, as trained",
        unit: "similarity",
        range: (0.0, 3.6),
        help: "The loss that the authors train on instead: mean over pairs of windows of how far the absolute \
               difference exceeds 0.2, summed over both window sizes. Independent of the number of cells.",
        compute: feature_alignment::cross_layer_of_authors,
        ..OF_FEATURES
    },
    Score {
        id: "cross_image_alignment",
        title: "Cross-image alignment",
        equation: "5",
        inputs: &[Input::Tensor(CrossImageDifference)],
        help: "Squared length of the difference between the features of an augmented image and the augmented \
               features of the image; mean over rows. Low where features move with what they show.",
        compute: feature_alignment::cross_image,
        ..OF_FEATURES
    },
    Score {
        id: "cross_image_alignment_authors",
        title: "Cross-image alignment, as the authors' code has it",
        equation: "5, as trained",
        inputs: &[Input::Tensor(CrossImageDifference)],
        help: "The same over the number of values of the map: the mean squared error that the authors train on.",
        compute: feature_alignment::cross_image_of_authors,
        ..OF_FEATURES
    },
];
