//! Cross-check with smoltcp: it parses our packets, and we parse its packets.

mod support;

use proptest::prelude::*;
use sidestep_wire::vlan::Tags;
use sidestep_wire::{Addresses, arp, ethernet, icmp, ipv4, ipv6, protocol, tcp, udp};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, Icmpv4Packet,
    Icmpv4Repr, Icmpv6Packet, Icmpv6Repr, IpAddress, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr,
    TcpControl, TcpPacket, TcpRepr, TcpSeqNumber, TcpTimestampRepr, UdpPacket, UdpRepr,
};
use support::{addresses, mac, payload, segment};

fn ends(addresses: &Addresses) -> (IpAddress, IpAddress) {
    (addresses.source().into(), addresses.destination().into())
}

proptest! {
    #[test]
    fn ethernet_both_ways(destination in mac(), source in mac(), body in payload()) {
        let ether_type = ethernet::EtherType::IPV6;
        let header = ethernet::Header { destination, source, tags: Tags::NONE, ether_type };
        let mut ours = vec![0; 14 + body.len()];
        header.write(&mut ours).unwrap();
        let mut theirs = vec![0; 14 + body.len()];
        let repr = EthernetRepr {
            src_addr: EthernetAddress(source.0), dst_addr: EthernetAddress(destination.0),
            ethertype: EthernetProtocol::Ipv6,
        };
        repr.emit(&mut EthernetFrame::new_unchecked(&mut theirs[..]));
        prop_assert_eq!(ours, theirs);
    }

    #[test]
    fn ipv4_both_ways((source, destination) in any::<([u8; 4], [u8; 4])>(), ttl in any::<u8>(), body in payload()) {
        let repr = Ipv4Repr {
            src_addr: source.into(), dst_addr: destination.into(), next_header: IpProtocol::Udp,
            payload_len: body.len(), hop_limit: ttl,
        };
        let mut theirs = vec![0; 20 + body.len()];
        repr.emit(&mut Ipv4Packet::new_unchecked(&mut theirs[..]), &ChecksumCapabilities::default());
        let view = ipv4::View::parse(&theirs).unwrap();
        prop_assert_eq!(view.verify(), Ok(()));
        let header = ipv4::Header {
            source: source.into(), destination: destination.into(), protocol: protocol::UDP, time_to_live: ttl,
            type_of_service: view.type_of_service(), identification: view.identification(),
            do_not_fragment: view.is_do_not_fragment(),
        };
        let mut ours = vec![0; 20 + body.len()];
        header.write(body.len(), &mut ours).unwrap();
        prop_assert_eq!(ours, theirs);
    }

    #[test]
    fn ipv6_both_ways((source, destination) in any::<([u8; 16], [u8; 16])>(), hop_limit in any::<u8>(), body in payload()) {
        let repr = Ipv6Repr {
            src_addr: source.into(), dst_addr: destination.into(), next_header: IpProtocol::Tcp,
            payload_len: body.len(), hop_limit,
        };
        let mut theirs = vec![0; 40 + body.len()];
        repr.emit(&mut Ipv6Packet::new_unchecked(&mut theirs[..]));
        let header = ipv6::Header {
            source: source.into(), destination: destination.into(), protocol: protocol::TCP, hop_limit,
            traffic_class: 0, flow_label: 0,
        };
        let mut ours = vec![0; 40 + body.len()];
        header.write(body.len(), &mut ours).unwrap();
        prop_assert_eq!(ours, theirs);
    }

    #[test]
    fn udp_both_ways(addresses in addresses(), (a, b) in any::<(u16, u16)>(), body in payload()) {
        prop_assume!(b != 0);
        let (source, destination) = ends(&addresses);
        let mut theirs = vec![0; 8 + body.len()];
        UdpRepr { src_port: a, dst_port: b }.emit(
            &mut UdpPacket::new_unchecked(&mut theirs[..]), &source, &destination, body.len(),
            |place| place.copy_from_slice(&body), &ChecksumCapabilities::default(),
        );
        let mut ours = theirs.clone();
        ours[..8].fill(0xee);
        let header = udp::Header { source_port: a, destination_port: b };
        header.write(&addresses, body.len(), udp::Checksum::Computed, &mut ours).unwrap();
        prop_assert_eq!(&ours, &theirs);
        prop_assert_eq!(udp::View::parse(&theirs).unwrap().verify(&addresses), Ok(()));
    }

    #[test]
    fn they_read_the_segments_that_we_write(addresses in addresses(), segment in segment(), body in payload()) {
        prop_assume!(segment.source_port != 0 && segment.destination_port != 0);
        let mut bytes = vec![0; segment.header_bytes() + body.len()];
        bytes[segment.header_bytes()..].copy_from_slice(&body);
        tcp::build(&segment, &addresses, body.len(), &mut bytes).unwrap();
        let (source, destination) = ends(&addresses);
        let packet = TcpPacket::new_checked(&bytes[..]).unwrap();
        prop_assert!(packet.verify_checksum(&source, &destination));
        prop_assert_eq!(packet.src_port(), segment.source_port);
        prop_assert_eq!(packet.dst_port(), segment.destination_port);
        prop_assert_eq!(packet.seq_number().0 as u32, segment.sequence.0);
        prop_assert_eq!(packet.ack_number().0 as u32, segment.acknowledgement.0);
        prop_assert_eq!(packet.window_len(), segment.window);
        prop_assert_eq!(packet.urgent_at(), segment.urgent_pointer);
        prop_assert_eq!(packet.syn(), segment.flags.has(tcp::Flags::SYN));
        prop_assert_eq!(packet.ack(), segment.flags.has(tcp::Flags::ACK));
        prop_assert_eq!(packet.rst(), segment.flags.has(tcp::Flags::RST));
        prop_assert_eq!(packet.payload(), &body[..]);
        prop_assert_eq!(packet.selective_ack_permitted().unwrap(), segment.options.sack_permitted);
        let theirs: Vec<(u32, u32)> = packet.selective_ack_ranges().unwrap().into_iter().flatten().collect();
        let blocks = segment.options.sack.as_slice();
        let ours: Vec<(u32, u32)> = blocks.iter().map(|block| (block.start.0, block.end.0)).take(3).collect();
        prop_assert_eq!(&theirs[..ours.len()], &ours[..]);
    }

    #[test]
    fn we_read_the_segments_that_they_write(
        addresses in addresses(), (a, b, seq, ack, window) in any::<(u16, u16, i32, Option<i32>, u16)>(),
        (mss, scale, permitted) in (any::<Option<u16>>(), prop::option::of(0_u8..=14), any::<bool>()),
        stamps in any::<Option<(u32, u32)>>(), block in any::<Option<(u32, u32)>>(), body in payload(),
    ) {
        prop_assume!(a != 0 && b != 0);
        let repr = TcpRepr {
            src_port: a, dst_port: b, control: TcpControl::Syn, seq_number: TcpSeqNumber(seq),
            ack_number: ack.map(TcpSeqNumber), window_len: window, window_scale: scale, max_seg_size: mss,
            sack_permitted: permitted, sack_ranges: [block, None, None],
            timestamp: stamps.map(|(tsval, tsecr)| TcpTimestampRepr { tsval, tsecr }), payload: &body,
        };
        prop_assume!(repr.header_len() <= 60);
        let (source, destination) = ends(&addresses);
        let mut theirs = vec![0; repr.buffer_len()];
        repr.emit(&mut TcpPacket::new_unchecked(&mut theirs[..]), &source, &destination, &ChecksumCapabilities::default());
        let view = tcp::View::parse(&theirs).unwrap();
        prop_assert_eq!(view.verify(&addresses), Ok(()));
        prop_assert_eq!((view.source_port(), view.destination_port(), view.window()), (a, b, window));
        prop_assert_eq!(view.sequence().0, seq as u32);
        prop_assert_eq!(view.flags().has(tcp::Flags::ACK), ack.is_some());
        prop_assert_eq!(view.payload(), &body[..]);
        let options = view.options();
        prop_assert!(!options.malformed);
        prop_assert_eq!(options.maximum_segment_size, mss);
        prop_assert_eq!(options.window_scale, scale);
        prop_assert_eq!(options.timestamps.map(|stamps| (stamps.value, stamps.echo)), stamps);
        // smoltcp sends either the permission or blocks (which need an acknowledgement), never both.
        if ack.is_none() || block.is_none() {
            prop_assert_eq!(options.sack_permitted, permitted);
        }
    }
}

