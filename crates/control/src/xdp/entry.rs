//! Conversion of entries between the protocol and the steering program.

use sidestep_control_api::message::{Entry, Protocol};
use sidestep_xdp_steering as steer;

/// The steering program's form of an entry.
pub(super) fn ours(entry: &Entry) -> steer::MapEntry {
    let vlan = entry.vlan().map_or(steer::Vlan::Untagged, steer::Vlan::Tagged);
    let protocol = match entry.protocol() {
        Protocol::Tcp => steer::Protocol::Tcp,
        Protocol::Udp => steer::Protocol::Udp,
    };
    match *entry {
        Entry::Flow { local, remote, .. } => steer::Flow { protocol, local, remote, vlan }.into(),
        Entry::Listener { local, .. } => steer::Listener { protocol, local, vlan: steer::VlanMatch::Only(vlan) }.into(),
        Entry::Multicast { group, source, .. } => {
            steer::Group { group, source, vlan: steer::VlanMatch::Only(vlan) }.into()
        }
    }
}

/// The steering program's form of a flow; `None` for another entry.
pub(super) fn flow_of(entry: &Entry) -> Option<steer::Flow> {
    if let steer::MapEntry::Flow(flow) = ours(entry) { Some(flow) } else { None }
}

/// The protocol's form of an entry; `None` for entries that control never makes.
pub(super) fn theirs(entry: &steer::MapEntry) -> Option<Entry> {
    let id = |vlan| match vlan {
        steer::Vlan::Untagged => Some(None),
        steer::Vlan::Tagged(id) => Some(Some(id)),
        steer::Vlan::Double { .. } => None,
    };
    let only = |vlan| if let steer::VlanMatch::Only(vlan) = vlan { id(vlan) } else { None };
    let kind = |protocol| match protocol {
        steer::Protocol::Tcp => Protocol::Tcp,
        steer::Protocol::Udp => Protocol::Udp,
    };
    Some(match *entry {
        steer::MapEntry::Flow(flow) => {
            Entry::Flow { protocol: kind(flow.protocol), local: flow.local, remote: flow.remote, vlan: id(flow.vlan)? }
        }
        steer::MapEntry::Listener(listener) => {
            Entry::Listener { protocol: kind(listener.protocol), local: listener.local, vlan: only(listener.vlan)? }
        }
        steer::MapEntry::Group(group) => {
            Entry::Multicast { group: group.group, source: group.source, vlan: only(group.vlan)? }
        }
    })
}
