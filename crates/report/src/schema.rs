//! The result file: the contract between bench, report, compare and scripts.
//!
//! Version [`SCHEMA`]. Every time is in nanoseconds unless its name ends in another unit; a field that was not measured
//! is `null`, never zero. A reader ignores fields it does not know; a field changes meaning only with the version.

use serde::{Deserialize, Serialize};

mod causes;
mod distribution;
mod stages;
mod tick;

pub use causes::{Cause, Causes, ObserverEffect, Outlier, OutlierEvent};
pub use distribution::{Ci95, Distribution, Effective, Mode, RateDetail};
pub use stages::{MissingStamps, Stage, Stages};
pub use tick::{LineDetail, TickDetail};

/// The version of the result file that this build writes and reads.
pub const SCHEMA: u32 = 1;

/// One run: results, circumstances, and the command that repeats it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program that wrote the file.
    pub tool: Tool,
    /// Start of the run, RFC 3339, UTC.
    pub started: String,
    /// Duration, seconds.
    pub elapsed_s: f64,
    /// The exact command that repeats the run.
    pub command: String,
    /// True if Ctrl-C ended the run: the rows hold the measurements until then.
    #[serde(default)]
    pub interrupted: bool,
    /// The measuring host.
    pub host: Host,
    /// The other host, if it is another machine.
    #[serde(default)]
    pub peer: Option<Host>,
    /// The set-up between the two ends.
    pub setup: Setup,
    /// One row per scenario, transport, path, size and rate.
    pub results: Vec<Row>,
    /// Ratios between paths, and of each path to itself (the control).
    #[serde(default)]
    pub ratios: Vec<Ratio>,
    /// Requested measurements that were not possible here, with the reasons.
    #[serde(default)]
    pub unavailable: Vec<Unavailable>,
    /// The paths in `results`, in the order of the rows.
    #[serde(default)]
    pub paths: Vec<PathInfo>,
    /// Steps in their order, with their effect here (`tune verify`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Figures of others, as they publish them; nothing of them was measured here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
    /// Remarks on the run as a whole.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Figures that others publish, shown beside those of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Their place.
    pub source: String,
    /// Their unit.
    pub unit: String,
    /// The figures; the first row is the baseline of the others.
    pub rows: Vec<PublishedRow>,
    /// Conditions that a reader has to know.
    #[serde(default)]
    pub remarks: Vec<String>,
}

/// One row of published figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PublishedRow {
    /// Its name, as they give it.
    pub name: String,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p99_9: f64,
}

/// One change to host or program, measured with and without on top of the steps kept before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its name ("CPU pinned", "busy-read").
    pub name: String,
    /// A description of the change.
    pub what: String,
    /// `kept`, `dropped`, `unseen` (the time was too short for its effect), `impossible`, or `not tried` (a flag is
    /// missing, which the reason names).
    pub decision: String,
    /// The reason of the decision.
    pub reason: String,
    /// Ratios of the arm with it to the arm without it, in one interleaved run: `p50`, and `p99` if there are enough samples.
    #[serde(default)]
    pub ratios: Vec<Ratio>,
    /// Hiccups of the measuring CPU without it, then with it; none if it cannot affect them.
    #[serde(default)]
    pub hiccups: Vec<Hiccups>,
}

/// The program that wrote the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// `sidestep`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Facts about a host that explain its latencies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Host name.
    pub hostname: String,
    /// `uname -r`.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// CPUs online.
    pub cpus: u32,
    /// The hypervisor's name, if the host is a virtual machine.
    pub virtualised: Option<String>,
    /// The kernel's clock source.
    pub clocksource: String,
    /// The clock of the measurement: `tsc` or `monotonic`.
    pub clock: String,
    /// The reason why the clock is not the TSC, if it is not.
    #[serde(default)]
    pub clock_reason: Option<String>,
    /// Calibrated TSC frequency.
    pub tsc_hz: Option<f64>,
    /// Bound on the calibration error, parts per million.
    pub clock_error_ppm: f64,
    /// The cost of two readings of the clock: included in every sample, never subtracted.
    pub timer_cost_ns: f64,
    /// The smallest step of the clock that was seen.
    pub timer_resolution_ns: f64,
    /// A round trip of the measuring loop over a transport that answers at once: the loop's share of a sample, the
    /// clock's cost included.
    #[serde(default)]
    pub loop_cost_ns: f64,
    /// CPU frequency governor of the measuring CPU, if the kernel has one.
    pub governor: Option<String>,
    /// The kernel's command line: the words that bear on latency (`cmdline::shown`), or all of it (`--full-cmdline`).
    pub cmdline: String,
    /// Words of it that are left out.
    #[serde(default)]
    pub cmdline_left_out: u32,
    /// CPUs the scheduler leaves alone (`/sys/devices/system/cpu/isolated`).
    #[serde(default)]
    pub isolated: String,
    /// Noise seen over the whole run.
    pub noise: HostNoise,
}

