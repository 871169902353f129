//! Segments of a connection that come by a queue without its owner's socket: not the kernel's while the owner lives.

use crate::lab;
use crate::support::{Control, WATCHDOG, wait};
use sidestep_control_api::client::{Client, Stack};
use sidestep_control_api::message::{Entry, OpenStack, Protocol, Queues};
use sidestep_control_api::place;
use sidestep_frame::FrameLink;
use sidestep_frame::xdp::{XdpLink, XdpOptions};
use sidestep_lab::Host;
use sidestep_lab::Side;
use sidestep_sys::packet::{FrameBuffer, PacketSocket};
use sidestep_sys::xdp::{Geometry, Umem, Xsk, XskOptions};
use sidestep_wire::checksum::Sum;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const QUEUES: u32 = 4;

/// Sends by transmit queues of its choice: over a veth they are the receive queues of the other end.
struct Senders(Vec<XdpLink>);

impl Senders {
    fn open(host: &Host) -> Self {
        let link = |queue| {
            let umem = Umem::create(Geometry { frames: 64, frame_bytes: 2048, headroom: 0 })?;
            let xsk = Xsk::open(&umem, &host.interface, queue, &XskOptions::default())?;
            XdpLink::over(xsk, umem, &XdpOptions::default())
        };
        Self((0..QUEUES).map(|queue| host.within(|| link(queue)).expect("root can")).collect())
    }

    fn send(&mut self, queue: u32, frame: &[u8]) {
        let link = &mut self.0[queue as usize];
        let token = link.allocate().expect("few are under way");
        link.buffer(&token)[..frame.len()].copy_from_slice(frame);
        link.send(token, frame.len()).expect("there is room");
        link.flush().expect("the wire is up");
    }
}

/// A segment of nobody's connection, which a kernel that gets it answers with a reset.
fn segment(from: &Host, to: &Host, local: SocketAddrV4, remote: SocketAddrV4) -> Vec<u8> {
    let mut tcp = Vec::new();
    tcp.extend(local.port().to_be_bytes());
    tcp.extend(remote.port().to_be_bytes());
    // Numbers, a header of five words, ACK and PSH, a window.
    tcp.extend([0, 0, 0, 1, 0, 0, 0, 1, 5 << 4, 0x18, 1, 0, 0, 0, 0, 0]);
    tcp.extend(b"data");
    let ends = [local.ip().octets(), remote.ip().octets()].concat();
    let sum = Sum::default().with(&ends).with_u16(6).with_u16(tcp.len() as u16).with(&tcp).checksum();
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    let mut ip = vec![0x45, 0, 0, 20 + tcp.len() as u8, 0, 0, 0x40, 0, 64, 6, 0, 0];
    ip.extend(ends);
    let sum = Sum::default().with(&ip).checksum();
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let frame = [&to.mac[..], &from.mac, &[8, 0], &ip, &tcp].concat();
    [frame, vec![0; 2]].concat()
}

/// Whether a reset to this port has come meanwhile.
fn is_reset(wire: &PacketSocket, buffer: &mut FrameBuffer, port: u16) -> bool {
    let mut found = false;
    while let Some(frame) = wire.receive(buffer).expect("it can") {
        let is_tcp = frame.len() >= 54 && frame[12..14] == [8, 0] && frame[23] == 6;
        found |= is_tcp && frame[36..38] == port.to_be_bytes() && frame[47] & 4 != 0;
    }
    found
}

#[test]
fn segments_on_another_queue_are_not_reset_while_their_owner_lives() {
    let Some(lab) = lab(QUEUES) else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let path = a.within(place::socket).unwrap();
    let mut client = Client::connect_to(&path, "owner").unwrap();
    let wish = OpenStack { queues: Queues::These(vec![1]), frames: 64, ring_entries: 64, ..OpenStack::on("lab0") };
    let Stack { facts, mut sockets, frames, heartbeat, .. } = client.open_stack(wish).unwrap();
    assert_eq!(facts.elsewhere, [0, 2, 3]);
    let (socket, rings) = sockets.remove(0);
    let its = facts.socket_facts().next().unwrap();
    let mut link = XdpLink::open(socket, rings, frames, its, &XdpOptions::default()).unwrap();
    // The kernel's socket that holds the port, as of a connection that is made past the kernel.
    let twin = a
        .within(|| {
            let twin = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            twin.bind(&SocketAddr::from((a.ipv4, 0)).into()).unwrap();
            Ok(twin)
        })
        .unwrap();
    let local = twin.local_addr().unwrap().as_socket_ipv4().unwrap();
    let remote = SocketAddrV4::new(b.ipv4, 7777);
    let entry = Entry::Flow { protocol: Protocol::Tcp, local: local.into(), remote: remote.into(), vlan: None };
    client.steer(facts.id, entry, twin.as_fd()).unwrap();
    heartbeat.beat();
    let mut senders = Senders::open(b);
    let wire = b.within(|| PacketSocket::open(&b.interface)).unwrap();
    let mut buffer = FrameBuffer::new();
    let frame = segment(b, a, remote, local);
    // By its own queue the owner has it.
    wait("its segment", || {
        heartbeat.beat();
        senders.send(1, &frame);
        link.poll().unwrap();
        let received = link.receive()?;
        link.release(received);
        Some(())
    });
    let dropped = |client: &mut Client| {
        let counters = client.counters(facts.id).unwrap();
        counters.iter().find(|(name, _)| name == "drop-queue").map_or(0, |(_, count)| *count)
    };
    let sent = 3 * 20;
    for _ in 0..20 {
        heartbeat.beat();
        [0, 2, 3].into_iter().for_each(|queue| senders.send(queue, &frame));
    }
    wait("all of them dropped", || {
        heartbeat.beat();
        (dropped(&mut client) >= sent).then_some(())
    });
    // A kernel that had one would answer at once, and all others before the last was counted.
    assert!(!is_reset(&wire, &mut buffer, remote.port()), "the kernel has seen a segment");
    // The owner ends: its sockets go, and the kernel has its segments, by whatever queue, and says what it thinks of them.
    drop((link, client));
    let deadline = Instant::now() + WATCHDOG;
    for queue in (0..QUEUES).cycle() {
        senders.send(queue, &frame);
        std::thread::sleep(Duration::from_millis(1));
        if is_reset(&wire, &mut buffer, remote.port()) {
            break;
        }
        assert!(Instant::now() < deadline, "the owner has ended, and nobody answers");
    }
}
