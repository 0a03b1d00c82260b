//! How texts are cut into words, and the comparisons of a predicted with a reference text. Each is 0 to 1 and, on
//! the same words, what the package named with it computes.

use std::collections::HashMap;

use rust_stemmers::{Algorithm, Stemmer};

/// Longest n-grams of BLEU.
const ORDER: usize = 4;

/// Words as mteval-v13a and sacrebleu's default tokenizer cut them: punctuation stands alone but within numbers.
pub fn tokens_13a(text: &str) -> Vec<String> {
    let text = text.replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
    let text = text.replace("&quot;", "\"").replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">");
    let mut apart = String::from(" ");
    for c in text.chars() {
        if matches!(c, '{'..='~' | '['..='`' | ' '..='&' | '('..='+' | ':'..='@' | '/') {
            apart.extend([' ', c, ' ']);
        } else {
            apart.push(c);
        }
    }
    apart.push(' ');
    let digit = |c: char| c.is_ascii_digit();
    let stop = |c: char| c == '.' || c == ',';
    let apart = pairs_apart(&apart, |a, b| !digit(a) && stop(b), |a, b| [a, ' ', b, ' ']);
    let apart = pairs_apart(&apart, |a, b| stop(a) && !digit(b), |a, b| [' ', a, ' ', b]);
    let apart = pairs_apart(&apart, |a, b| digit(a) && b == '-', |a, b| [a, ' ', b, ' ']);
    apart.split_whitespace().map(str::to_owned).collect()
}

/// Replaces pairs of neighbouring characters from left to right; a replaced character is in no other pair.
fn pairs_apart(
    text: &str,
    found: impl Fn(char, char) -> bool,
    replacement: impl Fn(char, char) -> [char; 4],
) -> String {
    let chars: Vec<char> = text.chars().collect();
    let (mut result, mut at) = (String::with_capacity(text.len()), 0);
    while at < chars.len() {
        match chars.get(at + 1) {
            Some(&next) if found(chars[at], next) => {
                result.extend(replacement(chars[at], next));
                at += 2;
            }
            _ => {
                result.push(chars[at]);
                at += 1;
            }
        }
    }
    result
}

/// Runs of ASCII letters and digits in lower case: the default tokenizer of the rouge-score package.
pub fn tokens_alphanumeric(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit()));
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// BLEU of one sentence (Papineni et al. 2002) as `sacrebleu.sentence_bleu`: 4-grams, exponential smoothing, and
/// orders the prediction is too short for left out.
pub fn bleu(predicted: &[String], reference: &[String]) -> f64 {
    let (mut logarithms, mut orders, mut smoothing) = (0.0, 0, 1.0);
    for order in 1..=ORDER {
        let total = (predicted.len() + 1).saturating_sub(order);
        if total == 0 {
            break;
        }
        let known = counts(reference, order);
        let shared: usize = counts(predicted, order)
            .iter()
            .map(|(gram, count)| known.get(gram).map_or(0, |known| *count.min(known)))
            .sum();
        if order == 1 && shared == 0 {
            return 0.0;
        }
        orders += 1;
        logarithms += if shared > 0 {
            (shared as f64 / total as f64).ln()
        } else {
            smoothing *= 2.0;
            (1.0 / (smoothing * total as f64)).ln()
        };
    }
    let ratio = reference.len() as f64 / predicted.len() as f64;
    if orders == 0 { 0.0 } else { (logarithms / f64::from(orders) + (1.0 - ratio).min(0.0)).exp() }
}

fn counts(words: &[String], order: usize) -> HashMap<&[String], usize> {
    let mut counts = HashMap::new();
    words.windows(order).for_each(|gram| *counts.entry(gram).or_insert(0) += 1);
    counts
}

/// METEOR (Banerjee & Lavie 2005) as `nltk.translate.meteor_score`, with β = 3 and γ = 0.5: words match when they are equal
/// or have the same stem (Snowball's English stemmer). Synonyms are not matched: that takes WordNet.
pub struct Meteor {
    stemmer: Stemmer,
    alpha: f64,
}

impl Meteor {
    /// NLTK's default, α = 0.9: recall weighs nine times as much as precision.
    pub fn of_nltk() -> Self {
        Self { stemmer: Stemmer::create(Algorithm::English), alpha: 0.9 }
    }

    /// α = ½: the harmonic mean 2PR / (P + R) of eq. 9 in Evaluating the Unseen.
    pub fn of_equation_9() -> Self {
        Self { alpha: 0.5, ..Self::of_nltk() }
    }