/// Disturbances of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostNoise {
    /// Per CPU: how often, and for how long, a loop that only reads the clock was held up. Taken before the run.
    #[serde(default)]
    pub hiccups: Vec<Hiccups>,
    /// Totals over the run.
    #[serde(default)]
    pub during: Noise,
    /// One-minute load average at the start.
    #[serde(default)]
    pub load_1m: f64,
    /// The machine's own speed during the run.
    #[serde(default)]
    pub yardstick: Yardstick,
}

/// Medians of readings taken between slices, the same in every run: when they differ between two runs, the machine does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Yardstick {
    /// The shortest system call (getppid(2)) on the measuring CPU.
    pub syscall_ns: Option<f64>,
    /// A cache line bounced to the peer's CPU and back, or to another CPU of this host where the peer is elsewhere.
    pub cache_line_ns: Option<f64>,
}

/// One CPU's hiccups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hiccups {
    /// The CPU.
    pub cpu: u32,
    /// The time that it was watched.
    pub watched_ms: f64,
    /// A pause longer than this counts.
    pub threshold_ns: f64,
    /// Pauses counted.
    pub count: u64,
    /// The longest one.
    pub max_ns: f64,
    /// Share of the watched time lost to them, 0..1.
    pub lost_share: f64,
}

/// Disturbances counted while something was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Steal time of the measured CPUs (resolution 10 ms).
    pub steal_ms: f64,
    /// Involuntary context switches of the measuring thread, and of its peer on this host.
    pub involuntary_switches: u64,
    /// Interrupts on the CPUs measured (both ends on one host), timer ticks included.
    pub interrupts: u64,
}

/// The set-up between the two ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// `lab` (two network namespaces joined by veth), `loopback`, `remote`; `loopback and lab` where `bench fix` has acceptors
    /// in both.
    pub place: String,
    /// The measuring end's interface.
    pub interface: String,
    /// The address of the peer.
    pub address: String,
    /// CPU of the measuring end, for pinned paths.
    pub client_cpu: Option<u32>,
    /// CPU of the peer, for pinned paths.
    pub server_cpu: Option<u32>,
    /// Work of the peer before each answer (`--service-time`).
    #[serde(default)]
    pub service_time_ns: u64,
    /// Work besides, before every [`service_longer_every`](Self::service_longer_every)-th answer.
    #[serde(default)]
    pub service_longer_ns: u64,
    /// Answers for one before which the peer works longer; 0 for none.
    #[serde(default)]
    pub service_longer_every: u32,
    /// Queues that the measuring end's interface receives by; 0 where that is not known.
    #[serde(default)]
    pub queues: u32,
    /// The longest IP packet that the measuring end's interface takes, bytes; 0 where that is not known.
    #[serde(default)]
    pub mtu: u32,
    /// The impairment of the lab's wire in each direction (`--impair`), where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<String>,
}

