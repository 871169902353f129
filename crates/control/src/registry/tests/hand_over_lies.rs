//! Hand-overs whose record, bytes or socket are not what they claim to be, made for real where this process may (TCP_REPAIR): whatever
//! is claimed, nothing panics, hangs or is left behind.

use super::hand_overs::{Owner, bytes, record, tcp};
use super::*;
use rustix::fs::ftruncate;
use rustix::net::bind;
use sidestep_control_api::message::{HandOver, QUEUE_BYTES_MAX};
use sidestep_sys::memory::memfd;
use sidestep_sys::process::is_root;
use sidestep_sys::socket::{TcpState, tcp_state};
use sidestep_sys::tcp_repair;
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Times that a memfd is read while it changes.
const READINGS: usize = 60;

/// Bytes of a queue that takes the kernel several pieces.
const MANY: u32 = 1 << 20;

/// A connection of this host with itself, which the kernel can make: nobody is at the other end.
fn near() -> HandOver {
    HandOver { remote: "127.0.0.2:8".parse().unwrap(), ..record() }
}

fn can_repair() -> bool {
    if !is_root() {
        println!("skipped: needs root");
    }
    is_root()
}

/// Neither in repair mode nor listening: what anybody may leave a socket in.
fn assert_ordinary(socket: &OwnedFd, claim: &str) {
    assert!(!tcp_repair::is_on(socket.as_fd()).unwrap(), "{claim}: in repair mode");
    assert_ne!(tcp_state(socket.as_fd()).unwrap(), TcpState::Listening, "{claim}");
}

type Change = fn(&mut HandOver, u32);

/// Each field with each value: what is refused leaves the socket unconnected, what is made is the claimant's own harm.
#[test]
fn lies_in_each_field_leave_nothing_behind() {
    const NUMBERS: [u32; 9] = [0, 1, 47, 1 << 16, 1 << 20, (1 << 30) + 1, i32::MAX as u32, 1 << 31, u32::MAX];
    let fields: [(&str, Change); 20] = [
        ("send_start", |it, number| it.send_start = number),
        ("has_acknowledged", |it, number| (it.has_acknowledged, it.send_start) = (true, number)),
        ("unacknowledged", |it, number| it.unacknowledged = number),
        ("unsent", |it, number| it.unsent = number),
        ("receive_end", |it, number| it.receive_end = number),
        ("received", |it, number| it.received = number),
        ("own_fin", |it, number| it.own_fin = number != 0),
        ("is_fin_sent", |it, number| (it.own_fin, it.is_fin_sent, it.unsent) = (true, true, number)),
        ("peer_fin", |it, number| it.peer_fin = number != 0),
        ("segment_bytes", |it, number| it.segment_bytes = number as u16),
        ("sack", |it, number| it.sack = number != 0),
        ("send_shift", |it, number| it.send_shift = number as u8),
        ("receive_shift", |it, number| it.receive_shift = number as u8),
        ("our clock", |it, number| it.timestamps = Some((number, 1))),
        ("the peer's clock", |it, number| it.timestamps = Some((1, number))),
        ("send_window", |it, number| it.send_window = number),
        ("send_window_max", |it, number| it.send_window_max = number),
        ("both windows", |it, number| (it.send_window, it.send_window_max) = (number, number)),
        ("send_update", |it, number| it.send_update = number),
        ("receive_window", |it, number| it.receive_window = number),
    ];
    if !can_repair() {
        return;
    }
    let (mut made, mut refused) = (0, 0);
    for (field, change) in fields {
        for number in NUMBERS {
            let claim = format!("{field} {number}");
            let mut owner = Owner::new();
            let mut lie = near();
            change(&mut lie, number);
            owner.has(&lie);
            let socket = tcp();
            let copy = socket.try_clone().unwrap();
            match owner.hand_over(lie, vec![socket, bytes(9)]) {
                None => made += 1,
                Some(_) => {
                    refused += 1;
                    assert!(owner.has_left_nothing(), "{claim}");
                    assert_eq!(tcp_state(copy.as_fd()).unwrap(), TcpState::Closed, "{claim}");
                }
            }
            assert_ordinary(&copy, &claim);
        }
    }
    assert!(made > 20 && refused > 20, "{made} made, {refused} refused");
}

/// Addresses and ports that are not a connection's, or of others.
#[test]
fn ends_that_no_connection_has_are_refused() {
    let mut owner = Owner::new();
    let ends = [
        ("127.0.0.1:0", "198.18.0.2:8"),
        ("127.0.0.1:7", "198.18.0.2:0"),
        ("0.0.0.0:7", "198.18.0.2:8"),
        ("127.0.0.1:7", "0.0.0.0:8"),
        ("127.0.0.1:7", "255.255.255.255:8"),
        ("127.0.0.1:7", "239.1.1.1:8"),
        ("239.1.1.1:7", "198.18.0.2:8"),
        ("[::1]:7", "[::]:8"),
        ("[::1]:7", "[ff02::1]:8"),
        ("[::ffff:127.0.0.1]:7", "[::ffff:198.18.0.2]:8"),
        ("127.0.0.1:7", "[2001:db8::2]:8"),
        ("198.18.0.9:7", "198.18.0.2:8"),
    ];
    for (local, remote) in ends {
        let lie = HandOver { local: local.parse().unwrap(), remote: remote.parse().unwrap(), ..record() };
        // Even where steering has such an entry.
        owner.has(&lie);
        let refused = owner.hand_over(lie, vec![tcp(), bytes(9)]);
        assert!(refused.is_some(), "{local} {remote}");
    }
    for number in [0, 4095, u16::MAX] {
        let lie = HandOver { vlan: Some(number), ..record() };
        owner.has(&lie);
        assert!(owner.hand_over(lie, vec![tcp(), bytes(9)]).is_some(), "VLAN {number}");
    }
    assert!(owner.has_left_nothing());
}

