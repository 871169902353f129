//! Feeds of users who may not read everything.

use crate::place::{MALLORY, Place, VICTIM, wait};
use std::net::UdpSocket;

const GROUP: &str = "239.1.1.1:7000";

/// A socket of the other end, which sends to groups by the lab's link.
fn sender(place: &Place) -> UdpSocket {
    let address = place.peer().ipv4;
    place.peer().within(|| Ok(UdpSocket::bind((address, 0)).expect("its own address"))).expect("root can enter")
}

#[test]
fn a_member_reads_its_group_and_nothing_else() {
    let Some(place) = Place::new() else { return };
    let (mut mallory, at) = (place.user(MALLORY), place.at(7000));
    assert_eq!(mallory.ask("udp held 0.0.0.0:7000 shared"), "0.0.0.0:7000");
    mallory.must("feed lab0");
    assert_eq!(mallory.ask(&format!("copy held group {GROUP} pass")), "NotMember");
    mallory.must(&format!("join held 239.1.1.1 {}", at.ip()));
    assert_eq!(mallory.ask(&format!("copy held group {GROUP} pass")), "pass");
    assert_eq!(mallory.ask("copy held group 239.1.1.2:7000 pass"), "NotMember");
    assert_eq!(mallory.ask("copy held group 239.1.1.1:7001 pass"), "TwinMismatch");
    // Without a socket, nothing.
    assert_eq!(mallory.ask(&format!("copy - group {GROUP} pass")), "NoTap");
    assert_eq!(mallory.ask(&format!("copy - port {at} pass")), "NoTap");
    // The datagrams of a more specific socket are its owner's.
    assert_eq!(mallory.ask(&format!("copy held port {at} pass")), "pass");
    let mut victim = place.user(VICTIM);
    assert_eq!(victim.ask(&format!("udp server {at} shared")), at.to_string());
    wait("the end of the copies", || (mallory.ask("feed notices") == "removed").then_some(()));
    assert_eq!(mallory.ask(&format!("copy held port {at} pass")), "Taken");
    assert_eq!(mallory.ask("copy held port 0.0.0.0:7000 pass"), "Taken");
}

/// A socket that joins the group later would be deaf.
#[test]
fn a_group_is_dropped_until_another_socket_receives_it() {
    let Some(place) = Place::new() else { return };
    let (mut mallory, mut victim, at) = (place.user(MALLORY), place.user(VICTIM), place.at(7000));
    assert_eq!(mallory.ask("udp held 0.0.0.0:7000 shared"), "0.0.0.0:7000");
    mallory.must(&format!("join held 239.1.1.1 {}", at.ip()));
    mallory.must("feed lab0");
    assert_eq!(mallory.ask(&format!("copy held group {GROUP} drop")), "drop");
    let peer = sender(&place);
    peer.send_to(b"tick", GROUP).expect("it can be sent");
    // Both come by one queue, in this order.
    wait("the datagram behind it", || {
        let _ = peer.send_to(b"mark", at);
        let heard = mallory.ask("receive held");
        assert_ne!(heard, "tick", "it was dropped");
        (heard == "mark").then_some(())
    });
    assert_eq!(victim.ask("udp late 0.0.0.0:7000 shared"), "0.0.0.0:7000");
    victim.must(&format!("join late 239.1.1.1 {}", at.ip()));
    wait("a datagram for the late socket", || {
        let _ = peer.send_to(b"tick", GROUP);
        (victim.ask("receive late") == "tick").then_some(())
    });
    assert_eq!(mallory.ask("feed notices"), "pass");
    // It is one reader's again.
    victim.must("close late");
    wait("the drop", || (mallory.ask("feed notices") == "drop").then_some(()));
}
