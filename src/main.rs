use std::process::ExitCode;

fn main() -> ExitCode {
    conceptwatch::cli::run(std::env::args_os())
}
