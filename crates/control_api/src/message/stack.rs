//! The request for a stack, and its result: the facts of `sidestep_sys::xdp` in serialised form.

use super::queues::{Missing, QueueFacts, Queues, bounded};
use serde::{Deserialize, Serialize};
use sidestep_sys::xdp;
use std::fmt;

/// The number of queues up to which the packet memory grows. Further queues share it: the kernel keeps some 150 bytes
/// per frame and queue.
const SHARES_MAX: u32 = 8;

/// The most downgrades reported: the queues of one device nearly always have the same.
const DOWNGRADES_MAX: usize = 4;

/// Bytes that the kernel keeps for each frame and queue (`struct xdp_buff_xsk` and the pointer to it).
const KERNEL_BYTES_PER_FRAME: u64 = 160;

/// The mode in which frames pass between device and packet memory, fastest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The driver's own zero-copy mode.
    #[default]
    ZeroCopy,
    /// Native XDP with one copy.
    Copy,
    /// The kernel's generic XDP, for drivers without native XDP: slower than the others.
    Generic,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ZeroCopy => "zero-copy",
            Self::Copy => "copy",
            Self::Generic => "generic",
        })
    }
}

/// A downgrade from the requested mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Downgrade {
    /// The mode that failed.
    pub from: Mode,
    /// The mode in use.
    pub to: Mode,
    /// The reason.
    pub reason: String,
}

/// Entries of the rings of an AF_XDP socket: powers of two, needed to map the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingSizes {
    /// Frames for the kernel to fill.
    pub fill: u32,
    /// Frames that the kernel has sent.
    pub completion: u32,
    /// Frames received.
    pub receive: u32,
    /// Frames to send.
    pub transmit: u32,
}

/// Busy polling of the device queue by the application's own system calls, if the device supports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusyPoll {
    /// SO_BUSY_POLL, microseconds.
    pub microseconds: u32,
    /// SO_BUSY_POLL_BUDGET, frames per call.
    pub budget: u32,
}

/// The request for a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenStack {
    /// Name of the interface, or its index.
    pub interface: String,
    /// Its queues.
    #[serde(default)]
    pub queues: Queues,
    /// Frames for each queue. The queues share one packet memory, with frames for eight queues at the most.
    pub frames: u32,
    /// The size of a frame, bytes: 2048 or 4096.
    pub frame_bytes: u32,
    /// Bytes to reserve in front of each received frame.
    #[serde(default)]
    pub headroom: u32,
    /// Entries of each ring: a power of two.
    pub ring_entries: u32,
    /// The best mode wanted.
    #[serde(default)]
    pub mode: Mode,
    /// Frames that one kick may send in copy mode (Linux 6.17; ignored before).
    #[serde(default)]
    pub tx_budget: Option<u32>,
    /// Busy polling of the device by the application's calls.
    #[serde(default)]
    pub busy_poll: Option<BusyPoll>,
    /// True if the application accepts frames in several buffers: at an MTU beyond the size of a frame.
    #[serde(default)]
    pub multi_buffer: bool,
}

impl OpenStack {
    /// One free queue, 4096 frames of 2048 bytes (8 MiB), rings of 2048, the best available mode.
    pub fn on(interface: impl Into<String>) -> Self {
        Self {
            interface: interface.into(),
            queues: Queues::Any,
            frames: 4096,
            frame_bytes: 2048,
            headroom: 0,
            ring_entries: 2048,
            mode: Mode::ZeroCopy,
            tx_budget: None,
            busy_poll: None,
            multi_buffer: false,
        }
    }

    /// The memory of a stack with this many queues, bytes: the frames, and the kernel's part for each further queue.
    pub fn bytes(&self, queues: u32) -> u64 {
        let frames = u64::from(self.frames) * u64::from(queues.clamp(1, SHARES_MAX));
        let kernels = KERNEL_BYTES_PER_FRAME.saturating_mul(u64::from(queues.saturating_sub(1)));
        frames.saturating_mul(u64::from(self.frame_bytes)).saturating_add(frames.saturating_mul(kernels))
    }

