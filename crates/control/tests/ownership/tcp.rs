//! TCP ports and connections.

use crate::place::{MALLORY, Place, User, VICTIM, WATCHDOG, wait};
use rustix::net::sockopt::set_socket_linger;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Mallory with a stack on the wire.
fn mallory(place: &Place) -> User {
    let mut mallory = place.user(MALLORY);
    mallory.must("open lab0");
    mallory
}

/// A client at the other end reaches the listener there, by the kernel.
fn assert_served(place: &Place, victim: &mut User, name: &str, at: SocketAddr) {
    let connect = || Ok(TcpStream::connect_timeout(&at, WATCHDOG));
    place.peer().within(connect).unwrap().expect("it is served");
    wait("a connection", || (victim.ask(&format!("accept {name}")) == "ok").then_some(()));
}

/// With SO_REUSEADDR any user may hold a port that another server listens on.
#[test]
fn a_port_that_its_holder_does_not_listen_on_is_not_taken_from_who_does() {
    let Some(place) = Place::new() else { return };
    for (is_v6, port) in [(false, 7000), (true, 7001)] {
        let at = SocketAddr::new(place.address(is_v6), port);
        let any = if is_v6 { format!("[::]:{port}") } else { format!("0.0.0.0:{port}") };
        let (mut mallory, mut victim) = (mallory(&place), place.user(VICTIM));
        assert_eq!(mallory.ask(&format!("tcp held {any} shared")), any);
        for address in [&any, &at.to_string()] {
            assert_eq!(mallory.ask(&format!("steer held port tcp {address}")), "TwinMismatch");
        }
        assert_eq!(victim.ask(&format!("tcp server {any} shared")), any);
        victim.must("listen server");
        assert_served(&place, &mut victim, "server", at);
        // Nor its future connections, one by one.
        let flow = format!("steer held flow tcp {at} {}", SocketAddr::new(peer_address(&place, is_v6), 999));
        assert_eq!(mallory.ask(&flow), "Taken");
    }
}

fn peer_address(place: &Place, is_v6: bool) -> std::net::IpAddr {
    if is_v6 { place.peer().ipv6.expect("this kernel has IPv6").into() } else { place.peer().ipv4.into() }
}

/// The port has another owner from then on.
#[test]
fn a_port_goes_back_when_its_holder_stops_listening() {
    let Some(place) = Place::new() else { return };
    let at = place.at(7000);
    let (mut mallory, mut victim) = (mallory(&place), place.user(VICTIM));
    assert_eq!(mallory.ask("tcp held 0.0.0.0:7000 shared"), "0.0.0.0:7000");
    mallory.must("listen held");
    assert_eq!(mallory.ask("steer held port tcp 0.0.0.0:7000"), "ok");
    let remote = SocketAddr::from((place.peer().ipv4, 999));
    assert_eq!(mallory.ask(&format!("steer held flow tcp {at} {remote}")), "ok");
    assert_eq!(victim.ask("tcp server 0.0.0.0:7000 shared"), "AddrInUse", "the kernel keeps it for who listens");
    mallory.must("unlisten held");
    assert_eq!(victim.ask("tcp server 0.0.0.0:7000 shared"), "0.0.0.0:7000");
    victim.must("listen server");
    let entries = || {
        place
            .root()
            .unwrap()
            .clients()
            .unwrap()
            .iter()
            .flat_map(|line| &line.stacks)
            .map(|stack| stack.entries)
            .sum::<u32>()
    };
    wait("the end of its rules", || (entries() == 0).then_some(()));
    assert_served(&place, &mut victim, "server", at);
}

/// A socket keeps reporting the port that the kernel chose for it after its connection has ended.
#[test]
fn a_dead_socket_proves_no_port_and_is_bound_to_none_by_being_asked() {
    let Some(place) = Place::new() else { return };
    let server = place.peer().within(|| Ok(TcpListener::bind((place.peer().ipv4, 0)).unwrap())).unwrap();
    let (mut mallory, mut victim) = (mallory(&place), place.user(VICTIM));
    mallory.ask("tcp dead 0.0.0.0:0 unbound");
    mallory.must(&format!("connect dead {}", server.local_addr().unwrap()));
    let accepted = server.accept().unwrap().0;
    let at: SocketAddr = mallory.ask("local dead").parse().unwrap();
    set_socket_linger(&accepted, Some(Duration::ZERO)).unwrap();
    drop(accepted);
    assert_eq!(
        wait("a reset", || Some(mallory.ask("receive dead")).filter(|said| said != "WouldBlock")),
        "ConnectionReset"
    );
    assert_eq!(mallory.ask("local dead"), at.to_string(), "it names the port all the same");
    let remote = SocketAddr::from((place.peer().ipv4, 999));
    for _ in 0..2 {
        assert_eq!(mallory.ask(&format!("steer dead port tcp {at}")), "TwinMismatch");
        assert_eq!(mallory.ask(&format!("steer dead flow tcp {at} {remote}")), "TwinMismatch");
    }
    assert_eq!(victim.ask(&format!("tcp server {at} alone")), at.to_string(), "it is free");
    victim.must("listen server");
    assert_eq!(mallory.ask(&format!("steer dead port tcp {at}")), "TwinMismatch");
    assert_served(&place, &mut victim, "server", at);
}

