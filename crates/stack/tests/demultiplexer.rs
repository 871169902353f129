//! Who gets a datagram: the order of Linux, groups and their sources, VLANs, ICMP errors.

mod support;

use sidestep_stack::tcp::{Instant, NoRoom, Outgoing};
use sidestep_stack::udp::{Bind, FlowHeader, SendError, SocketId, TableError};
use sidestep_stack::{Checksums, DropReason, Stack, Told, Verdict};
use sidestep_wire::{Addresses, MacAddress, ethernet, icmp, ipv4, ipv6, protocol};
use support::{DEVICE, TAGGED, at, frame, header, header_by, ip, receive, routes, stack};

fn bind(stack: &mut Stack, address: &str) -> SocketId {
    stack.udp().bind(&Bind::new(at(address))).unwrap()
}

/// The sockets that get the frame; empty if it is refused for want of one.
fn receivers(stack: &mut Stack, frame: &[u8]) -> Vec<SocketId> {
    match receive(stack, frame, Checksums::Verify) {
        Verdict::Deliver(datagram) => datagram.sockets.to_vec(),
        Verdict::Refused(DropReason::NoSocket | DropReason::NoMember) => Vec::new(),
        other => panic!("{other:?}"),
    }
}

fn refused(stack: &mut Stack, frame: &[u8]) -> DropReason {
    match receive(stack, frame, Checksums::Verify) {
        Verdict::Refused(reason) => reason,
        other => panic!("{other:?}"),
    }
}

fn send(source_port: u16, destination: &str) -> Vec<u8> {
    frame(&mut header(&routes(1, 2), source_port, destination), b"price")
}

#[test]
fn the_most_specific_socket_wins() {
    let mut stack = stack(&routes(2, 1));
    let datagram = send(9000, "10.0.0.2:7000");
    assert_eq!(refused(&mut stack, &datagram), DropReason::NoSocket);
    let both = bind(&mut stack, "[::]:7000");
    assert_eq!(receivers(&mut stack, &datagram), [both], "any address of IPv6 takes IPv4");
    let any = bind(&mut stack, "0.0.0.0:7000");
    assert_eq!(receivers(&mut stack, &datagram), [any]);
    let exact = bind(&mut stack, "10.0.0.2:7000");
    assert_eq!(receivers(&mut stack, &datagram), [exact]);
    let connected = bind(&mut stack, "0.0.0.0:7000");
    stack.udp().connect(connected, ip("10.0.0.2"), at("10.0.0.1:9000")).unwrap();
    assert_eq!(receivers(&mut stack, &datagram), [connected]);
    assert_eq!(receivers(&mut stack, &send(9001, "10.0.0.2:7000")), [exact], "connected to another port");
    assert_eq!(receivers(&mut stack, &send(9000, "[2001:db8::2]:7000")), [both]);
    let Verdict::Deliver(read) = receive(&mut stack, &datagram, Checksums::Verify) else { panic!("delivered before") };
    assert_eq!((read.source(), read.destination()), (at("10.0.0.1:9000"), at("10.0.0.2:7000")));
    assert_eq!((&datagram[read.payload.clone()], read.interface), (&b"price"[..], DEVICE));

    for (closed, next) in [(connected, exact), (exact, any), (any, both)] {
        stack.udp().close(closed).unwrap();
        assert_eq!(receivers(&mut stack, &datagram), [next]);
    }
    stack.udp().close(both).unwrap();
    assert_eq!(stack.udp().close(both), Err(TableError::NotOpen));
    assert!(receivers(&mut stack, &datagram).is_empty() && stack.udp().is_empty());
}

