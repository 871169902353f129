//! What we compute, held against the queue by which frames come.

use super::{CLOSED, INTERFACE, PORTS, QUEUES, VIRTIO, command, is_linux_6_1, plug};
use crate::bypass::wait;
use sidestep_control_api::message::Protocol;
use sidestep_control_api::rss::{Spread, WhyUnknown};
use sidestep_frame::FrameLink;
use sidestep_frame::xdp::{XdpLink, XdpOptions};
use sidestep_sys::ethtool::{self, FlowKind, HashFunction, field};
use sidestep_sys::xdp::program::{Attachment, Filter, Program};
use sidestep_sys::xdp::{Geometry, Mode, RingSizes, Umem, Xsk, XskOptions, wait_until_up};
use sidestep_testkit::vm::{self, MACHINE, PEER};
use sidestep_wire::ethernet::{self, EtherType};
use sidestep_wire::{ipv4, ipv6, tcp, udp};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A user without any capability.
const NOBODY: u32 = 65_534;
/// Local ports per family, protocol and port of the peer.
const LOCALS: usize = 32;

/// A program on the interface that gives all frames to the sockets of their queues, one on each.
struct Queues {
    links: Vec<XdpLink>,
    _attachment: Attachment,
    _program: Program,
}

impl Queues {
    /// The program comes first: virtio-net has more queues as long as there is one.
    fn open() -> Self {
        let program = Program::load(Filter::Everything, VIRTIO.queues).unwrap();
        let attachment = program.attach(INTERFACE, Mode::Copy).unwrap();
        let open = |queue| {
            let umem = Umem::create(Geometry { frames: 256, frame_bytes: 2048, headroom: 0 }).unwrap();
            let options = XskOptions { rings: RingSizes::all(128), least: Mode::Copy, ..XskOptions::default() };
            let xsk = Xsk::open(&umem, INTERFACE, queue, &options).unwrap();
            if queue == 0 {
                eprintln!("{:?}", xsk.facts());
            }
            program.insert(queue, xsk.socket()).unwrap();
            XdpLink::over(xsk, umem, &XdpOptions::default()).unwrap()
        };
        let links = (0..ethtool::receive_queues(INTERFACE).unwrap()).map(open).collect();
        wait_until_up(INTERFACE, Duration::from_secs(20)).unwrap();
        Self { links, _attachment: attachment, _program: program }
    }

    /// What has come: whose packet, and by which queue.
    fn receive(&mut self) -> Vec<(Flow, u32)> {
        let mut all = Vec::new();
        for (queue, link) in (0..).zip(&mut self.links) {
            link.poll().unwrap();
            while let Some(frame) = link.receive() {
                all.extend(flow(link.bytes(&frame)).map(|flow| (flow, queue)));
                link.release(frame);
            }
        }
        all
    }
}

/// Protocol, remote end, local end.
type Flow = (Protocol, SocketAddr, SocketAddr);

fn flow(frame: &[u8]) -> Option<Flow> {
    let ethernet = ethernet::View::parse(frame).ok()?;
    let (addresses, protocol, payload) = match ethernet.ether_type() {
        EtherType::IPV4 => {
            let ip = ipv4::View::parse(ethernet.payload()).ok()?;
            (ip.addresses(), ip.protocol(), ip.payload())
        }
        EtherType::IPV6 => {
            let ip = ipv6::View::parse(ethernet.payload()).ok()?;
            (ip.addresses(), ip.protocol(), ip.payload())
        }
        _ => return None,
    };
    let (protocol, source, destination) = match protocol {
        6 => tcp::View::parse(payload).ok().map(|tcp| (Protocol::Tcp, tcp.source_port(), tcp.destination_port()))?,
        17 => udp::View::parse(payload).ok().map(|udp| (Protocol::Udp, udp.source_port(), udp.destination_port()))?,
        _ => return None,
    };
    Some((protocol, SocketAddr::new(addresses.source(), source), SocketAddr::new(addresses.destination(), destination)))
}

