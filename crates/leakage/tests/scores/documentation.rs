//! `docs/scores.md` is generated from the catalogue by `UPDATE_DOCS=1 cargo test --test scores`.

use std::fmt::Write;

use leakage::score::catalogue::{CATALOGUE, CATALOGUE_VERSION, Input, Paper, Score};

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
         Rendered from the catalogue, version {CATALOGUE_VERSION}. Points of different versions may not be \
         comparable.\n\n\
         A score whose inputs are absent is left out. A score that cannot be computed is undefined, with the reason: \
         it is never 0 and never NaN. Estimation noise may take a value a little outside its range. Every score has a \
         value and, where nothing else is said, its standard error. Scores without a source are this project's own or \
         textbook measures. Ids that end in `_positive` and `_negative` take \
         `positive_embeddings` and `negative_embeddings` in place of `concept_embeddings`.\n\n\
         Where only some concepts have no value, the score is the mean over the others and names those it leaves out \
         (`left_out`); with less than half of them it is undefined. Scores that train networks join their point later.\n\n\
         There are two estimators. `tie_aware`, the default, is the expected value over random orders of tied \
         distances; `published` repeats the authors' code, including noise and clipping. Compare `icl` only between \
         points of equal N, because its normaliser grows with N. [reading.md](reading.md) says which scores to look at \
         first.\n\n\
         | score and source | from | unit, range; also gives | what it shows |\n|---|---|---|---|\n"
    );
    for score in CATALOGUE.iter().filter(|score| base(score) == score.id) {
        let variants = CATALOGUE.iter().filter(|other| base(other) == score.id);
        let ids = variants.map(|other| format!("`{}`", other.id)).collect::<Vec<_>>().join(", ");
        let range = format!("{} to {}", score.range.0, score.range.1).replace("inf", "∞");
        let cells = [
            format!("{ids}: {}{}", score.title, source(score)),
            score.inputs.iter().map(input).collect::<Vec<_>>().join(", "),
            format!("{}, {range}{}", score.unit, gives(score)),
            score.help.to_owned(),
        ];
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        writeln!(text, "| {} |", cells.join(" | ")).unwrap();
    }
    text += "\nA permutation test gives `p_value`, by permuting labels within the strata of the concept. It is exact for \
             class labels. `per_concept_q` and `matrix_q` are adjusted for many concepts and pairs (Benjamini and \
             Yekutieli) and approximate. With thousands of rows every leak is significant, so judge its size. Tests \
             join their point with the slow scores; `conceptwatch score --no-tests` omits them.\n";
    text += "\n## When to trust a score\n\n\
             Each remark was measured on data of known truth or against interventions. Digits are scikit-learn's; the \
             other data sets are those of the papers.\n\n";
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
    for (remark, ids) in remarks {
        // A remark on so many scores names their kind.
        let of = if ids.len() > 12 { String::new() } else { format!("{}: ", ids.join(", ")) };
        writeln!(text, "- {of}{remark}").unwrap();
    }
    text += "\nPapers:\n\n";
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
    ];
    for paper in papers {
        writeln!(text, "- {}: {}", short(paper), paper.citation()).unwrap();
    }
    text
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
        Paper::Own => "this project",
        Paper::Common => "textbook",
    }
}

fn input(input: &Input) -> String {
    match input {
        Input::EitherTensor(a, b) => format!("`{a}` or `{b}`"),
        one => format!("`{one}`"),
    }
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
