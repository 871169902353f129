//! What is known of a frame link, and what it counts.

use super::accounting::Tally;
use sidestep_sys::xdp::XskFacts;

/// What a frame link is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameFacts {
    /// "queue 0 of eth0" or "queues 0-3 of eth0", for messages.
    pub place: String,
    /// Frames it has in all.
    pub frames: u32,
    /// Memory of each, bytes.
    pub frame_bytes: u32,
    /// The longest that can come, bytes.
    pub receive_bytes_max: u32,
    /// The longest that can be sent from a fresh frame, bytes. An answered one has what was before it less.
    pub send_bytes_max: u32,
    /// Who makes sent frames leave.
    pub sender: Sender,
    /// The AF_XDP sockets beneath, one for each queue: interface, mode and why not a better one, pages, NAPI. Sent is by the
    /// last. None for a simulated link.
    pub xsks: Vec<XskFacts>,
}

/// Who makes sent frames leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The calling thread, by a system call per flush.
    Caller,
    /// A thread beside it that never sleeps.
    SpinningThread,
    /// A thread beside it that sleeps when there is nothing to send.
    ParkingThread,
    /// A thread of the kernel's (io_uring, IORING_SETUP_SQPOLL).
    Sqpoll,
    /// Nobody: the other end is memory of this process.
    Memory,
}

impl Sender {
    /// The word for it in messages and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::SpinningThread => "spinning thread",
            Self::ParkingThread => "parking thread",
            Self::Sqpoll => "sqpoll",
            Self::Memory => "memory",
        }
    }
}

/// What has happened on a frame link since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames received.
    pub received: u64,
    /// Frames handed over for sending.
    pub sent: u64,
    /// Times a frame could not be handed over because the queue was full.
    pub full: u64,
    /// System calls made by the owner's thread: kicks, and wake-ups of the sender.
    pub calls: u64,
    /// Things that cannot be and were ignored: a frame given back that was not lent, an index that contradicts its ring,
    /// a token of another link.
    pub faults: u64,
    /// Frames of several buffers that were dropped: none for long ones was free, or a part could not be.
    pub long_dropped: u64,
    /// Where the frames are, long ones among them.
    pub tally: Tally,
}
