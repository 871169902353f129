//! Verdicts that depend on more than the frame: the switch, the owner's heartbeat, its sockets, the queue.

use std::os::fd::AsFd;
use std::ptr;
use std::thread;
use std::time::Duration;

use sidestep_lab::Side;
use sidestep_lab::{Lab, Options};
use sidestep_sys::memory::{Access, Mapping};
use sidestep_xdp_steering::{Attach, AttachMode, Protocol, QUEUES_MAX, Reason, Steering, Verdict, Vlan, VlanMatch};

use crate::frames::{Frame, TCP, UDP};
use crate::support::{Pins, Stage, bare_socket, can_run, flow, group, ifindex, listener, set_forwarding, stack};

const LOCAL: &str = "10.0.0.1:5000";
const REMOTE: &str = "10.0.0.2:6000";

fn frame() -> Vec<u8> {
    Frame::new(UDP, REMOTE, LOCAL, Vlan::Untagged).bytes
}

/// A stage on which the frame is redirected, until a test changes that.
fn owned() -> Stage {
    let mut stage = Stage::new();
    stage.steer(&listener(Protocol::Udp, LOCAL, VlanMatch::Any));
    assert_eq!(reason(&mut stage), Reason::Listener);
    stage
}

fn reason(stage: &mut Stage) -> Reason {
    stage.rehearsal.run(&frame(), 1).unwrap().reason
}

#[test]
fn switched_off_everything_passes() {
    if !can_run() {
        return;
    }
    let mut stage = owned();
    stage.tables().set_enabled(false).unwrap();
    assert_eq!(reason(&mut stage), Reason::Disabled);
    stage.tables().set_enabled(true).unwrap();
    assert_eq!(reason(&mut stage), Reason::Listener);
}

#[test]
fn the_frames_of_a_silent_owner_pass_until_it_speaks_again() {
    if !can_run() {
        return;
    }
    let mut stage = owned();
    let now_ns = stage.tables().stack(stage.stack).unwrap().heartbeat_ns;
    assert_ne!(now_ns, 0);
    // Never, at boot, and from another clock.
    for beat_ns in [0, 1, now_ns + 3_600_000_000_000, u64::MAX] {
        stage.tables().beat_at(stage.stack, beat_ns).unwrap();
        assert_eq!(reason(&mut stage), Reason::Stale, "{beat_ns}");
    }
    stage.tables().beat(stage.stack).unwrap();
    assert_eq!(reason(&mut stage), Reason::Listener);
}

#[test]
fn the_segments_of_a_silent_owner_wait_for_it_longer_than_its_datagrams() {
    if !can_run() {
        return;
    }
    let mut stage = owned();
    stage.steer(&listener(Protocol::Tcp, LOCAL, VlanMatch::Any));
    let segment = Frame::new(TCP, REMOTE, LOCAL, Vlan::Untagged).bytes;
    let now_ns = stage.tables().stack(stage.stack).unwrap().heartbeat_ns;
    stage.tables().beat_at(stage.stack, now_ns - 3_000_000_000).unwrap();
    assert_eq!(reason(&mut stage), Reason::Stale);
    assert_eq!(stage.rehearsal.run(&segment, 1).unwrap().reason, Reason::Listener);
    stage.tables().beat_at(stage.stack, now_ns + 3_600_000_000_000).unwrap();
    assert_eq!(stage.rehearsal.run(&segment, 1).unwrap().reason, Reason::Stale, "not for ever");
}

/// In zero copy a full ring can also delay the kernel's packets, so an owner there has less time (decision 0023).
#[test]
fn how_long_segments_wait_is_the_stacks() {
    if !can_run() {
        return;
    }
    for (tcp_deadlines, waits) in [(60, true), (5, true), (2, false), (0, false)] {
        let mut stage = Stage::of(tcp_deadlines);
        stage.steer(&listener(Protocol::Tcp, LOCAL, VlanMatch::Any));
        let segment = Frame::new(TCP, REMOTE, LOCAL, Vlan::Untagged).bytes;
        let now_ns = stage.tables().stack(stage.stack).unwrap().heartbeat_ns;
        stage.tables().beat_at(stage.stack, now_ns - 3_000_000_000).unwrap();
        let expected = if waits { Reason::Listener } else { Reason::Stale };
        assert_eq!(stage.rehearsal.run(&segment, 1).unwrap().reason, expected, "{tcp_deadlines} deadlines of a second");
    }
}