    /// The layout of the packet memory of a stack with this many queues.
    pub fn geometry(&self, queues: u32) -> xdp::Geometry {
        let frames = self.frames.saturating_mul(queues.clamp(1, SHARES_MAX));
        xdp::Geometry { frames, frame_bytes: self.frame_bytes, headroom: self.headroom }
    }
}

/// Unbound sockets: the facts needed to map them and their frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// Frames of the packet memory.
    pub frames: u32,
    /// The size of a frame, bytes.
    pub frame_bytes: u32,
    /// Bytes reserved in front of each received frame.
    pub headroom: u32,
    /// Entries of the rings.
    pub rings: RingSizes,
    /// The number of sockets, one for each available queue. The first is sent with this, the others are to be fetched.
    pub sockets: u32,
}

impl Prepared {
    /// The layout of the packet memory.
    pub fn geometry(&self) -> xdp::Geometry {
        xdp::Geometry { frames: self.frames, frame_bytes: self.frame_bytes, headroom: self.headroom }
    }
}

/// The facts of an opened stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackFacts {
    /// Its number, for later requests.
    pub id: u32,
    /// Name of the interface.
    pub interface: String,
    /// Index of the interface.
    pub index: u32,
    /// Its queues, in the order of the received sockets, of which there may be more than available queues.
    pub queues: Vec<QueueFacts>,
    /// Queues that were requested and not available.
    pub missing: Vec<Missing>,
    /// Queues in use by the interface that are not this stack's: a port cannot be steered while packets may come by any
    /// of them.
    pub elsewhere: Vec<u32>,
    /// Frames of the packet memory.
    pub frames: u32,
    /// The size of a frame, bytes.
    pub frame_bytes: u32,
    /// Bytes reserved in front of each received frame.
    pub headroom: u32,
    /// The reason why the packet memory is not on huge pages; `None` if it is.
    pub no_huge_pages: Option<String>,
    /// Entries of the rings.
    pub rings: RingSizes,
    /// Its mode: of several queues, the slowest.
    pub mode: Mode,
    /// The downgrades to it, of any queue.
    pub downgrades: Vec<Downgrade>,
    /// Frames that one kick sends in copy mode.
    pub tx_budget: u32,
    /// Set if busy polling was requested and some queue can be polled.
    pub busy_poll: Option<BusyPoll>,
    /// True if a frame may lie in several buffers, in any queue: the application also gets frames longer than a buffer.
    #[serde(default)]
    pub multi_buffer: bool,
    /// The age of a heartbeat, nanoseconds, beyond which the kernel gets the packets (CLOCK_MONOTONIC, first word of
    /// the heartbeat map). The kernel also gets them before the first heartbeat.
    pub deadline_ns: u64,
}

impl StackFacts {
    /// The facts of one stack's bound sockets, to be sent; `None` if there are none.
    pub fn new(id: u32, sockets: &[xdp::XskFacts], deadline_ns: u64) -> Option<Self> {
        let first = sockets.first()?;
        let xdp::Geometry { frames, frame_bytes, headroom } = first.geometry;
        let queues = sockets.iter().map(|socket| QueueFacts {
            queue: socket.queue,
            mode: socket.mode.into(),
            napi_id: socket.napi_id,
        });
        let mut downgrades: Vec<Downgrade> = Vec::new();
        for downgrade in sockets.iter().flat_map(|socket| &socket.downgrades).map(Downgrade::from) {
            if !downgrades.contains(&downgrade) && downgrades.len() < DOWNGRADES_MAX {
                downgrades.push(downgrade);
            }
        }
        Some(Self {
            id,
            interface: first.interface.clone(),
            index: first.index,
            queues: queues.collect(),
            missing: Vec::new(),
            elsewhere: Vec::new(),
            frames,
            frame_bytes,
            headroom,
            no_huge_pages: match &first.pages {
                xdp::Pages::Huge => None,
                xdp::Pages::Small { reason } => Some(reason.clone()),
            },
            rings: first.rings.into(),
            mode: sockets.iter().map(|socket| socket.mode).max().unwrap_or(first.mode).into(),
            downgrades,
            tx_budget: first.tx_budget,
            busy_poll: sockets.iter().find_map(|socket| socket.busy_poll).map(BusyPoll::from),
            multi_buffer: sockets.iter().all(|socket| socket.multi_buffer),
            deadline_ns,
        })
    }

