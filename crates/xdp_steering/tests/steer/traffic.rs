//! Real traffic between two hosts: hot flows reach the owner's socket, and everything else the kernel, at the same
//! time.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use sidestep_lab::{Checksums, Host, Side};
use sidestep_lab::{Lab, Options};
use sidestep_sys::packet::PacketSocket;
use sidestep_xdp_steering::{Attach, AttachMode, MapEntry, Protocol, Reason, StackId, Steering, Vlan, VlanMatch};

use crate::frames::{Frame, UDP};
use crate::support::{Pins, WATCHDOG, can_run, flow, group, ifindex, listener, stack, wait_until};
use crate::xsk::Receiver;

const PORT: u16 = 5000;
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);

/// Host B is steered, with one stack that has a socket; host A sends.
pub(crate) struct Scene {
    pub(crate) steering: Steering,
    stack: StackId,
    receiver: Receiver,
    lab: Lab,
    _pins: Pins,
}

impl Scene {
    pub(crate) fn new(mode: AttachMode) -> Self {
        let pins = Pins::new();
        let lab = Lab::up(&Options { checksums: Checksums::True, ..Options::default() }).unwrap();
        let (steering, receiver) = lab
            .host(Side::B)
            .within(|| {
                let index = ifindex("lab0");
                let steering = Steering::attach(&Attach { ifindex: index, mode, directory: pins.directory() })?;
                assert_eq!(steering.facts().mode, mode);
                Ok((steering, Receiver::bind(index, 0)))
            })
            .unwrap();
        let (stack, _) = stack(steering.tables(), "owner");
        steering.tables().set_socket(stack, 0, receiver.as_fd()).unwrap();
        steering.tables().set_deadline(Duration::from_secs(60)).unwrap();
        steering.tables().beat(stack).unwrap();
        Self { steering, stack, receiver, lab, _pins: pins }
    }

    pub(crate) fn steer(&self, entry: &MapEntry) {
        self.steering.tables().add(self.stack, entry).unwrap();
    }

    pub(crate) fn count(&self, reason: Reason) -> u64 {
        self.steering.tables().counter(reason).unwrap()
    }

    pub(crate) fn a(&self) -> &Host {
        self.lab.host(Side::A)
    }

    pub(crate) fn b(&self) -> &Host {
        self.lab.host(Side::B)
    }

    fn addresses(&self) -> [(IpAddr, IpAddr); 2] {
        let ipv6 = |host: &Host| host.ipv6.unwrap().into();
        [(self.a().ipv4.into(), self.b().ipv4.into()), (ipv6(self.a()), ipv6(self.b()))]
    }

    /// The next frame of the socket that ends in `payload`. Another steered frame would be a failure.
    pub(crate) fn expect_frame(&self, payload: &[u8]) {
        let mut frame = None;
        wait_until("a frame for the stack", || {
            frame = self.receiver.receive();
            frame.is_some()
        });
        let frame = frame.unwrap();
        assert!(frame.ends_with(payload), "{frame:02x?}");
    }
}

pub(crate) fn udp(host: &Host, address: SocketAddr) -> UdpSocket {
    let socket = host.within(|| Ok(UdpSocket::bind(address).unwrap())).unwrap();
    socket.set_read_timeout(Some(WATCHDOG)).unwrap();
    socket
}

pub(crate) fn expect_datagram(socket: &UdpSocket, payload: &[u8]) {
    let mut buffer = [0; 100];
    let length = socket.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], payload);
}

pub(crate) fn expect_no_datagram(socket: &UdpSocket) {
    socket.set_nonblocking(true).unwrap();
    assert_eq!(socket.recv(&mut [0; 100]).unwrap_err().kind(), ErrorKind::WouldBlock);
    socket.set_nonblocking(false).unwrap();
}

/// A connection of kernel sockets on both sides, with an answer.
pub(crate) fn tcp_round_trip(scene: &Scene, local: IpAddr) {
    let server = scene.b().within(|| Ok(TcpListener::bind((local, 0)).unwrap())).unwrap();
    let address = server.local_addr().unwrap();
    let answer = thread::spawn(move || {
        let (mut connection, _) = server.accept().unwrap();
        let mut request = [0; 7];
        connection.read_exact(&mut request).unwrap();
        connection.write_all(&request).unwrap();
    });
    let mut client = scene.a().within(|| Ok(TcpStream::connect_timeout(&address, WATCHDOG).unwrap())).unwrap();
    client.set_read_timeout(Some(WATCHDOG)).unwrap();
    client.write_all(b"request").unwrap();
    let mut reply = [0; 7];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"request");
    answer.join().unwrap();
}