/// One measured distribution with its circumstances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// `rr`, `sizes`, `rates`, `open-loop`, `ring`, `ring-source`, `bulk` (to the peer), `bulk-back` (from it), `connect`, `fix`, `tick`.
    pub scenario: String,
    /// `tcp`, `udp`, `multicast`, `uds`, `tls`, `shm`, `memory`; of `ring-source` the source: `timer`, `xdp`, `module`.
    pub transport: String,
    /// `kernel-default`, `kernel-pinned`, ... (see [`PathInfo`]).
    pub path: String,
    /// The rung of the ladder this row is, if it is one ("2 CPU pinned").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rung: Option<String>,
    /// Message size in bytes.
    pub size: u32,
    /// Sessions that took turns (`fix`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u32>,
    /// The order of messages: `closed` (one is sent after the answer to the one before it), `paced` (the same, but not before it is
    /// due), `open` (when it is due, whatever has become of those before); none in files of older builds, and of streams.
    #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
    pub loop_kind: Option<String>,
    /// Messages per second asked for.
    pub rate_offered: Option<f64>,
    /// Messages per second that arrived; of `open-loop`, that were answered.
    pub rate_achieved: Option<f64>,
    /// `ns`.
    pub unit: String,
    /// `rtt`, `half_rtt`, `one_way`, or at full speed `per_message` and `per_connection`: time for each, its mean the
    /// inverse of `rate_achieved`. Of FIX: `rtt_fill` (order to second report), `rtt_ack` (order to first report),
    /// `rtt_heartbeat` (test request to heartbeat). Of `tick`: `tick_to_trade` (from when a tick was due to the first byte of its order).
    pub measure: String,
    /// The distribution.
    #[serde(flatten)]
    pub distribution: Distribution,
    /// Messages that never came back or never arrived.
    pub lost: u64,
    /// Detail of a rate sweep, of a paced slice or of a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateDetail>,
    /// The warm-up.
    #[serde(default)]
    pub warmup: Warmup,
    /// Disturbances while this row was measured.
    #[serde(default)]
    pub noise: Noise,
    /// The row cut into its slices, in time order, each on a connection of its own.
    #[serde(default)]
    pub blocks: Vec<Block>,
    /// The modes of the slices' medians, the lowest first; empty where they have one alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<Mode>,
    /// Congestion control of the sender, of a stream over TCP; none elsewhere, and in files of older builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// CPU time of the threads at both ends; none where it was not counted, and in files of older builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuTime>,
    /// What the host did during the slowest samples; none unless it was asked for (`--causes`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causes: Option<Box<Causes>>,
    /// The stages of its round trips; none unless they were asked for (`--timestamps`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<Box<Stages>>,
    /// Detail of tick to trade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick: Option<Box<TickDetail>>,
    /// Remarks on this row.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// CPU time, user and system, of the thread that carries the messages, for each of them. Work of the kernel on other CPUs
/// (softirqs, SQPOLL and other kernel threads) and of other threads of the program is not in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuTime {
    /// Of the measuring end in the counted time, nanoseconds for each round trip, connection, or message sent or received.
    pub per_message_ns: f64,
    /// Of the peer in whole slices, settling included, nanoseconds for each message that it handled.
    #[serde(default)]
    pub peer_per_message_ns: Option<f64>,
}

/// The warm-up: messages before counting began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Warmup {
    /// Messages exchanged and not counted.
    pub messages: u64,
    /// Time it took, milliseconds.
    pub ms: f64,
    /// Set if the median had settled when counting began.
    pub steady: bool,
}

/// One slice of a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Samples.
    pub n: u64,
    /// Median.
    pub p50: f64,
    /// 99th percentile of the slice; indicative, the slice alone rarely has 100 samples beyond it.
    pub p99: f64,
    /// Mean.
    pub mean: f64,
    /// Messages of it that were lost; none in files of older builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// CPU of the measuring end when the slice ended; none where the other end's is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// CPU of the peer then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_cpu: Option<u32>,
}

/// One path against another, in one interleaved run. With `of == against` it is the control: the path against itself,
/// whose interval is the noise floor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Scenario of both.
    #[serde(default)]
    pub scenario: String,
    /// Transport of both.
    #[serde(default)]
    pub transport: String,
    /// Size of both.
    #[serde(default)]
    pub size: u32,
    /// The path in the numerator.
    pub of: String,
    /// The path in the denominator.
    pub against: String,
    /// `p50`, `p99`, `p99.9` or `mean`.
    pub stat: String,
    /// The ratio.
    pub value: f64,
    /// Its 95 % interval, put together from those of both.
    pub ci95: [f64; 2],
    /// Measure of both, where a path has rows of several (`ring`, `ring-source`, `fix`); else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub measure: String,
    /// Messages per second asked of both, where they were paced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_offered: Option<f64>,
    /// Sessions of both (`fix`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u32>,
}

/// A requested measurement that this host or device cannot make, with the reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unavailable {
    /// Scenario.
    pub scenario: String,
    /// Transport.
    pub transport: String,
    /// Path.
    pub path: String,
    /// The rung of the ladder, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rung: Option<String>,
    /// The reason.
    pub reason: String,
}

/// The description of a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathInfo {
    /// Its name.
    pub name: String,
    /// Its description, in one or two sentences.
    pub description: String,
    /// Waiting of a receive: `block`, `busy_poll`, `epoll` or `spin`; none in files of older builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
}
