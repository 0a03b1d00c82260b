//! The command line: one file per subcommand.

mod agreement;
mod client_options;
mod compare;
mod curate;
mod data_dirs;
mod demo;
mod diagnose;
mod doctor;
mod export;
mod failure;
mod http_request;
mod import;
mod in_process;
mod log_limit;
mod logs;
mod ls;
mod named;
mod notebook;
mod options;
pub mod outputs;
mod progress;
mod push;
mod read;
#[cfg(test)]
mod reference;
mod replay;
mod report;
mod rows;
mod rules;
mod run_targets;
mod score;
mod scoring;
mod serve;
mod source;
mod terminal;
mod watch;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub use options::ServeOptions;

use crate::memory;

use failure::{BAD_INPUT, conclude, conclude_check, conclude_files};

/// Measures concept leakage while a concept-based model trains.
#[derive(Parser)]
#[command(name = "conceptwatch", version, max_term_width = 100, subcommand_required = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::DemoOptions),
    Read(read::ReadOptions),
    Replay(replay::ReplayOptions),
    Rules(rules::RulesOptions),
    Serve(Box<ServeOptions>),
    Score(score::Options),
    Watch(watch::WatchOptions),
    Agreement(agreement::Options),
    Compare(Box<compare::Options>),
    Diagnose(diagnose::Options),
    Doctor(doctor::DoctorOptions),
    Ls(Box<ls::Options>),
    Export(Box<export::Options>),
    Import(import::Options),
    Push(push::Options),
    Rename(Box<curate::RenameOptions>),
    Note(Box<curate::NoteOptions>),
    Rm(Box<curate::RemoveOptions>),
    #[command(hide = true)]
    ScoreTensors(scoring::Scoring),
    #[command(hide = true)]
    Estimate(notebook::EstimateOptions),
}

/// The environment variable whose value an error is about; `None` where the command line gave the value.
fn variable_of(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    let option = argument.split_whitespace().next()?;
    if std::env::args().any(|given| given.split('=').next() == Some(option)) {
        return None;
    }
    let all = CommandLine::command();
    let mut arguments = all.get_subcommands().flat_map(clap::Command::get_arguments);
    let found = arguments.find(|one| one.get_long() == option.strip_prefix("--") && one.get_env().is_some())?;
    let name = found.get_env()?.to_str()?.to_owned();
    std::env::var_os(&name).map(|_| name)
}

/// Runs the program. Exit status 0: done; 1: failed; 2: bad input or usage.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    memory::keep_freed();
    let parsed = CommandLine::command().try_get_matches_from(arguments).and_then(|mut matches| {
        let name = matches.subcommand_name().unwrap_or_default().to_owned();
        Ok((name, CommandLine::from_arg_matches_mut(&mut matches)?.command))
    });
    let (name, command) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            if let Some(name) = variable_of(&error) {
                let said = error.to_string();
                let why = said.lines().next().unwrap_or_default().trim_start_matches("error: ");
                let _ = writeln!(std::io::stderr(), "error: {name}: {why}");
                return ExitCode::from(BAD_INPUT);
            }
            // clap reports --help and --version as errors that belong on standard output.
            let status = if error.use_stderr() { ExitCode::from(BAD_INPUT) } else { ExitCode::SUCCESS };
            // If standard output is closed, the failure cannot be reported.
            let _ = error.print();
            return status;
        }
    };
    let silent = |()| String::new();
    let done = match command {
        Command::Demo(options) => demo::run(&options).map(silent),
        Command::Read(options) => read::run(&options),
        Command::Replay(options) => replay::run(&options).map(silent),
        Command::Rules(options) => rules::run(&options),
        Command::Serve(options) => serve::run(*options).map(silent),
        Command::Score(options) => return conclude_files(&name, score::run(&options)),
        Command::Watch(options) => watch::run(&options).map(silent),
        Command::Agreement(options) => return conclude_files(&name, agreement::run(&options)),
        Command::Compare(options) => compare::run(&options),
        Command::Diagnose(options) => diagnose::run(&options),
        Command::Doctor(options) => return conclude_check(&name, doctor::run(&options)),
        Command::Ls(options) => ls::run(&options),
        Command::Export(options) => export::run(&options),
        Command::Import(options) => import::run(&options),
        Command::Push(options) => push::run(options),
        Command::Rename(options) => curate::rename(&options),
        Command::Note(options) => curate::note(&options),
        Command::Rm(options) => return conclude_check(&name, curate::remove(&options)),
        Command::ScoreTensors(options) => return conclude_check(&name, notebook::score(&options)),
        Command::Estimate(options) => notebook::estimate(&options),
    };
    conclude(&name, done)
}
