//! `sidestep tune run`.

use crate::args::tune_run::TuneRun;
use crate::exit;
use sidestep_sys::Problem;
use sidestep_sys::problem::say;
use sidestep_tune::cpus::CpuSet;
use sidestep_tune::isolate::Partition;
use sidestep_tune::run::NotRun;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Replaces this process by the command. Returns only if that fails.
pub(super) fn run(args: &TuneRun) -> Result<u8, Problem> {
    let (program, rest) = args.command.split_first().expect("clap asks for a command");
    if let Some(cpus) = args.cpu.as_ref().filter(|_| args.isolate) {
        isolate(cpus)?;
    }
    let cpus = args.cpu.iter().flat_map(CpuSet::iter).collect();
    // The codes of a shell, by which scripts tell a program that failed from one that never ran.
    match args.under.on(cpus).exec(Command::new(program).args(rest)) {
        NotRun::Conditions(problem) => Err(problem),
        NotRun::Missing(problem) => {
            say(problem);
            Ok(exit::NO_PROGRAM)
        }
        NotRun::NotExecutable(problem) => {
            say(problem);
            Ok(exit::NOT_EXECUTABLE)
        }
    }
}

/// Puts this process, which becomes the command, into a partition of its CPUs, and starts the process that removes it.
fn isolate(cpus: &CpuSet) -> Result<(), Problem> {
    let partition = Partition::make(cpus)?;
    let kept = partition_remover(partition.folder(), &[]).and_then(|mut child| child.wait()).and_then(|status| {
        match status.success() {
            true => Ok(()),
            false => Err(io::Error::other(status.to_string())),
        }
    });
    match kept {
        Ok(()) => partition.enter(),
        Err(error) => {
            partition.undo();
            Err(Problem::failed("cannot start the process that gives the CPUs back", error)
                .next("try it without --isolate"))
        }
    }
}

/// Starts this program again, to remove the partition. The terminal's signals are for the command and do not reach it.
fn partition_remover(folder: &Path, more: &[&str]) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["tune", "remove-partition"]).arg(folder).args(more).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn()
}

/// Removes the partition after the command has ended; without `here`, a detached process does.
pub(super) fn remove_partition(folder: &Path, here: bool) -> Result<u8, Problem> {
    let partition = Partition::named(folder)?;
    match here {
        true => partition.remove_when_empty()?,
        false => drop(partition_remover(folder, &["--here"]).map_err(|error| {
            Problem::failed("cannot start the process that gives the CPUs back", error)
                .next("raise the limit of processes: ulimit -u")
        })?),
    }
    Ok(exit::GOOD)
}
