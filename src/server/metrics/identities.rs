//! The identities of runs, by which other metrics are joined with those of a run.

use super::families::Families;
use super::names::RUN_INFO;
use crate::server::live::RunIdentity;

pub(super) fn add(families: &mut Families, identities: &[RunIdentity]) {
    for identity in identities {
        let labels = labels(identity);
        families.add_labelled(&RUN_INFO, labels.iter().map(|(name, value)| (name.as_str(), *value)), 1.0);
    }
}

/// Returns the labels of a run's series, each name once. Empty ones are left out: to Prometheus they are absent anyway.
fn labels(identity: &RunIdentity) -> Vec<(String, &str)> {
    let own = [&*identity.run, &identity.job, &identity.host];
    let mut labels: Vec<(String, &str)> = RUN_INFO.labels.iter().map(|&name| name.to_owned()).zip(own).collect();
    for (name, value) in &identity.labels {
        let name = label_name(name, |name| labels.iter().any(|(taken, _)| taken == name));
        labels.push((name, value));
    }
    labels.retain(|(_, value)| !value.is_empty());
    labels.sort();
    labels
}

/// Returns a valid label name that is not taken: other characters become `_`. A name that is taken, or that Prometheus keeps for
/// itself, follows `label_`, and a number if that is taken too.
fn label_name(text: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut name: String = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.starts_with("__") || name.starts_with(|c: char| c.is_ascii_digit()) || is_taken(&name) {
        name = format!("label_{name}");
    }
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    let mut candidates = std::iter::once(name.clone()).chain(numbered);
    candidates.find(|name| !is_taken(name)).expect("there is no last number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_a_run_become_valid_names_that_are_all_different() {
        let given = ["1st", "__name__", "a b", "a-b", "a.b", "host", "job", "lambda", "run", "λ"];
        let given_labels = given.map(|name| (name.to_owned(), name.to_owned())).into();
        let identity = RunIdentity { run: "r".into(), labels: given_labels, ..RunIdentity::default() };
        let found = labels(&identity);
        let mut expected = [
            ("run", "r"),
            ("label_1st", "1st"),
            ("label___name__", "__name__"),
            ("a_b", "a b"),
            ("label_a_b", "a-b"),
            ("label_a_b_2", "a.b"),
            ("label_host", "host"),
            ("label_job", "job"),
            ("lambda", "lambda"),
            ("label_run", "run"),
            ("_", "λ"),
        ];
        expected.sort();
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value)));
    }
}