#[test]
fn connecting_moves_a_socket_and_disconnecting_moves_it_back() {
    let mut stack = stack(&routes(2, 1));
    let socket = bind(&mut stack, "10.0.0.2:7000");
    stack.udp().connect(socket, ip("10.0.0.2"), at("10.0.0.1:9000")).unwrap();
    assert!(receivers(&mut stack, &send(9001, "10.0.0.2:7000")).is_empty());
    stack.udp().connect(socket, ip("10.0.0.2"), at("10.0.0.1:9001")).unwrap();
    assert_eq!(receivers(&mut stack, &send(9001, "10.0.0.2:7000")), [socket]);
    assert!(receivers(&mut stack, &send(9000, "10.0.0.2:7000")).is_empty());
    stack.udp().disconnect(socket).unwrap();
    assert_eq!(receivers(&mut stack, &send(9000, "10.0.0.2:7000")), [socket]);
    let mixed = stack.udp().connect(socket, ip("10.0.0.2"), at("[2001:db8::1]:9000"));
    assert_eq!(mixed, Err(TableError::OtherFamily));
    assert_eq!(receivers(&mut stack, &send(9000, "10.0.0.2:7000")), [socket], "a refused call changes nothing");
}

#[test]
fn ipv6_only_means_it() {
    let mut stack = stack(&routes(2, 1));
    let only = stack.udp().bind(&Bind { only_v6: true, ..Bind::new(at("[::]:7000")) }).unwrap();
    assert!(receivers(&mut stack, &send(9000, "10.0.0.2:7000")).is_empty());
    assert_eq!(receivers(&mut stack, &send(9000, "[2001:db8::2]:7000")), [only]);
    let nothing = stack.udp().bind(&Bind::new(at("10.0.0.2:0")));
    assert_eq!(nothing, Err(TableError::NoPort));
}

#[test]
fn a_shared_port_is_shared_by_flow_and_a_reused_one_goes_to_the_last() {
    let mut shared = stack(&routes(2, 1));
    let bind = Bind { shares_port: true, ..Bind::new(at("0.0.0.0:7000")) };
    let sockets: Vec<SocketId> = (0..4).map(|_| shared.udp().bind(&bind).unwrap()).collect();
    let mut hits = [0; 4];
    for port in 9000..9400 {
        let got = receivers(&mut shared, &send(port, "10.0.0.2:7000"));
        assert_eq!(got, receivers(&mut shared, &send(port, "10.0.0.2:7000")), "a flow stays with its socket");
        hits[sockets.iter().position(|socket| *socket == got[0]).unwrap()] += 1;
    }
    assert!(hits.iter().all(|hits| *hits > 50), "400 flows over four sockets: {hits:?}");

    let mut reused = stack(&routes(2, 1));
    let bind = Bind::new(at("0.0.0.0:7000"));
    let first = reused.udp().bind(&bind).unwrap();
    let last = reused.udp().bind(&bind).unwrap();
    assert_eq!(receivers(&mut reused, &send(1, "10.0.0.2:7000")), [last]);
    reused.udp().close(last).unwrap();
    assert_eq!(receivers(&mut reused, &send(1, "10.0.0.2:7000")), [first]);
}

#[test]
fn an_interface_is_a_condition() {
    let mut stack = stack(&routes(2, 1));
    let tagged = Bind { interface: Some(TAGGED), ..Bind::new(at("0.0.0.0:7000")) };
    let tagged = stack.udp().bind(&tagged).unwrap();
    assert!(receivers(&mut stack, &send(9000, "10.0.0.2:7000")).is_empty());
    assert_eq!(receivers(&mut stack, &send(9000, "10.7.0.2:7000")), [tagged]);
    let any = bind(&mut stack, "0.0.0.0:7000");
    assert_eq!(receivers(&mut stack, &send(9000, "10.0.0.2:7000")), [any]);
    assert_eq!(receivers(&mut stack, &send(9000, "10.7.0.2:7000")), [tagged], "bound to it wins over any");
}

