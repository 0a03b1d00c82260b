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
        paper: Paper::TextImage,
        equation: "4-6",
        unit: "BLEU",
        inputs: TEXTS,
        help: "Mean sentence BLEU of predicted_text against reference_text, as sacrebleu 2 computes it: 13a tokens, \
               4-grams, exponential smoothing, effective order.",
        trust: &[SAME_TEXTS],
        compute: text::bleu,
        ..ROW
    },
    Score {
        id: "meteor",
        title: "METEOR of predicted concepts",
        paper: Paper::TextImage,
        equation: "7-10",
        unit: "METEOR",
        inputs: TEXTS,
        help: "Mean METEOR of predicted_text against reference_text, as NLTK 3 computes it on 13a tokens, with \
               English Snowball stems and without synonyms.",
        trust: &[SAME_TEXTS],
        compute: text::meteor,
        ..ROW
    },
    Score {
        id: "meteor_eq9",
        title: "METEOR by equation 9",
        paper: Paper::TextImage,
        equation: "7-10",
        unit: "METEOR",
        inputs: TEXTS,
        help: "METEOR with the harmonic mean 2PR / (P + R) of equation 9 (NLTK's alpha = 0.5), where NLTK's default \
               weighs recall nine times as much.",
        trust: &[SAME_TEXTS],
        compute: text::meteor_of_equation_9,
        ..ROW
    },
    Score {
        id: "rouge_1",
        title: "ROUGE-1 of predicted concepts",
        paper: Paper::TextImage,
        equation: "11, n = 1",
        unit: "F-measure",
        inputs: TEXTS,
        help: "Mean F-measure of the words that predicted_text and reference_text share, without stemming. Equation \
               11 has recall alone.",
        trust: &[SAME_TEXTS],
        compute: text::rouge_1,
        ..ROW
    },
    Score {
        id: "rouge_2",
        title: "ROUGE-2 of predicted concepts",
        paper: Paper::TextImage,
        equation: "11, n = 2",
        unit: "F-measure",
        inputs: TEXTS,
        help: "The same of pairs of neighbouring words; 0 where a text has one word.",
        trust: &[SAME_TEXTS],
        compute: text::rouge_2,
        ..ROW
    },
    Score {
        id: "rouge_l",
        title: "ROUGE-L of predicted concepts",
        paper: Paper::TextImage,
        equation: "12",
        unit: "F-measure",
        inputs: TEXTS,
        help: "Mean F-measure of the longest common subsequence of both texts, without stemming. Equation 12 has \
               recall alone.",
        trust: &[SAME_TEXTS],
        compute: text::rouge_l,
        ..ROW
    },
];
