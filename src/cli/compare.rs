//! `conceptwatch compare`: compares two runs, groups of runs by a label, or two splits of a run.

use std::fmt::Write;

use clap::Args;

use crate::analysis_query::{Question, Report};
use leakage::compare::{
    Comparison, Criterion, CriterionVerdict, GroupReport, Interval, PairReport, ScoreComparison, SideReport,
    SplitReport, Verdict, Weighed, WeighedVerdict,
};
use leakage::diagnosis::Assessment;
use leakage::field_error::in_short;

use super::failure::Failure;
use super::source::Source;

/// Compare two runs, groups of runs by a label, or two splits of a run
///
/// Two runs: which leaks more, the published Leakage Criterion, and the difference in each score. With --by: the mean
/// scores of the runs for each value of a label, such as lambda, and the range of least leakage. With --with-split: the
/// scores of one run on two splits, at the same steps.
#[derive(Args)]
pub struct Options {
    /// A run.
    run_a: Option<String>,
    /// The run to compare it with.
    run_b: Option<String>,
    /// Compare groups of runs by the values of this label.
    #[arg(long, value_name = "LABEL")]
    by: Option<String>,
    /// With --by, include only runs with these labels.
    #[arg(long, value_name = "LABEL=VALUE,…")]
    r#where: Option<String>,
    /// Split whose evaluations are compared; for two runs, several splits are taken as folds [default: val]
    #[arg(long, value_name = "SPLIT,…")]
    split: Option<String>,
    /// Split of the same run to compare --split with, such as the same images with a region removed.
    #[arg(long, value_name = "SPLIT")]
    with_split: Option<String>,
    /// Scores, by id [default: the main scores that all runs have]
    #[arg(long, alias = "scores", value_name = "ID,ID")]
    score: Option<String>,
    /// Number of newest evaluations of each run [default: up to 5]
    #[arg(long, value_name = "N")]
    last: Option<String>,
    /// Confidence level of the intervals, between 0.5 and 1 [default: 0.95]
    #[arg(long, value_name = "SHARE")]
    confidence: Option<String>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: Source,
}

