//! The flags of `sidestep tune run`, and those that `sidestep bench` shares with it.

use super::tune_subject::cpu_list;
use clap::{Args, value_parser};
use sidestep_tune::cpus::CpuSet;
use sidestep_tune::run::Conditions;
use std::ffi::OsString;

#[derive(Debug, Args)]
pub(crate) struct TuneRun {
    /// CPUs to run on, such as 3 or 2-3,6 [default: those of the calling process]
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    pub(crate) cpu: Option<CpuSet>,
    /// Reserve these CPUs for the command while it runs: a cpuset partition of cgroup v2 (root, Linux 6.1), without a reboot.
    /// The kernel does not balance threads over these CPUs: the command has to pin them
    #[arg(long, requires = "cpu")]
    pub(crate) isolate: bool,
    #[command(flatten)]
    pub(crate) under: Under,
    /// The command and its arguments; its exit code becomes ours. 126 if it cannot be started, 127 if there is none of this name
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// The conditions that a program of the trading path runs under, besides its CPUs.
#[derive(Debug, Default, Args)]
pub(crate) struct Under {
    /// Run with this real-time priority (SCHED_FIFO, 1 to 99)
    #[arg(long, value_name = "PRIORITY", value_parser = value_parser!(u8).range(1..=99))]
    pub(crate) fifo: Option<u8>,
    /// Lock memory: `tune run` lifts the limit, so that the command may lock its memory; `bench` locks its own
    #[arg(long)]
    pub(crate) memlock: bool,
    /// Limit the wake-up time of all CPUs of the host to this many microseconds; with 0 no CPU sleeps
    #[arg(long, value_name = "US")]
    pub(crate) latency_qos: Option<u32>,
    /// Allocate memory of this NUMA node only
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<u32>,
}

impl Under {
    /// Returns these conditions for some CPUs; none stands for the current ones.
    pub(crate) fn on(&self, cpus: Vec<u32>) -> Conditions {
        Conditions { cpus, node: self.node, fifo: self.fifo, memlock: self.memlock, latency_us: self.latency_qos }
    }
}
