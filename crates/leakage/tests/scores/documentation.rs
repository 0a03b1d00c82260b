//! `docs/scores.md` is generated from the catalogue by `UPDATE_DOCS=1 cargo test --test scores`.

use std::fmt::Write;

use leakage::score::catalogue::{CATALOGUE, CATALOGUE_VERSION, Input, Paper, Score};
use leakage::tensor::TensorName;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scores.md");

#[test]
fn the_documentation_is_the_catalogue() {
    let expected = render();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(std::path::Path::new(PATH).parent().unwrap()).unwrap();
        std::fs::write(PATH, &expected).unwrap();
    }
    let written = std::fs::read_to_string(PATH).unwrap_or_default();
    assert!(written == expected, "docs/scores.md is out of date: run UPDATE_DOCS=1 cargo test --test scores");
}

fn render() -> String {
    let mut text = format!(
        "# Scores\n\n\
         Rendered from the catalogue, version {CATALOGUE_VERSION}; points of different versions may not be comparable. \
         [reading.md](reading.md) says which scores to look at first.\n\n\
         A score whose inputs are absent is left out; one that cannot be computed is undefined, with the reason. \
         Values lie between 0 and 1 and have a standard error where nothing else is said. A mean leaves out, \
         and names (`left_out`), concepts without a value, such as a number in an accuracy; where less than half of \
         those that could have one do, it is undefined.\n\n\
         Of two estimators, `tie_aware`, the default, is the expected value over random orders of tied distances; \
         `published` repeats the authors' code, including noise and clipping.\n\n\
         A permutation test gives `p_value`, by permuting labels within the strata of the concept; `per_concept_q` and \
         `matrix_q` are adjusted for many concepts and pairs (Benjamini and Yekutieli). With thousands of rows every \
         leak is significant, so judge its size. `conceptwatch score --no-tests` omits them.\n\n\
         Inputs: ĉ `concept_activations`, c `concept_labels`, w `concept_embeddings` (of ids that end in `_positive` \
         and `_negative` the `positive_embeddings` and `negative_embeddings`), a `active_concepts`, y `task_labels`, \
         ŷ `task_predictions` or `task_logits`, ŷ(c) `intervened_task_predictions` or `intervention_predictions`. \
         Behind a score stand its inputs, unit, range and what it also gives. *Trust* says what was measured on data \
         of known truth or against interventions; digits are scikit-learn's, with 7 concepts unless stated.\n"
    );
    let shared = shared_remarks();
    let listed: Vec<&Score> = CATALOGUE.iter().filter(|score| base(score) == score.id).collect();
    let families = listed.chunk_by(|one, other| one.family == other.family);
    let links = families.map(|family| format!("[{}](#{})", capital(family[0]), family[0].family.replace(' ', "-")));
    write!(text, "\nFamilies: {}.\n", links.collect::<Vec<_>>().join(", ")).unwrap();
    for family in listed.chunk_by(|one, other| one.family == other.family) {
        write!(text, "\n## {}\n\n", capital(family[0])).unwrap();
        for score in family {
            let from = score.inputs.iter().map(input).collect::<Vec<_>>().join(", ");
            let facts = format!("{from}; {}{}{}", score.unit, range(score), gives(score));
            write!(text, "- **{}** {}{}. {} ({facts})", ids(score), score.title, source(score), score.help).unwrap();
            let own = score.trust.iter().filter(|remark| !shared.iter().any(|(known, _)| known == *remark));
            let own = own.copied().collect::<Vec<_>>().join(" ");
            text += &if own.is_empty() { "\n".to_owned() } else { format!(" *Trust:* {own}\n") };
        }
    }
    text += "\n## When to trust several scores\n\n";
    for (remark, ids) in shared {
        // A remark on so many scores names their kind.
        let of = if ids.len() > 12 { String::new() } else { format!("{}: ", ids.join(", ")) };
        writeln!(text, "- {of}{remark}").unwrap();
    }
    text += "\n## Papers\n\n";
    let papers = [
        Paper::Leakage,
        Paper::Impurity,
        Paper::Clarity,
        Paper::Trustworthiness,
        Paper::TextImage,
        Paper::Embeddings,
        Paper::Completeness,
        Paper::Guidance,
        Paper::Disentanglement,
        Paper::Hierarchical,
        Paper::Mechanistic,
        Paper::Absorption,
    ];
    for paper in papers {
        writeln!(text, "- {}: {}", short(paper), paper.citation()).unwrap();
    }
    text
}

/// Returns the name of a score's family as a heading.
fn capital(score: &Score) -> String {
    let (first, rest) = score.family.split_at(1);
    format!("{}{rest}", first.to_uppercase())
}

