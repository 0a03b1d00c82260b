//! Texts and images: concepts as phrases, and explanations against references.

use super::inputs::Input;
use super::paper::Paper;
use super::row::{MEANS, ROW, Score};
use crate::score::text;
use crate::tensor::TensorName::{
    ImageEmbeddings, PredictedText, PredictedTextEmbeddings, ReferenceText, ReferenceTextEmbeddings,
};

const TEXTS: &[Input] = &[Input::Tensor(PredictedText), Input::Tensor(ReferenceText)];

/// The trust remark of cosines between embeddings.
const ONE_ENCODER: &str = "Compare only models scored with the same encoder.";

/// The trust remark of scores of texts.
const SAME_TEXTS: &str = "Equal to sacrebleu 2.6, NLTK 3.10 (without synonyms) and rouge-score 0.1.2 on the texts of \
                          the tests.";

/// A comparison of two texts.
const OF_TEXTS: Score = Score { paper: Paper::TextImage, inputs: TEXTS, trust: &[SAME_TEXTS], ..ROW };

pub(super) const ROWS: [Score; 8] = [
    Score {
        id: "concept_score",
        title: "ConceptScore",
        paper: Paper::TextImage,
        equation: "1",
        unit: "cosine times ω",
        // At most ω, a constant of the run.
        range: (0.0, f64::INFINITY),
        inputs: &[Input::Tensor(ImageEmbeddings), Input::Tensor(PredictedTextEmbeddings)],
        help: "Mean of ω max(cos(image, prompt of the predicted concepts), 0); ω is concept_score_weight, by default \
               1. At most ω.",
        trust: &[ONE_ENCODER, MEANS],
        compute: text::concept_score,
        ..ROW
    },
    Score {
        id: "ref_concept_score",
        title: "Ref-ConceptScore",
        paper: Paper::TextImage,
        equation: "3",
        unit: "harmonic mean of cosines",
        range: (0.0, 2.0),
        inputs: &[
            Input::Tensor(ImageEmbeddings),
            Input::Tensor(PredictedTextEmbeddings),
            Input::Tensor(ReferenceTextEmbeddings),
        ],
        help: "Mean harmonic mean of ConceptScore and max(cos(prompt of the predicted concepts, prompt of the \
               annotated ones), 0). At most 2ω/(1 + ω).",
        trust: &[ONE_ENCODER, MEANS],
        compute: text::ref_concept_score,
        ..ROW
    },
    Score {
        id: "bleu",
        title: "BLEU of predicted concepts",
        equation: "4-6",
        unit: "BLEU",
        help: "Mean sentence BLEU of predicted_text against reference_text, as sacrebleu 2 computes it: 13a tokens, \
               4-grams, exponential smoothing, effective order.",
        compute: text::bleu,
        ..OF_TEXTS
    },
    Score {
        id: "meteor",
        title: "METEOR of predicted concepts",
        equation: "7-10",
        unit: "METEOR",
        help: "Mean METEOR of predicted_text against reference_text, as NLTK 3 computes it on 13a tokens, with \
               English Snowball stems and without synonyms.",
        compute: text::meteor,
        ..OF_TEXTS
    },
    Score {
        id: "meteor_eq9",
        title: "METEOR by equation 9",
        equation: "7-10",
        unit: "METEOR",
        help: "METEOR with the harmonic mean 2PR / (P + R) of equation 9 (NLTK's alpha = 0.5), where NLTK's default \
               weighs recall nine times as much.",
        compute: text::meteor_of_equation_9,
        ..OF_TEXTS
    },
    Score {
        id: "rouge_1",
        title: "ROUGE-1 of predicted concepts",
        equation: "11, n = 1",
        unit: "F-measure",
        help: "Mean F-measure of the words that predicted_text and reference_text share, without stemming. Equation \
               11 has recall alone.",
        compute: text::rouge_1,
        ..OF_TEXTS
    },
    Score {
        id: "rouge_2",
        title: "ROUGE-2 of predicted concepts",
        equation: "11, n = 2",
        unit: "F-measure",
        help: "The same of pairs of neighbouring words; 0 where a text has one word.",
        compute: text::rouge_2,
        ..OF_TEXTS
    },
    Score {
        id: "rouge_l",
        title: "ROUGE-L of predicted concepts",
        equation: "12",
        unit: "F-measure",
        help: "Mean F-measure of the longest common subsequence of both texts, without stemming. Equation 12 has \
               recall alone.",
        compute: text::rouge_l,
        ..OF_TEXTS
    },
];
