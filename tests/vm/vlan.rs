//! VLANs, which take a kernel with 802.1Q: those of ours past the kernel, all others and what has no tag by the kernel.

use crate::bypass::{Control, PORT, assert_clean, bind, connects, engine, listens, settled, wait};
use sidestep::engine::{Engine, Path, Reason};
use sidestep::udp::UdpOptions;
use sidestep_lab::{Checksums, Host, Lab, Options, Side};
use sidestep_sys::offload;
use sidestep_sys::socket::bind_to_interface;
use sidestep_sys::xdp::device;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;

/// The VLAN that goes past the kernel, and one that does not.
const OURS: u16 = 100;
const OTHER: u16 = 200;
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 7, 7, 7);

/// A lab whose frames carry their tags as on a cable, with both VLANs on both hosts.
fn lab() -> Lab {
    let lab = Lab::up(&Options { checksums: Checksums::True, ..Options::default() }).unwrap();
    for side in [Side::A, Side::B] {
        let host = lab.host(side);
        for vlan in [OURS, OTHER] {
            let name = interface(host, vlan);
            ip(host, &format!("link add link {} name {name} type vlan id {vlan}", host.interface));
            ip(host, &format!("address add {}/24 dev {name}", addresses(host, vlan)[0]));
            ip(host, &format!("address add {}/64 dev {name} nodad", addresses(host, vlan)[1]));
            ip(host, &format!("link set dev {name} up"));
        }
    }
    lab
}

fn ip(host: &Host, arguments: &str) {
    let mut command = Command::new("ip");
    command.args(["-n", &host.namespace]).args(arguments.split_whitespace());
    assert!(command.status().unwrap().success(), "ip {arguments}");
}

fn interface(host: &Host, vlan: u16) -> String {
    format!("{}.{vlan}", host.interface)
}

/// 198.18.VLAN.N and 2001:2:0:VLAN::N, where N is the host's number.
fn addresses(host: &Host, vlan: u16) -> [IpAddr; 2] {
    let [a, b, _, number] = host.ipv4.octets();
    let v6 = Ipv6Addr::new(0x2001, 2, 0, vlan, 0, 0, 0, number.into());
    [Ipv4Addr::new(a, b, vlan as u8, number).into(), v6.into()]
}

/// A kernel socket bound to one interface: packets by another one, or without the tag, are not for it.
fn kernel_socket(host: &Host, at: SocketAddr, interface: &str) -> UdpSocket {
    let open = || {
        let socket = UdpSocket::bind(at).unwrap();
        bind_to_interface(socket.as_fd(), device(interface)?.index).unwrap();
        socket.set_nonblocking(true).unwrap();
        Ok(socket)
    };
    host.within(open).unwrap()
}

/// What has come to a socket of the kernel's.
fn heard(socket: &UdpSocket) -> Option<Vec<u8>> {
    let mut buffer = [0; 2048];
    socket.recv(&mut buffer).ok().map(|count| buffer[..count].to_vec())
}

/// UDP both ways, a group, TCP both ways, beside the kernel's own sockets of the same port.
pub(crate) fn traffic_of_a_vlan_goes_past_the_kernel() {
    let lab = lab();
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let control = Control::start(a);
    let mut engine = engine(a);
    for (here, there) in addresses(a, OURS).into_iter().zip(addresses(b, OURS)) {
        datagrams(&mut engine, a, b, here, there);
    }
    // A family each: streams are long for an emulated CPU.
    connects(&mut engine, a, b, addresses(b, OURS)[0]);
    listens(&mut engine, a, b, addresses(a, OURS)[1]);
    group(&mut engine, a, b);
    let told = control.ps();
    assert!(told.contains("vlan 100"), "{told}");
    drop(engine);
    assert_eq!(control.end("TERM").code, 0);
    assert_clean(a);
}

fn datagrams(engine: &mut Engine, a: &Host, b: &Host, here: IpAddr, there: IpAddr) {
    let (serving, at) = bind(a, engine, here, PORT);
    let peer = kernel_socket(b, SocketAddr::new(there, 0), &interface(b, OURS));
    // The kernel has the same port where there is no tag, and in the other VLAN.
    let is_v6 = usize::from(here.is_ipv6());
    let plain = |host: &Host| [host.ipv4.into(), host.ipv6.unwrap().into()][is_v6];
    let others = [None, Some(OTHER)].map(|vlan| {
        let address = |host: &Host| vlan.map_or_else(|| plain(host), |vlan| addresses(host, vlan)[is_v6]);
        let name = |host: &Host| vlan.map_or_else(|| host.interface.clone(), |vlan| interface(host, vlan));
        let receiver = kernel_socket(a, SocketAddr::new(address(a), PORT), &name(a));
        let sender = kernel_socket(b, SocketAddr::new(address(b), 0), &name(b));
        (receiver, sender)
    });
    wait("an answer past the kernel, both ways", || {
        peer.send_to(b"question", at).unwrap();
        let question = wait("a question", || engine.receive(serving).unwrap());
        assert_eq!(engine.payload(&question), b"question");
        let came_past = !question.by_kernel();
        engine.reply(serving, question).unwrap();
        let answer = wait("an answer", || {
            engine.poll().unwrap();
            heard(&peer)
        });
        assert_eq!(answer, b"question");
        came_past.then_some(())
    });
    let to = peer.local_addr().unwrap();
    wait("a datagram of our own past the kernel", || {
        let is_past = engine.path_to(serving, to).unwrap().is_accelerated();
        engine.send_to(serving, b"unasked", to).unwrap();
        let unasked = wait("it", || {
            engine.poll().unwrap();
            heard(&peer)
        });
        assert_eq!(unasked, b"unasked");
        is_past.then_some(())
    });
    for (receiver, sender) in &others {
        sender.send_to(b"not ours", receiver.local_addr().unwrap()).unwrap();
        let came = wait("what is the kernel's", || {
            engine.poll().unwrap();
            heard(receiver)
        });
        assert_eq!(came, b"not ours");
    }
    assert!(engine.receive(serving).unwrap().is_none());
    engine.close(serving).unwrap();
}

