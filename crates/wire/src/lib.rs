//! L0: wire formats, parsed and built.
//!
//! Each protocol has a `View`, which is parsed once and then read without any further check or panic, and a type to
//! write (`Header`, [`tcp::Segment`]). It is written into the caller's frame, in front of a payload that is already
//! there. Bytes that cannot be parsed are refused with a [`Refusal`], headers that cannot be written with a
//! [`BuildError`]. Nothing here allocates, keeps state, or interprets addresses.
//!
//! A view borrows the bytes and trims them to the lengths in the headers, so Ethernet's padding is not visible.
//! Checksums are verified only on request: a NIC or a peer on the same host may already have done it.

#![forbid(unsafe_code)]
#![no_std]

pub mod arp;
pub mod checksum;
pub mod ethernet;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
pub mod protocol;
mod refusal;
pub mod tcp;
pub mod toeplitz;
pub mod udp;
pub mod vlan;

mod addresses;
mod ether_type;
mod mac;

pub use addresses::Addresses;
pub use mac::MacAddress;
pub use refusal::{BuildError, Refusal};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
