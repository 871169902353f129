//! All cases: a frame, the entries in the tables, and the expected outcome. A reason without a case fails the test.

use std::collections::HashSet;

use sidestep_xdp_steering::{MapEntry, Protocol, Reason, Rehearsal, Vlan, VlanMatch};

use crate::frames::{Frame, OWN_MAC, TCP, UDP};
use crate::support::{FRAME_BYTES_MAX, Stage, can_run, flow, group, listener, without_forwarding};

/// The two families, each with the data that the cases need.
struct Family {
    local: &'static str,
    other_local: &'static str,
    any: &'static str,
    remote: &'static str,
    other_remote: &'static str,
    group: &'static str,
    source: &'static str,
    other_source: &'static str,
}

const IPV4: Family = Family {
    local: "10.0.0.1:5000",
    other_local: "10.0.0.1:5001",
    any: "0.0.0.0:5000",
    remote: "10.0.0.2:6000",
    other_remote: "10.0.0.2:6001",
    group: "239.129.2.3:5000",
    source: "10.0.0.2",
    other_source: "10.0.0.3",
};

const IPV6: Family = Family {
    local: "[fd00::1]:5000",
    other_local: "[fd00::1]:5001",
    any: "[::]:5000",
    remote: "[fd00::2]:6000",
    other_remote: "[fd00::2]:6001",
    group: "[ff15::8182:304]:5000",
    source: "fd00::2",
    other_source: "fd00::3",
};

const VLANS: [Vlan; 3] = [Vlan::Untagged, Vlan::Tagged(100), Vlan::Double { outer: 100, inner: 200 }];

const TRANSPORTS: [(u8, Protocol); 2] = [(TCP, Protocol::Tcp), (UDP, Protocol::Udp)];

/// The entries in the tables, the frame, the expected outcome.
type Case = (Vec<MapEntry>, Frame, Reason);

fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for family in [&IPV4, &IPV6] {
        for vlan in VLANS {
            for (number, protocol) in TRANSPORTS {
                unicast(family, vlan, number, protocol, &mut cases);
                spoiled(family, vlan, number, protocol, &mut cases);
            }
            multicast(family, vlan, &mut cases);
            segments_in_pieces(family, vlan, &mut cases);
        }
    }
    options(&mut cases);
    spoiled_ipv4(&mut cases);
    spoiled_ipv6(&mut cases);
    ethernet(&mut cases);
    cases
}

fn another(vlan: Vlan) -> Vlan {
    if vlan == Vlan::Tagged(101) { Vlan::Untagged } else { Vlan::Tagged(101) }
}

fn unicast(family: &Family, vlan: Vlan, number: u8, protocol: Protocol, cases: &mut Vec<Case>) {
    let Family { local, other_local, any, remote, other_remote, .. } = family;
    let frame = || Frame::new(number, remote, local, vlan);
    let other = if protocol == Protocol::Tcp { Protocol::Udp } else { Protocol::Tcp };
    let exact = VlanMatch::Only(vlan);
    let cases_here = [
        (vec![flow(protocol, local, remote, vlan)], Reason::Flow),
        (vec![flow(protocol, local, other_remote, vlan)], Reason::NoEntry),
        (vec![flow(protocol, other_local, remote, vlan)], Reason::NoEntry),
        (vec![flow(protocol, local, remote, another(vlan))], Reason::NoEntry),
        (vec![flow(other, local, remote, vlan)], Reason::NoEntry),
        (vec![flow(protocol, local, remote, vlan), listener(protocol, local, exact)], Reason::Flow),
        (vec![listener(protocol, local, exact)], Reason::Listener),
        (vec![listener(protocol, any, exact)], Reason::Listener),
        (vec![listener(protocol, local, VlanMatch::Any)], Reason::Listener),
        (vec![listener(protocol, any, VlanMatch::Any)], Reason::Listener),
        (vec![listener(protocol, other_local, VlanMatch::Any)], Reason::NoEntry),
        (vec![listener(other, any, VlanMatch::Any)], Reason::NoEntry),
        (vec![listener(protocol, any, VlanMatch::Only(another(vlan)))], Reason::NoEntry),
        (vec![], Reason::NoEntry),
    ];
    cases.extend(cases_here.map(|(entries, reason)| (entries, frame(), reason)));
    // A frame padded by a switch, and one of the maximum length of the sockets, are ordinary.
    let entries = vec![flow(protocol, local, remote, vlan)];
    cases.push((entries.clone(), frame().padded(9), Reason::Flow));
    let room = FRAME_BYTES_MAX as usize - frame().bytes.len();
    cases.push((entries.clone(), frame().padded(room), Reason::Flow));
    let too_long = if protocol == Protocol::Tcp { Reason::DropTooLong } else { Reason::TooLong };
    cases.push((entries, frame().padded(room + 1), too_long));
    cases.push((Vec::new(), frame().padded(room + 1), Reason::NoEntry));
}

