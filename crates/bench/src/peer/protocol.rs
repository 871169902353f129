//! Messages between the measuring end and its peer: one JSON object each, after its length as u32 little-endian.

pub use crate::bypass::Told;
pub use crate::cpu_time::Spent;
use crate::service_time::ServiceTime;
use crate::tick::play::Plan;
use crate::tick::{OrderForm, Work};
use crate::transport::Transport;
use serde::{Deserialize, Serialize};
use sidestep_report::schema::Host;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

/// Protocol version. It changes whenever a message changes its meaning; ends of different versions refuse each other.
pub const PROTOCOL: u32 = 6;
/// First word of the first message, which tells other connections apart at once.
pub const MAGIC: &str = "sidestep-bench";
/// The longest message that either end accepts: many times the facts about a host.
pub(crate) const MESSAGE_MAX_BYTES: u32 = 64 << 10;

/// A message from the measuring end.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// The first message.
    Hello {
        /// [`MAGIC`].
        magic: String,
        /// [`PROTOCOL`].
        protocol: u32,
        /// Version of the program.
        version: String,
        /// The boot of its kernel (`/proc/sys/kernel/random/boot_id`), by which the peer knows whether it shares its CPUs.
        #[serde(default)]
        boot_id: String,
    },
    /// Answer every message, for one slice.
    Echo(Echo),
    /// Count messages and reflect some of them, for one slice.
    Sink(Sink),
    /// Receive or send a stream, for one slice.
    Bulk(Bulk),
    /// Answer one message per connection, for one slice.
    Accept(Accept),
    /// Trade on a feed, for one slice.
    Trade(Trade),
    /// Start an acceptor of FIX, stopped; the first one of a session has number 0.
    Acceptor(Acceptor),
    /// Continue an acceptor, and stop the others.
    Awake {
        /// Its number.
        number: u32,
    },
    /// Count the frames that an acceptor has received past the kernel since it was continued.
    Frames {
        /// Its number.
        number: u32,
    },
}

impl Request {
    /// The path of a slice and the CPU asked for.
    pub(super) fn place(&self) -> Option<(&str, Option<u32>)> {
        match self {
            Self::Hello { .. } | Self::Acceptor(_) | Self::Awake { .. } | Self::Frames { .. } => None,
            Self::Echo(Echo { path, cpu, .. })
            | Self::Sink(Sink { path, cpu, .. })
            | Self::Bulk(Bulk { path, cpu, .. })
            | Self::Trade(Trade { path, cpu, .. })
            | Self::Accept(Accept { path, cpu, .. }) => Some((path, *cpu)),
        }
    }
}

/// An acceptor of FIX, which lives as long as the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acceptor {
    /// Set if it listens past the kernel.
    pub past_kernel: bool,
    /// Set if it speaks TLS.
    pub tls: bool,
    /// Set for the bare acceptor, which has no store.
    pub bare: bool,
    /// Its store: `none`, `page-cache`, `group-commit`.
    pub store: String,
    /// Set if it spins.
    pub spin: bool,
    /// CPU to pin to.
    pub cpu: Option<u32>,
}

/// One slice of a stream over TCP.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bulk {
    /// The path, which determines the peer's waiting.
    pub path: String,
    /// Bytes per write.
    pub size: u32,
    /// CPU to pin to, if the path pins.
    pub cpu: Option<u32>,
    /// Time to send, nanoseconds; receive if there is none.
    pub send_for_ns: Option<u64>,
    /// Congestion control; the one of the host, or of our stack, if none is given.
    pub congestion: Option<String>,
}

/// One slice of connections. The peer ends each after its answer; a message that says it is the last ends the slice.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Accept {
    /// The path, which determines the peer's waiting.
    pub path: String,
    /// Message size, bytes.
    pub size: u32,
    /// CPU to pin to, if the path pins.
    pub cpu: Option<u32>,
}

/// One slice of request and response.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Echo {
    /// TCP, UDP, Unix stream or shared memory.
    pub transport: Transport,
    /// The path, which determines the peer's waiting.
    pub path: String,
    /// Message size, bytes.
    pub size: u32,
    /// CPU to pin to, if the path pins.
    pub cpu: Option<u32>,
    /// The measuring end's UDP port.
    pub port: u16,
    /// Work before the answers.
    #[serde(flatten)]
    pub service: ServiceTime,
    /// Set if messages come before earlier ones are answered: frames for a stream of them.
    pub pipelined: bool,
}

/// One slice of a rate sweep.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sink {
    /// The path, which determines the peer's waiting.
    pub path: String,
    /// Message size, bytes.
    pub size: u32,
    /// CPU to pin to, if the path pins.
    pub cpu: Option<u32>,
    /// The measuring end's UDP port, where reflected messages go.
    pub port: u16,
    /// Group to join; none for unicast.
    pub group: Option<Ipv4Addr>,
    /// One message in this many is sent back.
    pub reflect_every: u64,
    /// The most messages that one call receives.
    pub batch: u32,
}

