//! One feed handler, many strategies on the same host: events in a broadcast ring, the newest state in arrays of records.
//!
//! ```text
//!                    ┌─ events       broadcast ring of [`Event`](crate::event::Event)s     history
//!  feed ─ Publisher ─┼─ tops         [`seqlock`](sidestep_ring::seqlock), by locate: best bid and offer; 0: the channel     state
//!                    └─ instruments  seqlock, by locate: symbol                            directory
//! ```
//!
//! [`Publisher`] writes all three. A [`Subscriber`] takes its place in the ring first and reads the array second, and goes on
//! in the ring with what the array does not have yet: a snapshot without a server. The same happens after it was
//! lapped, and it is told how many events it lost. [`Tops`] reads the array alone, [`Directory`] finds an instrument.
//!
//! Each event has a number, its place in the ring, which only grows: sequence numbers of a venue begin again with each session. The stamp
//! of a record is the number after the last event that the record contains. The writer stores the record first and the events
//! second. So for a reader that has the place `p` and reads a record with stamp `s` afterwards: all before `p` is in the record,
//! events of that instrument from `max(p, s)` on are not. `p <= s` need not hold, as most instruments are quiet.
//!
//! Memory of 65,536 instruments: 4 MiB for each array; 3.5 MiB in the publisher, 0.5 MiB in each subscriber. Nothing is allocated after
//! construction.

mod channel;
mod instrument;
mod interest;
mod publisher;
mod subscriber;
mod top;

pub use channel::Channel;
pub use instrument::{Directory, Instrument};
pub use interest::Interest;
pub use publisher::{Change, EVENTS_PER_CALL_MAX, PublishError, Publisher};
pub use subscriber::{PASSED_MAX, SubscribeError, Subscriber, Update};
pub use top::{Level, State, Top, Tops};

/// The words of a record in both arrays: one cache line.
pub const RECORD_WORDS: usize = 7;

/// The tag of the array of best bids and offers ([`sidestep_ring::seqlock::Options::tag`]).
pub const TOPS_TAG: u64 = u64::from_le_bytes(*b"TOPS0001");

/// The tag of the array of instruments.
pub const INSTRUMENTS_TAG: u64 = u64::from_le_bytes(*b"INST0001");

/// Records of an array that has all locates.
pub const RECORDS_MAX: u32 = 1 << 16;

#[cfg(test)]
mod tests;
