//! Counters of the frames of a wire.

use serde::{Deserialize, Serialize};

/// The counters of one direction. At any time `offered + duplicated = lost + queue_drops + delivered + in flight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Frames that came in.
    pub offered: u64,
    /// Frames removed by `loss`.
    pub lost: u64,
    /// Additional copies made by `duplicate`.
    pub duplicated: u64,
    /// Frames held back by `reorder`.
    pub reordered: u64,
    /// Frames in which a bit was flipped.
    pub corrupted: u64,
    /// Frames dropped because the queue, or the memory for frames in flight, was full.
    pub queue_drops: u64,
    /// Frames that went out.
    pub delivered: u64,
}

/// The counters of one direction, including events outside of the impairment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireCounters {
    /// The counters of the impairment.
    #[serde(flatten)]
    pub impaired: Counters,
    /// Frames that the kernel dropped before the relay read them, because it was too slow; not in `offered`.
    pub overrun: u64,
    /// Frames in `delivered` that the interface at the far end did not accept.
    pub refused: u64,
}
