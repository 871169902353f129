//! Data that an engine could not deliver when it ended.

use std::fmt;

/// Data handed over to streams past the kernel and never acknowledged by their peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Streams that lost something.
    pub streams: u64,
    /// Bytes of them.
    pub bytes: u64,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {} streams were not acknowledged", self.bytes, self.streams)
    }
}
