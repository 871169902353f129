//! Entries as the keys of the program's maps, and back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Flow, Group, Listener, MapEntry, Protocol, Vlan, VlanMatch};
use crate::layout::{ADDRESS_BYTES, FAMILY_IPV4, FAMILY_IPV6, VLAN_ANY, flow_key, group_key, listener_key, put, take};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// The map of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Flows,
    Listeners,
    Groups,
}

/// The bytes of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Flow([u8; flow_key::BYTES]),
    Listener([u8; listener_key::BYTES]),
    Group([u8; group_key::BYTES]),
}

impl Key {
    pub(crate) fn table(&self) -> Table {
        match self {
            Self::Flow(_) => Table::Flows,
            Self::Listener(_) => Table::Listeners,
            Self::Group(_) => Table::Groups,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Flow(bytes) => bytes,
            Self::Listener(bytes) => bytes,
            Self::Group(bytes) => bytes,
        }
    }
}

impl From<&MapEntry> for Key {
    fn from(entry: &MapEntry) -> Self {
        match entry {
            MapEntry::Flow(flow) => Self::Flow(key_of_flow(flow)),
            MapEntry::Listener(listener) => Self::Listener(key_of_listener(listener)),
            MapEntry::Group(group) => Self::Group(key_of_group(group)),
        }
    }
}

fn key_of_flow(flow: &Flow) -> [u8; flow_key::BYTES] {
    let mut key = [0; flow_key::BYTES];
    let (family, local) = address_bytes(flow.local.ip());
    let (_, remote) = address_bytes(flow.remote.ip());
    let [outer, inner] = vlan_numbers(flow.vlan);
    put(&mut key, flow_key::LOCAL, &local);
    put(&mut key, flow_key::REMOTE, &remote);
    put(&mut key, flow_key::LOCAL_PORT, &flow.local.port().to_be_bytes());
    put(&mut key, flow_key::REMOTE_PORT, &flow.remote.port().to_be_bytes());
    put(&mut key, flow_key::OUTER_VLAN, &outer.to_ne_bytes());
    put(&mut key, flow_key::INNER_VLAN, &inner.to_ne_bytes());
    put(&mut key, flow_key::PROTOCOL, &[protocol_number(flow.protocol)]);
    put(&mut key, flow_key::FAMILY, &[family]);
    key
}

fn key_of_listener(listener: &Listener) -> [u8; listener_key::BYTES] {
    let mut key = [0; listener_key::BYTES];
    let (family, local) = address_bytes(listener.local.ip());
    let [outer, inner] = match_numbers(listener.vlan);
    put(&mut key, listener_key::LOCAL, &local);
    put(&mut key, listener_key::LOCAL_PORT, &listener.local.port().to_be_bytes());
    put(&mut key, listener_key::OUTER_VLAN, &outer.to_ne_bytes());
    put(&mut key, listener_key::INNER_VLAN, &inner.to_ne_bytes());
    put(&mut key, listener_key::PROTOCOL, &[protocol_number(listener.protocol)]);
    put(&mut key, listener_key::FAMILY, &[family]);
    key
}

fn key_of_group(group: &Group) -> [u8; group_key::BYTES] {
    let mut key = [0; group_key::BYTES];
    let (family, address) = address_bytes(group.group.ip());
    let source = group.source.map_or([0; ADDRESS_BYTES], |source| address_bytes(source).1);
    let [outer, inner] = match_numbers(group.vlan);
    put(&mut key, group_key::GROUP, &address);
    put(&mut key, group_key::SOURCE, &source);
    put(&mut key, group_key::PORT, &group.group.port().to_be_bytes());
    put(&mut key, group_key::OUTER_VLAN, &outer.to_ne_bytes());
    put(&mut key, group_key::INNER_VLAN, &inner.to_ne_bytes());
    put(&mut key, group_key::FAMILY, &[family]);
    key
}

/// The entry of a table's key; `None` for bytes that do not form an entry.
pub(crate) fn entry_of(table: Table, key: &[u8]) -> Option<MapEntry> {
    match table {
        Table::Flows if key.len() == flow_key::BYTES => {
            let [family] = take(key, flow_key::FAMILY);
            let side = |address, port| {
                let port = u16::from_be_bytes(take(key, port));
                Some(SocketAddr::new(address_of(family, take(key, address))?, port))
            };
            let local = side(flow_key::LOCAL, flow_key::LOCAL_PORT)?;
            let remote = side(flow_key::REMOTE, flow_key::REMOTE_PORT)?;
            let VlanMatch::Only(vlan) = vlan_at(key, flow_key::OUTER_VLAN, flow_key::INNER_VLAN) else { return None };
            Some(Flow { protocol: protocol_at(key, flow_key::PROTOCOL)?, local, remote, vlan }.into())
        }
        Table::Listeners if key.len() == listener_key::BYTES => {
            let [family] = take(key, listener_key::FAMILY);
            let ip = address_of(family, take(key, listener_key::LOCAL))?;
            let local = SocketAddr::new(ip, u16::from_be_bytes(take(key, listener_key::LOCAL_PORT)));
            let vlan = vlan_at(key, listener_key::OUTER_VLAN, listener_key::INNER_VLAN);
            Some(Listener { protocol: protocol_at(key, listener_key::PROTOCOL)?, local, vlan }.into())
        }
        Table::Groups if key.len() == group_key::BYTES => {
            let [family] = take(key, group_key::FAMILY);
            let ip = address_of(family, take(key, group_key::GROUP))?;
            let group = SocketAddr::new(ip, u16::from_be_bytes(take(key, group_key::PORT)));
            let source = address_of(family, take(key, group_key::SOURCE)).filter(|source| !source.is_unspecified());
            let vlan = vlan_at(key, group_key::OUTER_VLAN, group_key::INNER_VLAN);
            Some(Group { group, source, vlan }.into())
        }
        _ => None,
    }
}

