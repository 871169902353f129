//! ARP for IPv4 over Ethernet (RFC 826), read only: the kernel sends requests and replies.
//!
//! ```text
//!  0       2        4    5    6      8             14           18            24           28
//!  | net=1 | 0x0800 | 6  | 4  | what | sender MAC  | sender IP  | target MAC  | target IP  |
//! ```

use crate::{MacAddress, Refusal};
use core::net::Ipv4Addr;

/// Bytes of an ARP packet for IPv4 over Ethernet.
pub const BYTES: usize = 28;

/// The operation of an ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A request for the target's Ethernet address.
    Request,
    /// A reply from the sender.
    Reply,
    /// Another operation (reverse ARP, for one), which hosts do not use.
    Other(u16),
}

/// A parsed ARP packet.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    packet: &'a [u8; BYTES],
}

impl<'a> View<'a> {
    /// Reads the payload of an Ethernet frame of type ARP.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let packet = bytes.first_chunk::<BYTES>().ok_or(Refusal::ArpTruncated)?;
        if packet[..6] != [0, 1, 8, 0, 6, 4] {
            return Err(Refusal::ArpOtherNetwork);
        }
        Ok(Self { packet })
    }

    /// The operation.
    pub fn operation(&self) -> Operation {
        match u16::from_be_bytes([self.packet[6], self.packet[7]]) {
            1 => Operation::Request,
            2 => Operation::Reply,
            other => Operation::Other(other),
        }
    }

    /// The sender's Ethernet address.
    pub fn sender_mac(&self) -> MacAddress {
        let [_, _, _, _, _, _, _, _, a, b, c, d, e, f, ..] = *self.packet;
        MacAddress([a, b, c, d, e, f])
    }

    /// The sender's IPv4 address.
    pub fn sender(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.packet[14], self.packet[15], self.packet[16], self.packet[17])
    }

    /// The target's Ethernet address; zero in a request.
    pub fn target_mac(&self) -> MacAddress {
        let [.., a, b, c, d, e, f, _, _, _, _] = *self.packet;
        MacAddress([a, b, c, d, e, f])
    }

    /// The target's IPv4 address.
    pub fn target(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.packet[24], self.packet[25], self.packet[26], self.packet[27])
    }
}
