//! Against smoltcp, a TCP that others have written: both roles, over the simulator's link. Judged is the data, not the end:
//! smoltcp 0.12 does not send a FIN again that was lost behind acknowledged data, nor lost data once it is in CLOSING.

mod simulator;

use sidestep_stack::tcp::{Config, ConnectionId, Error, Incoming, Instant, Outgoing, Secret, Tcp};
use sidestep_wire::{Addresses, ipv4, protocol};
use simulator::dice::Dice;
use simulator::link::{Fate, Link};
use simulator::plan::{LinkPlan, MICROSECOND, MILLISECOND, SECOND};
use simulator::stream::{is_stream, stream};
use simulator::world::address;
use smoltcp::iface::{Config as InterfaceConfig, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp as peer;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, Ipv4Address};
use std::collections::VecDeque;
use std::net::SocketAddr;

const SEEDS: u64 = 300;
const PORT: u16 = 80;
const OTHER_PORT: u16 = 40_000;
const KEYS: [u32; 2] = [17, 40_961];

/// The packets that smoltcp has got and sent.
#[derive(Default)]
struct Card {
    arrived: VecDeque<Vec<u8>>,
    left: VecDeque<Vec<u8>>,
}

struct Arrived(Vec<u8>);
struct Leaving<'a>(&'a mut VecDeque<Vec<u8>>);

impl RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut packet = vec![0; length];
        let result = write(&mut packet);
        self.0.push_back(packet);
        result
    }
}

impl Device for Card {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Leaving<'a>;

    fn receive(&mut self, _: smoltcp::time::Instant) -> Option<(Arrived, Leaving<'_>)> {
        Some((Arrived(self.arrived.pop_front()?), Leaving(&mut self.left)))
    }

    fn transmit(&mut self, _: smoltcp::time::Instant) -> Option<Leaving<'_>> {
        Some(Leaving(&mut self.left))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        (capabilities.medium, capabilities.max_transmission_unit) = (Medium::Ip, 1500);
        capabilities
    }
}

/// What an application has done so far.
#[derive(Default)]
struct Progress {
    sent: usize,
    received: usize,
}

struct Match<'a> {
    dice: Dice<'a>,
    now_ns: u64,
    tcp: Tcp,
    id: Option<ConnectionId>,
    links: [Link; 2],
    card: Card,
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    total: usize,
    ours_connects: bool,
    progress: [Progress; 2],
}

fn weather(dice: &mut Dice<'_>) -> LinkPlan {
    let base_ns = dice.magnitude(10 * MICROSECOND, 50 * MILLISECOND);
    let wild = dice.percent(80);
    let mut chance = |most: u64| if wild { dice.below(most) as u8 } else { 0 };
    LinkPlan {
        loss: chance(15),
        duplication: chance(10),
        corruption: chance(5),
        late: chance(20),
        late_ns: base_ns,
        delay_ns: base_ns,
        jitter_ns: base_ns / 10,
        refusal: 0,
        byte_ns: 0,
        queue_bytes: u64::MAX,
        mtus: [(0, 1500), (0, 1500)],
        told: 100,
        blackout_ns: (0, 0),
    }
}

