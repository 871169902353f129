//! L4: market data of exchanges, sans-IO: bytes and time in, events and actions out.
//!
//! [`feed`] is one channel: the messages of all its lines, once and in order, and recovery of what is missing. [`arbiter`] merges the
//! lines, [`mold64`] reads and writes MoldUDP64, [`framing`] is what another protocol implements. [`itch`] has views of
//! TotalView-ITCH 5.0. [`units`] has the types that protocols and books share.
//! [`itch`] has views of TotalView-ITCH 5.0, [`soup`] the session protocol SoupBinTCP, [`ouch`] orders over it (OUCH 5.0), [`glimpse`]
//! snapshots over it (GLIMPSE 5.0). [`units`] has the types that protocols and books share.
//!
//! Nothing here does input or output, reads a clock or allocates per message. Bytes from the network are hostile: every length is
//! checked, and nothing grows without a limit that is named.
#![forbid(unsafe_code)]

pub mod arbiter;
pub mod book;
pub mod feed;
pub mod framing;
pub mod glimpse;
pub mod itch;
pub mod mold64;
pub mod ouch;
pub mod soup;
pub mod units;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
