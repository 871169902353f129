//! What nobody reads holds its share of the frames, and no more: connections, sending, and sockets that are read go on.

use crate::peer::{OURS, THEIRS, accept, exchange, kernel_connect, kernel_exchange, listen, poll_until};
use crate::support::{Control, address, bind, engine, kernel, lab, receive};
use sidestep_socket::Engine;
use sidestep_testkit::lab::Side;
use std::net::{SocketAddr, UdpSocket};

/// Datagrams in all for the sockets that nobody reads: several times the frames of the engine.
const FLOOD: usize = 5000;

/// Sends to each socket in turn; the engine takes what comes and nobody reads it.
fn flood(engine: &mut Engine, client: &UdpSocket, ports: &[u16], to: SocketAddr) {
    for (number, port) in (0..FLOOD).zip(ports.iter().cycle()) {
        client.send_to(b"unread", SocketAddr::new(to.ip(), *port)).unwrap();
        if number % 16 == 0 {
            engine.poll().unwrap();
        }
    }
}

#[test]
fn sockets_that_nobody_reads_leave_frames_to_everybody_else() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    for (count, is_v6) in [(1, false), (4, true), (300, false)] {
        let mut engine = engine(b);
        let at = SocketAddr::new(address(b, is_v6), 7000);
        let listener = listen(b, &mut engine, at);
        let ports: Vec<u16> = (20_000..20_000 + count).collect();
        let unread: Vec<_> = ports.iter().map(|port| bind(b, &mut engine, SocketAddr::new(at.ip(), *port))).collect();
        assert!(unread.iter().all(|socket| engine.path(*socket).unwrap().is_accelerated()));
        let read = bind(b, &mut engine, SocketAddr::new(at.ip(), 7001));
        let client = kernel(a, SocketAddr::new(address(a, is_v6), 0));
        flood(&mut engine, &client, &ports, at);
        let dropped: u64 = unread.iter().map(|socket| engine.statistics(*socket).unwrap().dropped).sum();
        assert!(dropped > 0, "{count} sockets: more came than there is room for, and each socket says what it lost");

        client.send_to(b"read", SocketAddr::new(at.ip(), 7001)).unwrap();
        let datagram = receive(&mut engine, read);
        assert_eq!(engine.payload(&datagram), b"read");
        engine.reply(read, datagram).unwrap();
        engine.flush().unwrap();
        let mut buffer = [0; 16];
        assert_eq!(client.recv(&mut buffer).unwrap(), 4);

        const BYTES: usize = 4 << 20;
        let peer = kernel_connect(a, at);
        let stream = accept(&mut engine, listener);
        assert!(engine.tcp().path(stream).unwrap().is_accelerated());
        let theirs = kernel_exchange(poll_until(&mut engine, peer), THEIRS, BYTES);
        let ours = exchange(&mut engine, stream, OURS, BYTES);
        let theirs = poll_until(&mut engine, theirs);
        assert_eq!(ours, (theirs.1, theirs.0));

        // What is unread is still there to be read, in full: nothing was taken back.
        for socket in unread {
            let statistics = engine.statistics(socket).unwrap();
            let mut count = 0;
            while let Some(datagram) = engine.receive(socket).unwrap() {
                assert_eq!(engine.payload(&datagram), b"unread");
                engine.release(datagram);
                count += 1;
            }
            assert_eq!(count + statistics.dropped, statistics.received + statistics.received_by_kernel);
            assert!(count > 0, "each has its share");
        }
    }
}
