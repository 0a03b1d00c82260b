//! The table of all scores, a file for each family. A row is everything the rest of the program knows about a score: its
//! JSON key, metric families, page entry, documentation and the text of its refusal follow from here.

mod accuracy;
mod clarity;
mod embedding;
mod impurity;
mod inputs;
mod leakage;
mod memory;
mod paper;
mod row;
mod text;
mod trustworthiness;

pub use inputs::Input;
pub use memory::{Memory, Shape};
pub use paper::Paper;
pub use row::{Cost, ROW, Score};

/// Goes up when a score's definition changes, which distinguishes its old points from new ones.
pub const CATALOGUE_VERSION: u32 = 4;

/// The families and their scores, in the order in which they are listed and evaluated.
const FAMILIES: [(&str, &[Score]); 7] = [
    ("leakage", &leakage::ROWS),
    ("embedding leakage", &embedding::ROWS),
    ("accuracy", &accuracy::ROWS),
    ("clarity", &clarity::ROWS),
    ("impurity", &impurity::ROWS),
    ("text and image", &text::ROWS),
    ("trustworthiness", &trustworthiness::ROWS),
];

/// All scores, in catalogue order.
pub static CATALOGUE: &[Score] = &{
    let mut all = [ROW; SCORES];
    let (mut at_family, mut filled) = (0, 0);
    while at_family < FAMILIES.len() {
        let ((family, rows), mut at) = (FAMILIES[at_family], 0);
        while at < rows.len() {
            all[filled] = Score { family, ..rows[at] };
            (at, filled) = (at + 1, filled + 1);
        }
        at_family += 1;
    }
    all
};

const SCORES: usize = {
    let (mut family, mut scores) = (0, 0);
    while family < FAMILIES.len() {
        scores += FAMILIES[family].1.len();
        family += 1;
    }
    scores
};

pub fn find(id: &str) -> Option<&'static Score> {
    CATALOGUE.iter().find(|score| score.id == id)
}

/// Returns a score's name for the middle of a sentence, with its id: "leakage to the task (ctl_conditional)". An id that the
/// catalogue does not have stands alone.
pub fn named(id: &str) -> String {
    let Some(Score { title, plain, .. }) = find(id) else { return id.to_owned() };
    if !plain.is_empty() {
        return format!("{plain} ({id})");
    }
    // Abbreviations and symbols at the end of a title would stand beside the id.
    let name = [" (", ", Ĩ"].iter().fold(*title, |name, mark| name.split(mark).next().unwrap_or(name));
    let (first, rest) = name.split_at(1);
    let abbreviated = rest.split(' ').next().is_some_and(|word| word.contains(char::is_uppercase));
    let first = if abbreviated { first.to_owned() } else { first.to_lowercase() };
    format!("{first}{rest} ({id})")
}

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
            assert!(named(score.id).ends_with(&format!(" ({})", score.id)));
        }
    }

    #[test]
    fn sentences_name_a_score_and_its_id() {
        for (id, expected) in [
            ("ctl_conditional", "leakage to the task (ctl_conditional)"),
            ("icl", "interconcept leakage (icl)"),
            ("alignment_leakage", "alignment leakage (alignment_leakage)"),
            ("bleu", "BLEU of predicted concepts (bleu)"),
            ("rows", "rows"),
        ] {
            assert_eq!(named(id), expected);
        }
    }
}
