//! One frame from a hostile neighbour, followed from Ethernet to the innermost header; what was read is written again and
//! must read the same.

#![no_main]

use sidestep_wire::ethernet::{self, EtherType};
use sidestep_wire::{Addresses, arp, icmp, ipv4, ipv6, protocol, tcp, udp};

libfuzzer_sys::fuzz_target!(|frame: &[u8]| {
    let Ok(view) = ethernet::View::parse(frame) else { return };
    let header = ethernet::Header {
        destination: view.destination(),
        source: view.source(),
        tags: view.tags(),
        ether_type: view.ether_type(),
    };
    let mut out = [0; ethernet::HEADER_BYTES_MAX];
    let length = header.write(&mut out).expect("any header fits");
    assert_eq!(out[..length], frame[..view.header_bytes()]);
    match view.ether_type() {
        EtherType::ARP => {
            let _ = arp::View::parse(view.payload()).map(|arp| (arp.operation(), arp.sender(), arp.target()));
        }
        EtherType::IPV4 => packet_v4(view.payload()),
        EtherType::IPV6 => packet_v6(view.payload()),
        _ => {}
    }
});

fn packet_v4(bytes: &[u8]) {
    let Ok(packet) = ipv4::View::parse(bytes) else { return };
    assert!(packet.header_bytes() + packet.payload().len() <= bytes.len());
    let _ = (packet.verify(), packet.is_fragment(), packet.fragment_offset());
    if packet.protocol() == protocol::ICMP {
        error(icmp::parse_v4(packet.payload()));
    }
    transport(packet.protocol(), packet.payload(), &packet.addresses());
}

fn packet_v6(bytes: &[u8]) {
    let Ok(packet) = ipv6::View::parse(bytes) else { return };
    assert!(packet.header_bytes() + packet.payload().len() <= bytes.len());
    let _ = packet.fragment().map(|fragment| fragment.is_atomic());
    if packet.protocol() == protocol::ICMPV6 {
        error(icmp::parse_v6(packet.payload(), &packet.addresses()));
    }
    transport(packet.protocol(), packet.payload(), &packet.addresses());
}

fn error(message: Result<icmp::Message<'_>, sidestep_wire::Refusal>) {
    if let Ok(icmp::Message::Error { quoted, .. }) = message {
        let _ = (quoted.ports(), quoted.sequence());
    }
}

fn transport(number: u8, bytes: &[u8], addresses: &Addresses) {
    match number {
        protocol::UDP => datagram(bytes, addresses),
        protocol::TCP => segment(bytes, addresses),
        _ => {}
    }
}

fn datagram(bytes: &[u8], addresses: &Addresses) {
    let Ok(view) = udp::View::parse(bytes) else { return };
    let _ = view.verify(addresses);
    let header = udp::Header { source_port: view.source_port(), destination_port: view.destination_port() };
    let mut again = bytes.to_vec();
    header.write(addresses, view.payload().len(), udp::Checksum::Computed, &mut again).expect("it was there before");
    let again = udp::View::parse(&again).expect("what we write can be read");
    again.verify(addresses).expect("what we write has its checksum");
    assert_eq!(again.payload(), view.payload());
}

fn segment(bytes: &[u8], addresses: &Addresses) {
    let Ok(view) = tcp::View::parse(bytes) else { return };
    let _ = view.verify(addresses);
    let options = tcp::Options { malformed: false, ..view.options() }.fitted();
    let segment = tcp::Segment {
        source_port: view.source_port(),
        destination_port: view.destination_port(),
        sequence: view.sequence(),
        acknowledgement: view.acknowledgement(),
        flags: view.flags(),
        window: view.window(),
        urgent_pointer: view.urgent_pointer(),
        options,
    };
    let mut again = vec![0; segment.header_bytes()];
    if tcp::build(&segment, addresses, 0, &mut again).is_ok() {
        let again = tcp::View::parse(&again).expect("what we write can be read");
        again.verify(addresses).expect("what we write has its checksum");
        assert_eq!(again.options(), options);
        assert_eq!(again.sequence(), view.sequence());
    }
}