#[test]
fn every_member_of_a_group_gets_a_copy() {
    let mut stack = stack(&routes(2, 1));
    let feed = send(9000, "239.1.1.1:7000");
    let members: Vec<SocketId> = ["0.0.0.0:7000", "239.1.1.1:7000", "0.0.0.0:7000", "239.1.1.2:7000", "0.0.0.0:7001"]
        .map(|address| stack.udp().bind(&Bind { takes_all_groups: false, ..Bind::new(at(address)) }).unwrap())
        .to_vec();
    assert_eq!(refused(&mut stack, &feed), DropReason::NoMember);
    for member in &members {
        stack.udp().join(*member, ip("239.1.1.1"), DEVICE).unwrap();
    }
    assert_eq!(stack.udp().join(members[0], ip("239.1.1.1"), DEVICE), Err(TableError::AlreadyJoined));
    let mut got = receivers(&mut stack, &feed);
    got.sort();
    assert_eq!(got, members[..3], "not the one bound to another group, nor that on another port");
    stack.udp().leave(members[0], ip("239.1.1.1"), DEVICE).unwrap();
    assert_eq!(stack.udp().leave(members[0], ip("239.1.1.1"), DEVICE), Err(TableError::NotJoined));
    assert_eq!(receivers(&mut stack, &feed).len(), 2);
    let other_wire = frame(&mut header_by(&routes(1, 2), 9000, "239.1.1.1:7000", Some(TAGGED)), b"price");
    assert!(receivers(&mut stack, &other_wire).is_empty(), "joined on another interface");
    let hears_all = bind(&mut stack, "0.0.0.0:7000");
    assert_eq!(receivers(&mut stack, &other_wire), [hears_all]);
    assert_eq!(stack.udp().join(hears_all, ip("10.0.0.1"), DEVICE), Err(TableError::NotAGroup));
}

#[test]
fn sources_are_filtered() {
    let mut stack = stack(&routes(3, 1));
    let (one, two) = (routes(1, 3), routes(2, 3));
    for group in ["232.1.1.1", "ff3e::1234"] {
        let to = if group.contains(':') { format!("[{group}]:7000") } else { format!("{group}:7000") };
        let from = |tables| frame(&mut header_by(tables, 9000, &to, Some(DEVICE)), b"price");
        let (from_one, from_two) = (from(&one), from(&two));
        let (first, second) =
            if group.contains(':') { (ip("2001:db8::1"), ip("2001:db8::2")) } else { (ip("10.0.0.1"), ip("10.0.0.2")) };
        let socket = bind(&mut stack, &to);
        let group = ip(group);
        stack.udp().join_source(socket, group, DEVICE, first).unwrap();
        assert_eq!(receivers(&mut stack, &from_one), [socket]);
        assert!(receivers(&mut stack, &from_two).is_empty());
        stack.udp().join_source(socket, group, DEVICE, second).unwrap();
        assert_eq!(receivers(&mut stack, &from_two), [socket]);
        let mixed = stack.udp().block_source(socket, group, DEVICE, first);
        assert_eq!(mixed, Err(TableError::OtherFilter));
        stack.udp().leave_source(socket, group, DEVICE, first).unwrap();
        assert!(receivers(&mut stack, &from_one).is_empty());
        stack.udp().leave_source(socket, group, DEVICE, second).unwrap();
        assert_eq!(stack.udp().leave(socket, group, DEVICE), Err(TableError::NotJoined), "the last source was it");

        stack.udp().join(socket, group, DEVICE).unwrap();
        stack.udp().block_source(socket, group, DEVICE, second).unwrap();
        assert_eq!(receivers(&mut stack, &from_one), [socket]);
        assert!(receivers(&mut stack, &from_two).is_empty());
        stack.udp().unblock_source(socket, group, DEVICE, second).unwrap();
        assert_eq!(receivers(&mut stack, &from_two), [socket]);
        let mixed = stack.udp().join_source(socket, group, DEVICE, first);
        assert_eq!(mixed, Err(TableError::OtherFilter));
    }
}