fn multicast(family: &Family, vlan: Vlan, cases: &mut Vec<Case>) {
    let Family { local, remote, group: to, source, other_source, .. } = family;
    let exact = VlanMatch::Only(vlan);
    let frame = || Frame::new(UDP, remote, to, vlan);
    let cases_here = [
        (vec![group(to, None, exact)], Reason::Group),
        (vec![group(to, None, VlanMatch::Any)], Reason::Group),
        (vec![group(to, Some(source), exact)], Reason::Group),
        (vec![group(to, Some(source), VlanMatch::Any)], Reason::Group),
        (vec![group(to, Some(other_source), VlanMatch::Any)], Reason::NoGroup),
        (vec![group(to, None, VlanMatch::Only(another(vlan)))], Reason::NoGroup),
        (vec![listener(Protocol::Udp, family.any, VlanMatch::Any)], Reason::NoGroup),
        (vec![], Reason::NoGroup),
    ];
    cases.extend(cases_here.map(|(entries, reason)| (entries, frame(), reason)));
    let joined = || vec![group(to, None, VlanMatch::Any), listener(Protocol::Udp, local, VlanMatch::Any)];
    let own = Frame::new(UDP, remote, local, vlan).bytes[..6].try_into().unwrap();
    let of_group: [u8; 6] = frame().bytes[..6].try_into().unwrap();
    let mut of_other_group = of_group;
    of_other_group[5] ^= 1;
    cases.push((joined(), frame().destination(own), Reason::ForeignMac));
    cases.push((joined(), frame().destination(of_other_group), Reason::ForeignMac));
    cases.push((joined(), Frame::new(UDP, remote, local, vlan).destination(of_group), Reason::ForeignMac));
    cases.push((joined(), Frame::new(UDP, remote, local, vlan).destination([0xff; 6]), Reason::ForeignMac));
    cases.push((joined(), Frame::new(TCP, remote, to, vlan), Reason::NoGroup));
}

/// A modified frame of an owned flow: it goes to the kernel.
fn spoiled(family: &Family, vlan: Vlan, number: u8, protocol: Protocol, cases: &mut Vec<Case>) {
    let Family { local, remote, .. } = family;
    let frame = || Frame::new(number, remote, local, vlan);
    let owned = || vec![flow(protocol, local, remote, vlan), listener(protocol, family.any, VlanMatch::Any)];
    let mut add = |frame: Frame, reason| cases.push((owned(), frame, reason));
    let (length, protocol_at) = if frame().is_ipv4() { (2, 9) } else { (4, 6) };
    let icmp = if frame().is_ipv4() { 1 } else { 58 };
    add(frame().ip(0, &[0x55]), Reason::BadIp);
    add(frame().ip(length, &[0xff, 0xff]), Reason::BadIp);
    add(frame().ip(protocol_at, &[icmp]), Reason::Icmp);
    for other in [2, 4, 41, 47, 50, 59, 89, 103, 112, 132, 136, 253] {
        add(frame().ip(protocol_at, &[other]), Reason::OtherProtocol);
    }
    add(frame().destination([0x02, 0, 0, 0, 0, 0x03]), Reason::ForeignMac);
    add(frame().destination([0xff; 6]), Reason::ForeignMac);
    // The IP packet ends inside the transport header.
    let short: u16 = if frame().is_ipv4() { 20 + 7 } else { 7 };
    add(frame().ip(length, &short.to_be_bytes()), Reason::BadTransport);
    match protocol {
        Protocol::Udp => {
            for bytes in [0_u16, 7, 18, 20] {
                add(frame().transport(4, &bytes.to_be_bytes()), Reason::BadTransport);
            }
        }
        Protocol::Tcp => {
            for words in [0_u8, 4, 8, 15] {
                add(frame().transport(12, &[words << 4]), Reason::BadTransport);
            }
            // Options that fit are ordinary.
            add(frame().transport(12, &[7 << 4]), Reason::Flow);
        }
    }
}

