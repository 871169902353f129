//! The tokens of frames. They can be neither copied nor made outside: the owner of a token owns the frame.

use std::fmt;

/// A received frame. It must be released, or answered and sent.
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

    /// The time of arrival, ns, on the device's clock or a simulation's virtual one.
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

/// A frame that could not be handed over, with the reason.
#[derive(Debug, PartialEq, Eq)]
pub struct Unsent {
    /// The frame, still the caller's.
    pub frame: Outgoing,
    /// The reason.
    pub reason: Reason,
}

/// The reason why a frame could not be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The queue to the device is full.
    Full,
    /// The length is below an Ethernet header, or beyond the frame's memory.
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
