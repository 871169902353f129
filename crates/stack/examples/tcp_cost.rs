//! What a segment costs: request and answer of 64 bytes between two stacks in memory, with 1, 10 and 10 000 connections.
//!
//! `cargo run --release -p sidestep-stack --example tcp_cost [rounds [connections [burst]]]`. Each round sends 64 bytes on one connection and
//! answers them: two data segments, each built into a frame, parsed, verified and delivered by reference; the ACKs ride.
//! Under callgrind run it with few rounds and one number of connections: `tcp_cost 20000 10`.
//!
//! In bursts: so many messages on different connections, before the other side receives them. First one after the other as they
//! come, then with [`Tcp::look_ahead`] in front.

use sidestep_stack::tcp::{Config, ConnectionId, Incoming, Instant, LOOK_AHEAD_MAX, NoRoom, Outgoing, Secret, Tcp};
use sidestep_wire::{Addresses, tcp};
use std::hint::black_box;
use std::net::SocketAddr;

const MESSAGE: [u8; 64] = [7; 64];
/// Virtual time between rounds: what a fast network takes.
const ROUND_NS: u64 = 10_000;
const RUNS: usize = 7;
/// Places of a wire: a burst, and ACKs of the one before.
const FRAMES: usize = 2 * LOOK_AHEAD_MAX;
/// Connections from one address.
const PORTS: usize = 50_000;

/// Frames under way in one direction.
struct Wire {
    frames: Vec<[u8; 2048]>,
    used: Vec<(Addresses, usize)>,
}

impl Wire {
    fn new() -> Self {
        Self { frames: vec![[0; 2048]; FRAMES], used: Vec::with_capacity(FRAMES) }
    }

    #[inline]
    fn take(&mut self, segment: &Outgoing<'_>) -> Result<(), NoRoom> {
        let frame = self.frames.get_mut(self.used.len()).ok_or(NoRoom)?;
        let count = segment.write(frame).map_err(|_| NoRoom)?;
        self.used.push((segment.flow.addresses, count));
        Ok(())
    }

    /// The flows of what is under way, as the receiver sees them.
    #[inline]
    fn flows(&self) -> impl Iterator<Item = (Addresses, u16, u16)> {
        self.frames.iter().zip(&self.used).map(|(frame, (addresses, _))| {
            (*addresses, u16::from_be_bytes([frame[2], frame[3]]), u16::from_be_bytes([frame[0], frame[1]]))
        })
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
        self.receive_and(now, from, |_, _| ())
    }

    /// The same; `then` is called after each frame with data.
    #[inline]
    fn receive_and(
        &mut self,
        now: Instant,
        from: &mut Wire,
        mut then: impl FnMut(&mut Self, ConnectionId),
    ) -> Option<ConnectionId> {
        let mut last = None;
        for (frame, (addresses, count)) in from.frames.iter().zip(from.used.drain(..)) {
            let Ok(segment) = tcp::View::parse(&frame[..count]) else { continue };
            let incoming = Incoming { addresses: &addresses, segment, is_verified: false };
            let Self { tcp, wire, .. } = self;
            let mut got = None;
            let mut sink = |segment: &Outgoing<'_>| wire.take(segment);
            tcp.receive(now, &incoming, &mut sink, &mut |id, bytes| {
                got = Some(id);
                black_box(bytes).len()
            });
            if let Some(id) = got {
                (last, _) = (got, then(self, id));
            }
        }
        last
    }

