//! One stack against a peer that violates the protocol: segments near and far from where the numbers are, calls of the
//! application in every state, time that jumps. What it gets is unimportant; that all stays bounded and consistent is not.

use super::dice::Dice;
use super::world::address;
use sidestep_stack::tcp::{
    Config, ConnectionId, Event, Incoming, Instant, ListenerId, Outgoing, Secret, Shutdown, Tcp, Undelivered,
};
use sidestep_wire::Addresses;
use sidestep_wire::tcp::{self, Flags, Options, SackBlock, Segment, SequenceNumber, Timestamps, View};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;

/// Things that happen in one run.
const STEPS_MAX: u32 = 300;
/// Segments that one call may send: a full buffer in the smallest segments.
const BURST_MAX: usize = 3_000;
const PORTS: u16 = 3;
const BUFFER_BYTES: u32 = 16_384;

struct Hostile<'a> {
    dice: Dice<'a>,
    tcp: Tcp,
    now: Instant,
    listener: ListenerId,
    held: Vec<ConnectionId>,
    /// Where our side stands per port, as a listener on the wire knows it: SEG.SEQ's end, ACK, window's edge.
    known: [(SequenceNumber, SequenceNumber, u32); PORTS as usize],
    sent: usize,
    fault: Option<String>,
    is_compared: bool,
    digest: u64,
}

/// Runs until the dice or the steps are used up. `Err`: the invariant that was violated.
pub fn run(dice: Dice<'_>) -> Result<u32, String> {
    run_on(dice, None).map(|(steps, _)| steps)
}

/// The same, to be compared: with or without the fast path. Gives the steps, and a digest of what was sent and is known.
pub fn run_on(mut dice: Dice<'_>, fast_path: Option<bool>) -> Result<(u32, u64), String> {
    let config = config(&mut dice);
    let now = Instant::from_nanos(1_000_000_000);
    let mut tcp = Tcp::new(config, Secret([7, 7, 7, 7]), now);
    let options = tcp.config().options();
    let local = SocketAddr::new(address(false, 0), 80);
    let listener = tcp.listen(local, 2, options).map_err(|error| format!("listen: {error}"))?;
    let known = Default::default();
    if fast_path == Some(false) {
        tcp.disable_fast_path();
    }
    let is_compared = fast_path.is_some();
    let mut hostile =
        Hostile { dice, tcp, now, listener, held: Vec::new(), known, sent: 0, fault: None, is_compared, digest: 0 };
    let mut steps = 0;
    while steps < STEPS_MAX && !hostile.dice.is_over() {
        steps += 1;
        hostile.step()?;
    }
    hostile.finish()?;
    Ok((steps, hostile.digest))
}

fn config(dice: &mut Dice<'_>) -> Config {
    let base = if dice.percent(50) { Config::latency() } else { Config::default() };
    Config {
        sack: dice.percent(70),
        timestamps: dice.percent(40),
        tail_probe: dice.percent(70),
        send_buffer_bytes: BUFFER_BYTES,
        receive_buffer_bytes: BUFFER_BYTES,
        receive_window_initial_bytes: BUFFER_BYTES,
        syn_queue_max: dice.one_of(&[1, 2, 100]),
        connections_max: 4,
        time_wait_max: dice.one_of(&[0, 1, 10]),
        out_of_order_ranges_max: dice.one_of(&[1, 4]),
        in_flight_segments_max: dice.one_of(&[4, 64]),
        keepalive: dice.percent(30),
        ..base
    }
}

