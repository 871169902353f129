//! The flags of `sidestep bench`, and those that all measuring commands share: place and output.

use super::tune_run::Under;
use super::{BenchFix, BenchTick};
use crate::values::{Cpus, LoadList, LoadRates, PathList, RateList, Target, duration};
use clap::{Args, Subcommand, ValueEnum};
use sidestep_bench::service_time::ServiceTime;
use sidestep_lab::MTU_USUAL;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Measure round-trip latency per path (request and response)
    Rr(Rr),
    /// Measure half-RTT per message size
    Sizes(Sizes),
    /// Send messages at rising rates, some reflected: achieved rate, loss, latency
    Rates(Rates),
    /// Measure TCP throughput in each direction
    Bulk(Bulk),
    /// Measure TCP connections in sequence: open, one message and its answer, close
    Connect(Connect),
    /// Measure messages between two CPUs: rings, a bounced cache line, pipes and sockets; or events of the kernel
    #[command(after_help = RING_NOTES)]
    Ring(BenchRing),
    /// Measure FIX acceptors: order to acknowledgement and fill, test request to heartbeat
    Fix(Box<BenchFix>),
    /// Measure tick to trade: a multicast feed to a trader, its orders by FIX or OUCH
    Tick(Box<BenchTick>),
    /// Run as the peer of a measuring end on another machine
    Serve(Serve),
    /// Run as the peer of a measuring end on this machine; standard input is the control connection
    #[command(hide = true)]
    Peer(Peer),
    /// Run as one of the two programs of path `run`
    #[command(hide = true, subcommand)]
    Unmodified(Unmodified),
    /// Run as the bare acceptor of `bench fix --bare`
    #[command(hide = true)]
    FixBare {
        #[arg(long)]
        listen: String,
        #[arg(long)]
        cpu: u32,
    },
    /// Run as the far end of a ring; the rings are standard input and output
    #[command(hide = true)]
    RingPeer {
        #[arg(required = true)]
        job: Vec<String>,
    },
}

/// Remarks on `bench ring`.
const RING_NOTES: &str = "\
A source needs root. Its events are stamped in the kernel; measured is the time until
a reader has them, one way: where CPUs may halt, and with CPUs kept awake under names
that end in -awake.";

/// The place of a measurement, and its conditions.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// Place of the two ends on this machine
    #[arg(long, value_enum, default_value_t = PlaceKind::Auto)]
    pub(crate) place: PlaceKind,
    /// Measure against `sidestep bench serve` on another machine (default port 7411)
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with_all = ["place", "ipv6"])]
    pub(crate) to: Option<Target>,
    /// With --to: go past the kernel on this interface, for the paths xdp, xdp-one-end, xdp-block and xdp-raw, by the control
    /// plane that runs here
    #[arg(long, value_name = "IF", requires = "to")]
    pub(crate) interface: Option<String>,
    /// Start a control plane where none runs, which attaches an XDP program to --interface, and end it with the run; let
    /// xdp-raw attach its own program
    #[arg(long, requires = "interface")]
    pub(crate) start_control: bool,
    /// Use IPv6 between the ends on this machine
    #[arg(short = '6', long)]
    pub(crate) ipv6: bool,
    /// Transmit and receive queues of each end of the lab; path xdp uses all of them
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "to")]
    pub(crate) queues: u32,
    /// MTU of the lab's wire: 9000 for datagrams of up to 8972 bytes
    #[arg(long, value_name = "BYTES", default_value_t = MTU_USUAL, conflicts_with = "to")]
    pub(crate) mtu: u32,
    /// Impair the lab's wire in both directions: rate=200mbit,delay=2ms,loss=1%, and what else `sidestep lab up --impair` takes
    #[arg(long, value_name = "SPEC", conflicts_with = "to")]
    pub(crate) impair: Option<String>,
    /// CPUs of the measuring end and of its peer, for pinned paths
    #[arg(long, value_name = "CLIENT[,PEER]")]
    pub(crate) cpus: Option<Cpus>,
    /// The clock: the TSC if it can be trusted, or the kernel's
    #[arg(long, value_enum, default_value_t = ClockKind::Auto)]
    pub(crate) clock: ClockKind,
    /// Time that the peer works before each answer; with TIME/N so much longer before every N-th one (2us,50us/100)
    #[arg(long, value_name = "TIME[,TIME/N]", default_value = "0ns")]
    pub(crate) service_time: ServiceTime,
    #[command(flatten, next_help_heading = "Both ends on this machine run under")]
    pub(crate) under: Under,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlaceKind {
    /// A lab if this process may create one (root), else loopback
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

/// The outputs of a result.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Output {
    /// Write the result as JSON; `-` for standard output, instead of the table
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) shown: Shown,
}

