//! Settings of two rings, and the users that they admit.

use sidestep_sys::process::effective_uid;
use std::fmt;

/// The smallest ring, bytes: 64 cells, of which the longest message takes half.
pub const RING_BYTES_MIN: usize = 4 << 10;
/// The largest ring, bytes. Below one huge page: huge pages of a stranger can be taken back under the mapping, which kills
/// by SIGBUS, and are therefore refused. Also what one connection can make a listener map and lock, twice.
pub const RING_BYTES_MAX: usize = 1 << 20;
/// Room for messages unless asked otherwise, bytes: the longest datagram of UDP fits, and two such rings the L2 cache.
const RING_BYTES: usize = 256 << 10;

/// The contents of the rings; both ends must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    /// Bytes without borders, as TCP.
    Stream = 1,
    /// Messages with borders, as UDP.
    Datagram = 2,
}

impl Kind {
    /// Returns the kind with this number in a hello.
    pub(super) fn of_code(code: u32) -> Option<Self> {
        [Self::Stream, Self::Datagram].into_iter().find(|kind| *kind as u32 == code)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stream => "stream",
            Self::Datagram => "datagram",
        })
    }
}

/// Users admitted at the other end, checked by SO_PEERCRED.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Users {
    /// The effective user of this process alone; not even root, unless this is root.
    #[default]
    Same,
    /// These user ids.
    These(Vec<u32>),
}

impl Users {
    /// Returns whether this user may.
    pub fn allow(&self, uid: u32) -> bool {
        match self {
            Self::Same => uid == effective_uid(),
            Self::These(uids) => uids.contains(&uid),
        }
    }
}

/// Settings of a connection through shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Room in each direction, bytes: what a connector asks for, and the most that a listener gives. A power of two from
    /// [`RING_BYTES_MIN`] to [`RING_BYTES_MAX`]. A datagram has at most half of it, less eight bytes.
    pub ring_bytes: usize,
    /// Users admitted at the other end.
    pub users: Users,
}

impl Default for Settings {
    /// 256 KiB each way, for the same user.
    fn default() -> Self {
        Self { ring_bytes: RING_BYTES, users: Users::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names() {
        assert_eq!([Kind::Stream, Kind::Datagram].map(|kind| kind.to_string()), ["stream", "datagram"]);
    }
}
