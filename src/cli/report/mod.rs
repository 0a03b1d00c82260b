//! Reports: one page each, with charts, that needs nothing else. `conceptwatch score --html` reports scores of files,
//! `conceptwatch diagnose --html` a run.
//!
//! Charts are SVG in the colours of the live page, whose style sheet a report carries. It has no script, and its policy
//! lets a browser fetch nothing.

mod chart;
mod html;
mod place;
mod run;

use std::path::PathBuf;

use crate::VERSION;
use leakage::limits::{INTERVAL, SHOWN};
use leakage::point::Outcome;
use leakage::run::Run;
use leakage::score::catalogue::Score;

pub use place::Page;
pub use run::RunReport;

use chart::{bars, curve, heat, interval};
use html::{escaped, number, page};

/// The scores that are shown first.
const GLANCE: [&str; 5] =
    ["ctl_conditional", "icl_conditional", "intervention_drop", "concept_accuracy", "task_accuracy"];

/// A report on the scores of files.
pub struct Report<'a> {
    pub files: &'a [PathBuf],
    pub rows: usize,
    pub run: &'a Run,
    pub estimator: &'a str,
    pub tie_fraction: f64,
    pub scores: &'a [(&'static Score, Outcome)],
    pub passed_over: &'a [String],
    pub warnings: &'a [String],
}

impl Report<'_> {
    pub fn html(&self) -> String {
        let names: Vec<String> =
            self.files.iter().map(|file| escaped(&file.file_name().unwrap_or_default().to_string_lossy())).collect();
        let title = format!("Concept leakage: {}", names.join(", "));
        let mut body = format!(
            "<h1>{title}</h1>\n<p class=\"facts\">{} rows · {} concepts · {} estimator · {:.0} % of activations tie · conceptwatch {}</p>\n",
            self.rows,
            self.run.concept_count(),
            escaped(self.estimator),
            100.0 * self.tie_fraction,
            VERSION,
        );
        body += &self.glance();
        body += &self.table();
        for (score, outcome) in self.in_order() {
            body += &self.detail(score, outcome);
        }
        body += &self.notes();
        page(&title, &body)
    }

    /// The scores of the first look, then the others in the order of the catalogue.
    fn in_order(&self) -> impl Iterator<Item = &(&'static Score, Outcome)> {
        let first = GLANCE.iter().filter_map(|id| self.scores.iter().find(|(score, _)| score.id == *id));
        first.chain(self.scores.iter().filter(|(score, _)| !GLANCE.contains(&score.id)))
    }

    fn glance(&self) -> String {
        let tile = |id: &&'static str| {
            let (score, outcome) = self.scores.iter().find(|(score, _)| score.id == *id)?;
            let value = outcome.value()?;
            let error = value.standard_error.map_or(String::new(), |error| format!(" ± {:.3}", INTERVAL * error));
            let half = value.standard_error.map_or(0.0, |error| INTERVAL * error);
            Some(format!(
                "<div class=\"tile\"><dt>{}</dt><dd>{}<small>{error}</small></dd>{}</div>\n",
                escaped(score.title),
                number(value.value, 3),
                beside_limit(score.id, value.value, half)
            ))
        };
        let tiles: String = GLANCE.iter().filter_map(tile).collect();
        if tiles.is_empty() { tiles } else { format!("<dl class=\"tiles\">\n{tiles}</dl>\n") }
    }

    fn table(&self) -> String {
        let row = |(score, outcome): &(&'static Score, Outcome)| {
            let name = format!(
                "<th scope=\"row\"><a href=\"#{0}\">{1}</a> <code>{0}</code></th>",
                score.id,
                escaped(score.title)
            );
            match outcome {
                Outcome::Value(value) => {
                    let error = value.standard_error.map_or("–".to_owned(), |error| number(error, 4));
                    let p = value.p_value.map_or("–".to_owned(), of_p);
                    let over = value.left_out.as_ref().map_or(String::new(), |left| escaped(&left.to_string()));
                    let chart = interval(value.value, value.standard_error.map(|error| INTERVAL * error), score.range);
                    format!(
                        "<tr>{name}<td class=\"n\">{}</td><td class=\"n\">{error}</td><td class=\"n\">{p}</td><td>{chart}</td><td>{over}</td></tr>\n",
                        number(value.value, 4)
                    )
                }
                Outcome::Undefined(undefined) => {
                    format!(
                        "<tr>{name}<td colspan=\"5\" class=\"none\">undefined: {}</td></tr>\n",
                        escaped(&undefined.why)
                    )
                }
            }
        };
        let rows: String = self.in_order().map(row).collect();
        format!(
            "<section class=\"card\"><h2>All scores</h2>\n<div class=\"wide\"><table>\n<thead><tr><th>Score</th><th class=\"n\">Value</th>\
             <th class=\"n\">Standard error</th><th class=\"n\">p</th><th>95 % interval on the score’s range</th><th></th></tr></thead>\n\
             <tbody>\n{rows}</tbody></table></div></section>\n"
        )
    }

    /// The parts of a score, if it has any, with what it means.
    fn detail(&self, score: &Score, outcome: &Outcome) -> String {
        let names: Vec<&str> = self.run.concepts.iter().map(|concept| concept.name.as_str()).collect();
        let mut charts = String::new();
        if let Some(value) = outcome.value() {
            if let Some(values) = value.per_concept.as_ref().filter(|values| values.len() == names.len()) {
                charts += &format!("<h3>By concept, highest first</h3>\n{}", bars(&names, values));
            }
            if let Some(matrix) = value.matrix.as_ref().filter(|matrix| matrix.len() == names.len() && names.len() > 1)
            {
                let least = limit_of(score.id).map_or(0.0, |(limit, _)| limit);
                charts += &format!("<h3>By pair: row concept → column concept</h3>\n{}", heat(&names, matrix, least));
            }
            if let Some(points) = &value.curve {
                let label = score.curve.map_or("", |curve| curve.x);
                charts += &format!("<h3>By {}</h3>\n{}", escaped(label), curve(points));
            }
        }
        let reading: String = score.trust.iter().map(|remark| format!("<li>{}</li>", escaped(remark))).collect();
        let open = if GLANCE.contains(&score.id) { " open" } else { "" };
        // The anchor is inside, so that a browser that follows a link to it opens what it is in.
        format!(
            "<details class=\"card\"{open}><summary><h2>{1}</h2></summary>\n<div id=\"{0}\"><p>{2}</p>\n\
             <details><summary>When to trust it</summary><ul>{reading}</ul></details>\n{charts}</div></details>\n",
            score.id,
            escaped(score.title),
            escaped(score.help)
        )
    }

    fn notes(&self) -> String {
        let mut notes: Vec<String> = self.warnings.iter().map(|warning| escaped(warning)).collect();
        if !self.passed_over.is_empty() {
            notes.push(format!("Arrays that no score knows: {}", escaped(&self.passed_over.join(", "))));
        }
        for (score, outcome) in self.scores {
            if let Some(left) = outcome.value().and_then(|value| value.left_out.as_ref()) {
                let concepts: Vec<String> =
                    left.concepts.iter().map(|&at| escaped(&self.run.concepts[at as usize].name)).collect();
                let what = if concepts.is_empty() { "some pairs".to_owned() } else { concepts.join(", ") };
                notes.push(format!("{} leaves out {what}: {}", escaped(score.title), escaped(&left.why)));
            }
        }
        let items: String = notes.iter().map(|note| format!("<li>{note}</li>\n")).collect();
        if items.is_empty() {
            items
        } else {
            format!("<section class=\"card\"><h2>Notes</h2><ul>\n{items}</ul></section>\n")
        }
    }
}

