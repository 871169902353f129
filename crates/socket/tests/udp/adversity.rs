//! What must not make a host unreachable, or lose a socket: the kernel stays beside us whatever happens.

use crate::roles::start;
use crate::support::{Control, address, bind, engine, ip, kernel, lab, receive, wait, wait_for_control};
use sidestep_lab::Host;
use sidestep_lab::Side;
use sidestep_socket::{Engine, Handle, Reason, UdpOptions};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

/// The kernel answers on the same interface: ICMP and TCP.
fn assert_reachable(from: &Host, to: &Host) {
    let mut ping = Command::new("ping");
    let ping = ping.args(["-n", "-c", "1", "-W", "5", &to.ipv4.to_string()]).stdout(std::process::Stdio::null());
    assert!(from.spawn(ping).unwrap().wait().unwrap().success(), "ping");
    let listener = to.within(|| Ok(TcpListener::bind((to.ipv4, 0)).unwrap())).unwrap();
    let at = listener.local_addr().unwrap();
    from.within(|| Ok(TcpStream::connect_timeout(&at, Duration::from_secs(10)).unwrap())).unwrap();
}

/// One message there and back, tried again, as a program would over UDP; whether it went past the kernel.
pub(crate) fn ask(client: &UdpSocket, at: SocketAddr, mut serve: impl FnMut()) {
    client.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    wait("an answer", || {
        // Both may fail while a link is down.
        let _ = client.send_to(b"ask", at);
        serve();
        client.recv(&mut [0; 64]).ok()
    });
}

pub(crate) fn answer(engine: &mut Engine, socket: Handle) {
    for _ in 0..100 {
        if let Some(datagram) = engine.receive(socket).unwrap() {
            // What cannot be answered now is asked again.
            let _ = engine.reply(socket, datagram);
        }
    }
}

/// Asks until the answers come past the kernel again.
pub(crate) fn until_fast(engine: &mut Engine, socket: Handle, client: &UdpSocket, at: SocketAddr) {
    wait("answers past the kernel", || {
        let before = engine.statistics(socket).unwrap();
        ask(client, at, || answer(engine, socket));
        let after = engine.statistics(socket).unwrap();
        (after.received > before.received && after.sent > before.sent).then_some(())
    });
}

#[test]
fn a_stopped_or_killed_owner_leaves_its_packets_to_the_kernel() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let at = SocketAddr::new(address(b, false), 7300);
    let mut owner = start(b, "echo", Some(at), None);
    assert!(owner.line("path ").contains("Accelerated"));
    let client = kernel(a, SocketAddr::new(address(a, false), 0));
    ask(&client, at, || {});
    owner.signal(libc::SIGSTOP);
    assert_reachable(a, b);
    // Within the deadline of a second the frames go to the kernel, whose socket keeps them for the owner.
    std::thread::sleep(Duration::from_millis(1200));
    client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    while client.recv(&mut [0; 64]).is_ok() {}
    client.send_to(b"while stopped", at).unwrap();
    assert_reachable(a, b);
    let received = udp_queue(b, 7300);
    assert!(received > 0, "the kernel's socket has it");
    owner.signal(libc::SIGCONT);
    wait("the answer to what came while it was stopped", || {
        client.recv(&mut [0; 64]).ok().filter(|count| *count == 13)
    });
    ask(&client, at, || {});
    owner.kill();
    assert_reachable(a, b);
    // The port is free again, and its traffic the kernel's.
    let heir = wait("the port", || b.within(|| Ok(UdpSocket::bind(at).ok())).unwrap());
    heir.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    wait("traffic at the kernel", || {
        client.send_to(b"heir", at).unwrap();
        heir.recv(&mut [0; 64]).ok()
    });
}

/// Bytes waiting in the kernel's socket of a port.
fn udp_queue(host: &Host, port: u16) -> u64 {
    let table = host.within(|| Ok(std::fs::read_to_string("/proc/thread-self/net/udp").unwrap())).unwrap();
    let line = table.lines().find(|line| line.contains(&format!(":{port:04X} "))).expect("the socket is there");
    let queues = line.split_whitespace().nth(4).unwrap();
    u64::from_str_radix(queues.split(':').nth(1).unwrap(), 16).unwrap()
}

#[test]
fn a_control_plane_that_is_killed_and_restarted_is_not_missed() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let mut control = start(b, "control", None, None);
    wait_for_control(b);
    let mut engine = engine(b);
    let at = SocketAddr::new(address(b, false), 7301);
    let socket = bind(b, &mut engine, at);
    let client = kernel(a, SocketAddr::new(address(a, false), 0));
    until_fast(&mut engine, socket, &client, at);
    control.kill();
    // Routes are trusted for three seconds without it; then the kernel sends, and what comes still comes past it.
    until_fast(&mut engine, socket, &client, at);
    assert_reachable(a, b);
    let control = start(b, "control", None, None);
    // Another one has the engine's stack: what is asked of it is done.
    let other = SocketAddr::new(address(b, false), 7302);
    let second = wait("a socket by the new control plane", || {
        ask(&client, at, || answer(&mut engine, socket));
        let second = bind(b, &mut engine, other);
        match engine.path(second).unwrap().is_accelerated() {
            true => Some(second),
            false => {
                engine.close(second).unwrap();
                None
            }
        }
    });
    until_fast(&mut engine, second, &client, other);
    until_fast(&mut engine, socket, &client, at);
    assert_eq!(engine.refusal(), None);
    drop(engine);
    drop(control);
    b.within(sidestep_control::cleanup).unwrap();
}

