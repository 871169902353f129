//! What a stack is to be, and what it became: the facts of `sidestep_sys::xdp` in a form that travels.

use serde::{Deserialize, Serialize};
use sidestep_sys::xdp;

/// How frames move between the device and the packet memory, fastest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The driver's own zero-copy mode.
    #[default]
    ZeroCopy,
    /// Native XDP with one copy.
    Copy,
    /// The kernel's generic XDP, for drivers without any: slower than the others.
    Generic,
}

/// A step down from the mode asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Downgrade {
    /// What did not work.
    pub from: Mode,
    /// What was taken instead.
    pub to: Mode,
    /// Why.
    pub reason: String,
}

/// Entries of the rings of an AF_XDP socket: powers of two. Whoever maps the rings has to know them.
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

/// The device queue is polled by the application's own system calls, where the device can be polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusyPoll {
    /// SO_BUSY_POLL, microseconds.
    pub microseconds: u32,
    /// SO_BUSY_POLL_BUDGET, frames per call.
    pub budget: u32,
}

/// What a stack is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenStack {
    /// Name of the interface, or its number.
    pub interface: String,
    /// The queue; `None` for any that is free.
    #[serde(default)]
    pub queue: Option<u32>,
    /// Frames of the packet memory.
    pub frames: u32,
    /// Bytes of a frame: 2048 or 4096.
    pub frame_bytes: u32,
    /// Bytes to keep free before each received frame.
    #[serde(default)]
    pub headroom: u32,
    /// Entries of each ring: a power of two.
    pub ring_entries: u32,
    /// The best mode that is wanted.
    #[serde(default)]
    pub mode: Mode,
    /// Frames that one kick may send in copy mode (Linux 6.17; ignored before).
    #[serde(default)]
    pub tx_budget: Option<u32>,
    /// Poll the device by the application's calls.
    #[serde(default)]
    pub busy_poll: Option<BusyPoll>,
}

impl OpenStack {
    /// 4096 frames of 2048 bytes (8 MiB), rings of 2048, any queue, the best mode there is.
    pub fn on(interface: impl Into<String>) -> Self {
        Self {
            interface: interface.into(),
            queue: None,
            frames: 4096,
            frame_bytes: 2048,
            headroom: 0,
            ring_entries: 2048,
            mode: Mode::ZeroCopy,
            tx_budget: None,
            busy_poll: None,
        }
    }

    /// The packet memory asked for, bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.frames) * u64::from(self.frame_bytes)
    }

    /// How the packet memory is to lie.
    pub fn geometry(&self) -> xdp::Geometry {
        xdp::Geometry { frames: self.frames, frame_bytes: self.frame_bytes, headroom: self.headroom }
    }
}

/// A socket that is not bound yet: what has to be known to map it and its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// Frames of the packet memory.
    pub frames: u32,
    /// Bytes of a frame.
    pub frame_bytes: u32,
    /// Bytes kept free before each received frame.
    pub headroom: u32,
    /// Entries of the rings.
    pub rings: RingSizes,
}

impl Prepared {
    /// How the packet memory lies.
    pub fn geometry(&self) -> xdp::Geometry {
        xdp::Geometry { frames: self.frames, frame_bytes: self.frame_bytes, headroom: self.headroom }
    }
}

/// What was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackFacts {
    /// Its number, for later requests.
    pub id: u32,
    /// Name of the interface.
    pub interface: String,
    /// Number of the interface.
    pub index: u32,
    /// Its queue.
    pub queue: u32,
    /// Frames of the packet memory.
    pub frames: u32,
    /// Bytes of a frame.
    pub frame_bytes: u32,
    /// Bytes kept free before each received frame.
    pub headroom: u32,
    /// Why the packet memory does not lie on huge pages; `None` where it does.
    pub no_huge_pages: Option<String>,
    /// Entries of the rings.
    pub rings: RingSizes,
    /// The mode that it got.
    pub mode: Mode,
    /// The steps down to it.
    pub downgrades: Vec<Downgrade>,
    /// Frames that one kick sends in copy mode.
    pub tx_budget: u32,
    /// The NAPI instance of the queue; 0 where the device has none to poll.
    pub napi_id: u32,
    /// Set where busy polling was asked for and the device can be polled.
    pub busy_poll: Option<BusyPoll>,
    /// After so many nanoseconds without a heartbeat (CLOCK_MONOTONIC, first word of the heartbeat map) the kernel takes the
    /// packets. Before the first one it has them, too.
    pub deadline_ns: u64,
}