/// One slice of trading: the peer joins the groups, connects to the measuring end, and logs on. MoldUDP64's end of session ends it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trade {
    /// The path, which determines the peer's waiting.
    pub path: String,
    /// CPU to pin to.
    pub cpu: Option<u32>,
    /// The measuring end's TCP port, for orders.
    pub port: u16,
    /// Group of line A; those of the other lines follow it.
    pub group: Ipv4Addr,
    /// Lines.
    pub lines: u8,
    /// The work between a tick and its order.
    pub work: Work,
    /// The form of orders.
    pub form: OrderForm,
    /// The messages.
    pub plan: Plan,
}

/// The most bytes of a batch that one call receives: a stranger's request costs no more memory, twice.
pub const BATCH_BYTES_MAX: u32 = 1 << 20;

/// A message from the peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// To [`Request::Hello`].
    Hello {
        /// The peer's [`PROTOCOL`].
        protocol: u32,
        /// Its version.
        version: String,
        /// Facts about its host.
        host: Box<Host>,
        /// MTU of its interface; none if it is unknown.
        mtu: Option<u32>,
        /// Set if the measuring end runs under the same kernel: its CPUs are the peer's.
        #[serde(default)]
        same_machine: bool,
        /// CPU of pinned paths, unless the measuring end may choose another.
        #[serde(default)]
        cpu: Option<u32>,
        /// What the peer may do past the kernel.
        #[serde(default)]
        past_kernel: Told,
    },
    /// The slice may begin.
    Ready(Ready),
    /// The slice is over.
    Done(Done),
    /// The peer refuses, or fails.
    Refused {
        /// Thing and reason.
        reason: String,
        /// The next step.
        next: String,
    },
}

/// The destination of the messages of a slice.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Ready {
    /// TCP or UDP port on the host that was asked.
    pub port: u16,
    /// Path of a Unix socket, measured itself or used to pass shared memory.
    pub unix: Option<String>,
    /// The group joined.
    pub group: Option<SocketAddrV4>,
    /// The groups joined for the lines of a feed.
    #[serde(default)]
    pub groups: Vec<SocketAddrV4>,
    /// Receive buffer that the kernel granted, bytes.
    pub receive_buffer: usize,
    /// The peer's way past the kernel: mode, queues, interface, control plane.
    pub note: Option<String>,
}

/// The peer's counts of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Messages received, duplicates not counted.
    pub received: u64,
    /// Runs of missing sequence numbers.
    pub gaps: u64,
    /// Messages that came again.
    pub duplicates: u64,
    /// Messages that came after a later one.
    pub reordered: u64,
    /// Involuntary context switches of the peer's thread.
    pub involuntary_switches: u64,
    /// Set if the kernel named the NAPI instance of the messages: without one SO_BUSY_POLL polls nothing.
    pub napi: bool,
    /// CPU time of the peer's thread in the slice.
    pub cpu: Spent,
    /// Congestion control of a stream's end here.
    pub congestion: Option<String>,
    /// Of a slice of trading: what became of the feed.
    #[serde(default)]
    pub feed: Option<FeedCounts>,
}

/// What became of the feed at the trader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedCounts {
    /// Of each line.
    pub lines: Vec<LineCounts>,
    /// Messages delivered by the arbiter, in sequence; 0 where there was none.
    pub delivered: u64,
    /// Of these, messages that one line lacked and another one had.
    pub recovered: u64,
    /// Messages that no line brought.
    pub never: u64,
    /// Datagrams that the host has dropped, as far as it tells.
    pub dropped: u64,
}

/// Counts of a line, messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineCounts {
    /// That came, copies included.
    pub received: u64,
    /// That came by this line first.
    pub first: u64,
    /// That came by another line before.
    pub duplicates: u64,
    /// That did not come by this line.
    pub lost: u64,
}

impl FeedCounts {
    fn all(&self) -> impl Iterator<Item = u64> {
        let of_lines = |line: &LineCounts| [line.received, line.first, line.duplicates, line.lost];
        let whole = [self.delivered, self.recovered, self.never, self.dropped];
        self.lines.iter().flat_map(of_lines).chain(whole).collect::<Vec<_>>().into_iter()
    }
}

impl Done {
    /// Returns whether a host can have counted this in that time: at most one event in a nanosecond, and the CPU time of a few threads.
    pub(super) fn is_possible_within(&self, time: Duration) -> bool {
        let room = u64::try_from((time + COUNT_SLACK).as_nanos()).unwrap_or(u64::MAX);
        let counts =
            [self.received, self.gaps, self.duplicates, self.reordered, self.involuntary_switches, self.cpu.messages];
        let feed = self.feed.iter().flat_map(FeedCounts::all);
        counts.into_iter().chain(feed).all(|count| count <= room) && self.cpu.ns <= room.saturating_mul(THREADS_MAX)
    }
}

/// CPU time is counted in ticks on some kernels.
const COUNT_SLACK: Duration = Duration::from_millis(100);
/// Threads of a peer that answers.
const THREADS_MAX: u64 = 4;
