//! What has happened to the frames of a wire.

use serde::{Deserialize, Serialize};

/// What has happened to the frames of one direction. At any time
/// `offered + duplicated = lost + queue_drops + delivered + in flight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Frames that came in.
    pub offered: u64,
    /// Frames taken away by `loss`.
    pub lost: u64,
    /// Additional copies made by `duplicate`.
    pub duplicated: u64,
    /// Frames held back by `reorder`.
    pub reordered: u64,
    /// Frames in which a bit was flipped.
    pub corrupted: u64,
    /// Frames that found the queue, or the memory for frames in flight, full.
    pub queue_drops: u64,
    /// Frames that went out.
    pub delivered: u64,
}

/// What has happened to the frames of one direction, and what befell them outside of the impairment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireCounters {
    /// What the impairment has done.
    #[serde(flatten)]
    pub impaired: Counters,
    /// Frames the kernel threw away before the relay saw them, because it was too slow; not among `offered`.
    pub overrun: u64,
    /// Frames among `delivered` that the interface at the far end did not take.
    pub refused: u64,
}
