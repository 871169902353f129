//! Ports that are reserved for a stack: every segment to one is the stack's, and nothing else.

use sidestep_xdp_steering::{Protocol, Reason, Vlan, VlanMatch};
use std::net::{TcpListener, TcpStream};

use crate::frames::{Frame, TCP, UDP};
use crate::support::{Stage, can_run, flow, listener, set_forwarding, stack, without_forwarding};

const V4: (&str, &str) = ("10.0.0.1:61000", "10.0.0.2:6000");
const V6: (&str, &str) = ("[fd00::1]:61000", "[fd00::2]:6000");

fn reason(stage: &mut Stage, frame: &Frame) -> Reason {
    stage.rehearsal.run(&frame.bytes, 1).unwrap().reason
}

#[test]
fn segments_to_a_reserved_port_are_its_owners_and_nothing_else_is() {
    if !can_run() {
        return;
    }
    without_forwarding(|| {
        let mut stage = Stage::new();
        stage.tables().beat(stage.stack).unwrap();
        for (local, remote) in [V4, V6] {
            let segment = Frame::new(TCP, remote, local, Vlan::Untagged);
            assert_eq!(reason(&mut stage, &segment), Reason::NoEntry);
            stage.tables().add_ports(stage.stack, &[61000, 61002]).unwrap();
            assert_eq!(reason(&mut stage, &segment), Reason::Port);
            // From any peer.
            let other = remote.replace("6000", "1");
            assert_eq!(reason(&mut stage, &Frame::new(TCP, &other, local, Vlan::Untagged)), Reason::Port);
            // A neighbouring port that is left out, another transport, a VLAN, another host's frame.
            let beside = local.replace("61000", "61001");
            assert_eq!(reason(&mut stage, &Frame::new(TCP, remote, &beside, Vlan::Untagged)), Reason::NoEntry);
            assert_eq!(reason(&mut stage, &Frame::new(UDP, remote, local, Vlan::Untagged)), Reason::NoEntry);
            assert_eq!(reason(&mut stage, &Frame::new(TCP, remote, local, Vlan::Tagged(7))), Reason::NoEntry);
            let strange = Frame::new(TCP, remote, local, Vlan::Untagged).destination([2, 0, 0, 0, 0, 3]);
            assert_eq!(reason(&mut stage, &strange), Reason::ForeignMac);
            let cut = Frame::new(TCP, remote, local, Vlan::Untagged).first_fragment(8);
            assert_eq!(reason(&mut stage, &cut), Reason::DropFragment);
            // A UDP listener with the same port number is independent.
            stage.steer(&listener(Protocol::Udp, local, VlanMatch::Any));
            assert_eq!(reason(&mut stage, &Frame::new(UDP, remote, local, Vlan::Untagged)), Reason::Listener);
            stage.clear();
            stage.tables().remove_ports(stage.stack, &[61000, 61002]);
            assert_eq!(reason(&mut stage, &segment), Reason::NoEntry);
            // A flow of a VLAN takes precedence.
            stage.tables().add_ports(stage.stack, &[61000]).unwrap();
            stage.steer(&flow(Protocol::Tcp, local, remote, Vlan::Tagged(7)));
            assert_eq!(reason(&mut stage, &Frame::new(TCP, remote, local, Vlan::Tagged(7))), Reason::Flow);
            stage.clear();
            stage.tables().remove_ports(stage.stack, &[61000]);
        }
    });
}

