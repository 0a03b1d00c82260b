//! The rules for Prometheus, checked by promtool.

use std::path::Path;
use std::process::{Command, Output};

/// The output of promtool; `None` where it is not installed, unless CONCEPTWATCH_REQUIRE names prometheus.
fn promtool(directory: &Path, arguments: &[&str]) -> Option<Output> {
    match Command::new("promtool").args(arguments).current_dir(directory).output() {
        Ok(output) => Some(output),
        Err(error) => {
            let required = std::env::var("CONCEPTWATCH_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|one| one.trim() == "prometheus"), "promtool: {error}");
            eprintln!("NOT TESTED: the rules for Prometheus, because promtool is not installed");
            None
        }
    }
}

fn passes(directory: &Path, arguments: &[&str]) {
    if let Some(output) = promtool(directory, arguments) {
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn the_deployed_rules_pass_their_unit_tests() {
    let deployed = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/prometheus");
    passes(&deployed, &["check", "rules", "conceptwatch.rules.yml"]);
    passes(&deployed, &["test", "rules", "conceptwatch.rules.test.yml"]);
}

#[test]
fn printed_rules_of_every_kind_are_valid_for_prometheus() {
    let directory = tempfile::tempdir().unwrap();
    let configuration = "
        [[alerts]]
        name = \"high: v1.0 / all\"
        score = \"icl\"
        above = 0.2
        below = -0.1
        scope = \"pair\"
        runbook = \"https://example.org/a?b=c#d\"
        [[alerts]]
        name = \"rises: fast\"
        score = \"ctl_excess\"
        rise = 0.05
        scope = \"concept\"
        [[alerts]]
        name = \"stale\"
        stale = 60.0
        [[alerts]]
        name = \"few\"
        few_rows = 100
        [[alerts]]
        name = \"ties\"
        saturated = 0.3
        severity = \"info\"
    ";
    std::fs::write(directory.path().join("serve.toml"), configuration).unwrap();
    let printed = Command::new(env!("CARGO_BIN_EXE_conceptwatch"))
        .args(["rules", "--config", "serve.toml", "--for", "1m30s"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    let text = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    assert_eq!(text.matches("for: 1m30s").count(), 5, "{text}");
    std::fs::write(directory.path().join("rules.yml"), text).unwrap();
    passes(directory.path(), &["check", "rules", "rules.yml"]);
}
