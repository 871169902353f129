//! Queues that change: the peer's packets come by another one, or the device is given more of them.

use crate::peer::{accept, ask, connect, heard, join, kernel_connect, kernel_listen, listen, poll_until, receive};
use crate::support::{Control, address, wait};
use crate::{engine, lab, told};
use sidestep_lab::Host;
use sidestep_lab::Side;
use sidestep_socket::tcp::TcpError;
use sidestep_socket::{Queues, Reason};
use std::io::Write;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

/// Longer than several retransmission timeouts of Linux, each of which chooses another transmit queue (net.core.txrehash).
const STOP: Duration = Duration::from_millis(1500);

#[test]
fn a_peer_that_sends_by_another_queue_after_a_timeout_is_followed() {
    for is_v6 in [false, true] {
        let Some(lab) = lab(4) else { return };
        let (a, b) = (lab.host(Side::A), lab.host(Side::B));
        let _control = Control::start(a);
        let mut engine = engine(a, Queues::Every);
        let listener = listen(a, &mut engine, SocketAddr::new(address(a, is_v6), 7000));
        let server = kernel_listen(b, SocketAddr::new(address(b, is_v6), 0));
        let mut streams = Vec::new();
        for _ in 0..8 {
            streams.push(join(b, &mut engine, listener, SocketAddr::new(address(a, is_v6), 7000)));
            let stream = connect(a, &mut engine, server.local_addr().unwrap());
            streams.push((stream, server.accept().unwrap().0));
        }
        for _ in 0..2 {
            for (number, (_, peer)) in streams.iter_mut().enumerate() {
                peer.write_all(&[number as u8; 16]).unwrap();
            }
            // What came is acknowledged by nobody, and sent again, and again.
            std::thread::sleep(STOP);
            for (number, (stream, peer)) in streams.iter_mut().enumerate() {
                let mut buffer = [0; 64];
                let count = receive(&mut engine, *stream, &mut buffer);
                assert_eq!(buffer[..count], [number as u8; 16][..count]);
                assert_eq!(engine.tcp().send(*stream, b"still here"), Ok(10));
                let mut answer = [0; 10];
                heard(&mut engine, peer, &mut answer).unwrap();
                assert_eq!(&answer, b"still here");
            }
        }
    }
}

fn ethtool(host: &Host, words: &str) {
    let mut command = Command::new("ethtool");
    let done = host.spawn(command.args(words.split(' '))).expect("ethtool is there").wait().expect("it ends");
    assert!(done.success(), "ethtool {words}");
}

#[test]
fn a_device_that_is_given_more_queues_takes_its_stacks_back_by_name_and_they_return_with_all() {
    let Some(lab) = lab(4) else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    // A veth sends by no more queues than its other end receives by.
    ethtool(b, "-L lab0 tx 2");
    ethtool(a, "-L lab0 rx 2");
    let _control = Control::start(a);
    let mut engine = engine(a, Queues::Every);
    assert_eq!(engine.queues(), [0, 1], "those in use, not those that there is room for");
    let at = SocketAddr::new(address(a, false), 7000);
    let listener = listen(a, &mut engine, at);
    let (stream, mut peer) = join(b, &mut engine, listener, at);
    ask(&mut engine, stream, &mut peer, b"before");
    ethtool(a, "-L lab0 rx 4");
    ethtool(b, "-L lab0 tx 4");
    wait("the stream's end", || {
        engine.poll().unwrap();
        matches!(engine.tcp().read(stream, &mut [0; 8]), Err(TcpError::Lost(Reason::Revoked))).then_some(())
    });
    wait("a stack with all queues", || {
        engine.poll().unwrap();
        (engine.queues() == [0, 1, 2, 3] && engine.tcp().listener_path(listener).unwrap().is_accelerated())
            .then_some(())
    });
    // What came to the kernel's socket before the rule stood is the kernel's.
    wait("a connection past the kernel", || {
        let peer = kernel_connect(b, at);
        let stream = accept(&mut engine, listener);
        let is_past = engine.tcp().path(stream).unwrap().is_accelerated();
        drop(poll_until(&mut engine, peer));
        engine.tcp().close(stream).unwrap();
        is_past.then_some(())
    });
    for _ in 0..16 {
        let peer = kernel_connect(b, at);
        let stream = accept(&mut engine, listener);
        assert!(engine.tcp().path(stream).unwrap().is_accelerated());
        let mut peer = poll_until(&mut engine, peer);
        ask(&mut engine, stream, &mut peer, b"after");
    }
    assert!(!told(a).counters.contains("drop-queue"), "of the new stack");
}
