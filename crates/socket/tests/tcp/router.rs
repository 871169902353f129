//! A third host beyond a router whose link takes smaller packets: what ICMP says reaches connections and datagrams.

use crate::peer::{THEIRS, carry, connect, kernel_exchange};
use crate::support::{Control, address, bind, engine, ip, lab, wait};
use sidestep_lab::Side;
use sidestep_lab::{Host, Lab};
use sidestep_stack::tcp::Readiness;
use sidestep_sys::netns;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;

/// What the link beyond the router takes.
const MTU: u32 = 1400;

/// A namespace that host A routes to, out of the ranges for benchmarks as the lab's own addresses are.
struct Beyond {
    name: String,
}

impl Beyond {
    fn up(lab: &Lab) -> Self {
        let (a, b) = (lab.host(Side::A), lab.host(Side::B));
        let beyond = Self { name: format!("{}-beyond", a.namespace) };
        run(&["netns", "add", &beyond.name]);
        ip(a, &format!("link add far0 type veth peer name near0 netns {}", beyond.name));
        for line in
            ["link set far0 up", "address add 198.19.0.1/24 dev far0", "address add 2001:2:0:9::1/64 dev far0 nodad"]
        {
            ip(a, line);
        }
        for line in [
            "link set lo up",
            "link set near0 up",
            "address add 198.19.0.2/24 dev near0",
            "address add 2001:2:0:9::2/64 dev near0 nodad",
            "route add default via 198.19.0.1",
            "-6 route add default via 2001:2:0:9::1",
        ] {
            run(&[&["-n", beyond.name.as_str()][..], &line.split(' ').collect::<Vec<_>>()].concat());
        }
        ip(a, &format!("link set far0 mtu {MTU}"));
        ip(b, &format!("route add 198.19.0.0/24 via {}", a.ipv4));
        ip(b, &format!("-6 route add 2001:2:0:9::/64 via {}", address(a, true)));
        for family in ["ipv4", "ipv6"] {
            let setting = format!("/proc/sys/net/{family}/conf/all/forwarding");
            a.within(|| Ok(std::fs::write(setting, "1"))).unwrap().unwrap();
        }
        beyond
    }

    fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        netns::within(PathBuf::from("/run/netns").join(&self.name), || Ok(work())).unwrap()
    }

    fn address(is_v6: bool) -> IpAddr {
        if is_v6 { "2001:2:0:9::2".parse().unwrap() } else { "198.19.0.2".parse().unwrap() }
    }
}

impl Drop for Beyond {
    fn drop(&mut self) {
        run(&["netns", "del", &self.name]);
    }
}

fn run(words: &[&str]) {
    assert!(Command::new("ip").args(words).status().unwrap().success(), "ip {words:?}");
}

#[test]
fn a_path_with_a_smaller_mtu_carries_every_byte() {
    let Some(lab) = lab() else { return };
    let b = lab.host(Side::B);
    let beyond = Beyond::up(&lab);
    let _control = Control::start(b);
    let mut engine = engine(b);
    for is_v6 in [false, true] {
        let at = SocketAddr::new(Beyond::address(is_v6), 0);
        let server = beyond.within(|| std::net::TcpListener::bind(at).unwrap());
        let at = server.local_addr().unwrap();
        let stream = connect(b, &mut engine, at);
        assert!(engine.tcp().path(stream).unwrap().is_accelerated(), "{}", engine.tcp().path(stream).unwrap());
        let facts = engine.tcp().facts(stream).unwrap().unwrap();
        assert_eq!(facts.path_mtu, 1500, "the interface's, as nobody has said anything yet");
        carry(&mut engine, stream, server.accept().unwrap().0, 1 << 20);
        let facts = engine.tcp().facts(stream).unwrap().unwrap();
        assert_eq!(u32::from(facts.path_mtu), MTU, "as the router has said");
        // The next connection knows it from the start.
        let next = connect(b, &mut engine, at);
        assert_eq!(u32::from(engine.tcp().facts(next).unwrap().unwrap().path_mtu), MTU);
    }
}

