//! What programs show is as it was when control has let go of it: its options belong to all who have it open.

use super::hand_overs::{Owner, bytes, record, tcp};
use super::*;
use rustix::net::sockopt::{set_socket_linger, socket_linger};
use rustix::net::{bind, getsockname, listen};
use std::net::SocketAddr;

const LINGER: Duration = Duration::from_secs(7);

/// A bound socket of TCP that lingers.
fn lingering() -> (OwnedFd, SocketAddr) {
    let socket = tcp();
    bind(&socket, &"127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
    set_socket_linger(&socket, Some(LINGER)).unwrap();
    let at = SocketAddr::try_from(getsockname(&socket).unwrap()).unwrap();
    (socket, at)
}

/// Returns when control has closed all that a user has sent.
fn settle(case: &Case, uid: u32) {
    while case.registry.closers.last_of(uid).is_some() {
        std::thread::yield_now();
    }
}

#[test]
fn sockets_of_refused_and_ended_entries_linger_as_before() {
    let mut case = Case::new();
    let id = case.client(7);
    let stack = case.open(id);
    let (socket, local) = lingering();
    listen(&socket, 1).unwrap();
    let entry = |local| Entry::Listener { protocol: Protocol::Tcp, local, vlan: None };
    let elsewhere = SocketAddr::new(local.ip(), local.port() ^ 1);
    assert_eq!(case.steer(id, stack, entry(elsewhere), &socket), Some(Code::TwinMismatch));
    settle(&case, 7);
    assert_eq!(socket_linger(&socket).unwrap(), Some(LINGER), "refused");
    assert_eq!(case.steer(id, stack, entry(local), &socket), None);
    assert_eq!(case.code(id, Request::Unsteer { stack, entry: entry(local) }), None);
    settle(&case, 7);
    assert_eq!(socket_linger(&socket).unwrap(), Some(LINGER), "given back");
}

#[test]
fn twins_that_are_asked_for_and_refused_linger_as_before() {
    let mut owner = Owner::new();
    let asker = owner.case.client(9);
    let (socket, _) = lingering();
    let copy = |socket: &OwnedFd| socket.try_clone().unwrap();
    let Case { registry, host, now } = &mut owner.case;
    assert!(registry.handle(asker, Request::HandOverTwin, vec![copy(&socket)], host, *now).is_later);
    // Nobody answers, and the asker has gone.
    registry.hang_up(asker, *now);
    registry.due_answers(*now);
    assert_eq!(owner.hand_over(record(), vec![copy(&socket), bytes(9)]), Some(Code::TwinMismatch));
    [7, 9].into_iter().for_each(|uid| settle(&owner.case, uid));
    assert_eq!(socket_linger(&socket).unwrap(), Some(LINGER));
}
