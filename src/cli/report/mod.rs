//! Reports: the page of one run in a file that needs nothing else. `conceptwatch diagnose --html` reports a run,
//! `conceptwatch score --html` files.
//!
//! A report has the page's own modules and style sheets, the answers of the API that the view of a run asks for, and the
//! output of the command as text, for browsers without JavaScript. Its policy runs no other script, and lets a browser
//! fetch nothing.

mod place;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use axum::http::StatusCode;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::history::{Identity, Limits, RunOutcome, Sqlite, Store};
use crate::server::http::PAGE_FILES;
use leakage::compare::USUAL_OF_GROUPS;
use leakage::field_error::printable;
use leakage::point::Point;
use leakage::run::Run;
use leakage::score::catalogue::CATALOGUE;

use super::failure::Failure;
use super::run_targets::Target;

pub use place::Page;

/// The only script that runs by itself: it starts the page's modules.
const LOADER: &str = include_str!("loader.js");

/// The scores whose pairs `web/views/pairs.js` draws.
const OF_PAIRS: [&str; 4] = ["icl_conditional", "icl", "icl_excess", "icl_label"];
/// The scores that `web/views/concepts.js` lists first: only of these a report has the curve of each concept.
const OF_CONCEPTS: [&str; 4] = ["ctl_conditional", "embedding_ct_conditional", "ctl", "icl"];

/// The page of a run.
pub struct Report {
    title: String,
    /// By path and score or step, as `web/data/api.js` reads them.
    answers: Value,
}

impl Report {
    /// Asks for all that the page shows of a run. `run` is the answer of `/api/v1/run`.
    pub fn of_run(target: &Target<'_>, run: &Value, split: &str) -> Result<Self, Failure> {
        let name = run["name"].as_str().unwrap_or_default();
        let ask = |path: &str, more: Option<(&str, &str)>| {
            let given = [("run", name), ("split", split)].into_iter().chain(more);
            let given: Vec<(&str, String)> = given.map(|(key, value)| (key, value.to_owned())).collect();
            target.ask(&format!("/api/v1/{path}"), &given)
        };
        let mut answers = json!({"runs": {"runs": [run], "total": 1, "next": null}});
        answers["catalogue"] = target.ask("/api/v1/catalogue", &[])?.expect_ok()?;
        let alerts = target.ask("/api/v1/alerts", &[])?.expect_ok()?;
        // The other runs are not the reader's business.
        let own = |list: &str| -> Vec<&Value> {
            alerts[list].as_array().into_iter().flatten().filter(|alert| alert["run"] == name).collect()
        };
        answers["alerts"] = json!({"rules": alerts["rules"], "standings": own("standings"), "changes": own("changes")});
        for path in ["overview", "point", "verdict", "unscored"] {
            answers[path] = ask(path, None)?.expect_ok()?;
        }
        let curved: Vec<&str> = CATALOGUE.iter().filter(|score| score.curve.is_some()).map(|score| score.id).collect();
        let drawn: Vec<&str> = USUAL_OF_GROUPS.iter().chain(&curved).copied().collect();
        answers["curves"] = ask("curves", Some(("scores", &drawn.join(","))))?.expect_ok()?;
        let of_concepts = OF_CONCEPTS.into_iter().filter(|id| answers["point"]["scores"][id]["per_concept"].is_array());
        let of_concepts: Vec<&str> = of_concepts.collect();
        let parts =
            OF_PAIRS.map(|id| ("matrix", id)).into_iter().chain(of_concepts.into_iter().map(|id| ("concepts", id)));
        for (path, score) in parts {
            let answer = ask(path, Some(("score", score)))?;
            // Not every run has each.
            if answer.status != StatusCode::NOT_FOUND {
                answers[format!("{path} {score}")] = answer.expect_ok()?;
            }
        }
        // A slow score joins an earlier evaluation than the newest, which then has the curve behind it.
        for id in curved.into_iter().filter(|id| answers["point"]["scores"][id]["curve"].is_null()).collect::<Vec<_>>()
        {
            if let Some(step) = newest_step(&answers["curves"], id) {
                let step = step.to_string();
                answers[format!("point {step}")] = ask("point", Some(("step", &step)))?.expect_ok()?;
            }
        }
        let pairs = OF_PAIRS.into_iter().find(|id| answers.get(format!("matrix {id}")).is_some());
        let pairs = pairs.unwrap_or(OF_PAIRS[0]);
        answers["view"] = json!({"page": "run", "run": name, "split": split, "pairs": pairs});
        let title = run["title"].as_str().filter(|title| !title.is_empty()).unwrap_or(name).to_owned();
        Ok(Self { title, answers })
    }

    /// Reports the scores of files, as those of a run with one evaluation.
    pub fn of_files(files: &[PathBuf], run: &Run, point: &Point) -> Result<Self, Failure> {
        let history = Sqlite::open(None, Limits { bytes: u64::MAX })?;
        let recorded = history
            .record_run(run, &Identity::default(), point.time)
            .and_then(|_| history.record_point(point, None))
            .and_then(|_| history.finish_run(&run.name, point.time, &RunOutcome::Finished));
        recorded?;
        let target = Target::of_store("files".to_owned(), Arc::new(history))?;
        let declared = target.ask("/api/v1/run", &[("run", run.name.clone())])?.expect_ok()?;
        let mut report = Self::of_run(&target, &declared, &point.split)?;
        let name = |file: &PathBuf| printable(&file.file_name().unwrap_or_default().to_string_lossy());
        report.title = files.iter().map(name).collect::<Vec<_>>().join(", ");
        report.answers["of_files"] = true.into();
        report.answers["runs"]["runs"][0]["title"] = report.title.as_str().into();
        // A file has no step.
        for place in ["/overview/runs/0/step", "/overview/runs/0/verdict/since", "/point/step"] {
            if let Some(step) = report.answers.pointer_mut(place) {
                *step = Value::Null;
            }
        }
        Ok(report)
    }