impl Match<'_> {
    fn new(seed: u64, ours_connects: bool) -> Self {
        let mut dice = Dice::Seed(seed);
        let now_ns = SECOND;
        let config = if dice.percent(50) { Config::default() } else { Config::latency() };
        let mut tcp = Tcp::new(config, Secret([seed, 1, 2, 3]), Instant::from_nanos(now_ns));
        let heal_ns = now_ns + 3 * SECOND;
        let links = [Link::new(weather(&mut dice), heal_ns), Link::new(weather(&mut dice), heal_ns)];
        let mut card = Card::default();
        let start = smoltcp::time::Instant::from_micros(now_ns as i64 / 1000);
        let mut interface = Interface::new(InterfaceConfig::new(HardwareAddress::Ip), &mut card, start);
        let own = Ipv4Address::new(192, 0, 2, 2);
        interface.update_ip_addrs(|all| all.push(IpCidr::new(IpAddress::Ipv4(own), 24)).expect("one fits"));
        let mut sockets = SocketSet::new(Vec::new());
        let buffer = |dice: &mut Dice<'_>| peer::SocketBuffer::new(vec![0; dice.magnitude(2048, 60_000) as usize]);
        let mut socket = peer::Socket::new(buffer(&mut dice), buffer(&mut dice));
        socket.set_nagle_enabled(dice.percent(50));
        if ours_connects {
            socket.listen(PORT).expect("a new socket");
        } else {
            let options = tcp.config().options();
            tcp.listen(SocketAddr::new(address(false, 0), PORT), 4, options).expect("nobody listens yet");
            let remote = (IpAddress::Ipv4(Ipv4Address::new(192, 0, 2, 1)), PORT);
            socket.connect(interface.context(), remote, OTHER_PORT).expect("a new socket");
        }
        let handle = sockets.add(socket);
        let total = dice.magnitude(1, 60_000) as usize;
        let progress = Default::default();
        Self { dice, now_ns, tcp, id: None, links, card, interface, sockets, handle, total, ours_connects, progress }
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Tcp, Instant, &mut dyn sidestep_stack::tcp::Output) -> T) -> T {
        let Self { tcp, links, dice, now_ns, .. } = self;
        call(tcp, Instant::from_nanos(*now_ns), &mut |outgoing: &Outgoing<'_>| {
            let mut bytes = vec![0; outgoing.bytes()];
            outgoing.write(&mut bytes).expect("it fits");
            show(*now_ns, "we", &bytes);
            let fate = links[0].take(dice, *now_ns, outgoing.flow.addresses, bytes);
            assert!(matches!(fate, Fate::Taken), "larger than the link, or refused");
            Ok(())
        })
    }

    fn deliver(&mut self) {
        while let Some(packet) = self.links[0].arrive(self.now_ns) {
            self.card.arrived.push_back(with_ip(&packet.addresses, &packet.bytes));
        }
        while let Some(packet) = self.links[1].arrive(self.now_ns) {
            let Ok(segment) = sidestep_wire::tcp::View::parse(&packet.bytes) else { continue };
            let incoming = Incoming { addresses: &packet.addresses, segment, is_verified: false };
            self.call(|tcp, now, sink| tcp.receive(now, &incoming, sink, &mut |_, _| 0));
        }
    }

    /// Our application: all that is possible.
    fn ours(&mut self) {
        let Some(id) = self.id else { return };
        let Progress { mut sent, mut received } = std::mem::take(&mut self.progress[0]);
        while sent < self.total {
            let bytes = stream(KEYS[0], sent, 3000.min(self.total - sent));
            match self.call(|tcp, now, sink| tcp.send(now, id, bytes, sink)) {
                Ok(count) => sent += count,
                Err(Error::WouldBlock) => break,
                Err(error) => panic!("send: {error}"),
            }
        }
        let mut out = [0; 4096];
        loop {
            match self.call(|tcp, now, sink| tcp.read(now, id, &mut out, sink)) {
                Ok(0) => panic!("the stream has ended"),
                Ok(count) => {
                    assert!(is_stream(KEYS[1], received, &out[..count]), "wrong bytes behind {received}");
                    received += count;
                }
                Err(Error::WouldBlock) => break,
                Err(error) => panic!("read: {error}"),
            }
        }
        self.progress[0] = Progress { sent, received };
    }

    /// smoltcp's application: the same.
    fn theirs(&mut self) {
        let socket = self.sockets.get_mut::<peer::Socket<'_>>(self.handle);
        let progress = &mut self.progress[1];
        while socket.can_send() && progress.sent < self.total {
            let bytes = stream(KEYS[1], progress.sent, 3000.min(self.total - progress.sent));
            progress.sent += socket.send_slice(bytes).expect("it can send");
        }
        let mut out = [0; 4096];
        while socket.can_recv() {
            let count = socket.recv_slice(&mut out).expect("it can receive");
            assert!(is_stream(KEYS[0], progress.received, &out[..count]), "wrong bytes at smoltcp");
            progress.received += count;
        }
    }

    fn poll_theirs(&mut self) {
        let now = smoltcp::time::Instant::from_micros(self.now_ns as i64 / 1000);
        self.interface.poll(now, &mut self.card, &mut self.sockets);
        while let Some(packet) = self.card.left.pop_front() {
            let view = ipv4::View::parse(&packet).expect("smoltcp writes what can be read");
            let addresses = Addresses::new(view.source().into(), view.destination().into()).expect("one family");
            show(self.now_ns, "smoltcp", view.payload());
            self.links[1].take(&mut self.dice, self.now_ns, addresses, view.payload().to_vec());
        }
    }

    fn next_at_ns(&mut self) -> Option<u64> {
        let now = smoltcp::time::Instant::from_micros(self.now_ns as i64 / 1000);
        let theirs = self.interface.poll_at(now, &self.sockets).map(|at| at.total_micros() as u64 * 1000);
        let ours = self.tcp.next_poll().map(Instant::as_nanos);
        let links = self.links.iter().filter_map(Link::next_at_ns).min();
        theirs.into_iter().chain(ours).chain(links).min().map(|at| at.max(self.now_ns))
    }

    fn run(&mut self) {
        if self.ours_connects {
            let (local, remote) = (address(false, 0), address(false, 1));
            let options = self.tcp.config().options();
            let (local, remote) = (SocketAddr::new(local, OTHER_PORT), SocketAddr::new(remote, PORT));
            let id = self.call(|tcp, now, sink| tcp.connect(now, local, remote, None, options, sink));
            self.id = Some(id.expect("the first"));
        }
        for _ in 0..200_000 {
            self.deliver();
            self.poll_theirs();
            self.ours();
            self.theirs();
            self.call(|tcp, now, sink| tcp.poll(now, sink));
            self.poll_theirs();
            self.tcp.audit().unwrap_or_else(|fault| panic!("{fault}"));
            while let Some(event) = self.tcp.next_event() {
                if let sidestep_stack::tcp::Event::Listener(listener) = event {
                    self.id = self.id.or(self.tcp.accept(listener).ok());
                    self.ours();
                }
            }
            if self.progress.iter().all(|progress| progress.received == self.total) {
                return;
            }
            // smoltcp's clock counts microseconds.
            self.now_ns = self.next_at_ns().unwrap_or(u64::MAX).max(self.now_ns + 1000);
            assert!(self.now_ns < 3000 * SECOND, "it stands still");
        }
        panic!("no end");
    }
}