#[test]
fn arp_as_they_write_it() {
    let repr = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: EthernetAddress([2, 0, 0, 0, 0, 1]),
        source_protocol_addr: [10, 0, 0, 1].into(),
        target_hardware_addr: EthernetAddress([0; 6]),
        target_protocol_addr: [10, 0, 0, 2].into(),
    };
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut ArpPacket::new_unchecked(&mut bytes[..]));
    let view = arp::View::parse(&bytes).unwrap();
    assert_eq!(view.operation(), arp::Operation::Request);
    assert_eq!(view.sender_mac().0, [2, 0, 0, 0, 0, 1]);
    assert_eq!(view.target(), std::net::Ipv4Addr::new(10, 0, 0, 2));
}

#[test]
fn icmp_errors_are_read_by_them() {
    let v4 = Addresses::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into()).unwrap();
    let (Addresses::V4 { source, destination }, mut packet) = (v4, vec![0; 28]) else { unreachable!() };
    let header = ipv4::Header {
        source,
        destination,
        protocol: protocol::UDP,
        time_to_live: 3,
        type_of_service: 0,
        identification: 0,
        do_not_fragment: true,
    };
    header.write(8, &mut packet).unwrap();
    let mut out = [0; 100];
    let length = icmp::write(icmp::Kind::PortUnreachable, &packet, &v4.reversed(), &mut out).unwrap();
    let read = Icmpv4Packet::new_checked(&out[..length]).unwrap();
    let repr = Icmpv4Repr::parse(&read, &ChecksumCapabilities::default()).unwrap();
    assert!(matches!(repr, Icmpv4Repr::DstUnreachable { header, .. } if header.dst_addr == destination));

    let v6 = Addresses::new([1_u16; 8].into(), [2_u16; 8].into()).unwrap();
    let (Addresses::V6 { source, destination }, mut packet) = (v6, vec![0; 48]) else { unreachable!() };
    let header =
        ipv6::Header { source, destination, protocol: protocol::UDP, hop_limit: 3, traffic_class: 0, flow_label: 0 };
    header.write(8, &mut packet).unwrap();
    let kind = icmp::Kind::PacketTooBig { mtu: 1280 };
    let length = icmp::write(kind, &packet, &v6.reversed(), &mut out).unwrap();
    let read = Icmpv6Packet::new_checked(&out[..length]).unwrap();
    let repr = Icmpv6Repr::parse(&destination, &source, &read, &ChecksumCapabilities::default()).unwrap();
    assert!(matches!(repr, Icmpv6Repr::PktTooBig { mtu: 1280, header, .. } if header.dst_addr == destination));
}