    /// The report with the output of the command, line by line, below the page.
    pub fn html(&self, output: &str) -> String {
        let files: BTreeMap<&str, &str> =
            PAGE_FILES.iter().filter_map(|&(name, bytes)| Some((name, std::str::from_utf8(bytes).ok()?))).collect();
        let modules: BTreeMap<_, _> = files.iter().filter(|(name, _)| name.ends_with(".js")).collect();
        let hash = BASE64_STANDARD.encode(digest(&SHA256, LOADER.as_bytes()));
        let mut html = String::new();
        for line in files["index.html"].lines() {
            html += &match line {
                "<html lang=\"en\">" => "<html lang=\"en\" class=\"report\">".to_owned(),
                "<meta charset=\"utf-8\">" => format!(
                    "{line}\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-{hash}' \
                     blob:; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'\">"
                ),
                "<title>conceptwatch</title>" => format!("<title>{} · conceptwatch</title>", escaped(&self.title)),
                "</main>" => format!("{}{line}", self.text(output)),
                "</body>" => format!(
                    "{}{}<script>{LOADER}</script>\n{line}",
                    data("answers", &self.answers),
                    data("modules", &json!(modules))
                ),
                _ => match line.strip_prefix("<link rel=\"stylesheet\" href=\"assets/") {
                    Some(sheet) => format!("<style>\n{}</style>", files[sheet.trim_end_matches("\">")]),
                    None if is_of_a_sidecar(line) => continue,
                    None => line.to_owned(),
                },
            };
            html.push('\n');
        }
        html
    }

    fn text(&self, output: &str) -> String {
        let said = |action: &Value, key: &str| escaped(action[key].as_str().unwrap_or_default());
        let actions = self.answers["verdict"]["actions"].as_array().into_iter().flatten();
        let actions: String = actions
            .map(|action| format!("<li><b>{}</b><p>{}</p></li>\n", said(action, "text"), said(action, "why")))
            .collect();
        let lines: Vec<String> = output.lines().map(escaped).collect();
        format!(
            "<section class=\"panel as-text\" aria-label=\"As text\"><header><h2>{}</h2></header>\n<div class=\"body\">\
             <pre>{}</pre>\n<ol class=\"todo\">\n{actions}</ol></div></section>\n",
            escaped(&self.title),
            lines.join("\n")
        )
    }
}

/// Whether a line of the page is of no use without a sidecar.
fn is_of_a_sidecar(line: &str) -> bool {
    let line = line.trim_start();
    ["<link rel=\"modulepreload\"", "<script ", "<noscript>", "<form "].iter().any(|start| line.starts_with(start))
}

/// The step of the newest evaluation with a value of a score, without those that the run has left.
fn newest_step(curves: &Value, score: &str) -> Option<u64> {
    let left = || curves["superseded"].as_array().into_iter().flatten().flat_map(|places| places.as_array()).flatten();
    let values = curves["scores"][score]["value"].as_array()?;
    let is_current = |at: &usize| !values[*at].is_null() && left().all(|place| place.as_u64() != Some(*at as u64));
    curves["step"][(0..values.len()).rev().find(is_current)?].as_u64()
}

/// Data that a script reads by its id.
fn data(id: &str, value: &Value) -> String {
    // As `<` stands only in strings of JSON, nothing in them ends the element.
    let json = value.to_string().replace('<', "\\u003c");
    format!("<script type=\"application/json\" id=\"{id}\">{json}</script>\n")
}

/// Text that is not part of the page's markup, on one line.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => html += "&amp;",
            '<' => html += "&lt;",
            '>' => html += "&gt;",
            '"' => html += "&quot;",
            '\'' => html += "&#39;",
            _ => html.push(c),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text() {
        assert_eq!(escaped("<b onclick='x'>\"&\n"), "&lt;b onclick=&#39;x&#39;&gt;&quot;&amp;\\n");
        assert_eq!(escaped("λ = 0,1"), "λ = 0,1");
    }

    #[test]
    fn a_report_is_the_page_with_its_data() {
        let name = "</script><b>\"'";
        let answers = json!({"verdict": {"actions": [{"text": name, "why": ""}]}});
        let html = Report { title: name.to_owned(), answers }.html(&format!("{name}\n{name}"));
        for part in [
            "<html lang=\"en\" class=\"report\">",
            "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-",
            "<title>&lt;/script&gt;&lt;b&gt;&quot;&#39; · conceptwatch</title>",
            "<style>\n/* ",
            "<pre>&lt;/script&gt;&lt;b&gt;&quot;&#39;\n&lt;/script&gt;&lt;b&gt;&quot;&#39;</pre>",
            "<li><b>&lt;/script&gt;&lt;b&gt;&quot;&#39;</b>",
            "id=\"answers\">{\"verdict\":{\"actions\":[{\"text\":\"\\u003c/script>\\u003cb>\\\"'\"",
            "\"main.js\":\"// The page",
        ] {
            assert!(html.contains(part), "{part}");
        }
        assert!(!html.contains("<b>\"") && !html.contains("href=\"assets/") && !html.contains("src=\"assets/"));
        assert_eq!(html.matches("<script").count(), 3);
    }

    #[test]
    fn a_curve_that_the_run_has_left_is_not_the_newest() {
        let curves =
            json!({"step": [1, 2, 2, 3], "superseded": [[2, 3]], "scores": {"nis": {"value": [0.1, 0.2, 0.3, 0.4]}}});
        assert_eq!((newest_step(&curves, "nis"), newest_step(&curves, "ctl")), (Some(2), None));
    }
}
