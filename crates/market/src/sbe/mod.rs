//! Simple Binary Encoding 1.0: the runtime of generated views and encoders.
//!
//! `sidestep-sbe-generator` reads a schema (XML) and writes Rust that needs nothing but this module. A message is
//!
//! ```text
//!  | header | root block | group | group | ... | var-data | var-data | ...
//!                          |
//!                          dimension | entry | entry | ...       an entry: | block | groups | var-data |
//! ```
//!
//! * **Lengths are checked once**: a view of a block, or of an entry, exists only if the received block length covers the fields that every
//!   version has. Getters cannot fail after that. A decoder steps by the **received** block length, so that blocks of a
//!   later version are read by their first bytes.
//! * **The order is in the types**: what follows a group is reached by [`Group::after`] or [`NestedGroup::after`], what follows
//!   var-data comes with it. There is no way to read a part at the place of another.
//! * **Versions**: a field, a group or var-data whose `sinceVersion` is later than the version of the received header is absent.
//! * **Bounds**: entries have one byte at least, so a loop over a group takes at most as many steps as the packet has bytes.
//!
//! What SBE 1.0 cannot do: a reader cannot skip a group that a later version adds in front of var-data, or in the entries of a group. Bytes behind the last
//! known part of a message are ignored; the framing tells where the next message begins.
//!
//! ```
//! use sidestep_market::mdp::schema::{BookUpdateEncoder, Message};
//!
//! let mut buffer = [0; 256];
//! let mut levels = BookUpdateEncoder::new(&mut buffer)?.levels()?;
//! levels.entry()?.security_id(7).rpt_seq(1).level(1).price().mantissa(Some(5_000_000_000));
//! let length = levels.end().orders()?.end();
//!
//! let Message::BookUpdate(update) = Message::decode(&buffer[..length])? else { unreachable!() };
//! let levels = update.levels()?;
//! for level in levels {
//!     assert_eq!((level.security_id(), level.price().mantissa()), (7, Some(5_000_000_000)));
//!     assert_eq!(level.size(), None, "the null value");
//! }
//! assert_eq!(levels.after().orders()?.len(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Source: FIX Trading Community, Simple Binary Encoding 1.0, sections 2 to 4.

mod block;
mod encode;
mod error;
mod group;
mod walk;

pub use block::{End, Header, Received, Stage, Tail, chunk, chunk_mut, field, present, put, text};
pub use encode::{MessageHeader, NESTING_MAX, Writer};
pub use error::{Malformed, Unwritable};
pub use group::{Dimension, Entries, Entry, Group, Length, NestedEntry, NestedGroup};
pub use walk::{Char, Fields, Part, Show, Value, Walker, walk_group, walk_nested};