#[test]
fn what_is_not_for_us_is_refused_with_its_reason() {
    let mut stack = stack(&routes(2, 1));
    bind(&mut stack, "0.0.0.0:7000");
    bind(&mut stack, "[::]:7000");
    let v4 = send(9000, "10.0.0.2:7000");
    let v6 = send(9000, "[2001:db8::2]:7000");
    let tagged = send(9000, "10.7.0.2:7000");
    let changed = |frame: &[u8], at: usize, bytes: &[u8]| {
        let mut frame = frame.to_vec();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        if frame[12..14] == [0x08, 0x00] {
            repair_v4(&mut frame);
        }
        frame
    };
    for (frame, reason) in [
        (v4[..13].to_vec(), DropReason::EthernetTruncated),
        (v4[..40].to_vec(), DropReason::Ipv4Truncated),
        (changed(&v4, 5, &[9]), DropReason::OtherStation),
        (changed(&v4, 12, &[0x08, 0x06]), DropReason::NotIp),
        (changed(&tagged, 15, &[71]), DropReason::VlanUnknown),
        (changed(&v4, 14, &[0x65]), DropReason::Ipv4Version),
        (changed(&v4, 14, &[0x44]), DropReason::Ipv4HeaderLength),
        (changed(&v4, 14, &[0x46]), DropReason::Ipv4Options),
        (changed(&v4, 20, &[0x20, 0]), DropReason::Fragment),
        (changed(&v4, 20, &[0, 1]), DropReason::Fragment),
        (changed(&v4, 30, &[10, 0, 0, 3]), DropReason::OtherAddress),
        (changed(&v4, 30, &[255; 4]), DropReason::Broadcast),
        (changed(&v4, 26, &[10, 0, 0, 2]), DropReason::SourceImpossible),
        (changed(&v4, 26, &[127, 0, 0, 1]), DropReason::SourceImpossible),
        (changed(&v4, 26, &[224, 0, 0, 1]), DropReason::SourceImpossible),
        (changed(&v4, 23, &[132]), DropReason::OtherProtocol),
        (changed(&v4, 38, &[0, 7]), DropReason::UdpLength),
        (changed(&v4, 38, &[0, 99]), DropReason::UdpTruncated),
        (changed(&v4, 42, b"P"), DropReason::UdpChecksum),
        (changed(&v6, 14, &[0x40]), DropReason::Ipv6Version),
        (changed(&v6, 18, &[0, 99]), DropReason::Ipv6Truncated),
        (changed(&v6, 20, &[0]), DropReason::Ipv6ExtensionTruncated),
        (changed(&v6, 22, &[0xff]), DropReason::SourceImpossible),
        (changed(&v6, 53, &[3]), DropReason::OtherAddress),
        (changed(&v6, 60, &[0, 0]), DropReason::UdpChecksumAbsent),
        (changed(&v6, 62, b"P"), DropReason::UdpChecksum),
    ] {
        let before = stack.counters().refused(reason);
        assert_eq!(refused(&mut stack, &frame), reason, "{frame:02x?}");
        assert_eq!(stack.counters().refused(reason), before + 1);
        assert!(reason.should_be_zero());
    }
    let mut damaged = v4.clone();
    damaged[24] ^= 1;
    assert_eq!(refused(&mut stack, &damaged), DropReason::Ipv4Checksum);
    let trusted = changed(&v4, 42, b"P");
    assert!(matches!(receive(&mut stack, &trusted, Checksums::Trusted), Verdict::Deliver(_)));
    let mut padded = v4.clone();
    padded.extend([0; 20]);
    let Verdict::Deliver(datagram) = receive(&mut stack, &padded, Checksums::Verify) else {
        panic!("padding is no fault")
    };
    assert_eq!(padded[datagram.payload], *b"price");
    assert_eq!(stack.counters().delivered, 2);
    assert_eq!(stack.counters().refused_total(), 27);
}

