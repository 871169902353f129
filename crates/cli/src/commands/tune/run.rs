//! `sidestep tune run`.

use crate::args::tune_run::TuneRun;
use crate::exit;
use sidestep_sys::Problem;
use sidestep_tune::cpus::CpuSet;
use sidestep_tune::isolate::Partition;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Becomes the command; comes back only with what went wrong.
pub(super) fn run(args: &TuneRun) -> Result<u8, Problem> {
    let (program, rest) = args.command.split_first().expect("clap asks for a command");
    if let Some(cpus) = args.cpu.as_ref().filter(|_| args.isolate) {
        isolate(cpus)?;
    }
    let cpus = args.cpu.iter().flat_map(CpuSet::iter).collect();
    Err(args.under.on(cpus).exec(Command::new(program).args(rest)))
}

/// Puts this process, which becomes the command, alone on its CPUs, and somebody behind it who gives them back.
fn isolate(cpus: &CpuSet) -> Result<(), Problem> {
    let partition = Partition::make(cpus)?;
    let kept =
        keeper(partition.folder(), &[]).and_then(|mut child| child.wait()).and_then(|status| match status.success() {
            true => Ok(()),
            false => Err(io::Error::other(status.to_string())),
        });
    match kept {
        Ok(()) => partition.enter(),
        Err(error) => {
            partition.undo();
            Err(Problem::failed("cannot start what gives the CPUs back", error).next("try it without --isolate"))
        }
    }
}

/// Starts this program again to look after the group: out of the reach of the terminal's signals, which are for the command.
fn keeper(folder: &Path, more: &[&str]) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["tune", "keep-isolated"]).arg(folder).args(more).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn()
}

/// What the keeper does: starts one that is nobody's child, or looks after the group itself.
pub(super) fn keep_isolated(folder: &Path, here: bool) -> Result<u8, Problem> {
    let partition = Partition::named(folder)?;
    match here {
        true => partition.keep()?,
        false => drop(keeper(folder, &["--here"]).map_err(|error| {
            Problem::failed("cannot start the keeper", error).next("raise the limit of processes: ulimit -u")
        })?),
    }
    Ok(exit::GOOD)
}
