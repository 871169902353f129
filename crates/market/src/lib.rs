//! L4: market data of exchanges, sans-IO: bytes and time in, events and actions out.
//!
//! [`itch`] has views of TotalView-ITCH 5.0. [`event`] has normalised events of any feed, [`publish`] hands them to many strategies on one
//! host, with the best bid and offer of each instrument. [`capture`] reads and writes captures. [`units`] has the types that protocols and
//! books share.
//!
//! Nothing here does input or output (captures are read from what the caller opens), reads a clock or allocates per message. Bytes from the network are hostile: every length is
//! checked, and nothing grows without a limit that is named.
#![forbid(unsafe_code)]

pub mod capture;
pub mod event;
pub mod itch;
pub mod publish;
pub mod units;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
