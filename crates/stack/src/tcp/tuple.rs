//! The state of a tuple of two addresses and two ports.

/// The state of a tuple of two addresses and two ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tuple {
    /// Nothing: a connection may begin.
    Free,
    /// A connection in TIME-WAIT that a new one may follow now (RFC 6191).
    Replaceable,
    /// One in TIME-WAIT that a new one may follow a second after its last segment.
    Waiting,
    /// A connection, or one in TIME-WAIT without timestamps.
    Used,
}
