//! The interface's MTU changes under an engine: segments follow it, and nothing that is longer leaves; the peer is Linux.

use crate::peer::{
    OURS, THEIRS, carry, connect, exchange, join, kernel_exchange, kernel_listen, listen, poll_until, whole_send_buffer,
};
use crate::support::{Control, address, engine, lab, set_mtu, wait};
use sidestep_lab::Side;
use sidestep_lab::{Host, Lab};
use sidestep_socket::Engine;
use sidestep_socket::tcp::{Counter, TcpStream};
use sidestep_sys::packet::{FrameBuffer, PacketSocket};
use std::net::{SocketAddr, TcpListener, TcpStream as KernelStream};

/// More than the buffers between the two ends hold.
const BYTES: usize = 8 << 20;

/// Bytes of IP and TCP header.
fn headers(is_v6: bool) -> u32 {
    if is_v6 { 60 } else { 40 }
}

fn segment_bytes(engine: &mut Engine, stream: TcpStream) -> u32 {
    engine.tcp().facts(stream).unwrap().expect("it is past the kernel").segment_bytes
}

/// The longest IP packets of TCP that have come to a host's end of the wire, by their port on the other.
struct Watch {
    socket: PacketSocket,
    buffer: FrameBuffer,
}

impl Watch {
    fn open(host: &Host) -> Self {
        let socket = host.within(|| PacketSocket::open(&host.interface)).expect("root can");
        Self { socket, buffer: FrameBuffer::new() }
    }

    fn longest(&mut self) -> u32 {
        let mut longest = 0;
        while let Some(frame) = self.socket.receive(&mut self.buffer).expect("the wire is up") {
            longest = longest.max(frame.len() as u32 - 14);
        }
        longest
    }
}

/// A connection of each role.
fn both_roles(lab: &Lab, engine: &mut Engine, is_v6: bool, port: u16) -> [(TcpStream, KernelStream); 2] {
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let server: TcpListener = kernel_listen(a, SocketAddr::new(address(a, is_v6), 0));
    let at = SocketAddr::new(address(b, is_v6), port);
    let listener = listen(b, engine, at);
    // While a neighbour is being asked for, the kernel connects.
    let ours = wait("a connection past the kernel", || {
        let stream = connect(b, engine, server.local_addr().unwrap());
        let peer = server.accept().unwrap().0;
        engine.tcp().path(stream).unwrap().is_accelerated().then_some((stream, peer))
    });
    let theirs = join(a, engine, listener, at);
    engine.tcp().close_listener(listener).unwrap();
    assert!(engine.tcp().path(theirs.0).unwrap().is_accelerated());
    [ours, theirs]
}

/// While data is under way in both directions, both ends get another MTU, in either order: every byte arrives.
#[test]
fn it_may_change_under_connections() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    for (number, (first, then)) in (0..).zip([(9000, 1400), (1500, 1280), (1500, 9000), (3000, 9000)]) {
        [a, b].into_iter().for_each(|host| set_mtu(host, first));
        let _control = Control::start(b);
        let mut engine = engine(b);
        for is_v6 in [false, true] {
            let order = if is_v6 { [a, b] } else { [b, a] };
            for role in 0..2 {
                let before = first - headers(is_v6);
                let (stream, peer) = wait("the tables' word", || {
                    let both = both_roles(&lab, &mut engine, is_v6, 7000 + number);
                    let (stream, peer) = both.into_iter().nth(role)?;
                    (segment_bytes(&mut engine, stream) == before).then_some((stream, peer))
                });
                let theirs = kernel_exchange(peer, THEIRS, BYTES);
                wait("data under way", || {
                    engine.poll().unwrap();
                    (engine.tcp().facts(stream).unwrap().unwrap().segments_in > 3).then_some(())
                });
                order.into_iter().for_each(|host| set_mtu(host, then));
                let ours = exchange(&mut engine, stream, OURS, BYTES);
                let theirs = poll_until(&mut engine, theirs);
                assert_eq!((ours, theirs), ((BYTES, BYTES), (BYTES, BYTES)), "{first} to {then}");
                // What the peer has asked for in the beginning is the most it gets.
                assert_eq!(segment_bytes(&mut engine, stream), before.min(then - headers(is_v6)), "{first} to {then}");
                engine.tcp().close(stream).unwrap();
                order.into_iter().rev().for_each(|host| set_mtu(host, first));
            }
        }
    }
}

