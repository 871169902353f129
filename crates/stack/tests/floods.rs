//! Floods: what a stranger can send without limit costs a bounded memory, is counted, and harms no connection.

#[path = "scripting/mod.rs"]
mod scripting;

use scripting::parse::Packet;
use scripting::play::Play;
use sidestep_stack::tcp::{Config, ConnectionId, Counter, State};
use sidestep_wire::tcp::Flags;

/// Segments of one flood, and after how many the connection in the middle of it works.
const FLOOD: u32 = 20_000;
const ROUND: u32 = 500;
const BYTES: u32 = 700;

fn packet(flags: Flags, seq: u32, bytes: u32, ack: u32) -> Packet {
    let ack = flags.has(Flags::ACK).then_some(ack);
    Packet { flags, seq, bytes, ack, window: Some(60_000), options: None }
}

/// A stack with one established connection, from the peer's port 5000.
struct Flooded {
    play: Play,
    id: ConnectionId,
    their_seq: u32,
    our_seq: u32,
}

impl Flooded {
    fn new(config: Config) -> Self {
        let mut play = Play::new(config);
        let options = play.tcp.config().options();
        play.listener = Some(play.tcp.listen(scripting::play::here(), 64, options).expect("nobody listens yet"));
        play.inject(&packet(Flags::SYN, 0, 0, 0)).expect("audit");
        assert!(play.next_seen(0).expect("audit").0.is_some(), "no SYN-ACK");
        play.inject(&packet(Flags::ACK, 1, 0, 1)).expect("audit");
        let id = play.tcp.accept(play.listener.expect("it listens")).expect("the handshake is over");
        play.id = Some(id);
        Self { play, id, their_seq: 1, our_seq: 1 }
    }

    /// Data goes both ways, byte by byte as it should, in the middle of the flood.
    fn works(&mut self) {
        let (play, id) = (&mut self.play, self.id);
        play.port = 5000;
        play.seen.clear();
        play.inject(&packet(Flags::ACK | Flags::PSH, self.their_seq, BYTES, self.our_seq)).expect("audit");
        self.their_seq += BYTES;
        for words in [["send", "700"], ["read", "9999"]] {
            assert_eq!(scripting::calls::call(play, &words), Ok(BYTES.to_string()), "{words:?}");
        }
        let mut sent = 0;
        while let (Some(seen), _) = play.next_seen(0).expect("audit") {
            sent += seen.payload.len() as u32;
        }
        assert_eq!(sent, BYTES, "the answer leaves, flood or not");
        self.our_seq += BYTES;
        play.inject(&packet(Flags::ACK, self.their_seq, 0, self.our_seq)).expect("audit");
        assert_eq!(play.tcp.facts(id).map(|facts| (facts.state, facts.unacknowledged)), Ok((State::Established, 0)));
    }

    /// Runs the flood; gives how many segments we have answered with.
    fn flood(&mut self, mut segment: impl FnMut(&mut Self, u32) -> Packet) -> usize {
        let mut answers = 0;
        for number in 0..FLOOD {
            let packet = segment(self, number);
            self.play.inject(&packet).expect("audit");
            answers += self.play.seen.len();
            self.play.seen.clear();
            if number % ROUND == 0 {
                self.works();
                self.play.pass(1_000_000, false).expect("audit");
                self.play.seen.clear();
            }
        }
        self.works();
        answers
    }

    fn counted(&self, counter: Counter) -> u64 {
        self.play.tcp.counters().value(counter)
    }
}

