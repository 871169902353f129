//! Datagrams longer than a frame of ours, past the kernel (Linux 6.6).

use crate::support::{
    Control, SENDERS, address, bind, engine, engine_with, heard, kernel, lab, message, receive, set_mtu, wait,
};
use sidestep_lab::Host;
use sidestep_lab::Side;
use sidestep_socket::{Engine, EngineOptions, Handle};
use sidestep_sys::xdp::Mode;
use std::net::{SocketAddr, UdpSocket};

/// Around the borders of one, two, four and five frames of 2048 bytes (1792 when received), and what an MTU of 9,000 takes.
const SIZES: [usize; 18] =
    [0, 1, 1472, 1749, 1750, 1751, 2005, 2006, 2007, 3541, 3542, 3543, 4054, 4055, 7000, 8000, 8150, 8952];

/// A socket of ours on a host and one of the kernel's on the other, which know each other's Ethernet addresses.
fn pair(a: &Host, b: &Host, engine: &mut Engine, is_v6: bool) -> (Handle, SocketAddr, UdpSocket, SocketAddr) {
    let at = SocketAddr::new(address(b, is_v6), 7000 + u16::from(is_v6));
    let ours = bind(b, engine, at);
    let theirs = kernel(a, SocketAddr::new(address(a, is_v6), 0));
    let to = theirs.local_addr().unwrap();
    wait("a way past the kernel", || {
        engine.send_to(ours, b"warm", to).unwrap();
        heard(engine, &theirs, &mut [0; 16]);
        engine.path_to(ours, to).is_ok_and(|path| path.is_accelerated()).then_some(())
    });
    (ours, at, theirs, to)
}

#[test]
fn of_every_size_both_ways_in_both_families() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    [a, b].into_iter().for_each(|host| set_mtu(host, 9000));
    let _control = Control::start(b);
    for (sender, is_v6) in SENDERS.into_iter().flat_map(|sender| [(sender, false), (sender, true)]) {
        let mut engine = engine_with(b, sender);
        let facts = engine.link().unwrap();
        eprintln!("sent by {:?}", facts.sender);
        assert!(facts.xsks.iter().all(|xsk| xsk.multi_buffer && xsk.mode == Mode::Copy), "{facts:?}");
        let (ours, at, theirs, to) = pair(a, b, &mut engine, is_v6);
        let before = engine.statistics(ours).unwrap();
        let longest = if is_v6 { 8952 } else { 8972 };
        let mut count = 0;
        for (number, size) in SIZES.into_iter().chain([longest]).enumerate() {
            let sent = message(number as u32, size);
            theirs.send_to(&sent, at).unwrap();
            let datagram = receive(&mut engine, ours);
            assert!(engine.payload(&datagram) == sent, "received {size} bytes");
            let mut answer = vec![0; 10_000];
            // Three ways to send: in the memory that it came in, out of the program's, into reserved memory.
            engine.reply(ours, datagram).unwrap();
            let (len, _) = heard(&mut engine, &theirs, &mut answer);
            assert!(answer[..len] == sent, "replied {size} bytes");
            engine.send_to(ours, &sent, to).unwrap();
            let (len, _) = heard(&mut engine, &theirs, &mut answer);
            assert!(answer[..len] == sent, "sent {size} bytes");
            let reserved = engine.reserve(ours, size, Some(to)).unwrap();
            engine.reserved(&reserved).copy_from_slice(&sent);
            engine.send_reserved(ours, reserved, size).unwrap();
            let (len, _) = heard(&mut engine, &theirs, &mut answer);
            assert!(answer[..len] == sent, "reserved {size} bytes");
            count += 1;
        }
        let after = engine.statistics(ours).unwrap();
        assert_eq!(after.received - before.received, count, "all of them past the kernel");
        assert_eq!((after.sent - before.sent, after.received_by_kernel), (3 * count, before.received_by_kernel));
        assert_eq!(after.sent_by_kernel, before.sent_by_kernel);
    }
}

