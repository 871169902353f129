//! UDP ports.

use crate::place::{MALLORY, Place, User, VICTIM, wait};
use std::net::{SocketAddr, UdpSocket};

fn mallory(place: &Place) -> User {
    let mut mallory = place.user(MALLORY);
    mallory.must("open lab0");
    mallory
}

/// A datagram from the other end reaches the owner of the port, by the kernel.
fn assert_heard(place: &Place, victim: &mut User, name: &str, at: SocketAddr) {
    let any: SocketAddr = if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().unwrap();
    let peer = place.peer().within(|| Ok(UdpSocket::bind(any).unwrap())).unwrap();
    wait("a datagram", || {
        let _ = peer.send_to(b"tick", at);
        (victim.ask(&format!("receive {name}")) == "tick").then_some(())
    });
}

/// Of sockets that share a port, the kernel delivers datagrams to the one bound more specifically, or later.
#[test]
fn a_shared_port_is_not_taken_from_another_user() {
    let Some(place) = Place::new() else { return };
    for is_v6 in [false, true] {
        let at = SocketAddr::new(place.address(is_v6), 7000);
        let any = if is_v6 { "[::]:7000" } else { "0.0.0.0:7000" };
        let (mut mallory, mut victim) = (mallory(&place), place.user(VICTIM));
        assert_eq!(victim.ask(&format!("udp server {at} shared")), at.to_string());
        assert_eq!(mallory.ask(&format!("udp held {any} shared")), any);
        let remote = if is_v6 { "[2001:2::2]:999" } else { "198.18.0.2:999" };
        for what in [format!("port udp {any}"), format!("port udp {at}"), format!("flow udp {at} {remote}")] {
            assert_eq!(mallory.ask(&format!("steer held {what}")), "Taken", "{what}");
        }
        assert_heard(&place, &mut victim, "server", at);
        // A later socket gets them, too.
        victim.must("close server");
        assert_eq!(
            wait("the port", || Some(mallory.ask(&format!("steer held port udp {any}"))).filter(|said| said == "ok")),
            "ok"
        );
        assert_eq!(victim.ask(&format!("udp server {at} shared")), at.to_string());
        assert_heard(&place, &mut victim, "server", at);
    }
}

#[test]
fn a_connected_socket_does_not_prove_its_port() {
    let Some(place) = Place::new() else { return };
    let mut mallory = mallory(&place);
    let at = place.at(7000);
    assert_eq!(mallory.ask(&format!("udp client {at} alone")), at.to_string());
    let (peer, other) = ("198.18.0.2:999", "198.18.0.2:998");
    mallory.must(&format!("connect client {peer}"));
    assert_eq!(mallory.ask(&format!("steer client port udp {at}")), "TwinMismatch");
    assert_eq!(mallory.ask(&format!("steer client flow udp {at} {other}")), "TwinMismatch");
    assert_eq!(mallory.ask(&format!("steer client flow udp {at} {peer}")), "ok");
}
