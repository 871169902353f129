//! The tokens that stand for frames. They are neither copied nor made outside: who has one has the frame.

use std::fmt;

/// A frame that has come. It must be given back: released, or answered and sent.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a frame that is not given back is lost to its link"]
pub struct Received {
    pub(super) index: u32,
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) timestamp_ns: Option<u64>,
}

impl Received {
    /// Length, bytes.
    #[inline]
    #[allow(clippy::len_without_is_empty)] // No link delivers an empty frame.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// When it came, ns, on the clock of whoever stamped it: the device's, or the virtual one of a simulation.
    pub fn timestamp_ns(&self) -> Option<u64> {
        self.timestamp_ns
    }
}

/// A frame to be sent. It must be sent or discarded.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a frame that is neither sent nor discarded is lost to its link"]
pub struct Outgoing {
    pub(super) index: u32,
    pub(super) offset: u32,
}

/// A frame that could not be handed over, and why.
#[derive(Debug, PartialEq, Eq)]
pub struct Unsent {
    /// The frame, still the caller's.
    pub frame: Outgoing,
    /// Why.
    pub reason: Reason,
}

/// Why a frame could not be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The queue to the device is full.
    Full,
    /// Shorter than an Ethernet header, or longer than what the frame holds.
    Length,
}

impl fmt::Display for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.reason {
            Reason::Full => "the queue to the device is full",
            Reason::Length => "the frame is shorter than an Ethernet header or longer than its memory",
        })
    }
}

impl std::error::Error for Unsent {}