/// A socket of another network namespace would be a connection there, by the right of who has one here.
#[test]
fn a_socket_of_another_namespace_is_refused() {
    let mut owner = Owner::new();
    owner.case.host.namespace += 1;
    assert_eq!(owner.hand_over(record(), vec![tcp(), bytes(9)]), Some(Code::TwinNamespace));
    assert!(owner.has_left_nothing());
}

/// The connection is made, and unsent bytes are missing: half of a stream is worse than none, so it is reset, and looked after until
/// the kernel has nothing of it.
#[test]
fn a_stream_whose_end_is_missing_is_reset() {
    if !can_repair() {
        return;
    }
    let mut owner = Owner::new();
    let apart = HandOver { remote: "127.0.0.2:10".parse().unwrap(), ..near() };
    owner.has(&apart);
    let socket = tcp();
    let copy = socket.try_clone().unwrap();
    assert_eq!(owner.hand_over(apart, vec![socket, bytes(7)]), None);
    assert_ordinary(&copy, "7 bytes of 9");
    assert_eq!(tcp_state(copy.as_fd()).unwrap(), TcpState::Closed);
    assert_eq!(owner.case.registry.dataplane.passed.len(), 1);
    drop(copy);
    let Case { registry, host, .. } = &mut owner.case;
    registry.check_passed(host);
    assert!(owner.case.registry.dataplane.passed.is_empty());
}

/// The bytes come out of memory that their owner still has.
#[test]
fn bytes_that_change_and_shrink_while_they_are_read_harm_nobody() {
    if !can_repair() {
        return;
    }
    let all = HandOver { received: MANY, unacknowledged: MANY, unsent: MANY, ..near() };
    let file = Arc::new(File::from(memfd("test", false).unwrap()));
    ftruncate(&*file, all.bytes()).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (theirs, seen) = (file.clone(), stop.clone());
    let changing = std::thread::spawn(move || {
        for round in 0.. {
            if seen.load(Ordering::Relaxed) {
                return;
            }
            let _ = theirs.write_all_at(&[round as u8; 4096], round % 3 * u64::from(MANY));
            let _ = ftruncate(&*theirs, (round * 40_961) % (3 * u64::from(MANY)));
            let _ = ftruncate(&*theirs, 3 * u64::from(MANY));
        }
    });
    let (mut made, mut refused) = (0, 0);
    for _ in 0..READINGS {
        let mut owner = Owner::new();
        owner.has(&all);
        let socket = tcp();
        let copy = socket.try_clone().unwrap();
        match owner.hand_over(all.clone(), vec![socket, file.try_clone().unwrap().into()]) {
            None => made += 1,
            Some(_) => {
                refused += 1;
                assert!(owner.has_left_nothing());
                assert_eq!(tcp_state(copy.as_fd()).unwrap(), TcpState::Closed);
            }
        }
        assert_ordinary(&copy, "bytes that change");
    }
    stop.store(true, Ordering::Relaxed);
    changing.join().unwrap();
    println!("{made} made, {refused} refused");
}

/// Sixty-four megabytes of each queue are the most; they are refused, or taken, and the kernel's memory is given back.
#[test]
fn the_longest_queues_do_not_stop_control() {
    if !can_repair() {
        return;
    }
    let received = QUEUE_BYTES_MAX - near().receive_window;
    let all = HandOver { received, unacknowledged: QUEUE_BYTES_MAX, unsent: 0, ..near() };
    assert_eq!((all.fault(), all.excess()), (None, None));
    let file = File::from(memfd("test", false).unwrap());
    ftruncate(&file, all.bytes()).unwrap();
    let mut owner = Owner::new();
    owner.has(&all);
    let socket = tcp();
    let copy = socket.try_clone().unwrap();
    let outcome = owner.hand_over(all, vec![socket, file.into()]);
    println!("{outcome:?}");
    assert_ordinary(&copy, "64 MiB");
}

