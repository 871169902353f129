//! The options of a new ring.

use crate::ring::{Cell, Kind};
use crate::waking::Waking;

/// The options of a new ring.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The behaviour when a reader is slow.
    pub kind: Kind,
    /// The unit of allocation.
    pub cell: Cell,
    /// The capacity, bytes; rounded up to a power of two of cells.
    pub bytes: usize,
    /// The wake-up method. [`Waking::Barrier`] becomes [`Waking::Fence`] if membarrier(2) is refused.
    pub waking: Waking,
}
