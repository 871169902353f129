//! An exchange to trade against: price-time matching, a load by seed, the feed that comes of both, and orders.
//!
//! [`matching`] takes orders and publishes messages of TotalView-ITCH 5.0. [`load`] enters orders of synthetic participants,
//! deterministic by seed. [`tape`] has the datagrams of both, made in advance, for measurements. [`itch`] and [`mold`] write the formats;
//! they share nothing with the decoders of `sidestep-market`, which are tested against them.
#![forbid(unsafe_code)]

pub mod itch;
pub mod load;
pub mod matching;
pub mod mold;
pub mod tape;
pub mod units;

mod random;

#[cfg(test)]
mod naive;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
