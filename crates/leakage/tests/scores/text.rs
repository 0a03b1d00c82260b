//! Text and image scores: hand-computed rows, and inputs that leave them undefined.

use super::*;

fn columns() -> Columns {
    let texts = |texts: [&str; 2]| texts.map(str::to_owned).to_vec();
    Columns::new(2, 1)
        .with(TensorName::ImageEmbeddings, &[2], vec![3.0, 4.0, 1.0, 0.0])
        .with(TensorName::PredictedTextEmbeddings, &[2], vec![4.0, 3.0, -1.0, 1.0])
        .with(TensorName::ReferenceTextEmbeddings, &[2], vec![0.0, 2.0, 1.0, 1.0])
        .with_texts(TensorName::PredictedText, texts(["black wing", "white belly, cone bill"]))
        .with_texts(TensorName::ReferenceText, texts(["black wings", "white belly, cone bill"]))
}

#[test]
fn negative_cosines_count_as_0() {
    // cos: 24/25 and −1/√2; text against reference: 3/5 and 0.
    assert!((columns().value("concept_score") - 0.48).abs() < 1e-12);
    let harmonic = 2.0 * 0.96 * 0.6 / 1.56;
    assert!((columns().value("ref_concept_score") - harmonic / 2.0).abs() < 1e-12);
    let weighted = columns().constants(RunConstants { concept_score_weight: Some(2.5), ..RunConstants::default() });
    assert!((weighted.value("concept_score") - 1.2).abs() < 1e-12);
    // The length of an embedding has no effect, however large.
    let huge = columns().changed(TensorName::ImageEmbeddings, |_, _, x| x * 1e300);
    assert!((huge.value("concept_score") - 0.48).abs() < 1e-12);
}

#[test]
fn scores_of_texts_are_means_over_rows() {
    let columns = columns();
    // Row 0: one of two words, by stem both; row 1 is the same text.
    assert!((columns.value("rouge_l") - (0.5 + 1.0) / 2.0).abs() < 1e-12);
    assert!((columns.value("rouge_1") - (0.5 + 1.0) / 2.0).abs() < 1e-12);
    assert!((columns.value("rouge_2") - (0.0 + 1.0) / 2.0).abs() < 1e-12);
    let meteor_of_equal = |words: f64| 1.0 - 0.5 / words.powi(3);
    assert!((columns.value("meteor") - (meteor_of_equal(2.0) + meteor_of_equal(5.0)) / 2.0).abs() < 1e-12);
    assert!((columns.value("bleu") - (0.5 * 0.5_f64).sqrt() / 2.0 - 0.5).abs() < 1e-12);
}

#[test]
fn empty_texts_and_mismatched_encoders_are_named() {
    let empty = columns().with_texts(TensorName::ReferenceText, vec!["black".into(), "  ".into()]);
    for id in ["bleu", "meteor", "meteor_eq9", "rouge_1", "rouge_2", "rouge_l"] {
        assert_eq!(empty.why(id), "reference_text: 1 of 2 rows have no word", "{id}");
    }
    let wider = columns().with(TensorName::PredictedTextEmbeddings, &[3], vec![1.0; 6]);
    assert_eq!(
        wider.why("concept_score"),
        "image_embeddings have 2 coordinates, predicted_text_embeddings 3: they are of different encoders"
    );
    let zero = columns().changed(TensorName::ReferenceTextEmbeddings, |row, _, x| if row == 1 { 0.0 } else { x });
    assert_eq!(
        zero.why("ref_concept_score"),
        "reference_text_embeddings: row 1 of the sample is 0 and has no direction"
    );
    assert!(zero.value("concept_score") > 0.0, "the others have a value");
}
