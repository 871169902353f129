//! Steps of `apply` and `revert`, as they happen.

use crate::plan::Change;
use crate::revert_state::RevertState;
use crate::snapshot::Snapshot;

/// A step of `apply`. The command line prints it; the crash test kills the process there.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The snapshot is written and synced, but not yet renamed.
    Saving(&'a Snapshot),
    /// The snapshot is on disk.
    Saved(&'a Snapshot),
    /// A setting is about to be written.
    Writing(&'a Change),
    /// A setting was written, and not yet read again.
    Written(&'a Change),
    /// A setting has the wanted value.
    Applied(&'a Change),
    /// A setting could not be changed, with the reason.
    Failed(&'a Change, &'a str),
    /// An interrupt cannot be moved, with the kernel's error.
    Immovable(&'a Change, &'a str),
    /// A setting was reverted, or not.
    Reverted(&'a Change, &'a RevertState),
}
