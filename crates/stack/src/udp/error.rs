//! Refusals of the UDP tables.

use super::limits::{GROUPS_MAX, SOCKETS_MAX, SOURCES_MAX};
use std::fmt;

/// The reason why a call was refused. Each has the errno with which Linux refuses the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableError {
    /// The socket is not open: EBADF.
    NotOpen,
    /// [`SOCKETS_MAX`] sockets are open: ENFILE.
    TooManySockets,
    /// Port zero: EINVAL. The kernel twin has chosen one before.
    NoPort,
    /// Addresses of both families: EAFNOSUPPORT.
    OtherFamily,
    /// The address is not a group: EINVAL.
    NotAGroup,
    /// The group or the source is there already: EADDRINUSE.
    AlreadyJoined,
    /// The group or the source is not there: EADDRNOTAVAIL.
    NotJoined,
    /// Joined for everyone and for one source do not mix: EINVAL.
    OtherFilter,
    /// [`GROUPS_MAX`] groups: ENOBUFS.
    TooManyGroups,
    /// [`SOURCES_MAX`] sources: ENOBUFS.
    TooManySources,
}

impl fmt::Display for TableError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOpen => formatter.write_str("the socket is not open"),
            Self::TooManySockets => write!(formatter, "a stack has at most {SOCKETS_MAX} sockets; close some"),
            Self::NoPort => formatter.write_str("the port is zero"),
            Self::OtherFamily => formatter.write_str("the addresses are of both families"),
            Self::NotAGroup => formatter.write_str("the address is not a multicast group"),
            Self::AlreadyJoined => formatter.write_str("the group or the source has been joined already"),
            Self::NotJoined => formatter.write_str("the group or the source has not been joined"),
            Self::OtherFilter => {
                formatter.write_str("the group has been joined in the other way (everyone, or one source)")
            }
            Self::TooManyGroups => write!(formatter, "a socket has at most {GROUPS_MAX} groups; leave some"),
            Self::TooManySources => write!(formatter, "a group has at most {SOURCES_MAX} sources; leave some"),
        }
    }
}

impl std::error::Error for TableError {}
