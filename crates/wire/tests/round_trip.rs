//! Built headers parse to the same values; damage is detected.

mod support;

use proptest::prelude::*;
use sidestep_wire::ethernet::EtherType;
use sidestep_wire::vlan::Tags;
use sidestep_wire::{Addresses, BuildError, Refusal, arp, ethernet, icmp, ipv4, ipv6, protocol, tcp, udp};
use support::{addresses, mac, payload, segment, tags};

/// Header and payload in one buffer, with `padding` after them.
fn in_place(header_bytes: usize, payload: &[u8], padding: usize) -> Vec<u8> {
    let mut bytes = vec![0xee; header_bytes + payload.len() + padding];
    bytes[header_bytes..header_bytes + payload.len()].copy_from_slice(payload);
    bytes
}

proptest! {
    #[test]
    fn ethernet(destination in mac(), source in mac(), tags in tags(), body in payload()) {
        let header = ethernet::Header { destination, source, tags, ether_type: EtherType::IPV4 };
        let mut frame = in_place(header.bytes(), &body, 0);
        prop_assert_eq!(header.write(&mut frame).unwrap(), header.bytes());
        let view = ethernet::View::parse(&frame).unwrap();
        let read = ethernet::Header {
            destination: view.destination(), source: view.source(), tags: view.tags(), ether_type: view.ether_type(),
        };
        prop_assert_eq!(read, header);
        prop_assert_eq!(view.header_bytes(), header.bytes());
        prop_assert_eq!(view.payload(), &body[..]);
        prop_assert_eq!(header.write(&mut frame[..header.bytes() - 1]), Err(BuildError::NoRoom));
    }

    #[test]
    fn ip_version_4(
        (source, destination) in any::<([u8; 4], [u8; 4])>(),
        (protocol, time_to_live, type_of_service, identification, do_not_fragment) in any::<(u8, u8, u8, u16, bool)>(),
        body in payload(), padding in 0_usize..50, damage in 0_usize..160,
    ) {
        let header = ipv4::Header {
            source: source.into(), destination: destination.into(), protocol, time_to_live, type_of_service,
            identification, do_not_fragment,
        };
        let mut packet = in_place(ipv4::HEADER_BYTES, &body, padding);
        prop_assert_eq!(header.write(body.len(), &mut packet).unwrap(), ipv4::HEADER_BYTES);
        let view = ipv4::View::parse(&packet).unwrap();
        let read = ipv4::Header {
            source: view.source(), destination: view.destination(), protocol: view.protocol(),
            time_to_live: view.time_to_live(), type_of_service: view.type_of_service(),
            identification: view.identification(), do_not_fragment: view.is_do_not_fragment(),
        };
        prop_assert_eq!(read, header);
        prop_assert_eq!(view.payload(), &body[..]);
        prop_assert!(!view.is_fragment() && !view.has_more_fragments() && view.options().is_empty());
        prop_assert_eq!(view.verify(), Ok(()));
        packet[damage / 8] ^= 1 << (damage % 8);
        let damaged = ipv4::View::parse(&packet).and_then(|view| view.verify());
        prop_assert!(damaged.is_err(), "one flipped bit in the header never passes");
    }

    #[test]
    fn ip_version_6(
        (source, destination) in any::<([u8; 16], [u8; 16])>(),
        (hop_limit, traffic_class) in any::<(u8, u8)>(), flow_label in 0_u32..1 << 20,
        body in payload(), padding in 0_usize..50,
    ) {
        let header = ipv6::Header {
            source: source.into(), destination: destination.into(), protocol: protocol::UDP, hop_limit, traffic_class,
            flow_label,
        };
        let mut packet = in_place(ipv6::HEADER_BYTES, &body, padding);
        header.write(body.len(), &mut packet).unwrap();
        let view = ipv6::View::parse(&packet).unwrap();
        let read = ipv6::Header {
            source: view.source(), destination: view.destination(), protocol: view.protocol(),
            hop_limit: view.hop_limit(), traffic_class: view.traffic_class(), flow_label: view.flow_label(),
        };
        prop_assert_eq!(read, header);
        prop_assert_eq!(view.payload(), &body[..]);
        prop_assert_eq!(view.fragment(), None);
    }

    #[test]
    fn udp_datagrams(
        addresses in addresses(), (source_port, destination_port) in any::<(u16, u16)>(), body in payload(),
        padding in 0_usize..9, damage in any::<prop::sample::Index>(),
    ) {
        let header = udp::Header { source_port, destination_port };
        let mut bytes = in_place(udp::HEADER_BYTES, &body, padding);
        let length = header.write(&addresses, body.len(), udp::Checksum::Computed, &mut bytes).unwrap();
        prop_assert_eq!(length, udp::HEADER_BYTES + body.len());
        let view = udp::View::parse(&bytes).unwrap();
        prop_assert_eq!((view.source_port(), view.destination_port()), (source_port, destination_port));
        prop_assert_eq!(view.payload(), &body[..]);
        prop_assert_ne!(view.checksum(), 0);
        prop_assert_eq!(view.verify(&addresses), Ok(()));
        let bit = damage.index(length * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let damaged = udp::View::parse(&bytes).and_then(|view| view.verify(&addresses));
        let became_none = bytes[6..8] == [0, 0] && matches!(addresses, Addresses::V4 { .. });
        prop_assert!(damaged.is_err() || became_none);
    }

    #[test]
    fn tcp_segments(
        addresses in addresses(), segment in segment(), body in payload(), damage in any::<prop::sample::Index>(),
    ) {
        let mut bytes = in_place(segment.header_bytes(), &body, 0);
        let length = tcp::build(&segment, &addresses, body.len(), &mut bytes).unwrap();
        prop_assert_eq!(length, bytes.len());
        let view = tcp::View::parse(&bytes).unwrap();
        let read = tcp::Segment {
            source_port: view.source_port(), destination_port: view.destination_port(), sequence: view.sequence(),
            acknowledgement: view.acknowledgement(), flags: view.flags(), window: view.window(),
            urgent_pointer: view.urgent_pointer(), options: view.options(),
        };
        prop_assert_eq!(read, segment);
        prop_assert_eq!(view.payload(), &body[..]);
        prop_assert_eq!(view.verify(&addresses), Ok(()));
        let bit = damage.index(length * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let damaged = tcp::View::parse(&bytes).and_then(|view| view.verify(&addresses));
        prop_assert!(damaged.is_err(), "one flipped bit never passes");
    }

    #[test]
    fn icmp_errors(
        addresses in addresses(), (a, b, mtu) in any::<(u16, u16, u16)>(), body in payload(), room in 36_usize..600,
    ) {
        let mut packet = udp_packet(&addresses, udp::Header { source_port: a, destination_port: b }, &body);
        let back = addresses.reversed();
        for kind in [
            icmp::Kind::NetworkUnreachable, icmp::Kind::HostUnreachable, icmp::Kind::ProtocolUnreachable,
            icmp::Kind::PortUnreachable, icmp::Kind::Prohibited, icmp::Kind::SourceRouteFailed,
            icmp::Kind::PacketTooBig { mtu: mtu.into() }, icmp::Kind::HopLimitExceeded,
            icmp::Kind::ReassemblyTimeExceeded, icmp::Kind::ParameterProblem { pointer: 20 },
        ] {
            let mut out = vec![0; room + 20];
            let length = icmp::write(kind, &packet, &back, &mut out).unwrap();
            let (read, quoted) = parse_icmp(&out[..length], &back).unwrap();
            prop_assert_eq!(read, kind);
            prop_assert_eq!(quoted.addresses, addresses);
            prop_assert_eq!(quoted.ports(), Some((a, b)));
            prop_assert_eq!(quoted.sequence(), None);
            out[length - 1] ^= 0x10;
            prop_assert_eq!(parse_icmp(&out[..length], &back).unwrap_err(), Refusal::IcmpChecksum);
        }
        packet[0] ^= 0xf0;
        prop_assert_eq!(icmp::write(icmp::Kind::PortUnreachable, &packet, &back, &mut [0; 99]), Err(BuildError::OtherVersion));
    }
}

fn udp_packet(addresses: &Addresses, header: udp::Header, body: &[u8]) -> Vec<u8> {
    let ip_bytes = if matches!(addresses, Addresses::V4 { .. }) { ipv4::HEADER_BYTES } else { ipv6::HEADER_BYTES };
    let mut packet = in_place(ip_bytes + udp::HEADER_BYTES, body, 0);
    let length = header.write(addresses, body.len(), udp::Checksum::Computed, &mut packet[ip_bytes..]).unwrap();
    match *addresses {
        Addresses::V4 { source, destination } => {
            let header = ipv4::Header {
                source,
                destination,
                protocol: protocol::UDP,
                time_to_live: 64,
                type_of_service: 0,
                identification: 1,
                do_not_fragment: true,
            };
            header.write(length, &mut packet).unwrap();
        }
        Addresses::V6 { source, destination } => {
            let protocol = protocol::UDP;
            let header = ipv6::Header { source, destination, protocol, hop_limit: 64, traffic_class: 0, flow_label: 0 };
            header.write(length, &mut packet).unwrap();
        }
    }
    packet
}

fn parse_icmp<'a>(bytes: &'a [u8], addresses: &Addresses) -> Result<(icmp::Kind, icmp::Quoted<'a>), Refusal> {
    let message = match addresses {
        Addresses::V4 { .. } => icmp::parse_v4(bytes)?,
        Addresses::V6 { .. } => icmp::parse_v6(bytes, addresses)?,
    };
    match message {
        icmp::Message::Error { kind, quoted } => Ok((kind, quoted)),
        other => panic!("not an error: {other:?}"),
    }
}

#[test]
fn udp_without_checksum_is_for_ipv4_only() {
    let v4 = Addresses::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into()).unwrap();
    let v6 = Addresses::new([1_u16; 8].into(), [2_u16; 8].into()).unwrap();
    let header = udp::Header { source_port: 1, destination_port: 2 };
    let mut bytes = [7; 12];
    assert_eq!(header.write(&v4, 4, udp::Checksum::Elided, &mut bytes), Ok(12));
    let view = udp::View::parse(&bytes).unwrap();
    assert_eq!(view.checksum(), 0);
    assert_eq!(view.verify(&v4), Ok(()));
    assert_eq!(view.verify(&v6), Err(Refusal::UdpChecksumAbsent));
    assert_eq!(header.write(&v6, 4, udp::Checksum::Elided, &mut bytes), Err(BuildError::ChecksumRequired));
}