/// The lowest port, the highest, and all of them; a silent owner, too.
#[test]
fn every_port_has_a_row_of_its_own() {
    if !can_run() {
        return;
    }
    without_forwarding(|| {
        let mut stage = Stage::new();
        stage.tables().beat(stage.stack).unwrap();
        let at = |port: u16| Frame::new(TCP, V4.1, &format!("10.0.0.1:{port}"), Vlan::Untagged);
        for port in [0, 1, 255, 256, 32768, 65535] {
            stage.tables().add_ports(stage.stack, &[port]).unwrap();
            assert_eq!(reason(&mut stage, &at(port)), Reason::Port);
            assert_eq!(reason(&mut stage, &at(port ^ 1)), Reason::NoEntry, "{port}");
            assert_eq!(stage.tables().ports_of(stage.stack), [port]);
            stage.tables().remove_ports(stage.stack, &[port]);
        }
        let all: Vec<u16> = (0..=u16::MAX).collect();
        stage.tables().add_ports(stage.stack, &all).unwrap();
        assert_eq!(stage.tables().ports_of(stage.stack).len(), all.len());
        let now_ns = stage.tables().stack(stage.stack).unwrap().heartbeat_ns;
        stage.tables().beat_at(stage.stack, now_ns + 3_600_000_000_000).unwrap();
        assert_eq!(reason(&mut stage, &at(7)), Reason::Stale);
        assert_eq!(stage.tables().stack_remove(stage.stack).unwrap().ports, 65536);
        assert_eq!(reason(&mut stage, &at(7)), Reason::NoEntry);
    });
}

#[test]
fn a_port_has_one_owner() {
    if !can_run() {
        return;
    }
    let stage = Stage::new();
    let tables = stage.tables();
    let (other, _) = stack(tables, "other");
    tables.add_ports(stage.stack, &[1, 2]).unwrap();
    tables.add_ports(stage.stack, &[1, 2]).unwrap();
    let problem = tables.add_ports(other, &[3, 2]).unwrap_err().to_string();
    assert!(problem.contains("port 2") && problem.contains("(owner)"), "{problem}");
    assert_eq!(tables.ports_of(other), [0_u16; 0], "all of them or none");
    tables.remove_ports(other, &[1, 2]);
    assert_eq!(tables.ports_of(stage.stack), [1, 2]);
    assert_eq!(tables.stack_remove(stage.stack).unwrap().ports, 2);
    tables.add_ports(other, &[1, 2, 3]).unwrap();
    assert!(tables.add_ports(stage.stack, &[9]).is_err(), "no such stack");
}

/// A frame that this host only forwards is not taken, whatever its port.
#[test]
fn what_is_forwarded_is_not_taken() {
    if !can_run() {
        return;
    }
    without_forwarding(|| {
        let mut stage = Stage::new();
        stage.tables().beat(stage.stack).unwrap();
        stage.tables().add_ports(stage.stack, &[61000]).unwrap();
        let ifindex = crate::support::ifindex("lab0");
        // lab0 has 198.18.0.1/24: a frame for its neighbour would be forwarded there.
        let there = Frame::new(TCP, "198.18.0.2:9", "198.18.0.77:61000", Vlan::Untagged);
        let ours = Frame::new(TCP, "198.18.0.2:9", "198.18.0.1:61000", Vlan::Untagged);
        let pins = crate::support::Pins::new();
        let attach = sidestep_xdp_steering::Attach {
            ifindex,
            mode: sidestep_xdp_steering::AttachMode::Native,
            directory: pins.directory(),
        };
        let _attached = sidestep_xdp_steering::Steering::attach(&attach).unwrap();
        let mut run = |frame: &Frame| stage.rehearsal.run_on(&frame.bytes, ifindex, 0).unwrap().reason;
        assert_eq!(run(&there), Reason::Port, "nothing is forwarded: the stack ignores it");
        set_forwarding(true);
        assert_eq!(run(&there), Reason::Forwarded);
        assert_eq!(run(&ours), Reason::Port);
    });
}

/// The flags of a segment.
const SYN: u8 = 0x02;
const SYN_ACK: u8 = 0x12;
const RST_ACK: u8 = 0x14;
const ACK: u8 = 0x10;

