//! `docs/commands.md`, written by `UPDATE_DOCS=1 cargo test --lib cli::reference`.

use std::fmt::Write;

use clap::{Arg, CommandFactory};

use super::CommandLine;

const HEAD: &str = "\
# Commands

`conceptwatch <command> --help` prints the same. The exit status is 0 when a command has done its work, 1 when it failed, when
`doctor` found faults or when `rm` kept a run, and 2 for bad input, which one line on standard error explains.
";

/// As it is typed: `--seed SEED`, or `FILE` for what has no name.
fn typed(argument: &Arg) -> String {
    let values = argument.get_value_names().unwrap_or_default().join(" ");
    let values = if argument.get_action().takes_values() { values } else { String::new() };
    match argument.get_long() {
        Some(long) => format!("--{long} {values}").trim_end().to_owned(),
        None => values,
    }
}

/// The long help of an argument on one line, with the default where the text does not say it.
fn about(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = help.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "\\<");
    let possible = argument.get_possible_values();
    if !possible.is_empty() && argument.get_action().takes_values() && !argument.is_hide_possible_values_set() {
        let names = possible.iter().map(|value| value.get_name()).collect::<Vec<_>>().join(", ");
        write!(text, " [possible values: {names}]").unwrap();
    }
    let defaults = argument.get_default_values().iter().filter_map(|value| value.to_str()).collect::<Vec<_>>();
    if !defaults.is_empty() && argument.get_action().takes_values() {
        write!(text, " [default: {}]", defaults.join(", ")).unwrap();
    }
    text
}

fn section(command: &mut clap::Command) -> String {
    let name = command.get_name().to_owned();
    let about_command = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").split_whitespace().collect::<Vec<_>>().join(" ");
    let usage = if usage.starts_with("conceptwatch") { usage } else { format!("conceptwatch {usage}") };
    let mut text = format!("\n## {name}\n\n{}\n\n```text\n{usage}\n```\n\n", about_command.trim().replace('<', "\\<"));
    let arguments = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && argument.get_id() != "help")
        .collect::<Vec<_>>();
    let with_variables = arguments.iter().any(|argument| argument.get_env().is_some());
    text.push_str(if with_variables {
        "| option | environment variable | |\n|---|---|---|\n"
    } else {
        "| option | |\n|---|---|\n"
    });
    for argument in arguments {
        write!(text, "| `{}` |", typed(argument)).unwrap();
        if with_variables {
            let variable = argument.get_env().and_then(|name| name.to_str());
            text.push_str(&variable.map_or(" |".to_owned(), |name| format!(" `{name}` |")));
        }
        writeln!(text, " {} |", about(argument)).unwrap();
    }
    text
}

#[test]
fn the_reference_has_every_command() {
    let mut program = CommandLine::command();
    program.build();
    let mut expected = HEAD.to_owned();
    for command in
        program.get_subcommands_mut().filter(|command| !command.is_hide_set() && command.get_name() != "help")
    {
        expected.push_str(&section(command));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/commands.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap();
    assert!(written == expected, "docs/commands.md is out of date: run UPDATE_DOCS=1 cargo test --lib cli::reference");
}
