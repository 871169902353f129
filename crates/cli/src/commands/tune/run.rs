//! `sidestep tune run`.

use crate::args::tune_run::TuneRun;
use sidestep_sys::Problem;
use sidestep_tune::cpus::CpuSet;
use std::process::Command;

/// Becomes the command; comes back only with what went wrong.
pub(super) fn run(args: &TuneRun) -> Result<u8, Problem> {
    let (program, rest) = args.command.split_first().expect("clap asks for a command");
    let cpus = args.cpu.iter().flat_map(CpuSet::iter).collect();
    Err(args.under.on(cpus).exec(Command::new(program).args(rest)))
}
