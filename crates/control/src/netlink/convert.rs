//! rtnetlink messages as records of the shared table.

use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use netlink_packet_route::link::{InfoData, InfoKind, InfoVlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourExtFlags, NeighbourFlags, NeighbourMessage,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, link::LinkLayerType};
use sidestep_control_api::table::{Address, Link, Neighbour, NeighbourState};
use std::net::IpAddr;

/// Kinds of virtual devices that carry Ethernet frames unchanged. Hardware has no kind.
const PLAIN_KINDS: [InfoKind; 4] = [InfoKind::Veth, InfoKind::Tun, InfoKind::Dummy, InfoKind::Netkit];

pub(super) fn link(message: &LinkMessage) -> Link {
    let flags = message.header.flags;
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        mac: [0; 6],
        mtu: 0,
        is_up: flags.contains(LinkFlags::Up | LinkFlags::LowerUp),
        is_loopback: flags.contains(LinkFlags::Loopback),
        is_plain_ethernet: message.header.link_layer_type == LinkLayerType::Ether,
        receive_queues: 0,
        transmit_queues: 0,
        vlan: None,
        master: 0,
    };
    let (mut parent, mut vlan_id) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Address(bytes) => link.mac = mac(bytes).unwrap_or_default(),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::NumRxQueues(count) => link.receive_queues = u16::try_from(*count).unwrap_or(u16::MAX),
            LinkAttribute::NumTxQueues(count) => link.transmit_queues = u16::try_from(*count).unwrap_or(u16::MAX),
            LinkAttribute::Link(index) => parent = Some(*index),
            LinkAttribute::Controller(index) => link.master = *index,
            LinkAttribute::LinkInfo(infos) => vlan_id = kind(infos, &mut link),
            _ => {}
        }
    }
    link.vlan = parent.zip(vlan_id);
    link
}

/// Sets whether the kind carries Ethernet frames unchanged; returns the id of a VLAN device.
fn kind(infos: &[LinkInfo], link: &mut Link) -> Option<u16> {
    let mut id = None;
    for info in infos {
        match info {
            LinkInfo::Kind(kind) => link.is_plain_ethernet &= PLAIN_KINDS.contains(kind),
            LinkInfo::Data(InfoData::Vlan(facts)) => {
                id = facts.iter().find_map(|fact| if let InfoVlan::Id(id) = fact { Some(*id) } else { None });
            }
            _ => {}
        }
    }
    id
}

fn mac(bytes: &[u8]) -> Option<[u8; 6]> {
    bytes.try_into().ok()
}

pub(super) fn address(message: &AddressMessage) -> Option<Address> {
    let mut flags = AddressFlags::from_bits_retain(u32::from(message.header.flags.bits()));
    let (mut local, mut peer) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(address) => local = Some(*address),
            AddressAttribute::Address(address) => peer = Some(*address),
            AddressAttribute::Flags(whole) => flags = *whole,
            _ => {}
        }
    }
    // A duplicate is never used; the others only at an application's explicit request.
    let avoided = AddressFlags::Deprecated | AddressFlags::Dadfailed | AddressFlags::Tentative;
    Some(Address {
        interface: message.header.index,
        address: local.or(peer)?,
        prefix_len: message.header.prefix_len,
        scope: message.header.scope.into(),
        is_avoided: flags.intersects(avoided),
        is_secondary: flags.contains(AddressFlags::Secondary),
    })
}

/// States of linux/neighbour.h in which the Ethernet address is valid.
const NUD_VALID: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;
const NUD_FAILED: u16 = 0x20;

pub(super) fn neighbour(message: &NeighbourMessage) -> Option<Neighbour> {
    if message.header.flags.contains(NeighbourFlags::Proxy) {
        return None;
    }
    let (mut address, mut link_address) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => address = Some(IpAddr::from(*v4)),
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => address = Some(IpAddr::from(*v6)),
            NeighbourAttribute::LinkLayerAddress(bytes) => link_address = mac(bytes),
            _ => {}
        }
    }
    // A group's Ethernet address follows from the group; the kernel lists those it has sent to.
    let address = address.filter(|address| !address.is_multicast())?;
    let nud = u16::from(message.header.state);
    let state = match link_address {
        Some(_) if nud & NUD_VALID != 0 => NeighbourState::Usable,
        _ if nud & NUD_FAILED != 0 => NeighbourState::Failed,
        _ => NeighbourState::Pending,
    };
    let mac = link_address.filter(|_| state == NeighbourState::Usable).unwrap_or_default();
    Some(Neighbour { interface: message.header.ifindex, address, mac, state, nud })
}

/// NUD_PERMANENT, NUD_NOARP (linux/neighbour.h): the kernel never resolves these.
const NUD_FIXED: u16 = 0x80 | 0x40;

/// Returns whether a neighbour was entered by an administrator or a routing daemon, not resolved by the kernel.
pub(super) fn is_fixed(message: &NeighbourMessage) -> bool {
    let is_managed = |attribute: &NeighbourAttribute| match attribute {
        NeighbourAttribute::ExtFlags(flags) => flags.contains(NeighbourExtFlags::Managed),
        _ => false,
    };
    u16::from(message.header.state) & NUD_FIXED != 0
        || message.header.flags.contains(NeighbourFlags::ExtLearned)
        || message.attributes.iter().any(is_managed)
}

/// Returns whether a rule is one of the default rules: local first, then main, then default, for everything.
pub(super) fn is_usual_rule(message: &RuleMessage) -> bool {
    let header = &message.header;
    if header.action != RuleAction::ToTable || header.src_len != 0 || header.dst_len != 0 || header.tos != 0 {
        return false;
    }
    let (mut priority, mut table) = (0, u32::from(header.table));
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Priority(value) => priority = *value,
            RuleAttribute::Table(value) => table = *value,
            RuleAttribute::Protocol(_) => {}
            // All ones mean "suppress nothing".
            RuleAttribute::SuppressPrefixLen(u32::MAX) | RuleAttribute::SuppressIfGroup(u32::MAX) => {}
            _ => return false,
        }
    }
    let usual: &[(u32, u32)] = &[(0, 255), (32766, 254), (32767, 253)];
    usual.contains(&(priority, table))
}

/// Returns whether the mirror follows this family, given by a message's first byte.
pub(super) fn is_internet(payload: &[u8]) -> bool {
    let families = [AddressFamily::Inet, AddressFamily::Inet6].map(u8::from);
    payload.first().is_some_and(|family| families.contains(family))
}
