//! What the kernel learns at once of a connection that is handed over: what has arrived, and the round trip. Otherwise a timeout of
//! one or three seconds would have to end first.

use crate::peer::{ask, connect, kernel_listen};
use crate::support::{Control, address, engine, lab, reach, wait};
use sidestep_lab::{Host, Side};
use sidestep_socket::{Path, Reason};
use sidestep_stack::tcp::State;
use sidestep_sys::socket::unread_by_peer_bytes;
use sidestep_sys::tcp_repair::bytes_put;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;

/// Segments that a host's kernel has sent again (RFC 4022), loss probes among them.
fn sent_again(host: &Host) -> u64 {
    let text = host.within(|| Ok(std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap())).unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let place = lines.next().unwrap().split(' ').position(|name| name == "RetransSegs").unwrap();
    lines.next().unwrap().split(' ').nth(place).unwrap().parse().unwrap()
}

#[test]
fn the_peer_says_what_it_has_without_a_timeout() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let mut engine = engine(a);
    for is_v6 in [false, true] {
        for state in [State::Established, State::CloseWait] {
            reach(a, address(b, is_v6));
            let server = kernel_listen(b, SocketAddr::new(address(b, is_v6), 0));
            let stream = connect(a, &mut engine, server.local_addr().unwrap());
            let mut peer = server.accept().unwrap().0;
            ask(&mut engine, stream, &mut peer, b"hello");
            if state == State::CloseWait {
                peer.shutdown(Shutdown::Write).unwrap();
            }
            wait("its state", || {
                engine.poll().unwrap();
                let facts = engine.tcp().facts(stream).unwrap().unwrap();
                (facts.state == state && facts.unacknowledged == 0).then_some(())
            });
            let before = sent_again(a);
            let socket = a.within(|| Ok(engine.tcp().socket_for(stream).unwrap())).unwrap();
            let kernels = socket.try_clone().unwrap();
            engine.tcp().begin_hand_over(stream, socket).unwrap();
            wait("the hand-over", || {
                engine.poll().unwrap();
                (engine.tcp().path(stream).unwrap() == Path::Kernel(Reason::HandedOver)).then_some(())
            });
            assert_eq!(bytes_put(kernels.as_fd()).unwrap(), 1, "one byte to be acknowledged");
            wait("the peer's answer", || (unread_by_peer_bytes(kernels.as_fd()).unwrap() == 0).then_some(()));
            assert_eq!(sent_again(a), before, "{state:?}: the peer has answered something sooner");
            engine.tcp().close(stream).unwrap();
        }
    }
}