/// Sends an echo request to the other host, as ping does. The kernel fills in id and checksum on a socket of this kind.
fn ping(scene: &Scene, to: Ipv4Addr) {
    let open = || {
        std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0").unwrap();
        let kind = socket2::Type::DGRAM;
        Ok(socket2::Socket::new(socket2::Domain::IPV4, kind, Some(socket2::Protocol::ICMPV4)).unwrap())
    };
    let socket = scene.a().within(open).unwrap();
    socket.set_read_timeout(Some(WATCHDOG)).unwrap();
    socket.send_to(&[8, 0, 0, 0, 0, 0, 0, 1, 0x55], &SocketAddr::new(to.into(), 0).into()).unwrap();
    let mut reply = [0; 64];
    let length = (&socket).read(&mut reply).unwrap();
    assert_eq!((reply[0], length, reply[8]), (0, 9, 0x55));
}

#[test]
fn hot_datagrams_reach_the_stack_while_the_kernel_keeps_the_rest() {
    if !can_run() {
        return;
    }
    for mode in [AttachMode::Native, AttachMode::Generic] {
        let scene = Scene::new(mode);
        for (remote, local) in scene.addresses() {
            let hot = udp(scene.b(), SocketAddr::new(local, PORT));
            let cold = udp(scene.b(), SocketAddr::new(local, PORT + 1));
            let sender = udp(scene.a(), SocketAddr::new(remote, 0));
            let entry = listener(Protocol::Udp, &SocketAddr::new(local, PORT).to_string(), VlanMatch::Any);
            scene.steer(&entry);
            for round in 0..100_u8 {
                sender.send_to(&[round, 1], (local, PORT)).unwrap();
                scene.expect_frame(&[round, 1]);
                sender.send_to(&[round, 2], (local, PORT + 1)).unwrap();
                expect_datagram(&cold, &[round, 2]);
            }
            tcp_round_trip(&scene, local);
            expect_no_datagram(&hot);
            // The owner falls silent, beats again, and ends.
            scene.steering.tables().beat_at(scene.stack, 0).unwrap();
            sender.send_to(b"stale", (local, PORT)).unwrap();
            expect_datagram(&hot, b"stale");
            scene.steering.tables().beat(scene.stack).unwrap();
            sender.send_to(b"alive", (local, PORT)).unwrap();
            scene.expect_frame(b"alive");
            assert!(scene.steering.tables().remove(scene.stack, &entry).unwrap());
            sender.send_to(b"gone", (local, PORT)).unwrap();
            expect_datagram(&hot, b"gone");
        }
        ping(&scene, scene.b().ipv4);
        assert!(scene.receiver.receive().is_none());
        assert_eq!(scene.count(Reason::Listener), 2 * 101);
        assert_eq!(scene.count(Reason::Stale), 2);
        assert!(scene.count(Reason::Icmp) >= 1 && scene.count(Reason::NoEntry) >= 2 * 100);
        assert_eq!(scene.count(Reason::NoSocket), 0);
    }
}

#[test]
fn a_fragmented_datagram_reaches_the_kernels_socket_whole() {
    if !can_run() {
        return;
    }
    let scene = Scene::new(AttachMode::Native);
    for (remote, local) in scene.addresses() {
        let twin = udp(scene.b(), SocketAddr::new(local, PORT));
        let sender = udp(scene.a(), SocketAddr::new(remote, 0));
        scene.steer(&listener(Protocol::Udp, &SocketAddr::new(local, PORT).to_string(), VlanMatch::Any));
        sender.send_to(&[7; 4000], (local, PORT)).unwrap();
        let mut buffer = [0; 5000];
        assert_eq!(twin.recv(&mut buffer).unwrap(), 4000);
    }
    assert_eq!(scene.count(Reason::Fragment), 6);
    assert!(scene.receiver.receive().is_none());
}

