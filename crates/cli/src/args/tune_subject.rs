//! Flags that the commands of `sidestep tune` share: the subject, the choice of checks, a list of CPUs.

use clap::Args;
use sidestep_tune::cpus::CpuSet;
use std::path::PathBuf;

/// The subject of an audit: host, CPUs, interfaces, profile.
#[derive(Debug, Args)]
pub(crate) struct Subject {
    /// Interfaces to audit [default: those of hardware]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) interface: Vec<String>,
    /// Hot CPUs, those of the trading path, such as 2-3 [default: the isolated ones]
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    pub(crate) cpus: Option<CpuSet>,
    /// Profile: latency, polling, throughput, cloud
    #[arg(long, value_name = "NAME", default_value = "latency")]
    pub(crate) profile: String,
    /// A policy instead of a profile, as `sidestep tune policy` writes it
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    pub(crate) policy: Option<PathBuf>,
    /// Audit another host: a folder with a copy of its files (proc, sys, etc ...), or a file of `tune snapshot`
    #[arg(long, value_name = "PATH")]
    pub(crate) root: Option<PathBuf>,
}

/// The choice among the findings.
#[derive(Debug, Args)]
pub(crate) struct Choice {
    /// Only these checks
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// All but these checks
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) skip: Vec<String>,
    /// Also these dangerous checks, which are left out by default
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) allow: Vec<String>,
}

pub(in crate::args) fn cpu_list(text: &str) -> Result<CpuSet, String> {
    match CpuSet::list(text) {
        Some(set) if !set.is_empty() => Ok(set),
        _ => Err("give a list of CPUs like 2-3,8".into()),
    }
}