/// Remarks that several scores have, each with the ids of these scores.
fn shared_remarks() -> Vec<(&'static str, Vec<String>)> {
    let mut remarks: Vec<(&str, Vec<String>)> = Vec::new();
    for score in CATALOGUE.iter().filter(|score| base(score) == score.id) {
        for &remark in score.trust {
            let id = format!("`{}`", score.id);
            match remarks.iter_mut().find(|(known, _)| *known == remark) {
                Some((_, ids)) => ids.push(id),
                None => remarks.push((remark, vec![id])),
            }
        }
    }
    remarks.retain(|(_, ids)| ids.len() > 1);
    remarks
}

/// Returns a score's id, and the endings of the scores that repeat it on positive and negative embeddings.
fn ids(score: &Score) -> String {
    let others = CATALOGUE.iter().filter(|other| other.id != score.id && base(other) == score.id);
    let endings: String = others.map(|other| format!(", `{}`", &other.id[score.id.len()..])).collect();
    format!("`{}`{endings}", score.id)
}

/// Returns the least and the largest value where these are not 0 and 1; a limit of a million or more is none.
fn range(score: &Score) -> String {
    let (least, most) = score.range;
    if (least, most) == (0.0, 1.0) {
        return String::new();
    }
    let number = |value: f64| match value {
        ..=-1e6 => "−∞".to_owned(),
        1e6.. => "∞".to_owned(),
        _ => value.to_string(),
    };
    format!(", {} to {}", number(least), number(most))
}

/// The id of a score, or of the one that it repeats on positive or negative embeddings.
fn base(score: &Score) -> &'static str {
    let base = score.id.strip_suffix("_positive").or_else(|| score.id.strip_suffix("_negative"));
    base.filter(|base| CATALOGUE.iter().any(|other| other.id == *base)).unwrap_or(score.id)
}

fn source(score: &Score) -> String {
    let paper = short(score.paper);
    match (score.paper, score.equation) {
        (Paper::Own | Paper::Common, "") => String::new(),
        (_, "") => format!(" ({paper})"),
        (Paper::Own, equation) => format!(" (after P0 eq. {equation})"),
        (_, equation) if equation.starts_with(|c: char| c.is_ascii_digit()) => format!(" ({paper} eq. {equation})"),
        (_, equation) => format!(" ({paper} {equation})"),
    }
}

fn short(paper: Paper) -> &'static str {
    match paper {
        Paper::Leakage => "P0",
        Paper::Impurity => "P1",
        Paper::Clarity => "P2",
        Paper::Trustworthiness => "P3",
        Paper::TextImage => "P4",
        Paper::Embeddings => "P5",
        Paper::Completeness => "P6",
        Paper::Guidance => "P7",
        Paper::Disentanglement => "P8",
        Paper::Hierarchical => "P9",
        Paper::Mechanistic => "P10",
        Paper::Absorption => "P11",
        Paper::Own => "this project",
        Paper::Common => "textbook",
    }
}

fn input(input: &Input) -> String {
    match input {
        Input::Numbers(name) => format!("{} as numbers", symbol(*name)),
        Input::EitherTensor(TensorName::TaskPredictions, _) => "ŷ".to_owned(),
        Input::EitherTensor(TensorName::IntervenedTaskPredictions, _) => "ŷ(c)".to_owned(),
        Input::EitherTensor(one, other) => format!("{} or {}", symbol(*one), symbol(*other)),
        Input::Tensor(name) => symbol(*name),
        constant => format!("`{constant}`"),
    }
}

/// Returns the letter that stands for a tensor on the page, or its name.
fn symbol(tensor: TensorName) -> String {
    let letter = match tensor {
        TensorName::ConceptActivations => "ĉ",
        TensorName::ConceptLabels => "c",
        TensorName::ConceptEmbeddings => "w",
        TensorName::ActiveConcepts => "a",
        TensorName::TaskLabels => "y",
        named => return format!("`{named}`"),
    };
    letter.to_owned()
}

fn gives(score: &Score) -> String {
    let (curve, tested) = (score.curve.is_some(), score.test.is_some());
    let parts =
        [(score.per_concept, "per concept"), (score.matrix, "matrix"), (curve, "curve"), (tested, "permutation test")];
    let given = parts.into_iter().filter(|(given, _)| *given).map(|(_, part)| part.to_owned());
    let no_error = score.no_standard_error.map(|why| format!("no standard error ({why})"));
    let parts = no_error.into_iter().chain(given).collect::<Vec<_>>().join(", ");
    if parts.is_empty() { parts } else { format!("; {parts}") }
}
