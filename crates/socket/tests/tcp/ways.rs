//! Ways that the tables leave open, and ports of which the kernel has connections: what is steered is answered, and what could
//! not be is not steered.

use crate::peer::{accept, ask, join, listen, poll_until, serving};
use crate::roles::start;
use crate::support::{Control, address, bind, engine, ip, kernel, lab, wait, wait_for_control};
use sidestep_lab::Host;
use sidestep_lab::Side;
use sidestep_socket::tcp::{TcpError, TcpListener};
use sidestep_socket::{Engine, Path, Reason};
use sidestep_stack::tcp::Readiness;
use std::io::Write;
use std::net::{SocketAddr, TcpStream as KernelStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

fn until_path(engine: &mut Engine, listener: TcpListener, wanted: impl Fn(Path) -> bool) {
    wait("another path", || {
        engine.poll().unwrap();
        wanted(engine.tcp().listener_path(listener).unwrap()).then_some(())
    });
}

/// Rules that the tables do not hold: the kernel alone knows the ways.
#[test]
fn nobody_listens_past_the_kernel_where_ways_are_open_and_who_did_goes_on() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    ip(b, "rule add from 198.51.100.0/24 lookup main");
    let (_control, mut engine, at, listener) = serving(b);
    assert_eq!(engine.tcp().listener_path(listener), Ok(Path::Kernel(Reason::RouteUnknown)));
    let (stream, mut peer) = join(a, &mut engine, listener, at);
    assert_eq!(engine.tcp().path(stream), Ok(Path::Kernel(Reason::RouteUnknown)));
    ask(&mut engine, stream, &mut peer, b"by the kernel");
    // The way past it is there again, but for the connection.
    ip(b, "rule del from 198.51.100.0/24 lookup main");
    until_path(&mut engine, listener, |path| path == Path::Kernel(Reason::KernelConnections));
    ask(&mut engine, stream, &mut peer, b"not cut");
    drop(peer);
    engine.tcp().close(stream).unwrap();
    until_path(&mut engine, listener, Path::is_accelerated);
    let (stream, mut peer) = join(a, &mut engine, listener, at);
    assert!(engine.tcp().path(stream).unwrap().is_accelerated());
    ask(&mut engine, stream, &mut peer, b"past the kernel");
    // Whoever is past it already stays, and answers those who come.
    ip(b, "rule add from 198.51.100.0/24 lookup main");
    let socket = bind(b, &mut engine, SocketAddr::new(at.ip(), 7001));
    let to = SocketAddr::new(address(a, false), 9);
    wait("open ways", || {
        engine.poll().unwrap();
        (engine.path_to(socket, to) == Ok(Path::Kernel(Reason::RouteUnknown))).then_some(())
    });
    ask(&mut engine, stream, &mut peer, b"still past the kernel");
    let (stream, mut peer) = join(a, &mut engine, listener, at);
    assert!(engine.tcp().path(stream).unwrap().is_accelerated());
    ask(&mut engine, stream, &mut peer, b"answered as it came");
}

/// After three seconds of its silence control's tables are not trusted any more; connections and listeners go on.
#[test]
fn connections_outlive_control_and_new_ones_are_answered() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let mut control = start(b, "control", None, None);
    wait_for_control(b);
    let mut engine = engine(b);
    let at = SocketAddr::new(address(b, false), 7000);
    let listener = listen(b, &mut engine, at);
    let (stream, mut peer) = join(a, &mut engine, listener, at);
    ask(&mut engine, stream, &mut peer, b"before");
    let socket = bind(b, &mut engine, SocketAddr::new(at.ip(), 7001));
    let to = SocketAddr::new(address(a, false), 9);
    control.kill();
    wait("distrust", || {
        engine.poll().unwrap();
        (engine.path_to(socket, to) == Ok(Path::Kernel(Reason::ControlSilent))).then_some(())
    });
    ask(&mut engine, stream, &mut peer, b"after");
    let (new, mut other) = join(a, &mut engine, listener, at);
    assert!(engine.tcp().path(new).unwrap().is_accelerated());
    ask(&mut engine, new, &mut other, b"new");
    drop(engine);
    b.within(sidestep_control::cleanup).unwrap();
}

/// The client's way here and ours back are two.
#[test]
fn a_client_whose_way_back_is_another_is_answered_as_it_came() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    ip(a, &format!("address add 198.51.100.9/32 dev {}", a.interface));
    for words in ["link add far0 type veth peer name far1", "link set far0 up", "link set far1 up"] {
        ip(b, words);
    }
    ip(b, "route add 198.51.100.0/24 dev far0");
    let _control = Control::start(b);
    let mut engine = engine(b);
    let at = SocketAddr::new(address(b, false), 7000);
    let listener = listen(b, &mut engine, "0.0.0.0:7000".parse().unwrap());
    assert!(engine.tcp().listener_path(listener).unwrap().is_accelerated());
    // They know each other's Ethernet addresses from now on.
    let _known = join(a, &mut engine, listener, at);
    let there = a.clone();
    let connecting = std::thread::spawn(move || {
        let connect = || {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("it can");
            socket.bind(&SocketAddr::from(([198, 51, 100, 9], 0)).into()).expect("it is its own");
            socket.connect(&at.into()).expect("it is accepted");
            Ok(KernelStream::from(socket))
        };
        there.within(connect).expect("root can")
    });
    let stream = accept(&mut engine, listener);
    assert!(engine.tcp().path(stream).unwrap().is_accelerated());
    let mut peer = poll_until(&mut engine, connecting);
    assert_eq!(engine.tcp().ends(stream).unwrap().1, peer.local_addr().unwrap());
    ask(&mut engine, stream, &mut peer, b"there and back");
}