/// A group in the VLAN is received; the same group without a tag is not ours.
fn group(engine: &mut Engine, a: &Host, b: &Host) {
    let at = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT + 1));
    let socket = a.within(|| engine.bind(at, &UdpOptions::default())).unwrap();
    let vlan = a.within(|| Ok(device(&interface(a, OURS))?.index)).unwrap();
    a.within(|| engine.join(socket, GROUP.into(), vlan, None)).unwrap();
    let path = settled(engine, socket);
    assert!(path.is_accelerated(), "{path}");
    let sender = |vlan: Option<u16>| {
        let name = vlan.map_or_else(|| b.interface.clone(), |vlan| interface(b, vlan));
        let address = vlan.map_or_else(|| b.ipv4.into(), |vlan| addresses(b, vlan)[0]);
        kernel_socket(b, SocketAddr::new(address, 0), &name)
    };
    let (ours, plain, other) = (sender(Some(OURS)), sender(None), sender(Some(OTHER)));
    let to = SocketAddr::from((GROUP, PORT + 1));
    wait("a datagram of the group past the kernel", || {
        for (sender, sent) in [(&plain, b"plain"), (&other, b"other"), (&ours, b"group")] {
            sender.send_to(sent, to).unwrap();
        }
        let tick = wait("a datagram of the group", || engine.receive(socket).unwrap());
        assert_eq!(engine.payload(&tick), b"group");
        let is_past = !tick.by_kernel();
        engine.release(tick);
        is_past.then_some(())
    });
    engine.close(socket).unwrap();
}

/// Where the device takes tags out, the program would see frames of any VLAN as such without: nothing is steered that one of
/// them could be taken for, and the kernel serves it.
pub(crate) fn tags_that_the_device_takes_out_are_refused_by_name() {
    let lab = lab();
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    a.within(|| offload::take_tags_out(&a.interface, true)).unwrap();
    let control = Control::start(a);
    let mut engine = engine(a);
    let any = IpAddr::from(Ipv4Addr::UNSPECIFIED);
    for address in [addresses(a, OURS)[0], any] {
        let at = SocketAddr::new(address, PORT);
        let socket = a.within(|| engine.bind(at, &UdpOptions::default())).unwrap();
        assert_eq!(settled(&mut engine, socket), Path::Kernel(Reason::Offload), "{address}");
        let listener = a.within(|| {
            let options = engine.tcp().defaults();
            engine.tcp().listen(at, 16, options)
        });
        let listener = listener.unwrap();
        assert_eq!(engine.tcp().listener_path(listener).unwrap(), Path::Kernel(Reason::Offload), "{address}");
        let told = control.ps();
        assert!(told.contains("ethtool -K lab0 rxvlan off"), "{told}");
        let peer = kernel_socket(b, SocketAddr::new(addresses(b, OURS)[0], 0), &interface(b, OURS));
        peer.send_to(b"tick", SocketAddr::new(addresses(a, OURS)[0], PORT)).unwrap();
        let tick = wait("a datagram", || engine.receive(socket).unwrap());
        assert_eq!((engine.payload(&tick), tick.by_kernel()), (&b"tick"[..], true));
        engine.release(tick);
        engine.close(socket).unwrap();
        engine.tcp().close_listener(listener).unwrap();
    }
    beside_the_frame(&mut engine, a, b);
    let plain = SocketAddr::new(a.ipv4.into(), PORT);
    let socket = a.within(|| engine.bind(plain, &UdpOptions::default())).unwrap();
    assert!(settled(&mut engine, socket).is_accelerated(), "an address without a VLAN is told by itself");
    drop(engine);
    assert_eq!(control.end("TERM").code, 0);
    assert_clean(a);
}

/// A veth whose other end leaves tags to the device carries them beside the frame: here they are not seen, whatever this end is
/// notified, and the kernel serves what is steered. The refusal names both ends for that.
fn beside_the_frame(engine: &mut Engine, a: &Host, b: &Host) {
    a.within(|| offload::take_tags_out(&a.interface, false)).unwrap();
    b.within(|| offload::put_tags_in(&b.interface, true)).unwrap();
    let (socket, at) = bind(a, engine, addresses(a, OURS)[0], PORT);
    let peer = kernel_socket(b, SocketAddr::new(addresses(b, OURS)[0], 0), &interface(b, OURS));
    peer.send_to(b"tick", at).unwrap();
    let tick = wait("a datagram", || engine.receive(socket).unwrap());
    assert_eq!((engine.payload(&tick), tick.by_kernel()), (&b"tick"[..], true));
    engine.release(tick);
    engine.close(socket).unwrap();
    a.within(|| offload::take_tags_out(&a.interface, true)).unwrap();
}
