//! Two stacks and the wire between them, in virtual time; one stack and a peer played by the test.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

pub mod peer;

use sidestep_stack::tcp::{
    Config, ConnectionId, Error, Incoming, Instant, ListenerId, NoRoom, Outgoing, Secret, State, Tcp,
};
use sidestep_wire::{Addresses, tcp};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What the wire does to segments; chances in percent.
#[derive(Clone, Copy, Default)]
pub struct Weather {
    pub loss: u8,
    pub duplication: u8,
    pub corruption: u8,
    /// Up to so much longer than `delay_ns`: enough of it reorders.
    pub jitter_ns: u64,
    /// Chance that the sink has no room.
    pub refusal: u8,
}

/// One way.
pub struct Wire {
    pub random: fastrand::Rng,
    pub weather: Weather,
    pub delay_ns: u64,
    pub sent: u64,
    number: u64,
    under_way: BTreeMap<(u64, u64), (Addresses, Vec<u8>)>,
}

impl Wire {
    pub fn new(seed: u64, delay_ns: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { random, weather: Weather::default(), delay_ns, sent: 0, number: 0, under_way: BTreeMap::new() }
    }

    fn chance(&mut self, percent: u8) -> bool {
        percent > 0 && self.random.u8(..100) < percent
    }

    fn take(&mut self, now: Instant, segment: &Outgoing<'_>) -> Result<(), NoRoom> {
        if self.chance(self.weather.refusal) {
            return Err(NoRoom);
        }
        let mut bytes = vec![0; segment.bytes()];
        assert_eq!(segment.write(&mut bytes), Ok(bytes.len()));
        self.sent += 1;
        let is_lost = self.chance(self.weather.loss);
        trace(now, segment, is_lost);
        if is_lost {
            return Ok(());
        }
        if self.chance(self.weather.corruption) {
            let bit = self.random.usize(..bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        for _ in 0..1 + u8::from(self.chance(self.weather.duplication)) {
            let jitter_ns = if self.weather.jitter_ns > 0 { self.random.u64(..self.weather.jitter_ns) } else { 0 };
            self.number += 1;
            let at = now.as_nanos() + self.delay_ns + jitter_ns;
            self.under_way.insert((at, self.number), (segment.flow.addresses, bytes.clone()));
        }
        Ok(())
    }

    pub fn next_at(&self) -> Option<u64> {
        self.under_way.keys().next().map(|(at, _)| *at)
    }

    fn arrive(&mut self, now: Instant) -> Option<(Addresses, Vec<u8>)> {
        let first = self.under_way.first_entry()?;
        (first.key().0 <= now.as_nanos()).then(|| first.remove())
    }

    /// What is under way, oldest first, read.
    pub fn segments(&self) -> Vec<(tcp::Segment, Vec<u8>)> {
        self.under_way.values().map(|(_, bytes)| read(bytes)).collect()
    }

    /// What is under way, oldest first, as it stands.
    pub fn segments_raw(&self) -> Vec<(Addresses, Vec<u8>)> {
        self.under_way.values().cloned().collect()
    }

    pub fn clear(&mut self) {
        self.under_way.clear();
    }
}

/// With SIDESTEP_TRACE in the environment each segment is shown.
fn trace(now: Instant, segment: &Outgoing<'_>, is_lost: bool) {
    if std::env::var_os("SIDESTEP_TRACE").is_none() {
        return;
    }
    let tcp::Segment { sequence, acknowledgement, flags, window, options, .. } = &segment.header;
    let (flow, bytes, lost) = (segment.flow, segment.payload_bytes(), if is_lost { " LOST" } else { "" });
    let sack =
        options.sack.as_slice().iter().map(|block| format!(" {}-{}", block.start, block.end)).collect::<String>();
    eprintln!("{now} {flow} [{flags}] {sequence}+{bytes} ack {acknowledgement} win {window} sack{sack}{lost}");
}

/// A segment as what it says.
pub fn read(bytes: &[u8]) -> (tcp::Segment, Vec<u8>) {
    let view = tcp::View::parse(bytes).expect("we write what can be read");
    let segment = tcp::Segment {
        source_port: view.source_port(),
        destination_port: view.destination_port(),
        sequence: view.sequence(),
        acknowledgement: view.acknowledgement(),
        flags: view.flags(),
        window: view.window(),
        urgent_pointer: view.urgent_pointer(),
        options: view.options(),
    };
    (segment, view.payload().to_vec())
}

/// A stack and the wire it sends into.
pub struct Host {
    pub tcp: Tcp,
    pub wire: Wire,
    /// Bytes that `deliver` takes at most per segment; the rest goes to the buffer.
    pub takes: usize,
    /// What `deliver` has taken.
    pub lent: Vec<u8>,
}

impl Host {
    pub fn new(config: Config, seed: u64, delay_ns: u64) -> Self {
        let secret = Secret([seed, 2, 3, 4]);
        let tcp = Tcp::new(config, secret, Instant::default());
        Self { tcp, wire: Wire::new(seed, delay_ns), takes: 0, lent: Vec::new() }
    }

    /// Calls the stack with the wire as its sink.
    pub fn with<T>(
        &mut self,
        now: Instant,
        call: impl FnOnce(&mut Tcp, &mut dyn FnMut(&Outgoing<'_>) -> Result<(), NoRoom>) -> T,
    ) -> T {
        let Self { tcp, wire, .. } = self;
        call(tcp, &mut |segment: &Outgoing<'_>| wire.take(now, segment))
    }

    pub fn receive(&mut self, now: Instant, addresses: &Addresses, bytes: &[u8]) {
        let Ok(segment) = tcp::View::parse(bytes) else { return };
        let incoming = Incoming { addresses, segment, is_verified: false };
        let Self { tcp, wire, takes, lent } = self;
        let mut sink = |segment: &Outgoing<'_>| wire.take(now, segment);
        tcp.receive(now, &incoming, &mut sink, &mut |_, bytes| {
            let taken = bytes.len().min(*takes);
            lent.extend_from_slice(&bytes[..taken]);
            taken
        });
    }

    pub fn send(&mut self, now: Instant, id: ConnectionId, bytes: &[u8]) -> Result<usize, Error> {
        self.with(now, |tcp, mut sink| tcp.send(now, id, bytes, &mut sink))
    }

    pub fn read(&mut self, now: Instant, id: ConnectionId) -> Result<Vec<u8>, Error> {
        let mut out = vec![0; 1 << 16];
        let count = self.with(now, |tcp, mut sink| tcp.read(now, id, &mut out, &mut sink))?;
        out.truncate(count);
        Ok(out)
    }

    pub fn close(&mut self, now: Instant, id: ConnectionId) {
        self.with(now, |tcp, mut sink| tcp.close(now, id, &mut sink)).unwrap();
    }

    pub fn poll(&mut self, now: Instant) {
        self.with(now, |tcp, mut sink| tcp.poll(now, &mut sink));
    }

    pub fn state(&self, id: ConnectionId) -> Option<State> {
        self.tcp.facts(id).ok().map(|facts| facts.state)
    }
}

/// Two hosts, and the time.
pub struct Pair {
    pub now: Instant,
    pub hosts: [Host; 2],
}

pub const CLIENT: usize = 0;
pub const SERVER: usize = 1;

pub fn address(host: usize, port: u16) -> SocketAddr {
    ([192, 0, 2, 1 + host as u8], port).into()
}

impl Pair {
    /// 50 us from one to the other.
    pub fn new(config: &Config, seed: u64) -> Self {
        let host = |number| Host::new(config.clone(), seed * 2 + number, 50_000);
        Self { now: Instant::from_nanos(1_000_000_000), hosts: [host(0), host(1)] }
    }

    /// Lets everything due now happen; true if something did.
    pub fn turn(&mut self) -> bool {
        let now = self.now;
        let mut worked = false;
        for from in [CLIENT, SERVER] {
            while let Some((addresses, bytes)) = self.hosts[from].wire.arrive(now) {
                self.hosts[1 - from].receive(now, &addresses, &bytes);
                worked = true;
            }
        }
        for host in &mut self.hosts {
            host.poll(now);
        }
        worked
    }

    /// When something happens next.
    pub fn next_at(&self) -> Option<Instant> {
        let wires = self.hosts.iter().filter_map(|host| host.wire.next_at());
        let timers = self.hosts.iter().filter_map(|host| host.tcp.next_poll()).map(Instant::as_nanos);
        wires.chain(timers).min().map(|at| Instant::from_nanos(at.max(self.now.as_nanos())))
    }

    /// Goes to what happens next, not beyond `end`; false if nothing does.
    pub fn step(&mut self, end: Instant) -> bool {
        match self.next_at().filter(|at| *at <= end) {
            Some(at) => {
                // A refused segment is due at once and for ever: time must go on.
                self.now = if at == self.now { self.now.after_ns(1000) } else { at };
                self.turn();
                true
            }
            None => {
                self.now = end;
                false
            }
        }
    }

    pub fn run(&mut self, for_ns: u64) {
        let end = self.now.after_ns(for_ns);
        self.turn();
        while self.now < end && self.step(end) {}
        self.now = self.now.max(end);
    }

    pub fn listen(&mut self, port: u16) -> ListenerId {
        let options = self.hosts[SERVER].tcp.config().options();
        self.hosts[SERVER].tcp.listen(address(SERVER, port), 64, options).unwrap()
    }

    pub fn connect(&mut self, from_port: u16, port: u16) -> ConnectionId {
        let (now, host) = (self.now, &mut self.hosts[CLIENT]);
        let options = host.tcp.config().options();
        let (local, remote) = (address(CLIENT, from_port), address(SERVER, port));
        host.with(now, |tcp, mut sink| tcp.connect(now, local, remote, None, options, &mut sink)).unwrap()
    }

    /// A connection from port 40000 to port 80, both ends.
    pub fn established(&mut self) -> (ConnectionId, ConnectionId) {
        let listener = self.listen(80);
        let client = self.connect(40_000, 80);
        self.run(1_000_000);
        let server = self.hosts[SERVER].tcp.accept(listener).expect("the handshake is over");
        assert_eq!(self.hosts[CLIENT].state(client), Some(State::Established));
        (client, server)
    }
}

/// Byte number `offset` of the expected stream.
pub fn pattern(offset: usize) -> u8 {
    (offset as u32).wrapping_mul(0x9e37_79b1).to_be_bytes()[0]
}