/// Handed over together, more than twice what a call sends: they leave in order with the one flush.
#[test]
fn bursts_of_them_leave_with_one_flush() {
    const BURST: u32 = 14;
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    [a, b].into_iter().for_each(|host| set_mtu(host, 9000));
    let _control = Control::start(b);
    for sender in SENDERS {
        let mut engine = engine_with(b, sender);
        let (ours, _, theirs, to) = pair(a, b, &mut engine, false);
        socket2::SockRef::from(&theirs).set_recv_buffer_size(1 << 20).unwrap();
        let before = engine.statistics(ours).unwrap();
        for round in 0..50 {
            let sent: Vec<_> = (0..BURST).map(|number| message(round * BURST + number, 8972)).collect();
            sent.iter().for_each(|payload| engine.put(ours, payload, Some(to)).unwrap());
            engine.flush().unwrap();
            let mut buffer = vec![0; 10_000];
            for payload in sent {
                // No poll: nothing is left for one.
                let (len, _) = theirs.recv_from(&mut buffer).unwrap();
                assert!(buffer[..len] == payload, "round {round}");
            }
            engine.poll().unwrap();
        }
        let after = engine.statistics(ours).unwrap();
        assert_eq!(after.sent - before.sent, u64::from(50 * BURST));
    }
}

/// The memory of long frames has an end, and is all there again afterwards.
#[test]
fn more_of_them_than_there_is_room_for_are_dropped_and_counted() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    [a, b].into_iter().for_each(|host| set_mtu(host, 9000));
    let _control = Control::start(b);
    let mut engine = engine(b);
    let (ours, at, theirs, _) = pair(a, b, &mut engine, false);
    let other = bind(b, &mut engine, SocketAddr::new(at.ip(), 7100));
    for round in 0..5 {
        for number in 0..1000 {
            theirs.send_to(&message(number, 8000), at).unwrap();
            engine.poll().unwrap();
        }
        // Another socket has its share all the same.
        let sent = message(round, 8500);
        theirs.send_to(&sent, SocketAddr::new(at.ip(), 7100)).unwrap();
        let datagram = receive(&mut engine, other);
        assert!(engine.payload(&datagram) == sent);
        engine.release(datagram);
        let mut unread = 0;
        while let Some(datagram) = engine.receive(ours).unwrap() {
            assert_eq!(engine.payload(&datagram).len(), 8000);
            engine.release(datagram);
            unread += 1;
        }
        assert!((50..=256).contains(&unread), "{unread}");
    }
    let dropped = engine.statistics(ours).unwrap().dropped;
    assert!(dropped >= 5 * 700, "{dropped}");
}

/// An MTU that is changed under a stack: what its sockets were not made for goes by the kernel, and nothing is lost.
#[test]
fn the_mtu_may_change_meanwhile() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    for first in [1500, 9000] {
        [a, b].into_iter().for_each(|host| set_mtu(host, first));
        let mut engine = engine(b);
        let (ours, at, theirs, to) = pair(a, b, &mut engine, false);
        for mtu in [9000, 1280, 1500, 3000, 9000] {
            // The device must take what is sent to it, so the receiver's first.
            [b, a].into_iter().for_each(|host| set_mtu(host, mtu));
            for size in [1000, mtu as usize - 28] {
                let sent = message(mtu, size);
                let mut answer = vec![0; 10_000];
                wait("the new MTU", || engine.send_to(ours, &sent, to).ok());
                let (len, _) = heard(&mut engine, &theirs, &mut answer);
                assert!(answer[..len] == sent, "{size} bytes at {mtu}");
                theirs.send_to(&sent, at).unwrap();
                let datagram = receive(&mut engine, ours);
                assert!(engine.payload(&datagram) == sent, "{size} bytes at {mtu}");
                engine.release(datagram);
            }
        }
        engine.close(ours).unwrap();
    }
}

/// Where they are not wanted: by the kernel, as on one that does not have them.
#[test]
fn unwanted_they_come_by_the_kernel() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    [a, b].into_iter().for_each(|host| set_mtu(host, 9000));
    let _control = Control::start(b);
    let mut engine = engine_with(b, |options| EngineOptions { jumbo_frames: false, ..options });
    let (ours, at, theirs, _) = pair(a, b, &mut engine, false);
    let before = engine.statistics(ours).unwrap();
    for size in [100, 1750, 1751, 8000] {
        let sent = message(7, size);
        theirs.send_to(&sent, at).unwrap();
        let datagram = receive(&mut engine, ours);
        assert!(engine.payload(&datagram) == sent);
        engine.release(datagram);
    }
    let after = engine.statistics(ours).unwrap();
    assert_eq!(after.received - before.received, 2);
    assert_eq!(after.received_by_kernel - before.received_by_kernel, 2);
}