/// Peers that were cut come back at once, by the kernel: they are not to be cut a second time.
#[test]
fn what_the_kernel_accepted_meanwhile_is_not_reset_when_the_stack_is_back() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let control = Control::start(b);
    let mut engine = engine(b);
    let at = SocketAddr::new(address(b, false), 7000);
    let listener = listen(b, &mut engine, "0.0.0.0:7000".parse().unwrap());
    let (first, _peer) = join(a, &mut engine, listener, at);
    drop(control);
    wait("the loss", || {
        engine.poll().unwrap();
        matches!(engine.tcp().read(first, &mut [0; 8]), Err(TcpError::Lost(_))).then_some(())
    });
    let (stream, mut peer) = join(a, &mut engine, listener, at);
    assert!(!engine.tcp().path(stream).unwrap().is_accelerated());
    ask(&mut engine, stream, &mut peer, b"by the kernel");
    let _control = Control::start(b);
    wait("another stack", || {
        engine.poll().unwrap();
        engine.refusal().is_none().then_some(())
    });
    until_path(&mut engine, listener, |path| path == Path::Kernel(Reason::KernelConnections));
    ask(&mut engine, stream, &mut peer, b"not cut again");
    drop(peer);
    engine.tcp().close(stream).unwrap();
    until_path(&mut engine, listener, Path::is_accelerated);
    let (stream, mut peer) = join(a, &mut engine, listener, at);
    assert!(engine.tcp().path(stream).unwrap().is_accelerated());
    ask(&mut engine, stream, &mut peer, b"past it again");
}

/// A program that reads datagrams alone, one after the other.
#[test]
fn a_feed_that_does_not_pause_does_not_keep_acknowledgements() {
    // One socket may leave so many unread of the 1024 frames.
    const DATAGRAMS: usize = 100;
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let (_control, mut engine, at, listener) = serving(b);
    let (stream, mut peer) = join(a, &mut engine, listener, at);
    ask(&mut engine, stream, &mut peer, b"warm");
    let feed = bind(b, &mut engine, SocketAddr::new(at.ip(), 7001));
    let sender = kernel(a, SocketAddr::new(address(a, false), 0));
    let mut unread = 0;
    wait("a full queue", || {
        sender.send_to(b"tick", SocketAddr::new(at.ip(), 7001)).unwrap();
        unread = engine.poll().unwrap();
        (unread >= DATAGRAMS).then_some(())
    });
    peer.write_all(b"order").unwrap();
    wait("the order", || {
        engine.poll().unwrap();
        engine.tcp().readiness(stream).unwrap().has(Readiness::READABLE).then_some(())
    });
    let is_acknowledged = |peer: &KernelStream| {
        let mut bytes: libc::c_int = -1;
        // SAFETY: the command (SIOCOUTQ) writes one int.
        assert_eq!(unsafe { libc::ioctl(peer.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) }, 0);
        bytes == 0
    };
    // Each of them was in the queue before: nothing is ever idle.
    let acknowledged = (0..DATAGRAMS).any(|_| {
        let datagram = engine.receive(feed).unwrap().expect("it is queued");
        engine.release(datagram);
        std::thread::sleep(Duration::from_millis(1));
        is_acknowledged(&peer)
    });
    assert!(acknowledged);
}

/// Binds this process's TCP sockets of a host that have this port to loopback: they prove nothing of another interface then.
fn bind_to_loopback(host: &Host, port: u16) {
    let cookie = |socket: BorrowedFd<'_>| sidestep_sys::socket::netns_cookie(socket).ok();
    let here = cookie(kernel(host, "127.0.0.1:0".parse().unwrap()).as_fd());
    let mut found = 0;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let name = entry.unwrap().file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // SAFETY: used at once, and never closed; one that was closed meanwhile is refused by every call below. Other tests
        // have their sockets in other namespaces.
        let socket = unsafe { BorrowedFd::borrow_raw(number) };
        let known = socket2::SockRef::from(&socket);
        let local = known.local_addr().ok().and_then(|local| local.as_socket());
        let is_stream = known.r#type().is_ok_and(|kind| kind == socket2::Type::STREAM);
        if is_stream && local.is_some_and(|local| local.port() == port) && cookie(socket) == here {
            known.bind_device(Some(b"lo")).unwrap();
            found += 1;
        }
    }
    assert_ne!(found, 0, "no socket has port {port}");
}

/// A socket that no longer proves the port: control gives the rule back, and refuses it from then on.
#[test]
fn streams_whose_rule_is_given_back_are_said_to_be_lost() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let (_control, mut engine, at, listener) = serving(b);
    let (accepted, _peer) = join(a, &mut engine, listener, at);
    let server = crate::peer::kernel_listen(a, SocketAddr::new(address(a, false), 0));
    // A port that is named has a rule of its own.
    let (own, options) = (SocketAddr::new(address(b, false), 20_000), engine.tcp().defaults());
    let connect = || engine.tcp().connect(server.local_addr().unwrap(), Some(own), options);
    let connected = b.within(connect).unwrap();
    crate::peer::established(&mut engine, connected);
    for (port, stream) in [(at.port(), accepted), (own.port(), connected)] {
        bind_to_loopback(b, port);
        wait("the loss", || {
            engine.poll().unwrap();
            matches!(engine.tcp().read(stream, &mut [0; 8]), Err(TcpError::Lost(_))).then_some(())
        });
        assert!(!engine.tcp().path(stream).unwrap().is_accelerated());
    }
    assert!(!engine.tcp().listener_path(listener).unwrap().is_accelerated());
}
