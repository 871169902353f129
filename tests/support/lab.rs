//! What tests do on the two hosts of a lab.

use super::WATCHDOG;
use sidestep_lab::Host;
use std::net::{SocketAddr, UdpSocket};

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

/// One question at a time, of every length that a frame holds; every byte of the answer is compared.
pub(crate) fn ask(from: &Host, at: SocketAddr, questions: u32) {
    let peer = socket_on(from);
    for number in 0..questions {
        let sent: Vec<u8> = (0..number * 7 % 1473).map(|index| (index * 31 + number) as u8).collect();
        peer.send_to(&sent, at).unwrap();
        let mut answer = [0; 2048];
        let (count, from) = peer.recv_from(&mut answer).expect("an answer");
        assert_eq!((&answer[..count], from), (&sent[..], at), "{number}");
    }
}