#[test]
fn checksums_that_a_local_sender_left_to_a_device_pass_and_wrong_ones_do_not() {
    let mut stack = stack(&routes(2, 1));
    bind(&mut stack, "0.0.0.0:7000");
    bind(&mut stack, "[::]:7000");
    for (destination, field) in [("10.0.0.2:7000", 40), ("[2001:db8::2]:7000", 60)] {
        let finished = send(9000, destination);
        let addresses =
            Addresses::new(ip(if field == 40 { "10.0.0.1" } else { "2001:db8::1" }), at(destination).ip()).unwrap();
        let mut unfinished = finished.clone();
        let sum = addresses.pseudo_header(protocol::UDP, 13).fold();
        unfinished[field..field + 2].copy_from_slice(&sum.to_be_bytes());
        let mut damaged = finished.clone();
        damaged[field + 2] ^= 1;
        for (frame, checksums, is_good) in [
            (&finished, Checksums::Verify, true),
            (&finished, Checksums::VerifyFinished, true),
            (&unfinished, Checksums::Verify, false),
            (&unfinished, Checksums::VerifyFinished, true),
            (&damaged, Checksums::VerifyFinished, false),
            (&damaged, Checksums::Trusted, true),
        ] {
            let verdict = receive(&mut stack, frame, checksums);
            assert_eq!(matches!(verdict, Verdict::Deliver(_)), is_good, "{checksums:?} {verdict:?}");
            assert!(is_good || matches!(verdict, Verdict::Refused(DropReason::UdpChecksum)), "{verdict:?}");
        }
    }
}

fn repair_v4(frame: &mut [u8]) {
    let header_bytes = usize::from(frame[14] & 15) * 4;
    frame[24..26].fill(0);
    let Some(header) = frame.get(14..14 + header_bytes) else { return };
    let checksum = sidestep_wire::checksum::Sum::ZERO.with(header).checksum();
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
}

/// RFC 9293 MUST-50, RFC 1122 section 3.2.1.8; a source route is not followed.
#[test]
fn options_of_ip_are_ignored_by_tcp_alone() {
    let mut stack = stack(&routes(2, 1));
    bind(&mut stack, "0.0.0.0:7000");
    let datagram = send(9000, "10.0.0.2:7000");
    let mut segment = datagram[..34].to_vec();
    segment.extend([0x23, 0x28, 0x1b, 0x58, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 16, 0, 0, 0, 0, 0]);
    segment[16..18].copy_from_slice(&40_u16.to_be_bytes());
    segment[23] = protocol::TCP;
    let with = |frame: &[u8], options: &[u8]| {
        let mut frame = frame.to_vec();
        frame.splice(34..34, options.iter().copied());
        frame[14] += options.len() as u8 / 4;
        let total = u16::from_be_bytes([frame[16], frame[17]]) + options.len() as u16;
        frame[16..18].copy_from_slice(&total.to_be_bytes());
        repair_v4(&mut frame);
        frame
    };
    // No operation; router alert; record route; an unknown kind; the end, with anything behind it.
    let good: [&[u8]; 5] = [&[1; 40], &[148, 4, 0, 0], &[7, 7, 4, 0, 0, 0, 0, 1], &[94, 3, 9, 0], &[0, 131, 255, 7]];
    for options in good {
        let frame = with(&segment, options);
        // It reaches TCP, which has no connection for it and resets.
        let mut answered = None;
        let mut output = |segment: &Outgoing<'_>| -> Result<(), NoRoom> {
            answered = Some((segment.flow.remote_port, segment.flow.local_port));
            Ok(())
        };
        let verdict = stack.receive(Instant::default, &frame, Checksums::Trusted, &mut output, &mut |_, _| 0);
        assert!(matches!(verdict, Verdict::Refused(DropReason::NoSocket)), "{options:?}");
        assert_eq!(answered, Some((9000, 7000)), "{options:?}");
        assert_eq!(refused(&mut stack, &with(&datagram, options)), DropReason::Ipv4Options, "of a datagram");
    }
    // Source routes, loose and strict, also behind others; lengths that lead nowhere or outside.
    let bad: [&[u8]; 6] = [
        &[131, 7, 4, 10, 0, 0, 9, 0],
        &[1, 137, 7, 4, 10, 0, 0, 9],
        &[148, 4, 0, 0, 131, 3, 4, 0],
        &[94, 0, 0, 0],
        &[94, 1, 0, 0],
        &[1, 1, 94, 9],
    ];
    for options in bad {
        let frame = with(&segment, options);
        let Verdict::Refused(reason) = receive(&mut stack, &frame, Checksums::Trusted) else { panic!("{options:?}") };
        assert_eq!(reason, DropReason::Ipv4Options, "{options:?}");
    }
}