#[test]
fn a_tcp_port_of_a_stack_is_not_answered_by_the_kernel() {
    if !can_run() {
        return;
    }
    let scene = Scene::new(AttachMode::Native);
    let (remote, local) = scene.addresses()[0];
    scene.steer(&flow(
        Protocol::Tcp,
        &SocketAddr::new(local, PORT).to_string(),
        &SocketAddr::new(remote, 6000).to_string(),
        Vlan::Untagged,
    ));
    let connect = |from: u16| {
        let socket = scene
            .a()
            .within(|| Ok(socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap()))
            .unwrap();
        socket.bind(&SocketAddr::new(remote, from).into()).unwrap();
        socket.set_nonblocking(true).unwrap();
        let refusal = socket.connect(&SocketAddr::new(local, PORT).into()).unwrap_err();
        assert_eq!(refusal.raw_os_error(), Some(libc::EINPROGRESS));
        socket
    };
    let _waiting = connect(6000);
    scene.expect_frame(&[]);
    assert_eq!(scene.count(Reason::Flow), 1);
    // From another port it has no owner, so the kernel answers: it has no such socket.
    let refused = connect(6001);
    wait_until("the kernel's reset", || {
        refused.take_error().unwrap().is_some_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    });
}

#[test]
fn a_group_goes_to_its_owner_and_to_nobody_else() {
    if !can_run() {
        return;
    }
    let scene = Scene::new(AttachMode::Native);
    let other = Ipv4Addr::new(239, 1, 2, 4);
    let twin = udp(scene.b(), SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORT));
    for joined in [&GROUP, &other] {
        twin.join_multicast_v4(joined, &scene.b().ipv4).unwrap();
    }
    let sender = udp(scene.a(), SocketAddr::new(scene.a().ipv4.into(), 0));
    scene.steer(&group(&format!("{GROUP}:{PORT}"), Some("198.18.0.1"), VlanMatch::Any));
    sender.send_to(b"tick", (GROUP, PORT)).unwrap();
    scene.expect_frame(b"tick");
    sender.send_to(b"tock", (other, PORT)).unwrap();
    expect_datagram(&twin, b"tock");
    expect_no_datagram(&twin);
}

#[test]
fn tagged_frames_are_told_apart_on_the_wire() {
    if !can_run() {
        return;
    }
    let scene = Scene::new(AttachMode::Native);
    let wire = scene.a().within(|| PacketSocket::open("lab0")).unwrap();
    let to = |vlan| Frame::new(UDP, "198.18.0.1:6000", "198.18.0.2:5000", vlan).destination(scene.b().mac).bytes;
    let of = |vlan| listener(Protocol::Udp, "198.18.0.2:5000", VlanMatch::Only(vlan));
    let double = Vlan::Double { outer: 7, inner: 8 };
    scene.steer(&of(double));
    wire.send(&to(Vlan::Tagged(7))).unwrap();
    wire.send(&to(double)).unwrap();
    scene.expect_frame(&to(double));
    assert_eq!((scene.count(Reason::NoEntry), scene.count(Reason::Listener)), (1, 1));
    scene.steer(&of(Vlan::Tagged(7)));
    wire.send(&to(Vlan::Tagged(7))).unwrap();
    scene.expect_frame(&to(Vlan::Tagged(7)));
}

#[test]
fn a_closed_socket_gives_its_frames_back_to_the_kernel() {
    if !can_run() {
        return;
    }
    let scene = Scene::new(AttachMode::Native);
    let (remote, local) = scene.addresses()[0];
    let twin = udp(scene.b(), SocketAddr::new(local, PORT));
    let sender = udp(scene.a(), SocketAddr::new(remote, 0));
    scene.steer(&listener(Protocol::Udp, &SocketAddr::new(local, PORT).to_string(), VlanMatch::Any));
    sender.send_to(b"one", (local, PORT)).unwrap();
    scene.expect_frame(b"one");
    let Scene { receiver, steering, lab, _pins, .. } = scene;
    drop(receiver);
    sender.send_to(b"two", (local, PORT)).unwrap();
    expect_datagram(&twin, b"two");
    assert_eq!(steering.tables().counter(Reason::NoSocket).unwrap(), 1);
    drop((steering, lab));
}
