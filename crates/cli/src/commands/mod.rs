//! One file per command.

mod bench;
mod bench_fix;
mod bench_ring;
mod bench_tick;
mod compare;
mod control;
mod demo;
mod doctor;
mod figures;
mod fix;
mod fleet;
mod lab;
mod manual;
mod market;
mod measured;
mod ps;
mod report;
mod ring;
mod run;
mod terminal;
mod top;
mod tune;
mod watch;

use crate::args::{Cli, Command};
use sidestep_sys::Problem;

/// Runs a command and returns its exit code.
pub(crate) fn run(cli: Cli) -> Result<u8, Problem> {
    match cli.command {
        Command::Demo(args) => demo::run(&args),
        Command::Bench(args) => bench::run(args),
        Command::Compare(args) => compare::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Fleet(args) => fleet::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Tune(command) => tune::run(command),
        Command::Run(args) => run::run(&args),
        Command::Control(args) => control::run(args),
        Command::Ps(args) => ps::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Watch(args) => watch::run(*args),
        Command::Lab(args) => lab::run(args),
        Command::Ring(args) => ring::run(args),
        Command::Market(args) => market::run(args),
        Command::Fix(args) => fix::run(args),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { folder } => manual::pages(&folder),
    }
}
