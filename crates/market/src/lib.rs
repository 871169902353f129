//! L4: market data of exchanges, sans-IO: bytes and time in, events and actions out.
//!
//! [`itch`] has views of TotalView-ITCH 5.0, [`mdp`] packets, books and recovery in the layout of CME MDP 3.0. [`sbe`] is what
//! views generated of SBE schemas need. [`units`] has the types that protocols and books share.
//!
//! Nothing here does input or output, reads a clock or allocates per message. Bytes from the network are hostile: every length is
//! checked, and nothing grows without a limit that is named.
#![forbid(unsafe_code)]

pub mod itch;
pub mod mdp;
pub mod sbe;
pub mod units;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