/// A service of inetd has a connection on a port of root's, and no other right to the port. Once the connection has
/// ended, control must not bind it to a port that its user may not have.
#[test]
fn an_inherited_connection_does_not_prove_the_port_of_its_listener() {
    let Some(place) = Place::new() else { return };
    let at = place.at(22);
    let server = place.host().within(|| Ok(TcpListener::bind(at).unwrap())).unwrap();
    let mut peer = place.peer().within(|| Ok(TcpStream::connect(at).unwrap())).unwrap();
    let (accepted, from) = server.accept().unwrap();
    let mut mallory = place.heir(MALLORY, OwnedFd::from(accepted));
    mallory.must("inherit service");
    mallory.must("open lab0");
    assert_eq!(mallory.ask("local service"), at.to_string());
    let other = SocketAddr::new(from.ip(), from.port() ^ 1);
    let tried = [format!("port tcp {at}"), "port tcp 0.0.0.0:22".into(), format!("flow tcp {at} {other}")];
    for what in &tried {
        assert_eq!(mallory.ask(&format!("steer service {what}")), "TwinMismatch", "{what}");
    }
    // Even its own stays with the kernel.
    assert_eq!(mallory.ask(&format!("steer service flow tcp {at} {from}")), "KernelConnections");
    peer.write_all(b"x").unwrap();
    assert_eq!(wait("a byte", || Some(mallory.ask("receive service")).filter(|said| said != "WouldBlock")), "x");
    // It ends; sshd is restarted.
    set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
    drop((peer, server));
    wait("a reset", || (mallory.ask("receive service") == "ConnectionReset").then_some(()));
    for what in &tried {
        assert_eq!(mallory.ask(&format!("steer service {what}")), "TwinMismatch", "{what}");
    }
    let again = place.host().within(|| Ok(TcpListener::bind(at).map(drop))).unwrap();
    again.expect("nobody has bound it");
}

/// Ports that the kernel chooses at connect are shared by connections to different peers.
#[test]
fn a_connection_proves_itself_and_not_the_answers_to_others() {
    let Some(place) = Place::new() else { return };
    let listen = || Ok(TcpListener::bind((place.peer().ipv4, 0)).unwrap());
    let (one, other) = (place.peer().within(listen).unwrap(), place.peer().within(listen).unwrap());
    let mut mallory = mallory(&place);
    mallory.ask("tcp client 0.0.0.0:0 unbound");
    mallory.must(&format!("connect client {}", one.local_addr().unwrap()));
    let mut there = one.accept().unwrap().0;
    let local = mallory.ask("local client");
    let (its, others) = (one.local_addr().unwrap(), other.local_addr().unwrap());
    assert_eq!(mallory.ask(&format!("steer client port tcp {local}")), "TwinMismatch");
    assert_eq!(mallory.ask(&format!("steer client flow tcp {local} {others}")), "TwinMismatch");
    assert_eq!(mallory.ask(&format!("steer client flow tcp {local} {its}")), "KernelConnections");
    // A connecting socket has a port, and no peer yet.
    let nobody = "198.18.0.99:9";
    mallory.ask("tcp waiting 0.0.0.0:0 unbound");
    mallory.must(&format!("connect waiting {nobody}"));
    let local = mallory.ask("local waiting");
    assert_eq!(mallory.ask(&format!("steer waiting port tcp {local}")), "TwinMismatch");
    for remote in [others.to_string(), nobody.to_owned()] {
        assert_eq!(mallory.ask(&format!("steer waiting flow tcp {local} {remote}")), "TwinMismatch");
    }
    there.write_all(b"still there").unwrap();
    assert_eq!(
        wait("bytes", || Some(mallory.ask("receive client")).filter(|said| said != "WouldBlock")),
        "still there"
    );
    there.set_nonblocking(true).unwrap();
    assert!(there.read(&mut [0; 1]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "it is open");
}
