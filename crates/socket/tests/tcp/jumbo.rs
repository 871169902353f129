//! Segments longer than a frame of ours, past the kernel (Linux 6.6); the peer is Linux.

use crate::peer::{accept, carry, connect, kernel_connect, kernel_listen, listen, poll_until};
use crate::support::{Control, SENDERS, address, engine, engine_with, lab, set_mtu};
use sidestep_lab::Side;
use std::net::SocketAddr;

/// At each MTU, both roles, both families.
#[test]
fn of_every_mtu_every_byte_is_carried_both_ways() {
    const BYTES: usize = 4 << 20;
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    for mtu in [1280, 1500, 1771, 3000, 4096, 9000] {
        [a, b].into_iter().for_each(|host| set_mtu(host, mtu));
        let _control = Control::start(b);
        let mut engine = engine(b);
        for is_v6 in [false, true] {
            let server = kernel_listen(a, SocketAddr::new(address(a, is_v6), 0));
            let at = SocketAddr::new(address(b, is_v6), 7000);
            let listener = listen(b, &mut engine, at);
            for is_ours in [true, false] {
                let (stream, peer) = if is_ours {
                    (connect(b, &mut engine, server.local_addr().unwrap()), server.accept().unwrap().0)
                } else {
                    let peer = kernel_connect(a, at);
                    (accept(&mut engine, listener), poll_until(&mut engine, peer))
                };
                assert!(engine.tcp().path(stream).unwrap().is_accelerated());
                carry(&mut engine, stream, peer, BYTES);
                let facts = engine.tcp().facts(stream).unwrap().unwrap();
                let headers = if is_v6 { 40 } else { 20 } + 20;
                assert_eq!(facts.segment_bytes, mtu - headers, "an MTU of {mtu}");
                // Full segments, and ACKs: not as many as shorter ones would be.
                assert!(facts.segments_in * u64::from(mtu - headers) < 4 * BYTES as u64, "an MTU of {mtu}: {facts:?}");
                engine.tcp().close(stream).unwrap();
            }
            engine.tcp().close_listener(listener).unwrap();
        }
    }
}

/// Whoever makes the frames leave.
#[test]
fn every_sender_carries_every_byte_both_ways() {
    const BYTES: usize = 16 << 20;
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    [a, b].into_iter().for_each(|host| set_mtu(host, 9000));
    let _control = Control::start(b);
    for sender in SENDERS {
        let mut engine = engine_with(b, sender);
        eprintln!("sent by {:?}", engine.link().unwrap().sender);
        let server = kernel_listen(a, SocketAddr::new(address(a, false), 0));
        let stream = connect(b, &mut engine, server.local_addr().unwrap());
        carry(&mut engine, stream, server.accept().unwrap().0, BYTES);
        let facts = engine.tcp().facts(stream).unwrap().expect("it is past the kernel");
        assert_eq!(facts.segment_bytes, 8960);
        engine.tcp().close(stream).unwrap();
    }
}