/// Kinds of entries that no table has are not looked up; after the first insertion they are found.
#[test]
fn the_first_entry_of_a_kind_is_found() {
    if !can_run() {
        return;
    }
    let exact = VlanMatch::Only(Vlan::Untagged);
    let to_group = Frame::new(UDP, REMOTE, "239.1.2.3:5000", Vlan::Untagged).bytes;
    let unicast = frame();
    let mut stage = Stage::new();
    let reason = |stage: &mut Stage, frame: &[u8]| stage.rehearsal.run(frame, 1).unwrap().reason;
    assert_eq!(reason(&mut stage, &unicast), Reason::NoEntry);
    assert_eq!(reason(&mut stage, &to_group), Reason::NoGroup);
    for (entry, frame, kind) in [
        (listener(Protocol::Udp, "0.0.0.0:5000", exact), &unicast, Reason::Listener),
        (group("239.1.2.3:5000", None, exact), &to_group, Reason::Group),
        (group("239.1.2.3:5000", Some("10.0.0.2"), exact), &to_group, Reason::Group),
        (listener(Protocol::Udp, LOCAL, VlanMatch::Any), &unicast, Reason::Listener),
        (listener(Protocol::Udp, "0.0.0.0:5000", VlanMatch::Any), &unicast, Reason::Listener),
        (group("239.1.2.3:5000", None, VlanMatch::Any), &to_group, Reason::Group),
        (group("239.1.2.3:5000", Some("10.0.0.2"), VlanMatch::Any), &to_group, Reason::Group),
    ] {
        stage.steer(&entry);
        assert_eq!(reason(&mut stage, frame), kind, "{entry}");
        assert!(stage.tables().remove(stage.stack, &entry).unwrap());
        let none = if kind == Reason::Group { Reason::NoGroup } else { Reason::NoEntry };
        assert_eq!(reason(&mut stage, frame), none, "{entry}");
    }
}

/// A frame is dropped only for a living owner: otherwise the kernel gets it, and answers.
#[test]
fn fragments_of_a_lost_owner_are_the_kernels() {
    if !can_run() {
        return;
    }
    let mut stage = owned();
    stage.steer(&listener(Protocol::Tcp, LOCAL, VlanMatch::Any));
    let fragment = Frame::new(TCP, REMOTE, LOCAL, Vlan::Untagged).first_fragment(24).bytes;
    let reason = |stage: &mut Stage| stage.rehearsal.run(&fragment, 1).unwrap().reason;
    assert_eq!(reason(&mut stage), Reason::DropFragment);
    stage.tables().beat_at(stage.stack, 0).unwrap();
    assert_eq!(reason(&mut stage), Reason::Stale);
    stage.tables().beat(stage.stack).unwrap();
    stage.tables().clear_socket(stage.stack, 0).unwrap();
    assert_eq!(reason(&mut stage), Reason::NoSocket);
    stage.tables().stack_remove(stage.stack).unwrap();
    assert_eq!(reason(&mut stage), Reason::Fragment);
}

#[test]
fn the_deadline_decides_and_has_bounds() {
    if !can_run() {
        return;
    }
    let mut stage = owned();
    let now_ns = stage.tables().stack(stage.stack).unwrap().heartbeat_ns;
    stage.tables().beat_at(stage.stack, now_ns - 3_000_000_000).unwrap();
    assert_eq!(reason(&mut stage), Reason::Stale);
    stage.tables().set_deadline(Duration::from_secs(60)).unwrap();
    assert_eq!(reason(&mut stage), Reason::Listener);
    for impossible in [Duration::ZERO, Duration::from_millis(49), Duration::from_secs(61), Duration::MAX] {
        assert!(stage.tables().set_deadline(impossible).is_err());
    }
}

#[test]
fn an_owner_beats_by_a_store_into_its_own_page_and_no_other() {
    if !can_run() {
        return;
    }
    let mut stage = owned();
    let (other, others_page) = stack(stage.tables(), "other");
    let own_page = stage.tables().heartbeat(stage.stack).unwrap();
    let now_ns = stage.tables().stack(stage.stack).unwrap().heartbeat_ns;
    stage.tables().beat_at(stage.stack, 0).unwrap();
    for (page, then) in [(others_page, Reason::Stale), (own_page, Reason::Listener)] {
        let page = Mapping::shared(page.as_fd(), 4096, Access::ReadWrite).unwrap();
        // SAFETY: the mapping has a page, and a heartbeat is an aligned word at its start that only this test writes.
        unsafe { ptr::write_volatile(page.base().as_ptr().cast::<u64>(), now_ns) };
        assert_eq!(reason(&mut stage), then);
    }
    assert_eq!(stage.tables().stack(other).unwrap().heartbeat_ns, now_ns);
}