#[test]
fn an_atomic_fragment_is_whole() {
    let mut stack = stack(&routes(2, 1));
    let socket = bind(&mut stack, "[::]:7000");
    let mut frame = send(9000, "[2001:db8::2]:7000");
    frame.splice(54..54, [protocol::UDP, 0, 0, 0, 0, 0, 0, 1]);
    frame[20] = 44;
    frame[19] += 8;
    assert_eq!(receivers(&mut stack, &frame), [socket]);
    frame[57] = 1;
    assert_eq!(refused(&mut stack, &frame), DropReason::Fragment);
    frame[57] = 0;
    frame[20] = 60;
    assert_eq!(refused(&mut stack, &frame), DropReason::Ipv6Extensions);
}

/// An ICMP error of host 1 about `sent`, which host 2 sent.
fn icmp_error(kind: icmp::Kind, sent: &[u8]) -> Vec<u8> {
    let packet = &sent[ethernet::HEADER_BYTES..];
    let mut frame = vec![0; 400];
    let (destination, source) = (MacAddress([2, 0, 0, 0, 0, 2]), MacAddress([2, 0, 0, 0, 0, 1]));
    let tags = sidestep_wire::vlan::Tags::NONE;
    let is_v4 = packet[0] >> 4 == 4;
    let ether_type = if is_v4 { ethernet::EtherType::IPV4 } else { ethernet::EtherType::IPV6 };
    ethernet::Header { destination, source, tags, ether_type }.write(&mut frame).unwrap();
    if is_v4 {
        let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let addresses = Addresses::V4 { source, destination };
        let length = icmp::write(kind, packet, &addresses, &mut frame[34..70]).unwrap();
        let (protocol, time_to_live) = (protocol::ICMP, 64);
        let (type_of_service, identification, do_not_fragment) = (0, 0, false);
        let ip = ipv4::Header {
            source,
            destination,
            protocol,
            time_to_live,
            type_of_service,
            identification,
            do_not_fragment,
        };
        ip.write(length, &mut frame[14..]).unwrap();
    } else {
        let addresses = Addresses::new(ip("2001:db8::1"), ip("2001:db8::2")).unwrap();
        let Addresses::V6 { source, destination } = addresses else { unreachable!() };
        let length = icmp::write(kind, packet, &addresses, &mut frame[54..]).unwrap();
        let protocol = protocol::ICMPV6;
        let ip = ipv6::Header { source, destination, protocol, hop_limit: 64, traffic_class: 0, flow_label: 0 };
        ip.write(length, &mut frame[14..]).unwrap();
    }
    frame
}

