//! A prebuilt header is, bit for bit, the one that would be built anew.

use proptest::prelude::*;
use sidestep_stack::udp::{Flow, FlowHeader};
use sidestep_wire::ethernet::{self, EtherType};
use sidestep_wire::udp::{self, Checksum};
use sidestep_wire::vlan::{Kind, Tag, Tags, VlanId};
use sidestep_wire::{Addresses, BuildError, MacAddress, ipv4, ipv6, protocol};

fn addresses() -> impl Strategy<Value = Addresses> {
    prop_oneof![
        any::<([u8; 4], [u8; 4])>()
            .prop_map(|(source, destination)| Addresses::V4 { source: source.into(), destination: destination.into() }),
        any::<([u8; 16], [u8; 16])>()
            .prop_map(|(source, destination)| Addresses::V6 { source: source.into(), destination: destination.into() }),
    ]
}

fn tags() -> impl Strategy<Value = Tags> {
    let tag = |kind| {
        (0_u16..4095, 0_u8..8).prop_map(move |(id, priority)| Tag::new(kind, VlanId::new(id).unwrap(), priority, false))
    };
    prop_oneof![
        Just(Tags::NONE),
        tag(Kind::Customer).prop_map(Tags::one),
        (tag(Kind::Service), tag(Kind::Customer)).prop_map(|(outer, inner)| Tags::two(outer, inner)),
    ]
}

fn flow() -> impl Strategy<Value = Flow> {
    (addresses(), tags(), any::<(u16, u16, [u8; 6], [u8; 6], u8, u8, bool, bool)>()).prop_map(
        |(addresses, tags, rest)| {
            let (source_port, destination_port, source_mac, next_hop_mac, hop_limit, type_of_service, sums, whole) =
                rest;
            let elided = !sums && matches!(addresses, Addresses::V4 { .. });
            Flow {
                addresses,
                source_port,
                destination_port,
                source_mac: MacAddress(source_mac),
                next_hop_mac: MacAddress(next_hop_mac),
                tags,
                mtu: 1500,
                hop_limit,
                type_of_service,
                checksum: if elided { Checksum::Elided } else { Checksum::Computed },
                do_not_fragment: whole,
            }
        },
    )
}

/// The frame with every header written in full.
fn in_full(flow: &Flow, identification: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 100 + payload.len()];
    let ether_type = if matches!(flow.addresses, Addresses::V4 { .. }) { EtherType::IPV4 } else { EtherType::IPV6 };
    let (destination, source, tags) = (flow.next_hop_mac, flow.source_mac, flow.tags);
    let ip_at = ethernet::Header { destination, source, tags, ether_type }.write(&mut frame).unwrap();
    let (protocol, udp_bytes) = (protocol::UDP, udp::HEADER_BYTES + payload.len());
    let ip_bytes = match flow.addresses {
        Addresses::V4 { source, destination } => ipv4::Header {
            source,
            destination,
            protocol,
            time_to_live: flow.hop_limit,
            type_of_service: flow.type_of_service,
            identification,
            do_not_fragment: flow.do_not_fragment,
        }
        .write(udp_bytes, &mut frame[ip_at..]),
        Addresses::V6 { source, destination } => ipv6::Header {
            source,
            destination,
            protocol,
            hop_limit: flow.hop_limit,
            traffic_class: flow.type_of_service,
            flow_label: 0,
        }
        .write(udp_bytes, &mut frame[ip_at..]),
    };
    let udp_at = ip_at + ip_bytes.unwrap();
    frame[udp_at + udp::HEADER_BYTES..][..payload.len()].copy_from_slice(payload);
    let header = udp::Header { source_port: flow.source_port, destination_port: flow.destination_port };
    let length = header.write(&flow.addresses, payload.len(), flow.checksum, &mut frame[udp_at..]).unwrap();
    frame.truncate(udp_at + length);
    frame
}

proptest! {
    #[test]
    fn patched_is_as_built_anew(
        flow in flow(), payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..1452), 1..4),
    ) {
        let mut header = FlowHeader::new(&flow).unwrap();
        for (number, payload) in payloads.iter().enumerate() {
            let step = if flow.do_not_fragment { 0 } else { number as u16 };
            let identification = flow.source_port.wrapping_add(step);
            let mut frame = vec![0xee; header.bytes()];
            frame.extend(payload);
            prop_assert_eq!(header.write(&mut frame, payload.len()), Ok(frame.len()));
            prop_assert_eq!(&frame, &in_full(&flow, identification, payload));
        }
    }

    #[test]
    fn no_checksum_over_ipv6_is_refused(flow in flow()) {
        let built = FlowHeader::new(&Flow { checksum: Checksum::Elided, ..flow });
        let is_v6 = matches!(flow.addresses, Addresses::V6 { .. });
        prop_assert_eq!(built.err(), is_v6.then_some(BuildError::ChecksumRequired));
    }
}
