//! Text and image: whether the concepts a model names fit the image and the annotated concepts.
//!
//! Source: Evaluating the Unseen: A Novel Framework for Assessing Unsupervised Concept Bottleneck Models, eq. 1-12. The
//! encoders run in the job, which sends their output, or the prompts themselves.

use crate::point::Outcome;
use crate::prepare::Prepared;
use crate::sample::Values;
use crate::tensor::TensorName;

use super::term::Term;
use super::words::{Meteor, bleu as bleu_of, rouge_l as rouge_l_of, rouge_n, tokens_13a, tokens_alphanumeric};

/// Mean of ω · max(cos(image, predicted text), 0), eq. 1.
pub fn concept_score(p: &Prepared) -> Result<Outcome, String> {
    mean(&concept_scores(p)?)
}

/// Mean harmonic mean of ConceptScore and max(cos(predicted text, reference text), 0), eq. 3; 0 where either is.
pub fn ref_concept_score(p: &Prepared) -> Result<Outcome, String> {
    let scores = concept_scores(p)?;
    let agreement = cosines(p, TensorName::PredictedTextEmbeddings, TensorName::ReferenceTextEmbeddings)?;
    let harmonic = |(a, b): (f64, f64)| if a > 0.0 && b > 0.0 { 2.0 * a * b / (a + b) } else { 0.0 };
    mean(&scores.into_iter().zip(agreement.into_iter().map(|cosine| cosine.max(0.0))).map(harmonic).collect::<Vec<_>>())
}

/// Mean sentence BLEU, eq. 4-6, as sacrebleu computes it.
pub fn bleu(p: &Prepared) -> Result<Outcome, String> {
    mean(&compared(p, tokens_13a, bleu_of)?)
}

/// Mean METEOR, eq. 7-10, as NLTK computes it, by equal words and equal stems.
pub fn meteor(p: &Prepared) -> Result<Outcome, String> {
    meteor_by(p, &Meteor::of_nltk())
}

/// Mean METEOR with the harmonic mean of eq. 9, where NLTK weighs recall more.
pub fn meteor_of_equation_9(p: &Prepared) -> Result<Outcome, String> {
    meteor_by(p, &Meteor::of_equation_9())
}

fn meteor_by(p: &Prepared, meteor: &Meteor) -> Result<Outcome, String> {
    mean(&compared(p, tokens_13a, |predicted, reference| meteor.score(predicted, reference))?)
}

/// Mean ROUGE-1 as rouge-score computes it: the F-measure of words.
pub fn rouge_1(p: &Prepared) -> Result<Outcome, String> {
    mean(&compared(p, tokens_alphanumeric, |predicted, reference| rouge_n(predicted, reference, 1))?)
}

/// Mean ROUGE-2 as rouge-score computes it: the F-measure of pairs of neighbouring words.
pub fn rouge_2(p: &Prepared) -> Result<Outcome, String> {
    mean(&compared(p, tokens_alphanumeric, |predicted, reference| rouge_n(predicted, reference, 2))?)
}

/// Mean ROUGE-L, eq. 12, as rouge-score computes it: the F-measure.
pub fn rouge_l(p: &Prepared) -> Result<Outcome, String> {
    mean(&compared(p, tokens_alphanumeric, rouge_l_of)?)
}

fn mean(rows: &[f64]) -> Result<Outcome, String> {
    Ok(Term::mean_of_rows(rows).outcome())
}

fn concept_scores(p: &Prepared) -> Result<Vec<f64>, String> {
    let weight = p.run().constants.concept_score_weight.unwrap_or(1.0);
    let cosines = cosines(p, TensorName::ImageEmbeddings, TensorName::PredictedTextEmbeddings)?;
    Ok(cosines.into_iter().map(|cosine| weight * cosine.max(0.0)).collect())
}

/// Cosine of the angle between the two embeddings of each row.
fn cosines(p: &Prepared, a: TensorName, b: TensorName) -> Result<Vec<f64>, String> {
    let column = |name| p.column(name).ok_or_else(|| format!("there are no {name}"));
    let (left, right) = (column(a)?, column(b)?);
    let width = left.width();
    if right.width() != width {
        return Err(format!("{a} have {width} coordinates, {b} {}: they are of different encoders", right.width()));
    }
    let (left, right) = (left.block(0..width), right.block(0..width));
    let unit = |name: TensorName, row: usize, vector: &[f64]| {
        // Scaled first: squares of large numbers overflow.
        let largest = vector.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
        if largest == 0.0 {
            return Err(format!("{name}: row {row} of the sample is 0 and has no direction"));
        }
        let length = vector.iter().map(|x| (x / largest).powi(2)).sum::<f64>().sqrt();
        Ok(vector.iter().map(|x| x / largest / length).collect::<Vec<f64>>())
    };
    let cosine = |(row, (x, y)): (usize, (&[f64], &[f64]))| {
        let (x, y) = (unit(a, row, x)?, unit(b, row, y)?);
        Ok(x.iter().zip(&y).map(|(x, y)| x * y).sum::<f64>().clamp(-1.0, 1.0))
    };
    left.chunks(width).zip(right.chunks(width)).enumerate().map(cosine).collect()
}

/// A comparison of the words of each row's predicted and reference text.
fn compared(
    p: &Prepared,
    cut: impl Fn(&str) -> Vec<String>,
    compare: impl Fn(&[String], &[String]) -> f64,
) -> Result<Vec<f64>, String> {
    let words = |name: TensorName| {
        let column = p.column(name).ok_or_else(|| format!("there is no {name}"))?;
        let Values::Text(texts) = column.values() else { return Err(format!("{name} holds no texts")) };
        let words: Vec<Vec<String>> = texts.iter().map(|text| cut(text)).collect();
        match words.iter().filter(|words| words.is_empty()).count() {
            0 => Ok(words),
            empty => Err(format!("{name}: {empty} of {} rows have no word", words.len())),
        }
    };
    let (predicted, reference) = (words(TensorName::PredictedText)?, words(TensorName::ReferenceText)?);
    Ok(predicted.iter().zip(&reference).map(|(a, b)| compare(a, b)).collect())
}