    /// Its memory, bytes, counted as in [`OpenStack::bytes`].
    pub fn bytes(&self) -> u64 {
        let further = (self.queues.len() as u64).saturating_sub(1);
        u64::from(self.frames) * (u64::from(self.frame_bytes) + KERNEL_BYTES_PER_FRAME * further)
    }

    /// The facts of each socket for the maker of frame links, beside socket and packet memory.
    pub fn socket_facts(&self) -> impl Iterator<Item = xdp::XskFacts> {
        self.queues.iter().map(|queue| self.facts_of(queue))
    }

    fn facts_of(&self, of: &QueueFacts) -> xdp::XskFacts {
        let (frames, frame_bytes, headroom) = (self.frames, self.frame_bytes, self.headroom);
        let steps = self.downgrades.iter().map(xdp::Downgrade::from);
        let mode = xdp::Mode::from(of.mode);
        xdp::XskFacts {
            interface: self.interface.clone(),
            index: self.index,
            queue: of.queue,
            mode,
            // The mode of this queue, not of a slower one.
            downgrades: steps.filter(|step| step.to <= mode).collect(),
            rings: self.rings.into(),
            geometry: xdp::Geometry { frames, frame_bytes, headroom },
            pages: match &self.no_huge_pages {
                None => xdp::Pages::Huge,
                Some(reason) => xdp::Pages::Small { reason: reason.clone() },
            },
            tx_budget: self.tx_budget,
            napi_id: of.napi_id,
            // Without a NAPI instance there is nothing to poll.
            busy_poll: self.busy_poll.filter(|_| of.napi_id != 0).map(xdp::BusyPoll::from),
            multi_buffer: self.multi_buffer,
        }
    }
}

impl From<xdp::RingSizes> for RingSizes {
    fn from(xdp::RingSizes { fill, completion, rx, tx }: xdp::RingSizes) -> Self {
        Self { fill, completion, receive: rx, transmit: tx }
    }
}

impl From<RingSizes> for xdp::RingSizes {
    fn from(RingSizes { fill, completion, receive, transmit }: RingSizes) -> Self {
        Self { fill, completion, rx: receive, tx: transmit }
    }
}

impl From<xdp::Mode> for Mode {
    fn from(mode: xdp::Mode) -> Self {
        match mode {
            xdp::Mode::ZeroCopy => Self::ZeroCopy,
            xdp::Mode::Copy => Self::Copy,
            xdp::Mode::Generic => Self::Generic,
        }
    }
}

impl From<Mode> for xdp::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::ZeroCopy => Self::ZeroCopy,
            Mode::Copy => Self::Copy,
            Mode::Generic => Self::Generic,
        }
    }
}

impl From<&xdp::Downgrade> for Downgrade {
    fn from(step: &xdp::Downgrade) -> Self {
        Self { from: step.from.into(), to: step.to.into(), reason: bounded(&step.reason).to_owned() }
    }
}

impl From<&Downgrade> for xdp::Downgrade {
    fn from(step: &Downgrade) -> Self {
        Self { from: step.from.into(), to: step.to.into(), reason: step.reason.clone() }
    }
}

impl From<xdp::BusyPoll> for BusyPoll {
    fn from(poll: xdp::BusyPoll) -> Self {
        Self { microseconds: poll.microseconds, budget: poll.budget }
    }
}

impl From<BusyPoll> for xdp::BusyPoll {
    fn from(poll: BusyPoll) -> Self {
        Self { microseconds: poll.microseconds, budget: poll.budget }
    }
}

#[cfg(test)]
mod tests {
    use super::super::queues::{ELSEWHERE_MAX, QUEUES_MAX, miss};
    use super::super::{Numbered, PACKET_BYTES_MAX, Reply};
    use super::*;