#[test]
fn links_addresses_routes_and_neighbours_may_change() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    let at = SocketAddr::new(address(b, false), 7303);
    let socket = bind(b, &mut engine, SocketAddr::new([0, 0, 0, 0].into(), 7303));
    let client = kernel(a, SocketAddr::new(address(a, false), 0));
    until_fast(&mut engine, socket, &client, at);
    let interface = &b.interface;
    for (change, undo) in [
        (format!("link set {interface} down"), format!("link set {interface} up")),
        (format!("link set {interface} mtu 1280"), format!("link set {interface} mtu 1500")),
        (format!("route add 198.18.0.1/32 via 198.18.0.77 dev {interface}"), "route del 198.18.0.1/32".to_owned()),
        (
            format!("neigh replace 198.18.0.1 lladdr 02:00:00:00:00:77 dev {interface}"),
            format!("neigh del 198.18.0.1 dev {interface}"),
        ),
    ] {
        ip(b, &change);
        for _ in 0..20 {
            let _ = client.send_to(b"meanwhile", at);
            answer(&mut engine, socket);
        }
        ip(b, &undo);
        until_fast(&mut engine, socket, &client, at);
        assert_reachable(a, b);
    }
    ip(b, &format!("address add 198.18.0.88/24 dev {interface}"));
    until_fast(&mut engine, socket, &client, "198.18.0.88:7303".parse().unwrap());
    assert_eq!(engine.refusal(), None);
}

#[test]
fn an_interface_that_goes_away_leaves_its_sockets_with_the_kernel() {
    let Some(lab) = lab() else { return };
    let b = lab.host(Side::B);
    let _control = Control::start(b);
    let mut engine = engine(b);
    let socket = bind(b, &mut engine, SocketAddr::new([0, 0, 0, 0].into(), 7304));
    assert!(engine.path(socket).unwrap().is_accelerated());
    ip(b, &format!("link del {}", b.interface));
    wait("the reason", || {
        engine.poll().unwrap();
        engine.refusal().map(|(reason, _)| reason).filter(|reason| *reason == Reason::Revoked)
    });
    assert!(!engine.path(socket).unwrap().is_accelerated());
    // Its kernel socket goes on, by any other way.
    ip(b, "link set lo up");
    let near = b.within(|| Ok(UdpSocket::bind("127.0.0.1:0").unwrap())).unwrap();
    near.send_to(b"near", "127.0.0.1:7304").unwrap();
    let datagram = receive(&mut engine, socket);
    assert!(datagram.by_kernel());
    engine.reply(socket, datagram).unwrap();
    assert_eq!(near.recv(&mut [0; 16]).unwrap(), 4);
}

#[test]
fn fragments_and_icmp_errors_come_by_the_kernel() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    let at = SocketAddr::new(address(b, false), 7305);
    let socket = bind(b, &mut engine, at);
    let client = kernel(a, SocketAddr::new(address(a, false), 0));
    until_fast(&mut engine, socket, &client, at);
    let long = vec![7; 4000];
    client.set_read_timeout(Some(crate::support::WATCHDOG)).unwrap();
    client.send_to(&long, at).unwrap();
    let datagram =
        wait("what came in pieces", || engine.receive(socket).unwrap().filter(|datagram| datagram.len() == 4000));
    assert!(datagram.by_kernel());
    assert_eq!(engine.payload(&datagram), long);
    engine.reply(socket, datagram).unwrap();
    wait("the answer in pieces", || client.recv(&mut [0; 5000]).ok().filter(|count| *count == 4000));
    // Nobody listens there: its kernel says so.
    let nobody = SocketAddr::new(address(a, false), 9);
    let asking = bind(b, &mut engine, SocketAddr::new(address(b, false), 0));
    b.within(|| engine.connect(asking, nobody)).unwrap();
    wait("the error", || {
        let _ = engine.send(asking, b"anybody");
        let _ = engine.receive(asking).unwrap();
        engine.take_error(asking).unwrap().filter(|errno| *errno == libc::ECONNREFUSED)
    });
    // A socket without a peer is told whom it was for, if it wants to know.
    let options = UdpOptions { keep_errors: true, ..UdpOptions::default() };
    let telling = b.within(|| engine.bind(SocketAddr::new(address(b, false), 0), &options)).unwrap();
    let told = wait("the error with its destination", || {
        let _ = engine.send_to(telling, b"anybody", nobody);
        let _ = engine.receive(telling).unwrap();
        engine.next_error(telling).unwrap().filter(|_| engine.statistics(telling).unwrap().sent > 3)
    });
    assert_eq!((told.destination, told.errno), (nobody, libc::ECONNREFUSED));
}