#[test]
fn a_syn_flood_is_bounded() {
    for syn_cookies in [true, false] {
        let mut flooded = Flooded::new(Config { syn_queue_max: 100, syn_cookies, ..scripting::calls::settings() });
        flooded.flood(|flooded, number| {
            flooded.play.port = 6000 + (number % 40_000) as u16;
            packet(Flags::SYN, 7 * number, 0, 0)
        });
        // One connection, and as many half-open ones as the queue holds.
        assert_eq!(flooded.play.tcp.connections(), (101, 0));
        assert!(flooded.counted(Counter::SynQueueFull) > u64::from(FLOOD) - 1000);
        assert_eq!(flooded.counted(Counter::CookiesSent) > 0, syn_cookies);
        if syn_cookies {
            // An honest peer gets through.
            flooded.play.port = 5999;
            flooded.play.inject(&packet(Flags::SYN, 0, 0, 0)).expect("audit");
            assert!(flooded.play.next_seen(0).expect("audit").0.is_some());
            flooded.play.inject(&packet(Flags::ACK, 1, 0, 1)).expect("audit");
            let listener = flooded.play.listener.expect("it listens");
            assert!(flooded.play.tcp.accept(listener).is_ok());
        }
        // The half-open ones are forgotten.
        flooded.play.pass(400_000_000_000, false).expect("audit");
        assert_eq!(flooded.play.tcp.connections().0, if syn_cookies { 2 } else { 1 });
    }
}

#[test]
fn acks_for_nothing_make_nothing() {
    let mut flooded = Flooded::new(scripting::calls::settings());
    flooded.flood(|flooded, number| {
        flooded.play.port = 6000 + (number % 40_000) as u16;
        packet(Flags::ACK, number, number % 3, 5 * number)
    });
    assert_eq!(flooded.play.tcp.connections(), (1, 0));
    assert!(flooded.counted(Counter::NoConnection) >= u64::from(FLOOD) - 1);
}

#[test]
fn acks_for_the_connection_are_answered_rarely() {
    let mut flooded = Flooded::new(scripting::calls::settings());
    let answers = flooded.flood(|flooded, number| {
        flooded.play.port = 5000;
        // Of what was never sent, far too old, and from outside the window.
        match number % 3 {
            0 => packet(Flags::ACK, flooded.their_seq, 0, flooded.our_seq + 1 + number),
            1 => packet(Flags::ACK, flooded.their_seq, 0, flooded.our_seq.wrapping_sub(1 << 30)),
            _ => packet(Flags::ACK, flooded.their_seq + 100_000, 0, flooded.our_seq),
        }
    });
    // The flood takes 40 ms.
    let most = flooded.play.tcp.config().challenge_acks_per_second as usize;
    assert!(answers <= most, "{answers} answers");
    assert!(flooded.counted(Counter::AcksBad) > u64::from(FLOOD) / 2);
    assert!(flooded.counted(Counter::ChallengesSuppressed) > u64::from(FLOOD) / 2);
}

#[test]
fn resets_beside_the_edge_reset_nothing() {
    let mut flooded = Flooded::new(scripting::calls::settings());
    let answers = flooded.flood(|flooded, number| {
        flooded.play.port = 5000;
        let seq = match number % 4 {
            0 => flooded.their_seq + 1 + number,
            1 => flooded.their_seq.wrapping_sub(1 + number),
            2 => flooded.their_seq + 70_000 + number,
            _ => flooded.their_seq + 1,
        };
        packet(if number % 2 == 0 { Flags::RST } else { Flags::RST | Flags::ACK }, seq, 0, flooded.our_seq)
    });
    assert!(answers <= flooded.play.tcp.config().challenge_acks_per_second as usize, "{answers} answers");
    assert_eq!(flooded.counted(Counter::ResetsIn), 0);
    assert!(flooded.counted(Counter::ChallengesSuppressed) > u64::from(FLOOD) / 4);
    // And the one at the edge does what it must.
    let their_seq = flooded.their_seq;
    flooded.play.inject(&packet(Flags::RST, their_seq, 0, 0)).expect("audit");
    assert_eq!(flooded.counted(Counter::ResetsIn), 1);
}

#[test]
fn segments_beyond_holes_are_bounded() {
    let mut flooded = Flooded::new(scripting::calls::settings());
    let start = flooded.their_seq;
    for number in 0..30_000 {
        // Every second byte of the window.
        flooded.play.inject(&packet(Flags::ACK, start + 1 + 2 * number, 1, 1)).expect("audit");
        flooded.play.seen.clear();
    }
    let facts = flooded.play.tcp.facts(flooded.id).expect("it lives");
    assert_eq!(facts.out_of_order, flooded.play.tcp.config().out_of_order_ranges_max);
    assert!(flooded.counted(Counter::OutOfOrderDropped) > 20_000);
}