#[test]
fn a_sum_of_zero_goes_out_as_ffff() {
    let addresses = Addresses::new([0, 0, 0, 0].into(), [0, 0, 0, 0].into()).unwrap();
    // Pseudo header: protocol 17, length 10; header: port 0, length 10; the payload makes the sum 0xffff.
    let mut bytes = in_place(udp::HEADER_BYTES, &(0xffff_u16 - 17 - 10 - 10).to_be_bytes(), 0);
    let header = udp::Header { source_port: 0, destination_port: 0 };
    header.write(&addresses, 2, udp::Checksum::Computed, &mut bytes).unwrap();
    assert_eq!(bytes[6..8], [0xff, 0xff]);
    assert_eq!(udp::View::parse(&bytes).unwrap().verify(&addresses), Ok(()));
}

#[test]
fn a_length_beyond_16_bits_is_refused() {
    let addresses = Addresses::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into()).unwrap();
    let mut out = vec![0; 70_000];
    let header = udp::Header { source_port: 1, destination_port: 2 };
    assert_eq!(header.write(&addresses, 65_528, udp::Checksum::Computed, &mut out), Err(BuildError::TooLong));
    assert_eq!(tcp::build(&tcp::Segment::default(), &addresses, 65_516, &mut out), Err(BuildError::TooLong));
    assert_eq!(tcp::build(&tcp::Segment::default(), &addresses, 10, &mut out[..29]), Err(BuildError::NoRoom));
}