    #[inline]
    fn poll(&mut self, now: Instant) {
        let Self { tcp, wire, .. } = self;
        tcp.poll(now, &mut |segment: &Outgoing<'_>| wire.take(segment));
        while tcp.next_event().is_some() {}
    }
}

fn client_address(number: usize) -> SocketAddr {
    ([192, 0, 2 + (number / PORTS) as u8, 1], 10_000 + (number % PORTS) as u16).into()
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
        let to = SocketAddr::from(([192, 0, 2, 2], 80));
        let listener = pair.server.tcp.listen(to, 16, options).expect("the port is free");
        for number in 0..count {
            let local = client_address(number);
            let Side { tcp, wire, connections } = &mut pair.client;
            let mut sink = |segment: &Outgoing<'_>| wire.take(segment);
            connections.push(tcp.connect(pair.now, local, to, None, options, &mut sink).expect("room"));
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

    /// A request on each of these connections, then an answer to each.
    #[inline]
    fn burst(&mut self, ids: &[ConnectionId], looks_ahead: bool) {
        self.now = self.now.after_ns(ROUND_NS);
        let Self { client, server, now } = self;
        if looks_ahead {
            client.tcp.look_ahead_to_send(ids.iter().copied());
        }
        ids.iter().for_each(|&id| client.send(*now, id));
        if looks_ahead {
            server.tcp.look_ahead(client.wire.flows());
        }
        server.receive_and(*now, &mut client.wire, |server, id| server.send(*now, id));
        server.poll(*now);
        if looks_ahead {
            client.tcp.look_ahead(server.wire.flows());
        }
        client.receive(*now, &mut server.wire);
        // The burst is over: its last ACKs leave.
        *now = now.after_ns(ROUND_NS);
        client.poll(*now);
        if looks_ahead {
            server.tcp.look_ahead(client.wire.flows());
        }
        server.receive(*now, &mut client.wire);
        server.poll(*now);
    }

    /// The rounds' connections in an order that no cache foresees.
    fn run(&mut self, rounds: usize, mode: Mode) {
        let mut random = fastrand::Rng::with_seed(1);
        let mut next = |connections: &[ConnectionId]| connections[random.usize(..connections.len())];
        let Mode::Burst { messages, looks_ahead } = mode else {
            return (0..rounds).for_each(|_| self.round(next(&self.client.connections)));
        };
        let mut ids = Vec::with_capacity(messages);
        for _ in 0..rounds / messages {
            ids.clear();
            ids.extend((0..messages).map(|_| next(&self.client.connections)));
            self.burst(&ids, looks_ahead);
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    /// A request and its answer at a time.
    Single,
    /// So many at a time.
    Burst { messages: usize, looks_ahead: bool },
}

/// All modes, with bursts of these sizes.
fn modes(bursts: &[usize]) -> Vec<Mode> {
    let burst = |&messages: &usize| [false, true].map(|looks_ahead| Mode::Burst { messages, looks_ahead });
    [Mode::Single].into_iter().chain(bursts.iter().flat_map(burst)).collect()
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|text| text.parse::<usize>().ok());
    let rounds = arguments.next().unwrap_or(300_000);
    let counts: Vec<usize> = arguments.next().map_or(vec![1, 10, 10_000], |count| vec![count]);
    let modes = match arguments.next() {
        Some(0) => modes(&[]),
        Some(messages) => modes(&[messages.min(LOOK_AHEAD_MAX)]),
        None => modes(&[16, 64]),
    };
    let mut pairs: Vec<Pair> = counts.iter().map(|count| Pair::connected(*count)).collect();
    let mut times = vec![vec![Vec::new(); modes.len()]; counts.len()];
    // In turn, so that the machine's moods meet all of them.
    for _ in 0..RUNS {
        for (pair, times) in pairs.iter_mut().zip(&mut times) {
            for (mode, times) in modes.iter().zip(times) {
                let start = std::time::Instant::now();
                pair.run(rounds, *mode);
                times.push(start.elapsed().as_nanos() as f64 / rounds as f64 / 2.0);
            }
        }
    }
    println!("64 B request and answer, {rounds} rounds, {RUNS} runs; ns per data segment, sent and received");
    println!("connections    best  median");
    for (count, times) in counts.iter().zip(&mut times) {
        for (mode, times) in modes.iter().zip(times) {
            times.sort_by(f64::total_cmp);
            println!("{count:11} {:7.1} {:7.1}  {mode:?}", times[0], times[RUNS / 2]);
        }
    }
}
