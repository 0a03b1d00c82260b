//! `docs/commands.md`, written by `UPDATE_DOCS=1 cargo test --lib cli::reference`.

use std::fmt::Write;

use clap::{Arg, CommandFactory};

use super::CommandLine;

const HEAD: &str = "\
# Commands

`conceptwatch <command> --help` prints the same. An environment variable that replaces an option is named behind it. The exit status
is 0 when a command has done its work, 1 when it failed, when `doctor` found faults or when `rm` kept a run, and 2 for bad input,
which one line on standard error explains.
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
    let mut text = help.split_whitespace().collect::<Vec<_>>().join(" ").replace('<', "\\<");
    let possible = argument.get_possible_values();
    if !possible.is_empty() && argument.get_action().takes_values() && !argument.is_hide_possible_values_set() {
        let names = possible.iter().map(|value| value.get_name()).collect::<Vec<_>>().join(", ");
        write!(text, " [one of {names}]").unwrap();
    }
    let defaults = argument.get_default_values().iter().filter_map(|value| value.to_str()).collect::<Vec<_>>();
    if !defaults.is_empty() && argument.get_action().takes_values() {
        write!(text, " [default: {}]", defaults.join(", ")).unwrap();
    }
    text
}

/// An option as it is typed, and its help.
type Row = [String; 2];

fn rows(command: &clap::Command) -> Vec<Row> {
    let row = |argument: &Arg| {
        let mut text = about(argument);
        if let Some(variable) = argument.get_env().and_then(|name| name.to_str()) {
            write!(text, " [`{variable}`]").unwrap();
        }
        [format!("`{}`", typed(argument)), text]
    };
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set() && argument.get_id() != "help");
    arguments.map(row).collect()
}

fn list(rows: &[&Row]) -> String {
    let mut text = String::new();
    for [option, about] in rows {
        writeln!(text, "- {option}: {about}").unwrap();
    }
    text
}

fn section(command: &mut clap::Command, shared: &[Row]) -> String {
    let name = command.get_name().to_owned();
    let about_command = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").split_whitespace().collect::<Vec<_>>().join(" ");
    let usage = if usage.starts_with("conceptwatch") { usage } else { format!("conceptwatch {usage}") };
    let mut text = format!("\n## {name}\n\n{}\n\n`{usage}`\n", about_command.trim().replace('<', "\\<"));
    if name == "serve" {
        // Its options are the keys of that file, with the same descriptions.
        text.push_str("\n[conceptwatch.toml](../deploy/conceptwatch.toml) describes every option, with its default.\n");
        return text;
    }
    let all = rows(command);
    let (common, own): (Vec<&Row>, Vec<&Row>) = all.iter().partition(|row| shared.contains(row));
    if !own.is_empty() {
        write!(text, "\n{}", list(&own)).unwrap();
    }
    if common.len() == shared.len() {
        text.push_str("\nAnd the [common options](#common-options).\n");
    } else if !common.is_empty() {
        let names = common.iter().map(|[option, ..]| option.split(' ').next().unwrap().trim_matches('`'));
        let names = names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        writeln!(text, "\nAnd {names}: see [common options](#common-options).").unwrap();
    }
    text
}

fn is_shown(command: &clap::Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

#[test]
fn the_reference_has_every_command() {
    let mut program = CommandLine::command();
    program.build();
    let all: Vec<Row> = program.get_subcommands().filter(|command| is_shown(command)).flat_map(rows).collect();
    // Options with the same words in many commands are described once.
    let mut shared: Vec<Row> = Vec::new();
    for row in &all {
        if row[0].starts_with("`--") && !shared.contains(row) && all.iter().filter(|other| *other == row).count() > 5 {
            shared.push(row.clone());
        }
    }
    let mut expected = HEAD.to_owned();
    for command in program.get_subcommands_mut().filter(|command| is_shown(command)) {
        expected.push_str(&section(command, &shared));
    }
    write!(expected, "\n## Common options\n\n{}", list(&shared.iter().collect::<Vec<_>>())).unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/commands.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap();
    assert!(written == expected, "docs/commands.md is out of date: run UPDATE_DOCS=1 cargo test --lib cli::reference");
}
