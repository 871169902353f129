//! Every command and flag, defined once: help, completions and manual pages are made from this.

use crate::values::{Cpus, LoadList, PathList, RateList, Target};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Low-latency networking for trading on stock Linux: measure.
#[derive(Debug, Parser)]
#[command(name = "sidestep", version, max_term_width = 100, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "Examples:
  sidestep demo                                        everything in about a minute, then report.html
  sidestep bench rr --transport tcp --size 64          every path, side by side
  sidestep bench rr --ladder                           from untuned to polling, five set-ups
  sidestep bench ring --pace hot,1us                   rings and pipes between two CPUs
  sidestep bench serve --listen 192.0.2.2:7411         on one machine, and on the other:
  sidestep bench rr --to 192.0.2.2 --json a.json
  sidestep compare a.json b.json                       better, worse, or no measurable difference

Exit codes: 0 good, 1 failed, 2 usage, 4 regression, 5 not enough data, 130 stopped by Ctrl-C.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure this machine in about a minute; write report.html and result.json
    Demo(Demo),
    /// Measure latency
    #[command(subcommand)]
    Bench(Bench),
    /// Judge a result against an earlier one, row by row
    Compare(Compare),
    /// Run the control plane of this network namespace, in the foreground
    Control(Control),
    /// Show what is accelerated, and why the rest is not
    Ps(Ps),
    /// Watch what every stack does per second
    Top(Top),
    /// Two hosts on this machine: network namespaces joined by a wire
    #[command(subcommand)]
    Lab(Lab),
    /// Look into a ring in shared memory, without disturbing it
    #[command(subcommand)]
    Ring(Ring),
    /// Print shell completions
    Completions {
        /// For this shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages
    Man {
        /// Into this folder
        #[arg(default_value = "man")]
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Folder for report.html and result.json
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Request and response: round-trip latency per path
    Rr(Rr),
    /// Half round-trip latency per message size
    Sizes(Sizes),
    /// Messages upstream at rising rates, some reflected: achieved rate, loss, latency
    Rates(Rates),
    /// A TCP stream at full speed, each way
    Bulk(Bulk),
    /// TCP connections one after the other: made, one message and its answer, ended
    Connect(Connect),
    /// Messages between two CPUs through memory: rings, the cache line, pipes and sockets
    Ring(BenchRing),
    /// Be the peer of a measuring end on another machine
    Serve(Serve),
    /// Be the peer of a measuring end on this machine, told over standard input
    #[command(hide = true)]
    Peer(Peer),
    /// Be the far end of a ring; the rings are standard input and output
    #[command(hide = true)]
    RingPeer {
        #[arg(required = true)]
        job: Vec<String>,
    },
}

/// Where to measure, and with what.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// Where the two ends are, if on this machine
    #[arg(long, value_enum, default_value_t = PlaceKind::Auto)]
    pub(crate) place: PlaceKind,
    /// Measure against `sidestep bench serve` there (port 7411 unless given)
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with_all = ["place", "ipv6"])]
    pub(crate) to: Option<Target>,
    /// Use IPv6 between the ends on this machine
    #[arg(short = '6', long)]
    pub(crate) ipv6: bool,
    /// CPUs of the measuring end and of its peer, for paths that pin
    #[arg(long, value_name = "CLIENT[,PEER]")]
    pub(crate) cpus: Option<Cpus>,
    /// The clock: the TSC where it can be trusted, or the kernel's
    #[arg(long, value_enum, default_value_t = ClockKind::Auto)]
    pub(crate) clock: ClockKind,
    /// Work the peer does before each answer
    #[arg(long, value_name = "TIME", default_value = "0ns", value_parser = humantime::parse_duration)]
    pub(crate) service_time: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlaceKind {
    /// A lab if this process may make one (root), else loopback
    Auto,
    /// Two network namespaces joined by veth
    Lab,
    /// The loopback interface
    Loopback,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClockKind {
    /// The TSC if it is invariant, else CLOCK_MONOTONIC_RAW
    Auto,
    /// CLOCK_MONOTONIC_RAW
    Monotonic,
}

/// Where the result goes.
#[derive(Debug, Args)]
pub(crate) struct Output {
    /// Write the result as JSON; `-` for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StreamKind {
    Tcp,
    Udp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CastKind {
    Udp,
    Multicast,
}

#[derive(Debug, Args)]
pub(crate) struct Rr {
    /// Over what (uds, shm and floor paths bring their own)
    #[arg(long, value_enum, value_delimiter = ',', default_value = "tcp")]
    pub(crate) transport: Vec<StreamKind>,
    /// Paths, separated by commas, or `all`
    #[arg(long, default_value = "all", value_name = "LIST")]
    pub(crate) paths: PathList,
    /// Message sizes in bytes
    #[arg(long, value_delimiter = ',', default_value = "64", value_name = "BYTES")]
    pub(crate) size: Vec<u32>,
    /// Time for each path at each size
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) duration: Duration,
    /// The five set-ups from untuned to polling, instead of paths
    #[arg(long, conflicts_with = "paths")]
    pub(crate) ladder: bool,
    /// On the ladder, move the interface's interrupts to the measuring CPU, and back afterwards
    #[arg(long, requires = "ladder")]
    pub(crate) pin_irq: bool,
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Sizes {
    /// Over what
    #[arg(long, value_enum, value_delimiter = ',', default_value = "tcp,udp")]
    pub(crate) transport: Vec<StreamKind>,
    /// Paths, separated by commas, or `all`
    #[arg(long, default_value = "kernel-pinned,kernel-spin", value_name = "LIST")]
    pub(crate) paths: PathList,
    /// Message sizes in bytes
    #[arg(long, value_delimiter = ',', default_value = "16,32,64,128,256,512,1024,1472", value_name = "BYTES")]
    pub(crate) sizes: Vec<u32>,
    /// Time for each path at each size
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) duration: Duration,
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Rates {
    /// To one receiver, or to a group
    #[arg(long, value_enum, value_delimiter = ',', default_value = "udp,multicast")]
    pub(crate) transport: Vec<CastKind>,
    /// Paths of the receiver, separated by commas
    #[arg(long, default_value = "kernel-pinned,kernel-spin", value_name = "LIST")]
    pub(crate) paths: PathList,
    /// Messages per second: a list (10k,50k,1M), or FROM:TO:STEP
    #[arg(long, default_value = "10k,25k,50k,100k,150k,200k,300k,400k,600k,800k,1M", value_name = "RATES")]
    pub(crate) rates: RateList,
    /// Message size in bytes
    #[arg(long, default_value_t = 24, value_name = "BYTES")]
    pub(crate) size: u32,
    /// Time at each rate
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) duration: Duration,
    /// One message in so many comes back [default: about 5000 a second]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) reflect_every: Option<u64>,
    /// The multicast group
    #[arg(long, default_value = "239.192.74.11", value_name = "ADDRESS")]
    pub(crate) group: Ipv4Addr,
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Bulk {
    /// Paths, separated by commas
    #[arg(long, default_value = "kernel-pinned,kernel-spin", value_name = "LIST")]
    pub(crate) paths: PathList,
    /// Bytes handed over at a time
    #[arg(long, value_delimiter = ',', default_value = "65536", value_name = "BYTES")]
    pub(crate) size: Vec<u32>,
    /// Time for each path in each direction
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) duration: Duration,
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Connect {
    /// Paths, separated by commas
    #[arg(long, default_value = "kernel-pinned,kernel-spin", value_name = "LIST")]
    pub(crate) paths: PathList,
    /// Size of the message and of its answer, in bytes
    #[arg(long, value_delimiter = ',', default_value = "64", value_name = "BYTES")]
    pub(crate) size: Vec<u32>,
    /// Time for each path
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) duration: Duration,
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct BenchRing {
    /// Message sizes in bytes
    #[arg(long, value_delimiter = ',', default_value = "8,48,64,256,1024", value_name = "BYTES")]
    pub(crate) sizes: Vec<u32>,
    /// Round trips: `hot` (the next one at once), or one due in every such time (1us, 1ms); `none` for throughput alone
    #[arg(long, default_value = "hot", value_name = "LIST")]
    pub(crate) pace: LoadList,
    /// Do not measure throughput
    #[arg(long)]
    pub(crate) no_throughput: bool,
    /// Only these, separated by commas, of: floor, floor-each-way, ring, ring-shm, ring-broadcast, ring-park, eventfd,
    /// pipe, uds
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(crate) paths: Vec<String>,
    /// Time for each path at each size and pace
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) duration: Duration,
    /// Room of a ring each way, in KiB
    #[arg(long, default_value_t = 64, value_name = "KIB")]
    pub(crate) room: usize,
    /// CPUs of the measuring end and of the far end
    #[arg(long, value_name = "NEAR[,FAR]")]
    pub(crate) cpus: Option<Cpus>,
    /// The clock: the TSC where it can be trusted, or the kernel's
    #[arg(long, value_enum, default_value_t = ClockKind::Auto)]
    pub(crate) clock: ClockKind,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where to listen
    #[arg(long, default_value = "0.0.0.0:7411", value_name = "ADDRESS:PORT")]
    pub(crate) listen: SocketAddr,
    /// CPU for paths that pin [default: the last one]
    #[arg(long)]
    pub(crate) cpu: Option<u32>,
    /// Sessions at a time; two disturb each other's figures
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) sessions: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Peer {
    #[arg(long)]
    pub(crate) local: IpAddr,
    #[arg(long)]
    pub(crate) remote: IpAddr,
    #[arg(long)]
    pub(crate) cpu: u32,
    #[arg(long)]
    pub(crate) in_lab: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// The earlier result
    pub(crate) before: PathBuf,
    /// The later result, which is judged
    pub(crate) after: PathBuf,
    /// Write the comparison as JSON; `-` for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Control {
    /// Serve these interfaces alone, from the start to the end [default: any, while a program uses it]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) interface: Vec<String>,
    /// Users who may bypass the kernel, by number, beside root [default: members of the group sidestep]
    #[arg(long, value_name = "UID", value_delimiter = ',')]
    pub(crate) allow_uid: Vec<u32>,
    /// Groups whose members may, by number
    #[arg(long, value_name = "GID", value_delimiter = ',')]
    pub(crate) allow_gid: Vec<u32>,
    /// Where to listen [default: control.sock in /run/sidestep/net-INODE, INODE being the network namespace's]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Detach everything that a control plane that was killed has left behind, and end
    #[arg(long, conflicts_with_all = ["interface", "allow_uid", "allow_gid", "socket"])]
    pub(crate) cleanup: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Ps {
    /// Ask the control plane there
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Ask the control plane there
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Time between two looks
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) interval: Duration,
    /// One look, then end
    #[arg(long)]
    pub(crate) once: bool,
    /// As JSON, a line per look
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// Make a lab that stays until it is taken down
    Up(LabUp),
    /// Take a lab down
    Down {
        /// Its name; not needed when there is only one
        name: Option<String>,
        /// Also while a process is inside
        #[arg(long)]
        force: bool,
    },
    /// Run a command on one of the hosts
    Exec(LabExec),
    /// List the labs of this machine
    Status {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Run the impaired wire of a lab
    #[command(hide = true)]
    Wire { name: String },
}

#[derive(Debug, Args)]
pub(crate) struct LabUp {
    /// Its name [default: a new one]
    pub(crate) name: Option<String>,
    /// Offloads off, so that every frame carries its true checksum, as on a cable
    #[arg(long)]
    pub(crate) true_checksums: bool,
    /// Transmit and receive queues of each end
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) queues: u32,
    /// Make the wire bad, both ways: loss=1%,delay=5ms,jitter=1ms,reorder=2%,gap=1ms,duplicate=1%,corrupt=0.1%,
    /// rate=100mbit,seed=7
    #[arg(long, value_name = "SPEC")]
    pub(crate) impair: Option<String>,
    /// The same from b to a, where it is to differ
    #[arg(long, value_name = "SPEC")]
    pub(crate) impair_back: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LabExec {
    /// The lab; not needed when there is only one
    #[arg(long, value_name = "NAME")]
    pub(crate) lab: Option<String>,
    /// The host
    #[arg(value_enum)]
    pub(crate) host: HostKind,
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HostKind {
    /// 198.18.0.1
    A,
    /// 198.18.0.2
    B,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Ring {
    /// Its counters and the state of both sides
    Stat(RingStat),
    /// Print its messages as they come, until it is closed
    Tail(RingTail),
}

#[derive(Debug, Args)]
pub(crate) struct RingStat {
    /// The ring's file
    pub(crate) file: PathBuf,
    /// Write it as JSON; `-` for standard output, instead of the text
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RingTail {
    /// The ring's file
    pub(crate) file: PathBuf,
    /// Where to begin
    #[arg(long, value_enum, default_value_t = RingStart::Newest)]
    pub(crate) from: RingStart,
    /// End after so many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// One line for each message, what is not printable as \xNN
    #[arg(long)]
    pub(crate) lines: bool,
    /// The bytes of the messages, and nothing else
    #[arg(long, conflicts_with = "lines")]
    pub(crate) raw: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RingStart {
    /// As far back as is known: up to half the ring
    Oldest,
    /// With the next message to come
    Newest,
}
