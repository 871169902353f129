//! The flags of `sidestep tune`.

use clap::{Args, Subcommand, ValueEnum};
use sidestep_tune::cpus::CpuSet;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Tune {
    /// What is wrong with this host for latency, worst first
    Check(Check),
    /// Why a check matters, how it is changed and undone; without a name, list them all
    Explain {
        /// Its name, such as busy-read
        id: Option<String>,
    },
    /// What would be changed: before and after, source, risk, way back
    Plan(Plan),
    /// Change it, setting by setting, each read again; everything goes back when one fails
    Apply(Apply),
    /// What is changed at present, and by whom
    Status {
        /// Write it as JSON; `-` for standard output, instead of the text
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Put back what was changed last, but nothing that somebody else has changed since
    Revert {
        /// Everything that was ever changed and not put back
        #[arg(long)]
        all: bool,
        /// Change nothing, and forget what there is to put back
        #[arg(long)]
        forget: bool,
    },
    /// Make a policy from this host, to check others against
    Policy(Policy),
    /// Try the ladder step by step, and keep what helps on this host: everything is put back in the end
    Verify(super::tune_verify::Verify),
    /// Run a command pinned to CPUs, and under what else a trading path wants
    Run(super::tune_run::TuneRun),
    /// Give isolated CPUs back when the command of `tune run --isolate` has ended
    #[command(hide = true)]
    KeepIsolated {
        folder: PathBuf,
        /// By this process; without it, by one that is nobody's child, as the command may wait for all of its own
        #[arg(long)]
        here: bool,
    },
}

/// What is looked at.
#[derive(Debug, Args)]
pub(crate) struct Subject {
    /// The interfaces that matter [default: those of hardware]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) interface: Vec<String>,
    /// The hot CPUs, those of the trading path, such as 2-3 [default: those that are isolated]
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    pub(crate) cpus: Option<CpuSet>,
    /// What the host is for: latency, polling, throughput, cloud
    #[arg(long, value_name = "NAME", default_value = "latency")]
    pub(crate) profile: String,
    /// A policy instead of a profile, as `sidestep tune policy` writes it
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    pub(crate) policy: Option<PathBuf>,
    /// Look at a copy of another host's files (proc, sys, etc ...) in this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) root: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) subject: Subject,
    /// End with exit code 3 at such a finding, or a worse one
    #[arg(long, value_enum, value_name = "SEVERITY")]
    pub(crate) fail_on: Option<FailOn>,
    /// Also show what is well, and what means nothing here
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
}

/// What of the findings is taken.
#[derive(Debug, Args)]
pub(crate) struct Choice {
    /// These checks alone
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Not these
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) skip: Vec<String>,
    /// Dangerous ones, which are left alone unless they are named here
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) allow: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) subject: Subject,
    #[command(flatten)]
    pub(crate) choice: Choice,
    /// Write the boot parameters as a drop-in for GRUB to this new file (it takes effect after update-grub and a boot)
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
    /// Leave out what fails, instead of putting everything back
    #[arg(long)]
    pub(crate) keep_going: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Policy {
    #[command(flatten)]
    pub(crate) subject: Subject,
    /// The policy's name [default: the host's]
    #[arg(long)]
    pub(crate) name: Option<String>,
}

pub(super) fn cpu_list(text: &str) -> Result<CpuSet, String> {
    match CpuSet::list(text) {
        Some(set) if !set.is_empty() => Ok(set),
        _ => Err("give a list of CPUs like 2-3,8".into()),
    }
}
