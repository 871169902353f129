//! The flags of `sidestep tune run`, and those that `sidestep bench` shares with it.

use super::tune::cpu_list;
use clap::{Args, value_parser};
use sidestep_tune::cpus::CpuSet;
use sidestep_tune::run::Conditions;
use std::ffi::OsString;

#[derive(Debug, Args)]
pub(crate) struct TuneRun {
    /// The CPUs to run on, such as 3 or 2-3,6 [default: those it may run on now]
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    pub(crate) cpu: Option<CpuSet>,
    /// Keep these CPUs for the command alone while it runs: a cpuset partition of cgroup v2 (root, Linux 6.1), without a boot.
    /// Its threads are not spread over them: it has to pin them
    #[arg(long, requires = "cpu")]
    pub(crate) isolate: bool,
    #[command(flatten)]
    pub(crate) under: Under,
    /// The command and its arguments; its exit code is ours
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// What a program of the trading path runs under, beside its CPUs.
#[derive(Debug, Default, Args)]
pub(crate) struct Under {
    /// Run before everything that has no real-time priority (SCHED_FIFO, 1 to 99)
    #[arg(long, value_name = "PRIORITY", value_parser = value_parser!(u8).range(1..=99))]
    pub(crate) fifo: Option<u8>,
    /// Locked memory: `tune run` lifts its limit, so that the command may lock what it wants; `bench` locks its own
    #[arg(long)]
    pub(crate) memlock: bool,
    /// Let no CPU of the host sleep so deep that it takes longer to wake up, in microseconds; 0 lets none sleep
    #[arg(long, value_name = "US")]
    pub(crate) latency_qos: Option<u32>,
    /// Take memory of this NUMA node alone
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<u32>,
}

impl Under {
    /// The same on these CPUs; none for those of now.
    pub(crate) fn on(&self, cpus: Vec<u32>) -> Conditions {
        Conditions { cpus, node: self.node, fifo: self.fifo, memlock: self.memlock, latency_us: self.latency_qos }
    }
}
