//! The mirror of the kernel's tables: interfaces, addresses, routes and neighbours in memory that control writes and any
//! number of processes read, so that sending a packet asks the kernel nothing.
//!
//! One writer, readers that map it read-only. [`Reader::generation`] is one load and tells whether a route resolved before
//! still stands; [`Reader::snapshot`] copies the tables out. What the mirror cannot say for certain, it says it does not
//! know ([`Incomplete`], [`Unknown`]): the kernel path is then right, "no route" would be a guess.

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

/// Why a table does not hold all that the kernel knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u64)]
pub enum Incomplete {
    /// It does hold all.
    #[default]
    No = 0,
    /// It has not been read yet, or is being read anew after the kernel dropped messages.
    NotRead = 1,
    /// More entries than the table has room for.
    Overflowed = 2,
    /// The kernel decides by what the mirror does not hold: policy rules, other routing tables.
    Rules = 3,
    /// An entry that this version does not understand.
    Unreadable = 4,
}

impl Incomplete {
    /// Whether a miss proves that there is nothing.
    pub(crate) fn is_complete(self) -> bool {
        self == Self::No
    }

    /// The first reason of two.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if self.is_complete() { other } else { self }
    }

    /// What to tell people.
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
