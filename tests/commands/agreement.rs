//! `conceptwatch agreement` as a user runs it.

use crate::common::{Done, program};

fn agreement(scores: &str, ratings: &str, options: &[&str]) -> Done {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = [("scores.csv", scores), ("ratings.csv", ratings)].map(|(name, text)| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    });
    Done::of(program().arg("agreement").args([a, b]).args(options))
}

const SCORES: &str = "image,concept_score,bleu\na,0.1,0.5\nb,0.2,0.5\nc,0.9,\nd,0.4,0.5\nunrated,1,1\n";
const RATINGS: &str = "image,ann,bob\na,1,1\nb,2,2\nc,4,4\nd,3,\n";

#[test]
fn scores_are_compared_with_the_mean_rating() {
    let object = agreement(SCORES, RATINGS, &["--json"]).json();
    assert_eq!((&object["items"], &object["raters"]), (&4.into(), &2.into()));
    assert_eq!(object["scores"]["concept_score"]["kendall_tau"]["value"], 1.0);
    assert_eq!(object["scores"]["concept_score"]["items"], 4);
    assert_eq!(object["scores"]["bleu"]["kendall_tau"]["undefined"], "one side does not vary");
    assert_eq!(object["ratings"]["krippendorff_alpha_ordinal"]["value"], 1.0);
    assert!(object["ratings"]["fleiss_kappa"]["undefined"].as_str().unwrap().contains("a rating is missing"));
    let table = agreement(SCORES, RATINGS, &[]).ok();
    assert!(table.contains("concept_score") && table.contains("1.0000 over 4 items"), "{table}");
}

#[test]
fn tables_are_read_as_those_of_score() {
    let ratings = RATINGS.replace(",\n", ",NA\n");
    let expected = agreement(SCORES, RATINGS, &[]).ok();
    for (scores, ratings) in [
        (SCORES.replace(',', ";"), ratings.replace(',', "\t")),
        (format!("\u{feff}{}", SCORES.replace(',', " , ")), ratings.replace('\n', "\r\n")),
    ] {
        assert_eq!(agreement(&scores, &ratings, &[]).ok(), expected, "{scores} {ratings}");
    }
}

#[test]
fn items_of_other_names_are_not_compared() {
    let table = agreement(SCORES, "image,ann\nA,1\nB,2\n", &[]).ok();
    assert!(table.contains("concept_score                kendall_tau undefined: no item has both"), "{table}");
}

#[test]
fn a_fault_is_reported_in_one_line_with_its_cell() {
    for (ratings, expected) in [
        ("image,ann\na,good\n", "item 'a', ann: got 'good', expected a number or an empty cell"),
        ("image,ann\na,1\na,2\n", "item 'a' has two rows"),
        ("image\na\n", "got 1 columns"),
        ("image,ann\n", "has no rows"),
    ] {
        let message = agreement(SCORES, ratings, &[]).refused(2);
        assert!(message.contains("ratings.csv: ") && message.contains(expected), "{message}");
    }
}