/// Another thread of the owner uses the socket while control makes the connection: it binds, connects and listens, which repair mode
/// would let it do on any port.
#[test]
fn a_socket_that_its_owner_uses_meanwhile_does_not_stay_in_repair_mode() {
    if !can_repair() {
        return;
    }
    for _ in 0..READINGS {
        let mut owner = Owner::new();
        owner.has(&near());
        let socket = tcp();
        let [copy, theirs] = [(); 2].map(|()| socket.try_clone().unwrap());
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let using = std::thread::spawn(move || {
            let any: SocketAddr = "127.0.0.1:7".parse().unwrap();
            while !seen.load(Ordering::Relaxed) {
                let _ = bind(&theirs, &any);
                let _ = rustix::net::listen(&theirs, 1);
                let _ = rustix::net::shutdown(&theirs, rustix::net::Shutdown::Both);
            }
        });
        // Any answer will do.
        let _ = owner.hand_over(near(), vec![socket, bytes(9)]);
        stop.store(true, Ordering::Relaxed);
        using.join().unwrap();
        assert!(!tcp_repair::is_on(copy.as_fd()).unwrap(), "it stays in repair mode");
    }
}

/// Packets to an address of this host may come by either.
#[test]
fn the_same_flow_of_two_interfaces_leaves_no_row_of_either() {
    let mut adopting = Case::new();
    // No other test has this one.
    let apart = HandOver { remote: "127.0.0.2:9".parse().unwrap(), ..near() };
    let HandOver { local, remote, vlan, .. } = apart;
    let flow = Entry::Flow { protocol: Protocol::Tcp, local, remote, vlan };
    adopting.registry.dataplane.passed.extend([(2, flow), (4, flow)]);
    adopting.registry.adopt(Vec::new(), adopting.now);
    adopting.registry.check_passed(&adopting.host);
    assert!(adopting.registry.dataplane.passed.is_empty(), "adopted");
    if !can_repair() {
        return;
    }
    let mut owner = Owner::new();
    owner.has(&apart);
    let first = tcp();
    let copy = first.try_clone().unwrap();
    assert_eq!(owner.hand_over(apart.clone(), vec![first, bytes(9)]), None);
    // It ends before control looks, and the next one comes by the other interface.
    tcp_repair::disconnect(copy.as_fd()).unwrap();
    owner.moves_to("eth2");
    owner.has(&apart);
    assert_eq!(owner.hand_over(apart.clone(), vec![tcp(), bytes(7)]), None);
    let rows =
        |owner: &Owner| owner.case.registry.dataplane.passed.iter().map(|(device, _)| *device).collect::<Vec<_>>();
    assert_eq!(rows(&owner), [2, 4]);
    drop(copy);
    let Case { registry, host, .. } = &mut owner.case;
    registry.check_passed(host);
    assert!(rows(&owner).is_empty());
}

/// By control's privilege a buffer may be larger than the host's limits: as large as a stack's, for as long as there is a connection.
#[test]
fn buffers_are_bounded_and_those_of_a_refused_connection_are_as_before() {
    let mut owner = Owner::new();
    let near = HandOver { remote: "127.0.0.2:11".parse().unwrap(), ..near() };
    owner.has(&near);
    let window = u32::from(u16::MAX) << 14;
    for greedy in [
        HandOver { receive_window: window, receive_shift: 14, ..near.clone() },
        HandOver { unacknowledged: QUEUE_BYTES_MAX, unsent: QUEUE_BYTES_MAX, ..near.clone() },
    ] {
        assert_eq!(owner.hand_over(greedy, vec![tcp(), bytes(9)]), Some(Code::Limit));
    }
    if !can_repair() {
        return;
    }
    let socket = tcp();
    let before = tcp_repair::BufferSizes::of(socket.as_fd()).unwrap();
    let large = HandOver { receive_window: 32 << 20, receive_shift: 14, unacknowledged: 16 << 20, ..near };
    // The bytes do not come.
    assert_eq!(owner.hand_over(large, vec![socket.try_clone().unwrap(), bytes(9)]), Some(Code::Kernel));
    assert_eq!(tcp_repair::BufferSizes::of(socket.as_fd()).unwrap(), before);
    assert!(owner.has_left_nothing());
}

/// In that mode the kernel lets it listen beside others, whose connections past the kernel a steering entry would take.
#[test]
fn a_socket_in_repair_mode_proves_no_new_entry() {
    if !can_repair() {
        return;
    }
    let mut case = Case::new();
    let id = case.client(7);
    let stack = case.open(id);
    let socket = tcp();
    tcp_repair::begin(socket.as_fd()).unwrap();
    bind(&socket, &"127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
    let local = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    let flow = Entry::Flow { protocol: Protocol::Tcp, local, remote: near().remote, vlan: None };
    assert_eq!(case.steer(id, stack, flow, &socket), Some(Code::TwinMismatch));
    rustix::net::listen(&socket, 1).unwrap();
    let listener = Entry::Listener { protocol: Protocol::Tcp, local, vlan: None };
    assert_eq!(case.steer(id, stack, listener, &socket), Some(Code::TwinMismatch));
    assert!(case.registry.dataplane.steered.is_empty());
    // A control that was killed has left it so.
    case.registry.stacks.get_mut(&stack).unwrap().entries.insert(flow, None);
    let closed = tcp();
    tcp_repair::begin(closed.as_fd()).unwrap();
    bind(&closed, &local).unwrap();
    assert_eq!(case.steer(id, stack, flow, &closed), None);
}
