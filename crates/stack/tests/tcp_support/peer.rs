//! Our stack against a peer that is played by the test, segment by segment.

use super::{Host, address, read};
use sidestep_stack::tcp::{Config, ConnectionId, Instant, ListenerId, Secret, Tcp};
use sidestep_wire::tcp::{Flags, Options, Segment, SequenceNumber, Timestamps};
use sidestep_wire::{Addresses, tcp};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;

/// The peer's first number; its data begins one later.
pub const THEIR_ISS: u32 = 1000;

/// Our stack, the time, and where the conversation stands. Numbers are relative: the SYN of each side is 0.
pub struct Play {
    pub now: Instant,
    pub host: Host,
    pub listener: Option<ListenerId>,
    pub id: Option<ConnectionId>,
    ours: SequenceNumber,
    /// The peer's window in the next segments.
    pub window: u16,
    /// The peer's clock in the next segments.
    pub clock: Option<u32>,
    pub port: u16,
}

/// What we have sent, with relative numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub seq: u32,
    pub ack: u32,
    pub flags: Flags,
    pub window: u16,
    pub options: Options,
    pub payload: Vec<u8>,
}

impl Play {
    pub fn new(config: Config) -> Self {
        let mut host = Host::new(config, 1, 0);
        host.tcp = Tcp::new(host.tcp.config().clone(), Secret([9, 8, 7, 6]), Instant::default());
        let now = Instant::from_nanos(100 * SECOND);
        let ours = SequenceNumber(0);
        Self { now, host, listener: None, id: None, ours, window: 60_000, clock: None, port: 5000 }
    }

    /// The peer has connected to us and was accepted; it asked for segments of 1000 bytes and `options`.
    pub fn accepted(config: Config, options: Options) -> Self {
        let mut play = Self::new(config);
        play.listen(8);
        play.clock = options.timestamps.map(|timestamps| timestamps.value);
        let options = Options { maximum_segment_size: Some(options.maximum_segment_size.unwrap_or(1000)), ..options };
        play.syn(options);
        let answer = play.only();
        assert_eq!(answer.flags, Flags::SYN | Flags::ACK);
        play.pass(10 * MS);
        play.say(1, 1, Flags::ACK, b"");
        play.accept();
        play
    }

    pub fn listen(&mut self, backlog: usize) {
        let options = self.host.tcp.config().options();
        self.listener = Some(self.host.tcp.listen(address(0, 80), backlog, options).unwrap());
    }

    pub fn accept(&mut self) {
        self.id = Some(self.host.tcp.accept(self.listener.unwrap()).expect("one waits"));
        while self.host.tcp.next_event().is_some() {}
    }

    /// We connect: the SYN stands to be [`Play::seen`].
    pub fn connect(&mut self) {
        let (now, options) = (self.now, self.host.tcp.config().options());
        let (local, remote) = (address(0, 80), address(1, self.port));
        let id = self.host.with(now, |tcp, mut sink| tcp.connect(now, local, remote, None, options, &mut sink));
        self.id = Some(id.unwrap());
    }

    pub fn id(&self) -> ConnectionId {
        self.id.expect("there is a connection")
    }

    pub fn syn(&mut self, options: Options) {
        self.raw(0, 0, Flags::SYN, options, b"");
    }

    /// A segment of the peer's with the usual options.
    pub fn say(&mut self, seq: u32, ack: u32, flags: Flags, payload: &[u8]) {
        let timestamps = self.clock.map(|value| Timestamps { value, echo: 0 });
        self.raw(seq, ack, flags, Options { timestamps, ..Options::NONE }, payload);
    }

    /// An ACK of the peer's with SACK blocks, relative.
    pub fn sack(&mut self, seq: u32, ack: u32, blocks: &[(u32, u32)]) {
        let mut options = Options::NONE;
        for (start, end) in blocks {
            options.sack.push(tcp::SackBlock { start: self.ours + *start, end: self.ours + *end });
        }
        self.raw(seq, ack, Flags::ACK, options, b"");
    }

