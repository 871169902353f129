//! Facts about a frame link, and its counters.

use super::accounting::Tally;
use sidestep_sys::xdp::XskFacts;

/// Facts about a frame link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameFacts {
    /// "queue 0 of eth0" or "queues 0-3 of eth0", for messages.
    pub place: String,
    /// The number of frames.
    pub frames: u32,
    /// The size of each, bytes.
    pub frame_bytes: u32,
    /// The longest frame that can be received, bytes.
    pub receive_bytes_max: u32,
    /// The longest frame that can be sent from a fresh frame, bytes. For an answer it is less the space in front of the
    /// received bytes.
    pub send_bytes_max: u32,
    /// The sender of frames that were handed over.
    pub sender: Sender,
    /// The AF_XDP sockets, one for each queue: interface, mode and why not a better one, pages, NAPI. The last one
    /// sends. None for a simulated link.
    pub xsks: Vec<XskFacts>,
}

/// The thread that sends frames that were handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The calling thread, by a system call per flush.
    Caller,
    /// A second thread that never sleeps.
    SpinningThread,
    /// A second thread that sleeps when there is nothing to send.
    ParkingThread,
    /// A kernel thread (io_uring, IORING_SETUP_SQPOLL).
    Sqpoll,
    /// None: the other end is memory of this process.
    Memory,
}

impl Sender {
    /// The name in messages and results.
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

/// The counters of a frame link since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames received.
    pub received: u64,
    /// Frames handed over for sending.
    pub sent: u64,
    /// Failed hand-overs because the queue was full.
    pub full: u64,
    /// System calls made by the owner's thread: kicks, and wake-ups of the sender.
    pub calls: u64,
    /// Impossible events that were ignored: a frame returned that was not lent, an index that contradicts its ring, a
    /// token of another link.
    pub faults: u64,
    /// Frames of several buffers that were dropped: no long frame was free, or a part was invalid.
    pub long_dropped: u64,
    /// The state of the frames, long ones included.
    pub tally: Tally,
}
