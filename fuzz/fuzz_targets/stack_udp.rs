//! A stack with sockets of every kind, and frames from a hostile neighbour: some as they are, some with their checksums
//! made right, so that they get further.

#![no_main]

use sidestep_stack::tcp::{Config, Instant, NoRoom, Outgoing, Secret, Tcp};
use sidestep_stack::udp::Bind;
use sidestep_stack::{Checksums, Host, Interface, DropReason, Stack, Verdict};
use sidestep_wire::checksum::{Sum, udp_form};
use sidestep_wire::vlan::VlanId;
use sidestep_wire::{Addresses, MacAddress, ethernet, ipv4, ipv6, protocol};
use std::net::{IpAddr, SocketAddr};

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

fn ip(text: &str) -> IpAddr {
    text.parse().expect("written here")
}

fn at(text: &str) -> SocketAddr {
    text.parse().expect("written here")
}

fn stack() -> Stack {
    let interfaces =
        [Interface { index: 2, mac: MAC, vlan: None }, Interface { index: 3, mac: MAC, vlan: VlanId::new(70) }];
    let host = Host::new(&interfaces, &[ip("10.0.0.2"), ip("2001:db8::2")]).expect("few");
    let tcp = Tcp::new(Config::latency(), Secret([1, 2, 3, 4]), Instant::default());
    let mut stack = Stack::new(host, tcp);
    let udp = stack.udp();
    for address in ["0.0.0.0:1", "10.0.0.2:2", "[::]:3", "[2001:db8::2]:4", "239.0.0.1:5", "[ff0e::1]:5"] {
        let socket = udp.bind(&Bind::new(at(address))).expect("room");
        if at(address).ip().is_multicast() {
            udp.join_source(socket, at(address).ip(), 2, ip("10.0.0.1")).expect("once");
        }
    }
    let connected = udp.bind(&Bind::new(at("10.0.0.2:6"))).expect("room");
    udp.connect(connected, ip("10.0.0.2"), at("10.0.0.1:7")).expect("one family");
    stack
}

/// Byte 0 says what is made right before the frame is received.
fn repaired(data: &[u8]) -> Option<(Vec<u8>, Checksums)> {
    let (&how, frame) = data.split_first()?;
    let mut frame = frame.to_vec();
    if how & 1 != 0 {
        frame.get_mut(..6)?.copy_from_slice(&MAC.0);
    }
    let Ok(view) = ethernet::View::parse(&frame) else { return Some((frame, Checksums::Verify)) };
    let at = view.header_bytes();
    if how & 2 != 0 {
        repair_ip(frame.get_mut(at..)?, how & 4 != 0);
    }
    let checksums = match how & 24 {
        8 => Checksums::Trusted,
        16 => Checksums::VerifyFinished,
        _ => Checksums::Verify,
    };
    Some((frame, checksums))
}

fn repair_ip(packet: &mut [u8], with_transport: bool) {
    let header_bytes = packet.first().map_or(0, |first| usize::from(first & 15) * 4);
    if header_bytes >= ipv4::HEADER_BYTES && packet.len() >= header_bytes && packet[0] >> 4 == 4 {
        packet[10..12].fill(0);
        let checksum = Sum::ZERO.with(&packet[..header_bytes]).checksum();
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
    if !with_transport {
        return;
    }
    let parts = ipv4::View::parse(packet)
        .map(|view| (view.addresses(), view.protocol(), view.payload().len()))
        .or_else(|_| ipv6::View::parse(packet).map(|view| (view.addresses(), view.protocol(), view.payload().len())));
    if let Ok((addresses, number, length)) = parts {
        let start = if packet[0] >> 4 == 4 { header_bytes } else { ipv6::HEADER_BYTES };
        if let Some(transport) = packet.get_mut(start..start + length) {
            repair_transport(&addresses, number, transport);
        }
    }
}

fn repair_transport(addresses: &Addresses, number: u8, bytes: &mut [u8]) {
    let (place, pseudo) = match number {
        protocol::UDP if bytes.len() >= 8 => (6, addresses.pseudo_header(number, bytes.len() as u32)),
        protocol::ICMP if bytes.len() >= 8 => (2, Sum::ZERO),
        protocol::ICMPV6 if bytes.len() >= 8 => (2, addresses.pseudo_header(number, bytes.len() as u32)),
        _ => return,
    };
    if number == protocol::UDP {
        let length = bytes.len() as u16;
        bytes[4..6].copy_from_slice(&length.to_be_bytes());
    }
    bytes[place..place + 2].fill(0);
    let checksum = udp_form(pseudo.with(bytes).checksum());
    bytes[place..place + 2].copy_from_slice(&checksum.to_be_bytes());
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((frame, checksums)) = repaired(data) else { return };
    let mut stack = stack();
    let open = stack.udp().len();
    let mut answers = 0;
    let mut output = |segment: &Outgoing<'_>| -> Result<(), NoRoom> {
        assert!(!segment.flow.addresses.source().is_multicast());
        answers += 1;
        Ok(())
    };
    match stack.receive(Instant::default, &frame, checksums, &mut output, &mut |_, _| 0) {
        Verdict::Deliver(datagram) => {
            assert!(!datagram.sockets.is_empty() && datagram.sockets.len() <= open);
            assert!(datagram.sockets.iter().all(|socket| socket.index() < open));
            assert!(frame.get(datagram.payload.clone()).is_some());
            assert!(datagram.payload.start >= 42);
            let local = datagram.destination().ip();
            assert!(local.is_multicast() || local == ip("10.0.0.2") || local == ip("2001:db8::2"));
            assert!(!datagram.source().ip().is_multicast());
        }
        Verdict::Segment(received) => panic!("there is no connection and no listener: {received:?}"),
        Verdict::Error(error) => {
            assert!(error.socket.index() < open);
            let _ = error.told();
        }
        Verdict::Refused(reason) => {
            assert!(DropReason::ALL.contains(&reason));
            assert_eq!((stack.counters().refused(reason), stack.counters().refused_total()), (1, 1));
        }
    }
    assert!(answers <= 1, "a reset");
});