    pub fn raw(&mut self, seq: u32, ack: u32, flags: Flags, options: Options, payload: &[u8]) {
        let acknowledgement = if flags.has(Flags::ACK) { self.ours + ack } else { SequenceNumber(0) };
        let header = Segment {
            source_port: self.port,
            destination_port: 80,
            sequence: SequenceNumber(THEIR_ISS) + seq,
            acknowledgement,
            flags,
            window: self.window,
            urgent_pointer: 0,
            options,
        };
        let addresses = Addresses::new(address(1, 0).ip(), address(0, 0).ip()).unwrap();
        let mut bytes = vec![0; header.header_bytes()];
        bytes.extend_from_slice(payload);
        tcp::build(&header, &addresses, payload.len(), &mut bytes).unwrap();
        self.host.receive(self.now, &addresses, &bytes);
    }

    /// The segments sent since the last call, ACKs that wait for a poll not included.
    pub fn seen(&mut self) -> Vec<Seen> {
        let raw = self.host.wire.segments_raw();
        self.host.wire.clear();
        raw.iter()
            .map(|(_, bytes)| {
                let (header, payload) = read(bytes);
                if header.flags.has(Flags::SYN) {
                    self.ours = header.sequence;
                }
                let Segment { flags, window, options, .. } = header;
                let ack =
                    if flags.has(Flags::ACK) { header.acknowledgement.since(SequenceNumber(THEIR_ISS)) } else { 0 };
                Seen { seq: header.sequence.since(self.ours), ack, flags, window, options, payload }
            })
            .collect()
    }

    /// The one segment that we have sent.
    pub fn only(&mut self) -> Seen {
        let mut seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen.remove(0)
    }

    pub fn nothing(&mut self) {
        assert_eq!(self.seen(), []);
    }

    /// Sequence number and length of what we have sent.
    pub fn ranges(&mut self) -> Vec<(u32, usize)> {
        self.seen().iter().map(|seen| (seen.seq, seen.payload.len())).collect()
    }

    pub fn poll(&mut self) {
        self.host.poll(self.now);
    }

    /// Lets time pass, with a poll whenever one is due.
    pub fn pass(&mut self, ns: u64) {
        let end = self.now.after_ns(ns);
        self.poll();
        while let Some(at) = self.host.tcp.next_poll().filter(|at| *at <= end && self.now < end) {
            // What the sink refuses is due at once and for ever: time must go on.
            self.now = if at <= self.now { self.now.after_ns(1000) } else { at };
            self.poll();
        }
        self.now = self.now.max(end);
    }

    pub fn send(&mut self, bytes: &[u8]) {
        let (now, id) = (self.now, self.id());
        assert_eq!(self.host.send(now, id, bytes), Ok(bytes.len()));
    }

    pub fn read(&mut self) -> Vec<u8> {
        let (now, id) = (self.now, self.id());
        self.host.read(now, id).unwrap()
    }

    pub fn close(&mut self) {
        let (now, id) = (self.now, self.id());
        self.host.close(now, id);
    }

    pub fn call<T>(
        &mut self,
        call: impl FnOnce(&mut Tcp, Instant, ConnectionId, &mut dyn sidestep_stack::tcp::Output) -> T,
    ) -> T {
        let (now, id) = (self.now, self.id());
        self.host.with(now, |tcp, mut sink| call(tcp, now, id, &mut sink))
    }

    pub fn count(&self, counter: sidestep_stack::tcp::Counter) -> u64 {
        self.host.tcp.counters().value(counter)
    }

    /// Our first number.
    pub fn host_iss(&self) -> SequenceNumber {
        self.ours
    }

    pub fn facts(&self) -> sidestep_stack::tcp::Facts {
        self.host.tcp.facts(self.id()).unwrap()
    }
}

/// SACK agreed on.
pub fn sacking() -> Options {
    Options { sack_permitted: true, ..Options::NONE }
}
