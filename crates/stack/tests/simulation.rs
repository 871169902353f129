//! Two stacks and a bad wire between them, by seed: what arrives is what was sent, to whom it was sent; what was damaged
//! never arrives. `SIDESTEP_SEED=n` runs one seed alone.

mod support;

use fastrand::Rng;
use sidestep_stack::route::MemoryRoutes;
use sidestep_stack::udp::{Bind, FlowHeader, SocketId};
use sidestep_stack::{Checksums, Stack, Verdict};
use std::collections::HashMap;
use std::net::SocketAddr;
use support::{DEVICE, TAGGED, header_by, ip, receive, routes, stack};

const SEEDS: u64 = 400;
const TURNS: usize = 300;

/// A frame under way, with what it carries.
#[derive(Clone)]
struct Sent {
    frame: Vec<u8>,
    number: u64,
    is_harmed: bool,
}

/// The sender's end of a flow, and the receivers that it is meant for.
struct Sender {
    header: FlowHeader,
    to: Vec<SocketId>,
}

/// What each socket has got, by datagram's number.
type Got = HashMap<(SocketId, u64), u32>;

struct World {
    rng: Rng,
    stack: Stack,
    senders: Vec<Sender>,
    wire: Vec<Sent>,
    /// Every datagram's payload and receivers; the number is the place.
    sent: Vec<(Vec<u8>, Vec<SocketId>)>,
    got: Got,
    /// How often each datagram arrived unharmed.
    undamaged: HashMap<u64, u32>,
    /// Harmed frames that were refused.
    found: usize,
}

fn group_of(number: usize) -> &'static str {
    ["239.1.1.1", "232.5.5.5", "ff15::77"][number % 3]
}

fn joined(text: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip(text), port)
}

impl World {
    fn new(seed: u64) -> Self {
        let (own, peer) = (routes(1, 2), routes(2, 1));
        let mut world = Self {
            rng: Rng::with_seed(seed),
            stack: stack(&peer),
            senders: Vec::new(),
            wire: Vec::new(),
            sent: Vec::new(),
            got: Got::new(),
            undamaged: HashMap::new(),
            found: 0,
        };
        world.open_unicast(&own);
        world.open_groups(&own);
        world
    }

    fn bind(&mut self, address: SocketAddr) -> SocketId {
        let bind = Bind { takes_all_groups: false, only_v6: true, ..Bind::new(address) };
        self.stack.udp().bind(&bind).unwrap()
    }

    fn add_sender(&mut self, own: &MemoryRoutes, port: u16, to: SocketAddr, interface: u32, receivers: &[SocketId]) {
        let header = header_by(own, port, &to.to_string(), Some(interface));
        self.senders.push(Sender { header, to: receivers.to_vec() });
    }

    /// Bound to an address, to any, and connected; both families, with and without a tag.
    fn open_unicast(&mut self, own: &MemoryRoutes) {
        let ends = [
            ("10.0.0.1", "10.0.0.2", "0.0.0.0", DEVICE),
            ("2001:db8::1", "2001:db8::2", "::", DEVICE),
            ("10.7.0.1", "10.7.0.2", "0.0.0.0", TAGGED),
            ("2001:db8:7::1", "2001:db8:7::2", "::", TAGGED),
        ];
        for (place, (from, to, any, interface)) in ends.into_iter().enumerate() {
            let port = 7000 + 10 * place as u16;
            let exact = self.bind(joined(to, port));
            let wide = self.bind(joined(any, port + 1));
            let connected = self.bind(joined(any, port));
            self.stack.udp().connect(connected, ip(to), joined(from, 9001)).unwrap();
            self.add_sender(own, 9000, joined(to, port), interface, &[exact]);
            self.add_sender(own, 9000, joined(to, port + 1), interface, &[wide]);
            self.add_sender(own, 9001, joined(to, port), interface, &[connected]);
            self.add_sender(own, 9000, joined(to, port + 2), interface, &[]);
        }
    }

    /// Two members of each group, one for this source only, and one for another source.
    fn open_groups(&mut self, own: &MemoryRoutes) {
        for number in 0..3 {
            let (group, port) = (group_of(number), 7100 + number as u16);
            let (source, other) = if group.contains(':') {
                (ip("2001:db8::1"), ip("2001:db8::9"))
            } else {
                (ip("10.0.0.1"), ip("10.0.0.9"))
            };
            let sockets: Vec<SocketId> = (0..3).map(|_| self.bind(joined(group, port))).collect();
            let udp = self.stack.udp();
            udp.join(sockets[0], ip(group), DEVICE).unwrap();
            udp.join_source(sockets[1], ip(group), DEVICE, source).unwrap();
            udp.join_source(sockets[2], ip(group), DEVICE, other).unwrap();
            self.add_sender(own, 9000, joined(group, port), DEVICE, &sockets[..2]);
        }
    }