impl StackFacts {
    /// The facts of a bound socket, to be sent.
    pub fn new(id: u32, socket: &xdp::XskFacts, deadline_ns: u64) -> Self {
        let xdp::Geometry { frames, frame_bytes, headroom } = socket.geometry;
        Self {
            id,
            interface: socket.interface.clone(),
            index: socket.index,
            queue: socket.queue,
            frames,
            frame_bytes,
            headroom,
            no_huge_pages: match &socket.pages {
                xdp::Pages::Huge => None,
                xdp::Pages::Small { reason } => Some(reason.clone()),
            },
            rings: socket.rings.into(),
            mode: socket.mode.into(),
            downgrades: socket.downgrades.iter().map(Downgrade::from).collect(),
            tx_budget: socket.tx_budget,
            napi_id: socket.napi_id,
            busy_poll: socket.busy_poll.map(|poll| BusyPoll { microseconds: poll.microseconds, budget: poll.budget }),
            deadline_ns,
        }
    }

    /// The facts as the maker of frame links wants them, beside socket and packet memory.
    pub fn socket_facts(&self) -> xdp::XskFacts {
        let (frames, frame_bytes, headroom) = (self.frames, self.frame_bytes, self.headroom);
        xdp::XskFacts {
            interface: self.interface.clone(),
            index: self.index,
            queue: self.queue,
            mode: self.mode.into(),
            downgrades: self.downgrades.iter().map(xdp::Downgrade::from).collect(),
            rings: self.rings.into(),
            geometry: xdp::Geometry { frames, frame_bytes, headroom },
            pages: match &self.no_huge_pages {
                None => xdp::Pages::Huge,
                Some(reason) => xdp::Pages::Small { reason: reason.clone() },
            },
            tx_budget: self.tx_budget,
            napi_id: self.napi_id,
            busy_poll: self.busy_poll.map(xdp::BusyPoll::from),
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
        Self { from: step.from.into(), to: step.to.into(), reason: step.reason.clone() }
    }
}

impl From<&Downgrade> for xdp::Downgrade {
    fn from(step: &Downgrade) -> Self {
        Self { from: step.from.into(), to: step.to.into(), reason: step.reason.clone() }
    }
}

impl From<BusyPoll> for xdp::BusyPoll {
    fn from(poll: BusyPoll) -> Self {
        Self { microseconds: poll.microseconds, budget: poll.budget }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facts_of_a_socket_survive_the_journey() {
        let facts = xdp::XskFacts {
            interface: "eth1".into(),
            index: 7,
            queue: 3,
            mode: xdp::Mode::Copy,
            downgrades: vec![xdp::Downgrade {
                from: xdp::Mode::ZeroCopy,
                to: xdp::Mode::Copy,
                reason: "EOPNOTSUPP".into(),
            }],
            rings: xdp::RingSizes { fill: 1, completion: 2, rx: 4, tx: 8 },
            geometry: xdp::Geometry { frames: 4096, frame_bytes: 2048, headroom: 64 },
            pages: xdp::Pages::Small { reason: "none reserved".into() },
            tx_budget: 32,
            napi_id: 9,
            busy_poll: Some(xdp::BusyPoll::default()),
        };
        let text = serde_json::to_string(&StackFacts::new(1, &facts, 5)).unwrap();
        let back: StackFacts = serde_json::from_str(&text).unwrap();
        assert_eq!(back.socket_facts(), facts);
        assert_eq!((back.id, back.deadline_ns), (1, 5));
    }
}
