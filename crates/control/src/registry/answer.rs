//! An answer of the registry.

use sidestep_control_api::message::{Refusal, Reply};
use std::os::fd::OwnedFd;

/// An answer to an application.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) descriptors: Vec<OwnedFd>,
    /// True if the shared table is sent with it.
    pub(crate) with_table: bool,
    /// True if the connection ends with it.
    pub(crate) is_last: bool,
    /// True if it is not sent: another one comes later.
    pub(crate) is_later: bool,
}

impl Answer {
    pub(crate) fn plain(reply: Reply) -> Self {
        Self { reply, descriptors: Vec::new(), with_table: false, is_last: false, is_later: false }
    }

    /// No answer yet.
    pub(super) fn later() -> Self {
        Self { is_later: true, ..Self::plain(Reply::Done) }
    }

    /// A refusal.
    pub(crate) fn refused(refusal: Refusal) -> Self {
        Self::plain(Reply::Refused(refusal))
    }

    /// The refusal that ends a connection.
    pub(crate) fn last(refusal: Refusal) -> Self {
        Self { is_last: true, ..Self::plain(Reply::Refused(refusal)) }
    }
}