#[test]
fn three_tags_and_vlan_4095_are_refused() {
    let mut frame = [0; 40];
    for at in [12, 16, 20] {
        frame[at..at + 2].copy_from_slice(&[0x81, 0x00]);
    }
    assert_eq!(ethernet::View::parse(&frame).unwrap_err(), Refusal::VlanTooManyTags);
    frame[20..22].copy_from_slice(&[0x08, 0x00]);
    assert_eq!(ethernet::View::parse(&frame).unwrap().tags().len(), 2);
    assert_eq!(ethernet::View::parse(&frame[..17]).unwrap_err(), Refusal::EthernetTruncated);
    frame[14..16].copy_from_slice(&[0x0f, 0xff]);
    assert_eq!(ethernet::View::parse(&frame).unwrap_err(), Refusal::VlanReserved);
    assert_eq!(ethernet::View::parse(&[0; 13]).unwrap_err(), Refusal::EthernetTruncated);
    assert!(Tags::NONE.is_empty());
}

#[test]
fn extension_headers_are_walked_to_the_payload() {
    let header = ipv6::Header {
        source: [1; 8].into(),
        destination: [2; 8].into(),
        protocol: 0,
        hop_limit: 1,
        traffic_class: 0,
        flow_label: 0,
    };
    // Hop-by-hop of 16 bytes, destination options of 8, authentication of 12 + 4, an atomic fragment, four bytes of UDP.
    let mut body = vec![60, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    body.extend([51, 0, 0, 0, 0, 0, 0, 0]);
    body.extend([44, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    body.extend([17, 0, 0, 0, 0, 0, 0, 9]);
    body.extend([1, 2, 3, 4]);
    let mut packet = in_place(40, &body, 3);
    header.write(body.len(), &mut packet).unwrap();
    let view = ipv6::View::parse(&packet).unwrap();
    assert_eq!((view.protocol(), view.payload()), (17, &[1, 2, 3, 4][..]));
    assert_eq!(view.extensions().len(), 48);
    let fragment = view.fragment().unwrap();
    assert!(fragment.is_atomic() && fragment.identification == 9);

    // A later fragment: the data after it is not a header, whatever it looks like.
    packet[40 + 40 + 2..40 + 40 + 4].copy_from_slice(&[0x00, 0x09]);
    packet[40 + 40] = 0;
    let view = ipv6::View::parse(&packet).unwrap();
    assert_eq!((view.protocol(), view.payload()), (0, &[1, 2, 3, 4][..]));
    assert_eq!(view.fragment().map(|fragment| (fragment.offset, fragment.more)), Some((8, true)));

    let endless = in_place(40, &[0; 8 * 9], 0);
    let mut endless = endless;
    header.write(8 * 9, &mut endless).unwrap();
    assert_eq!(ipv6::View::parse(&endless).unwrap_err(), Refusal::Ipv6TooManyExtensions);
    packet[41] = 200;
    assert_eq!(ipv6::View::parse(&packet).unwrap_err(), Refusal::Ipv6ExtensionTruncated);
}

#[test]
fn arp_is_read() {
    let mut packet =
        vec![0, 1, 8, 0, 6, 4, 0, 2, 1, 2, 3, 4, 5, 6, 10, 0, 0, 1, 7, 8, 9, 10, 11, 12, 10, 0, 0, 2, 0, 0];
    let view = arp::View::parse(&packet).unwrap();
    assert_eq!(view.operation(), arp::Operation::Reply);
    assert_eq!((view.sender_mac().0, view.sender()), ([1, 2, 3, 4, 5, 6], [10, 0, 0, 1].into()));
    assert_eq!((view.target_mac().0, view.target()), ([7, 8, 9, 10, 11, 12], [10, 0, 0, 2].into()));
    assert_eq!(arp::View::parse(&packet[..27]).unwrap_err(), Refusal::ArpTruncated);
    packet[3] = 1;
    assert_eq!(arp::View::parse(&packet).unwrap_err(), Refusal::ArpOtherNetwork);
}

#[test]
fn source_quench_is_no_error() {
    let mut message = [4, 0, 0, 0, 0, 0, 0, 0];
    message[2..4].copy_from_slice(&(!0x0400_u16).to_be_bytes());
    assert!(matches!(icmp::parse_v4(&message), Ok(icmp::Message::Other { message_type: 4, code: 0 })));
}