/// The limit from which the diagnosis concludes, and whether values above it are the bad ones.
fn limit_of(id: &str) -> Option<(f64, bool)> {
    SHOWN.iter().find(|(score, ..)| *score == id).map(|&(_, limit, above)| (limit, above))
}

/// Where a value and its interval are beside the limit of its score, in words; only the bad side is coloured.
fn beside_limit(id: &str, value: f64, half: f64) -> String {
    let Some((limit, above_is_bad)) = limit_of(id) else {
        return String::new();
    };
    let side = if above_is_bad { "above" } else { "below" };
    let beyond = if above_is_bad { value - limit } else { limit - value };
    let (class, words) = match beyond {
        _ if beyond > half => ("bad", format!("{side} the limit, {limit}")),
        _ if beyond > -half => ("", format!("the interval reaches the limit, {limit}")),
        _ => ("", format!("not {side} the limit, {limit}")),
    };
    format!("<dd class=\"limit {class}\">{words}</dd>")
}

/// A p-value as a person writes it: three decimals at most, with an exponent only below that.
pub fn of_p(p: f64) -> String {
    if p < 0.001 {
        return format!("{p:.1e}");
    }
    let text = format!("{p:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::of_p;

    #[test]
    fn p_values_are_plain_numbers() {
        let written = [1.0, 0.005, 0.0123, 0.001, 2.5e-4].map(of_p);
        assert_eq!(written, ["1", "0.005", "0.012", "0.001", "2.5e-4"]);
    }
}
