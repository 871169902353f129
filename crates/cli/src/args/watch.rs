//! The flags of `sidestep watch`.

use super::StreamKind;
use super::tune_subject::cpu_list;
use crate::values::{Cpus, PathList, Target, duration};
use clap::Args;
use sidestep_tune::cpus::CpuSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Remarks on `watch`.
const NOTES: &str = "\
Each round takes --slice of round trips per path, 20 wake-ups per CPU, and now and then an audit of
the host's settings. Changes are told on standard error, one line each. SIGTERM and Ctrl-C end it
with exit code 0. contrib/ has a unit for systemd, rules for Prometheus and a dashboard for Grafana.";

#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct Watch {
    /// Time from one round of probes to the next, 100ms to 1h
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = duration)]
    pub(crate) every: Duration,
    /// Paths of the probes, as in `bench rr`, separated by commas
    #[arg(long, default_value = "kernel-pinned,kernel-spin", value_name = "LIST")]
    pub(crate) paths: PathList,
    /// Transports of the probes; the paths uds, shm and floor have their own
    #[arg(long, value_enum, value_delimiter = ',', default_value = "tcp")]
    pub(crate) transport: Vec<StreamKind>,
    /// Message size in bytes
    #[arg(long, default_value_t = 64, value_name = "BYTES")]
    pub(crate) size: u32,
    /// Counted time of a probe in each round. Settling comes on top: 30 ms where the path sleeps, 3 ms where it spins
    #[arg(long, default_value = "10ms", value_name = "TIME", value_parser = duration)]
    pub(crate) slice: Duration,
    /// Probe against `sidestep bench serve` on another host (default port 7411) [default: over loopback]
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) to: Option<Target>,
    /// With --to: the interface on which the paths xdp, xdp-one-end and xdp-block go past the kernel, by the control plane that
    /// runs here. None is started
    #[arg(long, value_name = "IF", requires = "to")]
    pub(crate) interface: Option<String>,
    /// CPUs of the measuring end and of its peer, for pinned paths
    #[arg(long, value_name = "CLIENT[,PEER]")]
    pub(crate) cpus: Option<Cpus>,
    /// CPUs whose timers are watched, such as 2-3,8, or `none` [default: those that this process may use; isolated ones are not]
    #[arg(long, value_name = "LIST", value_parser = hiccup_cpus)]
    pub(crate) hiccup_cpus: Option<HiccupCpus>,
    /// Time from one audit of the host's settings to the next, or `never`
    #[arg(long, default_value = "5m", value_name = "TIME", value_parser = tune_every, help_heading = "Audit")]
    pub(crate) tune_every: TuneEvery,
    /// Profile: latency, polling, throughput, cloud
    #[arg(long, value_name = "NAME", default_value = "latency", help_heading = "Audit")]
    pub(crate) profile: String,
    /// A policy instead of a profile, as `sidestep tune policy` writes it
    #[arg(long, value_name = "FILE", conflicts_with = "profile", help_heading = "Audit")]
    pub(crate) policy: Option<PathBuf>,
    /// Hot CPUs, those of the trading path, such as 2-3 [default: the isolated ones]
    #[arg(long, value_name = "LIST", value_parser = cpu_list, help_heading = "Audit")]
    pub(crate) hot_cpus: Option<CpuSet>,
    /// Interfaces to audit [default: those of hardware]
    #[arg(long, value_name = "NAME", value_delimiter = ',', help_heading = "Audit")]
    pub(crate) audit_interface: Vec<String>,
    /// Serve Prometheus' text format over HTTP [default: 127.0.0.1:9465; with --file or --once nowhere]
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Output")]
    pub(crate) listen: Option<SocketAddr>,
    /// Write the same to a file after each round, for node_exporter's textfile collector (a name that ends in .prom)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) file: Option<PathBuf>,
    /// Look once, print the metrics (or write --file), and end
    #[arg(long, conflicts_with = "listen", help_heading = "Output")]
    pub(crate) once: bool,
    /// Socket of the control plane
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

/// The CPUs of `--hiccup-cpus`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HiccupCpus(pub(crate) Vec<u32>);

/// The time of `--tune-every`; none for `never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TuneEvery(pub(crate) Option<Duration>);

fn hiccup_cpus(text: &str) -> Result<HiccupCpus, String> {
    if text == "none" {
        return Ok(HiccupCpus(Vec::new()));
    }
    let set = cpu_list(text).map_err(|why| format!("{why}, or `none`"))?;
    Ok(HiccupCpus(set.iter().collect()))
}

fn tune_every(text: &str) -> Result<TuneEvery, String> {
    match text {
        "never" => Ok(TuneEvery(None)),
        time => duration(time).map(|time| TuneEvery(Some(time))).map_err(|why| format!("{why}, or `never`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_wanted_has_a_word() {
        assert_eq!(hiccup_cpus("none"), Ok(HiccupCpus(Vec::new())));
        assert_eq!(hiccup_cpus("2-3,1"), Ok(HiccupCpus(vec![1, 2, 3])));
        assert!(hiccup_cpus("").is_err_and(|why| why.contains("`none`")));
        assert_eq!(tune_every("never"), Ok(TuneEvery(None)));
        assert_eq!(tune_every("5m"), Ok(TuneEvery(Some(Duration::from_secs(300)))));
        assert!(tune_every("soon").is_err_and(|why| why.contains("`never`")));
    }
}
