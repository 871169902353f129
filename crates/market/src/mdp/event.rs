//! What a channel tells, and what it counts.

use super::schema::types::{Action, AggressorSide};
use crate::units::Price;

/// One of the books of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BookKind {
    /// By price, with the implied one.
    Prices,
    /// By order.
    Orders,
}

/// Why a book is stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleReason {
    /// Nothing is known yet.
    Start,
    /// Packets are missing, or (if the number that came is lower) the feed has begun anew.
    PacketGap {
        /// The packet that should have come.
        expected: u32,
        /// The packet that came.
        found: u32,
    },
    /// Updates of the instrument are missing.
    UpdateGap {
        /// The number that should have come.
        expected: u32,
        /// The number that came.
        found: u32,
    },
    /// A packet or a message could not be read: what was in it is not known.
    Malformed,
    /// An update does not fit the book.
    Inconsistent,
    /// The book by order is full ([`Limits::orders_per_side`](super::Limits::orders_per_side)).
    Full,
}

/// What a channel tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A live book has changed, and is consistent: the event of the matching engine is over.
    Book {
        /// The instrument.
        security_id: i32,
        /// Time of the event, ns since 1970.
        transact_time_ns: u64,
    },
    /// A trade; or, by its action, another word about one that was told before.
    Trade {
        /// The instrument.
        security_id: i32,
        /// `NEW`: a trade. `CHANGE`: the trade of this number was corrected. `DELETE`: it was busted, and is none.
        action: Action,
        /// The number of the trade; nothing if the feed does not tell.
        trade_id: Option<u32>,
        /// Nine decimals.
        price: Price,
        /// Quantity.
        size: i32,
        /// The side of the order that came last; nothing if the feed does not tell.
        aggressor: Option<AggressorSide>,
        /// Time of the event, ns since 1970.
        transact_time_ns: u64,
    },
    /// The state of an instrument, or of the group in the message.
    Status {
        /// The instrument; nothing for a group.
        security_id: Option<i32>,
        /// The group, filled with spaces or NUL.
        group: [u8; 6],
        /// The state; nothing if it has not changed.
        status: Option<u8>,
        /// Time of the event, ns since 1970.
        transact_time_ns: u64,
    },
    /// A book cannot be relied on.
    Stale {
        /// The instrument.
        security_id: i32,
        /// Which of its books.
        kind: BookKind,
        /// The reason.
        reason: StaleReason,
    },
    /// A book can be relied on.
    Live {
        /// The instrument.
        security_id: i32,
        /// Which of its books.
        kind: BookKind,
    },
    /// Every book is empty, by order of the venue.
    Reset,
    /// Books are stale: join the snapshot loops.
    Recover,
    /// No book is stale: leave the snapshot loops.
    Recovered,
}

/// What a channel has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets of the incremental feed that were taken.
    pub packets: u64,
    /// Packets that had come before.
    pub old_packets: u64,
    /// Gaps between packets.
    pub packet_gaps: u64,
    /// Of those, feeds that have begun anew with lower numbers.
    pub restarts: u64,
    /// Packets and messages that could not be read.
    pub malformed: u64,
    /// Messages of templates or schemas that are not known.
    pub unknown_messages: u64,
    /// Entries of instruments that were not defined.
    pub unknown_instruments: u64,
    /// Definitions that were not taken ([`NotAdded`](super::NotAdded)).
    pub instruments_refused: u64,
    /// Snapshots that were not taken: older than the packets held, or of a far future.
    pub snapshots_too_old: u64,
    /// Snapshots that were not taken: their levels or parts are not in order.
    pub snapshots_refused: u64,
    /// Books that became live.
    pub books_recovered: u64,
}