impl Hostile<'_> {
    fn step(&mut self) -> Result<(), String> {
        match self.dice.below(10) {
            0..=4 => self.segment()?,
            5 => self.pass(),
            6 => self.router(),
            _ => self.application(),
        }
        self.look()
    }

    fn look(&mut self) -> Result<(), String> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        if std::mem::take(&mut self.sent) > BURST_MAX {
            return Err("one call has sent without end".into());
        }
        self.tcp.audit()?;
        for id in &self.held {
            let Ok(facts) = self.tcp.facts(*id) else { continue };
            if facts.readable > BUFFER_BYTES as usize || facts.unacknowledged > BUFFER_BYTES as usize {
                return Err(format!("more is kept than may be: {facts:?}"));
            }
        }
        if self.is_compared {
            let mut hasher = DefaultHasher::new();
            (self.digest, self.now).hash(&mut hasher);
            self.tcp.counters().iter().for_each(|counted| counted.hash(&mut hasher));
            self.held.iter().for_each(|id| format!("{:?}", self.tcp.facts(*id)).hash(&mut hasher));
            self.digest = hasher.finish();
        }
        Ok(())
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Tcp, Instant, &mut dyn sidestep_stack::tcp::Output) -> T) -> T {
        let Self { tcp, now, known, sent, fault, dice, digest, .. } = self;
        // Dice that are used up show zeroes: a link that never again has room would let nothing come to its end.
        let is_full = !dice.is_over() && dice.percent(5);
        call(tcp, *now, &mut |outgoing: &Outgoing<'_>| {
            if is_full {
                return Err(sidestep_stack::tcp::NoRoom);
            }
            *sent += 1;
            let mut bytes = vec![0; outgoing.bytes()];
            let written = outgoing.write(&mut bytes);
            let mut hasher = DefaultHasher::new();
            (*digest, &bytes).hash(&mut hasher);
            *digest = hasher.finish();
            let is_good = View::parse(&bytes).is_ok_and(|view| view.verify(&outgoing.flow.addresses).is_ok());
            if !is_good {
                *fault = Some(format!("sent what cannot be read: {written:?} {:?}", outgoing.header));
            }
            let header = &outgoing.header;
            if let Some(place) = known.get_mut(usize::from(outgoing.flow.remote_port.wrapping_sub(5000))) {
                let taken = u32::from(header.flags.has_any(Flags::SYN | Flags::FIN)) + outgoing.payload_bytes() as u32;
                *place = (header.sequence + taken, header.acknowledgement, u32::from(header.window));
            }
            Ok(())
        })
    }

    /// A number near `number`, or anywhere.
    fn near(&mut self, number: SequenceNumber, window: u32) -> SequenceNumber {
        match self.dice.below(8) {
            0..=2 => number,
            3 => number + 1,
            4 => number - 1,
            5 => number + self.dice.below(u64::from(window) + 2) as u32,
            6 => number - self.dice.below(3000) as u32,
            _ => SequenceNumber(self.dice.number().wrapping_mul(65_537)),
        }
    }

    fn segment(&mut self) -> Result<(), String> {
        let port = self.dice.below(u64::from(PORTS)) as usize;
        let (our_end, their_next, window) = self.known[port];
        let any = Flags(self.dice.number() as u8);
        let flags = self.dice.one_of(&[
            Flags::ACK,
            Flags::ACK,
            Flags::ACK | Flags::PSH,
            Flags::ACK | Flags::FIN,
            Flags::SYN,
            Flags::SYN | Flags::ACK,
            Flags::RST,
            Flags::RST | Flags::ACK,
            Flags::FIN,
            any,
        ]);
        let (sequence, acknowledgement) = (self.near(their_next, window), self.near(our_end, 3000));
        let bytes = self.dice.one_of(&[0, 0, 1, 100, 1460]);
        let header = Segment {
            source_port: 5000 + port as u16,
            destination_port: self.dice.one_of(&[80, 80, 80, 90]),
            sequence,
            acknowledgement,
            flags,
            window: self.dice.one_of(&[0, 1, 100, 65_535]),
            urgent_pointer: 1,
            options: self.options(our_end),
        };
        let addresses = Addresses::new(address(false, 1), address(false, 0)).ok_or("two families")?;
        let mut segment = vec![0; header.header_bytes()];
        segment.resize(segment.len() + bytes, 0x55);
        tcp::build(&header, &addresses, bytes, &mut segment).map_err(|error| format!("build: {error:?}"))?;
        let incoming = Incoming {
            addresses: &addresses,
            segment: View::parse(&segment).map_err(|error| format!("parse: {error:?}"))?,
            is_verified: false,
        };
        let takes = self.dice.below(2000) as usize;
        self.call(|tcp, now, sink| tcp.receive(now, &incoming, sink, &mut |_, bytes| bytes.len().min(takes)));
        Ok(())
    }

    fn options(&mut self, our_end: SequenceNumber) -> Options {
        let mut options = Options::NONE;
        if self.dice.percent(30) {
            options.maximum_segment_size = Some(self.dice.one_of(&[0, 1, 536, 1460, 65_535]));
            options.window_scale = self.dice.percent(50).then(|| self.dice.below(15) as u8);
            options.sack_permitted = self.dice.percent(50);
        }
        if self.dice.percent(30) {
            options.timestamps = Some(Timestamps { value: self.dice.number(), echo: self.dice.number() });
        }
        for _ in 0..self.dice.below(4) {
            let (start, end) = (self.near(our_end - 2000, 2000), self.near(our_end, 100));
            options.sack.push(SackBlock { start, end });
        }
        options.fitted()
    }

    fn pass(&mut self) {
        let wait_ns = self.dice.magnitude(1, 200_000_000_000);
        self.now = match self.tcp.next_poll() {
            Some(at) if self.dice.percent(60) => self.now.max(at),
            _ => self.now.after_ns(wait_ns),
        };
        self.call(|tcp, now, sink| tcp.poll(now, sink));
    }

    fn router(&mut self) {
        let Some(id) = self.some_id() else { return };
        let Ok(facts) = self.tcp.facts(id) else { return };
        let port = usize::from(facts.flow.remote_port.wrapping_sub(5000)).min(2);
        let sequence = self.near(self.known[port].0 - 1, 10);
        let mtu = self.dice.one_of(&[0, 68, 600, 1280, 1499, 65_535]);
        match self.dice.below(3) {
            0 => self.call(|tcp, now, sink| tcp.packet_too_big(now, &facts.flow, sequence, mtu, sink)),
            1 => self.call(|tcp, now, sink| {
                let why = [Undelivered::Network, Undelivered::Port, Undelivered::Prohibited][usize::from(mtu) % 3];
                tcp.unreachable(now, &facts.flow, sequence, why, sink)
            }),
            _ => self.call(|tcp, now, sink| tcp.set_path_mtu(now, id, mtu.max(68), sink).is_ok()),
        };
    }

    fn some_id(&mut self) -> Option<ConnectionId> {
        let place = self.dice.below(self.held.len() as u64) as usize;
        self.held.get(place).copied()
    }

    /// The answers do not matter: every call must be possible in every state.
    fn application(&mut self) {
        while let Some(Event::Connection(_) | Event::Listener(_)) = self.tcp.next_event() {}
        if self.dice.percent(25) {
            let local = SocketAddr::new(address(false, 0), 80);
            let remote = SocketAddr::new(address(false, 1), 5000 + self.dice.below(u64::from(PORTS)) as u16);
            let options = self.tcp.config().options();
            let connected = self.call(|tcp, now, sink| tcp.connect(now, local, remote, None, options, sink));
            self.held.extend(connected);
        }
        self.held.extend(self.tcp.accept(self.listener));
        let Some(id) = self.some_id() else { return };
        let count = self.dice.magnitude(1, 20_000) as usize;
        let how = self.dice.one_of(&[Shutdown::Read, Shutdown::Write, Shutdown::Both]);
        match self.dice.below(12) {
            0..=3 => drop(self.call(|tcp, now, sink| tcp.send(now, id, &vec![0x55; count], sink))),
            4..=6 => drop(self.call(|tcp, now, sink| tcp.read(now, id, &mut vec![0; count], sink))),
            7 => drop(self.call(|tcp, now, sink| tcp.shutdown(now, id, how, sink))),
            8 => drop(self.call(|tcp, now, sink| tcp.close(now, id, sink))),
            9 => drop(self.call(|tcp, now, sink| tcp.abort(now, id, sink))),
            10 => self.change_options(id),
            _ => drop(self.tcp.take_error(id)),
        }
        self.held.retain(|id| self.tcp.options(*id).is_ok());
    }

    fn change_options(&mut self, id: ConnectionId) {
        let Ok(mut options) = self.tcp.options(id) else { return };
        options.nodelay = self.dice.percent(50);
        options.cork = self.dice.percent(50);
        options.quickack = self.dice.percent(50);
        options.user_timeout_ns = self.dice.one_of(&[0, 1, 1_000_000_000]);
        options.segment_bytes_max = self.dice.one_of(&[0, 88, 500]);
        let _ = self.call(|tcp, now, sink| tcp.set_options(now, id, options, sink));
    }

    /// Releases all handles: in the end nothing is left.
    fn finish(&mut self) -> Result<(), String> {
        for id in std::mem::take(&mut self.held) {
            let _ = self.call(|tcp, now, sink| tcp.close(now, id, sink));
        }
        let listener = self.listener;
        let _ = self.call(|tcp, now, sink| tcp.close_listener(now, listener, sink));
        for _ in 0..20_000 {
            self.call(|tcp, now, sink| tcp.poll(now, sink));
            self.look()?;
            match self.tcp.next_poll() {
                None => break,
                Some(at) => self.now = self.now.after_ns(1000).max(at),
            }
        }
        match self.tcp.connections() {
            (0, 0) => Ok(()),
            left => Err(format!("{left:?} connections are left for ever")),
        }
    }
}
