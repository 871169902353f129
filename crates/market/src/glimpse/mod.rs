//! GLIMPSE 5.0: a snapshot of the books of a TotalView-ITCH feed, by SoupBinTCP. Source: Nasdaq GLIMPSE 5.0, specification of 13
//! February 2026.
//!
//! The client logs in for message 1. The server sends the stock directory, trading actions and the live displayed orders as ITCH
//! messages ("the spin"), and at last
//!
//! ```text
//!  0     1                                   21
//!  | 'G' | sequence number (20, ASCII)       |
//! ```
//!
//! The live feed goes on **at** that number: it is the first message to apply after the snapshot. So the caller joins the live feed
//! first, keeps what comes, takes the snapshot, drops the messages before that number and applies the rest.

mod client;

pub use client::{Client, Event, Failure, Limits, State};