/// Asks the peer, from a local port of the kernel's choice.
fn ask(protocol: Protocol, local: IpAddr, peer: SocketAddr) {
    match protocol {
        Protocol::Udp => {
            let socket = UdpSocket::bind((local, 0)).unwrap();
            socket.send_to(b"question", peer).unwrap();
        }
        // The answer is kept from the kernel, which gives up at once.
        Protocol::Tcp => assert!(TcpStream::connect_timeout(&peer, Duration::from_millis(1)).is_err()),
    }
}

/// Hundreds of flows of each kind.
fn flows_agree(queues: &mut Queues, spread: &Spread) -> Vec<u32> {
    let mut used = Vec::new();
    for ((local, remote), protocol) in
        MACHINE.into_iter().zip(PEER).flat_map(|pair| [Protocol::Udp, Protocol::Tcp].map(|protocol| (pair, protocol)))
    {
        let mut seen = HashMap::new();
        let ports = if protocol == Protocol::Udp { PORTS } else { CLOSED };
        wait("answers", || {
            for port in ports.clone().cycle().take(16) {
                ask(protocol, local, SocketAddr::new(remote, port));
            }
            let begin = std::time::Instant::now();
            while begin.elapsed() < Duration::from_millis(50) {
                seen.extend(
                    queues
                        .receive()
                        .into_iter()
                        .filter(|((kind, from, _), _)| *kind == protocol && from.ip() == remote),
                );
            }
            (seen.len() >= LOCALS * ports.len()).then_some(())
        });
        for ((protocol, remote, local), queue) in &seen {
            let computed = spread.queue_of(*protocol, *remote, *local);
            assert_eq!(computed, Ok(*queue), "{protocol} {remote} -> {local}");
        }
        eprintln!("{protocol} {remote}: {} flows", seen.len());
        used.extend(seen.into_values());
    }
    used.sort_unstable();
    used.dedup();
    used
}

/// Key, table and fields are read, and say by which queue an answer comes; and again after they were changed.
pub(crate) fn frames_come_by_the_queue_that_is_computed() {
    plug(Some(QUEUES));
    for remote in PEER {
        let entry = format!("neigh replace {remote} dev {INTERFACE} lladdr {} nud permanent", vm::PEER_MAC);
        command("ip", &entry);
    }
    let mut queues = Queues::open();
    let rss = ethtool::rss(INTERFACE).unwrap();
    eprintln!("{rss:?}");
    assert_eq!((rss.function, rss.key.len(), rss.table.len()), (HashFunction::Toeplitz, 40, 128));
    for kind in FlowKind::ALL {
        assert_eq!(ethtool::fields(INTERFACE, kind).unwrap(), field::ALL, "{kind:?}");
    }
    for asked in ["-x eth0", "-n eth0 rx-flow-hash tcp6", "-l eth0"] {
        let told = Command::new("ethtool").args(asked.split(' ')).uid(NOBODY).stdout(Stdio::null()).status().unwrap();
        assert!(told.success(), "anybody may ask: ethtool {asked}");
    }
    let spread = Spread::read(INTERFACE);
    let all: Vec<u32> = (0..queues.links.len() as u32).collect();
    assert_eq!(spread.receiving(), Ok(all.clone()));
    if is_linux_6_1() {
        let answer = spread.queue_of(Protocol::Tcp, SocketAddr::new(PEER[0], 1), SocketAddr::new(MACHINE[0], 2));
        return assert_eq!(answer, Err(WhyUnknown::Driver("virtio_net")));
    }
    assert_eq!(flows_agree(&mut queues, &spread), all);
    // Another key, another table.
    let key: Vec<String> = (1..=40).map(|byte| format!("{:02x}", (byte * 37) & 0xff)).collect();
    command("ethtool", &format!("-X {INTERFACE} hkey {} weight 0 2 1 1", key.join(":")));
    let changed = Spread::read(INTERFACE);
    assert_ne!(changed, spread);
    assert_eq!(changed.receiving(), Ok(vec![1, 2, 3]));
    assert_eq!(flows_agree(&mut queues, &changed), [1, 2, 3]);
    drop(queues);
    // The other tests of this machine find it as it was.
    command("ethtool", &format!("-X {INTERFACE} default"));
}
