//! The flags of `sidestep tune`.

use super::tune_subject::{Choice, Subject};
use clap::{Args, Subcommand, ValueEnum};
use sidestep_tune::cpus::CpuSet;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Tune {
    /// List the settings of this host that cost latency, worst first
    Check(Check),
    /// Explain a check: the reason, the change, the revert; without a name, list all checks
    Explain {
        /// Name of the check, such as busy-read
        id: Option<String>,
    },
    /// Show the changes that `apply` would make: before, after, source, risk, revert
    Plan(Plan),
    /// Apply the plan one setting at a time, and read each one again; if one fails, all are reverted
    Apply(Apply),
    /// Show the settings that are changed at present, and by whom
    Status {
        /// Write JSON; `-` for standard output, instead of the text
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Revert the last changes, except settings that another user has changed since
    Revert {
        /// Revert every change that was not reverted yet
        #[arg(long)]
        all: bool,
        /// Change nothing, and delete the record of the changes
        #[arg(long)]
        forget: bool,
    },
    /// Write a policy from this host, to check other hosts against
    Policy(Policy),
    /// Write what the checks read of this host to a file, to check it elsewhere or to compare it later
    Snapshot(Snapshot),
    /// Show what differs on hosts from a known-good one: values, and the verdicts of checks
    Drift(Drift),
    /// Measure the steps of the ladder one by one, and name those that help here; everything is reverted at the end
    Verify(super::tune_verify::Verify),
    /// Run a command pinned to CPUs, with the priority and memory settings of a trading path
    Run(super::tune_run::TuneRun),
    /// Give isolated CPUs back when the command of `tune run --isolate` has ended
    #[command(hide = true)]
    RemovePartition {
        folder: PathBuf,
        /// Wait in this process. Otherwise a detached process waits: the command may itself wait for all of its children
        #[arg(long)]
        here: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Check these hosts instead, side by side: files of `tune snapshot`
    #[arg(value_name = "SNAPSHOT", conflicts_with = "root")]
    pub(crate) snapshots: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) subject: Subject,
    /// Exit with code 3 at a finding of this severity or a worse one
    #[arg(long, value_enum, value_name = "SEVERITY", default_value_t = FailOn::Fail)]
    pub(crate) fail_on: FailOn,
    /// Also show checks that pass, and checks that do not apply here
    #[arg(long)]
    pub(crate) all: bool,
    /// Write the findings as JSON; `-` for standard output, instead of the text
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// At a warning or a failure
    Warn,
    /// At a failure
    Fail,
    /// At none: exit with 0 if the host could be checked
    Never,
}

#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) subject: Subject,
    #[command(flatten)]
    pub(crate) choice: Choice,
    /// Write the boot parameters to this new file, a drop-in for GRUB. It takes effect after update-grub and a reboot
    #[arg(long, value_name = "FILE")]
    pub(crate) grub: Option<PathBuf>,
    /// Write the plan as JSON; `-` for standard output, instead of the text
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Apply {
    #[command(flatten)]
    pub(crate) subject: Subject,
    #[command(flatten)]
    pub(crate) choice: Choice,
    /// Leave out the settings that fail, instead of reverting all
    #[arg(long)]
    pub(crate) keep_going: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Snapshot {
    /// Interfaces besides those of hardware
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) interface: Vec<String>,
    /// Hot CPUs that later checks of the file assume unless they are told others [default: the isolated ones]
    #[arg(long, value_name = "LIST", value_parser = super::tune_subject::cpu_list)]
    pub(crate) cpus: Option<CpuSet>,
    /// Read a folder with a copy of a host's files instead of this host
    #[arg(long, value_name = "FOLDER")]
    pub(crate) root: Option<PathBuf>,
    /// The file; `-` for standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 no verdict has become worse, whatever values differ; 3 one has.")]
pub(crate) struct Drift {
    /// The known-good host: a file of `tune snapshot`
    #[arg(value_name = "GOOD")]
    pub(crate) good: PathBuf,
    /// The other hosts: files of `tune snapshot` [default: this host]
    #[arg(value_name = "SNAPSHOT", conflicts_with = "root")]
    pub(crate) others: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) subject: Subject,
    /// Write JSON; `-` for standard output, instead of the text
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Policy {
    #[command(flatten)]
    pub(crate) subject: Subject,
    /// Name of the policy [default: the host's name]
    #[arg(long)]
    pub(crate) name: Option<String>,
}