#[test]
fn a_route_that_gets_a_smaller_mtu_is_followed() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    let server = crate::peer::kernel_listen(a, SocketAddr::new(address(a, false), 0));
    let stream = connect(b, &mut engine, server.local_addr().unwrap());
    let theirs = kernel_exchange(server.accept().unwrap().0, THEIRS, 100_000);
    ip(b, &format!("route add {}/32 dev {} mtu 1300", a.ipv4, b.interface));
    wait("the route's MTU", || {
        engine.poll().unwrap();
        // Whatever is sent asks the tables again.
        let _ = engine.tcp().send(stream, &[0; 1]);
        (engine.tcp().facts(stream).unwrap().unwrap().path_mtu == 1300).then_some(())
    });
    drop(theirs);
}

#[test]
fn datagrams_past_the_kernel_learn_the_paths_mtu() {
    let Some(lab) = lab() else { return };
    let b = lab.host(Side::B);
    let beyond = Beyond::up(&lab);
    let _control = Control::start(b);
    let mut engine = engine(b);
    for is_v6 in [false, true] {
        let at = SocketAddr::new(Beyond::address(is_v6), 0);
        let peer = beyond.within(|| std::net::UdpSocket::bind(at).unwrap());
        peer.set_nonblocking(true).unwrap();
        let to = peer.local_addr().unwrap();
        let socket = bind(b, &mut engine, SocketAddr::new(address(b, is_v6), 0));
        let payload = vec![7; 1440];
        wait("the path past the kernel", || {
            let _ = engine.send_to(socket, b"first", to);
            engine.poll().unwrap();
            engine.path_to(socket, to).unwrap().is_accelerated().then_some(())
        });
        assert!(engine.path_to(socket, to).unwrap().is_accelerated());
        let mut buffer = [0; 2000];
        wait("a datagram in pieces", || {
            // The first is lost at the router; then the kernel cuts.
            let _ = engine.send_to(socket, &payload, to);
            let _ = engine.receive(socket).unwrap();
            std::thread::yield_now();
            peer.recv(&mut buffer).ok().filter(|count| *count == payload.len())
        });
        let sent = engine.statistics(socket).unwrap();
        assert!(sent.sent_by_kernel > 0, "{sent:?}");
        // What fits goes past the kernel, now as before.
        engine.send_to(socket, &payload[..1300], to).unwrap();
        assert_eq!(engine.statistics(socket).unwrap().sent, sent.sent + 1);
    }
}

/// What a router says of a SYN ends the attempt, by the errno of a kernel's socket at the same place.
#[test]
fn what_a_router_says_ends_a_connection_in_the_making() {
    let Some(lab) = lab() else { return };
    let (a, b): (&Host, &Host) = (lab.host(Side::A), lab.host(Side::B));
    let _beyond = Beyond::up(&lab);
    let _control = Control::start(b);
    let mut engine = engine(b);
    // In Linux `prohibit` is "administratively prohibited", which IPv4 and IPv6 tell by other errnos, `unreachable` is host or
    // no route, `throw` falls through to no route: the network.
    for (number, (kind, v6)) in
        [("prohibit", false), ("prohibit", true), ("unreachable", false), ("unreachable", true)].into_iter().enumerate()
    {
        let place = 70 + number;
        let (family, to) = match v6 {
            false => ("", format!("198.19.0.{place}")),
            true => ("-6 ", format!("2001:2:0:9::{place}")),
        };
        ip(a, &format!("{family}route add {kind} {to}/{}", if v6 { 128 } else { 32 }));
        let at = SocketAddr::new(to.parse().unwrap(), 7);
        let kernels = b.within(|| Ok(std::net::TcpStream::connect(at).unwrap_err().raw_os_error())).unwrap().unwrap();
        let options = engine.tcp().defaults();
        let stream = b.within(|| engine.tcp().connect(at, None, options)).unwrap();
        wait(&format!("the router's word of {kind} {to}"), || {
            engine.poll().unwrap();
            engine.tcp().readiness(stream).unwrap().has(Readiness::ERROR).then_some(())
        });
        assert!(engine.tcp().path(stream).unwrap().is_accelerated());
        let error = engine.tcp().take_error(stream).unwrap().unwrap();
        assert_eq!(error.errno(), kernels, "{kind} {to}: {error}");
        engine.tcp().close(stream).unwrap();
    }
}
