//! Order books.
//!
//! [`Books`] holds the books of all instruments of a channel that tells every order (ITCH): price levels always ([`Depth::Levels`]),
//! the orders of a level in time order by choice ([`Depth::Orders`]). [`by_price`] has books of feeds that tell levels by number.
//!
//! All memory is taken when books are made, and its amount is known before ([`Limits::bytes`]). A message changes a bounded amount of
//! it and allocates nothing. A message that cannot be right (an unknown order, more shares executed than there are) is refused with its
//! [`Refusal`], changes nothing, is counted, and makes the book of its instrument [`Suspect`] until [`Books::clear`]. A crossed book is
//! no error: exchanges publish such ones.
//!
//! ```text
//!  reference ─ table ─> order {shares, level} ─> level {shares, orders, price} <─ ladder (sorted, best at the end) <─ locate, side
//!                          └ queue: neighbours in time (L3)                         └ an array in a block of a pool
//! ```
//!
//! | concern | file |
//! |---|---|
//! | what a message does | `books.rs`, `replace.rs` |
//! | what is read | `book.rs` |
//! | prefetching over a datagram | `prefetch.rs` |
//! | the table of orders | `table.rs` |
//! | the records of levels | `level.rs` |
//! | levels by price, and the memory of their arrays | `ladder.rs`, `blocks.rs` |
//! | time order | `queue.rs` |
//! | refused messages, suspect books | `refusal.rs` |
//! | bounds | `limits.rs` |
//! | books of levels by number | `by_price.rs` |

mod blocks;
#[allow(clippy::module_inception)] // A book of these books.
mod book;
mod books;
pub mod by_price;
mod change;
mod ladder;
mod level;
mod limits;
mod prefetch;
mod queue;
mod refusal;
mod replace;
pub(crate) mod table;

pub use book::{Ahead, Book, Order};
pub use books::Books;
pub use change::{Change, PriceLevel, Touched};
pub use limits::{Depth, Limits};
pub use refusal::{Refusal, Suspect};
