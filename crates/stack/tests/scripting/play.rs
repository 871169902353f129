//! The stage: our stack, a peer that does as the script says, virtual time.

use super::parse::{Choice, Packet};
use sidestep_stack::tcp::{Config, ConnectionId, Incoming, Instant, ListenerId, Outgoing, Secret, Tcp};
use sidestep_wire::Addresses;
use sidestep_wire::tcp::{self, Flags, Options, SackBlock, Segment, SequenceNumber, Timestamps, View};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// The peer's first number: its stream wraps soon, so that every script tries the wrap.
const THEIR_ISS: SequenceNumber = SequenceNumber(u32::MAX - 500);
/// Timers that may fire within one wait.
const TIMERS_MAX: usize = 20_000;
/// Segments that we may send unchecked.
const SEGMENTS_MAX: usize = 2_000;
/// How a fault begins that no script can be the reason of.
pub const AUDIT: &str = "the audit: ";
const BEGIN_NS: u64 = 1_000_000_000_000;

/// A segment that we have sent.
pub struct Seen {
    pub at_ns: u64,
    pub header: Segment,
    pub payload: Vec<u8>,
}

pub struct Play {
    pub now_ns: u64,
    pub tcp: Tcp,
    pub listener: Option<ListenerId>,
    pub id: Option<ConnectionId>,
    pub seen: VecDeque<Seen>,
    pub port: u16,
    window: u16,
    ours: SequenceNumber,
    /// Bytes that the application has sent and read.
    pub sent: usize,
    pub read: usize,
}

pub fn here() -> SocketAddr {
    ([192, 0, 2, 1], 80).into()
}

pub fn there(port: u16) -> SocketAddr {
    ([192, 0, 2, 2], port).into()
}

/// Byte `offset` of each stream.
pub fn byte(offset: usize) -> u8 {
    (offset as u32).wrapping_mul(0x9e37_79b1).to_be_bytes()[0]
}