/// Drops all privileges of this thread alone (the C library would change the whole process).
fn drop_privileges() {
    let nobody = 65_534_u32;
    // SAFETY: setresuid takes no pointer.
    let result = unsafe { libc::syscall(libc::SYS_setresuid, nobody, nobody, nobody) };
    assert_eq!(result, 0);
}

#[test]
fn an_owner_needs_no_privilege_to_beat_and_gets_none() {
    if !can_run() {
        return;
    }
    let mut stage = owned();
    let page = stage.tables().heartbeat(stage.stack).unwrap();
    let now_ns = stage.tables().stack(stage.stack).unwrap().heartbeat_ns;
    stage.tables().beat_at(stage.stack, 0).unwrap();
    let tables = stage.tables();
    let (other, _) = stack(tables, "other");
    let as_nobody = || {
        drop_privileges();
        let page = Mapping::shared(page.as_fd(), 4096, Access::ReadWrite).unwrap();
        // SAFETY: the mapping has a page, and a heartbeat is an aligned word at its start that only this test writes.
        unsafe { ptr::write_volatile(page.base().as_ptr().cast::<u64>(), now_ns) };
        // A page that was not handed over cannot be opened.
        assert!(tables.heartbeat(other).is_err());
    };
    thread::scope(|scope| scope.spawn(as_nobody).join()).unwrap();
    assert_eq!(reason(&mut stage), Reason::Listener);
}

#[test]
fn the_frames_of_a_removed_owner_pass() {
    if !can_run() {
        return;
    }
    let mut stage = owned();
    let swept = stage.tables().stack_remove(stage.stack).unwrap();
    assert_eq!((swept.listeners, swept.flows, swept.groups), (1, 0, 0));
    assert_eq!(reason(&mut stage), Reason::NoEntry);
}

#[test]
fn without_a_socket_the_frame_passes() {
    if !can_run() {
        return;
    }
    let mut stage = owned();
    stage.tables().clear_socket(stage.stack, 0).unwrap();
    stage.tables().clear_socket(stage.stack, 0).unwrap();
    assert_eq!(reason(&mut stage), Reason::NoSocket);
    // A socket on another queue does not help, and the kernel removes a closed one.
    let socket = bare_socket();
    stage.tables().set_socket(stage.stack, 1, socket.as_fd()).unwrap();
    assert_eq!(reason(&mut stage), Reason::NoSocket);
    stage.tables().set_socket(stage.stack, 0, socket.as_fd()).unwrap();
    assert_eq!(reason(&mut stage), Reason::Listener);
}

#[test]
fn queues_have_their_own_sockets_and_those_above_the_limit_pass() {
    if !can_run() {
        return;
    }
    let pins = Pins::new();
    let lab = Lab::up(&Options { queues: QUEUES_MAX + 2, ..Options::default() }).unwrap();
    lab.host(Side::A)
        .within(|| {
            let ifindex = ifindex("lab0");
            // The queues of a veth can be selected here once XDP is attached to it.
            let attach = Attach { ifindex, mode: AttachMode::Native, directory: pins.directory() };
            let _steering = Steering::attach(&attach)?;
            let mut stage = owned();
            let socket = bare_socket();
            stage.tables().set_socket(stage.stack, QUEUES_MAX - 1, socket.as_fd())?;
            assert!(stage.tables().set_socket(stage.stack, QUEUES_MAX, socket.as_fd()).is_err());
            stage.steer(&listener(Protocol::Tcp, LOCAL, VlanMatch::Any));
            let segment = Frame::new(TCP, REMOTE, LOCAL, Vlan::Untagged);
            let mut of = |frame: &[u8], queue| stage.rehearsal.run_on(frame, ifindex, queue).unwrap();
            for queue in [1, QUEUES_MAX, QUEUES_MAX + 1] {
                let outcome = of(&segment.bytes, queue);
                assert_eq!((outcome.reason, outcome.verdict), (Reason::DropQueue, Verdict::Drop));
            }
            assert_eq!(of(&segment.bytes, QUEUES_MAX - 1).reason, Reason::Listener);
            let mut on = |queue| of(&frame(), queue).reason;
            assert_eq!(on(0), Reason::Listener);
            assert_eq!(on(1), Reason::NoSocket);
            assert_eq!(on(QUEUES_MAX - 1), Reason::Listener);
            assert_eq!(on(QUEUES_MAX), Reason::Queue);
            assert_eq!(on(QUEUES_MAX + 1), Reason::Queue);
            Ok(())
        })
        .unwrap();
}

