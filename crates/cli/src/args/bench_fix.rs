//! The flags of `sidestep bench fix`.

use super::{ClockKind, Output};
use crate::values::{Cpus, FixLoadList, Named, Target, duration};
use clap::builder::ArgPredicate;
use clap::{Args, ValueEnum};
use sidestep_bench::fix::Reach;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct BenchFix {
    /// Another acceptor, which acknowledges and fills every order, at HOST:PORT, tls:HOST:PORT, unix:PATH or
    /// shm:PATH; or, seen from host a of a lab, at lab:LAB:HOST:PORT or lab:LAB:tls:HOST:PORT. NAME is its name in the
    /// report. May be given several times
    #[arg(long, value_name = "NAME=ADDRESS")]
    pub(crate) acceptor: Vec<Named<Reach>>,
    /// Process of an acceptor, which is stopped while others are measured
    #[arg(long, value_name = "NAME=PID")]
    pub(crate) pid: Vec<Named<u32>>,
    /// Description of an acceptor for the report
    #[arg(long, value_name = "NAME=TEXT")]
    pub(crate) about: Vec<Named<String>>,
    /// Transports of our own acceptor, started for the run: tcp, tls, uds, shm; as root, over a veth pair: veth (the kernel's
    /// TCP), xdp-one-end (the acceptor accelerated), xdp (both ends), and these with -tls; with --to: tcp, tls, xdp,
    /// xdp-one-end, xdp-client (the client accelerated), and these three with -tls; `none` to measure others only. The first
    /// acceptor is the baseline of all others
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "tcp,uds,shm",
        default_value_if("to", ArgPredicate::IsPresent, "tcp"),
        value_name = "LIST"
    )]
    pub(crate) own: Vec<String>,
    /// Have our own acceptors started on another machine, by `sidestep bench serve --fix` there (default port 7411)
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) to: Option<Target>,
    /// With --to: the client goes past the kernel on this interface, over xdp and xdp-client, by the control plane that runs here
    #[arg(long, value_name = "IF", requires = "to")]
    pub(crate) interface: Option<String>,
    /// Start a control plane where none runs, which attaches an XDP program to --interface, and end it with the run
    #[arg(long, requires = "interface")]
    pub(crate) start_control: bool,
    /// Measure a bare acceptor, too, over each transport of --own (`bare`, `bare-uds`, ...): it answers an order with
    /// reports that were encoded before, and shows the transport's own time for the same bytes, as the baseline of ours
    #[arg(long)]
    pub(crate) bare: bool,
    /// Further acceptors to use as baselines
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) against: Vec<String>,
    /// Stores of our own acceptor, each measured: none, page-cache, group-commit
    #[arg(long, value_delimiter = ',', default_value = "page-cache", value_name = "LIST")]
    pub(crate) store: Vec<String>,
    /// Waiting of our own acceptor
    #[arg(long, value_enum, default_value_t = WaitingKind::Spin)]
    pub(crate) own_waiting: WaitingKind,
    /// Requests to measure
    #[arg(long, value_enum, value_delimiter = ',', default_value = "orders")]
    pub(crate) workload: Vec<WorkloadKind>,
    /// Pace of messages: `hot` (the next one after the answer), or one per interval (100us, 1ms)
    #[arg(long, default_value = "hot", value_name = "LIST")]
    pub(crate) pace: FixLoadList,
    /// Number of sessions that take turns
    #[arg(long, value_delimiter = ',', default_value = "1", value_name = "N")]
    pub(crate) sessions: Vec<u32>,
    /// Waiting of the client
    #[arg(long, value_enum, default_value_t = WaitingKind::Spin)]
    pub(crate) waiting: WaitingKind,
    /// Time for each acceptor under each load
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Duration,
    /// Uncounted messages to each acceptor before the measurement
    #[arg(long, default_value = "500ms", value_name = "TIME", value_parser = duration)]
    pub(crate) warmup: Duration,
    /// BeginString of the client
    #[arg(long, default_value = "FIX.4.4", value_name = "VERSION")]
    pub(crate) begin_string: String,
    /// SenderCompID of the client; the number of the session is appended: BENCH001
    #[arg(long, default_value = "BENCH", value_name = "ID")]
    pub(crate) sender: String,
    /// TargetCompID of the client
    #[arg(long, default_value = "EXCHANGE", value_name = "ID")]
    pub(crate) target: String,
    /// CPUs of the client and of our own acceptor
    #[arg(long, value_name = "CLIENT[,ACCEPTORS]")]
    pub(crate) cpus: Option<Cpus>,
    /// The clock: the TSC if it can be trusted, or the kernel's
    #[arg(long, value_enum, default_value_t = ClockKind::Auto)]
    pub(crate) clock: ClockKind,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkloadKind {
    /// NewOrderSingle to its acknowledgement, and to its fill
    Orders,
    /// TestRequest to its Heartbeat
    Heartbeats,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitingKind {
    /// Polls without sleeping
    Spin,
    /// Sleeps until the kernel wakes it
    Block,
}