impl Play {
    pub fn new(config: Config) -> Self {
        let tcp = Tcp::new(config, Secret([9, 8, 7, 6]), Instant::from_nanos(BEGIN_NS));
        Self {
            now_ns: BEGIN_NS,
            tcp,
            listener: None,
            id: None,
            seen: VecDeque::new(),
            port: 5000,
            window: 60_000,
            ours: SequenceNumber(0),
            sent: 0,
            read: 0,
        }
    }

    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.now_ns)
    }

    /// Calls the stack and keeps what it sends.
    pub fn call<T>(&mut self, call: impl FnOnce(&mut Tcp, Instant, &mut dyn sidestep_stack::tcp::Output) -> T) -> T {
        let (now, seen, at_ns) = (self.now(), &mut self.seen, self.now_ns);
        call(&mut self.tcp, now, &mut |outgoing: &Outgoing<'_>| {
            if seen.len() < SEGMENTS_MAX {
                let mut bytes = vec![0; outgoing.bytes()];
                let _ = outgoing.write(&mut bytes);
                let payload = bytes.split_off(outgoing.header.header_bytes());
                seen.push_back(Seen { at_ns, header: outgoing.header, payload });
            }
            Ok(())
        })
    }

    /// Lets time pass; stops as soon as something leaves, if `until_seen`.
    pub fn pass(&mut self, wait_ns: u64, until_seen: bool) -> Result<(), String> {
        let end_ns = self.now_ns + wait_ns;
        for _ in 0..TIMERS_MAX {
            self.call(|tcp, now, sink| tcp.poll(now, sink));
            self.audit()?;
            if until_seen && !self.seen.is_empty() {
                return Ok(());
            }
            let next_ns = self.tcp.next_poll().map_or(u64::MAX, |at| at.as_nanos().max(self.now_ns + 1));
            if next_ns > end_ns {
                self.now_ns = end_ns;
                return Ok(());
            }
            self.now_ns = next_ns;
        }
        Err(format!("more than {TIMERS_MAX} timers in one wait"))
    }

    /// The peer sends.
    pub fn inject(&mut self, packet: &Packet) -> Result<(), String> {
        self.window = packet.window.unwrap_or(self.window);
        let header = Segment {
            source_port: self.port,
            destination_port: here().port(),
            sequence: THEIR_ISS + packet.seq,
            acknowledgement: packet.ack.map_or(SequenceNumber(0), |ack| self.ours + ack),
            flags: packet.flags,
            window: self.window,
            urgent_pointer: u16::from(packet.flags.has(Flags::URG)),
            options: self.options(packet.options.as_deref().unwrap_or_default()),
        };
        let addresses = Addresses::new(there(0).ip(), here().ip()).ok_or("two families")?;
        if header.options.bytes() > tcp::OPTIONS_BYTES_MAX {
            return Err("more options than fit".into());
        }
        let mut bytes = vec![0; header.header_bytes()];
        bytes.extend((0..packet.bytes).map(|offset| byte((packet.seq + offset).wrapping_sub(1) as usize)));
        tcp::build(&header, &addresses, packet.bytes as usize, &mut bytes).map_err(|error| format!("{error:?}"))?;
        let segment = View::parse(&bytes).map_err(|error| format!("{error:?}"))?;
        let incoming = Incoming { addresses: &addresses, segment, is_verified: false };
        self.call(|tcp, now, sink| tcp.receive(now, &incoming, sink, &mut |_, _| 0));
        self.audit()
    }

    fn audit(&self) -> Result<(), String> {
        self.tcp.audit().map_err(|fault| format!("{AUDIT}{fault}"))
    }

    fn options(&self, choices: &[Choice]) -> Options {
        let mut options = Options::NONE;
        for choice in choices {
            match choice {
                Choice::SegmentSize(bytes) => options.maximum_segment_size = Some(*bytes),
                Choice::WindowScale(shift) => options.window_scale = Some(*shift),
                Choice::SackPermitted => options.sack_permitted = true,
                Choice::Timestamps(value, echo) => {
                    options.timestamps = Some(Timestamps { value: value.unwrap_or(0), echo: *echo });
                }
                Choice::Sack(blocks) => {
                    for (start, end) in blocks {
                        options.sack.push(SackBlock { start: self.ours + *start, end: self.ours + *end });
                    }
                }
            }
        }
        options
    }

    /// The next segment that we have sent, or that will leave within `wait_ns`; and when it must have.
    pub fn next_seen(&mut self, wait_ns: u64) -> Result<(Option<Seen>, u64), String> {
        let due_ns = self.now_ns + wait_ns;
        self.pass(wait_ns, true)?;
        let seen = self.seen.pop_front();
        if let Some(seen) = seen.as_ref().filter(|seen| seen.header.flags.has(Flags::SYN)) {
            self.ours = seen.header.sequence;
        }
        Ok((seen, due_ns))
    }

    /// How a segment of ours would stand in a script.
    pub fn describe(&self, seen: &Seen) -> String {
        let header = &seen.header;
        let seq = header.sequence.since(self.ours);
        let place = if seen.payload.is_empty() {
            seq.to_string()
        } else {
            format!("{seq}:{}", seq + seen.payload.len() as u32)
        };
        let ack = match header.flags.has(Flags::ACK) {
            true => format!(" ack {}", header.acknowledgement.since(THEIR_ISS)),
            false => String::new(),
        };
        let mut flags: String = String::new();
        let letters = [
            (Flags::SYN, 'S'),
            (Flags::FIN, 'F'),
            (Flags::RST, 'R'),
            (Flags::PSH, 'P'),
            (Flags::URG, 'U'),
            (Flags::ACK, '.'),
        ];
        flags.extend(letters.iter().filter(|(flag, _)| header.flags.has(*flag)).map(|(_, letter)| letter));
        format!("> {flags} {place}{ack} win {} <{}>", header.window, self.named(&header.options).join(", "))
    }

    fn named(&self, options: &Options) -> Vec<String> {
        let mut names = Vec::new();
        names.extend(options.maximum_segment_size.map(|bytes| format!("mss {bytes}")));
        names.extend(options.window_scale.map(|shift| format!("ws {shift}")));
        names.extend(options.sack_permitted.then(|| "sackok".to_owned()));
        names.extend(options.timestamps.map(|clock| format!("ts */{}", clock.echo)));
        let block = |block: &SackBlock| format!(" {}:{}", block.start.since(THEIR_ISS), block.end.since(THEIR_ISS));
        let blocks: String = options.sack.as_slice().iter().map(block).collect();
        names.extend((!blocks.is_empty()).then(|| format!("sack{blocks}")));
        names
    }

    /// Whether `seen` is what the script wants.
    pub fn is_as(&self, packet: &Packet, seen: &Seen) -> bool {
        let header = &seen.header;
        let (start, sack) = (header.sequence.since(self.ours), header.options.sack);
        let is_payload_right = seen.payload.len() == packet.bytes as usize
            && seen.payload.iter().enumerate().all(|(at, own)| *own == byte((start as usize + at).wrapping_sub(1)));
        let ack = header.flags.has(Flags::ACK).then(|| header.acknowledgement.since(THEIR_ISS));
        let has = |choice: &Choice| match choice {
            Choice::SegmentSize(bytes) => header.options.maximum_segment_size == Some(*bytes),
            Choice::WindowScale(shift) => header.options.window_scale == Some(*shift),
            Choice::SackPermitted => header.options.sack_permitted,
            Choice::Timestamps(_, echo) => header.options.timestamps.is_some_and(|clock| clock.echo == *echo),
            Choice::Sack(blocks) => {
                let told = sack.as_slice().iter().map(|one| (one.start.since(THEIR_ISS), one.end.since(THEIR_ISS)));
                told.eq(blocks.iter().copied())
            }
        };
        let are_options_right = packet
            .options
            .as_ref()
            .is_none_or(|choices| choices.iter().all(has) && (!choices.is_empty() || header.options == Options::NONE));
        header.flags == packet.flags
            && start == packet.seq
            && is_payload_right
            && ack == packet.ack
            && packet.window.is_none_or(|window| window == header.window)
            && are_options_right
    }

    pub fn number_of_ours(&self, seq: u32) -> SequenceNumber {
        self.ours + seq
    }
}
