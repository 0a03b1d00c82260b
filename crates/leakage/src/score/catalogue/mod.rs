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
pub use row::{Cost, Score};

use row::ROW;

/// Goes up when a score's definition changes, which distinguishes its old points from new ones.
pub const CATALOGUE_VERSION: u32 = 4;

/// Families in the order in which they are listed and evaluated.
const FAMILIES: [&[Score]; 7] = [
    &leakage::ROWS,
    &embedding::ROWS,
    &accuracy::ROWS,
    &clarity::ROWS,
    &impurity::ROWS,
    &text::ROWS,
    &trustworthiness::ROWS,
];

/// All scores, in catalogue order.
pub static CATALOGUE: &[Score] = &{
    let mut all = [ROW; SCORES];
    let (mut family, mut filled) = (0, 0);
    while family < FAMILIES.len() {
        let (rows, mut at) = (FAMILIES[family], 0);
        while at < rows.len() {
            all[filled] = rows[at];
            (at, filled) = (at + 1, filled + 1);
        }
        family += 1;
    }
    all
};

const SCORES: usize = {
    let (mut family, mut scores) = (0, 0);
    while family < FAMILIES.len() {
        scores += FAMILIES[family].len();
        family += 1;
    }
    scores
};

pub fn find(id: &str) -> Option<&'static Score> {
    CATALOGUE.iter().find(|score| score.id == id)
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
        }
    }
}
