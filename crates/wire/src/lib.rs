//! L0: the formats of the wire. Bytes in, meaning out, and back.
//!
//! Each protocol has a `View`, which is parsed once and then read without any further check or panic, and a type that says
//! what to write (`Header`, [`tcp::Segment`]), which writes into the caller's frame, in front of a payload that is already
//! there. What cannot be read is a [`Refusal`] with a name; what cannot be written is a [`BuildError`]. Nothing here
//! allocates, keeps state, or knows what an address means.
//!
//! A view borrows the bytes and trims them to the lengths that the headers state, so Ethernet's padding never shows.
//! Checksums are looked at only when asked: a card or a neighbour on the same host may already have done it.

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