/// With SIDESTEP_SEED each segment is shown.
fn show(now_ns: u64, who: &str, segment: &[u8]) {
    if std::env::var_os("SIDESTEP_SEED").is_none() {
        return;
    }
    let view = sidestep_wire::tcp::View::parse(segment).expect("it was just written");
    let (flags, seq, ack, window) = (view.flags(), view.sequence(), view.acknowledgement(), view.window());
    eprintln!("{} us {who} [{flags}] {seq}+{} ack {ack} win {window}", now_ns / 1000, view.payload().len());
}

fn with_ip(addresses: &Addresses, segment: &[u8]) -> Vec<u8> {
    let Addresses::V4 { source, destination } = *addresses else { panic!("IPv4 only") };
    let header = ipv4::Header {
        source,
        destination,
        protocol: protocol::TCP,
        time_to_live: 64,
        type_of_service: 0,
        identification: 0,
        do_not_fragment: true,
    };
    let mut packet = vec![0; ipv4::HEADER_BYTES];
    packet.extend_from_slice(segment);
    header.write(segment.len(), &mut packet).expect("it fits");
    packet
}

#[test]
fn smoltcp_and_we_understand_each_other() {
    let only = std::env::var("SIDESTEP_SEED").ok().and_then(|text| text.parse().ok());
    for seed in 0..SEEDS {
        if only.is_some_and(|only: u64| only != seed) {
            continue;
        }
        for ours_connects in [true, false] {
            let outcome = std::panic::catch_unwind(|| {
                let mut game = Match::new(seed, ours_connects);
                game.run();
                assert_eq!(game.progress.map(|progress| progress.received), [game.total; 2]);
            });
            assert!(outcome.is_ok(), "SIDESTEP_SEED={seed}, ours connects: {ours_connects}");
        }
    }
}
