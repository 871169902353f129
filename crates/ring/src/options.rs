//! The options of a new ring.

use crate::ring::{Cell, Kind};
use crate::waking::Waking;

/// The options of a new ring.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What happens when the reader is slow.
    pub kind: Kind,
    /// How finely the room is given out.
    pub cell: Cell,
    /// Room for messages, bytes; rounded up to a power of two of cells.
    pub bytes: usize,
    /// How sleepers are noticed. [`Waking::Barrier`] becomes [`Waking::Fence`] where membarrier(2) is refused.
    pub waking: Waking,
}
