//! The mirror of the kernel's tables: interfaces, addresses, routes and neighbours in memory that control writes and
//! any number of processes read, so that sending a packet does not ask the kernel.
//!
//! One writer; readers map it read-only. [`Reader::generation`] is one load and tells whether an earlier route is still
//! valid; [`Reader::snapshot`] copies the tables. An incomplete mirror says so ([`Incomplete`], [`Unknown`]): the
//! kernel path must then be used, because "no route" would be a guess.

#[cfg(not(loom))]
mod layout;
mod memory;
#[cfg(not(loom))]
mod reader;
#[cfg(not(loom))]
mod record;
mod seqlock;
#[cfg(all(test, not(loom)))]
mod tests;
#[cfg(not(loom))]
mod writer;

#[cfg(not(loom))]
pub use layout::{ADDRESSES_MAX, LINKS_MAX, NEIGHBOURS_MAX, ROUTES_MAX};
#[cfg(not(loom))]
pub use reader::{Reader, Snapshot, Unknown};
#[cfg(not(loom))]
pub use record::{Address, Link, Neighbour, NeighbourState, Route, RouteKind};
#[cfg(not(loom))]
pub use writer::Writer;

/// The reason why a table does not hold all that the kernel knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u64)]
pub enum Incomplete {
    /// It is complete.
    #[default]
    No = 0,
    /// It has not been read yet, or is being read again after the kernel dropped messages.
    NotRead = 1,
    /// The kernel has more entries than fit the table.
    Overflowed = 2,
    /// The kernel decides by data that is not mirrored: policy rules, other routing tables.
    Rules = 3,
    /// An entry is not understood by this version.
    Unreadable = 4,
}

impl Incomplete {
    /// Returns whether a miss proves absence.
    pub(crate) fn is_complete(self) -> bool {
        self == Self::No
    }

    /// The first reason of two.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if self.is_complete() { other } else { self }
    }

    /// The text for display.
    pub fn description(self) -> &'static str {
        match self {
            Self::No => "complete",
            Self::NotRead => "not read from the kernel yet",
            Self::Overflowed => "the kernel has more entries than the table holds",
            Self::Rules => "policy rules or routing tables that the mirror does not follow",
            Self::Unreadable => "an entry that this version does not understand",
        }
    }

    #[cfg(not(loom))]
    fn of(word: u64) -> Self {
        match word {
            0 => Self::No,
            1 => Self::NotRead,
            2 => Self::Overflowed,
            3 => Self::Rules,
            _ => Self::Unreadable,
        }
    }
}