/// The kernel would reset a connection whose segments come by another queue than its owner's: they are dropped while
/// the owner lives.
#[test]
fn segments_on_a_queue_without_a_socket_are_dropped_while_their_owner_lives() {
    if !can_run() {
        return;
    }
    let pins = Pins::new();
    let lab = Lab::up(&Options { queues: 4, ..Options::default() }).unwrap();
    let work = || {
        let ifindex = ifindex("lab0");
        let _steering = Steering::attach(&Attach { ifindex, mode: AttachMode::Native, directory: pins.directory() })?;
        let mut stage = Stage::new();
        let vlan = Vlan::Untagged;
        let (v4, v6) = (("10.0.0.2:6000", "10.0.0.1:5000"), ("[fd00::2]:6000", "[fd00::1]:5000"));
        for (number, protocol) in [(TCP, Protocol::Tcp), (UDP, Protocol::Udp)] {
            for (remote, local) in [v4, v6] {
                let frame = Frame::new(number, remote, local, vlan);
                for entry in [flow(protocol, local, remote, vlan), listener(protocol, local, VlanMatch::Any)] {
                    stage.steer(&entry);
                    let (elsewhere, verdict) = match protocol {
                        Protocol::Tcp => (Reason::DropQueue, Verdict::Drop),
                        Protocol::Udp => (Reason::NoSocket, Verdict::Pass),
                    };
                    for queue in 1..4 {
                        let outcome = stage.rehearsal.run_on(&frame.bytes, ifindex, queue).unwrap();
                        assert_eq!((outcome.reason, outcome.verdict), (elsewhere, verdict), "{entry} queue {queue}");
                    }
                    assert_eq!(stage.rehearsal.run_on(&frame.bytes, ifindex, 0).unwrap().verdict, Verdict::Redirect);
                    stage.clear();
                }
            }
        }
        let segment = Frame::new(TCP, v4.0, v4.1, vlan);
        let fragment = segment.clone().first_fragment(24);
        stage.steer(&flow(Protocol::Tcp, v4.1, v4.0, vlan));
        let on = |stage: &mut Stage, frame: &Frame| stage.rehearsal.run_on(&frame.bytes, ifindex, 1).unwrap().reason;
        assert_eq!(on(&mut stage, &segment), Reason::DropQueue);
        assert_eq!(on(&mut stage, &fragment), Reason::DropQueue);
        // An owner that is silent for too long counts as lost; one without its socket has ended.
        stage.tables().beat_at(stage.stack, 0).unwrap();
        assert_eq!(on(&mut stage, &segment), Reason::Stale);
        stage.tables().beat(stage.stack).unwrap();
        stage.tables().clear_socket(stage.stack, 0).unwrap();
        assert_eq!(on(&mut stage, &segment), Reason::NoSocket);
        Ok(())
    };
    lab.host(Side::A).within(work).unwrap();
}

#[test]
fn what_the_host_forwards_is_not_for_a_listener_on_every_address() {
    if !can_run() {
        return;
    }
    let pins = Pins::new();
    let lab = Lab::up(&Options::default()).unwrap();
    lab.host(Side::A)
        .within(|| {
            let ifindex = ifindex("lab0");
            let _steering =
                Steering::attach(&Attach { ifindex, mode: AttachMode::Native, directory: pins.directory() })?;
            let mut stage = Stage::new();
            stage.steer(&listener(Protocol::Udp, "0.0.0.0:5000", VlanMatch::Any));
            stage.steer(&listener(Protocol::Udp, "[::]:5000", VlanMatch::Any));
            stage.steer(&listener(Protocol::Udp, "198.18.0.8:5000", VlanMatch::Any));
            let mut to = |local: &str| {
                let remote = if local.starts_with('[') { "[2001:2::2]:6000" } else { "198.18.0.2:6000" };
                let frame = Frame::new(UDP, remote, local, Vlan::Untagged);
                stage.rehearsal.run_on(&frame.bytes, ifindex, 0).unwrap().reason
            };
            for forwarding in [true, false] {
                set_forwarding(forwarding);
                assert_eq!(to("198.18.0.1:5000"), Reason::Listener);
                assert_eq!(to("[2001:2::1]:5000"), Reason::Listener);
                // An entry for a specific address is trusted.
                assert_eq!(to("198.18.0.8:5000"), Reason::Listener);
                let elsewhere = if forwarding { Reason::Forwarded } else { Reason::Listener };
                assert_eq!(to("198.18.0.9:5000"), elsewhere);
                assert_eq!(to("[2001:2::9]:5000"), elsewhere);
            }
            Ok(())
        })
        .unwrap();
}