/// An IPv4-mapped IPv6 address becomes the IPv4 address, which the packets carry.
fn address_bytes(ip: IpAddr) -> (u8, [u8; ADDRESS_BYTES]) {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let mut bytes = [0; ADDRESS_BYTES];
            put(&mut bytes, 0, &ip.octets());
            (FAMILY_IPV4, bytes)
        }
        IpAddr::V6(ip) => (FAMILY_IPV6, ip.octets()),
    }
}

fn address_of(family: u8, bytes: [u8; ADDRESS_BYTES]) -> Option<IpAddr> {
    match family {
        FAMILY_IPV4 => Some(Ipv4Addr::from(take::<4>(&bytes, 0)).into()),
        FAMILY_IPV6 => Some(Ipv6Addr::from(bytes).into()),
        _ => None,
    }
}

fn protocol_number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => TCP,
        Protocol::Udp => UDP,
    }
}

fn protocol_at(key: &[u8], offset: usize) -> Option<Protocol> {
    match take(key, offset) {
        [TCP] => Some(Protocol::Tcp),
        [UDP] => Some(Protocol::Udp),
        _ => None,
    }
}

fn vlan_numbers(vlan: Vlan) -> [u16; 2] {
    match vlan {
        Vlan::Untagged => [0, 0],
        Vlan::Tagged(number) => [number, 0],
        Vlan::Double { outer, inner } => [outer, inner],
    }
}

fn match_numbers(vlan: VlanMatch) -> [u16; 2] {
    match vlan {
        VlanMatch::Any => [VLAN_ANY, 0],
        VlanMatch::Only(vlan) => vlan_numbers(vlan),
    }
}

fn vlan_at(key: &[u8], outer: usize, inner: usize) -> VlanMatch {
    match (u16::from_ne_bytes(take(key, outer)), u16::from_ne_bytes(take(key, inner))) {
        (VLAN_ANY, _) => VlanMatch::Any,
        (0, 0) => VlanMatch::Only(Vlan::Untagged),
        (number, 0) => VlanMatch::Only(Vlan::Tagged(number)),
        (outer, inner) => VlanMatch::Only(Vlan::Double { outer, inner }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_and_back_is_the_entry() {
        let vlans = [Vlan::Untagged, Vlan::Tagged(7), Vlan::Double { outer: 7, inner: 9 }];
        let addresses = [("10.0.0.1:1", "10.0.0.2:2", "239.0.0.9:3"), ("[fd00::1]:1", "[fd00::2]:2", "[ff15::9]:3")];
        for (local, remote, group) in addresses {
            let [local, remote, group] = [local, remote, group].map(|text| text.parse::<SocketAddr>().unwrap());
            for (vlan, protocol) in vlans.into_iter().flat_map(|vlan| [(vlan, Protocol::Tcp), (vlan, Protocol::Udp)]) {
                let entries: [MapEntry; 5] = [
                    Flow { protocol, local, remote, vlan }.into(),
                    Listener { protocol, local, vlan: VlanMatch::Only(vlan) }.into(),
                    Listener { protocol, local, vlan: VlanMatch::Any }.into(),
                    Group { group, source: None, vlan: VlanMatch::Only(vlan) }.into(),
                    Group { group, source: Some(remote.ip()), vlan: VlanMatch::Any }.into(),
                ];
                for entry in entries {
                    let key = Key::from(&entry);
                    assert_eq!(entry_of(key.table(), key.bytes()), Some(entry));
                }
            }
        }
    }

    #[test]
    fn families_do_not_collide_and_disguised_ipv4_is_ipv4() {
        let key = |local: &str| {
            let local = local.parse().unwrap();
            Key::from(&Listener { protocol: Protocol::Udp, local, vlan: VlanMatch::Any }.into())
        };
        assert_ne!(key("0.0.0.0:5"), key("[::]:5"));
        assert_eq!(key("10.0.0.1:5"), key("[::ffff:10.0.0.1]:5"));
    }

    #[test]
    fn bytes_of_nobody_are_no_entry() {
        for table in [Table::Flows, Table::Listeners, Table::Groups] {
            assert_eq!(entry_of(table, &[]), None);
            assert_eq!(entry_of(table, &[0; flow_key::BYTES]), None);
            assert_eq!(entry_of(table, &[0xff; group_key::BYTES]), None);
        }
    }
}
