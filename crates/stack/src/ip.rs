//! Received frames, up to the transport's first byte: Ethernet, VLAN, IPv4, IPv6.

use crate::{DropReason, Host};
use sidestep_wire::ethernet::{self, EtherType};
use sidestep_wire::vlan::Tags;
use sidestep_wire::{Addresses, ipv4, ipv6, protocol};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The verification of a frame's checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksums {
    /// All are computed and compared.
    #[default]
    Verify,
    /// As [`Self::Verify`], but a checksum that a sender on the same machine has left to a device is accepted unverified: over a veth no device ever
    /// computes them. Such a field holds the sum of the pseudo-header alone (CHECKSUM_PARTIAL of Linux's skbuff.h).
    VerifyFinished,
    /// None: the card has verified them, or the sender is on the same machine.
    Trusted,
}

impl Checksums {
    /// Returns whether a transport's checksum passes as it is.
    #[inline]
    pub(crate) fn pass(self, is_unfinished: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Verify => false,
            Self::VerifyFinished => is_unfinished(),
            Self::Trusted => true,
        }
    }
}

/// A packet for this host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'f> {
    /// The interface that it came by (of a tagged frame the VLAN's).
    pub(crate) interface: u32,
    /// Its VLAN tags.
    pub(crate) tags: Tags,
    /// The source and the destination.
    pub(crate) addresses: Addresses,
    /// True if it is for a group.
    pub(crate) is_group: bool,
    /// DSCP and ECN.
    pub(crate) type_of_service: u8,
    /// TTL or hop limit.
    pub(crate) time_to_live: u8,
    /// The payload's protocol (`sidestep_wire::protocol`).
    pub(crate) protocol: u8,
    /// The transport's header and what follows.
    pub(crate) payload: &'f [u8],
    /// Its offset in the frame.
    pub(crate) payload_at: usize,
}

/// Takes a frame apart, and refuses what is not whole, not for us, or the kernel's business.
#[inline]
pub(crate) fn receive<'f>(host: &Host, frame: &'f [u8], checksums: Checksums) -> Result<Packet<'f>, DropReason> {
    let ethernet = ethernet::View::parse(frame)?;
    let tags = ethernet.tags();
    let interface = host.interface(tags).ok_or(DropReason::VlanUnknown)?;
    let destination = ethernet.destination();
    if destination != interface.mac && !destination.is_multicast() {
        return Err(DropReason::OtherStation);
    }
    let mut packet = match ethernet.ether_type() {
        EtherType::IPV4 => receive_v4(host, ethernet.payload(), checksums)?,
        EtherType::IPV6 => receive_v6(host, ethernet.payload())?,
        _ => return Err(DropReason::NotIp),
    };
    packet.interface = interface.index;
    packet.tags = tags;
    packet.payload_at += ethernet.header_bytes();
    Ok(packet)
}

/// With interface, tags and the Ethernet header's length still to be filled in.
#[inline]
fn receive_v4<'f>(host: &Host, bytes: &'f [u8], checksums: Checksums) -> Result<Packet<'f>, DropReason> {
    let view = ipv4::View::parse(bytes)?;
    if checksums != Checksums::Trusted {
        view.verify()?;
    }
    if view.is_fragment() {
        return Err(DropReason::Fragment);
    }
    let options = view.options();
    if !options.is_empty() && (view.protocol() != protocol::TCP || !can_be_ignored(options)) {
        return Err(DropReason::Ipv4Options);
    }
    let (source, destination) = (view.source(), view.destination());
    let is_group = destination.is_multicast();
    if !is_group && !host.has_v4(destination) {
        // A broadcast of our subnet looks like any other address here; steering leaves those to the kernel.
        return Err(if destination.is_broadcast() { DropReason::Broadcast } else { DropReason::OtherAddress });
    }
    if is_impossible_v4(source) || host.has_v4(source) {
        return Err(DropReason::SourceImpossible);
    }
    Ok(Packet {
        interface: 0,
        tags: Tags::NONE,
        addresses: view.addresses(),
        is_group,
        type_of_service: view.type_of_service(),
        time_to_live: view.time_to_live(),
        protocol: view.protocol(),
        payload: view.payload(),
        payload_at: view.header_bytes(),
    })
}

/// Returns whether options are whole and lead nowhere: TCP ignores those (RFC 9293 MUST-50, RFC 1122 section 3.2.1.8). A source route
/// is not followed, and its sender is not who it says, so its packet is refused, as by Linux.
#[cold]
fn can_be_ignored(options: &[u8]) -> bool {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const LOOSE_SOURCE_ROUTE: u8 = 131;
    const STRICT_SOURCE_ROUTE: u8 = 137;
    let mut rest = options;
    loop {
        match *rest {
            [] | [END, ..] => return true,
            [NO_OPERATION, ref behind @ ..] => rest = behind,
            [LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE, ..] => return false,
            [_, bytes, ..] if bytes >= 2 && usize::from(bytes) <= rest.len() => rest = &rest[usize::from(bytes)..],
            _ => return false,
        }
    }
}

/// Sources that no packet from elsewhere can have (RFC 1122 section 3.2.1.3): nobody's network, loopback, groups, broadcast.
#[inline]
fn is_impossible_v4(source: Ipv4Addr) -> bool {
    let [first, ..] = source.octets();
    first == 0 || first == 127 || first & 0xf0 == 0xe0 || source.is_broadcast()
}

/// With interface, tags and the Ethernet header's length still to be filled in.
#[inline]
fn receive_v6<'f>(host: &Host, bytes: &'f [u8]) -> Result<Packet<'f>, DropReason> {
    let view = ipv6::View::parse(bytes)?;
    if !view.extensions().is_empty() {
        refuse_extensions(&view)?;
    }
    let (source, destination) = (view.source(), view.destination());
    let is_group = destination.is_multicast();
    if !is_group && !host.has_v6(destination) {
        return Err(DropReason::OtherAddress);
    }
    if is_impossible_v6(source) || host.has_v6(source) {
        return Err(DropReason::SourceImpossible);
    }
    Ok(Packet {
        interface: 0,
        tags: Tags::NONE,
        addresses: view.addresses(),
        is_group,
        type_of_service: view.traffic_class(),
        time_to_live: view.hop_limit(),
        protocol: view.protocol(),
        payload: view.payload(),
        payload_at: view.header_bytes(),
    })
}

/// Groups, loopback, nobody, and IPv4 in disguise (RFC 4291 section 2.5, RFC 4942 section 2.2).
#[inline]
fn is_impossible_v6(source: Ipv6Addr) -> bool {
    source.is_multicast() || source.is_unspecified() || source.is_loopback() || source.to_ipv4_mapped().is_some()
}

/// A fragment header alone that makes no fragment is let pass (RFC 6946); every other extension is the kernel's to judge.
fn refuse_extensions(view: &ipv6::View<'_>) -> Result<(), DropReason> {
    match view.fragment() {
        Some(fragment) if !fragment.is_atomic() => Err(DropReason::Fragment),
        Some(_) if view.extensions().len() == 8 => Ok(()),
        _ => Err(DropReason::Ipv6Extensions),
    }
}
