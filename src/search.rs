//! The search for runs: words of names, titles and labels, and conditions on labels such as `lambda<1` or `seed=0`. The page
//! has the same rule, `web/data/query.js`.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Signs of conditions; of two that begin alike the longer comes first.
const SIGNS: [&str; 6] = ["<=", ">=", "!=", "=", "<", ">"];

/// The conditions that runs must meet; by default none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Search(Vec<Term>);

#[derive(Clone, Debug, PartialEq)]
struct Term {
    word: String,
    /// Label, sign and value.
    condition: Option<(String, &'static str, String)>,
}

impl Search {
    /// Terms are separated by spaces, and a run must meet all.
    pub fn of(text: &str) -> Self {
        Self(text.split_whitespace().map(|word| Term { word: word.to_owned(), condition: condition(word) }).collect())
    }

    /// Whether every run meets it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn matches(&self, name: &str, title: Option<&str>, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|term| term.matches(name, title, labels))
    }
}

impl Term {
    fn matches(&self, name: &str, title: Option<&str>, labels: &BTreeMap<String, String>) -> bool {
        let texts = || std::iter::once(name).chain(title);
        let Some((label, sign, value)) = &self.condition else {
            let wanted = self.word.to_lowercase();
            return texts().any(|text| text.to_lowercase().contains(&wanted))
                || labels.iter().any(|(key, value)| format!("{key}={value}").to_lowercase().contains(&wanted));
        };
        match labels.get(label) {
            Some(own) => holds(own, sign, value),
            None => texts().any(|text| text.contains(&self.word)),
        }
    }
}

fn condition(word: &str) -> Option<(String, &'static str, String)> {
    let at = word.find(['<', '>', '=', '!']).filter(|at| *at > 0)?;
    let (label, rest) = word.split_at(at);
    let (sign, value) = SIGNS.iter().find_map(|sign| {
        let value = rest.strip_prefix(sign).filter(|value| !value.is_empty())?;
        Some((*sign, value))
    })?;
    let label = if label == "λ" { "lambda" } else { label };
    Some((label.to_owned(), sign, value.to_owned()))
}

/// Numbers are compared as numbers.
fn holds(own: &str, sign: &str, value: &str) -> bool {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    let numbers = number(own).zip(number(value));
    let order = match numbers {
        Some((a, b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
        None => own.cmp(value),
    };
    match sign {
        "=" if numbers.is_none() => own.to_lowercase().starts_with(&value.to_lowercase()),
        "=" => order.is_eq(),
        "!=" => order.is_ne(),
        "<" => order.is_lt(),
        ">" => order.is_gt(),
        "<=" => order.is_le(),
        _ => order.is_ge(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(text: &str) -> bool {
        let labels = [("lambda", "0.1"), ("seed", "10"), ("note", "Final run")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        Search::of(text).matches("cub/soft a=b", Some("The Best"), &labels)
    }

    #[test]
    fn words_and_conditions_are_all_met() {
        for text in [
            "",
            "  ",
            "CUB",
            "best",
            "seed=10.0",
            "final",
            "cub best lambda<1",
            "λ<=0.10",
            "seed>9",
            "seed!=9",
            "note=final",
        ] {
            assert!(met(text), "{text}");
        }
        for text in ["other", "cub other", "lambda>=0.2", "seed=1 lambda<0.1", "seed<9", "seed!=10.0", "note=run"] {
            assert!(!met(text), "{text}");
        }
    }

    #[test]
    fn a_condition_on_no_label_is_a_word() {
        assert!(met("a=b") && !met("A=b"));
        for text in ["<", "=5", "!", "a!b", "lambda<", "λ="] {
            assert!(!met(text), "{text}");
        }
    }
}
