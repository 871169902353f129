//! An exchange to trade against: price-time matching, a load by seed, the feed that comes of both, and orders.
//!
//! Sans-IO, bytes and time in, bytes out:
//!
//! * [`matching`] takes orders and publishes messages of TotalView-ITCH 5.0; [`core`] has it together with the history of the feed.
//! * [`load`] enters orders of synthetic participants, deterministic by seed. [`exchange`] is a day of both.
//! * [`tape`] has the datagrams of such a day, made in advance, for measurements.
//! * [`feed`]: two lines and the re-request server. [`glimpse`]: snapshots. [`ouch`], [`fix`]: orders.
//! * [`itch`], [`mold`], [`soup`] have the formats. They share nothing with the decoders of `sidestep-market`, which are tested against them.
//!
//! [`run`] drives all of it over sockets, on one thread.
#![forbid(unsafe_code)]

pub mod core;
pub mod exchange;
pub mod feed;
pub mod fix;
pub mod glimpse;
pub mod itch;
pub mod load;
pub mod matching;
pub mod mold;
pub mod ouch;
pub mod run;
pub mod service;
pub mod soup;
pub mod tape;
pub mod units;

mod random;

#[cfg(test)]
mod naive;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
