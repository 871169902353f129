//! What control tells without being asked.

use crate::message::{Entry, FeedRevoked, FeedVerdict, IcmpError, Refusal};
use std::net::SocketAddr;

/// A message that control sends without a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A stack was closed by control.
    Revoked {
        /// The stack.
        stack: u32,
        /// The reason.
        refusal: Refusal,
    },
    /// Traffic was given back to the kernel, because no socket of this process held its port any more.
    GivenBack {
        /// The stack.
        stack: u32,
        /// The traffic.
        entry: Entry,
    },
    /// A feed was closed by control.
    FeedRevoked(FeedRevoked),
    /// The verdict in force of an entry of a feed has changed.
    FeedVerdict(FeedVerdict),
    /// An ICMP error about a packet that bypassed the kernel.
    IcmpError(IcmpError),
    /// A connection that was handed over has ended in the kernel.
    Ended {
        /// The stack that had it.
        stack: u32,
        /// This host's end.
        local: SocketAddr,
        /// The other end.
        remote: SocketAddr,
    },
    /// Another process needs the connection whose twin has this cookie.
    HandOverTwin {
        /// The cookie (SO_COOKIE).
        cookie: u64,
    },
    /// All connections are to be handed over.
    HandOverAll {
        /// No other stack is to be opened.
        for_good: bool,
    },
}

impl Notice {
    /// ICMP errors are repeated, and so are questions of others, whom nobody here may have to answer. The tuple of a connection whose
    /// end is not told stays unused.
    pub(super) fn weight(&self) -> u8 {
        match self {
            Self::IcmpError(_) | Self::HandOverTwin { .. } => 0,
            Self::Ended { .. } | Self::FeedVerdict(_) => 1,
            Self::Revoked { .. } | Self::GivenBack { .. } | Self::FeedRevoked(_) | Self::HandOverAll { .. } => 2,
        }
    }
}
