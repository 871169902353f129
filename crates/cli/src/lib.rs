//! The command line: flags in, exit code out. The crates below do the work.
#![forbid(unsafe_code)]

mod args;
mod args_fix;
mod commands;
mod examples;
mod output;
mod progress;
mod signal;
mod values;

use args::Cli;
use clap::{CommandFactory, FromArgMatches};
use sidestep_sys::problem::{Kind, Problem, say};
use std::process::ExitCode;

/// Runs the command line of the process.
pub fn main() -> ExitCode {
    let cli = match definition().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are not errors; clap knows which stream they belong to.
            let _ = error.print();
            let is_run = std::env::args_os().nth(1).is_some_and(|command| command == "run");
            let usage = if is_run { exit::RUN_FAILED } else { exit::USAGE };
            return ExitCode::from(if error.use_stderr() { usage } else { exit::GOOD });
        }
    };
    match commands::run(cli) {
        Ok(code) => ExitCode::from(code),
        Err(problem) => {
            say(&problem);
            ExitCode::from(exit::of(&problem))
        }
    }
}

/// The definition of every flag, from which completions, the manual and the book's reference are made.
pub fn definition() -> clap::Command {
    examples::added(Cli::command())
}

/// Exit codes (SPEC.md).
pub(crate) mod exit {
    use super::{Kind, Problem};

    pub(crate) const GOOD: u8 = 0;
    pub(crate) const FAILED: u8 = 1;
    pub(crate) const USAGE: u8 = 2;
    pub(crate) const FINDINGS: u8 = 3;
    pub(crate) const REGRESSION: u8 = 4;
    pub(crate) const NOT_ENOUGH_DATA: u8 = 5;
    pub(crate) const PARTLY_APPLIED: u8 = 6;
    pub(crate) const INTERRUPTED: u8 = 130;

    // Of `sidestep run`, as env(1) and timeout(1) have them: all others are the program's.
    pub(crate) const RUN_FAILED: u8 = 125;
    // Of `sidestep run` and `sidestep tune run`.
    pub(crate) const NOT_EXECUTABLE: u8 = 126;
    pub(crate) const NO_PROGRAM: u8 = 127;

    pub(crate) fn of(problem: &Problem) -> u8 {
        match problem.kind() {
            Kind::Failed => FAILED,
            Kind::Usage => USAGE,
            Kind::NotEnoughData => NOT_ENOUGH_DATA,
            Kind::Interrupted => INTERRUPTED,
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_definition_is_consistent() {
        super::definition().debug_assert();
    }
}
