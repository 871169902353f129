//! Market data in the layout of CME MDP 3.0: packets, books by price and by order, recovery from snapshot loops.
//!
//! | file | concern |
//! |---|---|
//! | `packet` | the packet's header, and its messages by their sizes |
//! | `schema` | views and encoders, generated of `schemas/mdp.xml`, a schema of ours with the public facts of the venue's |
//! | `order_book`, `sequence` | the book by order of an instrument; those by price are [`book::by_price`](crate::book::by_price) |
//! | `instrument` | an instrument: its books, and how far each of them is |
//! | `apply` | what a message changes |
//! | `channel` | the entrance, and the incremental feed |
//! | `snapshot` | both snapshot loops, and how a book catches up after a snapshot |
//! | `held` | packets held while books are stale |
//! | `event`, `limits` | what a channel tells and counts; what bounds it |
//!
//! [`Channel`] takes the packets of one channel **after arbitration** ([`Channel::incremental`]: each sequence once, in order; what is missing is a
//! gap) and of the snapshot loops ([`Channel::snapshot`], to be joined after [`Event::Recover`] and left after [`Event::Recovered`]).
//!
//! * A book is consistent at the end of an event of the matching engine, which may be in the middle of a packet or some packets later:
//!   [`Event::Book`] is told then.
//! * After a packet gap every book is stale, until a snapshot. The number of an instrument's updates (`RptSeq`) tells that one is missing; that
//!   none is missing it tells only if no channel reset was lost ([`Limits::trusts_numbers`]). Messages of books by order have no such number.
//! * A snapshot is taken only if the packets after it are held, or are still to come. Instruments that a whole loop has not have empty books.
//! * Prices have nine decimals ([`PRICE_DECIMALS`]). Null values are the greatest of their type.
//! * The venue's feed may cross (bid above offer) within an event, and sometimes outside of one: nothing here takes that for an error.

mod apply;
mod channel;
mod event;
mod held;
mod instrument;
mod limits;
mod order_book;
mod packet;
pub mod schema;
mod sequence;
mod snapshot;

pub use channel::Channel;
pub use event::{BookKind, Counters, Event, StaleReason};
pub use held::PACKET_BYTES_MAX;
pub use instrument::{Instrument, NotAdded};
pub use limits::Limits;
pub use order_book::{Order, OrderBook, Unplaced};
pub use packet::{BadPacket, HEADER_BYTES, Messages, Packet, TCP_HEADER_BYTES, TCP_MARK};

/// Digits behind the point of prices.
pub const PRICE_DECIMALS: u8 = 9;
