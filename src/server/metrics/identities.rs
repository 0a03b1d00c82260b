//! The identities of runs, by which other metrics are joined with those of a run.

use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Error, Registry};

use super::names;
use super::scores::{Families, gathered, omitted};
use crate::server::live::{Live, RunIdentity};

/// Labels that a run's own labels cannot take.
const OWN: [&str; 3] = ["run", "job", "host"];

/// Exports [`names::RUN_INFO`] from [`Live::identities`].
pub struct IdentityCollector {
    live: Arc<dyn Live>,
    description: Desc,
}

impl IdentityCollector {
    pub fn register(registry: &Registry, live: Arc<dyn Live>) -> Result<(), Error> {
        registry.register(Box::new(Self { live, description: description()? }))
    }
}

pub(super) fn description() -> Result<Desc, Error> {
    let help = "1 for each run, with its labels. job: the scheduler's id, else the launch's name. host: that of the lowest rank.";
    let labels = OWN.iter().map(|&label| label.to_owned()).collect();
    Desc::new(names::RUN_INFO.to_owned(), help.to_owned(), labels, Default::default())
}

impl Collector for IdentityCollector {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.description]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = Families::default();
        for identity in self.live.identities() {
            let labels = labels(&identity);
            let (labels, values): (Vec<&str>, Vec<&str>) =
                labels.iter().map(|(name, value)| (name.as_str(), *value)).unzip();
            families.add(names::RUN_INFO, &labels, &values, 1.0);
        }
        let Some(family) = families.take(names::RUN_INFO) else { return Vec::new() };
        let omitted = omitted(names::RUN_INFO, family.omitted);
        std::iter::once(gathered(names::RUN_INFO, &self.description.help, family)).chain(omitted).collect()
    }
}

/// Returns the labels of a run's series, each name once. Empty ones are left out: to Prometheus they are absent anyway.
fn labels(identity: &RunIdentity) -> Vec<(String, &str)> {
    let own = [&*identity.run, &identity.job, &identity.host];
    let mut labels: Vec<(String, &str)> = OWN.iter().map(|&name| name.to_owned()).zip(own).collect();
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