/// A peer that could take more does not see a longer packet once the tables have told of the smaller MTU.
#[test]
fn nothing_longer_than_a_lowered_one_leaves() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    [a, b].into_iter().for_each(|host| set_mtu(host, 9000));
    let _control = Control::start(b);
    let mut engine = engine(b);
    let mut watch = Watch::open(a);
    for is_v6 in [false, true] {
        for (stream, peer) in both_roles(&lab, &mut engine, is_v6, 7000) {
            let reading = std::thread::spawn(move || std::io::copy(&mut &peer, &mut std::io::sink()).unwrap());
            let mut sent = 0;
            let mut send = |engine: &mut Engine, more: u64| {
                let until = sent + more;
                wait("what was sent", || {
                    engine.poll().unwrap();
                    sent += engine.tcp().send(stream, &[7; 60_000]).unwrap_or(0) as u64;
                    (sent >= until).then_some(())
                });
                wait("its acknowledgement", || {
                    engine.poll().unwrap();
                    (engine.tcp().facts(stream).unwrap().unwrap().unacknowledged == 0).then_some(())
                });
                sent
            };
            send(&mut engine, 1 << 20);
            assert_eq!(watch.longest(), 9000);
            set_mtu(b, 1400);
            wait("the tables' word", || {
                send(&mut engine, 1 << 16);
                (segment_bytes(&mut engine, stream) == 1400 - headers(is_v6)).then_some(())
            });
            watch.longest();
            let sent = send(&mut engine, 1 << 20);
            assert_eq!(watch.longest(), 1400);
            engine.tcp().close(stream).unwrap();
            assert_eq!(poll_until(&mut engine, reading), sent);
            set_mtu(b, 9000);
            // What is connected next begins with the MTU that there is.
            wait("the larger MTU again", || {
                engine.poll().unwrap();
                let [(stream, _peer), _other] = both_roles(&lab, &mut engine, is_v6, 7100);
                (segment_bytes(&mut engine, stream) == 9000 - headers(is_v6)).then_some(())
            });
        }
    }
}

/// Also of one that is closed and still has something to say.
#[test]
fn what_is_closed_follows_it() {
    /// More than the peer's window.
    const LEFT: usize = 3 << 20;
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    for is_v6 in [false, true] {
        [a, b].into_iter().for_each(|host| set_mtu(host, 9000));
        let mut engine = engine(b);
        let closed = both_roles(&lab, &mut engine, is_v6, 7000).map(|(stream, peer)| {
            whole_send_buffer(&mut engine, stream);
            assert_eq!(engine.tcp().send(stream, &vec![7; LEFT]), Ok(LEFT));
            wait("a full window", || {
                engine.poll().unwrap();
                let facts = engine.tcp().facts(stream).unwrap().unwrap();
                (facts.in_flight == 0 && facts.unsent > 0).then_some(())
            });
            engine.tcp().close(stream).unwrap();
            peer
        });
        [b, a].into_iter().for_each(|host| set_mtu(host, 1400));
        for peer in closed {
            let reading = std::thread::spawn(move || std::io::copy(&mut &peer, &mut std::io::sink()).unwrap());
            assert_eq!(poll_until(&mut engine, reading), LEFT as u64);
        }
        assert_eq!(engine.tcp().count(Counter::LostStreams), 0);
    }
}

/// New connections take what the interface takes now, as far as the engine's sockets can: those that were made at 1,500 receive no
/// more than one of our frames holds.
#[test]
fn connections_that_are_made_after_it_was_raised_use_it() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    for (first, then, most) in [(3000, 9000, 9000), (1500, 9000, 1770), (9000, 1500, 1500)] {
        [a, b].into_iter().for_each(|host| set_mtu(host, first));
        let _control = Control::start(b);
        let mut engine = engine(b);
        [b, a].into_iter().for_each(|host| set_mtu(host, then));
        for is_v6 in [false, true] {
            let streams = wait("the tables' word", || {
                let streams = both_roles(&lab, &mut engine, is_v6, 7000);
                let expected = most - headers(is_v6);
                streams.iter().all(|(stream, _)| segment_bytes(&mut engine, *stream) == expected).then_some(streams)
            });
            for (stream, peer) in streams {
                carry(&mut engine, stream, peer, BYTES);
                engine.tcp().close(stream).unwrap();
            }
        }
    }
}
