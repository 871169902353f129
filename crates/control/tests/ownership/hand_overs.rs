//! Hand-overs of live connections: of another user's, to a socket of another namespace, by programs that die in the middle.

use crate::place::{MALLORY, Place, User, VICTIM, wait};
use rustix::net::{AddressFamily, SocketFlags, SocketType, accept_with, bind, getsockname, listen, socket};
use sidestep_sys::tcp_repair;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Programs that are killed: each a little later after it has asked.
const DEATHS: u32 = 40;

/// The difference, about a tenth of what control needs for a hand-over.
const STEP: Duration = Duration::from_micros(20);

const PORT: u16 = 7000;

/// A user with a stack on the wire, and an entry of a flow, which the socket `twin` proves.
fn owner(place: &Place, uid: u32, port: u16) -> (User, String) {
    let at = place.at(port);
    let remote = SocketAddr::from((place.peer().ipv4, 999));
    let flow = format!("{at} {remote}");
    let mut user = place.user(uid);
    user.must("open lab0");
    assert_eq!(user.ask(&format!("tcp twin {at}")), at.to_string());
    user.must(&format!("steer twin flow tcp {flow}"));
    (user, flow)
}

fn entries(place: &Place) -> u32 {
    let clients = place.root().unwrap().clients().unwrap();
    clients.iter().flat_map(|line| &line.stacks).map(|stack| stack.entries).sum()
}

#[test]
fn a_connection_is_handed_over_by_its_owner_alone() {
    let Some(place) = Place::with_queues(4) else { return };
    let (mut victim, flow) = owner(&place, VICTIM, PORT);
    let (mut mallory, own_flow) = owner(&place, MALLORY, PORT + 1);
    let own = place.at(PORT + 1);
    mallory.ask("tcp bare 0.0.0.0:0 unbound");
    for socket in ["bare", "twin"] {
        assert_eq!(mallory.ask(&format!("hand {socket} {flow} 9")), "NoEntry", "{socket}");
    }
    // The victim's peer, from a port that is hers.
    let stranger = format!("{own} {}", SocketAddr::from((place.peer().ipv4, 1000)));
    assert_eq!(mallory.ask(&format!("hand twin {stranger} 9")), "NoEntry");
    // Her own connection, and a socket that is bound to something else.
    mallory.ask(&format!("tcp other {}", place.at(PORT + 2)));
    assert_eq!(mallory.ask(&format!("hand other {own_flow} 9")), "TwinMismatch");
    assert_eq!(entries(&place), 2, "nothing has changed");
    mallory.must(&format!("hand twin {own_flow} 9"));
    victim.must(&format!("hand twin {flow} 9"));
    assert_eq!(entries(&place), 0);
}

/// It would become a connection there, by the right of who owns one here.
#[test]
fn a_socket_of_another_namespace_does_not_become_the_connection() {
    let Some(place) = Place::new() else { return };
    let abroad = place.peer().within(|| Ok(std::net::TcpListener::bind((place.peer().ipv4, 0)).unwrap())).unwrap();
    let mut mallory = place.heir(MALLORY, abroad.into());
    mallory.must("open lab0");
    let (at, remote) = (place.at(PORT), SocketAddr::from((place.peer().ipv4, 999)));
    mallory.ask(&format!("tcp twin {at}"));
    mallory.must(&format!("steer twin flow tcp {at} {remote}"));
    mallory.must("inherit abroad");
    assert_eq!(mallory.ask(&format!("hand abroad {at} {remote} 9")), "TwinNamespace");
    mallory.must(&format!("hand twin {at} {remote} 9"));
}

/// Whatever step it has come to: control goes on, the kernel keeps nothing, and the same connection can be another program's.
#[test]
fn programs_that_die_in_the_middle_of_a_hand_over_leave_nothing() {
    let Some(place) = Place::new() else { return };
    for number in 0..DEATHS {
        let (mut user, flow) = owner(&place, MALLORY, PORT);
        user.tell(&format!("hand twin {flow} {}", 1 << 20));
        std::thread::sleep(STEP * number);
        drop(user);
        wait("the end of its entries", || (entries(&place) == 0).then_some(()));
        wait("the end of its stack", || {
            let clients = place.root().unwrap().clients().unwrap();
            clients.iter().all(|line| line.stacks.is_empty()).then_some(())
        });
        wait("the port", || place.host().within(|| Ok(std::net::TcpListener::bind(place.at(PORT)))).unwrap().ok());
    }
    let (mut user, flow) = owner(&place, MALLORY, PORT);
    user.must(&format!("hand twin {flow} 9"));
}

/// A socket that was accepted from one in repair mode, which a program may listen with while control has it.
fn accepted_in_repair_mode(place: &Place) -> OwnedFd {
    let make = || -> io::Result<OwnedFd> {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        tcp_repair::begin(socket.as_fd())?;
        bind(&socket, &place.at(0))?;
        listen(&socket, 1)?;
        let _peer = TcpStream::connect(SocketAddr::try_from(getsockname(&socket)?)?)?;
        Ok(accept_with(&socket, SocketFlags::NONBLOCK)?)
    };
    place.host().within(|| Ok(make().unwrap())).unwrap()
}

/// No defence, but its limits: what decision 0031 and THREATS.md say of such a socket.
#[test]
fn a_socket_that_was_accepted_in_repair_mode_shares_unprivileged_ports_and_has_nothing_else() {
    let Some(place) = Place::new() else { return };
    let at = place.at(PORT);
    let mut victim = place.user(VICTIM);
    victim.ask(&format!("tcp server {at}"));
    victim.must("listen server");
    let connect = || place.host().within(|| Ok(TcpStream::connect(at).unwrap())).unwrap();
    let established = connect();
    let heir = || {
        let mut mallory = place.heir(MALLORY, accepted_in_repair_mode(&place));
        mallory.must("inherit child");
        mallory.must("disconnect child");
        mallory
    };
    let mut mallory = heir();
    assert_eq!(mallory.ask(&format!("bind child {}", place.at(80))), "PermissionDenied");
    mallory.must(&format!("bind child {at}"));
    let theirs = established.local_addr().unwrap();
    assert_eq!(mallory.ask(&format!("connect child {theirs}")), "AddrNotAvailable", "the victim's connection");
    mallory.must("listen child");
    let _next = connect();
    wait("a connection", || (mallory.ask("accept child") == "ok").then_some(()));
    assert_eq!(victim.ask("accept server"), "ok", "the connection that was there before");
    assert_eq!(victim.ask("accept server"), "WouldBlock", "this is what --hand-over root is for");
    // What leaves has this host's addresses: the route refuses others.
    let to = SocketAddr::from((place.peer().ipv4, 999));
    for (from, is_refused) in [(place.at(PORT + 1), false), (SocketAddr::from(([192, 0, 2, 9], PORT)), true)] {
        let mut mallory = heir();
        mallory.must("freebind child");
        mallory.must(&format!("bind child {from}"));
        let said = mallory.ask(&format!("connect child {to}"));
        assert_eq!(["NetworkUnreachable", "InvalidInput"].contains(&said.as_str()), is_refused, "from {from}: {said}");
    }
}