#[test]
fn errors_find_their_socket() {
    let tables = routes(2, 1);
    let mut stack = stack(&tables);
    for (own, peer) in [("10.0.0.2:7000", "10.0.0.1:9000"), ("[2001:db8::2]:7000", "[2001:db8::1]:9000")] {
        let sent = frame(&mut header(&tables, 7000, peer), &[7; 100]);
        let refusal = icmp_error(icmp::Kind::PortUnreachable, &sent);
        assert_eq!(refused(&mut stack, &refusal), DropReason::IcmpNoFlow);
        let listening = bind(&mut stack, own);
        let Verdict::Error(error) = receive(&mut stack, &refusal, Checksums::Verify) else { panic!("{own}") };
        assert_eq!((error.socket, error.is_connected, error.destination), (listening, false, at(peer)));
        let connected = bind(&mut stack, own);
        stack.udp().connect(connected, at(own).ip(), at(peer)).unwrap();
        let Verdict::Error(error) = receive(&mut stack, &refusal, Checksums::Verify) else { panic!("{own}") };
        assert_eq!((error.socket, error.is_connected, error.reporter), (connected, true, at(peer).ip()));
        assert_eq!(error.told(), Told::ConnectionRefused);
        for (mtu, told) in [(1400, 1400), (20, if at(own).is_ipv4() { 552 } else { 1280 })] {
            let too_big = icmp_error(icmp::Kind::PacketTooBig { mtu }, &sent);
            let Verdict::Error(error) = receive(&mut stack, &too_big, Checksums::Verify) else { panic!("{own}") };
            assert_eq!(error.told(), Told::MessageTooLong { mtu: told });
        }
        let mut damaged = refusal.clone();
        damaged[if at(own).is_ipv4() { 40 } else { 60 }] ^= 1;
        assert_eq!(refused(&mut stack, &damaged), DropReason::IcmpChecksum);
        let foreign = frame(&mut header(&routes(5, 1), 7000, peer), &[7; 100]);
        assert_eq!(refused(&mut stack, &icmp_error(icmp::Kind::PortUnreachable, &foreign)), DropReason::IcmpNoFlow);
    }
    assert_eq!(stack.counters().errors, 8);
}

#[test]
fn what_exceeds_the_path_is_refused_before_it_is_sent() {
    let tables = routes(1, 2);
    for (to, payload_max) in [("10.0.0.2:7000", 1472), ("[2001:db8::2]:7000", 1452)] {
        let mut header = header(&tables, 9000, to);
        assert_eq!(header.payload_max(), payload_max);
        let mut frame = vec![0; 3000];
        assert_eq!(header.write(&mut frame, payload_max), Ok(header.bytes() + payload_max));
        assert_eq!(header.write(&mut frame, payload_max + 1), Err(SendError::TooLong { payload_max, mtu: 1500 }));
        header.set_mtu(1300);
        assert_eq!(
            header.write(&mut frame, payload_max),
            Err(SendError::TooLong { payload_max: payload_max - 200, mtu: 1300 })
        );
        assert_eq!(header.write(&mut frame[..50], 40), Err(SendError::NoRoom));
        header.set_mtu(u32::MAX);
        let most = if at(to).is_ipv4() { 65_507 } else { 65_527 };
        assert_eq!(header.payload_max(), most);
        assert_eq!(header.write(&mut vec![0; 70_000], most), Ok(header.bytes() + most));
        header.set_mtu(0);
        assert_eq!(header.payload_max(), 0);
    }
}

#[test]
fn many_sockets_are_told_apart() {
    let mut stack = stack(&routes(2, 1));
    let sockets: Vec<SocketId> =
        (0..10_000_u16).map(|number| bind(&mut stack, &format!("10.0.0.2:{}", 10_000 + number))).collect();
    let mut header: FlowHeader = header(&routes(1, 2), 9000, "10.0.0.2:10000");
    for (number, socket) in sockets.iter().enumerate().step_by(97) {
        let to = format!("10.0.0.2:{}", 10_000 + number);
        assert_eq!(receivers(&mut stack, &send(9000, &to)), [*socket]);
    }
    assert_eq!(receivers(&mut stack, &frame(&mut header, b"x")), [sockets[0]]);
    for socket in &sockets {
        stack.udp().close(*socket).unwrap();
    }
    assert!(stack.udp().is_empty());
    let again = bind(&mut stack, "10.0.0.2:10000");
    assert!(again.index() < sockets.len(), "places are used again");
}