    pub fn score(&self, predicted: &[String], reference: &[String]) -> f64 {
        let lower = |words: &[String]| words.iter().map(|word| word.to_lowercase()).collect::<Vec<_>>();
        let (predicted, reference) = (lower(predicted), lower(reference));
        let stems =
            |words: &[String]| words.iter().map(|word| self.stemmer.stem(word).into_owned()).collect::<Vec<_>>();
        let mut matches = vec![None; predicted.len()];
        let mut used = vec![false; reference.len()];
        for (predicted, reference) in [(predicted.clone(), reference.clone()), (stems(&predicted), stems(&reference))] {
            // From the last word to the first, each takes the last that is left.
            for at in (0..predicted.len()).rev().filter(|&at| matches[at].is_none()).collect::<Vec<_>>() {
                let free = (0..reference.len()).rev().find(|&other| !used[other] && reference[other] == predicted[at]);
                if let Some(other) = free {
                    matches[at] = Some(other);
                    used[other] = true;
                }
            }
        }
        let matched: Vec<(usize, usize)> =
            matches.iter().enumerate().filter_map(|(at, other)| Some((at, (*other)?))).collect();
        if matched.is_empty() {
            return 0.0;
        }
        let breaks = matched.windows(2).filter(|pair| (pair[0].0 + 1, pair[0].1 + 1) != pair[1]).count();
        let count = matched.len() as f64;
        let (precision, recall) = (count / predicted.len() as f64, count / reference.len() as f64);
        let mean = precision * recall / (self.alpha * precision + (1.0 - self.alpha) * recall);
        mean * (1.0 - 0.5 * ((breaks + 1) as f64 / count).powi(3))
    }
}

/// F-measure of the n-grams that both have (Lin 2004), `rouge1`, `rouge2`, … of the rouge-score package without stemming.
pub fn rouge_n(predicted: &[String], reference: &[String], order: usize) -> f64 {
    let known = counts(reference, order);
    let shared: usize =
        counts(predicted, order).iter().map(|(gram, count)| known.get(gram).map_or(0, |known| *count.min(known))).sum();
    let grams = |words: &[String]| (words.len() + 1).saturating_sub(order);
    if shared == 0 { 0.0 } else { 2.0 * shared as f64 / (grams(predicted) + grams(reference)) as f64 }
}

/// F-measure of the longest common subsequence (Lin 2004), `rougeL` of the rouge-score package without stemming.
pub fn rouge_l(predicted: &[String], reference: &[String]) -> f64 {
    let mut lengths = vec![0usize; reference.len() + 1];
    for word in predicted {
        let mut diagonal = 0;
        for (at, other) in reference.iter().enumerate() {
            let above = lengths[at + 1];
            lengths[at + 1] = if word == other { diagonal + 1 } else { above.max(lengths[at]) };
            diagonal = above;
        }
    }
    let common = lengths[reference.len()] as f64;
    if common == 0.0 { 0.0 } else { 2.0 * common / (predicted.len() + reference.len()) as f64 }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// `tests/golden/text.py` computes them with sacrebleu, NLTK and rouge-score.
    #[test]
    fn texts_compare_as_by_the_public_packages() {
        let golden: Value = serde_json::from_str(include_str!("../../tests/golden/text.json")).unwrap();
        let cases = golden["cases"].as_array().unwrap();
        assert!(cases.len() >= 30);
        let (meteor, equation_9) = (Meteor::of_nltk(), Meteor::of_equation_9());
        for case in cases {
            let [predicted, reference] = ["predicted", "reference"].map(|key| case[key].as_str().unwrap());
            let [a, b] = [predicted, reference].map(tokens_13a);
            assert_eq!(a.join(" "), case["tokens"].as_str().unwrap(), "{predicted}");
            let [x, y] = [predicted, reference].map(tokens_alphanumeric);
            let got = [
                ("bleu", bleu(&a, &b)),
                ("meteor", meteor.score(&a, &b)),
                ("meteor_eq9", equation_9.score(&a, &b)),
                ("rouge_1", rouge_n(&x, &y, 1)),
                ("rouge_2", rouge_n(&x, &y, 2)),
                ("rouge_l", rouge_l(&x, &y)),
            ];
            for (id, got) in got {
                let expected = case[id].as_f64().unwrap();
                assert!((got - expected).abs() < 1e-9, "{id} of '{predicted}' and '{reference}': {got}, {expected}");
            }
        }
    }
}
