//! L5: feed handlers: market data from the wire to books, on one thread.
//!
//! ```text
//!  A ───> engine (eth1) ─┐                         ┌─> Application: each message, each change of the feed
//!  B ───> engine (eth2) ─┼─> Channel: feed, books ─┼─> books: levels, orders, best bid and offer
//!  re-request server <───┤                         └─> Publication: other processes of the host
//!  GLIMPSE server <──────┘
//! ```
//!
//! [`FeedHandler`] joins the lines of a channel, past the kernel where possible, and merges what comes by message sequence. What no
//! line brings it asks a re-request server for, and what that does not have it takes from a snapshot; until then the feed says that it
//! is recovering or stale. The protocol is that of Nasdaq: ITCH 5.0 over MoldUDP64, GLIMPSE over SoupBinTCP.
//!
//! ```
//! use sidestep_feed_handler::{FeedHandler, Line, Options};
//! use sidestep_market::{book, units::Side};
//! use std::time::Duration;
//!
//! let lines = ["lo:239.192.9.1:26400", "lo:239.192.9.2:26400"].map(|line| line.parse::<Line>());
//! let mut options = Options::of(lines.into_iter().collect::<Result<Vec<_>, _>>()?);
//! options.channel.books = book::Limits { instruments: 100, orders: 10_000, levels: 10_000, side_levels: 1_000 };
//! let mut handler = FeedHandler::open(&options)?;
//! for _ in 0..3 {
//!     if handler.poll(&mut ())? == 0 {
//!         handler.sleep(Duration::from_millis(1))?;
//!     }
//! }
//! for book in handler.channel().books().all() {
//!     if let (Some(bid), Some(offer)) = (book.best(Side::Buy), book.best(Side::Sell)) {
//!         println!("{}: {} at {:?}", book.locate().0, bid.price.display(4), offer.price);
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Channel`] is the same without sockets, for replays. [`Lines`] are the sockets alone, for recorders.
#![forbid(unsafe_code)]

mod application;
mod channel;
mod directory;
mod drops;
mod handler;
mod line;
mod lines;
mod publication;
mod requests;
mod snapshot;

pub use application::{Application, Update};
pub use channel::{Channel, ChannelOptions, Counters, Wanted};
pub use directory::Directory;
pub use drops::Drops;
pub use handler::{FeedHandler, Options, line_kinds, recovery_line};
pub use line::{LINES_MAX, Line, SOURCES_MAX, name};
pub use lines::{Arrival, LineOptions, Lines};
pub use publication::Publication;
pub use requests::SERVERS_MAX;
pub use snapshot::SnapshotServer;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
