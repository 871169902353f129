//! What tests do on the two hosts of a lab.

use super::WATCHDOG;
use sidestep_testkit::lab::Host;
use std::net::UdpSocket;

/// A socket of the kernel's on a host; reading gives up after the watchdog.
pub(crate) fn socket_on(host: &Host) -> UdpSocket {
    let socket = host.within(|| Ok(UdpSocket::bind((host.ipv4, 0)).unwrap())).unwrap();
    socket.set_read_timeout(Some(WATCHDOG)).unwrap();
    socket
}

/// The kernels find each other, so that no first datagram has to wait for the neighbour.
pub(crate) fn introduce(here: &Host, there: &Host) {
    let (ours, theirs) = (socket_on(here), socket_on(there));
    ours.send_to(b"hello", theirs.local_addr().unwrap()).unwrap();
    assert_eq!(theirs.recv_from(&mut [0; 16]).unwrap().0, 5);
}
