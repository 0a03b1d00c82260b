//! `conceptwatch diagnose --html`: a run's diagnosis and curves.

use serde_json::Value;

use crate::VERSION;
use leakage::compare::USUAL_OF_GROUPS;
use leakage::diagnosis::{Assessment, Line, State};
use leakage::score::catalogue::find;

use super::chart::{bars, curve};
use super::html::{escaped, page};

/// The score that is shown for each concept.
pub const OF_CONCEPTS: &str = "ctl_conditional";

/// A report on a run, made from answers of the API.
pub struct RunReport<'a> {
    pub found: &'a Assessment,
    /// The answer of `/api/v1/run`.
    pub run: &'a Value,
    /// The answer of `/api/v1/curves`.
    pub curves: &'a Value,
    /// The answer of `/api/v1/point` for the evaluation that was diagnosed.
    pub point: &'a Value,
}

impl RunReport<'_> {
    pub fn html(&self) -> String {
        let Assessment { run, split, step, rows, epoch, incomplete, verdict, .. } = self.found;
        let title = self.run["title"].as_str().filter(|title| !title.is_empty()).unwrap_or(run);
        let epoch = epoch.map_or(String::new(), |epoch| format!(" · epoch {epoch}"));
        let mut body = format!(
            "<h1>{}</h1>\n<p class=\"facts\">{}{} · step {step}{epoch} · {rows} rows{}{} · conceptwatch {}</p>\n",
            escaped(title),
            if title == run { String::new() } else { format!("{} · ", escaped(run)) },
            escaped(split),
            if *incomplete { ", incomplete" } else { "" },
            self.labels(),
            VERSION,
        );
        if let Some(note) = self.run["note"].as_str().filter(|note| !note.is_empty()) {
            let lines: Vec<String> = note.lines().map(escaped).collect();
            body += &format!("<p>{}</p>\n", lines.join("<br>"));
        }
        let lines: Vec<String> = verdict.to_string().lines().map(escaped).collect();
        body += &format!("<p class=\"verdict\">{}</p>\n", lines.join("<br>"));
        body += &self.findings();
        body += &self.charts();
        body += &self.concepts();
        body += &self.checked();
        page(&format!("Concept leakage: {}", escaped(title)), &body)
    }

    fn labels(&self) -> String {
        let labels = self.run["labels"].as_object().into_iter().flatten();
        labels
            .map(|(key, value)| format!(" · {} = {}", escaped(key), escaped(value.as_str().unwrap_or_default())))
            .collect()
    }

    fn with(&self, state: State) -> impl Iterator<Item = &Line> {
        self.found.coverage.iter().filter(move |line| line.state == state)
    }

    fn findings(&self) -> String {
        let found = |line: &Line| {
            let evidence: String =
                line.evidence.iter().map(|evidence| format!("<li>{}</li>\n", escaped(&evidence.to_string()))).collect();
            let action = match line.action.is_empty() {
                true => String::new(),
                false => format!("<p><strong>What to do:</strong> {}</p>\n", escaped(&line.action)),
            };
            format!(
                "<section class=\"card\"><h2>{}</h2>\n<p>{}</p>\n{action}<ul>\n{evidence}</ul>\n<p class=\"none\">{}</p></section>\n",
                escaped(&line.title),
                escaped(&line.text),
                escaped(&line.source)
            )
        };
        let findings: String = self.with(State::Found).map(found).collect();
        if findings.is_empty() {
            let said = "Nothing was found to be wrong. What was checked, and how large an effect would have been seen, \
                        is at the end.";
            return format!("<section class=\"card\"><h2>No finding</h2>\n<p>{said}</p></section>\n");
        }
        findings
    }

    fn charts(&self) -> String {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let steps: Vec<f64> = list(&self.curves["step"]).iter().filter_map(Value::as_f64).collect();
        // Indices of evaluations by attempts that the run has left.
        let superseded: Vec<usize> = list(&self.curves["superseded"])
            .iter()
            .flat_map(&list)
            .filter_map(|place| usize::try_from(place.as_u64()?).ok())
            .collect();
        let chart = |id: &&str| {
            let values = list(&self.curves["scores"][*id]["value"]);
            let places = steps.iter().zip(&values).enumerate().filter(|(place, _)| !superseded.contains(place));
            let points: Vec<(f64, Option<f64>)> = places.map(|(_, (&step, value))| (step, value.as_f64())).collect();
            points.iter().any(|(_, value)| value.is_some()).then(|| {
                let title = find(id).map_or(*id, |score| score.title);
                format!("<section class=\"card\"><h2>{}</h2>\n{}</section>\n", escaped(title), curve(&points))
            })
        };
        let charts: String = USUAL_OF_GROUPS.iter().filter_map(chart).collect();
        format!("<h2>By step</h2>\n<div class=\"pairs\">\n{charts}</div>\n")
    }

    fn concepts(&self) -> String {
        let names: Vec<&str> =
            self.run["concepts"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let values = self.point["scores"][OF_CONCEPTS]["per_concept"].as_array().into_iter().flatten();
        let values: Vec<Option<f64>> = values.map(Value::as_f64).collect();
        if values.is_empty() || values.len() != names.len() {
            return String::new();
        }
        let title = find(OF_CONCEPTS).map_or(OF_CONCEPTS, |score| score.title);
        format!(
            "<section class=\"card\"><h2>{} of each concept</h2>\n{}</section>\n",
            escaped(title),
            bars(&names, &values)
        )
    }

    fn checked(&self) -> String {
        let item = |line: &Line| format!("<li>{}: {}</li>\n", escaped(&line.subject), escaped(&line.text));
        let list = |title: &str, state| {
            let items: String = self.with(state).map(item).collect();
            match items.is_empty() {
                true => items,
                false => format!("<section class=\"card\"><h2>{title}</h2><ul>\n{items}</ul></section>\n"),
            }
        };
        list("Checked without a finding", State::Absent) + &list("Not known", State::Unknown)
    }
}
