//! What a segment costs: request and answer of 64 bytes between two stacks in memory, with 1, 10 and 10 000 connections.
//!
//! `cargo run --release -p sidestep-stack --example tcp_cost [rounds]`. Each round sends 64 bytes on one connection and
//! answers them: two data segments, each built into a frame, parsed, verified and delivered by reference; the ACKs ride.
//! Under callgrind run it with few rounds and one number of connections: `tcp_cost 20000 10`.

use sidestep_stack::tcp::{Config, ConnectionId, Incoming, Instant, NoRoom, Outgoing, Secret, Tcp};
use sidestep_wire::{Addresses, tcp};
use std::hint::black_box;
use std::net::SocketAddr;

const MESSAGE: [u8; 64] = [7; 64];
/// Virtual time between rounds: what a fast network takes.
const ROUND_NS: u64 = 10_000;
const RUNS: usize = 7;

/// Frames under way in one direction.
struct Wire {
    frames: Vec<[u8; 2048]>,
    used: Vec<(Addresses, usize)>,
}

impl Wire {
    fn new() -> Self {
        Self { frames: vec![[0; 2048]; 16], used: Vec::with_capacity(16) }
    }

    #[inline]
    fn take(&mut self, segment: &Outgoing<'_>) -> Result<(), NoRoom> {
        let frame = self.frames.get_mut(self.used.len()).ok_or(NoRoom)?;
        let count = segment.write(frame).map_err(|_| NoRoom)?;
        self.used.push((segment.flow.addresses, count));
        Ok(())
    }
}

/// A stack with the wire that it sends into.
struct Side {
    tcp: Tcp,
    wire: Wire,
    connections: Vec<ConnectionId>,
}

impl Side {
    fn new(seed: u64) -> Self {
        let tcp = Tcp::new(Config::latency(), Secret([seed, 7, 8, 9]), Instant::default());
        Self { tcp, wire: Wire::new(), connections: Vec::new() }
    }

    #[inline]
    fn send(&mut self, now: Instant, id: ConnectionId) {
        let Self { tcp, wire, .. } = self;
        let taken = tcp.send(now, id, &MESSAGE, &mut |segment: &Outgoing<'_>| wire.take(segment));
        assert_eq!(taken, Ok(MESSAGE.len()));
    }

    /// Takes what the other side has sent; gives the connection that got data.
    #[inline]
    fn receive(&mut self, now: Instant, from: &mut Wire) -> Option<ConnectionId> {
        let Self { tcp, wire, .. } = self;
        let mut got = None;
        for (frame, (addresses, count)) in from.frames.iter().zip(from.used.drain(..)) {
            let Ok(segment) = tcp::View::parse(&frame[..count]) else { continue };
            let incoming = Incoming { addresses: &addresses, segment, is_verified: false };
            let mut sink = |segment: &Outgoing<'_>| wire.take(segment);
            tcp.receive(now, &incoming, &mut sink, &mut |id, bytes| {
                got = Some(id);
                black_box(bytes).len()
            });
        }
        got
    }

    #[inline]
    fn poll(&mut self, now: Instant) {
        let Self { tcp, wire, .. } = self;
        tcp.poll(now, &mut |segment: &Outgoing<'_>| wire.take(segment));
        while tcp.next_event().is_some() {}
    }
}

fn address(host: u8, port: u16) -> SocketAddr {
    ([192, 0, 2, host], port).into()
}

struct Pair {
    client: Side,
    server: Side,
    now: Instant,
}

impl Pair {
    fn connected(count: usize) -> Self {
        let mut pair = Self { client: Side::new(1), server: Side::new(2), now: Instant::from_nanos(1_000_000_000) };
        let options = pair.client.tcp.config().options();
        let listener = pair.server.tcp.listen(address(2, 80), 16, options).expect("the port is free");
        for number in 0..count {
            let local = address(1, 10_000 + number as u16);
            let Side { tcp, wire, connections } = &mut pair.client;
            let mut sink = |segment: &Outgoing<'_>| wire.take(segment);
            connections.push(tcp.connect(pair.now, local, address(2, 80), None, options, &mut sink).expect("room"));
            for _ in 0..2 {
                pair.server.receive(pair.now, &mut pair.client.wire);
                pair.client.receive(pair.now, &mut pair.server.wire);
            }
            pair.server.connections.push(pair.server.tcp.accept(listener).expect("the handshake is over"));
        }
        pair
    }

    /// One request, one answer.
    #[inline]
    fn round(&mut self, id: ConnectionId) {
        self.now = self.now.after_ns(ROUND_NS);
        self.client.send(self.now, id);
        let server = self.server.receive(self.now, &mut self.client.wire);
        self.server.send(self.now, server.expect("the request has come"));
        self.server.poll(self.now);
        let got = self.client.receive(self.now, &mut self.server.wire);
        assert_eq!(got, Some(id));
        self.client.poll(self.now);
    }

    /// The rounds' connections in an order that no cache foresees.
    fn run(&mut self, rounds: usize) {
        let count = self.client.connections.len();
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..rounds {
            let id = self.client.connections[random.usize(..count)];
            self.round(id);
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|text| text.parse::<usize>().ok());
    let rounds = arguments.next().unwrap_or(300_000);
    let counts: Vec<usize> = arguments.next().map_or(vec![1, 10, 10_000], |count| vec![count]);
    let mut pairs: Vec<Pair> = counts.iter().map(|count| Pair::connected(*count)).collect();
    let mut times = vec![Vec::new(); counts.len()];
    // In turn, so that the machine's moods meet all of them.
    for _ in 0..RUNS {
        for (pair, times) in pairs.iter_mut().zip(&mut times) {
            let start = std::time::Instant::now();
            pair.run(rounds);
            times.push(start.elapsed().as_nanos() as f64 / rounds as f64 / 2.0);
        }
    }
    println!("64 B request and answer, {rounds} rounds, {RUNS} runs; ns per data segment, sent and received");
    println!("connections    best  median");
    for (count, times) in counts.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        println!("{count:11} {:7.1} {:7.1}", times[0], times[RUNS / 2]);
    }
}