    fn bound(queue: u32) -> xdp::XskFacts {
        xdp::XskFacts {
            interface: "eth1".into(),
            index: 7,
            queue,
            mode: xdp::Mode::ZeroCopy,
            downgrades: Vec::new(),
            rings: xdp::RingSizes { fill: 1, completion: 2, rx: 4, tx: 8 },
            geometry: xdp::Geometry { frames: 4096, frame_bytes: 2048, headroom: 64 },
            pages: xdp::Pages::Small { reason: "none reserved".into() },
            tx_budget: 32,
            napi_id: 9,
            busy_poll: Some(xdp::BusyPoll::default()),
            multi_buffer: true,
        }
    }

    #[test]
    fn the_facts_of_a_socket_survive_the_journey() {
        let step = xdp::Downgrade { from: xdp::Mode::ZeroCopy, to: xdp::Mode::Copy, reason: "EOPNOTSUPP".into() };
        let facts = xdp::XskFacts { mode: xdp::Mode::Copy, downgrades: vec![step], ..bound(3) };
        let second = xdp::XskFacts { queue: 1, napi_id: 8, ..facts.clone() };
        let told = StackFacts::new(1, &[facts.clone(), second.clone()], 5).unwrap();
        let text = serde_json::to_string(&told).unwrap();
        let back: StackFacts = serde_json::from_str(&text).unwrap();
        assert_eq!(back.socket_facts().collect::<Vec<_>>(), [facts, second]);
        assert_eq!((back.id, back.deadline_ns, back.downgrades.len()), (1, 5, 1));
        assert_eq!(StackFacts::new(1, &[], 5), None);
    }

    /// Some queues in zero-copy mode, some not, some with a NAPI instance.
    #[test]
    fn each_queue_has_a_mode_of_its_own_and_the_stack_the_slowest() {
        let fast = bound(0);
        let step = xdp::Downgrade { from: xdp::Mode::ZeroCopy, to: xdp::Mode::Copy, reason: "EOPNOTSUPP".into() };
        let slow =
            xdp::XskFacts { mode: xdp::Mode::Copy, downgrades: vec![step], napi_id: 0, busy_poll: None, ..bound(1) };
        let told = StackFacts::new(1, &[fast.clone(), slow.clone()], 5).unwrap();
        assert_eq!(told.mode, Mode::Copy);
        assert_eq!(told.queues.iter().map(|queue| queue.mode).collect::<Vec<_>>(), [Mode::ZeroCopy, Mode::Copy]);
        assert_eq!(told.socket_facts().collect::<Vec<_>>(), [fast, slow]);
    }

    #[test]
    fn the_facts_of_as_many_queues_as_there_may_be_fit_a_packet() {
        let reason = |number: u32| format!("{number}{}", "x".repeat(2000));
        let socket = |queue| {
            let step = xdp::Downgrade { from: xdp::Mode::ZeroCopy, to: xdp::Mode::Copy, reason: reason(queue) };
            xdp::XskFacts { downgrades: vec![step], napi_id: u32::MAX, interface: "x".repeat(15), ..bound(queue) }
        };
        let sockets: Vec<_> = (0..QUEUES_MAX).map(socket).collect();
        let mut told = StackFacts::new(u32::MAX, &sockets, u64::MAX).unwrap();
        for queue in 0..QUEUES_MAX {
            miss(&mut told.missing, queue, &reason(queue));
        }
        told.elsewhere = (1000..1000 + ELSEWHERE_MAX as u32).collect();
        let reply = Numbered { number: u32::MAX, body: Reply::Stack(told) };
        let bytes = serde_json::to_vec(&reply).unwrap().len();
        assert!(bytes <= PACKET_BYTES_MAX, "{bytes} bytes");
    }

    #[test]
    fn memory_grows_with_the_queues_up_to_a_limit() {
        let wish = OpenStack::on("eth1");
        assert_eq!((wish.geometry(1).frames, wish.bytes(1)), (4096, 8 << 20));
        assert_eq!(wish.geometry(4).frames, 4 * 4096);
        assert_eq!(wish.geometry(QUEUES_MAX).frames, 8 * 4096);
        assert!(wish.bytes(QUEUES_MAX) > wish.bytes(8), "the kernel's part grows on");
        let huge = OpenStack { frames: u32::MAX, ..wish };
        assert_eq!(huge.geometry(8).frames, u32::MAX, "to be refused, and not another number");
    }
}