    fn turn(&mut self) {
        if self.rng.u8(..) < 160 {
            self.send();
        }
        for _ in 0..self.rng.usize(0..3) {
            if !self.wire.is_empty() {
                let place = if self.rng.u8(..) < 64 { self.rng.usize(..self.wire.len()) } else { 0 };
                let sent = self.wire.remove(place);
                self.arrive(&sent);
            }
        }
    }

    fn send(&mut self) {
        let place = self.rng.usize(..self.senders.len());
        let length = if self.rng.bool() { self.rng.usize(0..64) } else { self.rng.usize(0..1440) };
        let payload: Vec<u8> = (0..length).map(|_| self.rng.u8(..)).collect();
        let number = self.sent.len() as u64;
        let Sender { header, to } = &mut self.senders[place];
        let mut frame = vec![0; header.bytes() + length];
        frame[header.bytes()..].copy_from_slice(&payload);
        assert_eq!(header.write(&mut frame, length), Ok(frame.len()));
        self.sent.push((payload, to.clone()));
        self.put(Sent { frame, number, is_harmed: false });
    }

    /// The wire: loses, repeats, pads, damages.
    fn put(&mut self, mut sent: Sent) {
        match self.rng.u8(..) {
            0..20 => return,
            20..40 => self.wire.push(sent.clone()),
            40..80 => self.damage(&mut sent),
            80..100 => self.cut(&mut sent),
            _ => {}
        }
        if sent.frame.len() < 60 && self.rng.bool() {
            sent.frame.resize(60, self.rng.u8(..));
        }
        self.wire.push(sent);
    }

    fn cut(&mut self, sent: &mut Sent) {
        sent.frame.truncate(self.rng.usize(..sent.frame.len()));
        sent.is_harmed = true;
    }

    /// One bit: what every checksum finds, wherever there is one.
    fn damage(&mut self, sent: &mut Sent) {
        let bit = self.rng.usize(..sent.frame.len() * 8);
        sent.frame[bit / 8] ^= 1 << (bit % 8);
        sent.is_harmed = true;
    }

    fn arrive(&mut self, sent: &Sent) {
        let (payload, to) = &self.sent[sent.number as usize];
        match receive(&mut self.stack, &sent.frame, Checksums::Verify) {
            Verdict::Deliver(datagram) => {
                assert_eq!(&sent.frame[datagram.payload.clone()], &payload[..], "datagram {}", sent.number);
                let mut sockets = datagram.sockets.to_vec();
                sockets.sort();
                assert_eq!(&sockets, to, "datagram {} is for others", sent.number);
                let source_port = datagram.source().port();
                assert!(source_port == 9000 || source_port == 9001);
                for socket in sockets {
                    *self.got.entry((socket, sent.number)).or_default() += 1;
                }
            }
            Verdict::Refused(_) if sent.is_harmed => self.found += 1,
            Verdict::Refused(reason) => assert!(to.is_empty(), "{reason:?} for datagram {}", sent.number),
            Verdict::Error(error) => panic!("nobody sent ICMP: {error:?}"),
            Verdict::Segment(received) => panic!("nobody sent TCP: {received:?}"),
        }
        if !sent.is_harmed {
            *self.undamaged.entry(sent.number).or_default() += 1;
        }
    }

    /// Each copy that arrived whole was given to each of its receivers.
    fn settle(&self) {
        for (number, times) in &self.undamaged {
            for socket in &self.sent[*number as usize].1 {
                let got = self.got.get(&(*socket, *number)).copied().unwrap_or_default();
                assert!(got >= *times, "datagram {number}: {got} of {times} copies");
            }
        }
        let counters = self.stack.counters();
        let handed_out: u64 = self.undamaged.values().map(|times| u64::from(*times)).sum();
        assert!(counters.delivered + counters.refused_total() >= handed_out);
        assert_eq!(counters.errors, 0);
    }
}

fn run(seed: u64) -> usize {
    let mut world = World::new(seed);
    (0..TURNS).for_each(|_| world.turn());
    while let Some(sent) = world.wire.pop() {
        world.arrive(&sent);
    }
    world.settle();
    assert!(world.stack.counters().delivered > 20, "the wire is bad, not dead");
    world.found
}

#[test]
fn two_stacks_on_a_bad_wire() {
    if let Ok(seed) = std::env::var("SIDESTEP_SEED") {
        run(seed.parse().expect("a number"));
        return;
    }
    let mut found = 0;
    for seed in 0..SEEDS {
        let outcome = std::panic::catch_unwind(|| run(seed));
        found += outcome.unwrap_or_else(|_| panic!("replay with SIDESTEP_SEED={seed}"));
    }
    assert!(found > 1000, "harm was done and found: {found}");
}