/// The outcome of a segment, and whether its port is shared with the kernel from then on.
fn run(stage: &mut Stage, remote: &str, local: &str, flags: u8) -> (Reason, bool) {
    let frame = Frame::new(TCP, remote, local, Vlan::Untagged).transport(13, &[flags]);
    let port = local.parse::<std::net::SocketAddr>().unwrap().port();
    (reason(stage, &frame), stage.tables().is_shared(port))
}

/// If control does not hold a port, the kernel gives it to others: segments for a kernel socket go there, and segments
/// for none to the owner of the port.
#[test]
fn what_a_socket_of_the_kernels_has_to_get_is_not_taken() {
    if !can_run() {
        return;
    }
    without_forwarding(|| {
        let mut stage = Stage::new();
        stage.tables().beat(stage.stack).unwrap();
        for (local, other) in [("198.18.0.1:61000", "198.18.0.2:9"), ("[2001:2::1]:61000", "[2001:2::2]:9")] {
            stage.tables().add_ports(stage.stack, &[61000]).unwrap();
            for flags in [SYN, SYN_ACK, RST_ACK, ACK] {
                assert_eq!(run(&mut stage, other, local, flags), (Reason::Port, false));
            }
            // A listener gets segments that open a connection; the stack has connections of the same port.
            let listener = TcpListener::bind(local).unwrap();
            assert_eq!(run(&mut stage, other, local, SYN_ACK), (Reason::Port, false));
            assert_eq!(run(&mut stage, other, local, RST_ACK), (Reason::Port, false));
            assert_eq!(run(&mut stage, other, local, SYN), (Reason::KernelSocket, true));
            assert_eq!(run(&mut stage, other, local, ACK), (Reason::Port, true));
            // A connection gets all of its segments.
            let client = TcpStream::connect(local).unwrap();
            let peer = client.local_addr().unwrap().to_string();
            let accepted = listener.accept().unwrap().0;
            for flags in [SYN, SYN_ACK, RST_ACK, ACK] {
                assert_eq!(run(&mut stage, &peer, local, flags), (Reason::KernelSocket, true));
            }
            assert_eq!(run(&mut stage, other, local, ACK), (Reason::Port, true));
            // Also in TIME-WAIT.
            drop((accepted, listener));
            drop(client);
            assert_eq!(run(&mut stage, &peer, local, ACK), (Reason::KernelSocket, true));
            // After a new assignment it is the stack's alone.
            stage.tables().add_ports(stage.stack, &[61000]).unwrap();
            assert_eq!(run(&mut stage, &peer, local, ACK), (Reason::Port, false));
            stage.tables().remove_ports(stage.stack, &[61000]);
        }
    });
}

/// A connecting socket gets the answer to its SYN. Other segments belong to a connection of the stack, which it would
/// reset.
#[test]
fn who_is_connecting_gets_the_answer() {
    if !can_run() {
        return;
    }
    without_forwarding(|| {
        // No host answers there.
        let neighbour = "neigh add 198.18.0.77 lladdr 02:00:00:00:00:77 dev lab0 nud permanent";
        assert!(std::process::Command::new("ip").args(neighbour.split(' ')).status().unwrap().success());
        let (local, remote) = ("198.18.0.1:61001", "198.18.0.77:9");
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.bind(&crate::support::address(local).into()).unwrap();
        let begun = socket.connect(&crate::support::address(remote).into()).unwrap_err();
        assert_eq!(begun.raw_os_error(), Some(libc::EINPROGRESS));
        let mut stage = Stage::new();
        stage.tables().beat(stage.stack).unwrap();
        stage.tables().add_ports(stage.stack, &[61001]).unwrap();
        assert_eq!(run(&mut stage, remote, local, ACK), (Reason::Port, false));
        assert_eq!(run(&mut stage, remote, local, RST_ACK), (Reason::KernelSocket, true));
        assert_eq!(run(&mut stage, remote, local, SYN_ACK), (Reason::KernelSocket, true));
        assert_eq!(run(&mut stage, remote, local, ACK), (Reason::Port, true));
    });
}
