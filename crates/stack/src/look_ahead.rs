//! The flows of a burst's frames, for [`Tcp::look_ahead`](crate::tcp::Tcp::look_ahead).

use crate::Stack;
use sidestep_wire::ethernet::{self, EtherType};
use sidestep_wire::{Addresses, ipv4, ipv6, protocol};

impl Stack {
    /// Fetches into the cache what [`Stack::receive`] needs for the segments of TCP in these frames. For a burst: the cache misses of
    /// its connections overlap. Of one frame more than [`LOOK_AHEAD_MAX`](crate::tcp::LOOK_AHEAD_MAX) nothing is fetched. Nothing is
    /// verified, counted or changed.
    #[inline]
    pub fn look_ahead<'f>(&self, frames: impl Iterator<Item = &'f [u8]>) {
        self.tcp().look_ahead(frames.filter_map(flow_of));
    }
}

/// Addresses, our port and the peer's. A wrong answer costs nothing but time.
#[inline]
fn flow_of(frame: &[u8]) -> Option<(Addresses, u16, u16)> {
    let ethernet = ethernet::View::parse(frame).ok()?;
    let (addresses, protocol, segment) = match ethernet.ether_type() {
        EtherType::IPV4 => {
            let packet = ipv4::View::parse(ethernet.payload()).ok()?;
            (packet.addresses(), packet.protocol(), packet.payload())
        }
        EtherType::IPV6 => {
            let packet = ipv6::View::parse(ethernet.payload()).ok()?;
            (packet.addresses(), packet.protocol(), packet.payload())
        }
        _ => return None,
    };
    match *segment {
        [a, b, c, d, ..] if protocol == protocol::TCP => {
            Some((addresses, u16::from_be_bytes([c, d]), u16::from_be_bytes([a, b])))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PacketHeader;
    use crate::route::Resolved;
    use sidestep_wire::MacAddress;
    use sidestep_wire::vlan::VlanId;

    fn frame(vlan: Option<VlanId>, [from, to]: [&str; 2], protocol: u8) -> Vec<u8> {
        let (source, next_hop) = (from.parse().unwrap(), to.parse().unwrap());
        let mac = MacAddress([2; 6]);
        let (next_hop_mac, source_mac) = (mac, mac);
        let way = Resolved { interface: 1, device: 1, vlan, source, next_hop, next_hop_mac, source_mac, mtu: 1500 };
        let header = PacketHeader::along(&way, Addresses::new(source, next_hop).unwrap(), protocol).unwrap();
        let mut frame = vec![0; header.bytes() + 20];
        frame[header.bytes()..][..4].copy_from_slice(&[0x12, 0x34, 0, 80]);
        header.write(&mut frame, 20).unwrap();
        frame
    }

    #[test]
    fn flows_are_read_from_frames() {
        for ends in [["192.0.2.1", "192.0.2.2"], ["2001:db8::1", "2001:db8::2"]] {
            let addresses = Addresses::new(ends[0].parse().unwrap(), ends[1].parse().unwrap()).unwrap();
            for vlan in [None, VlanId::new(7)] {
                let whole = frame(vlan, ends, protocol::TCP);
                assert_eq!(flow_of(&whole), Some((addresses, 80, 0x1234)));
                assert_eq!(flow_of(&frame(vlan, ends, protocol::UDP)), None);
                (0..whole.len()).for_each(|bytes| assert_eq!(flow_of(&whole[..bytes]), None, "{bytes}"));
            }
        }
    }
}