pub fn run(options: &Options) -> Result<String, Failure> {
    // In the terms of the command line; what the question refuses is named as in the API.
    match (&options.run_a, &options.run_b, &options.with_split, &options.by) {
        (None, None, None, None) => {
            return Err(Failure::bad_input("expected two runs, --by LABEL, or a run and --with-split SPLIT"));
        }
        (Some(run), None, None, None) => {
            let message = format!("got one run, '{}', expected another, or --with-split SPLIT", in_short(run));
            return Err(Failure::bad_input(message));
        }
        _ => {}
    }
    let given = [
        ("run_a", &options.run_a),
        ("run_b", &options.run_b),
        ("by", &options.by),
        ("where", &options.r#where),
        ("split", &options.split),
        ("with_split", &options.with_split),
        ("score", &options.score),
        ("last", &options.last),
        ("confidence", &options.confidence),
    ];
    let given: Vec<(&str, String)> = given.into_iter().filter_map(|(key, text)| Some((key, text.clone()?))).collect();
    // A request that it refuses needs no place.
    Question::of(|key| given.iter().find(|(name, _)| *name == key).map(|(_, text)| text.clone()))?;
    let report = options.source.answer("/api/v1/compare", &given)?;
    Ok(match (options.json, report) {
        (true, report) => format!("{}\n", serde_json::json!(report)),
        (false, Report::Pair(report)) => pair(&report, &options.source),
        (false, Report::Groups(report)) => groups(&report),
        (false, Report::Splits(report)) => splits(&report),
    })
}

// Writing to a string does not fail.

fn pair(report: &PairReport, source: &Source) -> String {
    let mut text = String::new();
    for (letter, side) in [("a", &report.a), ("b", &report.b)] {
        let _ = writeln!(text, "{letter}  {}", what(side));
        // A run that leaks less may still leak. One that is too short for a verdict is compared nevertheless.
        let asked = [("run", side.run.clone()), ("split", side.evaluations[0].0.clone())];
        if let Ok(Assessment { verdict, .. }) = source.answer("/api/v1/verdict", &asked) {
            let _ = writeln!(text, "   {}", verdict.to_string().replace('\n', "\n   "));
        }
    }
    let (a, b) = (&report.a.run, &report.b.run);
    let _ = writeln!(text, "\n{}\n  {}", weighed(&report.weighed, a, b), report.weighed.why);
    let _ = writeln!(text, "\nLeakage Criterion, by CTL and ICL alone: {}", verdict(&report.criterion, a, b));
    let _ = writeln!(text, "  {}", report.criterion.why);
    let unclipped = &report.criterion_unclipped;
    let _ = writeln!(text, "  without clipping at 0: {}", verdict(unclipped, a, b));
    let _ = writeln!(text, "  {}\n", unclipped.why);
    scores(&mut text, &report.scores, report.confidence);
    notes(&mut text, &report.notes);
    text
}

fn splits(report: &SplitReport) -> String {
    let mut text = String::new();
    for (letter, side) in [("a", &report.a), ("b", &report.b)] {
        let _ = writeln!(text, "{letter}  {}", what(side));
    }
    text.push('\n');
    scores(&mut text, &report.scores, report.confidence);
    notes(&mut text, &report.notes);
    text
}

fn scores(text: &mut String, scores: &[ScoreComparison], confidence: f64) {
    let percent = 100.0 * confidence;
    let [a, b] = ["a", "b"].map(|side| format!("{side}, ± {percent} %"));
    let _ = writeln!(text, "{:20} {a:>19} {b:>19}   a − b, {percent} % interval", "score");
    for score in scores {
        let _ = writeln!(text, "{}", line(&score.score, &score.comparison));
        concepts(text, score);
    }
}

fn what(side: &SideReport) -> String {
    let steps = side.evaluations.iter().map(|(_, step)| *step);
    let (first, last) = (steps.clone().min().unwrap_or(0), steps.max().unwrap_or(0));
    let mut splits: Vec<&str> = side.evaluations.iter().map(|(split, _)| split.as_str()).collect();
    splits.dedup();
    let rows = match side.rows {
        (least, most) if least == most => format!("{most} rows"),
        (least, most) => format!("{least} to {most} rows"),
    };
    let count = side.evaluations.len();
    let count = if count == 1 { "1 evaluation".to_owned() } else { format!("{count} evaluations") };
    format!("{}: {count} of {}, steps {first} to {last}, {rows}", side.run, splits.join(", "))
}

fn weighed(weighed: &Weighed, a: &str, b: &str) -> String {
    match weighed.verdict {
        WeighedVerdict::ALeaksMore => format!("Run {a} leaks more than run {b}"),
        WeighedVerdict::BLeaksMore => format!("Run {b} leaks more than run {a}"),
        WeighedVerdict::NoDifference => "No difference in leakage is shown".to_owned(),
        WeighedVerdict::ScoresDisagree => "The scores disagree on which run leaks more".to_owned(),
        WeighedVerdict::Undecided => "Undecided which run leaks more".to_owned(),
        WeighedVerdict::Undefined => "The leakage of the runs cannot be compared".to_owned(),
    }
}

fn verdict(criterion: &Criterion, a: &str, b: &str) -> String {
    match criterion.verdict {
        CriterionVerdict::ALeaksMore => format!("run {a} leaks more"),
        CriterionVerdict::BLeaksMore => format!("run {b} leaks more"),
        CriterionVerdict::Compatible => "no difference shown".to_owned(),
        CriterionVerdict::Undecided => "undecided: one score is higher and the other lower".to_owned(),
        CriterionVerdict::Undefined => "undefined".to_owned(),
    }
}

fn line(name: &str, comparison: &Comparison) -> String {
    let mean = |interval: &Option<Interval>| match interval {
        // One end may be cut to the score's range.
        Some(Interval { mean, low: Some(low), high: Some(high), .. }) => {
            format!("{mean:.4} ± {:.4}", (mean - low).max(high - mean))
        }
        Some(Interval { mean, .. }) => format!("{mean:.4}"),
        None => "–".to_owned(),
    };
    let difference = match (&comparison.difference, &comparison.undefined) {
        (_, Some(why)) => format!("undefined: {why}"),
        (Some(difference), None) => range(difference),
        (None, None) => String::new(),
    };
    let said = match comparison.verdict {
        Verdict::HigherInA => "  higher in a",
        Verdict::HigherInB => "  higher in b",
        Verdict::Compatible => "  no difference shown",
        Verdict::Undefined => "",
    };
    format!("{name:20} {:>19} {:>19}   {difference}{said}", mean(&comparison.a), mean(&comparison.b))
}

fn range(interval: &Interval) -> String {
    match (interval.low, interval.high) {
        (Some(low), Some(high)) => format!("{:.4} ({low:.4} to {high:.4})", interval.mean),
        _ => format!("{:.4}", interval.mean),
    }
}

/// The concepts that differ; `--json` lists them all.
fn concepts(text: &mut String, score: &ScoreComparison) {
    let differ = |verdict| matches!(verdict, Verdict::HigherInA | Verdict::HigherInB);
    let found: Vec<_> = score.per_concept.iter().filter(|one| differ(one.comparison.verdict)).collect();
    for one in &found {
        let _ = writeln!(text, "{}", line(&format!("  {}", one.concept), &one.comparison));
    }
    if !score.per_concept.is_empty() {
        let _ = writeln!(text, "  {} of {} concepts differ", found.len(), score.per_concept.len());
    }
}

fn groups(report: &GroupReport) -> String {
    let mut text = String::new();
    match (&report.least, &report.undefined) {
        (Some(least), _) => {
            let values = match least.values.as_slice() {
                [one] => one.clone(),
                [first, .., last] if least.below.is_some() => format!("{first} to {last}"),
                several => several.join(", "),
            };
            let _ = write!(text, "Least leakage: {} {values}", report.label);
            if values != least.reference {
                let _ = write!(text, " (compared with {})", least.reference);
            }
            text.push('\n');
            for (end, why) in [("below", &least.below), ("above", &least.above), ("caution", &least.caution)] {
                if let Some(why) = why {
                    let _ = writeln!(text, "  {end}: {why}");
                }
            }
        }
        (None, why) => {
            let _ = writeln!(text, "Least leakage: undefined: {}", why.as_deref().unwrap_or_default());
        }
    }
    let _ = writeln!(text, "\nmeans with {} % intervals over runs", 100.0 * report.confidence);
    let scores: Vec<&str> =
        report.groups.iter().flat_map(|group| &group.scores).map(|one| one.score.as_str()).collect();
    let scores = &scores[..scores.len() / report.groups.len().max(1)];
    let width = report.groups.iter().map(|group| group.value.len()).max().unwrap_or(0).max(report.label.len());
    let _ = write!(text, "\n{:width$}  runs  trained", report.label);
    for score in scores {
        let _ = write!(text, "  {score:22}");
    }
    for group in &report.groups {
        let trained = group.training.map_or("–".to_owned(), |t| format!("{} of {}", t.trained, t.runs));
        let _ = write!(text, "\n{:width$}  {:4}  {trained:7}", group.value, group.runs.len());
        for score in &group.scores {
            let cell = match score.interval {
                // One end may be cut to the score's range.
                Some(Interval { mean, low: Some(low), high: Some(high), .. }) => {
                    format!("{mean:.3} ({low:.3}, {high:.3})")
                }
                Some(Interval { mean, .. }) => format!("{mean:.3}"),
                None => "undefined".to_owned(),
            };
            let _ = write!(text, "  {cell:22}");
        }
    }
    text.push('\n');
    let reasons = report.groups.iter().flat_map(|group| {
        group
            .scores
            .iter()
            .filter_map(|one| Some(format!("{} {}: {}", group.value, one.score, one.undefined.as_ref()?)))
    });
    notes(&mut text, &reasons.chain(report.notes.iter().cloned()).collect::<Vec<_>>());
    text.lines().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

fn notes(text: &mut String, notes: &[String]) {
    for note in notes {
        let _ = write!(text, "\nnote: {note}");
    }
    if !notes.is_empty() {
        text.push('\n');
    }
}
