//! What the measuring end says to its peer and hears back: one JSON object each, after its length as u32 little-endian.

use crate::transport::Transport;
use serde::{Deserialize, Serialize};
use sidestep_report::schema::Host;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Changes whenever a message here changes its meaning; ends of different versions refuse each other.
pub const PROTOCOL: u32 = 3;
/// First word of the first message, so that a stranger's connection is told apart at once.
pub const MAGIC: &str = "sidestep-bench";
/// The longest message either end accepts: the facts about a host fit many times.
pub(crate) const MESSAGE_MAX_BYTES: u32 = 64 << 10;

/// From the measuring end.
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
    },
    /// Answer every message, for one slice.
    Echo(Echo),
    /// Count what comes and reflect some of it, for one slice.
    Sink(Sink),
    /// Take or give a stream, for one slice.
    Bulk(Bulk),
    /// Answer one message per connection, for one slice.
    Accept(Accept),
}

impl Request {
    /// The path of a slice and the CPU asked for.
    pub(super) fn place(&self) -> Option<(&str, Option<u32>)> {
        match self {
            Self::Hello { .. } => None,
            Self::Echo(Echo { path, cpu, .. })
            | Self::Sink(Sink { path, cpu, .. })
            | Self::Bulk(Bulk { path, cpu, .. })
            | Self::Accept(Accept { path, cpu, .. }) => Some((path, *cpu)),
        }
    }
}

/// One slice of a stream over TCP.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bulk {
    /// The path, which says how the peer waits.
    pub path: String,
    /// Bytes handed over at a time.
    pub size: u32,
    /// CPU to pin to, if the path pins.
    pub cpu: Option<u32>,
    /// Send for so long, nanoseconds; receive if there is none.
    pub send_for_ns: Option<u64>,
}

/// One slice of connections. The peer ends each after its answer; a message that says it is the last ends the slice.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Accept {
    /// The path, which says how the peer waits.
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
    /// The path, which says how the peer waits.
    pub path: String,
    /// Message size, bytes.
    pub size: u32,
    /// CPU to pin to, if the path pins.
    pub cpu: Option<u32>,
    /// The measuring end's UDP port.
    pub port: u16,
    /// Work done before each answer, nanoseconds.
    pub service_time_ns: u64,
    /// The measuring end's MAC address, for bare frames.
    pub mac: Option<[u8; 6]>,
}

/// One slice of a rate sweep.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sink {
    /// The path, which says how the peer waits.
    pub path: String,
    /// Message size, bytes.
    pub size: u32,
    /// CPU to pin to, if the path pins.
    pub cpu: Option<u32>,
    /// The measuring end's UDP port, where reflected messages go.
    pub port: u16,
    /// Group to join; none for unicast.
    pub group: Option<Ipv4Addr>,
    /// Every so-manieth message is sent back.
    pub reflect_every: u64,
}

/// From the peer.
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
        /// The longest IP packet that its interface takes; none where that is not known.
        mtu: Option<u32>,
    },
    /// The slice may begin.
    Ready(Ready),
    /// The slice is over.
    Done(Done),
    /// It will not or cannot.
    Refused {
        /// Thing and reason.
        reason: String,
        /// What to do about it.
        next: String,
    },
}

/// Where the messages of a slice go.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Ready {
    /// TCP or UDP port on the host that was asked.
    pub port: u16,
    /// Path of a Unix socket: what is measured, or what shared memory is handed over through.
    pub unix: Option<String>,
    /// The group joined.
    pub group: Option<SocketAddrV4>,
    /// Receive buffer that the kernel granted, bytes.
    pub receive_buffer: usize,
    /// The peer's MAC address, for bare frames.
    pub mac: Option<[u8; 6]>,
}

/// What the peer saw of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Messages received, duplicates not counted.
    pub received: u64,
    /// Runs of missing sequence numbers.
    pub gaps: u64,
    /// Messages that came again.
    pub duplicates: u64,
    /// Messages that came after a later one.
    pub reordered: u64,
    /// Times the peer's thread was put aside for another.
    pub involuntary_switches: u64,
    /// Whether the kernel said which NAPI instance the messages came through: without one SO_BUSY_POLL polls nothing.
    pub napi: bool,
}