/// How much of a result is shown.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Shown {
    /// Print all tables, not only what was found
    #[arg(short, long, help_heading = "Output")]
    pub(crate) verbose: bool,
    /// Put the whole command line of this host's kernel into the result, not only the words that bear on latency
    #[arg(long, help_heading = "Output")]
    pub(crate) full_cmdline: bool,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ArrivalKind {
    /// All the same
    Constant,
    /// Random, as of many independent senders
    Poisson,
}

#[derive(Debug, Args)]
pub(crate) struct Rr {
    /// Transports; the paths uds, shm and floor have their own
    #[arg(long, value_enum, value_delimiter = ',', default_value = "tcp")]
    pub(crate) transport: Vec<StreamKind>,
    /// Paths, separated by commas, or `all`; they are listed below [default: all; with --rate kernel-default,kernel-pinned,kernel-epoll,kernel-spin,
    /// uring-spin,xdp]
    #[arg(long, value_name = "LIST")]
    pub(crate) paths: Option<PathList>,
    /// Message sizes in bytes
    #[arg(long, value_delimiter = ',', default_value = "64", value_name = "BYTES")]
    pub(crate) size: Vec<u32>,
    /// Time for each path at each size, and at each rate
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Duration,
    /// Send so many messages a second, whatever the answers do (an open loop): a list (10k,50k), FROM:TO:STEP, or `auto` to search the
    /// knee of each path. Without it a message is sent after the answer to the one before it
    #[arg(long, value_name = "RATES", conflicts_with_all = ["ladder", "pin_irq"])]
    pub(crate) rate: Option<LoadRates>,
    /// Spacing of the messages of --rate
    #[arg(long, value_enum, default_value_t = ArrivalKind::Constant, requires = "rate")]
    pub(crate) arrival: ArrivalKind,
    /// Seed of --arrival poisson
    #[arg(long, value_name = "N", default_value_t = 1, requires = "rate")]
    pub(crate) seed: u64,
    /// Measure five set-ups, from untuned to polling, instead of paths
    #[arg(long, conflicts_with = "paths")]
    pub(crate) ladder: bool,
    /// Move the interface's interrupts to the measuring CPU for the ladder, and back afterwards
    #[arg(long, requires = "ladder")]
    pub(crate) pin_irq: bool,
    /// Tell what the host did during the slowest samples: as many slices more, in which interrupts, softirqs, tasks and migrations
    /// are recorded (as root; else only counters)
    #[arg(long, conflicts_with = "ladder")]
    pub(crate) causes: bool,
    /// Tell the stages of a round trip over UDP, by timestamps of the kernel, in as many slices more
    #[arg(long, conflicts_with = "ladder")]
    pub(crate) timestamps: bool,
    /// Switch hardware timestamps of the interface on for the run, and back afterwards (root; ptp4l would notice)
    #[arg(long, requires = "timestamps")]
    pub(crate) hardware_timestamps: bool,
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Sizes {
    /// Transports
    #[arg(long, value_enum, value_delimiter = ',', default_value = "tcp,udp")]
    pub(crate) transport: Vec<StreamKind>,
    /// Paths, separated by commas, or `all`: those of `bench rr`
    #[arg(long, default_value = "kernel-pinned,kernel-spin", value_name = "LIST")]
    pub(crate) paths: PathList,
    /// Message sizes in bytes
    #[arg(long, value_delimiter = ',', default_value = "16,32,64,128,256,512,1024,1472", value_name = "BYTES")]
    pub(crate) sizes: Vec<u32>,
    /// Time for each path at each size
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Duration,
    /// Tell what the host did during the slowest samples: as many slices more, in which interrupts, softirqs, tasks and migrations
    /// are recorded (as root; else only counters)
    #[arg(long)]
    pub(crate) causes: bool,
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Rates {
    /// Transports: to one receiver, or to a group
    #[arg(long, value_enum, value_delimiter = ',', default_value = "udp,multicast")]
    pub(crate) transport: Vec<CastKind>,
    /// Paths of the receiver, separated by commas: of those of `bench rr`
    #[arg(long, default_value = "kernel-pinned,kernel-spin", value_name = "LIST")]
    pub(crate) paths: PathList,
    /// Messages per second: a list (10k,50k,1M), or FROM:TO:STEP; all of them are measured [default: 10k to 1M in eleven steps, until a
    /// path falls behind]
    #[arg(long, value_name = "RATES")]
    pub(crate) rates: Option<RateList>,
    /// Message size in bytes
    #[arg(long, default_value_t = 24, value_name = "BYTES")]
    pub(crate) size: u32,
    /// Time at each rate
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Duration,
    /// Reflect one message in N [default: about 5000 per second]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) reflect_every: Option<u64>,
    /// Messages that are due at the same time and leave together: by sendmmsg and recvmmsg, or one flush past the kernel
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) batch: u32,
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
    /// Paths, separated by commas: of those of `bench rr`
    #[arg(long, default_value = "kernel-pinned,kernel-spin", value_name = "LIST")]
    pub(crate) paths: PathList,
    /// Bytes per write
    #[arg(long, value_delimiter = ',', default_value = "65536", value_name = "BYTES")]
    pub(crate) size: Vec<u32>,
    /// Congestion control of every path, the kernel's and ours: cubic, reno [default: the kernel's own default
    /// (net.ipv4.tcp_congestion_control), and our stack's]
    #[arg(long, value_name = "NAME")]
    pub(crate) congestion: Option<String>,
    /// Time for each path in each direction; over an impaired wire give it a minute, as a slice then has 1/12 of it
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Duration,
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Connect {
    /// Paths, separated by commas: of those of `bench rr`
    #[arg(long, default_value = "kernel-pinned,kernel-spin", value_name = "LIST")]
    pub(crate) paths: PathList,
    /// Size of the message and of its answer, in bytes
    #[arg(long, value_delimiter = ',', default_value = "64", value_name = "BYTES")]
    pub(crate) size: Vec<u32>,
    /// Time for each path
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = duration)]
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
    /// Pace of round trips: `hot` (the next one at once), or one per interval (1us, 1ms); `none` for throughput only
    #[arg(long, default_value = "hot", value_name = "LIST")]
    pub(crate) pace: LoadList,
    /// Do not measure throughput
    #[arg(long)]
    pub(crate) no_throughput: bool,
    /// Events of the kernel instead, from: a timer of a BPF program, datagrams at XDP over the lab's wire, or the timer of the
    /// kernel module
    #[arg(long, value_name = "timer|xdp|module", conflicts_with_all = ["sizes", "pace", "no_throughput", "room"])]
    pub(crate) source: Option<String>,
    /// Time from one event to the next
    #[arg(long, default_value = "100us", value_name = "TIME", value_parser = duration, requires = "source")]
    pub(crate) interval: Duration,
    /// Events for each path under each condition, instead of a time [default: 20000]; p99 needs 10000, p99.9 100000
    #[arg(long, value_name = "N", requires = "source", conflicts_with = "duration",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) samples: Option<u32>,
    /// Paths, separated by commas [default: all], of: floor, floor-each-way, ring, ring-small, ring-shm, ring-broadcast, ring-park,
    /// eventfd, pipe, uds; of a source: bpf-ring, bpf-ring-two-readers, bpf-ring-doorbell, bpf-ringbuf-spin, bpf-ringbuf-epoll,
    /// recv-block, recv-poll, recv-spin (xdp), read-block, read-poll, read-spin, module-ring (module)
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(crate) paths: Vec<String>,
    /// Time for each path at each size and pace [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Size of the ring in each direction, in KiB
    #[arg(long, default_value_t = 64, value_name = "KIB")]
    pub(crate) room: usize,
    /// CPUs of the measuring end and of the far end
    #[arg(long, value_name = "NEAR[,FAR]")]
    pub(crate) cpus: Option<Cpus>,
    /// The clock: the TSC if it can be trusted, or the kernel's
    #[arg(long, value_enum, default_value_t = ClockKind::Auto)]
    pub(crate) clock: ClockKind,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address to listen on (default port 7411)
    #[arg(long, default_value = "0.0.0.0:7411", value_name = "ADDRESS[:PORT]", value_parser = crate::values::listen_address)]
    pub(crate) listen: SocketAddr,
    /// CPU for pinned paths [default: the last one]
    #[arg(long)]
    pub(crate) cpu: Option<u32>,
    /// Concurrent sessions; two of them disturb each other's figures
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) sessions: u32,
    /// Let measuring ends choose the CPU of pinned paths
    #[arg(long)]
    pub(crate) allow_cpu: bool,
    /// Bytes to stream in a session beyond those received in it; `bench bulk` needs them
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) stream_bytes: u64,
    /// Answer past the kernel on this interface, by the control plane that runs here
    #[arg(long, value_name = "IF")]
    pub(crate) interface: Option<String>,
    /// Start a control plane where none runs, which attaches an XDP program to --interface until nobody has measured for ten
    /// seconds; let xdp-raw attach its own program. For networks whose every host may do that: a change of programs stops some
    /// devices for seconds
    #[arg(long, requires = "interface")]
    pub(crate) start_control: bool,
    /// Send this host's name, kernel, and the words of its command line that bear on latency to measuring ends
    #[arg(long)]
    pub(crate) facts: bool,
    /// Start our FIX acceptors for measuring ends (bench fix --to), with their stores in a temporary folder
    #[arg(long)]
    pub(crate) fix: bool,
    /// Join any group that a measuring end asks for, not only those of 239.0.0.0/8
    #[arg(long)]
    pub(crate) any_group: bool,
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
    /// Addresses of this end and of the other by the lab's second pair
    #[arg(long, value_delimiter = ',')]
    pub(crate) by_frames: Vec<IpAddr>,
}

/// The programs of path `run`.
#[derive(Debug, Subcommand)]
pub(crate) enum Unmodified {
    /// Send messages, and measure their answers
    Client {
        #[arg(long, value_enum)]
        transport: StreamKind,
        #[arg(long)]
        remote: SocketAddr,
        #[arg(long)]
        size: u32,
        #[arg(long)]
        cpu: u32,
        #[arg(long, value_parser = duration)]
        settle: Duration,
        #[arg(long, value_parser = duration)]
        duration: Duration,
        #[arg(long)]
        clock: String,
        #[arg(long)]
        ns_per_tick: f64,
    },
    /// Answer messages
    Server {
        #[arg(long, value_enum)]
        transport: StreamKind,
        #[arg(long)]
        local: IpAddr,
        #[arg(long)]
        remote: IpAddr,
        #[arg(long)]
        size: u32,
        #[arg(long)]
        cpu: u32,
    },
}
