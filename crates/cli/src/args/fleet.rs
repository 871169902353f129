//! Flags of `sidestep fleet`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Fleet {
    /// Show the results of many hosts side by side; which hosts differ, and what they have in common
    Compare(FleetCompare),
}

#[derive(Debug, Args)]
#[command(after_help = COMPARE_HELP)]
pub(crate) struct FleetCompare {
    /// The folder with the results (*.json), and with folders of results: each stands for a host of its name
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Compare each host also with this one, by the rules of `sidestep compare`: a host of the folder, or a result file
    #[arg(long, value_name = "HOST|FILE")]
    pub(crate) baseline: Option<String>,
    /// Show every host [default: the fastest, the slowest, and those that differ]
    #[arg(long)]
    pub(crate) all: bool,
    /// Write the comparison as JSON; `-` for standard output, instead of the tables
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

const COMPARE_HELP: &str = "\
Several results of a host are runs of it. A verdict needs 6 hosts that have the same row: a host is
slower or faster if its distance from the median of the hosts, beyond the floor of `compare`, is
improbable for the spread of the hosts (median absolute deviation of the logarithms, Student's t,
Holm's correction over hosts, rows and statistics).

Exit codes: 1 a file was left out (the others are compared), 3 a host is slower than the others, 4 a
host is worse than the baseline, 5 nothing could be judged.";