/// Segments that the kernel must not get, because it would reset a stack's connection; and those that stay with it.
fn segments_in_pieces(family: &Family, vlan: Vlan, cases: &mut Vec<Case>) {
    let Family { local, remote, .. } = family;
    let exact = || vec![flow(Protocol::Tcp, local, remote, vlan)];
    let frame = || Frame::new(TCP, remote, local, vlan);
    let mut add = |entries, frame, reason| cases.push((entries, frame, reason));
    // The minimum of a fragment, more than the header, and the header truncated.
    for bytes in [8, 16, 24] {
        add(exact(), frame().first_fragment(bytes), Reason::DropFragment);
        add(
            vec![listener(Protocol::Tcp, family.any, VlanMatch::Any)],
            frame().first_fragment(bytes),
            Reason::DropFragment,
        );
        add(Vec::new(), frame().first_fragment(bytes), Reason::Fragment);
        add(vec![flow(Protocol::Udp, local, remote, vlan)], frame().first_fragment(bytes), Reason::Fragment);
        add(
            vec![flow(Protocol::Tcp, family.other_local, remote, vlan)],
            frame().first_fragment(bytes),
            Reason::Fragment,
        );
        add(vec![flow(Protocol::Tcp, local, remote, another(vlan))], frame().first_fragment(bytes), Reason::Fragment);
        add(exact(), frame().first_fragment(bytes).destination([2, 0, 0, 0, 0, 3]), Reason::Fragment);
        // The kernel reassembles datagrams, for the socket beside ours.
        let datagram = Frame::new(UDP, remote, local, vlan).first_fragment(bytes.min(16));
        add(vec![flow(Protocol::Udp, local, remote, vlan)], datagram, Reason::Fragment);
    }
    // Too short for ports: no sender fragments like this.
    add(exact(), frame().first_fragment(3), Reason::Fragment);
    if frame().is_ipv4() {
        for place in [[0x20, 1], [0, 1], [0x1f, 0xff]] {
            add(exact(), frame().ip(6, &place), Reason::Fragment);
        }
        add(exact(), frame().options(&[1, 1, 1, 0]).ip(6, &[0x20, 0]), Reason::DropFragment);
    } else {
        add(exact(), frame().fragment_header(0, false), Reason::Flow);
        add(exact(), frame().fragment_header(1, true), Reason::Fragment);
        add(exact(), frame().fragment_header(1, false), Reason::Fragment);
        let datagram = Frame::new(UDP, remote, local, vlan).fragment_header(0, false);
        add(vec![flow(Protocol::Udp, local, remote, vlan)], datagram, Reason::Fragment);
    }
}

/// TCP ignores IP options; for datagrams, the kernel's socket handles them.
fn options(cases: &mut Vec<Case>) {
    let Family { local, remote, .. } = IPV4;
    for bytes in [4, 8, 40] {
        let options = vec![1; bytes];
        for vlan in VLANS {
            let tcp = Frame::new(TCP, remote, local, vlan).options(&options);
            cases.push((vec![flow(Protocol::Tcp, local, remote, vlan)], tcp.clone(), Reason::Flow));
            cases.push((vec![listener(Protocol::Tcp, local, VlanMatch::Any)], tcp.clone(), Reason::Listener));
            cases.push((Vec::new(), tcp.clone(), Reason::NoEntry));
            // The packet ends inside the TCP header.
            let short = (20 + bytes as u16 + 19).to_be_bytes();
            cases.push((vec![flow(Protocol::Tcp, local, remote, vlan)], tcp.ip(2, &short), Reason::BadTransport));
            let udp = Frame::new(UDP, remote, local, vlan).options(&options);
            cases.push((vec![flow(Protocol::Udp, local, remote, vlan)], udp, Reason::IpOptions));
        }
    }
}

fn spoiled_ipv4(cases: &mut Vec<Case>) {
    let Family { local, remote, .. } = IPV4;
    let frame = || Frame::new(UDP, remote, local, Vlan::Untagged);
    let owned = vec![listener(Protocol::Udp, IPV4.any, VlanMatch::Any)];
    let mut add = |frame: Frame, reason| cases.push((owned.clone(), frame, reason));
    add(frame().ip(6, &[0x20, 0x00]), Reason::Fragment);
    add(frame().ip(6, &[0x00, 0x01]), Reason::Fragment);
    add(frame().ip(6, &[0x1f, 0xff]), Reason::Fragment);
    add(frame().ip(0, &[0x46]), Reason::IpOptions);
    add(frame().ip(0, &[0x44]), Reason::BadIp);
    add(frame().ip(0, &[0x4f]), Reason::BadIp);
    add(frame().ip(2, &[0, 19]), Reason::BadIp);
    add(frame().ip(8, &[0]), Reason::Listener); // The time to live is not examined.
    for source in [[0, 0, 0, 0], [0, 1, 2, 3], [127, 0, 0, 1], [239, 1, 2, 3], [240, 0, 0, 1], [255, 255, 255, 255]] {
        add(frame().ip(12, &source), Reason::OddSource);
    }
    add(frame().ip(12, &[126, 255, 255, 255]), Reason::Listener);
    add(frame().ip(12, &[223, 255, 255, 255]), Reason::Listener);
}

