//! Connections handed over while a window is closed, and with FINs on the way; the peer is Linux. The kernel goes on at once: no
//! retransmission timeout of its has to end first.

use crate::handing_over::hand_over;
use crate::peer::{Content, OURS, THEIRS, connect, kernel_listen, poll_until, whole_send_buffer};
use crate::support::{Control, address, engine, lab, reach, wait};
use sidestep_lab::{Host, Side};
use sidestep_socket::Engine;
use sidestep_socket::tcp::{Shutdown, TcpStream};
use sidestep_stack::tcp::{Facts, State};
use std::io::{Read, Write};
use std::net::{Shutdown as Half, SocketAddr, TcpStream as KernelStream};
use std::thread::JoinHandle;

/// More than the peer's window, less than our buffer.
const OF_OURS: usize = 3 << 20;

/// Little, and unread.
const OF_THEIRS: usize = 10_000;

/// Before our window closes.
const TOO_MUCH: usize = 16 << 20;

/// A connection to Linux.
fn pair(a: &Host, b: &Host, engine: &mut Engine, is_v6: bool) -> (TcpStream, KernelStream) {
    reach(a, address(b, is_v6));
    let server = kernel_listen(b, SocketAddr::new(address(b, is_v6), 0));
    let stream = connect(a, engine, server.local_addr().unwrap());
    assert!(engine.tcp().path(stream).unwrap().is_accelerated());
    (stream, server.accept().unwrap().0)
}

fn send(engine: &mut Engine, stream: TcpStream, sent: &mut Content) {
    whole_send_buffer(engine, stream);
    while sent.at < sent.len {
        sent.at += engine.tcp().send(stream, sent.next()).expect("there is room for all");
    }
}

fn until(engine: &mut Engine, stream: TcpStream, what: &str, is_so: impl Fn(&Facts) -> bool) {
    wait(what, || {
        engine.poll().unwrap();
        is_so(&engine.tcp().facts(stream).unwrap().expect("it is past the kernel")).then_some(())
    });
}

/// The peer reads to the end.
fn reading(mut peer: KernelStream, len: usize) -> JoinHandle<usize> {
    std::thread::spawn(move || {
        let (mut got, mut buffer) = (Content::new(OURS, len), vec![0; 60_000]);
        loop {
            match peer.read(&mut buffer).expect("nobody resets it") {
                0 => return got.at,
                count => got.came(&buffer[..count]),
            }
        }
    })
}

/// We read to the end.
fn read(engine: &mut Engine, stream: TcpStream, len: usize) {
    let (mut got, mut buffer) = (Content::new(THEIRS, len), vec![0; 60_000]);
    wait("the end of the peer's stream", || {
        engine.poll().unwrap();
        match engine.tcp().read(stream, &mut buffer) {
            Ok(0) => Some(()),
            Ok(count) => {
                got.came(&buffer[..count]);
                None
            }
            Err(error) if error.is_would_block() => None,
            Err(error) => panic!("after {} bytes: {error}", got.at),
        }
    });
    assert_eq!(got.at, len);
}

fn write(mut peer: &KernelStream, len: usize) {
    let mut sent = Content::new(THEIRS, len);
    while sent.at < len {
        sent.at += peer.write(sent.next()).expect("nobody resets it");
    }
}

#[test]
fn what_a_closed_window_of_the_peers_keeps_here_leaves_by_the_kernel() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let mut engine = engine(a);
    for is_v6 in [false, true] {
        for (own_fin, peer_fin) in [(false, false), (true, false), (false, true), (true, true)] {
            let (stream, peer) = pair(a, b, &mut engine, is_v6);
            let mut sent = Content::new(OURS, OF_OURS);
            send(&mut engine, stream, &mut sent);
            write(&peer, OF_THEIRS);
            if own_fin {
                engine.tcp().shutdown(stream, Shutdown::Write).unwrap();
            }
            if peer_fin {
                peer.shutdown(Half::Write).unwrap();
            }
            let state = match (own_fin, peer_fin) {
                (false, false) => State::Established,
                (true, false) => State::FinWait1,
                (false, true) => State::CloseWait,
                (true, true) => State::Closing,
            };
            until(&mut engine, stream, "a closed window", |facts| {
                let is_closed = facts.send_window == 0 && facts.unsent > 0 && facts.readable == OF_THEIRS;
                // Which FIN came first is the wire's to say.
                is_closed && (facts.state == state || (facts.state, state) == (State::LastAck, State::Closing))
            });
            hand_over(a, &mut engine, stream);
            let theirs = reading(peer.try_clone().unwrap(), OF_OURS);
            if !own_fin {
                engine.tcp().shutdown(stream, Shutdown::Write).unwrap();
            }
            assert_eq!(poll_until(&mut engine, theirs), OF_OURS, "{own_fin} {peer_fin}");
            if !peer_fin {
                peer.shutdown(Half::Write).unwrap();
            }
            read(&mut engine, stream, OF_THEIRS);
            engine.tcp().close(stream).unwrap();
        }
    }
}

#[test]
fn what_our_closed_window_keeps_at_the_peer_comes_by_the_kernel() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let mut engine = engine(a);
    for is_v6 in [false, true] {
        let (stream, peer) = pair(a, b, &mut engine, is_v6);
        let theirs = peer.try_clone().unwrap();
        let writing = std::thread::spawn(move || {
            write(&theirs, TOO_MUCH);
            theirs.shutdown(Half::Write).unwrap();
        });
        until(&mut engine, stream, "a closed window", |facts| facts.receive_window < facts.segment_bytes);
        hand_over(a, &mut engine, stream);
        read(&mut engine, stream, TOO_MUCH);
        poll_until(&mut engine, writing);
        engine.tcp().close(stream).unwrap();
        assert_eq!(poll_until(&mut engine, reading(peer, 0)), 0);
    }
}