fn spoiled_ipv6(cases: &mut Vec<Case>) {
    let Family { local, remote, .. } = IPV6;
    let frame = || Frame::new(UDP, remote, local, Vlan::Untagged);
    let owned = vec![listener(Protocol::Udp, IPV6.any, VlanMatch::Any)];
    let mut add = |frame: Frame, reason| cases.push((owned.clone(), frame, reason));
    add(frame().ip(6, &[44]), Reason::Fragment);
    for extension in [0, 43, 51, 60, 135, 139, 140] {
        add(frame().ip(6, &[extension]), Reason::Ipv6Extension);
    }
    add(frame().ip(4, &[0, 0]), Reason::BadTransport); // A jumbogram has its length in an option, which is missing here.
    add(frame().ip(7, &[0]), Reason::Listener); // The hop limit is not examined.
    for source in ["::", "::1", "::ffff:10.0.0.2", "ff02::1"] {
        let source: std::net::Ipv6Addr = source.parse().unwrap();
        add(frame().ip(8, &source.octets()), Reason::OddSource);
    }
}

fn ethernet(cases: &mut Vec<Case>) {
    let Family { local, remote, .. } = IPV4;
    let frame = || Frame::new(UDP, remote, local, Vlan::Untagged);
    let owned = vec![listener(Protocol::Udp, IPV4.any, VlanMatch::Any)];
    let mut add = |frame: Frame, reason| cases.push((owned.clone(), frame, reason));
    let kind = |kind: u16| {
        let mut frame = frame();
        frame.bytes[12..14].copy_from_slice(&kind.to_be_bytes());
        frame
    };
    // ARP, LLDP, PTP, EtherCAT, and the length of an IEEE 802.3 frame.
    for other in [0x0806, 0x88cc, 0x88f7, 0x88a4, 0x0040] {
        add(kind(other), Reason::NotIp);
    }
    add(frame().tagged(0x8100, 1).tagged(0x8100, 2).tagged(0x88a8, 3), Reason::VlanDepth);
    // A tag with id 0 is a priority and not a VLAN.
    let untagged = vec![listener(Protocol::Udp, IPV4.any, VlanMatch::Only(Vlan::Untagged))];
    cases.push((untagged, frame().tagged(0x8100, 0xe000), Reason::Listener));
    // A VLAN's frame does not match a flow without VLAN, nor the other way round.
    let one = vec![flow(Protocol::Udp, local, remote, Vlan::Tagged(1))];
    cases.push((one.clone(), frame().tagged(0x8100, 2), Reason::NoEntry));
    cases.push((one.clone(), frame(), Reason::NoEntry));
    cases.push((one.clone(), frame().tagged(0x8100, 3).tagged(0x8100, 1), Reason::NoEntry));
    cases.push((one, frame().tagged(0x8100, 1), Reason::Flow));
    let no = Vec::new;
    cases.push((no(), frame().cut(14), Reason::Truncated));
    cases.push((no(), frame().cut(33), Reason::Truncated));
    cases.push((no(), frame().tagged(0x8100, 1).cut(16), Reason::Truncated));
    cases.push((no(), frame().tagged(0x8100, 1).tagged(0x8100, 1).cut(20), Reason::Truncated));
    cases.push((no(), Frame::new(UDP, IPV6.remote, IPV6.local, Vlan::Untagged).cut(53), Reason::Truncated));
}

/// Reasons that do not depend on the frame: each has its own test in `verdicts`, `jumbo`, `ports`, `handed_over` or `feeds`, StackGone in the
/// crate's unit tests.
const ELSEWHERE: [Reason; 12] = [
    Reason::Disabled,
    Reason::StackGone,
    Reason::Stale,
    Reason::Queue,
    Reason::NoSocket,
    Reason::Forwarded,
    Reason::Port,
    Reason::DropQueue,
    Reason::SplitHeader,
    Reason::KernelSocket,
    Reason::HandedOver,
    Reason::Ring,
];

#[test]
fn every_frame_goes_where_it_must() {
    if can_run() {
        without_forwarding(|| run_all(Stage::new()));
    }
}

#[test]
fn on_an_older_kernel_every_frame_goes_the_same_way() {
    if can_run() {
        let rehearsal = Rehearsal::for_older_kernels(OWN_MAC).unwrap();
        without_forwarding(|| run_all(Stage::over(rehearsal, 60, FRAME_BYTES_MAX)));
    }
}

fn run_all(mut stage: Stage) {
    let mut seen = HashSet::from(ELSEWHERE);
    for (number, (entries, frame, reason)) in all().into_iter().enumerate() {
        for entry in &entries {
            stage.steer(entry);
        }
        let outcome = stage.rehearsal.run(&frame.bytes, 1).unwrap();
        assert_eq!(outcome.reason, reason, "case {number}: {entries:?} {:02x?}", frame.bytes);
        assert_eq!(outcome.verdict, reason.verdict());
        seen.insert(reason);
        stage.clear();
    }
    let missing: Vec<_> = Reason::ALL.iter().filter(|reason| !seen.contains(reason)).collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
}
